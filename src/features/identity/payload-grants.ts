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

interface ControlledAccount {
  readonly email_verified_at: string | null
  readonly controlled_by: readonly string[]
  readonly confirmed_by: readonly string[]
}

/**
 * An admin who was shown the link of an account could act as its person (tenon.keep_account).
 * @throws Problem `forbidden` unless the link was mailed, or another admin has confirmed the account
 */
export function requireGrantToOther(
  { actor: { role, subject } }: AdminScope,
  { email_verified_at: verified, controlled_by: controllers, confirmed_by: confirmers }: ControlledAccount,
): void {
  if (role === 'operator' || verified !== null || !controllers.includes(subject)) return
  if (confirmers.some((one) => one !== subject)) return
  throw new Problem('forbidden', {
    detail:
      'You made the account, a link to it or its groups, so you could act as its person, and would grant the right to yourself.',
    hint: 'Another admin of the tenant grants it, or an admin with a higher role confirms the account first. An invitation that is mailed (`mail`) needs neither.',
  })
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
