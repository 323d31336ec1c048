/** Looks for executions that a crash may have left behind, and for places nobody has handed on: one process at a time. */

import { LIMITS } from '../core/limits.ts'
import type { WorkspaceRef } from '../core/tenant.ts'
import type { Log } from './log.ts'
import type { Database } from './pg/database.ts'
import { sql } from './pg/sql.ts'
import type { SystemScope } from './system.ts'
import { type Held, Turn } from './turn.ts'

/** What is to be looked into, within its own workspace. */
export type Suspect = { readonly ref: WorkspaceRef } & (
  | { readonly execution: string }
  /** A flow and a key whose places are free while somebody waits. */
  | { readonly flow: string; readonly key: string }
)

const DUTY = { reason: 'mender', lock: 7_302_519, waits: 'nobody looks after executions' } as const
const { againSeconds, soonSeconds, atOnce, pollMs } = LIMITS.mending

export class Overdue {
  readonly #turn: Turn
  readonly #log: Log

  constructor(database: Database, log: Log) {
    this.#turn = new Turn(database, DUTY, log)
    this.#log = log
  }

  /** Runs until it is closed. Every worker does so; the others wait for their turn. */
  start(look: (suspect: Suspect) => Promise<void>): void {
    this.#turn.start((held) => this.#watch(held, look))
  }

  /** Finishes what it is looking into. */
  close(): Promise<void> {
    return this.#turn.close()
  }

  async #watch(held: Held, look: (suspect: Suspect) => Promise<void>): Promise<void> {
    // Whoever was before us may have died in the midst of something that Temporal takes up again by itself.
    await held.wait(soonSeconds * 1_000)
    while (!held.isOver) {
      const found = await suspects(held.system)
      await Promise.all(found.map((suspect) => this.#lookInto(suspect, look)))
      held.wentWell()
      await held.wait(pollMs)
    }
  }

  /** One that cannot be mended now is found again. */
  async #lookInto(suspect: Suspect, look: (suspect: Suspect) => Promise<void>): Promise<void> {
    await look(suspect).catch((error: unknown) =>
      this.#log.warn({ err: error, suspect }, 'an execution is not mended yet'),
    )
  }
}

interface Row {
  readonly tenant_id: WorkspaceRef['tenantId']
  readonly workspace_id: WorkspaceRef['workspaceId']
  readonly id: string
  readonly key: string
}

async function suspects(system: SystemScope): Promise<Suspect[]> {
  const [due, behind, free] = (await system.batch(DUE, IN_THE_WAY, FREE)) as unknown as Row[][]
  const refOf = (row: Row) => ({ tenantId: row.tenant_id, workspaceId: row.workspace_id })
  return [
    ...[...(due ?? []), ...(behind ?? [])].map((row) => ({ ref: refOf(row), execution: row.id })),
    ...(free ?? []).map((row) => ({ ref: refOf(row), flow: row.id, key: row.key })),
  ]
}

/** Open for a while, or not begun in time. Who waits in a queue is nobody's fault. */
const DUE = sql`
  with due as (
    select tenant_id, workspace_id, id from executions where ended_at is null and due_at < now()
    order by due_at limit ${atOnce} for update skip locked
  )
  update executions e set due_at = now() + make_interval(secs => case when e.status = 'pending' and not exists (
      select from admissions a where a.tenant_id = e.tenant_id and a.workspace_id = e.workspace_id
        and a.execution_id = e.id and a.state = 'queued') then ${soonSeconds}::integer else ${againSeconds}::integer end)
  from due where e.tenant_id = due.tenant_id and e.workspace_id = due.workspace_id and e.id = due.id
  returning e.tenant_id, e.workspace_id, e.id`

/** Those who have a place that others wait for, or have not begun since they have it, or not heard of it. */
const IN_THE_WAY = sql`
  with suspects as (
    select a.tenant_id, a.workspace_id, a.execution_id from admissions a
    where a.state = 'admitted' and a.checked_at < now() - make_interval(secs => ${soonSeconds}::integer)
      and (exists (select from admissions q where q.tenant_id = a.tenant_id and q.workspace_id = a.workspace_id
          and q.flow_id = a.flow_id and q.key = a.key and q.state in ('queued', 'returning'))
        or a.unheard
        or exists (select from executions e where e.tenant_id = a.tenant_id and e.workspace_id = a.workspace_id
          and e.id = a.execution_id and e.status = 'pending' and e.ended_at is null))
    order by a.checked_at limit ${atOnce} for update skip locked
  )
  update admissions a set checked_at = now() from suspects s
  where a.tenant_id = s.tenant_id and a.workspace_id = s.workspace_id and a.execution_id = s.execution_id
  returning a.tenant_id, a.workspace_id, a.execution_id as id`

/** Heads of queues with a free place before them, in workspaces where something may begin. */
const FREE = sql`
  select q.tenant_id, q.workspace_id, q.flow_id as id, q.key from admissions q
    join workspaces w on w.id = q.workspace_id and w.state = 'active'
    join tenants t on t.id = q.tenant_id and t.state = 'active'
  where q.state in ('queued', 'returning')
    and not exists (select from admissions b where b.tenant_id = q.tenant_id and b.workspace_id = q.workspace_id
      and b.flow_id = q.flow_id and b.key = q.key and b.state in ('queued', 'returning')
      and tenon.place_rank(b.state, b.seq) < tenon.place_rank(q.state, q.seq))
    and q.max > (select count(*) from admissions a where a.tenant_id = q.tenant_id
      and a.workspace_id = q.workspace_id and a.flow_id = q.flow_id and a.key = q.key and a.state = 'admitted')
  limit ${atOnce}`
