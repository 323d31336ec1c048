/** The document store over the MongoDB wire protocol, if one is configured. */

import { type MarkedEffect, requireHeld } from '../../../access/completion.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import type { DocumentRules, DocumentsHandle, MongoDocument } from '../../../infra/mongo/mongo.ts'
import { type Fields, isSame, updatedFields } from '../document.ts'
import { liveFilter } from '../expiry/expiry.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import type { Permissions } from '../rules/access.ts'
import { compilePermission } from '../rules/permissions.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import {
  type CheckedChange,
  type Collection,
  isRefusal,
  type Refusal,
  type Store,
  type Stored,
  toWritten,
  type Written,
} from '../store.ts'
import { aggregateDocuments } from './aggregate.ts'
import { compileFilter, compileQuery } from './compile.ts'
import { expiredDocuments } from './expired.ts'
import { type Bounded, countEach, findEach, findIds } from './referring.ts'
import { FORM, fromStored, keysOf, toStored } from './storage-format.ts'

/** The permissions in the form that the handle enforces. */
export function mongoRules(permissions: Permissions, declared: Declaration | undefined): DocumentRules {
  const live = declared?.expiry === undefined ? undefined : compileFilter(liveFilter(declared.expiry))
  const rule = (right: 'read' | 'update' | 'delete') => {
    const admitted = compilePermission(permissions[right], compileFilter)
    return live === undefined ? admitted : { $and: [live, admitted] }
  }
  return {
    create: permissions.create !== false,
    ...{ read: rule('read'), update: rule('update'), delete: rule('delete') },
  }
}

/** Attempts at a change: of concurrent writers of one document, one succeeds at each attempt. */
const ATTEMPTS_MAX = 50

/** @param max documents that one request may read to aggregate, or to follow references */
export function mongoStore(
  documents: DocumentsHandle,
  max: number = COLLECTION_LIMITS.mongoDocumentsReadMax,
): Store {
  const bounded = ({ name }: Pick<Collection, 'name'>): Bounded => ({ documents, name, max })
  return {
    kind: 'mongodb',

    read: (_scope, locations) =>
      Promise.all(
        locations.map(async ({ collection: { name }, id }) => {
          const found = await documents.get(name, id)
          return found && toRow(found)
        }),
      ),

    list: async (_scope, collection, query) => {
      const { name } = collection
      await ensureMigrated(documents, collection)
      const counting =
        query.count === undefined ? undefined : documents.count(name, compileFilter(query.filter))
      const [found, total] = await Promise.all([documents.find(name, compileQuery(query)), counting])
      return { rows: found.map(toRow), ...(total !== undefined && { total }) }
    },

    listIds: async (_scope, collection, query) => {
      await ensureMigrated(documents, collection)
      return findIds(bounded(collection), query)
    },

    listEach: async (_scope, collection, query) => {
      await ensureMigrated(documents, collection)
      const found = await findEach(bounded(collection), query)
      return found.map(({ value, document }) => ({ value, stored: toRow(document) }))
    },

    countEach: async (_scope, collection, query) => {
      await ensureMigrated(documents, collection)
      return countEach(bounded(collection), query)
    },

    aggregate: async (_scope, collection, query) => {
      await ensureMigrated(documents, collection)
      return aggregateDocuments(bounded(collection), query)
    },

    write: async (scope, changes, once) => {
      const [only, ...more] = changes
      if (only === undefined) return []
      if (more.length > 0)
        throw new Problem('atomic_not_supported', {
          detail: 'Documents outside PostgreSQL can only be changed one by one.',
        })
      const target = { documents, name: only.collection.name, effect: once && heldBy(scope, once.effect) }
      const result = await make(target, only)
      if (isRefusal(result)) return result
      if (once !== undefined) requireHeld(await scope.rows(once.keep([result])))
      return [result]
    },

    findMade: async (_scope, { collection: { name }, id, verb }, effect) => {
      if (effect.begunAt === undefined) return undefined
      const version = versionMade(await documents.withoutRules.get(name, id), verb, effect)
      if (version === undefined || verb === 'delete') return version === undefined ? undefined : { version }
      const found = await documents.get(name, id)
      return found && { version, stored: toRow(found) }
    },

    add: async (_scope, { name }, creates) => {
      const documentsToInsert = creates.map(({ id, content, owner }) => ({
        ...toDocument(id, content.fields),
        ...(owner !== undefined && { owner }),
      }))
      return { made: await documents.insertMany(name, documentsToInsert) }
    },

    restore: async (_scope, { name }, restored) => {
      const documentsToInsert = restored.map(({ id, content, owner, version, created_at, updated_at }) => ({
        ...toDocument(id, content.fields),
        ...{ v: version, created_at: new Date(created_at), updated_at: new Date(updated_at) },
        ...(owner !== undefined && { owner }),
      }))
      return { made: await documents.insertMany(name, documentsToInsert) }
    },

    ...expiredDocuments(documents),
    changeOwner: (_scope, { name }, change) => documents.changeOwner(name, change),
  }
}

/** Where a change is made, and of which keyed request it is the effect. */
interface Target {
  readonly documents: DocumentsHandle
  readonly name: string
  readonly effect: HeldEffect | undefined
}

/** @throws Problem `idempotency_in_flight` when it begins and another attempt has taken over */
interface HeldEffect extends Omit<MarkedEffect, 'begin'> {
  begin(version: number): Promise<void>
}

const heldBy = (scope: WorkspaceScope, effect: MarkedEffect): HeldEffect => ({
  ...effect,
  begin: async (version) => requireHeld(await scope.rows(effect.begin(version))),
})

async function make(target: Target, change: CheckedChange): Promise<Written | Refusal> {
  if (change.verb !== 'create') return changeExisting(target, change)
  const { documents, name, effect } = target
  await effect?.begin(0)
  const document = toDocument(change.id, change.content.fields)
  if (!change.mustBeNew) return written(change, (await documents.insert(name, document)).document)
  const marks = effect && [{ by: effect.mark, v: 1 }]
  const made = await documents.insert(name, { ...document, ...(marks && { marks }) })
  if (made.isNew) return written(change, made.document)
  const found = effect && (await documents.withoutRules.get(name, change.id))
  // An earlier attempt of the request may have made it.
  const isOwn = effect !== undefined && versionMade(found, 'update', effect) !== undefined
  return isOwn ? written(change, made.document) : { index: 0, exists: true }
}

type ChangeOfExisting = Exclude<CheckedChange, { verb: 'create' }>

/** Reads, changes and writes the document, and repeats that if another writer came first. */
async function changeExisting(target: Target, change: ChangeOfExisting): Promise<Written | Refusal> {
  const { documents, name, effect } = target
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const found = await documents.get(name, change.id)
    // An earlier attempt may have been delayed until now.
    const version = effect && versionMade(found, change.verb, effect)
    if (version !== undefined) return toWritten(change, version, found && toRow(found))
    if (found === undefined) return { index: 0, missing: true }
    if (change.ifVersions?.includes(found.v) === false) return { index: 0, current: found.v, bytes: 0 }
    const result = await tryChange(target, found, change)
    if (result !== undefined) return result
  }
  throw new Problem('overloaded', { detail: 'Too many requests change the same document at once.' })
}

/** @returns undefined if another writer came first */
async function tryChange(
  { documents, name, effect }: Target,
  found: MongoDocument,
  change: ChangeOfExisting,
): Promise<Written | Refusal | undefined> {
  const { id, v } = found
  if (change.verb === 'delete') {
    await effect?.begin(v)
    return (await documents.delete(name, id, v)) ? toWritten(change, v) : undefined
  }
  const fields = changed(fromStored(found.d), change)
  if (fields === undefined) return written(change, found)
  const bytes = Buffer.byteLength(JSON.stringify(fields))
  if (bytes > COLLECTION_LIMITS.documentBytesMax) return { index: 0, current: v, bytes }
  const next = toDocument(id, fields, v + 1, found.created_at)
  const { owner } = found
  const owned: MongoDocument = owner === undefined ? next : { ...next, owner }
  await effect?.begin(v)
  const marked = effect === undefined ? next : { ...next, marks: marksAfter(found, effect) }
  return (await documents.replace(name, v, marked)) ? written(change, owned) : undefined
}

const marksAfter = ({ marks = [], v }: MongoDocument, { mark }: HeldEffect) => [
  ...marks.slice(1 - COLLECTION_LIMITS.idempotencyMarksMax),
  { by: mark, v: v + 1 },
]

/**
 * The version that an earlier attempt of the request has made, or has deleted; undefined if it has made none. A deleted document has
 * no marks: if a document that is to be deleted is absent, the deletion counts as made by this request.
 * @throws Problem `idempotency_outcome_unknown` if the marks do not reach back to the version that it would have made
 */
function versionMade(
  found: MongoDocument | undefined,
  verb: CheckedChange['verb'],
  { mark, begunAt }: Pick<MarkedEffect, 'mark' | 'begunAt'>,
): number | undefined {
  if (begunAt === undefined) return undefined
  if (found === undefined) return verb === 'delete' ? begunAt : undefined
  if (verb === 'delete') return undefined
  if (verb === 'create') return 1
  const { marks = [] } = found
  const own = marks.find(({ by }) => by === mark)
  const isForgotten =
    marks.length >= COLLECTION_LIMITS.idempotencyMarksMax && Number(marks[0]?.v) > begunAt + 1
  if (own !== undefined || !isForgotten) return own?.v
  const detail = `The first request was cut off at version ${begunAt} of the document, and ${COLLECTION_LIMITS.idempotencyMarksMax} others with keys have changed it since.`
  throw new Problem('idempotency_outcome_unknown', { detail })
}

/** @returns undefined if the change leaves the document as it is */
function changed(
  fields: Fields,
  change: Extract<CheckedChange, { verb: 'update' | 'replace' }>,
): Fields | undefined {
  const next =
    change.verb === 'replace'
      ? change.content.fields
      : updatedFields(fields, change.content.fields, change.unset)
  return isSame(next, fields) ? undefined : next
}

function toDocument(
  id: string,
  fields: Fields,
  v = 1,
  created_at = new Date(),
  updated_at = v === 1 ? created_at : new Date(),
): MongoDocument {
  return { id, d: toStored(fields), k: keysOf(fields), f: FORM, v, created_at, updated_at }
}

const written = (change: CheckedChange, document: MongoDocument): Written =>
  toWritten(change, document.v, toRow(document))

function toRow({ id, d, v, created_at, updated_at, owner }: MongoDocument): Stored {
  return {
    id,
    fields: fromStored(d),
    version: v,
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
    owner: owner ?? null,
  }
}

const MIGRATIONS = new WeakMap<Declaration, Promise<void>>()

/** Adds canonical texts to documents of the former form before a query compares them; once per cached declaration. */
async function ensureMigrated(
  documents: DocumentsHandle,
  { name, declared }: Pick<Collection, 'name' | 'declared'>,
): Promise<void> {
  if (declared === undefined || declared.formats.size === 0) return
  const started = MIGRATIONS.get(declared)
  if (started !== undefined) return started
  const migration = migrate(documents, name)
  MIGRATIONS.set(declared, migration)
  migration.catch(() => MIGRATIONS.delete(declared))
  return migration
}

/** A concurrent writer stores the new form itself. */
async function migrate(documents: DocumentsHandle, name: string): Promise<void> {
  const filter = { f: { $exists: false } }
  const limit = COLLECTION_LIMITS.validationBatchDocuments
  for (let more = true; more; ) {
    const found = await documents.find(name, { filter, set: {}, sort: { id: 1 }, limit })
    for (const { id, d, v, created_at, updated_at } of found)
      await documents.withoutRules.replace(name, v, toDocument(id, fromStored(d), v, created_at, updated_at))
    more = found.length === limit
  }
}
