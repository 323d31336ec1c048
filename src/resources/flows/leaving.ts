/** Executions that give their place back while they wait, and want it again (`holdWhileWaiting: false`). */

import type { PlaceTurn } from '../../core/run.ts'
import { sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { goOn } from './begin.ts'

/** Gives a place back, and hands it on. Idempotent by its turn. */
export async function leavePlace(scope: WorkspaceScope, { execution_id, turn }: PlaceTurn): Promise<void> {
  const next = await scope.rows<{ id: string }>(
    sql`select p as id from tenon.leave_place(${execution_id}, ${turn}::integer) p`,
  )
  await goOn(scope, next)
}

interface Wanted {
  readonly has_it: boolean
  /** Who has a place now, since the queue was looked at. */
  readonly others: readonly { readonly id: string }[]
}

/**
 * Queues for the place that was given back. Idempotent by its turn.
 * @returns whether the execution has one now; also where nobody knows of any: then nothing bounds it
 */
export async function wantPlace(
  scope: WorkspaceScope,
  { execution_id, turn, at_once }: PlaceTurn & { readonly at_once: boolean },
): Promise<boolean> {
  const row = await scope.row<Wanted>(sql`
    select w.has_it, (select coalesce(json_agg(json_build_object('id', o)), '[]') from unnest(w.others) o) as others
    from tenon.want_place(${execution_id}, ${turn}::integer, ${at_once}::boolean) w`)
  await goOn(scope, row?.others ?? [])
  return row?.has_it ?? true
}
