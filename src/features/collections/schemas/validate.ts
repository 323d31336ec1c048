/** Validates documents against a prepared schema, in linear time and with a bounded number of steps. */

import Format from 'typebox/format'
import type { Budget } from '../../../../flows-dsl/budget.ts'
import { FlowError } from '../../../../flows-dsl/errors.ts'
import type { Json } from '../../../../flows-dsl/json.ts'
import { type SchemaError, schemaErrors } from '../../../../flows-dsl/json-schema/validate.ts'
import { shortPointer } from '../../../core/json.ts'
import { LIMITS } from '../../../core/limits.ts'
import type { InputError } from '../../../core/problem.ts'
import type { Prepared, Schema } from './schema-language.ts'

/** A violation of a document, with the keyword of the schema that it violates. */
export interface Violation extends InputError {
  readonly keyword: string
}

/** A validation as data, so that another thread can do it. */
export interface Validation {
  readonly schema: Schema
  readonly fields: object
}

/**
 * Validates a whole document on this thread, if that takes few steps.
 * @param fields the caller's fields, within the bounds of documents
 * @returns the violations, at most `faultsShownMax` and none if the document is valid; or the validation, for a worker
 *   thread, if it takes more than `validationSteps`
 */
export function validateDocument(prepared: Prepared, fields: object): readonly Violation[] | Validation {
  return attempt({ schema: prepared.schema, fields })
}

/**
 * Validates a change of some members of a document that fits a separable schema: the whole fits afterwards if this
 * finds nothing. A change sets members and takes none away, so required members are there already.
 * @param fields the members that are set
 * @returns as {@link validateDocument}
 */
export function validateChange(prepared: Prepared, fields: object): readonly Violation[] | Validation {
  const { required: _required, ...ofMembers } = Object(prepared.schema)
  return attempt({ schema: ofMembers, fields })
}

export const isPending = (result: readonly Violation[] | Validation): result is Validation =>
  'schema' in result

/** Validates however long it takes: for worker threads, which are stopped from outside. */
export function faultsOf({ schema, fields }: Validation): readonly Violation[] {
  return evaluate(schema, fields, Number.POSITIVE_INFINITY)
}

function attempt(validation: Validation): readonly Violation[] | Validation {
  try {
    return evaluate(validation.schema, validation.fields, LIMITS.validationSteps)
  } catch (error) {
    if (error instanceof FlowError) return validation
    throw error
  }
}

/** The schema is interpreted: no text of it becomes code. @throws FlowError if it takes more steps */
function evaluate(schema: Schema, fields: object, steps: number): readonly Violation[] {
  const budget: Budget = { ...UNBOUNDED, steps }
  const errors = schemaErrors(schema as Json, fields as Json, budget, Format.Test)
  // Several subschemas may report the same violation.
  return [...new Map(errors.map(toViolation).map((one) => [`${one.keyword} ${one.pointer}`, one])).values()]
}

/** Documents and schemas are bounded when they enter. */
const UNBOUNDED = {
  depthMax: Number.POSITIVE_INFINITY,
  sizeMax: Number.POSITIVE_INFINITY,
  carriedMax: Number.POSITIVE_INFINITY,
} as const

function toViolation({ keyword, pointer, message, missing }: SchemaError): Violation {
  if (missing !== undefined) return violation(keyword, `${pointer}/${shortPointer(missing)}`, 'is required')
  return violation(keyword, pointer, keyword === 'additionalProperties' ? 'is not a declared field' : message)
}

function violation(keyword: string, pointer: string, detail: string): Violation {
  const short = pointer.slice(0, 300)
  return {
    in: 'body',
    name: short.split('/')[1] ?? '',
    pointer: short,
    keyword,
    detail: detail.slice(0, 300),
  }
}
