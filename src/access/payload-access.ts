/**
 * Decides whose payloads a caller sees: those of executions and runs that it has started itself, and all others only with the right to
 * see payloads. What is shown by that right is noted for the audit log.
 */

import type { TObject, TSchema } from 'typebox'
import type { OperationSpec } from '../core/operation.ts'
import { type Actor, isPublicRole } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import type { WorkspaceRef } from '../core/tenant.ts'
import { hasPayloads, withoutPayloads } from './payload-schemas.ts'
import type { Scope } from './scope.ts'

/** The scope of keys and tokens that see the payloads of others. A credential without scopes does not have it. */
export const PAYLOADS_SCOPE = 'payloads:read'

/** The members of the record of an execution or a run that say who knows its payloads already. */
interface StartedRecord {
  readonly started_by?: unknown
  /** Its input is that of another execution. */
  readonly rerun_of?: unknown
}

/** Records whose payloads the reader of their scope may see for another reason than having started them. */
const SHOWN = new WeakSet<object>()

/** Shows the payloads of a record, such as an approval, to a reader who is asked about them. */
export function showPayloads<T extends object>(record: T): T {
  SHOWN.add(record)
  return record
}

/** True for a caller with the right to see payloads, and for the platform itself, which acts for no credential. */
export function seesPayloads({ role, credentialRole = role, credential, scopes }: Actor): boolean {
  if (isPublicRole(credentialRole)) return false
  if (credential?.seesPayloads === true || scopes?.has(PAYLOADS_SCOPE) === true) return true
  return credentialRole !== 'service' && credential === undefined
}

/** True if the actor has started it, so that it has sent the input, and the output is the answer. */
function hasStarted({ subject, onBehalfOf = subject }: Actor, record: StartedRecord): boolean {
  return record.started_by === onBehalfOf && (record.rerun_of ?? null) === null
}

/** Why an actor sees the payloads of a record: it has started it, or has the right to see all; undefined if it does not. */
export function reasonToSee(actor: Actor, record: StartedRecord): 'started' | 'right' | undefined {
  if (hasStarted(actor, record)) return 'started'
  return seesPayloads(actor) ? 'right' : undefined
}

/** Outputs with payloads that their caller sees only by its right to, with the workspace, if the scope is not of one. */
const REVEALED = new WeakMap<object, Partial<WorkspaceRef>>()

/** Notes for the audit log that an output shows payloads by the right to see them; not that of the platform's own work. */
export function revealing<T extends object>({ actor }: Scope, output: T, ref: Partial<WorkspaceRef> = {}): T {
  if (actor.credential !== undefined) REVEALED.set(output, ref)
  return output
}

/** The owner of what an output has shown by the right to see payloads; undefined if it needed none. */
export const revealedIn = (output: unknown): Partial<WorkspaceRef> | undefined =>
  typeof output === 'object' && output !== null ? REVEALED.get(output) : undefined

/**
 * For output that is nothing but payloads of a record, such as its log.
 * @param ref of the workspace of the record
 * @throws Problem `payloads_hidden` unless the caller may see them
 */
export async function payloadsOfRecord<T extends object>(
  scope: Scope,
  record: StartedRecord,
  ref: WorkspaceRef,
  read: () => Promise<T>,
): Promise<T> {
  const reason = reasonToSee(scope.actor, record)
  if (reason === undefined) throw payloadsHidden()
  const output = await read()
  return reason === 'right' ? revealing(scope, output, ref) : output
}

export const payloadsHidden = () =>
  new Problem('payloads_hidden', {
    detail:
      'This shows payloads of executions and runs that you have not started, and you may not see those.',
  })

/** An operation that leaves out what its caller may not see, if its output has payloads. */
export function withPayloadAccess<S extends Scope, I extends TObject, O extends TSchema>(
  spec: OperationSpec<S, I, O>,
): OperationSpec<S, I, O> {
  if (!hasPayloads(spec.output)) return spec
  const run: typeof spec.run = async (scope, input) => {
    const output = await spec.run(scope, input)
    const { actor } = scope
    const isShown = (record: object) => SHOWN.has(record) || hasStarted(actor, record)
    const left = withoutPayloads(spec.output, output, isShown)
    if (left === output || !seesPayloads(actor)) return left
    return revealing(scope, output as object) as typeof output
  }
  return { ...spec, payloads: 'left out', run }
}
