/** Validates documents against their collection's declaration, on this thread or in a worker thread. */

import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { CpuBudget } from '../../infra/cpu-budget.ts'
import { inThread } from '../threads/run-in-thread.ts'
import type { Declaration } from './schemas/declaration-cache.ts'
import { isPending, type Validation, type Violation, validateDocument } from './schemas/validate.ts'
import type { Collection } from './store.ts'

type Fields = Record<string, unknown>

/** The violations to warn of; or a validation that takes too many steps for the main thread: {@link checkInThread}. */
export type ValidationOutcome = readonly Violation[] | Pending

/** A validation for a worker thread. */
interface Pending {
  readonly validation: Validation
  readonly mode: Declaration['mode']
}

export const isDeferred = (outcome: ValidationOutcome): outcome is Pending => 'validation' in outcome

/**
 * Validates a whole document, or with `validateChange` the fields that a change sets ({@link canValidatePartially}).
 * @throws Problem `schema_violation` if the schema is enforced
 */
export function checkDocument(
  { declared }: Collection,
  fields: Fields,
  validate = validateDocument,
): ValidationOutcome {
  if (declared === undefined || declared.mode === 'off') return []
  const result = validate(declared.schema, fields)
  if (isPending(result)) return { validation: result, mode: declared.mode }
  return enforce(declared.mode, result)
}

/** True if the fields that are set can be validated without the others. */
export const canValidatePartially = ({ declared }: Collection): boolean =>
  declared === undefined || declared.mode === 'off' || declared.schema.separable

/**
 * Runs a deferred validation in a worker thread.
 * @param budget are charged with its CPU time
 * @throws Problem as {@link checkDocument} does; `validation_too_costly` if it takes more than `validationMs` of CPU time;
 *   `overloaded`
 */
export async function checkInThread(
  scope: WorkspaceScope,
  { validation, mode }: Pending,
  budget: CpuBudget,
): Promise<readonly Violation[]> {
  return enforce(mode, await validateInThread(scope, validation, budget))
}

function enforce(mode: Declaration['mode'], violations: readonly Violation[]): readonly Violation[] {
  if (mode !== 'enforce' || violations.length === 0) return violations
  const detail = violations
    .map(({ pointer, detail: text }) => `${pointer || 'the document'} ${text}`)
    .join('; ')
  throw new Problem('schema_violation', { detail, errors: violations })
}

/**
 * Finds the violations, however many steps that takes.
 * @param budget are charged with the CPU time
 * @throws Problem `validation_too_costly` if it takes more than `validationMs` of CPU time; `overloaded`
 */
export async function validateInThread(
  scope: AdminScope | WorkspaceScope,
  validation: Validation,
  budget: CpuBudget,
): Promise<readonly Violation[]> {
  const ran = await inThread(scope, 'validate', validation, LIMITS.validationMs)
  budget.charge(ran.cpuMs)
  if ('value' in ran) return ran.value
  const detail = `Validation against the collection's schema took more than ${LIMITS.validationMs} ms of CPU time.`
  throw new Problem('validation_too_costly', { detail })
}
