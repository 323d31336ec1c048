/** The people behind decisions: the names by which a caller may decide, and the accounts that names of approvers stand for. */

import { showPayloads } from '../../../access/payload-access.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import { type Sql, sql, textArray } from '../../../infra/postgres/sql.ts'
import type { Approval } from './approval-shape.ts'

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
export async function resolveDecider(scope: WorkspaceScope): Promise<Decider> {
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

/** The names of approvers that stand for the decider. A subject cannot stand for a role or a group. */
export const namesOf = ({ by, as }: Decider): string[] => [
  ...(/^(role|group):/.test(by) ? [] : [by, by.toLowerCase()]),
  ...as,
]

/** Shows an approval to whoever is asked: a decision needs what it is about. @param names of the reader ({@link namesOf}) */
export function showIfAsked(approval: Approval, names: readonly string[]): Approval {
  const isAsked = approval.approvers.some((one) => names.includes(one))
  const isExcluded = approval.excluded.some((one) => names.includes(one))
  return isAsked && !isExcluded ? showPayloads(approval) : approval
}

/** Approvals that the decider may decide now. */
export function mayDecide(decider: Decider): Sql {
  const { by } = decider
  return sql`and a.approvers && ${textArray(namesOf(decider))}::text[] and not ${by}::text = any(a.excluded)
    and not a.decisions @> ${JSON.stringify([{ by }])}::jsonb and ${refusalOf(sql`${by}`)} is null`
}

/**
 * Why a subject may not decide an approval `a`, in SQL: null if it may (tenon.decision_refusal). An approval with `fourEyes`
 * excludes at least the starter.
 */
export const refusalOf = (by: Sql): Sql => sql`tenon.decision_refusal(${by}, a.approvers,
  a.excluded || array(select s.started_by from executions s where s.id = a.execution_id),
  array(select unnest(s.caused_by) from executions s where s.id = a.execution_id), cardinality(a.excluded) > 0,
  array(select d ->> 'by' from jsonb_array_elements(a.decisions) as d),
  (select s.started_at from executions s where s.id = a.execution_id), a.asked_at)`

/**
 * Rejects a decision by someone who is behind the execution, has decided under another name, or has an account that those
 * people, or an admin since the question, could act with. The workflow checks the subject itself.
 * @param entry `pointer#iteration`
 * @returns who made the subject, for the record; undefined if nobody of the tenant did
 * @throws Problem `state_conflict`
 */
export async function requireIndependent(
  scope: WorkspaceScope,
  executionId: string,
  entry: string,
  { by }: Decider,
): Promise<string | undefined> {
  const [pointer = '', iteration = ''] = entry.split('#')
  const found = await scope.row<{ refusal: keyof typeof REFUSALS | null; created_by: string | null }>(sql`
    select ${refusalOf(sql`${by}`)} as refusal, tenon.creator_of(${by}) as created_by from approvals a
    where a.execution_id = ${executionId} and a.pointer = ${pointer} and a.iteration::text = ${iteration}`)
  if (found === undefined)
    throw new Problem('state_conflict', { detail: 'No such step waits for a decision.' })
  if (found.refusal !== null) throw new Problem('state_conflict', REFUSALS[found.refusal](by))
  return found.created_by ?? undefined
}

function confirmation(by: string): string {
  const id = by.startsWith('acct_') ? by : '{id}'
  return `an admin with a higher role, whose own account these people did not make, confirms the account: POST /v1/accounts/${id}/confirm.`
}

/** The errors for each refusal. Approvers who are not admins do not get the next step of an admin. */
const REFUSALS = {
  excluded: (by: string) => ({
    detail: `\`${by}\` may not decide (fourEyes): a person who can act as it, or could, has started the execution or changed its data, perhaps with a key or by an event. Another approver decides.`,
    ...(by.startsWith('acct_') && {
      adminHint: `Another approver decides. Only if \`${by}\` neither acted itself nor made what did, but was made with a link that these people were shown: ${confirmation(by)}`,
    }),
  }),
  decided: (by: string) => ({
    detail: `\`${by}\` may not decide: a person who can act as it, or could, has decided already, under another name.`,
    hint: 'Ask another approver to decide.',
  }),
  unconfirmed: (by: string) => ({
    detail: `\`${by}\` may not decide yet: a person who has started the execution made, reset or regrouped its account, or an admin did after this was asked for.`,
    adminHint: `Before it decides, ${confirmation(by)}`,
  }),
}

/** The makers of the caller, such as the maker of a key. If the caller changes data, they may not decide either. */
export async function peopleBehind(scope: WorkspaceScope): Promise<string[]> {
  const { subject } = scope.actor
  const found = await scope.row<{ people: string[] }>(
    sql`select to_json(tenon.people_behind(array[${subject}::text])) as people`,
  )
  return (found?.people ?? []).filter((person) => person !== subject)
}
