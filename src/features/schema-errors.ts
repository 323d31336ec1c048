/** Checks values against schemas of tenants, which are interpreted, in a bounded number of steps on the calling thread. */

import type Format from 'typebox/format'
import { type Budget, newBudget } from '../../flows-dsl/budget.ts'
import { FlowError } from '../../flows-dsl/errors.ts'
import type { Json } from '../../flows-dsl/json.ts'
import { type SchemaError, schemaErrors } from '../../flows-dsl/json-schema/validate.ts'
import { SHARED_LIMITS } from './limits.ts'

/** The only error of a check that uses its budget up. */
export const TOO_COSTLY: SchemaError = {
  pointer: '',
  message: 'take too many steps to check; send less at once',
  keyword: '',
}

/** The steps that a check may take on this thread. */
export const checkBudget = (): Budget => ({ ...newBudget(), steps: SHARED_LIMITS.inputCheckStepsMax })

/**
 * @param schema as `checkSchema` has accepted it
 * @returns the errors of a value; one error, {@link TOO_COSTLY}, if the check uses the budget up
 */
export function errorsWithin(
  schema: object,
  value: unknown,
  budget: Budget,
  hasFormat?: typeof Format.Test,
): readonly SchemaError[] {
  try {
    return withoutRepetition(schemaErrors(schema as Json, value as Json, budget, hasFormat))
  } catch (error) {
    if (!(error instanceof FlowError)) throw error
    return [TOO_COSTLY]
  }
}

/** Several subschemas may report the same. */
const withoutRepetition = (errors: readonly SchemaError[]) => [
  ...new Map(errors.map((error) => [`${error.pointer} ${error.missing} ${error.message}`, error])).values(),
]
