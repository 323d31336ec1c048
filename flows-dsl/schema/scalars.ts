/** Knows the keywords of JSON Schema 2020-12 for values of any type, numbers and texts. */

import { spend } from '../expression/budget.ts'
import { compare } from '../expression/values.ts'
import type { Json } from '../ir.ts'
import { isObject } from '../json.ts'
import { matches } from './pattern.ts'
import { counted, fail, type Place, type Rule } from './rule.ts'

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
