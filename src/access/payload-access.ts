/**
 * Decides whose payloads a caller sees: those of executions and runs that it has started itself, and all others only with the right to
 * see payloads. What is shown by that right is noted for the audit log.
 */

import { isDeepStrictEqual } from 'node:util'
import type { TObject, TSchema } from 'typebox'
import { Serialized } from '../core/json.ts'
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
  /** Of a run that was run again, `redrive`: its input is that of the dead letter. */
  readonly trigger?: unknown
}

/** Why the reader of a scope may see payloads of a record other than by having started it: they are its own, or what it is asked about. */
type ShownBecause = 'own' | 'asked'

/** Records whose payloads the reader of their scope may see. */
const SHOWN = new WeakMap<object, ShownBecause>()

/** Shows the payloads of a record to the reader of its scope. To show those of an approval to whoever is asked adds an audit entry. */
export function showPayloads<T extends object>(record: T, because: ShownBecause): T {
  SHOWN.set(record, because)
  return record
}

/** True for a caller with the right to see payloads. An actor without a credential has it only by scopes, as code of a function. */
export function seesPayloads({ role, credentialRole = role, credential, scopes }: Actor): boolean {
  if (isPublicRole(credentialRole)) return false
  return credential?.seesPayloads === true || scopes?.has(PAYLOADS_SCOPE) === true
}

/** True if the actor has started it, or the key that it replaces has, so that it has sent the input, and the output is the answer; not if it has repeated what another started. */
function hasStarted({ subject, onBehalfOf = subject, credential }: Actor, record: StartedRecord): boolean {
  const { started_by, rerun_of = null, trigger } = record
  const names: readonly unknown[] = [onBehalfOf, ...(credential?.replaces ?? [])]
  return names.includes(started_by) && rerun_of === null && Object(trigger).kind !== 'redrive'
}

/** Why an actor sees the payloads of a record: it has started it, or has the right to see all; undefined if it does not. */
export function reasonToSee(actor: Actor, record: StartedRecord): 'started' | 'right' | undefined {
  if (hasStarted(actor, record)) return 'started'
  return seesPayloads(actor) ? 'right' : undefined
}

/** A look at payloads of others: by the right to see them, or since the caller is asked about them. */
export interface Look {
  readonly by: 'right' | 'asked'
  /** The workspace, if the scope is not of one. */
  readonly ref: Partial<WorkspaceRef>
}

const REVEALED = new WeakMap<object, Look>()

/** Notes for the audit log that an output shows payloads of others. */
export function revealing<T extends object>(
  output: T,
  ref: Partial<WorkspaceRef> = {},
  by: Look['by'] = 'right',
): T {
  REVEALED.set(output, { by, ref })
  return output
}

/** The look that an output is; undefined if it shows no payloads of others. */
export const revealedIn = (output: unknown): Look | undefined =>
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
  return reason === 'right' ? revealing(output, ref) : output
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
    const ran: unknown = await spec.run(scope, input)
    // Payloads in text that is JSON already cannot be left out.
    const output = (ran instanceof Serialized ? ran.parsed() : ran) as Awaited<ReturnType<typeof spec.run>>
    const { actor } = scope
    const isOwn = (record: object) => SHOWN.get(record) === 'own' || hasStarted(actor, record)
    const own = withoutPayloads(spec.output, output, isOwn)
    if (own === output) return output
    if (seesPayloads(actor)) return revealing(output as object) as typeof output
    const left = withoutPayloads(spec.output, output, (record) => SHOWN.has(record) || isOwn(record))
    return isDeepStrictEqual(left, own) ? own : (revealing(left as object, {}, 'asked') as typeof output)
  }
  return { ...spec, payloads: 'left out', run }
}
