/** Parses the JSON filter of a structured query. */

import { isObject, shortQuote } from '../../../core/json.ts'
import {
  type Comparison,
  type Filter,
  type Literal,
  negated,
  ofOwnField,
  type Path,
  type Test,
} from './filter.ts'
import {
  checkElements,
  checkJson,
  checkParts,
  containerOf,
  type JsonObject,
  readPattern,
  readSteps,
} from './operands.ts'
import { type Operand, readOperator } from './operators.ts'
import { Budget, type FilterOptions, readPath, refusal, type Source } from './syntax.ts'

/**
 * `{field: value | {operator: value}, $or: [{…}, …], $and: […], $not: {…}}`; all members hold.
 * @param options `comparesFields`: true if an operand may be `{"$field": "name"}`; `joins`: true for `some` and `none`
 */
export function readBodyFilter(filter: JsonObject, options?: FilterOptions): Filter {
  checkParts(filter, { code: 'filter_too_large', in: 'body', name: 'filter' })
  return readAll(filter, new Budget(options), 0)
}

function readAll(filter: JsonObject, budget: Budget, depth: number): Filter {
  return { kind: 'all', of: Object.entries(filter).map((entry) => readMember(entry, budget, depth)) }
}

function readMember([key, value]: [string, unknown], budget: Budget, depth: number): Filter {
  const source: Source = { code: 'filter_invalid', in: 'body', name: key }
  if (key === '$or' || key === '$and' || key === '$not')
    return readGroup(key, value, source, budget, depth + 1)
  if (key.startsWith('$')) {
    const hint = 'Use $or, $and or $not. Write a field whose name begins with $ in quotes.'
    throw refusal(
      { ...source, code: 'filter_operator_unknown' },
      `The operator ${key.slice(0, 50)} is not known.`,
      hint,
    )
  }
  const tests = readTests(readPath(key, source), value, source, budget, depth)
  return key.startsWith('"') ? ofOwnField(tests) : tests
}

function readGroup(key: string, value: unknown, source: Source, budget: Budget, depth: number): Filter {
  budget.open(depth, source)
  if (key === '$not') {
    if (!isObject(value)) throw refusal(source, '$not takes a filter.')
    return negated(readAll(value, budget, depth))
  }
  if (!Array.isArray(value) || !value.every(isObject))
    throw refusal(source, `${key} takes an array of filters.`)
  // Empty filters count, too: there may be a thousand of them.
  for (const filter of value) if (Object.keys(filter).length === 0) budget.spend(source)
  return { kind: key === '$or' ? 'any' : 'all', of: value.map((filter) => readAll(filter, budget, depth)) }
}

/** An object in the place of a value names operators; equality with an object is spelled `{eq: {…}}`. */
function readTests(path: Path, value: unknown, source: Source, budget: Budget, depth: number): Filter {
  const isOperand = !isObject(value) || (budget.comparesFields && fieldIn(value) !== undefined)
  const tests = isOperand ? [['eq', value] as const] : Object.entries(value)
  if (tests.length === 0) throw refusal(source, 'An empty object is not a filter of a field.')
  const of = tests.map(([spelled, operand]) => {
    const name = spelled.replace(/^\$/, '')
    if (name !== 'not') return readTest(path, name, operand, source, budget)
    budget.open(depth + 1, source)
    return negated(readTests(path, operand, source, budget, depth + 1))
  })
  const [only] = of
  return only !== undefined && of.length === 1 ? only : { kind: 'all', of }
}

function readTest(path: Path, spelled: string, value: unknown, source: Source, budget: Budget): Filter {
  const [, name = spelled, quantifier] = /^([a-z_]+)\(([a-z]*)\)$/.exec(spelled) ?? []
  const operator = { name: name === 'ne' ? 'neq' : name, quantifier }
  const other = budget.comparesFields ? fieldIn(value) : undefined
  if (other !== undefined) {
    budget.spend(source)
    return readComparison(path, { ...operator, other: readPath(other, source) }, source)
  }
  return readOperator(path, operator, jsonOperand(value, source, budget), budget)
}

/** The name in `{"$field": "name"}`; undefined for other values. */
function fieldIn(value: unknown): string | undefined {
  if (!isObject(value) || Object.keys(value).length !== 1) return undefined
  const { $field: name } = value
  return typeof name === 'string' ? name : undefined
}

const COMPARISONS: Readonly<Record<string, { readonly op: 'eq' | Comparison; readonly not: boolean }>> = {
  eq: { op: 'eq', not: false },
  neq: { op: 'eq', not: true },
  gt: { op: 'gt', not: false },
  gte: { op: 'gte', not: false },
  lt: { op: 'lt', not: false },
  lte: { op: 'lte', not: false },
}

function readComparison(
  path: Path,
  { name, quantifier, other }: { name: string; quantifier: string | undefined; other: Path },
  source: Source,
): Filter {
  const comparison =
    quantifier === undefined && Object.hasOwn(COMPARISONS, name) ? COMPARISONS[name] : undefined
  if (comparison !== undefined) return { kind: 'fields', path, other, ...comparison }
  const hint = `Two fields are compared by ${Object.keys(COMPARISONS).join(', ')}.`
  throw refusal(source, `The operator ${name.slice(0, 50)} takes no field.`, hint)
}

function jsonOperand(value: unknown, source: Source, budget: Budget): Operand {
  const mismatch = (detail: string) => refusal({ ...source, code: 'filter_type_mismatch' }, detail)
  const literal = (): Literal => {
    if (value !== null) return [checkJson(value, source)]
    const hint = 'Write {"field": null}, or {"field": {"neq": null}}.'
    throw refusal({ ...source, code: 'filter_null_operator' }, 'This operator does not accept null.', hint)
  }
  const each = () => {
    if (!Array.isArray(value)) throw refusal(source, 'This operator needs an array.')
    checkElements(value, source)
    return value.map((element) => jsonOperand(element, source, budget))
  }
  return {
    source,
    isNull: value === null,
    literal,
    each,
    comparable: () => {
      const checked = literal()
      if (typeof value === 'number' || typeof value === 'string') return checked
      throw mismatch('Numbers and texts have an order, other values have none.')
    },
    list: () => each().map((element) => element.literal()),
    pattern: () => {
      if (typeof value === 'string') return readPattern(value, source)
      throw mismatch('A pattern is a text.')
    },
    pathTest: () => readPathPair(value, source),
    container: () => containerOf(value, source),
    word: () => (typeof value === 'object' && value !== null ? '' : String(value).toLowerCase()),
    filter: () => {
      if (isObject(value)) return readAll(value, budget, 1)
      throw refusal(source, 'The operand is a filter: {"comments": {"some": {"status": "open"}}}.')
    },
    written: (operator) => `{${shortQuote(source.name)}: {"${operator}": …}}`,
  }
}

/** `["$.a.b", value]` */
function readPathPair(value: unknown, source: Source): Test {
  const [path, expected, ...more] = Array.isArray(value) ? value : []
  if (typeof path !== 'string' || expected === undefined || more.length > 0)
    throw refusal(source, 'json_path_eq takes [path, value].')
  const { steps, end } = readSteps(path, source)
  if (end < path.length) throw refusal(source, `At ${end} of the path there should be a step.`)
  return { op: 'at', steps, value: jsonOperand(expected, source, new Budget()).literal() }
}
