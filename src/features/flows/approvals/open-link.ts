/** Opens approvals by their links, and decides them for the person that a link names. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { findRow } from '../../operation-helpers.ts'
import { type ApprovalLink, isGenuine } from './approval-links.ts'
import { APPROVAL_COLUMNS, APPROVAL_JOIN, type Approval } from './approval-shape.ts'
import { decide } from './approvals.ts'
import { accountsNamed, type NamedAccount, type Verdict } from './deciders.ts'

export interface OpenedLink {
  readonly link: ApprovalLink
  readonly approval: Approval
  /** The account that has to sign in; undefined for an address without an account. */
  readonly account: NamedAccount | undefined
  readonly person: string
  /** Its time is over, or something else is asked now. */
  readonly over: 'expired' | 'changed' | undefined
}

/** @throws Problem `not_found` if the link is forged, or its approval was deleted */
export async function openLink(scope: WorkspaceScope, link: ApprovalLink): Promise<OpenedLink> {
  if (!(await isGenuine(scope, link))) throw notFound('approval')
  const { round, ...approval } = await findRow<Approval & { round: number }>(
    scope,
    'approval',
    sql`select ${APPROVAL_COLUMNS}, a.round from ${APPROVAL_JOIN} where a.id = ${link.approvalId}`,
  )
  const { person, expiresMs } = link
  const [account] = await accountsNamed(scope, [person])
  // After an account is deleted, no other account may use its link.
  if (person.startsWith('acct_') && account === undefined) throw notFound('approval')
  const isChanged = round !== link.round
  const over = Date.now() >= expiresMs ? 'expired' : isChanged ? 'changed' : undefined
  return { link, approval, account, person, over }
}

/**
 * Decides for the person of a link.
 * @throws Problem `state_conflict` as {@link decide}, also for a link that is over or a disabled account
 */
export function decideByLink(
  scope: WorkspaceScope,
  { approval, account, person, over }: OpenedLink,
  verdict: Verdict,
): Promise<Approval> {
  if (over !== undefined || account?.active === false)
    throw new Problem('state_conflict', { detail: 'The link is no longer valid.' })
  if (account?.role === 'viewer')
    throw new Problem('state_conflict', {
      detail: 'The account has the role viewer, which changes nothing: another approver decides.',
    })
  const decider = account === undefined ? { by: person, as: [] } : { by: account.id, as: account.known_as }
  return decide(scope, approval.id, decider, verdict)
}
