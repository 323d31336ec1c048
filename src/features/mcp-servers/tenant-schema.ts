/** Validates against a schema that a tenant wrote. It is interpreted: none of its text becomes code. */

import { newBudget } from '../../../flows-dsl/budget.ts'
import { FlowError } from '../../../flows-dsl/errors.ts'
import type { Json } from '../../../flows-dsl/json.ts'
import { schemaErrors } from '../../../flows-dsl/json-schema/validate.ts'
import { LIMITS } from '../../core/limits.ts'
import type { JsonSchema } from './tool.ts'

/**
 * The first violation, as a pointer and a message: `/price must be a number`, or ` must be an object` for the whole value.
 * @param costly the result if the validation takes too many steps for this thread
 * @returns undefined if the value is valid
 */
export function violationOf(schema: JsonSchema, value: unknown, costly?: string): string | undefined {
  try {
    const budget = { ...newBudget(), steps: LIMITS.inputCheckSteps }
    const [first] = schemaErrors(schema as Json, value as Json, budget)
    return first && `${first.pointer} ${first.message}`.slice(0, 500)
  } catch (error) {
    if (error instanceof FlowError) return costly
    throw error
  }
}
