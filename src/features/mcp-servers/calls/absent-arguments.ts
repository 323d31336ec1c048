/** Leaves null out of arguments: models that have to fill in every argument send it for those that they leave open. */

import { referenceName } from '../../../../flows-dsl/json-schema/vocabulary.ts'
import { isObject } from '../../../core/json.ts'
import { checkBudget, errorsWithin } from '../../schema-errors.ts'
import type { JsonSchema } from '../tool-name.ts'

/** @returns the arguments without each null of an optional member whose schema does not allow it */
export function withoutNulls(schema: JsonSchema, args: unknown): unknown {
  return hasNull(args) ? without(schema, schema, args) : args
}

const hasNull = (value: unknown): boolean =>
  value === null || (typeof value === 'object' && Object.values(value).some(hasNull))

function without(root: JsonSchema, given: unknown, value: unknown): unknown {
  const schema = targetOf(root, given)
  if (Array.isArray(value)) return value.map((one) => without(root, schema['items'], one))
  const { properties, required = [] } = schema
  if (!isObject(value) || !isObject(properties)) return value
  const isAbsent = ([name, member]: [string, unknown]) =>
    member === null &&
    Object.hasOwn(properties, name) &&
    !(required as string[]).includes(name) &&
    !allowsNull(root, properties[name])
  const kept = Object.entries(value).filter((one) => !isAbsent(one))
  return Object.fromEntries(
    kept.map(([name, member]) => [
      name,
      Object.hasOwn(properties, name) ? without(root, properties[name], member) : member,
    ]),
  )
}

const CHAIN_MAX = 20

/** The definition that a schema refers to; the schema itself without a reference. */
function targetOf(root: JsonSchema, given: unknown): JsonSchema {
  let schema = given
  for (let n = 0; n < CHAIN_MAX && isObject(schema) && typeof schema['$ref'] === 'string'; n += 1)
    schema = Object(root['$defs'])[referenceName(schema['$ref']) ?? '']
  return isObject(schema) ? schema : {}
}

function allowsNull(root: JsonSchema, schema: unknown): boolean {
  if (!isObject(schema)) return schema !== false
  return errorsWithin({ ...schema, $defs: root['$defs'] ?? {} }, null, checkBudget()).length === 0
}
