/**
 * Concurrency slots: statements that call the functions of concurrency.sql, which enforce the limit, and the queue of a key. At the
 * end of an execution, the transaction that records it releases its slot (record.ts); reconcile-execution.ts does so after a crash.
 */

import { type Static, Type } from 'typebox'
import { concurrencyKey } from '../../../../flows-dsl/compile/concurrency.ts'
import { FlowError } from '../../../../flows-dsl/errors.ts'
import type { Concurrency } from '../../../../flows-dsl/ir.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import type { ExecutionInput, SlotGeneration } from '../../../core/execution.ts'
import { Problem } from '../../../core/problem.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { FLOW_LIMITS } from '../limits.ts'
import { resumeAdmitted } from './start-workflow.ts'

/** The position of an execution in the queue of its key. */
export const Queue = Type.Object(
  {
    position: Type.Integer({ minimum: 1, description: 'Position in the queue; 1 starts next.' }),
    key: Type.String({ description: 'Concurrency key of the execution; empty if the flow has none.' }),
    limit: Type.Integer(),
    running: Type.Integer({ description: 'Number of executions that hold a slot of the key.' }),
  },
  {
    description:
      'Place in the queue, while the execution waits for a concurrency slot to start or to continue.',
  },
)
export type Queue = Static<typeof Queue>

/** The outcome of acquiring a slot, and the executions to cancel for it. */
export interface SlotResult {
  readonly state: 'admitted' | 'queued'
  readonly to_cancel: readonly string[]
}

/**
 * A statement that gives an open execution a slot or queues it. Its row is written in the same transaction.
 * @param isChild true if another execution waits for it: then it is never queued, since its parent may hold the last slot
 * @returns a row as {@link SlotResult}; none if the execution has started or ended
 * @throws Problem `validation_failed` if its input yields no key; the statement, `concurrency_limited`, also for a full queue
 */
export function acquireSlot(concurrency: Concurrency, execution: ExecutionInput, isChild: boolean): Sql {
  const { ir: _ir, input, ...rest } = execution
  const onLimit = isChild ? 'always' : concurrency.onLimit
  return sql`select p.state, to_json(p.to_cancel) as to_cancel from executions e cross join lateral tenon.acquire_slot(
      e.id, e.flow_id, ${keyOf(concurrency, input)}::text, ${concurrency.limit}::integer, ${onLimit}::text,
      ${JSON.stringify(rest)}::jsonb, ${FLOW_LIMITS.queuedExecutionsMax}::integer) p
    where e.id = ${execution.execution_id} and e.status = 'pending' and e.ended_at is null`
}

function keyOf(concurrency: Concurrency, input: ExecutionInput['input']): string {
  try {
    return concurrencyKey(concurrency, input, Date.now())
  } catch (error) {
    if (!(error instanceof FlowError)) throw error
    throw new Problem('validation_failed', { detail: `input: ${error.message}`, cause: error })
  }
}

/** A statement that releases the slot of an execution. @returns rows `{id}`: executions that hold a slot now and are to be started */
export const releaseSlot = (id: string): Sql => sql`select g as id from tenon.release_slot(${id}) g`

/** {@link releaseSlot}, if the row of the execution meets a condition on its columns. */
export const releaseSlotIf = (id: string, condition: Sql): Sql => sql`
  select g as id from executions e cross join lateral tenon.release_slot(e.id) g where e.id = ${id} and ${condition}`

/** A statement that gives free slots of a key to queued executions. @returns rows `{id}`, as {@link releaseSlot} */
export const promoteNext = (flowId: string, key: string): Sql =>
  sql`select h as id from tenon.promote_next(${flowId}, ${key}) h`

/** A statement that records that the execution has acknowledged its slot of that generation. */
export const ackSlot = (id: string, generation: number): Sql => sql`
  update concurrency_slots set notify_pending = false where execution_id = ${id} and generation = ${generation}::integer`

/** A statement that reads the queue position of an execution; no row if it is not queued. */
export const queuePosition = (id: string): Sql => sql`
  select a.key, a.max as limit,
    (select count(*)::integer from concurrency_slots q where q.flow_id = a.flow_id and q.key = a.key
      and q.state in ('queued', 'requeued')
      and tenon.slot_rank(q.state, q.seq) <= tenon.slot_rank(a.state, a.seq)) as position,
    (select count(*)::integer from concurrency_slots q where q.flow_id = a.flow_id and q.key = a.key
      and q.state = 'admitted') as running
  from concurrency_slots a where a.execution_id = ${id} and a.state in ('queued', 'requeued')`

/**
 * Cancels a queued execution, and records the request for any other.
 * @returns false if it was not queued; if its workflow does not exist yet, the reconciler ends the execution or cancels its
 *   workflow
 */
export async function cancelQueued(scope: WorkspaceScope, id: string): Promise<boolean> {
  const row = await scope.row<{ cancelled: boolean }>(sql`select tenon.cancel_queued(${id}) as cancelled`)
  return row?.cancelled === true
}

/** Releases the slot while the execution waits (`holdWhileWaiting: false`), and promotes the next. Idempotent by `generation`. */
export async function yieldSlot(
  scope: WorkspaceScope,
  { execution_id, generation }: SlotGeneration,
): Promise<void> {
  const next = await scope.rows<{ id: string }>(
    sql`select p as id from tenon.yield_slot(${execution_id}, ${generation}::integer) p`,
  )
  await resumeAdmitted(scope, next)
}

/**
 * Queues for a slot after {@link yieldSlot}. Idempotent by `generation`.
 * @returns true if the execution holds a slot, or if there is no record of its slot: then nothing limits it
 */
export async function reacquireSlot(
  scope: WorkspaceScope,
  { execution_id, generation, at_once }: SlotGeneration & { readonly at_once: boolean },
): Promise<boolean> {
  const row = await scope.row<{ has_it: boolean; others: readonly { readonly id: string }[] }>(sql`
    select w.has_it, (select coalesce(json_agg(json_build_object('id', o)), '[]') from unnest(w.others) o) as others
    from tenon.reacquire_slot(${execution_id}, ${generation}::integer, ${at_once}::boolean) w`)
  await resumeAdmitted(scope, row?.others ?? [])
  return row?.has_it ?? true
}
