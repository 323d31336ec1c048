/**
 * Evaluates a prepared schema on a document or, as a fast path, on the members that a change sets. Takes linear time and
 * a bounded number of steps. `check-changes.ts` applies the mode of the collection to the result.
 */

import type { Budget } from '../../../../flows-dsl/budget.ts'
import { FlowError } from '../../../../flows-dsl/errors.ts'
import type { Json } from '../../../../flows-dsl/json.ts'
import { type SchemaError, schemaErrors } from '../../../../flows-dsl/json-schema/validate.ts'
import { shortPointer } from '../../../core/json.ts'
import type { InputError } from '../../../core/problem.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import type { Prepared, Schema } from './schema-language.ts'
import { hasFormat } from './text-formats.ts'

/** A violation of a document, with the keyword of the schema that it violates. */
export interface Violation extends InputError {
  readonly keyword: string
}

/** A document to evaluate, and its schema, as data that can be sent to a worker thread. */
export interface Validation {
  readonly schema: Schema
  readonly fields: object
}

/**
 * Evaluates a whole document on this thread, if that takes few steps.
 * @param fields the caller's fields, within the bounds of documents
 * @returns the violations, at most `faultsShownMax` and none if the document is valid; or the validation, for a worker
 *   thread, if it takes more than `validationSteps`
 */
export function evaluateDocument(prepared: Prepared, fields: object): readonly Violation[] | Validation {
  const validation = { schema: prepared.schema, fields }
  try {
    return evaluate(validation, COLLECTION_LIMITS.validationStepsMax)
  } catch (error) {
    if (error instanceof FlowError) return validation
    throw error
  }
}

/**
 * The fast path: evaluates only the members that a change sets, without reading the document. For a separable schema
 * that suffices, since the other members are valid already and required members are present.
 * @param fields the members that are set
 * @returns as {@link evaluateDocument}
 */
export function evaluateChange(prepared: Prepared, fields: object): readonly Violation[] | Validation {
  const { required: _required, ...schema } = Object(prepared.schema)
  return evaluateDocument({ ...prepared, schema }, fields)
}

/** True if the evaluation takes too many steps for this thread. */
export const isPending = <V extends Validation>(result: readonly Violation[] | V): result is V =>
  'schema' in result

/**
 * Evaluates a document. The schema is interpreted: none of its text becomes code.
 * @param steps by default unbounded: for worker threads, which are stopped from outside
 * @throws FlowError if it takes more steps
 */
export function evaluate(
  { schema, fields }: Validation,
  steps = Number.POSITIVE_INFINITY,
): readonly Violation[] {
  const budget: Budget = { ...UNBOUNDED, steps }
  const errors = schemaErrors(schema as Json, fields as Json, budget, hasFormat)
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
  const path = (missing === undefined ? pointer : `${pointer}/${shortPointer(missing)}`).slice(0, 300)
  const undeclared = keyword === 'additionalProperties' ? 'is not a declared field' : message
  const detail = (missing === undefined ? undeclared : 'is required').slice(0, 300)
  return { in: 'body', name: path.split('/')[1] ?? '', pointer: path, keyword, detail }
}
