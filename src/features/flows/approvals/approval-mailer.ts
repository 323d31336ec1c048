/** Finds approvals whose approvers are to be mailed. Runs on one process at a time. */

import { LIMITS } from '../../../core/limits.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import type { Log } from '../../../infra/log.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { type Leadership, LeaderTask } from '../../../infra/postgres/leader-task.ts'
import { sql } from '../../../infra/postgres/sql.ts'

export interface DueMail {
  readonly ref: WorkspaceRef
  readonly approvalId: string
}

const TASK = { reason: 'reconciler', lock: 7_302_527, failureMessage: 'mailing approvers failed' } as const
const { mailPollMs, mailsAtOnce, mailRetrySeconds } = LIMITS.approvals

export class ApprovalMailer {
  readonly #task: LeaderTask
  readonly #log: Log

  constructor(database: Database, log: Log) {
    this.#task = new LeaderTask(database, TASK, log)
    this.#log = log
  }

  /** Runs until it is closed. Every worker starts it; one of them is the leader. */
  start(send: (due: DueMail) => Promise<void>): void {
    this.#task.start((leadership) => this.#watch(leadership, send))
  }

  close(): Promise<void> {
    return this.#task.close()
  }

  async #watch(leadership: Leadership, send: (due: DueMail) => Promise<void>): Promise<void> {
    while (!leadership.isOver) {
      const rows = (await leadership.system.rows(DUE)) as unknown as DueRow[]
      await Promise.all(
        rows.map(({ tenant_id: tenantId, workspace_id: workspaceId, id: approvalId }) =>
          // It is due again after a while.
          send({ ref: { tenantId, workspaceId }, approvalId }).catch((error: unknown) =>
            this.#log.warn({ err: error, approval: approvalId }, 'approval mail failed'),
          ),
        ),
      )
      leadership.resetBackoff()
      await leadership.wait(rows.length < mailsAtOnce ? mailPollMs : 0)
    }
  }
}

interface DueRow {
  readonly tenant_id: WorkspaceRef['tenantId']
  readonly workspace_id: WorkspaceRef['workspaceId']
  readonly id: string
}

/** Takes what is due; if the process dies before it is sent, it is due again. */
const DUE = sql`
  with due as (
    select tenant_id, workspace_id, id from approvals where mail_due_at is not null and mail_due_at <= now()
    order by mail_due_at limit ${mailsAtOnce} for update skip locked
  )
  update approvals a set mail_due_at = now() + make_interval(secs => ${mailRetrySeconds}::integer)
  from due where a.tenant_id = due.tenant_id and a.workspace_id = due.workspace_id and a.id = due.id
  returning a.tenant_id, a.workspace_id, a.id`
