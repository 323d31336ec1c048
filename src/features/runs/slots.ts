/**
 * Concurrency slots of runs of any kind: statements that call the functions of slots.sql, which enforce the limits and keep the
 * queues, and what follows from them. At its end, the transaction that records the end of a run releases its slot; reconcile.ts does
 * so after a crash.
 */

import type { WorkspaceScope } from '../../access/scope.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { RUN_LIMITS } from './limits.ts'
import { requireRunKind } from './run-kind.ts'
import { watchRun } from './watcher.ts'

/** A row of a statement that admits runs. */
export interface AdmittedRow {
  readonly id?: unknown
}

/** A statement that releases the slot of a run. @returns rows `{id}`: the runs that hold a slot now, for {@link startAdmitted} */
export const releaseSlot = (runId: string): Sql => sql`select g as id from tenon.release_slot(${runId}) g`

/** Gives free slots of an owner and a key to queued runs. */
const promoteNext = (ownerId: string, key: string): Sql =>
  sql`select h as id from tenon.promote_next(${ownerId}, ${key}) h`

/** A statement that records that the run has acknowledged its slot of that generation. */
export const ackSlot = (runId: string, generation: number): Sql => sql`
  update run_slots set notify_pending = false where run_id = ${runId} and generation = ${generation}::integer`

/** A statement that reads the queue position of a run: `{key, limit, position, running}`; no row if it is not queued. */
export const queuePosition = (runId: string): Sql => sql`
  select s.key, s.max as limit,
    (select count(*)::integer from run_slots q where q.owner_id = s.owner_id and q.key = s.key
      and q.state in ('queued', 'requeued')
      and tenon.slot_rank(q.state, q.seq) <= tenon.slot_rank(s.state, s.seq)) as position,
    (select count(*)::integer from run_slots q where q.owner_id = s.owner_id and q.key = s.key
      and q.state = 'admitted') as running
  from run_slots s where s.run_id = ${runId} and s.state in ('queued', 'requeued')`

/**
 * Starts runs that hold a slot, and those that get the slot of one that ended instead. The reconciler repeats what fails here, and
 * starts the rest.
 */
export async function startAdmitted(
  scope: WorkspaceScope,
  kindName: string,
  admitted: readonly AdmittedRow[],
): Promise<void> {
  const kind = requireRunKind(scope, kindName)
  const ids = admitted.map(({ id }) => String(id))
  for (const id of ids) {
    try {
      if (await kind.start(scope, id)) continue
      const next = await scope.rows<AdmittedRow>(releaseSlot(id))
      if (ids.length < RUN_LIMITS.queuedStartsMax) ids.push(...next.map((row) => String(row.id)))
    } catch (error) {
      scope.logError(error, `${kind.name} not started`)
    }
  }
}

/** Gives free slots of an owner and a key to queued runs and starts them. */
export async function promoteQueued(
  scope: WorkspaceScope,
  kindName: string,
  { ownerId, key = '' }: { readonly ownerId: string; readonly key?: string },
): Promise<void> {
  await startAdmitted(scope, kindName, await scope.rows<AdmittedRow>(promoteNext(ownerId, key)))
}

/** Sets the number of slots of an owner whose runs have no key, and starts those that get one of them. */
export async function setSlots(
  scope: WorkspaceScope,
  kindName: string,
  { ownerId, max }: { readonly ownerId: string; readonly max: number },
): Promise<void> {
  const [, admitted = []] = await scope.batch(
    sql`update run_slots set max = ${max}::integer where owner_id = ${ownerId} and max <> ${max}::integer`,
    promoteNext(ownerId, ''),
  )
  await startAdmitted(scope, kindName, admitted)
}

/** A pending run that queues for a slot of its owner. */
export interface QueuedRun {
  readonly runId: string
  readonly ownerId: string
  /** The number of slots of the owner. */
  readonly max: number
  /** How long its caller waits; absent if it does not wait. */
  readonly waitMs?: number
}

/** Queues a pending run for a slot, and starts those that get one. Idempotent. */
export async function queueRun(
  scope: WorkspaceScope,
  kindName: string,
  { runId, ownerId, max, waitMs }: QueuedRun,
): Promise<void> {
  const { table, isPending } = requireRunKind(scope, kindName)
  const [, admitted = []] = await scope.batch(
    sql`insert into run_slots (kind, run_id, owner_id, max, expires_at)
      select ${kindName}, r.id, ${ownerId}, ${max}::integer, clock_timestamp() + ${waitMs ?? null}::float8 * interval '1 millisecond'
      from ${table} r where r.id = ${runId} and ${isPending} on conflict do nothing`,
    promoteNext(ownerId, ''),
  )
  await startAdmitted(scope, kindName, admitted)
}

/**
 * Waits until a queued run, whose caller waits, holds a slot.
 * @returns false if it holds none when its time is over: then it has left the queue
 */
export async function awaitSlot(scope: WorkspaceScope, kindName: string, runId: string): Promise<boolean> {
  const { watched, stop } = watchRun(scope, kindName, runId)
  try {
    for (;;) {
      const change = watched.nextChange(RUN_LIMITS.queuePollMs)
      const slot = await scope.row<{ state: string; is_late: boolean }>(
        sql`select state, expires_at <= clock_timestamp() as is_late from run_slots where run_id = ${runId}`,
      )
      // Without a row, the run of an earlier call with the same id has ended.
      if (slot?.state !== 'queued') return true
      if (slot.is_late) break
      await change
    }
  } finally {
    stop()
  }
  const left = sql`delete from run_slots where run_id = ${runId} and state = 'queued' returning run_id`
  return (await scope.row(left)) === undefined
}

/** The slot of a run that gives it up while it waits. `generation` counts how often it did. */
export interface YieldedSlot {
  readonly runId: string
  readonly generation: number
}

/** Releases the slot of a run while it waits, and starts the next. Idempotent by `generation`. */
export async function yieldSlot(
  scope: WorkspaceScope,
  kindName: string,
  { runId, generation }: YieldedSlot,
): Promise<void> {
  const next = sql`select p as id from tenon.yield_slot(${runId}, ${generation}::integer) p`
  await startAdmitted(scope, kindName, await scope.rows<AdmittedRow>(next))
}

/**
 * Queues for a slot after {@link yieldSlot}. Idempotent by `generation`.
 * @param atOnce true if another run waits for this one: then it gets its slot in any case
 * @returns true if the run holds a slot, or if there is no record of its slot: then nothing limits it
 */
export async function reacquireSlot(
  scope: WorkspaceScope,
  kindName: string,
  { runId, generation, atOnce }: YieldedSlot & { readonly atOnce: boolean },
): Promise<boolean> {
  const row = await scope.row<{ has_it: boolean; others: readonly AdmittedRow[] }>(sql`
    select w.has_it, (select coalesce(json_agg(json_build_object('id', o)), '[]') from unnest(w.others) o) as others
    from tenon.reacquire_slot(${runId}, ${generation}::integer, ${atOnce}::boolean) w`)
  await startAdmitted(scope, kindName, row?.others ?? [])
  return row?.has_it ?? true
}
