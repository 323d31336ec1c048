/**
 * Concurrency slots of runs of any kind: statements that call the functions of slots.sql, which enforce the limits and keep the
 * queues, and what follows from them. At its end, the transaction that records the end of a run releases its slot; reconcile.ts does
 * so after a crash.
 */

import type { WorkspaceScope } from '../../access/scope.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { RUN_LIMITS } from './limits.ts'
import { type RunKind, requireRunKind } from './run-kind.ts'
import { watchRun } from './watcher.ts'

/** A row of a statement that admits runs. */
export interface AdmittedRow {
  readonly id?: unknown
}

/** A statement that releases the slot of a run. @returns rows `{id}`: the runs that hold a slot now, for {@link startAdmitted} */
export const releaseSlot = (runId: string): Sql => sql`select g as id from tenon.release_slot(${runId}) g`

/**
 * A statement that serializes the changes of slots of an owner and a key. It is a statement of its own, before those that see what
 * others have changed while it waited.
 */
export const lockSlots = (ownerId: string, key: string): Sql =>
  sql`select tenon.lock_slots(${ownerId}, ${key})`

/** A condition on a row `s` of run_slots, or on none: the run queues for a slot, and no caller has stopped waiting for it. */
export const IS_QUEUED = sql`(s.state is not distinct from 'queued' and coalesce(s.expires_at > now(), true))`

/** Statements that give free slots of an owner and a key to queued runs. @returns the last one has rows as {@link releaseSlot} */
function promoteNext({ slotsOf }: RunKind, ownerId: string, key: string): readonly Sql[] {
  const promote = sql`select h as id from tenon.promote_next(${ownerId}, ${key}) h`
  if (slotsOf === undefined) return [promote]
  const refresh = sql`update run_slots s set max = n.slots from (select ${slotsOf(ownerId)} as slots) n
    where s.owner_id = ${ownerId} and s.key = ${key} and s.max <> n.slots`
  return [lockSlots(ownerId, key), refresh, promote]
}

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
  const ids = admitted.slice(0, RUN_LIMITS.queuedStartsMax).map(({ id }) => String(id))
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

/** Gives free slots of an owner and a key to queued runs and starts them: also after the owner has got other slots. */
export async function promoteQueued(
  scope: WorkspaceScope,
  kindName: string,
  { ownerId, key = '' }: { readonly ownerId: string; readonly key?: string },
): Promise<void> {
  const promoted = await scope.batch(...promoteNext(requireRunKind(scope, kindName), ownerId, key))
  await startAdmitted(scope, kindName, promoted.at(-1) ?? [])
}

/** A pending run that queues for a slot of its owner. */
export interface QueuedRun {
  readonly runId: string
  readonly ownerId: string
  /** How long its caller waits; absent if it does not wait. */
  readonly waitMs?: number
}

/**
 * Queues a pending run of a kind with `slotsOf` for a slot, and starts the runs that get one, but not this one if its caller waits:
 * the caller starts it. Idempotent.
 * @returns true if the run has got a slot
 */
export async function queueRun(
  scope: WorkspaceScope,
  kindName: string,
  { runId, ownerId, waitMs }: QueuedRun,
): Promise<boolean> {
  const kind = requireRunKind(scope, kindName)
  if (kind.slotsOf === undefined) throw new TypeError(`owners of ${kind.plural} have no number of slots`)
  const insert = sql`insert into run_slots (kind, run_id, owner_id, max, expires_at)
    select ${kindName}, r.id, ${ownerId}, ${kind.slotsOf(ownerId)}, clock_timestamp() + ${waitMs ?? null}::float8 * interval '1 millisecond'
    from ${kind.table} r where r.id = ${runId} and ${kind.isPending} on conflict do nothing`
  const results = await scope.batch(insert, ...promoteNext(kind, ownerId, ''))
  const admitted: readonly AdmittedRow[] = results.at(-1) ?? []
  const others = admitted.filter(({ id }) => id !== runId)
  await startAdmitted(scope, kindName, waitMs === undefined ? admitted : others)
  return others.length < admitted.length
}

/**
 * Waits until a queued run, whose caller waits, holds a slot.
 * @returns false if it holds none when its time is over: then it has left the queue
 */
export async function awaitSlot(scope: WorkspaceScope, kindName: string, runId: string): Promise<boolean> {
  const { table } = requireRunKind(scope, kindName)
  const { watched, stop } = watchRun(scope, kindName, runId)
  try {
    for (;;) {
      const change = watched.nextChange(RUN_LIMITS.queuePollMs)
      const run = await scope.row<{ state: string | null; is_late: boolean | null }>(sql`
        select s.state, s.expires_at <= clock_timestamp() as is_late
        from ${table} r left join run_slots s on s.run_id = r.id where r.id = ${runId}`)
      // Another attempt of the call has given up, and deleted the record.
      if (run === undefined) return false
      // Without a slot, the run of an earlier call with the same id has ended.
      if (run.state !== 'queued') return true
      if (run.is_late === true) break
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
