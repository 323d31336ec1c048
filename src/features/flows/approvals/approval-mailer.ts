/** Finds approvals, of all tenants, whose approvers are to be mailed. */

import type { Mailer } from '../../../infra/mail/mail.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import {
  type BackgroundTask,
  findRoundRobin,
  nextCursor,
  workspacePage,
  workspaceWith,
} from '../../background/background-task.ts'
import { FLOW_LIMITS } from '../limits.ts'
import { mailApprovers } from './mail-approvers.ts'

const { mailPollMs, mailsMax: mailsAtOnce, mailRetrySeconds, workspacesSeenMax } = FLOW_LIMITS.approvals

/** The items are ids of approvals. In a suspended workspace, they are mailed later. */
export function approvalMails(mailer: Pick<Mailer, 'send'>): BackgroundTask<string> {
  return {
    name: 'approval mails',
    pollMs: mailPollMs,
    atOnce: mailsAtOnce,
    find: findRoundRobin(dueMails, (row) => row.id),
    run: async ({ scope, isActive }, id) => {
      if (isActive) await mailApprovers(scope, id, (mail) => mailer.send(mail))
    },
  }
}

/**
 * Takes what is due in the next workspaces, the most overdue approval of each active one first; if the process dies before the
 * mail is sent, it is due again.
 */
const dueMails = (after: string, limit: number) => sql`
  with recursive ${workspacePage(workspaceWith(sql`approvals where mail_due_at is not null`), after, workspacesSeenMax)}, due as materialized (
    select r.* from seen
      join workspaces w on w.id = seen.workspace_id and w.state = 'active'
      join tenants t on t.id = w.tenant_id and t.state = 'active'
      cross join lateral (
        select tenant_id, workspace_id, id, mail_due_at, row_number() over (order by mail_due_at) as place from approvals
        where mail_due_at is not null and workspace_id = seen.workspace_id and mail_due_at <= now()
        order by mail_due_at limit ${limit}) r
    order by place, mail_due_at limit ${limit}
  ), free as materialized (
    select a.tenant_id, a.workspace_id, a.id from due join approvals a
      on a.tenant_id = due.tenant_id and a.workspace_id = due.workspace_id and a.id = due.id
    for update of a skip locked
  ), taken as (
    update approvals a set mail_due_at = now() + make_interval(secs => ${mailRetrySeconds}::integer)
    from free where a.tenant_id = free.tenant_id and a.workspace_id = free.workspace_id and a.id = free.id
    returning a.tenant_id, a.workspace_id, a.id
  )
  select taken.*, behind from (${nextCursor(workspacesSeenMax)}) reached left join taken on true`
