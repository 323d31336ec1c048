/** Evaluates a schema on a document in a worker thread: for documents that take too many steps on this one. */

import type { AdminScope, WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import type { CpuBudget } from '../../../infra/cpu-budget.ts'
import { inThread } from '../../threads/run-in-thread.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import type { Validation, Violation } from './evaluate-schema.ts'

/**
 * Finds the violations, however many steps that takes.
 * @param budget is charged with the CPU time
 * @throws Problem `validation_too_costly` if it takes more than `validationMs` of CPU time; `overloaded`
 */
export async function evaluateInThread(
  scope: AdminScope | WorkspaceScope,
  { schema, fields }: Validation,
  budget?: CpuBudget,
): Promise<readonly Violation[]> {
  const result = await inThread(scope, 'validate', { schema, fields }, COLLECTION_LIMITS.validationMs)
  budget?.charge(result.cpuMs)
  if ('value' in result) return result.value
  const detail = `Validation against the collection's schema took more than ${COLLECTION_LIMITS.validationMs} ms of CPU time.`
  throw new Problem('validation_too_costly', { detail })
}
