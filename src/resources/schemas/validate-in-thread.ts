/** Validates in a worker thread what takes too many steps for the main thread. */

import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { AdminScope, WorkspaceScope } from '../../platform/scope.ts'
import type { CpuBudget } from '../../platform/turns.ts'
import { inThread } from '../threads/run.ts'
import type { Fault, Validation } from './validate.ts'

/**
 * Finds the faults, however many steps that takes.
 * @param turns are charged with the CPU time
 * @throws Problem `validation_too_costly` if it takes more than `validationMs` of CPU time; `overloaded`
 */
export async function faultsInThread(
  scope: AdminScope | WorkspaceScope,
  validation: Validation,
  turns: CpuBudget,
): Promise<readonly Fault[]> {
  const ran = await inThread(scope, 'validate', validation, LIMITS.validationMs)
  turns.charge(ran.cpuMs)
  if ('value' in ran) return ran.value
  const detail = `Validation against the collection's schema took more than ${LIMITS.validationMs} ms of CPU time.`
  throw new Problem('validation_too_costly', { detail })
}
