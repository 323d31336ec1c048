/** Finds and removes what a user has stored in a workspace: documents by their owner, objects by their owner and below the user's own prefixes. */

import { privilege } from '../../access/privileges.ts'
import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import { type Sql, sql, textArray } from '../../infra/postgres/sql.ts'
import { batchDocuments, deleteExpiredOf } from '../collections/batch.ts'
import { queryDocuments } from '../collections/documents-api.ts'
import { collectionNames } from '../collections/transfer.ts'
import { objectsOf } from '../objects/workspace-objects.ts'

const openData = privilege('people.data')

/** A user of a workspace, and the scope that reaches everything the user has stored there. */
export interface Person {
  readonly userId: string
  readonly service: WorkspaceScope
  /** Prefixes of object keys that the rules of the workspace give this user alone. */
  readonly prefixes: readonly string[]
}

/** How much a user has stored: documents by collection, and objects. */
export interface PersonalCounts {
  readonly documents: Readonly<Record<string, number>>
  readonly objects: number
}

const PAGE = 200

/** @throws Problem `not_found` for a workspace that the admin does not reach */
export const findPerson = (scope: AdminScope, ref: WorkspaceRef, userId: string): Promise<Person> =>
  findPersonIn(openData(scope, ref), userId)

/** @param service scope with the rights of a service key */
export async function findPersonIn(service: WorkspaceScope, userId: string): Promise<Person> {
  const row = await service.row<{ user_objects: Record<string, string[]> }>(
    sql`select user_objects from services where workspace_id = ${service.ref.workspaceId}`,
  )
  const rules = Object.values(row?.user_objects ?? {}).flat()
  return { userId, service, prefixes: ownPrefixes(rules, userId) }
}

/** Prefixes with other variables, such as a claim, may be those of a team. */
function ownPrefixes(rules: readonly string[], userId: string): string[] {
  const own = rules.map((rule) => rule.replaceAll('{user.id}', userId))
  return [...new Set(own.filter((prefix, n) => prefix !== rules[n] && !prefix.includes('{')))]
}

export async function countPersonalData(person: Person): Promise<PersonalCounts> {
  const documents: Record<string, number> = {}
  for await (const name of collectionNames(person.service)) {
    const { page } = await queryDocuments.run(person.service, {
      ...ownedBy(person, name),
      select: ['id'],
      limit: 1,
      count: 'exact',
    })
    const total = Number(page.total ?? 0)
    if (total > 0) documents[name] = total
  }
  const row = await person.service.row<{ n: number }>(
    sql`select count(*)::integer as n from objects where ${isOwn(person)}`,
  )
  return { documents, objects: row?.n ?? 0 }
}

/**
 * Deletes some documents of the user, as a service key would: subscribers hear of each.
 * @returns true if there may be more
 * @throws Problem `state_conflict` if documents of others refer to all that are left
 */
export async function deleteSomeDocuments(person: Person): Promise<boolean> {
  const inUse = new Set<string>()
  for await (const name of collectionNames(person.service)) {
    let after: string | null = null
    do {
      const { data, page } = await queryDocuments.run(person.service, {
        ...{ ...ownedBy(person, name), select: ['id'], limit: PAGE },
        ...(after !== null && { after }),
      })
      if (data.length > 0 && (await deleteAny(person, name, data))) return true
      if (data.length > 0) inUse.add(name)
      after = page.next
    } while (after !== null)
    const expired = await deleteExpiredOf(person.service, name, person.userId)
    if (expired.removed > 0) return true
    if (expired.isReferred) inUse.add(name)
  }
  if (inUse.size === 0) return false
  throw new Problem('state_conflict', {
    detail: `Documents of others refer to documents of the user in ${[...inUse].join(', ')}.`,
    hint: 'Delete those, or change their references, then remove the user again.',
  })
}

/** Problems of a document that stays, since others refer to it or it would take too many along. */
const KEPT: ReadonlySet<string | undefined> = new Set(['reference_in_use', 'cascade_too_large'])

/** @returns false if others refer to each of the documents */
async function deleteAny(
  { service }: Person,
  name: string,
  documents: readonly { readonly id: string }[],
): Promise<boolean> {
  const ops = documents.map(({ id }) => ({ op: 'delete' as const, id }))
  const { results } = await batchDocuments.run(service, { name, atomic: false, ops })
  if (results.some(({ status }) => status < 300)) return true
  if (results.every(({ error }) => KEPT.has(error?.code))) return false
  throw new Problem('overloaded', { detail: `No document of ${name} could be deleted.` })
}

/** Ends the uploads that the user has begun; their bytes are removed like those of others that nobody ends. */
export async function deleteUploads({ userId, service }: Person): Promise<void> {
  await service.batch(sql`delete from resumable_uploads where ${userId} = owner`)
}

/** Deletes some objects of the user. @returns true if there may be more */
export async function deleteSomeObjects(person: Person): Promise<boolean> {
  const { service } = person
  const rows = await service.rows<{ bucket: string; key: string }>(sql`
    select b.name as bucket, o.key from objects o cross join buckets b where ${isOwn(person)} order by o.key limit ${PAGE}`)
  const [first] = rows
  if (first === undefined) return false
  await objectsOf(service).removeAll(first.bucket, { keys: rows.map(({ key }) => key) })
  return true
}

/** The input of a query for the documents of the user in a collection. */
export const ownedBy = ({ userId }: Person, name: string) => ({ name, filter: { _owner: userId } })

/** The condition on rows of `objects`. */
export const isOwn = ({ userId, prefixes }: Person): Sql =>
  sql`(${userId} = owner or exists (select from unnest(${textArray(prefixes)}::text[]) prefix where starts_with(key, prefix)))`

/** The condition on rows of `executions` that the user has started, or caused otherwise, as by a change that has started them. */
export const isBehind = (userId: string): Sql => sql`(started_by = ${userId} or ${userId} = any(caused_by))`

/** The condition on rows of `function_runs` that the user has started, or that work with the rights of the user. */
export const isCallerOf = (userId: string): Sql =>
  sql`(started_by = ${userId} or ${mentions(userId, sql`caller`)})`

/** The condition on rows of `bulk_changes` that the user has asked for, or that work with the rights of the user. */
export const isBulkChangeOf = (userId: string): Sql =>
  sql`(${userId} = owner or ${mentions(userId, sql`caller`)})`

/** The condition on rows of `approvals` that name the user. */
export const isInApproval = (userId: string): Sql =>
  sql`(${userId} = any(approvers || excluded) or ${mentions(userId, sql`decisions`)})`

/** True if one of the columns has the id anywhere: it is a random text, so nothing else looks like it. */
export const mentions = (id: string, columns: Sql): Sql =>
  sql`position(${id}::text in concat(${columns})) > 0`
