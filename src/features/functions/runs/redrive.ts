/**
 * Runs dead letters again: failed asynchronous runs, with their input, and at most the rights of their callers. The scope is an
 * admin's, and gives the new run none of its own rights.
 */

import { isDeepStrictEqual } from 'node:util'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { isSubjectActive } from '../../../access/scope-services.ts'
import { LIMITS } from '../../../core/limits.ts'
import type { EndUser } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import type { FunctionCaller } from '../../../core/work.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { findRow } from '../../operation-helpers.ts'
import { consumeQuota } from '../../quotas/quotas-api.ts'
import { startQueued, startRecorded } from './start-run.ts'

interface DeadLetter {
  readonly id: string
  readonly status: string
  readonly caller: FunctionCaller | null
  readonly is_dead_letter: boolean
  readonly redriven_as: string | null
}

/**
 * Starts a new run of the active version. Concurrent calls start one.
 * @returns its id. @throws Problem `not_found`; `state_conflict` if it is no dead letter, or its caller has lost rights;
 *   `quota_exceeded`, `dependency_unavailable`
 */
export async function redriveRun(scope: WorkspaceScope, functionId: string, runId: string): Promise<string> {
  const letter = await findRow<DeadLetter>(
    scope,
    'run',
    sql`select id, status, caller, is_dead_letter, redriven_as from function_runs
      where id = ${runId} and function_id = ${functionId}`,
  )
  const id = scope.newId('run')
  // A request that is repeated with its Idempotency-Key has the ids of the first one.
  if (letter.redriven_as === id) return id
  if (!letter.is_dead_letter || letter.caller === null) throw noDeadLetter(letter)
  const caller = await narrowed(scope, letter.caller)
  await consumeQuota(scope, 'invocations_per_day')
  const created = await createRedrive(scope, { id, of: runId, caller })
  if (created === undefined) throw noDeadLetter({ ...letter, redriven_as: 'another run' })
  if (created.slot === null) await startRecorded(scope, created.id)
  else await startQueued(scope, functionId)
  return created.id
}

function noDeadLetter({ status, redriven_as }: DeadLetter): Problem {
  const detail =
    redriven_as === null
      ? `It is no dead letter, but ${status}: only failed asynchronous runs are run again.`
      : `It was run again as ${redriven_as}.`
  return new Problem('state_conflict', { detail })
}

/** The mark goes in the statement that creates the new run. @returns undefined if it was gone */
function createRedrive(
  scope: WorkspaceScope,
  { id, of: runId, caller }: { readonly id: string; readonly of: string; readonly caller: FunctionCaller },
) {
  return scope.row<{ id: string; slot: string | null }>(sql`
    with letter as (
      update function_runs set is_dead_letter = false, redriven_as = ${id} where id = ${runId} and is_dead_letter returning *
    )
    insert into function_runs (id, function_id, version, trigger, started_by, is_async, slot, input, caller, context)
    select ${id}, f.id, f.active_version, jsonb_strip_nulls(jsonb_build_object(
        'kind', 'redrive', 'id', letter.id, 'chain_depth', letter.trigger -> 'chain_depth')),
      ${scope.actor.subject}, true, case when f.config ->> 'concurrency' is not null then 'awaited' end,
      letter.input, ${JSON.stringify(caller)}::json, letter.context
    from letter join functions f on f.id = letter.function_id
    returning id, slot`)
}

/**
 * The rights that a caller had, without those that it has lost since.
 * @throws Problem `state_conflict` if it may do nothing any more, or is a user who was changed: how their rights differ cannot
 *   be told, since rules compare documents with any value of a user
 */
async function narrowed(scope: WorkspaceScope, caller: FunctionCaller): Promise<FunctionCaller> {
  const { subject, user } = caller
  if (subject.startsWith('key_')) return narrowedKey(scope, caller)
  if (!(await isSubjectActive(scope, subject))) throw lostRights(`${subject} was deleted or disabled`)
  if (user !== undefined && !(await isUnchanged(scope, user)))
    throw lostRights(`the values of ${subject} that rules read have changed`)
  return caller
}

/** Of a key that was rotated, its replacement counts. */
async function narrowedKey(scope: WorkspaceScope, caller: FunctionCaller): Promise<FunctionCaller> {
  const key = await scope.row<{ scopes: string[] }>(sql`
    with recursive line as (
      select * from api_keys where id = ${caller.subject}
      union all
      select newer.* from api_keys newer join line on newer.id = line.replaced_by
    )
    select scopes from line
    where revoked_at is null and disabled_at is null and (expires_at is null or expires_at > now())
    order by created_at desc limit 1`)
  if (key === undefined) throw lostRights(`the key ${caller.subject} is not valid any more`)
  if (key.scopes.length === 0) return caller
  const scopes = caller.scopes?.filter((scope) => key.scopes.includes(scope)) ?? key.scopes
  return { ...caller, scopes }
}

/** Users of other issuers have no record here. */
async function isUnchanged(scope: WorkspaceScope, user: EndUser): Promise<boolean> {
  const now = await scope.row<{ email: string; verified: boolean; claims: object }>(sql`
    select email, email_verified_at is not null as verified, claims from users where id = ${user.id}`)
  if (now === undefined) return true
  const { email, verified, claims } = now
  return email === user.email && verified === user.emailVerified && isDeepStrictEqual(claims, user.claims)
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
}

/** Runs the oldest dead letters of a function again. @throws Problem as {@link redriveRun}, if none was run again */
export async function redriveAll(scope: WorkspaceScope, functionId: string): Promise<Redriven> {
  const max = LIMITS.functionRedrivesAtOnce
  const letters = await scope.rows<{ id: string }>(sql`
    select id from function_runs where function_id = ${functionId} and is_dead_letter order by id limit ${max + 1}`)
  const [redriven, refused]: [Redriven['redriven'], Redriven['refused']] = [[], []]
  for (const { id: run } of letters.slice(0, max)) {
    try {
      redriven.push({ run, as: await redriveRun(scope, functionId, run) })
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      if (error.code === 'state_conflict') refused.push({ run, detail: error.message })
      else if (redriven.length === 0) throw error
      else return { redriven, refused, has_more: true }
    }
  }
  return { redriven, refused, has_more: letters.length > max }
}
