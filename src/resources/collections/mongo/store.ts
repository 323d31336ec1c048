/** The store of undeclared collections over the MongoDB wire protocol, where one is configured. */

import { LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import type { DocumentsHandle, MongoDocument } from '../../../platform/documents/mongo.ts'
import type { Fields } from '../fields.ts'
import type { Collection, Store, Stored, Updated } from '../store.ts'
import { compileFilter, compileQuery } from './compile.ts'
import { fromStored, keysOf, toStored } from './form.ts'

/** Writers of one document at once, of which one gets through at each turn. */
const TURNS_MAX = 50

export function mongoStore(documents: DocumentsHandle): Store {
  return {
    create: async (_scope, { name }, id, { fields }) => {
      const now = new Date()
      return toRow(await documents.insert(name, toDocument(id, fields, 1, now, now)))
    },

    get: async (_scope, { name }, id) => {
      const found = await documents.get(name, id)
      return found && toRow(found)
    },

    list: async (_scope, { name }, query) => {
      const counting =
        query.count === undefined ? undefined : documents.count(name, compileFilter(query.filter))
      const [found, total] = await Promise.all([documents.find(name, compileQuery(query)), counting])
      return { rows: found.map(toRow), ...(total !== undefined && { total }) }
    },

    update: (_scope, collection, id, { fields }, ifVersion) =>
      update(documents, collection, id, fields, ifVersion),

    delete: (_scope, { name }, id) => documents.delete(name, id),
  }
}

/** Reads, merges and writes where nobody else has written meanwhile. */
async function update(
  documents: DocumentsHandle,
  { name }: Collection,
  id: string,
  fields: Fields,
  ifVersion: number | undefined,
): Promise<Updated> {
  for (let turn = 0; turn < TURNS_MAX; turn++) {
    const found = await documents.get(name, id)
    if (found === undefined) return undefined
    if (ifVersion !== undefined && found.v !== ifVersion) return { staleAt: found.v }
    const names = Object.keys(fields)
    if (names.length === 0) return { stored: toRow(found) }
    const merged = { ...fromStored(found.d), ...fields }
    const bytes = Buffer.byteLength(JSON.stringify(merged))
    if (bytes > LIMITS.documentBytesMax) return { bytes }
    const next = toDocument(id, merged, found.v + 1, found.created_at, new Date())
    if (await documents.replace(name, found.v, next)) return { stored: toRow(next) }
  }
  throw new Problem('overloaded', { detail: 'Too many write the same document at once.' })
}

function toDocument(
  id: string,
  fields: Fields,
  v: number,
  created_at: Date,
  updated_at: Date,
): MongoDocument {
  return { id, d: toStored(fields), k: keysOf(fields), v, created_at, updated_at }
}

function toRow({ id, d, v, created_at, updated_at }: MongoDocument): Stored {
  return {
    id,
    fields: fromStored(d),
    version: v,
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  }
}
