/** Knows the keywords of JSON Schema 2020-12 that combine schemas. */

import type { Json } from '../ir.ts'
import { fieldOf } from '../json.ts'
import { fail, type Place, type Rule } from './rule.ts'

export const COMBINATIONS: Readonly<Record<string, Rule>> = {
  allOf: (operand, place) => {
    for (const schema of listOf(operand)) place.check(schema, place)
  },
  anyOf: (operand, place) => {
    if (countOf(operand, place) === 0) fail(place, 'must be as one of the alternatives says')
  },
  oneOf: (operand, place) => {
    const count = countOf(operand, place)
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

function countOf(operand: Json, place: Place): number {
  return listOf(operand).filter((schema) => place.passes(schema, place)).length
}
