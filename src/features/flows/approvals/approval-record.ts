/** Records approvals together with their steps: what is asked, the decisions, and the outcome. */

import { createHash } from 'node:crypto'
import type { StepUpdate } from '../../../core/execution.ts'
import { seededIds, typeId, uuidOf } from '../../../core/ids.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'

/** The id of an approval follows from its execution and step, so that a repeated record writes the same row. */
function approvalId(executionId: string, { pointer, iteration }: StepUpdate): string {
  const uuid = uuidOf(executionId)
  // The time of the execution: lists of approvals are in the order of executions.
  const msecs = Number.parseInt(uuid.replaceAll('-', '').slice(0, 12), 16)
  const digest = createHash('sha256').update(`${uuid}/${pointer}#${iteration}`).digest()
  return typeId('apr', seededIds(msecs, () => digest.subarray(0, 16)).uuid())
}

/** The statements that write the approvals among these steps. @param json serialises a value without its secrets */
export function recordApprovals(
  executionId: string,
  steps: readonly StepUpdate[],
  json: (value: unknown) => string | null,
): Sql[] {
  const asked = steps.filter(({ kind, reused }) => kind === 'approve' && reused !== true)
  if (asked.length === 0) return []
  const rows = asked.map((step) => ({ ...step, id: approvalId(executionId, step), outcome: outcomeOf(step) }))
  return [
    upsert(executionId, json(rows.filter(({ approval }) => approval !== undefined))),
    reopen(json(rows.filter(({ approval }) => approval === undefined))),
  ]
}

/** The status of an approval as that of its step says. */
function outcomeOf({ status, result: answer, error }: StepUpdate): string {
  if (status === 'running') return 'open'
  const { approved, deadline_passed: isLate } = (answer ?? {}) as Record<string, unknown>
  const { type = '' } = (error ?? {}) as { type?: string }
  if (status === 'completed') return approved === true ? 'approved' : isLate === true ? 'expired' : 'rejected'
  if (status === 'faulted' && type.endsWith('/rejected')) return 'rejected'
  return status === 'faulted' && type.endsWith('/timeout') ? 'expired' : 'cancelled'
}

/** Another question makes another round, whose mails are due at once. */
const upsert = (executionId: string, steps: string | null) => sql`
  insert into approvals as known (id, execution_id, pointer, iteration, name, title, form, approvers, excluded, quorum,
    data, digest, status, decisions, asked_at, deadline_at, ended_at, remind_ms, mail_due_at)
  select id, ${executionId}, pointer, iteration, name, approval ->> 'title', approval -> 'form',
    array(select json_array_elements_text(approval -> 'approvers')),
    array(select json_array_elements_text(coalesce(approval -> 'excluded', '[]'))),
    (approval ->> 'quorum')::integer, approval -> 'data', digest, outcome, coalesce(decisions, '[]'), started_at,
    (approval ->> 'deadline')::timestamptz(3), ended_at, (approval ->> 'remindMs')::bigint,
    case when outcome = 'open' then now() end
  from json_to_recordset(${steps}::json) as step (id text, pointer text, iteration integer, name text, approval json,
    digest text, outcome text, decisions jsonb, started_at timestamptz, ended_at timestamptz)
  where exists (select from executions where id = ${executionId})
  on conflict (tenant_id, workspace_id, id) do update set
    title = excluded.title, form = excluded.form, approvers = excluded.approvers, excluded = excluded.excluded,
    quorum = excluded.quorum, data = excluded.data, digest = excluded.digest, status = excluded.status,
    decisions = excluded.decisions, deadline_at = excluded.deadline_at, ended_at = excluded.ended_at,
    round = known.round + ${IS_OTHER}::integer,
    mails_sent = case when ${IS_OTHER} then 0 else known.mails_sent end,
    mailed = case when ${IS_OTHER} then '{}' else known.mailed end,
    mail_tries = case when ${IS_OTHER} then 0 else known.mail_tries end,
    mail_due_at = case when excluded.status <> 'open' then null when ${IS_OTHER} then now() else known.mail_due_at end`

const IS_OTHER = sql`(excluded.digest is distinct from known.digest or excluded.approvers <> known.approvers)`

/** An approval that was granted and is asked for again, since data were changed by hand: what it showed is out of date. */
const reopen = (steps: string | null) => sql`
  update approvals known set status = step.outcome, decisions = coalesce(step.decisions, '[]'), ended_at = step.ended_at,
    reopened = true, data = null,
    round = known.round + (not known.reopened or known.status <> 'open' and step.outcome = 'open')::integer,
    mails_sent = case when known.reopened and known.status = 'open' then known.mails_sent else 0 end,
    mailed = case when known.reopened and known.status = 'open' then known.mailed else '{}' end,
    mail_tries = case when known.reopened and known.status = 'open' then known.mail_tries else 0 end,
    mail_due_at = case when step.outcome <> 'open' then null when known.reopened and known.status = 'open'
      then known.mail_due_at else now() end
  from jsonb_to_recordset(${steps}::jsonb) as step (id text, outcome text, decisions jsonb, ended_at timestamptz)
  where known.id = step.id`

/** Approvals of an execution that was ended from outside. */
export const cancelApprovals = (executionId: string): Sql => sql`
  update approvals set status = 'cancelled', ended_at = now(), mail_due_at = null
  where execution_id = ${executionId} and status = 'open'`
