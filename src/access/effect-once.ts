/** Makes the effect of an operation once for all repetitions of its request under one idempotency key. */

import { requireHeld } from './completion.ts'
import { internalsOf } from './internals.ts'
import type { AdminScope, WorkspaceScope } from './scope.ts'

/**
 * Runs the effect of an operation in one transaction: an error takes back whatever it has done. If the request has an idempotency
 * key, the output is kept in the same transaction, so that a repetition of the request is answered from there, and never makes the
 * effect again.
 * @param effect has statements of PostgreSQL as its only effect, and returns the output of the operation; it may run beside others
 * that compile or call servers, which would hold the transaction open
 * @throws Problem `idempotency_in_flight` if another attempt has taken over the request: nothing was changed; TypeError for the scope
 * of a transaction, which may be rolled back after the effect
 */
export async function effectOnce<S extends AdminScope | WorkspaceScope, T>(
  scope: S,
  effect: (inside: S) => Promise<T>,
): Promise<T> {
  const { services } = internalsOf(scope)
  if (services.statements !== services.database)
    throw new TypeError('effectOnce must not run within a transaction')
  const { completion } = scope
  return scope.transaction(async (inside: AdminScope | WorkspaceScope) => {
    const output = await effect(inside as S)
    if (completion !== undefined) requireHeld(await inside.rows(completion.keep(output)))
    return output
  })
}
