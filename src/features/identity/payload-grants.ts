/** Checks who grants the right to see payloads: admins of the tenant to accounts of others, and those who have it to credentials that they make. */

import { PAYLOADS_SCOPE, seesPayloads } from '../../access/payload-access.ts'
import type { AdminScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'

const refused = (detail: string) => new Problem('forbidden', { detail })

/** @throws Problem `forbidden` for an admin of a workspace, and for the caller's own account */
export function requireGrantOfPayloads({ actor }: AdminScope, accountId: string): void {
  if (actor.role === 'workspace_admin')
    throw refused('Only admins of the tenant, and operators, grant the right to see payloads.')
  if (actor.subject === accountId)
    throw refused('Nobody grants the right to see payloads to their own account: another admin does.')
}

/**
 * For a credential that its maker is shown.
 * @throws Problem `forbidden` if it would see payloads, and its maker does not
 */
export function requireShareOfPayloads({ actor }: AdminScope, sees: boolean | readonly string[]): void {
  const isGranted = typeof sees === 'boolean' ? sees : sees.includes(PAYLOADS_SCOPE)
  if (!isGranted || seesPayloads(actor)) return
  throw refused('You would be shown a credential that sees payloads, and you may not see those yourself.')
}
