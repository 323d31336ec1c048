/** The people behind decisions: the names by which a caller may decide, and the accounts that names of approvers stand for. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { type Sql, sql, textArray } from '../../../infra/postgres/sql.ts'

/** A subject that decides. */
export interface Decider {
  readonly by: string
  /** Its other names: its e-mail address, `role:…`, `group:…`. */
  readonly as: readonly string[]
}

export interface Verdict {
  readonly approved: boolean
  readonly form?: unknown
  readonly comment?: string
}

/** The names by which the caller may decide: its subject, its role, its groups, and the address of its account. */
export async function deciderOf(scope: WorkspaceScope): Promise<Decider> {
  const { subject, role, credentialRole = role, groups = [] } = scope.actor
  const [account] = await accountsNamed(scope, [subject])
  const own = account?.id === subject ? account.known_as : []
  return {
    by: subject,
    as: [...new Set([...own, `role:${credentialRole}`, ...groups.map((name) => `group:${name}`)])],
  }
}

export interface NamedAccount {
  readonly id: string
  readonly email: string
  /** Accepted, and not disabled. */
  readonly active: boolean
  readonly known_as: readonly string[]
}

/** The accounts that names of approvers stand for. */
export function accountsNamed(scope: WorkspaceScope, names: readonly string[]): Promise<NamedAccount[]> {
  return scope.rows<NamedAccount>(
    sql`select id, email, active, to_json(known_as) as known_as from tenon.accounts_named(${textArray(names)}::text[])`,
  )
}

/** Approvals that the decider may decide now. A subject cannot stand for a role or a group. */
export function mayDecide({ by, as }: Decider): Sql {
  const names = [...(/^(role|group):/.test(by) ? [] : [by, by.toLowerCase()]), ...as]
  return sql`and a.approvers && ${textArray(names)}::text[] and not ${by}::text = any(a.excluded)
    and not a.decisions @> ${JSON.stringify([{ by }])}::jsonb`
}
