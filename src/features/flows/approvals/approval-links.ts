/** Links to approvals: each is bound to one approval, what it asks, and one person, and expires with the deadline. */

import { createHmac, timingSafeEqual } from 'node:crypto'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { addressOf, lastingSecrets } from '../../../access/scope-services.ts'
import { isTenantId, isWorkspaceId, type WorkspaceRef } from '../../../core/tenant.ts'
import { FLOW_LIMITS } from '../limits.ts'

/** The path of the page, with the token in the query, which is never logged. */
export const APPROVAL_PAGE = '/approvals'

/** The claims in a link, which hold only if {@link isGenuine} accepts it. */
export interface ApprovalLink {
  readonly ref: WorkspaceRef
  readonly approvalId: string
  readonly round: number
  /** The id of an account, or an e-mail address that belongs to none. */
  readonly person: string
  /** Milliseconds since 1970. */
  readonly expiresMs: number
  readonly signed: string
  readonly mac: string
}

type Claims = readonly [
  tenant: string,
  workspace: string,
  id: string,
  round: number,
  person: string,
  expires: number,
]

/** @param asked `deadline_at` is RFC 3339; null if it has none */
export async function linkTo(
  scope: WorkspaceScope,
  asked: { readonly id: string; readonly round: number; readonly deadline_at: string | null },
  person: string,
): Promise<string> {
  const { tenantId, workspaceId } = scope.ref
  const days = FLOW_LIMITS.approvals.linkDays * 86_400_000
  const expires = asked.deadline_at === null ? Date.now() + days : Date.parse(asked.deadline_at)
  const claims: Claims = [tenantId, workspaceId, asked.id, asked.round, person, expires]
  const signed = Buffer.from(JSON.stringify(claims)).toString('base64url')
  return addressOf(scope, `${APPROVAL_PAGE}?token=${signed}.${await computeMac(scope, signed)}`)
}

/** Reads a link without verifying it; undefined if it is none. */
export function readLink(token: string): ApprovalLink | undefined {
  const [signed = '', mac = '', ...more] = token.split('.')
  if (more.length > 0) return undefined
  try {
    const claims: Claims = JSON.parse(Buffer.from(signed, 'base64url').toString())
    const [tenantId, workspaceId, approvalId, round, person, expiresMs] = claims
    if (!isTenantId(tenantId) || !isWorkspaceId(workspaceId)) return undefined
    return { ref: { tenantId, workspaceId }, approvalId, round, person, expiresMs, signed, mac }
  } catch {
    return undefined
  }
}

/** True if the platform has made the link, for this workspace. */
export async function isGenuine(scope: WorkspaceScope, { signed, mac }: ApprovalLink): Promise<boolean> {
  const [own, given] = [Buffer.from(await computeMac(scope, signed)), Buffer.from(mac)]
  return own.length === given.length && timingSafeEqual(own, given)
}

async function computeMac(scope: WorkspaceScope, signed: string): Promise<string> {
  const derive = await lastingSecrets(scope)
  return createHmac('sha256', derive('approval-links')).update(signed).digest('base64url')
}
