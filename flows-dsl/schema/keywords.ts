/** The keywords of JSON Schema 2020-12: one rule each, and the instance location they are applied to. */

import { type Budget, spend } from '../expression/budget.ts'
import { compare } from '../expression/values.ts'
import type { Json, JsonObject } from '../ir.ts'
import { fieldOf, isObject, pointerTo } from '../json.ts'
import { matches } from './pattern.ts'

/** Tests a text against a `format` of JSON Schema. */
export type FormatTest = (format: string, text: string) => boolean

/** The parts that all places of one evaluation share. */
export interface Evaluation {
  /** The schema as a whole; `$ref` leads there. */
  readonly root: Json
  readonly budget: Budget
  /** Without it, `format` is an annotation. */
  readonly hasFormat: FormatTest | undefined
  check(schema: Json, place: Place): void
  passes(schema: Json, place: Place): boolean
}

/** Takes what is wrong. `missing` is the name of a required property. */
export type Report = (place: Place, message: string, missing?: string) => void

/** The steps from the whole value to a part of it, the last one first; undefined for the whole. */
type Path = { readonly key: string | number; readonly above: Path } | undefined

/** A value, where it stands, and the ways to judge what stands below it. */
export class Place {
  readonly evaluation: Evaluation
  readonly value: Json
  readonly depth: number
  /** The keyword that is being evaluated. */
  readonly keyword: string
  readonly report: Report
  readonly #path: Path

  constructor(
    { evaluation, report }: Pick<Place, 'evaluation' | 'report'>,
    value: Json,
    { depth, keyword }: Pick<Place, 'depth' | 'keyword'>,
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

  check(schema: Json, place: Place): void {
    this.evaluation.check(schema, place)
  }

  passes(schema: Json, place: Place): boolean {
    return this.evaluation.passes(schema, place)
  }

  /** The place of an item or a field of the value. */
  below(key: string | number, value: Json): Place {
    return new Place(this, value, this, { key, above: this.#path })
  }

  /** The same place with another value: a name instead of the object that has it. */
  holding(value: Json): Place {
    return new Place(this, value, this, this.#path)
  }

  /** The same place for a keyword of a schema, one schema deeper. */
  under(keyword: string): Place {
    return new Place(this, this.value, { depth: this.depth + 1, keyword }, this.#path)
  }

  /** The same place, whose faults go elsewhere. */
  reporting(report: Report): Place {
    return new Place({ evaluation: this.evaluation, report }, this.value, this, this.#path)
  }

  /** JSON pointer of the value. Made when it is asked for: most values have no fault. */
  get pointer(): string {
    const keys: (string | number)[] = []
    for (let step = this.#path; step !== undefined; step = step.above) keys.push(step.key)
    return keys.reduceRight<string>(pointerTo, '')
  }
}

/** Judges the value of a place. `schema` is the one in which the keyword stands, for keywords beside it. */
export type Rule = (operand: Json, place: Place, schema: JsonObject) => void

export function fail(place: Place, message: string): void {
  place.report(place, message)
}

/** `1 item`, `2 items` */
export function counted(count: Json, noun: string, plural = `${noun}s`): string {
  return `${String(count)} ${count === 1 ? noun : plural}`
}

/** Values in a message are cut: an error travels further than data should. */
const SHOWN_MAX = 5

export const SCALARS: Readonly<Record<string, Rule>> = {
  type: (operand, place) => {
    const types = (Array.isArray(operand) ? operand : [operand]).map(String)
    if (types.some((type) => isOf(place.value, type))) return
    fail(place, `must be ${types.map(articled).join(' or ')}`)
  },
  enum: (operand, place) => {
    if (!Array.isArray(operand)) return
    if (operand.some((one) => equal(one, place.value, place))) return
    const plain = operand.filter((one) => typeof one !== 'object' || one === null)
    const shown = plain.length === operand.length && plain.length <= SHOWN_MAX
    fail(
      place,
      shown
        ? `must be one of ${plain.map((one) => JSON.stringify(one)).join(', ')}`
        : 'must be one of the values listed',
    )
  },
  const: (operand, place) => {
    if (!equal(operand, place.value, place)) fail(place, 'must be the one value there is')
  },
  minimum: bound((value, limit) => value >= limit, 'at least'),
  maximum: bound((value, limit) => value <= limit, 'at most'),
  exclusiveMinimum: bound((value, limit) => value > limit, 'more than'),
  exclusiveMaximum: bound((value, limit) => value < limit, 'less than'),
  multipleOf: bound((value, of) => Number.isInteger(value / of), 'a multiple of'),
  minLength: (operand, place) => {
    if (typeof place.value === 'string' && lengthOf(place.value, place) < Number(operand))
      fail(place, `must have at least ${counted(operand, 'character')}`)
  },
  maxLength: (operand, place) => {
    if (typeof place.value === 'string' && lengthOf(place.value, place) > Number(operand))
      fail(place, `must have at most ${counted(operand, 'character')}`)
  },
  format: (operand, place) => {
    const { value, budget, evaluation } = place
    if (typeof value !== 'string' || evaluation.hasFormat === undefined) return
    // The tests backtrack: their time may grow with the square of the length.
    spend(budget, 8 + value.length / 8 + value.length ** 2 / 1_024)
    if (!evaluation.hasFormat(String(operand), value)) fail(place, `must match the format ${String(operand)}`)
  },
  pattern: (operand, place) => {
    if (typeof place.value === 'string' && !matches(String(operand), place.value, place.budget))
      fail(place, `must match ${String(operand)}`)
  },
}

function bound(holds: (value: number, limit: number) => boolean, words: string): Rule {
  return (operand, place) => {
    if (typeof place.value === 'number' && typeof operand === 'number' && !holds(place.value, operand))
      fail(place, `must be ${words} ${operand}`)
  }
}

/** Equality of JSON Schema is that of jq: by value, numbers by their size, fields in any order. */
function equal(a: Json, b: Json, { budget }: Place): boolean {
  return compare(a, b, budget) === 0
}

/** In code points, as JSON Schema counts. */
function lengthOf(text: string, { budget }: Place): number {
  spend(budget, text.length / 16)
  let length = 0
  for (const _point of text) length++
  return length
}

function isOf(value: Json, type: string): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isObject(value)
  if (type === 'integer') return Number.isInteger(value)
  return typeof value === type
}

function articled(type: string): string {
  return type === 'null' ? type : `${/^[aio]/.test(type) ? 'an' : 'a'} ${type}`
}

export const ARRAYS: Readonly<Record<string, Rule>> = {
  prefixItems: (operand, place) => {
    const { value } = place
    if (!Array.isArray(operand) || !Array.isArray(value)) return
    for (const [index, schema] of operand.slice(0, value.length).entries())
      place.check(schema, place.below(index, value[index] ?? null))
  },
  items: (operand, place, schema) => {
    const { value } = place
    if (!Array.isArray(value)) return
    const prefix = fieldOf(schema, 'prefixItems')
    const first = Array.isArray(prefix) ? prefix.length : 0
    for (let index = first; index < value.length; index++)
      place.check(operand, place.below(index, value[index] ?? null))
  },
  contains: (operand, place, schema) => {
    const { value } = place
    if (!Array.isArray(value)) return
    const least = Number(fieldOf(schema, 'minContains') ?? 1)
    const most = Number(fieldOf(schema, 'maxContains') ?? Number.POSITIVE_INFINITY)
    const count = value.filter((item, index) => place.passes(operand, place.below(index, item))).length
    if (count < least) fail(place, `must contain at least ${counted(least, 'such item')}`)
    if (count > most) fail(place, `must contain at most ${counted(most, 'such item')}`)
  },
  minItems: (operand, place) => {
    if (Array.isArray(place.value) && place.value.length < Number(operand))
      fail(place, `must have at least ${counted(operand, 'item')}`)
  },
  maxItems: (operand, place) => {
    if (Array.isArray(place.value) && place.value.length > Number(operand))
      fail(place, `must have at most ${counted(operand, 'item')}`)
  },
  uniqueItems: (operand, place) => {
    if (operand === true && hasTwins(place)) fail(place, 'must not have the same item twice')
  },
}

/** Sorted, equal items stand together. */
function hasTwins({ value, budget }: Place): boolean {
  if (!Array.isArray(value)) return false
  spend(budget, value.length)
  const sorted = [...value].sort((a, b) => compare(a, b, budget))
  return sorted.some((item, index) => index > 0 && compare(item, sorted[index - 1] ?? null, budget) === 0)
}

export const OBJECTS: Readonly<Record<string, Rule>> = {
  properties: object((operand, place, value) => {
    for (const [name, schema] of fieldsOf(operand, place)) {
      const field = fieldOf(value, name)
      if (field !== undefined) place.check(schema, place.below(name, field))
    }
  }),
  patternProperties: object((operand, place, value) => {
    for (const [pattern, schema] of fieldsOf(operand, place)) {
      for (const [name, field] of fieldsOf(value, place)) {
        if (matches(pattern, name, place.budget)) place.check(schema, place.below(name, field))
      }
    }
  }),
  additionalProperties: object((operand, place, value, schema) => {
    const named = fieldOf(schema, 'properties') ?? {}
    const patterns = Object.keys(fieldOf(schema, 'patternProperties') ?? {})
    for (const [name, field] of fieldsOf(value, place)) {
      if (isObject(named) && Object.hasOwn(named, name)) continue
      if (patterns.some((pattern) => matches(pattern, name, place.budget))) continue
      place.check(operand, place.below(name, field))
    }
  }),
  propertyNames: object((operand, place, value) => {
    for (const [name] of fieldsOf(value, place)) {
      if (!place.passes(operand, place.holding(name)))
        fail(place.below(name, null), 'has a name that is not allowed')
    }
  }),
  required: object((operand, place, value) => {
    if (Array.isArray(operand)) requireAll(operand, place, value)
  }),
  minProperties: object((operand, place, value) => {
    if (countOf(value, place) < Number(operand))
      fail(place, `must have at least ${counted(operand, 'property', 'properties')}`)
  }),
  maxProperties: object((operand, place, value) => {
    if (countOf(value, place) > Number(operand))
      fail(place, `must have at most ${counted(operand, 'property', 'properties')}`)
  }),
  dependentRequired: object((operand, place, value) => {
    for (const [name, names] of fieldsOf(operand, place)) {
      if (Object.hasOwn(value, name) && Array.isArray(names)) requireAll(names, place, value)
    }
  }),
  dependentSchemas: object((operand, place, value) => {
    for (const [name, schema] of fieldsOf(operand, place)) {
      if (Object.hasOwn(value, name)) place.check(schema, place)
    }
  }),
}

/** A rule that lets all pass that is no object. */
function object(rule: (operand: Json, place: Place, value: JsonObject, schema: JsonObject) => void): Rule {
  return (operand, place, schema) => {
    if (isObject(place.value)) rule(operand, place, place.value, schema)
  }
}

function countOf(value: JsonObject, { budget }: Place): number {
  const { length } = Object.keys(value)
  spend(budget, length)
  return length
}

function fieldsOf(value: Json, { budget }: Place): readonly (readonly [string, Json])[] {
  const fields = isObject(value) ? Object.entries(value) : []
  spend(budget, fields.length)
  return fields
}

function requireAll(names: readonly Json[], place: Place, value: JsonObject): void {
  spend(place.budget, names.length)
  for (const name of names) {
    const missing = String(name)
    if (!Object.hasOwn(value, missing)) place.report(place, `must have the property \`${missing}\``, missing)
  }
}

export const COMBINATIONS: Readonly<Record<string, Rule>> = {
  allOf: (operand, place) => {
    for (const schema of listOf(operand)) place.check(schema, place)
  },
  anyOf: (operand, place) => {
    if (countPassing(operand, place) === 0) fail(place, 'must be as one of the alternatives says')
  },
  oneOf: (operand, place) => {
    const count = countPassing(operand, place)
    if (count !== 1) fail(place, `must be as exactly one of the alternatives says, not ${count} of them`)
  },
  not: (operand, place) => {
    if (place.passes(operand, place)) fail(place, 'must not be as it is')
  },
  if: (operand, place, schema) => {
    const branch = fieldOf(schema, place.passes(operand, place) ? 'then' : 'else')
    if (branch !== undefined) place.check(branch, place)
  },
}

function listOf(operand: Json): readonly Json[] {
  return Array.isArray(operand) ? operand : []
}

function countPassing(operand: Json, place: Place): number {
  return listOf(operand).filter((schema) => place.passes(schema, place)).length
}
