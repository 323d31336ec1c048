/**
 * Runs dead letters again: failed asynchronous runs, with their input, and at most the rights of their callers. The scope is an
 * admin's, and gives the new run none of its own rights.
 */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import type { FunctionTrigger, WorkCaller } from '../../../core/work.ts'
import { sql, textArray } from '../../../infra/postgres/sql.ts'
import { findRow } from '../../operation-helpers.ts'
import { consumeQuota } from '../../quotas/quotas-api.ts'
import { narrowedCaller } from '../../runs/caller.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import { startRecorded } from './start-recorded.ts'

interface DeadLetter {
  readonly id: string
  readonly status: string
  readonly caller: WorkCaller | null
  readonly trigger: FunctionTrigger
  readonly is_dead_letter: boolean
  readonly redriven_as: string | null
}

/**
 * Starts a new run of the active version. Concurrent calls start one.
 * @param id of the new run. A request that is repeated with its Idempotency-Key has the id of the first one.
 * @returns its id. @throws Problem `not_found`; `state_conflict` if it is no dead letter, or its caller has lost rights;
 *   `quota_exceeded`, `dependency_unavailable`
 */
export async function redriveRun(
  scope: WorkspaceScope,
  functionId: string,
  runId: string,
  id = scope.newId('run'),
): Promise<string> {
  const letter = await findRow<DeadLetter>(
    scope,
    'run',
    sql`select id, status, caller, trigger, is_dead_letter, redriven_as from function_runs
      where id = ${runId} and function_id = ${functionId}`,
  )
  if (letter.redriven_as === id) return id
  if (!letter.is_dead_letter || letter.caller === null) throw noDeadLetter(letter)
  const { caller, lost } = await narrowedCaller(scope, letter.caller)
  if (lost !== undefined) throw lostRights(lost)
  await consumeQuota(scope, 'invocations_per_day')
  const { kind, id: starter } = letter.trigger
  const via = caller.via ?? { kind, ...(starter !== undefined && { id: starter }) }
  const causes = [...new Set([...(caller.causes ?? []), scope.actor.subject])]
  const created = await createRedrive(scope, { id, of: runId, caller: { ...caller, via, causes } })
  if (created === undefined) throw noDeadLetter({ ...letter, redriven_as: 'another run' })
  await startRecorded(scope, created.id)
  return created.id
}

function noDeadLetter({ status, redriven_as }: DeadLetter): Problem {
  const detail =
    redriven_as === null
      ? `The run is not a dead letter, but ${status}: only failed asynchronous runs are run again.`
      : `The run was run again as ${redriven_as}.`
  return new Problem('state_conflict', { detail })
}

/** The mark goes in the statement that creates the new run. @returns undefined if it was gone */
function createRedrive(
  scope: WorkspaceScope,
  { id, of: runId, caller }: { readonly id: string; readonly of: string; readonly caller: WorkCaller },
) {
  return scope.row<{ id: string }>(sql`
    with letter as (
      update function_runs set is_dead_letter = false, redriven_as = ${id} where id = ${runId} and is_dead_letter returning *
    )
    insert into function_runs (id, function_id, version, trigger, started_by, is_async, input, caller, context)
    select ${id}, f.id, f.active_version, jsonb_strip_nulls(jsonb_build_object(
        'kind', 'redrive', 'id', letter.id, 'chain_depth', letter.trigger -> 'chain_depth')),
      ${scope.actor.subject}, true, letter.input, ${JSON.stringify(caller)}::json, letter.context
    from letter join functions f on f.id = letter.function_id
    returning id`)
}

const lostRights = (reason: string): Problem =>
  new Problem('state_conflict', {
    detail: `The run cannot have the rights of its caller again: ${reason}.`,
    hint: 'Invoke the function with its input and a credential of your own, and discard this run.',
  })

interface Redriven {
  readonly redriven: { run: string; as: string }[]
  readonly refused: { run: string; detail: string }[]
  readonly has_more: boolean
  /** The last dead letter that was looked at; null if there are no more. */
  readonly next: string | null
}

/**
 * Runs the oldest dead letters of a function again, and passes over those that it refuses.
 * @param after the `next` of the previous call; empty for the first
 * @throws Problem as {@link redriveRun}, if none was run again
 */
export async function redriveAll(
  scope: WorkspaceScope,
  functionId: string,
  after: string,
): Promise<Redriven> {
  const { redrivesMax: max, redrivesSeenMax: seenMax } = FUNCTION_LIMITS
  const ids = Array.from({ length: max }, () => scope.newId('run'))
  const ownIds = sql`any(${textArray(ids)}::text[])`
  // A run that an earlier attempt of this request has started may have failed by now: it is not run again.
  const earlier = await scope.rows<{ run: string; as: string }>(sql`
    select id as run, redriven_as as "as" from function_runs
    where function_id = ${functionId} and redriven_as = ${ownIds} order by id`)
  const letters = await scope.rows<{ id: string }>(sql`
    select id from function_runs
    where function_id = ${functionId} and is_dead_letter and id > ${after} and not id = ${ownIds}
    order by id limit ${seenMax + 1}`)
  const unused = ids.filter((id) => !earlier.some((one) => one.as === id))
  const [redriven, refused]: [Redriven['redriven'], Redriven['refused']] = [[...earlier], []]
  const seen = () => redriven.length - earlier.length + refused.length
  const done = (): Redriven => {
    const has_more = seen() < letters.length
    return { redriven, refused, has_more, next: has_more ? (letters[seen() - 1]?.id ?? null) : null }
  }
  for (const { id: run } of letters.slice(0, seenMax)) {
    if (redriven.length === max) break
    try {
      redriven.push({ run, as: await redriveRun(scope, functionId, run, unused[0]) })
      unused.shift()
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      if (error.code === 'state_conflict') refused.push({ run, detail: error.message })
      else if (redriven.length === 0) throw error
      else return done()
    }
  }
  return done()
}
