/** The keywords of JSON Schema 2020-12: one rule each, and the instance location they are applied to. */

import { type Budget, spend } from '../budget.ts'
import type { Json, JsonObject } from '../ir.ts'
import { compare } from '../jq/operators.ts'
import { fieldOf, isObject, pointerTo } from '../json.ts'
import { matches } from './pattern.ts'

/** Tests a text against a `format` of JSON Schema. */
export type FormatTest = (format: string, text: string) => boolean

/** The parts that all instances of one evaluation share. */
export interface Evaluation {
  /** The schema as a whole; `$ref` leads there. */
  readonly root: Json
  readonly budget: Budget
  /** Without it, `format` is an annotation. */
  readonly hasFormat: FormatTest | undefined
  check(schema: Json, instance: Instance): void
  passes(schema: Json, instance: Instance): boolean
}

/** Receives a violation. `missing` is the name of a required property. */
export type Report = (instance: Instance, message: string, missing?: string) => void

/** The steps from the whole value to a part of it, the last one first; undefined for the whole. */
type Path = { readonly key: string | number; readonly above: Path } | undefined

/** A value under validation, its location, and the means to validate the values below it. */
export class Instance {
  readonly evaluation: Evaluation
  readonly value: Json
  readonly depth: number
  /** The keyword that is being evaluated. */
  readonly keyword: string
  readonly report: Report
  readonly #path: Path

  constructor(
    { evaluation, report }: Pick<Instance, 'evaluation' | 'report'>,
    value: Json,
    { depth, keyword }: Pick<Instance, 'depth' | 'keyword'>,
    path: Path = undefined,
  ) {
    this.evaluation = evaluation
    this.report = report
    this.value = value
    this.depth = depth
    this.keyword = keyword
    this.#path = path
  }

  get budget(): Budget {
    return this.evaluation.budget
  }

  check(schema: Json, instance: Instance): void {
    this.evaluation.check(schema, instance)
  }

  passes(schema: Json, instance: Instance): boolean {
    return this.evaluation.passes(schema, instance)
  }

  /** The instance of an item or a field of the value. */
  child(key: string | number, value: Json): Instance {
    return new Instance(this, value, this, { key, above: this.#path })
  }

  /** The same instance for a keyword of a schema, one schema deeper. */
  atKeyword(keyword: string): Instance {
    return new Instance(this, this.value, { depth: this.depth + 1, keyword }, this.#path)
  }

  /** The same instance with another receiver of violations. */
  withReporter(report: Report): Instance {
    return new Instance({ evaluation: this.evaluation, report }, this.value, this, this.#path)
  }

  /** JSON pointer of the value. Computed on demand: most values are valid. */
  get pointer(): string {
    const keys: (string | number)[] = []
    for (let step = this.#path; step !== undefined; step = step.above) keys.push(step.key)
    return keys.reduceRight<string>(pointerTo, '')
  }
}

/** Validates an instance against a keyword. `schema` is the schema with the keyword, for its sibling keywords. */
export type Rule = (operand: Json, instance: Instance, schema: JsonObject) => void

export function fail(instance: Instance, message: string): void {
  instance.report(instance, message)
}

/** `1 item`, `2 items` */
function countText(count: Json, noun: string, plural = `${noun}s`): string {
  return `${String(count)} ${count === 1 ? noun : plural}`
}

/** Messages list few values: an error is seen by more readers than the data. */
const LISTED_MAX = 5

export const SCALARS: Readonly<Record<string, Rule>> = {
  type: (operand, instance) => {
    const types = (Array.isArray(operand) ? operand : [operand]).map(String)
    if (types.some((type) => isOf(instance.value, type))) return
    fail(instance, `must be ${types.map(withArticle).join(' or ')}`)
  },
  enum: (operand, instance) => {
    if (!Array.isArray(operand)) return
    if (operand.some((one) => equal(one, instance.value, instance))) return
    const plain = operand.filter((one) => typeof one !== 'object' || one === null)
    const isListed = plain.length === operand.length && plain.length <= LISTED_MAX
    const values = isListed ? plain.map((one) => JSON.stringify(one)).join(', ') : 'the values listed'
    fail(instance, `must be one of ${values}`)
  },
  const: (operand, instance) => {
    if (!equal(operand, instance.value, instance)) fail(instance, 'must be equal to the value of `const`')
  },
  minimum: bound((value, limit) => value >= limit, 'at least'),
  maximum: bound((value, limit) => value <= limit, 'at most'),
  exclusiveMinimum: bound((value, limit) => value > limit, 'more than'),
  exclusiveMaximum: bound((value, limit) => value < limit, 'less than'),
  multipleOf: bound((value, of) => Number.isInteger(value / of), 'a multiple of'),
  minLength: atLeast(lengthOf, 'character'),
  maxLength: atMost(lengthOf, 'character'),
  format: (operand, instance) => {
    const { value, budget, evaluation } = instance
    if (typeof value !== 'string' || evaluation.hasFormat === undefined) return
    // The tests backtrack: their time may grow with the square of the length.
    spend(budget, 8 + value.length / 8 + value.length ** 2 / 1_024)
    if (!evaluation.hasFormat(String(operand), value))
      fail(instance, `must match the format ${String(operand)}`)
  },
  pattern: (operand, instance) => {
    if (typeof instance.value === 'string' && !matches(String(operand), instance.value, instance.budget))
      fail(instance, `must match ${String(operand)}`)
  },
}

function bound(holds: (value: number, limit: number) => boolean, words: string): Rule {
  return (operand, instance) => {
    if (typeof instance.value === 'number' && typeof operand === 'number' && !holds(instance.value, operand))
      fail(instance, `must be ${words} ${operand}`)
  }
}

/** Equality of JSON Schema is that of jq: by value, numbers by their size, fields in any order. */
function equal(a: Json, b: Json, { budget }: Instance): boolean {
  return compare(a, b, budget) === 0
}

/** Counts the parts of a value; undefined if it is of another type. */
type Count = (instance: Instance) => number | undefined

function atLeast(count: Count, noun: string, plural?: string): Rule {
  return (operand, instance) => {
    if ((count(instance) ?? Number.POSITIVE_INFINITY) < Number(operand))
      fail(instance, `must have at least ${countText(operand, noun, plural)}`)
  }
}

function atMost(count: Count, noun: string, plural?: string): Rule {
  return (operand, instance) => {
    if ((count(instance) ?? 0) > Number(operand))
      fail(instance, `must have at most ${countText(operand, noun, plural)}`)
  }
}

/** The length of a string in code points, as JSON Schema counts. */
function lengthOf({ value, budget }: Instance): number | undefined {
  if (typeof value !== 'string') return undefined
  spend(budget, value.length / 16)
  let length = 0
  for (const _point of value) length++
  return length
}

function isOf(value: Json, type: string): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isObject(value)
  if (type === 'integer') return Number.isInteger(value)
  return typeof value === type
}

function withArticle(type: string): string {
  return type === 'null' ? type : `${/^[aio]/.test(type) ? 'an' : 'a'} ${type}`
}

export const ARRAYS: Readonly<Record<string, Rule>> = {
  prefixItems: (operand, instance) => {
    const { value } = instance
    if (!Array.isArray(operand) || !Array.isArray(value)) return
    for (const [index, schema] of operand.slice(0, value.length).entries())
      instance.check(schema, instance.child(index, value[index] ?? null))
  },
  items: (operand, instance, schema) => {
    const { value } = instance
    if (!Array.isArray(value)) return
    const prefix = fieldOf(schema, 'prefixItems')
    const first = Array.isArray(prefix) ? prefix.length : 0
    for (let index = first; index < value.length; index++)
      instance.check(operand, instance.child(index, value[index] ?? null))
  },
  contains: (operand, instance, schema) => {
    const { value } = instance
    if (!Array.isArray(value)) return
    const least = Number(fieldOf(schema, 'minContains') ?? 1)
    const most = Number(fieldOf(schema, 'maxContains') ?? Number.POSITIVE_INFINITY)
    const count = value.filter((item, index) => instance.passes(operand, instance.child(index, item))).length
    if (count < least) fail(instance, `must contain at least ${countText(least, 'such item')}`)
    if (count > most) fail(instance, `must contain at most ${countText(most, 'such item')}`)
  },
  minItems: atLeast(itemCount, 'item'),
  maxItems: atMost(itemCount, 'item'),
  uniqueItems: (operand, instance) => {
    if (operand === true && hasDuplicates(instance)) fail(instance, 'must not have the same item twice')
  },
}

function itemCount({ value }: Instance): number | undefined {
  return Array.isArray(value) ? value.length : undefined
}

/** Tests if two items are equal. Sorting puts them next to each other. */
function hasDuplicates({ value, budget }: Instance): boolean {
  if (!Array.isArray(value)) return false
  spend(budget, value.length)
  const sorted = [...value].sort((a, b) => compare(a, b, budget))
  return sorted.some((item, index) => index > 0 && compare(item, sorted[index - 1] ?? null, budget) === 0)
}

export const OBJECTS: Readonly<Record<string, Rule>> = {
  properties: forObjects((operand, instance, value) => {
    for (const [name, schema] of fieldsOf(operand, instance)) {
      const field = fieldOf(value, name)
      if (field !== undefined) instance.check(schema, instance.child(name, field))
    }
  }),
  patternProperties: forObjects((operand, instance, value) => {
    for (const [pattern, schema] of fieldsOf(operand, instance)) {
      for (const [name, field] of fieldsOf(value, instance)) {
        if (matches(pattern, name, instance.budget)) instance.check(schema, instance.child(name, field))
      }
    }
  }),
  additionalProperties: forObjects((operand, instance, value, schema) => {
    const named = fieldOf(schema, 'properties') ?? {}
    const patterns = Object.keys(fieldOf(schema, 'patternProperties') ?? {})
    for (const [name, field] of fieldsOf(value, instance)) {
      if (isObject(named) && Object.hasOwn(named, name)) continue
      if (patterns.some((pattern) => matches(pattern, name, instance.budget))) continue
      instance.check(operand, instance.child(name, field))
    }
  }),
  propertyNames: forObjects((operand, instance, value) => {
    for (const [name] of fieldsOf(value, instance)) {
      const property = instance.child(name, name)
      if (!instance.passes(operand, property)) fail(property, 'has a name that is not allowed')
    }
  }),
  required: forObjects((operand, instance, value) => {
    if (Array.isArray(operand)) requireAll(operand, instance, value)
  }),
  minProperties: atLeast(propertyCount, 'property', 'properties'),
  maxProperties: atMost(propertyCount, 'property', 'properties'),
  dependentRequired: forObjects((operand, instance, value) => {
    for (const [name, names] of fieldsOf(operand, instance)) {
      if (Object.hasOwn(value, name) && Array.isArray(names)) requireAll(names, instance, value)
    }
  }),
  dependentSchemas: forObjects((operand, instance, value) => {
    for (const [name, schema] of fieldsOf(operand, instance)) {
      if (Object.hasOwn(value, name)) instance.check(schema, instance)
    }
  }),
}

/** A rule for objects, which other values pass. */
function forObjects(
  rule: (operand: Json, instance: Instance, value: JsonObject, schema: JsonObject) => void,
): Rule {
  return (operand, instance, schema) => {
    if (isObject(instance.value)) rule(operand, instance, instance.value, schema)
  }
}

function propertyCount({ value, budget }: Instance): number | undefined {
  if (!isObject(value)) return undefined
  const { length } = Object.keys(value)
  spend(budget, length)
  return length
}

function fieldsOf(value: Json, { budget }: Instance): readonly (readonly [string, Json])[] {
  const fields = isObject(value) ? Object.entries(value) : []
  spend(budget, fields.length)
  return fields
}

function requireAll(names: readonly Json[], instance: Instance, value: JsonObject): void {
  spend(instance.budget, names.length)
  for (const name of names) {
    const missing = String(name)
    if (!Object.hasOwn(value, missing))
      instance.report(instance, `must have the property \`${missing}\``, missing)
  }
}

export const COMBINATIONS: Readonly<Record<string, Rule>> = {
  allOf: (operand, instance) => {
    for (const schema of listOf(operand)) instance.check(schema, instance)
  },
  anyOf: (operand, instance) => {
    if (countPassing(operand, instance) === 0) fail(instance, 'must match a schema of `anyOf`')
  },
  oneOf: (operand, instance) => {
    const count = countPassing(operand, instance)
    if (count !== 1) fail(instance, `must match exactly one schema of \`oneOf\`, and matches ${count}`)
  },
  not: (operand, instance) => {
    if (instance.passes(operand, instance)) fail(instance, 'must not match the schema of `not`')
  },
  if: (operand, instance, schema) => {
    const branch = fieldOf(schema, instance.passes(operand, instance) ? 'then' : 'else')
    if (branch !== undefined) instance.check(branch, instance)
  },
}

function listOf(operand: Json): readonly Json[] {
  return Array.isArray(operand) ? operand : []
}

function countPassing(operand: Json, instance: Instance): number {
  return listOf(operand).filter((schema) => instance.passes(schema, instance)).length
}
