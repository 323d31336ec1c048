/** Knows the keywords of JSON Schema 2020-12 for objects. */

import { spend } from '../expression/budget.ts'
import type { Json, JsonObject } from '../ir.ts'
import { fieldOf, isObject } from '../json.ts'
import { matches } from './pattern.ts'
import { counted, fail, type Place, type Rule } from './rule.ts'

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
