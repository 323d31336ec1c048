/** What somebody gives an execution is as its flow says, or there is none: he is told, instead of finding a run that has failed. */

import { FlowError } from '../../../flows-dsl/errors.ts'
import { newBudget } from '../../../flows-dsl/expression/budget.ts'
import type { FlowIR, Json } from '../../../flows-dsl/ir.ts'
import { type SchemaError, schemaErrors } from '../../../flows-dsl/schema/validate.ts'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { RunTrigger } from '../../core/run.ts'

/** Where one waits for the answer to his start. An event, a schedule or a webhook gets a run, whose fault its owner sees. */
export const isAskedFor = ({ kind }: RunTrigger): boolean => kind === 'manual' || kind === 'rerun'

/**
 * Asks what the run itself asks first. What takes too long to find out here, on a thread that all share, is left to it.
 * @throws Problem `input_invalid`, with the pointer of each fault into the request
 */
export function checkInput({ input }: FlowIR, given: Json): void {
  const errors = input?.schema === undefined ? [] : faultsOf(input.schema, given)
  if (errors.length === 0) return
  const [first, second] = errors
  throw new Problem('input_invalid', {
    detail:
      second === undefined
        ? `${first?.pointer || 'It'} ${first?.message}.`
        : `It does not fit in ${errors.length} places.`,
    errors: errors.map(({ pointer, message: detail }) => ({
      in: 'body',
      name: 'input',
      pointer: `/input${pointer}`,
      detail,
    })),
  })
}

function faultsOf(schema: Json, given: Json): readonly SchemaError[] {
  try {
    return schemaErrors(schema, given, { ...newBudget(), steps: LIMITS.inputCheckSteps })
  } catch (error) {
    if (error instanceof FlowError) return []
    throw error
  }
}
