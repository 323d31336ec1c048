/**
 * Makes the traces of a user those of nobody: documents, objects, events and records get a pseudonym where they have the id of the
 * user. What the application itself has put into documents, metadata and keys of its own stays as it is.
 */

import { privilege } from '../../access/privileges.ts'
import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'
import { type Sql, sql, textArray } from '../../infra/postgres/sql.ts'
import { changeOwner } from '../collections/batch.ts'
import { collectionNames } from '../collections/transfer.ts'
import { renameInEvents } from '../events/events.ts'
import { TENANT_LIMITS } from '../tenants/limits.ts'
import {
  deleteUploads,
  isBehind,
  isBulkChangeOf,
  isCallerOf,
  isInApproval,
  isOwn,
  mentions,
  type Person,
} from './personal-data.ts'

const openRecords = privilege('people.traces')
const openChanges = privilege('people.changes')

/** A user, and the id that stands for the user from now on. */
export interface FormerUser extends Person {
  readonly email: string
  readonly pseudonym: string
}

const PAGE = 500

/** How many records name a user who has started or caused them, or was asked. */
export interface TraceCounts {
  readonly executions: number
  readonly runs: number
  readonly bulk_changes: number
  readonly approvals: number
}

export async function countTraces(
  scope: AdminScope,
  { userId, service }: Person,
): Promise<TraceCounts | undefined> {
  return openRecords(scope, service.ref).row<TraceCounts>(sql`select
    (select count(*) from executions where ${isBehind(userId)})::integer as executions,
    (select count(*) from function_runs where ${isCallerOf(userId)})::integer as runs,
    (select count(*) from bulk_changes where ${isBulkChangeOf(userId)})::integer as bulk_changes,
    (select count(*) from approvals where ${isInApproval(userId)})::integer as approvals`)
}

/**
 * What has the rights of the user, or knows the id in Temporal, would write it again.
 * @throws Problem `dependency_unavailable` as long as something of it runs
 */
export async function requireEndedWork(scope: AdminScope, person: Person): Promise<void> {
  await deleteUploads(person)
  const row = await openRecords(scope, person.service.ref).row<{
    executions: number
    runs: number
    changes: number
  }>(sql`select
    (select count(*) from executions where ended_at is null and ${isBehind(person.userId)})::integer as executions,
    (select count(*) from function_runs where ended_at is null and ${isCallerOf(person.userId)})::integer as runs,
    (select count(*) from bulk_changes where ended_at is null and ${isBulkChangeOf(person.userId)})::integer as changes`)
  const { executions = 0, runs = 0, changes = 0 } = row ?? {}
  if (executions + runs + changes === 0) return
  throw new Problem('dependency_unavailable', {
    detail: `${executions} executions, ${runs} runs of functions and ${changes} bulk changes that the user has started or caused have not ended. Cancel them, or wait for their end.`,
  })
}

/** @returns true if there may be more */
export async function renameSomeOwners({ userId, pseudonym, service }: FormerUser): Promise<boolean> {
  for await (const name of collectionNames(service)) {
    const change = { from: userId, to: pseudonym, limit: PAGE }
    if ((await changeOwner(service, name, change)) > 0) return true
  }
  return false
}

/**
 * Objects get the pseudonym as their owner, and in their keys where a rule of the workspace has put the id: so they stay below the
 * own prefixes of nobody.
 * @returns true if there may be more
 */
export async function renameSomeObjects(former: FormerUser): Promise<boolean> {
  const { service, userId, pseudonym } = former
  const changed = await service.rows(sql`
    update objects set key = ${renamed(former, sql`key`)}, owner = ${renamedId(former, sql`owner`)}, version = gen_random_uuid()
    where key in (select key from objects where ${isOwn(former)} order by key limit ${PAGE} for update) returning key`)
  if (changed.length > 0) return true
  await service.batch(
    sql`update object_uploads set key = ${renamed(former, sql`key`)} where ${isBelowOwn(former, sql`key`)}`,
    sql`update object_removals set owner = ${renamedId(former, sql`owner`)}, prefix = ${renamed(former, sql`prefix`)}
      where owner = ${userId} or ${isBelowOwn(former, sql`prefix`)}`,
    sql`update resumable_uploads set owner = ${pseudonym} where owner = ${userId}`,
  )
  return false
}

const renamedId = ({ userId, pseudonym }: FormerUser, column: Sql): Sql =>
  sql`case when ${column} = ${userId} then ${pseudonym} else ${column} end`

const isBelowOwn = ({ prefixes }: FormerUser, key: Sql): Sql =>
  sql`exists (select from unnest(${textArray(prefixes)}::text[]) own where starts_with(${key}, own))`

/** The key with the pseudonym in the longest of the own prefixes that it has. */
const renamed = ({ userId, pseudonym, prefixes }: FormerUser, key: Sql): Sql => sql`coalesce((
  select replace(own, ${userId}, ${pseudonym}) || substr(${key}, length(own) + 1)
  from unnest(${textArray(prefixes)}::text[]) own where starts_with(${key}, own) order by length(own) desc limit 1), ${key})`

/** Events that are kept for replay. @throws Problem `dependency_unavailable` as long as changes wait to be published, or Valkey is away */
export async function renameEvents(
  scope: AdminScope,
  { userId, email, pseudonym, service: { ref } }: FormerUser,
): Promise<void> {
  const waiting = await openChanges(scope, ref).row(sql`select from outbox
    where workspace_id = ${ref.workspaceId} and ${mentions(userId, sql`owner, caused_by, document, deleted`)} limit 1`)
  if (waiting !== undefined)
    throw new Problem('dependency_unavailable', {
      detail: 'Changes by the user, or of what the user owns, are not published yet.',
    })
  await renameInEvents(scope, ref, { id: userId, name: email, to: pseudonym })
}

/** A page of records after an id, in which the user's id is replaced: one row with the id of the last one, null behind the last page. */
type RecordPage = (former: FormerUser, after: string) => Sql

const pageOf = (table: Sql, after: string): Sql =>
  sql`page as (select id from ${table} where id > ${after} order by id limit ${PAGE})`
const LAST = sql`select max(id) as last from page`

const replaced = ({ userId, pseudonym }: FormerUser, column: Sql, type: Sql): Sql =>
  sql`${column} = replace(${column}::text, ${userId}, ${pseudonym})::${type}`
/** In lists of people stands the address of a user beside the id. */
const replacedIn = ({ userId, email, pseudonym }: FormerUser, column: Sql): Sql =>
  sql`${column} = array_replace(array_replace(${column}, ${userId}, ${pseudonym}), ${email}, ${pseudonym})`

const executionsPage: RecordPage = (former, after) => sql`
  with ${pageOf(sql`executions`, after)}, named as (
    select e.id from executions e join page using (id) where ${isBehind(former.userId)}
      or ${mentions(former.userId, sql`input, output, error, compensation, correlation_key`)}
  ), steps as (
    update execution_steps set ${replaced(former, sql`summary`, sql`text`)}, ${replaced(former, sql`error`, sql`jsonb`)},
      ${replaced(former, sql`result`, sql`jsonb`)}, ${replaced(former, sql`data`, sql`jsonb`)}
    where execution_id in (select id from named) and ${mentions(former.userId, sql`summary, error, result, data`)}
  ), events as (
    update execution_events set ${replaced(former, sql`detail`, sql`jsonb`)}
    where execution_id in (select id from named) and ${mentions(former.userId, sql`detail`)}
  ), changed as (
    update executions set ${replaced(former, sql`started_by`, sql`text`)}, ${replacedIn(former, sql`caused_by`)},
      ${replaced(former, sql`input`, sql`jsonb`)}, ${replaced(former, sql`output`, sql`jsonb`)}, ${replaced(former, sql`error`, sql`jsonb`)},
      ${replaced(former, sql`compensation`, sql`jsonb`)}, ${replaced(former, sql`correlation_key`, sql`text`)}
    where id in (select id from named)
  ) ${LAST}`

const approvalsPage: RecordPage = (former, after) => sql`
  with ${pageOf(sql`approvals`, after)}, changed as (
    update approvals set ${replacedIn(former, sql`approvers`)}, ${replacedIn(former, sql`excluded`)}, ${replacedIn(former, sql`mailed`)},
      ${replaced(former, sql`decisions`, sql`jsonb`)}, ${replaced(former, sql`data`, sql`json`)}, ${replaced(former, sql`title`, sql`text`)}
    where id in (select id from page)
      and ${mentions(former.userId, sql`approvers, excluded, mailed, decisions, data, title`)}
  ) ${LAST}`

/** A run cannot be repeated for somebody who is gone: what it kept for that describes the user. */
const runsPage: RecordPage = (former, after) => sql`
  with ${pageOf(sql`function_runs`, after)}, named as (
    select id from function_runs join page using (id)
    where started_by = ${former.userId} or ${mentions(former.userId, sql`input, result, error, caller, context, trigger`)}
  ), lines as (
    update function_run_logs set ${replaced(former, sql`text`, sql`text`)}
    where run_id in (select id from named) and ${mentions(former.userId, sql`text`)}
  ), changed as (
    update function_runs set ${replaced(former, sql`started_by`, sql`text`)}, ${replaced(former, sql`input`, sql`json`)},
      ${replaced(former, sql`result`, sql`json`)}, ${replaced(former, sql`error`, sql`json`)}, ${replaced(former, sql`trigger`, sql`jsonb`)},
      caller = case when ${mentions(former.userId, sql`caller`)} then null else caller end,
      context = case when ${mentions(former.userId, sql`context`)} then null else context end,
      is_dead_letter = is_dead_letter and not ${mentions(former.userId, sql`caller, context`)}
    where id in (select id from named)
  ) ${LAST}`

/** One that has ended needs no rights any more: what it kept of them describes the user. */
const bulkChangesPage: RecordPage = (former, after) => sql`
  with ${pageOf(sql`bulk_changes`, after)}, changed as (
    update bulk_changes set ${replaced(former, sql`owner`, sql`text`)}, ${replaced(former, sql`request`, sql`jsonb`)},
      ${replaced(former, sql`failures`, sql`jsonb`)}, ${replaced(former, sql`error`, sql`jsonb`)},
      caller = case when ${mentions(former.userId, sql`caller`)}
        then jsonb_build_object('subject', ${former.pseudonym}::text, 'role', caller ->> 'role') else caller end
    where id in (select id from page) and ${mentions(former.userId, sql`owner, request, failures, error, caller`)}
  ) ${LAST}`

const RECORDS = [executionsPage, approvalsPage, runsPage, bulkChangesPage] as const

/** How far the records have been looked at: those of a kind up to an id. */
interface Progress {
  readonly kind: number
  readonly after: string
}

/** Looks at records for a while, and remembers how far it came with the operation. @returns true if there are more */
export async function renameInSomeRecords(
  scope: AdminScope,
  former: FormerUser,
  operationId: string,
): Promise<boolean> {
  const records = openRecords(scope, former.service.ref)
  const until = performance.now() + TENANT_LIMITS.purgeServedMs
  let at = await readProgress(scope, operationId)
  while (performance.now() < until) {
    const next = await renameOnePage(records, former, at)
    if (next === undefined) return false
    at = next
    await scope.batch(
      sql`update operations set result = ${JSON.stringify({ looked_at: at })}::jsonb where id = ${operationId}`,
    )
  }
  return true
}

async function renameOnePage(
  records: WorkspaceScope,
  former: FormerUser,
  { kind, after }: Progress,
): Promise<Progress | undefined> {
  const page = RECORDS[kind]
  if (page === undefined) return undefined
  const row = await records.row<{ last: string | null }>(page(former, after))
  const last = row?.last ?? null
  return last === null ? { kind: kind + 1, after: '' } : { kind, after: last }
}

async function readProgress(scope: AdminScope, operationId: string): Promise<Progress> {
  const row = await scope.row<{ at: Progress | null }>(
    sql`select result -> 'looked_at' as at from operations where id = ${operationId}`,
  )
  return row?.at ?? { kind: 0, after: '' }
}
