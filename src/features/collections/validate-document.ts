/** Validates documents against their collection's declaration, on this thread or in a worker thread. */

import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { CpuBudget } from '../../infra/cpu-budget.ts'
import { inThread } from '../threads/run-in-thread.ts'
import type { Declaration } from './schemas/declaration-cache.ts'
import { type Fault, isPending, type Validation, validateDocument } from './schemas/validate.ts'
import type { Collection } from './store.ts'

type Fields = Record<string, unknown>

/** The faults to warn of; or a validation that takes too many steps for the main thread: {@link checkInThread}. */
export type ValidationOutcome = readonly Fault[] | Pending

/** A validation that is to be done in a worker thread. */
interface Pending {
  readonly validation: Validation
  readonly mode: Declaration['mode']
}

export const isDeferred = (judgement: ValidationOutcome): judgement is Pending => 'validation' in judgement

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
 * @param turns are charged with its CPU time
 * @throws Problem as {@link checkDocument} does; `validation_too_costly` if it takes more than `validationMs` of CPU time;
 *   `overloaded`
 */
export async function checkInThread(
  scope: WorkspaceScope,
  { validation, mode }: Pending,
  turns: CpuBudget,
): Promise<readonly Fault[]> {
  return enforce(mode, await validateInThread(scope, validation, turns))
}

function enforce(mode: Declaration['mode'], faults: readonly Fault[]): readonly Fault[] {
  if (mode !== 'enforce' || faults.length === 0) return faults
  const detail = faults.map((fault) => `${fault.pointer || 'the document'} ${fault.detail}`).join('; ')
  throw new Problem('schema_violation', { detail, errors: faults })
}

/**
 * Finds the faults, however many steps that takes.
 * @param turns are charged with the CPU time
 * @throws Problem `validation_too_costly` if it takes more than `validationMs` of CPU time; `overloaded`
 */
export async function validateInThread(
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
