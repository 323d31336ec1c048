/** The structured query: `filter` and `sort` as JSON, exactly typed by it. */

import { nearest } from '../../../../flows-dsl/faults.ts'
import { LIMITS } from '../../../core/limits.ts'
import type { Json } from '../../../core/work.ts'
import type { Comparison, Filter, Literal, OrderKey, Path, Test } from './filter.ts'
import { readSteps } from './json-path.ts'
import { readPattern } from './pattern.ts'
import { checkText, readPath, refusal, type Source } from './text.ts'
import { orderKey } from './url.ts'

type Members = Readonly<Record<string, unknown>>
type Read = (value: unknown, source: Source) => Test

const TESTS: Readonly<Record<string, Read>> = {
  eq: (value, source) => ({ op: 'in', values: [literal(value, source)] }),
  in: (value, source) => ({ op: 'in', values: list(value, source) }),
  gt: (value, source) => compared('gt', value, source),
  gte: (value, source) => compared('gte', value, source),
  lt: (value, source) => compared('lt', value, source),
  lte: (value, source) => compared('lte', value, source),
  like: (value, source) => ({ op: 'like', pattern: readPattern(text(value, source), source), fold: false }),
  ilike: (value, source) => ({ op: 'like', pattern: readPattern(text(value, source), source), fold: true }),
  json_path_eq: pathTest,
}
const OPERATORS = [...Object.keys(TESTS), 'neq']

/** Counts what is asked, so that nesting hides nothing. */
interface Budget {
  left: number
}

/** `{field: value | {operator: value}, $or: [{…}, …], $and: […]}`; all members hold. */
export function readBodyFilter(filter: Members): Filter {
  return readAll(filter, { left: LIMITS.filtersMax }, 1)
}

function readAll(filter: Members, budget: Budget, depth: number): Filter {
  return { kind: 'all', of: Object.entries(filter).flatMap((entry) => readMember(entry, budget, depth)) }
}

function readMember([key, value]: [string, unknown], budget: Budget, depth: number): Filter[] {
  const source: Source = { code: 'filter_invalid', in: 'body', name: key }
  if (key === '$or' || key === '$and') return [readGroup(key, value, source, budget, depth)]
  if (key.startsWith('$')) {
    const hint = 'There are $or and $and; a field of such a name is written in quotes.'
    throw refusal({ ...source, code: 'filter_operator_unknown' }, `There is no ${key.slice(0, 50)}.`, hint)
  }
  const path = readPath(key, source)
  // An object in the place of a value names operators; equality with an object is spelled `{eq: {…}}`.
  const tests = isObject(value) ? Object.entries(value) : [['eq', value] as const]
  if (tests.length === 0) throw refusal(source, 'An empty object asks nothing.')
  return tests.map(([name, operand]) => readTest(path, name, operand, source, budget))
}

function readGroup(
  key: '$or' | '$and',
  value: unknown,
  source: Source,
  budget: Budget,
  depth: number,
): Filter {
  if (!Array.isArray(value) || !value.every(isObject))
    throw refusal(source, `${key} takes an array of filters.`)
  if (depth >= LIMITS.filterDepthMax)
    throw refusal(source, `Filters are nested at most ${LIMITS.filterDepthMax} deep.`)
  for (const _ of value) spend(budget, source)
  const of = value.map((filter) => readAll(filter, budget, depth + 1))
  return { kind: key === '$or' ? 'any' : 'all', of }
}

function spend(budget: Budget, source: Source): void {
  budget.left -= 1
  if (budget.left >= 0) return
  throw refusal({ ...source, code: 'filter_too_large' }, `A query has at most ${LIMITS.filtersMax} filters.`)
}

const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function readTest(path: Path, spelled: string, operand: unknown, source: Source, budget: Budget): Filter {
  spend(budget, source)
  const name = spelled.replace(/^\$/, '')
  const not = name === 'neq' || name === 'ne'
  if (operand === null && (not || name === 'eq')) return { kind: 'null', path, not }
  const key = not ? 'eq' : name
  const read = Object.hasOwn(TESTS, key) ? TESTS[key] : undefined
  if (read === undefined) {
    const near = nearest(name, OPERATORS)
    const detail = `There is no operator ${name.slice(0, 50)}. There are ${OPERATORS.join(', ')}.`
    const hint = near === undefined ? undefined : `Did you mean ${near}?`
    throw refusal({ ...source, code: 'filter_operator_unknown' }, detail, hint)
  }
  return { kind: 'test', path, test: read(operand, source), not }
}

function literal(value: unknown, source: Source): Literal {
  if (value === null) {
    const hint = 'Write {"field": null}, or {"field": {"neq": null}}.'
    throw refusal({ ...source, code: 'filter_null_operator' }, 'null stands alone.', hint)
  }
  checkJson(value, source, 1)
  return [value as Json]
}

/** Depth first: what comes is as deep as its sender liked. */
function checkJson(value: unknown, source: Source, depth: number): void {
  if (typeof value === 'string') checkText(value, source)
  if (typeof value !== 'object' || value === null) return
  if (depth > LIMITS.documentDepthMax)
    throw refusal(source, 'A value is nested deeper than a document can be.')
  for (const [name, member] of Object.entries(value)) {
    checkText(name, source)
    checkJson(member, source, depth + 1)
  }
}

function list(value: unknown, source: Source): Literal[] {
  if (!Array.isArray(value)) throw refusal(source, '`in` takes an array.')
  if (value.length > LIMITS.filterValuesMax) {
    const detail = `A list has at most ${LIMITS.filterValuesMax} elements; this one has ${value.length}.`
    throw refusal({ ...source, code: 'filter_too_large' }, detail)
  }
  return value.map((element) => literal(element, source))
}

function compared(op: Comparison, value: unknown, source: Source): Test {
  const operand = literal(value, source)
  if (typeof value === 'number' || typeof value === 'string') return { op, value: operand }
  throw refusal({ ...source, code: 'filter_type_mismatch' }, `${op} compares numbers or texts.`)
}

function text(value: unknown, source: Source): string {
  if (typeof value === 'string') return value
  throw refusal({ ...source, code: 'filter_type_mismatch' }, 'A pattern is a text.')
}

/** `{"json_path_eq": ["$.a.b", value]}` */
function pathTest(value: unknown, source: Source): Test {
  const [path, wanted, ...more] = Array.isArray(value) ? value : []
  if (typeof path !== 'string' || wanted === undefined || more.length > 0)
    throw refusal(source, 'json_path_eq takes [path, value].')
  const { steps, end } = readSteps(path, source)
  if (end < path.length) throw refusal(source, `At ${end} of the path there should be a step.`)
  return { op: 'at', steps, value: literal(wanted, source) }
}

/** `{a: -1, b: 1}`, in the order of the members. */
export function readSort(sort: Readonly<Record<string, 1 | -1>>): OrderKey[] {
  const source: Source = { code: 'order_invalid', in: 'body', name: 'sort' }
  const keys = Object.entries(sort)
  if (keys.length > LIMITS.orderKeysMax)
    throw refusal(source, `An order has at most ${LIMITS.orderKeysMax} keys.`)
  return keys.map(([key, direction]) => orderKey(readPath(key, source), direction === -1))
}
