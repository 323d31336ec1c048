/** Concurrency slots of executions (features/runs/slots.ts): what `concurrency` of a definition says of them. */

import { type Static, Type } from 'typebox'
import { concurrencyKey } from '../../../../flows-dsl/compile/concurrency.ts'
import { FlowError } from '../../../../flows-dsl/errors.ts'
import type { Concurrency } from '../../../../flows-dsl/ir.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import type { ExecutionInput } from '../../../core/execution.ts'
import { Problem } from '../../../core/problem.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { lockSlots } from '../../runs/slots.ts'
import { FLOW_LIMITS } from '../limits.ts'

/** Executions, as a kind of runs. */
export const EXECUTION = 'execution'

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
 * Statements that give an open execution a slot or queue it; those that leave the queue for it end. Its row is written in the same
 * transaction.
 * @param isChild true if another execution waits for it: then it is never queued, since its parent may hold the last slot
 * @returns the last one has a row as {@link SlotResult}; none if the execution has started or ended
 * @throws Problem `validation_failed` if its input yields no key; the statement, `concurrency_limited`, also for a full queue
 */
export function acquireSlot(
  concurrency: Concurrency,
  execution: ExecutionInput,
  isChild: boolean,
): readonly Sql[] {
  const { ir: _ir, input, ...rest } = execution
  const onLimit = isChild ? 'always' : concurrency.onLimit
  const key = keyOf(concurrency, input)
  const acquire = sql`
    with slot as materialized (
      select p.* from executions e cross join lateral tenon.acquire_slot(
        ${EXECUTION}::text, e.id, e.flow_id, ${key}::text, ${concurrency.limit}::integer, ${onLimit}::text,
        ${JSON.stringify(rest)}::jsonb, ${FLOW_LIMITS.queuedExecutionsMax}::integer) p
      where e.id = ${execution.execution_id} and e.status = 'pending' and e.ended_at is null
    ), ended as (
      ${endQueued(sql`id in (select unnest(to_end) from slot)`)}
    )
    select state, to_json(to_cancel) as to_cancel from slot`
  // Before, since `ended` sees no execution that another start has queued while the statement waits for the lock.
  return [lockSlots(execution.flow.id, key), acquire]
}

const endQueued = (which: Sql): Sql => sql`
  update executions set status = 'cancelled', ended_at = now() where ${which} and ended_at is null`

function keyOf(concurrency: Concurrency, input: ExecutionInput['input']): string {
  try {
    return concurrencyKey(concurrency, input, Date.now())
  } catch (error) {
    if (!(error instanceof FlowError)) throw error
    throw new Problem('validation_failed', { detail: `input: ${error.message}`, cause: error })
  }
}

/**
 * Cancels a queued execution, and records the request for any other. A repetition of the request sees that it has been here:
 * {@link hasRequestedCancel}.
 * @returns false if it was not queued; if its workflow does not exist yet, the reconciler ends the execution or cancels its
 *   workflow
 */
export async function cancelQueued(scope: WorkspaceScope, id: string): Promise<boolean> {
  const statement = sql`
    with slot as materialized (
      select tenon.cancel_slot(${id}) as state
    ), ended as (
      ${endQueued(sql`id = ${id} and (select state = 'queued' from slot)`)}
    ), requested as (
      update executions set cancel_requested = true
      where id = ${id} and ended_at is null and (select state is null from slot)
    )
    select coalesce(state = 'queued', false) as is_ended from slot`
  const kept = scope.completion === undefined ? [] : [scope.completion.keepPart(CANCEL, true)]
  const [[row] = []] = await scope.batch(statement, ...kept)
  return row?.['is_ended'] === true
}

/** The part of a request to cancel that is kept. */
const CANCEL = 0

/** True if an earlier attempt of this request has cancelled the execution. */
export const hasRequestedCancel = ({ completion }: WorkspaceScope): boolean =>
  completion?.parts[CANCEL] !== undefined
