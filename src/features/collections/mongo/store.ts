/** The document store over the MongoDB wire protocol, if one is configured. */

import { LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import type { DocumentRules, DocumentsHandle, MongoDocument } from '../../../infra/mongo/mongo.ts'
import { type Fields, isSame, updatedFields } from '../document.ts'
import type { Permissions } from '../rules/access.ts'
import { compilePermission } from '../rules/permissions.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import type { Change, Outcome, Store, Stored } from '../store.ts'
import { compileFilter, compileQuery } from './compile.ts'
import { FORM, fromStored, keysOf, toStored } from './storage-format.ts'

/** The permissions in the form that the handle enforces. */
export function mongoRules(permissions: Permissions): DocumentRules {
  const rule = (right: 'read' | 'update' | 'delete') => compilePermission(permissions[right], compileFilter)
  return {
    create: permissions.create !== false,
    ...{ read: rule('read'), update: rule('update'), delete: rule('delete') },
  }
}

/** Attempts at a change: of concurrent writers of one document, one succeeds at each attempt. */
const ATTEMPTS_MAX = 50

export function mongoStore(documents: DocumentsHandle): Store {
  return {
    kind: 'mongodb',

    read: (_scope, locations) =>
      Promise.all(
        locations.map(async ({ collection: { name }, id }) => {
          const found = await documents.get(name, id)
          return found && toRow(found)
        }),
      ),

    list: async (_scope, { name, declared }, query) => {
      if (declared !== undefined && declared.formats.size > 0) await ensureMigrated(documents, name, declared)
      const counting =
        query.count === undefined ? undefined : documents.count(name, compileFilter(query.filter))
      const [found, total] = await Promise.all([documents.find(name, compileQuery(query)), counting])
      return { rows: found.map(toRow), ...(total !== undefined && { total }) }
    },

    write: async (_scope, writes) => {
      const [only, ...more] = writes
      if (only === undefined) return []
      if (more.length > 0)
        throw new Problem('atomic_not_supported', {
          detail: 'Documents outside PostgreSQL are changed one by one.',
        })
      return [await change(documents, only.collection.name, only.change)]
    },

    add: async (_scope, { name }, creates) => {
      const documentsToInsert = creates.map(({ id, content, owner }) => ({
        ...toDocument(id, content.fields),
        ...(owner !== undefined && { owner }),
      }))
      return { made: await documents.insertMany(name, documentsToInsert) }
    },
  }
}

async function change(documents: DocumentsHandle, name: string, command: Change): Promise<Outcome> {
  if (command.verb !== 'create') return changeExisting(documents, name, command)
  return written(await documents.insert(name, toDocument(command.id, command.content.fields)))
}

/** Reads, changes and writes the document, and repeats that if another writer came first. */
async function changeExisting(
  documents: DocumentsHandle,
  name: string,
  command: Exclude<Change, { verb: 'create' }>,
): Promise<Outcome> {
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const found = await documents.get(name, command.id)
    if (found === undefined) return { missing: true }
    if (command.ifVersions?.includes(found.v) === false) return { current: found.v, bytes: 0 }
    const outcome = await tryChange(documents, name, found, command)
    if (outcome !== undefined) return outcome
  }
  throw new Problem('overloaded', { detail: 'Too many write the same document at once.' })
}

/** @returns undefined if another writer came first */
async function tryChange(
  documents: DocumentsHandle,
  name: string,
  found: MongoDocument,
  command: Exclude<Change, { verb: 'create' }>,
): Promise<Outcome | undefined> {
  const { id, v } = found
  if (command.verb === 'delete') return (await documents.delete(name, id, v)) ? { version: v } : undefined
  const fields = changed(fromStored(found.d), command)
  if (fields === undefined) return written(found)
  const bytes = Buffer.byteLength(JSON.stringify(fields))
  if (bytes > LIMITS.documentBytesMax) return { current: v, bytes }
  const next = toDocument(id, fields, v + 1, found.created_at)
  const { owner } = found
  const shown: MongoDocument = owner === undefined ? next : { ...next, owner }
  return (await documents.replace(name, v, next)) ? written(shown) : undefined
}

/** @returns undefined if the command leaves the document as it is */
function changed(
  fields: Fields,
  command: Extract<Change, { verb: 'update' | 'replace' }>,
): Fields | undefined {
  const next =
    command.verb === 'replace'
      ? command.content.fields
      : updatedFields(fields, command.content.fields, command.unset)
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

const written = (document: MongoDocument): Outcome => ({ version: document.v, stored: toRow(document) })

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
function ensureMigrated(documents: DocumentsHandle, name: string, declared: Declaration): Promise<void> {
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
  const limit = LIMITS.examinedAtOnce
  for (let more = true; more; ) {
    const found = await documents.find(name, { filter, set: {}, sort: { id: 1 }, limit })
    for (const { id, d, v, created_at, updated_at } of found)
      await documents.withoutRules.replace(name, v, toDocument(id, fromStored(d), v, created_at, updated_at))
    more = found.length === limit
  }
}
