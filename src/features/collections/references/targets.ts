/** The documents that references lead to, and those that refer to a document, as far as the caller may read them. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { isPublicRole } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { BY_ID, type Filter } from '../query/filter.ts'
import { withCollection, withExpired } from '../resolve-store.ts'
import { canonicalOf } from '../schemas/canonical-text.ts'
import type { Blocking, CheckedChange, Collection, Conflict, Create, Restored, Stored } from '../store.ts'
import { isHeld, type Reference } from './reference.ts'

/** A condition on the ids, or the field, of documents. */
export const oneOf = (name: string, ids: readonly string[]): Filter => ({
  ...{ kind: 'test', path: [name], not: false, test: { op: 'in', values: ids.map((id) => [id]) } },
  ...(name !== 'id' && { as: 'uuid' }),
})

/** Reads in a collection, whose declaration may have changed since it was cached. @returns undefined if the caller may read nothing of it */
const inReadable = <T>(
  scope: WorkspaceScope,
  name: string,
  read: (collection: Collection, inside: WorkspaceScope) => Promise<T | undefined>,
): Promise<T | undefined> =>
  withCollection(scope, name, [], async (collection, inside) =>
    collection.permissions.read === false ? undefined : read(collection, inside),
  )

/**
 * The first change whose reference leads to a document that the caller does not find. PostgreSQL's foreign key knows no rules, so without
 * this a user would learn which ids exist; and it knows no expiry, so a reference would hold an expired document for ever. Service keys
 * find all others, which a foreign key holds; without one they are looked for, and may be deleted before the change is made. A create that is repeated makes nothing, so it is not refused if its target has expired since.
 * @param currents the documents before, as far as they were read: a reference that stays may lead to a hidden document
 * @returns undefined if there is none
 */
export async function findHiddenTarget(
  scope: WorkspaceScope,
  changes: readonly Change[],
  currents: Currents = [],
): Promise<HiddenTarget | undefined> {
  const hidden = await findHidden(scope, changes, { currents })
  const change = hidden && changes[hidden.index]
  if (change === undefined || !isRepeatable(change)) return hidden
  const repeated = await findRepeated(scope, changes)
  return repeated.size === 0 ? hidden : findHidden(scope, changes, { currents, repeated })
}

/** Documents of an archive are new, too. */
type Change = CheckedChange | Restored
type Currents = readonly (Pick<Stored, 'fields'> | undefined)[]

interface HiddenTarget {
  readonly index: number
  readonly reference: Reference
}

async function findHidden(
  scope: WorkspaceScope,
  changes: readonly Change[],
  {
    currents,
    repeated = new Set(),
  }: { readonly currents: Currents; readonly repeated?: ReadonlySet<Change> },
): Promise<HiddenTarget | undefined> {
  const wanted = changes.flatMap((change, index) =>
    (repeated.has(change) ? [] : targetsOf(change))
      .filter(({ reference, id }) => idAt(currents[index]?.fields ?? {}, reference) !== id)
      .map((target) => ({ index, ...target })),
  )
  const made = new Set(
    changes.flatMap((change) => (isCreate(change) ? [`${change.collection.name}/${change.id}`] : [])),
  )
  const open = wanted.filter(({ reference, id }) => !made.has(`${reference.collection}/${id}`))
  for (const name of new Set(open.map(({ reference }) => reference.collection))) {
    const ofName = open.filter(({ reference }) => reference.collection === name)
    const found = await readableAmong(scope, name, {
      ids: [...new Set(ofName.map(({ id }) => id))],
      areHeld: ofName.every(({ reference }) => isHeld(reference)),
    })
    const hidden = ofName.find(({ id }) => !found.has(id))
    if (hidden !== undefined) return hidden
  }
  return undefined
}

const isCreate = (change: Change): change is Create | Restored =>
  !('verb' in change) || change.verb === 'create'

/** True for a create that leaves a document of its id as it is. */
const isRepeatable = (change: Change): change is Create | Restored =>
  isCreate(change) && !('mustBeNew' in change && change.mustBeNew === true)

/** The creates whose documents the caller finds, also those that have expired. */
async function findRepeated(scope: WorkspaceScope, changes: readonly Change[]): Promise<ReadonlySet<Change>> {
  const creates = changes.filter(isRepeatable)
  const repeated = new Set<Change>()
  for (const collection of new Set(creates.map((create) => create.collection))) {
    if (collection.permissions.read === false) continue
    const ofOne = creates.filter((create) => create.collection === collection)
    const ids = ofOne.map(({ id }) => id)
    const found = new Set(await findIds(scope, withExpired(scope, collection), ids))
    for (const create of ofOne) if (found.has(create.id)) repeated.add(create)
  }
  return repeated
}

/** The references that a change sets, with their ids. */
function targetsOf(change: Change): { readonly reference: Reference; readonly id: string }[] {
  if ('verb' in change && change.verb === 'delete') return []
  const { collection, content } = change
  return (collection.declared?.references ?? []).flatMap((reference) => {
    const id = idAt(content.fields, reference)
    return id === undefined ? [] : [{ reference, id }]
  })
}

/** The id that a document has in the field of a reference, as ids are written. */
export function idAt(fields: Stored['fields'], { field }: Pick<Reference, 'field'>): string | undefined {
  const value = Object.hasOwn(fields, field) ? fields[field] : undefined
  return typeof value === 'string' ? canonicalOf('uuid', value) : undefined
}

/** The largest documents of this number fit into one answer of a store. */
export const READ_AT_ONCE = 100

/** Reads those of some documents that the caller finds in a collection. */
export async function findEach<T>(
  inside: WorkspaceScope,
  collection: Collection,
  ids: readonly string[],
  read: (stored: Stored) => T,
): Promise<T[]> {
  const found: T[] = []
  for (let at = 0; at < ids.length; at += READ_AT_ONCE) {
    const query = { filter: oneOf('id', ids.slice(at, at + READ_AT_ONCE)), order: BY_ID, limit: READ_AT_ONCE }
    const { rows } = await collection.store.list(inside, collection, query)
    found.push(...rows.map(read))
  }
  return found
}

/** Those of some ids that the caller finds in a collection. */
export const findIds = (
  inside: WorkspaceScope,
  collection: Collection,
  ids: readonly string[],
): Promise<string[]> => findEach(inside, collection, ids, ({ id }) => id)

async function readableAmong(
  scope: WorkspaceScope,
  name: string,
  { ids, areHeld }: { readonly ids: readonly string[]; readonly areHeld: boolean },
): Promise<ReadonlySet<string>> {
  const found = await inReadable(scope, name, async (collection, inside) =>
    areHeld && !isPublicRole(scope.actor.role) && collection.declared?.expiry === undefined
      ? ids
      : findIds(inside, collection, ids),
  )
  return new Set(found)
}

/** The problem of a document that others refer to, with some of those that the caller may read. */
export async function referencedProblem(
  scope: WorkspaceScope,
  { name, id }: { readonly name: string; readonly id: string },
  { referenced: declarationId, blocking }: Extract<Conflict, { referenced: unknown }>,
): Promise<Problem> {
  if (blocking !== undefined) return blockedProblem(scope, blocking)
  const row = await scope.row<{ collection: string }>(
    sql`select collection from schemas where id = ${declarationId}`,
  )
  const referring =
    row &&
    (await inReadable(scope, row.collection, (collection, inside) =>
      findReferringIds(inside, collection, { name, id }),
    ))
  if (row === undefined || referring === undefined || referring.length === 0)
    return new Problem('reference_in_use')
  return new Problem('reference_in_use', {
    detail: `Documents of ${row.collection} refer to this one.`,
    members: { referring: referring.map((one) => ({ collection: row.collection, id: one })) },
  })
}

/** Of a deletion that takes others along: documents that refer to one of them. */
async function blockedProblem(
  scope: WorkspaceScope,
  { collection: name, ids, isInvalid }: Blocking,
): Promise<Problem> {
  const found =
    (await inReadable(scope, name, (collection, inside) =>
      findIds(inside, withExpired(inside, collection), ids),
    )) ?? []
  if (found.length === 0) return new Problem('reference_in_use')
  const detail = isInvalid
    ? `Documents of ${name} refer to this one, or to one that would be deleted with it, and would not be valid without.`
    : `Documents of ${name} refer to this one, or to one that would be deleted with it.`
  const referring = found
    .slice(0, COLLECTION_LIMITS.referringShownMax)
    .map((id) => ({ collection: name, id }))
  return new Problem('reference_in_use', { detail, members: { referring } })
}

async function findReferringIds(
  inside: WorkspaceScope,
  collection: Collection,
  { name, id }: { readonly name: string; readonly id: string },
): Promise<string[]> {
  const references = (collection.declared?.references ?? []).filter((one) => one.collection === name)
  if (references.length === 0) return []
  const filter: Filter = { kind: 'any', of: references.map(({ field }) => oneOf(field, [id])) }
  const query = { filter, order: BY_ID, limit: COLLECTION_LIMITS.referringShownMax }
  const { rows } = await collection.store.list(inside, collection, query)
  return rows.map((row) => row.id)
}
