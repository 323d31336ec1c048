/** Parses the JSON filter of a structured query. */

import { isObject } from '../../../core/json.ts'
import { type Filter, type Literal, negated, type Path, type Pattern, type Test } from './filter.ts'
import {
  type Container,
  checkElements,
  checkJson,
  checkParts,
  containerOf,
  type JsonObject,
  readPattern,
  readSteps,
} from './operands.ts'
import { type Operand, readOperator } from './operators.ts'
import { Budget, readPath, refusal, type Source } from './syntax.ts'

/** `{field: value | {operator: value}, $or: [{…}, …], $and: […], $not: {…}}`; all members hold. */
export function readBodyFilter(filter: JsonObject): Filter {
  checkParts(filter, { code: 'filter_too_large', in: 'body', name: 'filter' })
  return readAll(filter, new Budget(), 0)
}

function readAll(filter: JsonObject, budget: Budget, depth: number): Filter {
  return { kind: 'all', of: Object.entries(filter).map((entry) => readMember(entry, budget, depth)) }
}

function readMember([key, value]: [string, unknown], budget: Budget, depth: number): Filter {
  const source: Source = { code: 'filter_invalid', in: 'body', name: key }
  if (key === '$or' || key === '$and' || key === '$not')
    return readGroup(key, value, source, budget, depth + 1)
  if (key.startsWith('$')) {
    const hint = 'There are $or, $and and $not; a field of such a name is written in quotes.'
    throw refusal({ ...source, code: 'filter_operator_unknown' }, `There is no ${key.slice(0, 50)}.`, hint)
  }
  return readTests(readPath(key, source), value, source, budget, depth)
}

function readGroup(key: string, value: unknown, source: Source, budget: Budget, depth: number): Filter {
  budget.open(depth, source)
  if (key === '$not') {
    if (!isObject(value)) throw refusal(source, '$not takes a filter.')
    return negated(readAll(value, budget, depth))
  }
  if (!Array.isArray(value) || !value.every(isObject))
    throw refusal(source, `${key} takes an array of filters.`)
  // An empty filter asks nothing, and may come a thousand times.
  for (const filter of value) if (Object.keys(filter).length === 0) budget.spend(source)
  return { kind: key === '$or' ? 'any' : 'all', of: value.map((filter) => readAll(filter, budget, depth)) }
}

/** An object in the place of a value names operators; equality with an object is spelled `{eq: {…}}`. */
function readTests(path: Path, value: unknown, source: Source, budget: Budget, depth: number): Filter {
  const tests = isObject(value) ? Object.entries(value) : [['eq', value] as const]
  if (tests.length === 0) throw refusal(source, 'An empty object asks nothing.')
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
  const operand = new JsonOperand(value, source)
  return readOperator(path, { name: name === 'ne' ? 'neq' : name, quantifier }, operand, budget)
}

class JsonOperand implements Operand {
  readonly source: Source
  readonly #value: unknown

  constructor(value: unknown, source: Source) {
    this.#value = value
    this.source = source
  }

  get isNull(): boolean {
    return this.#value === null
  }

  literal(): Literal {
    if (!this.isNull) return [checkJson(this.#value, this.source)]
    const hint = 'Write {"field": null}, or {"field": {"neq": null}}.'
    throw refusal({ ...this.source, code: 'filter_null_operator' }, 'null stands alone.', hint)
  }

  comparable(): Literal {
    const literal = this.literal()
    if (typeof this.#value === 'number' || typeof this.#value === 'string') return literal
    throw this.#mismatch('Numbers and texts have an order, other values have none.')
  }

  list(): Literal[] {
    return this.each().map((element) => element.literal())
  }

  pattern(): Pattern {
    if (typeof this.#value === 'string') return readPattern(this.#value, this.source)
    throw this.#mismatch('A pattern is a text.')
  }

  /** `["$.a.b", value]` */
  pathTest(): Test {
    const [path, wanted, ...more] = Array.isArray(this.#value) ? this.#value : []
    if (typeof path !== 'string' || wanted === undefined || more.length > 0)
      throw refusal(this.source, 'json_path_eq takes [path, value].')
    const { steps, end } = readSteps(path, this.source)
    if (end < path.length) throw refusal(this.source, `At ${end} of the path there should be a step.`)
    return { op: 'at', steps, value: new JsonOperand(wanted, this.source).literal() }
  }

  container(): Container {
    return containerOf(this.#value, this.source)
  }

  word(): string {
    const value = this.#value
    return typeof value === 'object' && value !== null ? '' : String(value).toLowerCase()
  }

  each(): JsonOperand[] {
    if (!Array.isArray(this.#value)) throw refusal(this.source, 'Here stands an array.')
    checkElements(this.#value, this.source)
    return this.#value.map((element) => new JsonOperand(element, this.source))
  }

  written(operator: string): string {
    return `{${JSON.stringify(this.source.name.slice(0, 100))}: {"${operator}": …}}`
  }

  #mismatch(detail: string): Error {
    return refusal({ ...this.source, code: 'filter_type_mismatch' }, detail)
  }
}
