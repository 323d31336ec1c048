/**
 * Enforces the schema of a collection on documents: evaluates it (`schemas/evaluate-schema.ts`), then rejects, warns or
 * does nothing, as the mode says. The fast path runs on this thread; what takes many steps runs in a worker thread.
 */

import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'
import type { CpuBudget } from '../../infra/cpu-budget.ts'
import { inThread } from '../threads/run-in-thread.ts'
import type { Fields } from './document.ts'
import { COLLECTION_LIMITS } from './limits.ts'
import type { Declaration } from './schemas/declaration-cache.ts'
import { evaluateDocument, isPending, type Validation, type Violation } from './schemas/evaluate-schema.ts'
import type { Collection } from './store.ts'

/** The violations to warn of; or a validation that takes too many steps for this thread: {@link enforceInThread}. */
export type ValidationOutcome = readonly Violation[] | PendingValidation

interface PendingValidation extends Validation {
  readonly mode: Declaration['mode']
}

/**
 * Validates a whole document, or with `evaluateChange` the fields that a change sets ({@link canValidatePartially}).
 * @throws Problem `schema_violation` if the schema is enforced
 */
export function enforceSchema(
  { declared }: Collection,
  fields: Fields,
  evaluate = evaluateDocument,
): ValidationOutcome {
  if (declared === undefined || declared.mode === 'off') return []
  const result = evaluate(declared.schema, fields)
  return isPending(result) ? { ...result, mode: declared.mode } : enforce(declared.mode, result)
}

/** True if the fields that are set can be validated without the others. */
export const canValidatePartially = ({ declared }: Collection): boolean =>
  declared === undefined || declared.mode === 'off' || declared.schema.separable

/** Completes a pending validation. @throws Problem as {@link enforceSchema} and {@link evaluateInThread} do */
export async function enforceInThread(
  scope: WorkspaceScope,
  pending: PendingValidation,
  budget: CpuBudget,
): Promise<readonly Violation[]> {
  return enforce(pending.mode, await evaluateInThread(scope, pending, budget))
}

function enforce(mode: Declaration['mode'], violations: readonly Violation[]): readonly Violation[] {
  if (mode !== 'enforce' || violations.length === 0) return violations
  const detail = violations
    .map(({ pointer, detail: text }) => `${pointer || 'the document'} ${text}`)
    .join('; ')
  throw new Problem('schema_violation', { detail, errors: violations })
}

/**
 * Finds the violations in a worker thread, however many steps that takes.
 * @param budget is charged with the CPU time
 * @throws Problem `validation_too_costly` if it takes more than `validationMs` of CPU time; `overloaded`
 */
export async function evaluateInThread(
  scope: AdminScope | WorkspaceScope,
  { schema, fields }: Validation,
  budget: CpuBudget,
): Promise<readonly Violation[]> {
  const result = await inThread(scope, 'validate', { schema, fields }, COLLECTION_LIMITS.validationMs)
  budget.charge(result.cpuMs)
  if ('value' in result) return result.value
  const detail = `Validation against the collection's schema took more than ${COLLECTION_LIMITS.validationMs} ms of CPU time.`
  throw new Problem('validation_too_costly', { detail })
}
