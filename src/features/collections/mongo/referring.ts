/**
 * Reads documents in MongoDB by the ids that their references hold. No index has these, so a collection with more documents than
 * one request may read is refused.
 */

import { Problem } from '../../../core/problem.ts'
import type { DocumentsHandle, MongoDocument, MongoFilter } from '../../../infra/mongo/mongo.ts'
import { BY_ID, type Path } from '../query/filter.ts'
import { keyOf, textOf } from '../query/sort-keys.ts'
import type { By, Query } from '../store.ts'
import { compileQuery, keyPath } from './compile.ts'

/** The documents of a collection, and how many one request may read. */
export interface Bounded {
  readonly documents: DocumentsHandle
  readonly name: string
  readonly max: number
}

interface Each extends Query {
  readonly by: By
  /** Documents for all values together. */
  readonly most: number
}

interface Found {
  readonly value: string
  readonly document: MongoDocument
}

/** For each value, the first `limit` documents that have it. @throws Problem `query_too_costly` */
export async function findEach(at: Bounded, query: Each): Promise<Found[]> {
  const { by, limit, most } = query
  const idsByValue = await findReferring(at, query)
  const chosen = by.values.flatMap((value) =>
    (idsByValue.get(value) ?? []).slice(0, limit).map((id) => ({ value, id })),
  )
  const shown = chosen.slice(0, most)
  const documents = await findByIds(
    at,
    shown.map(({ id }) => id),
  )
  // One may have been deleted since.
  return shown.flatMap(({ value, id }) => {
    const document = documents.get(id)
    return document === undefined ? [] : [{ value, document }]
  })
}

/** For each value, the number of documents that have it. @throws Problem `query_too_costly` */
export async function countEach(
  at: Bounded,
  query: Pick<Query, 'filter'> & { readonly by: By },
): Promise<ReadonlyMap<string, number>> {
  const idsByValue = await findReferring(at, { ...query, order: BY_ID })
  return new Map([...idsByValue].map(([value, ids]) => [value, ids.length]))
}

/** The ids of the documents that have each value, in the order of the query. */
async function findReferring(
  at: Bounded,
  { by, filter, order }: Pick<Each, 'by' | 'filter' | 'order'>,
): Promise<Map<string, string[]>> {
  await requireFew(at)
  const key = keyPath(by.path, by.as)
  const { filter: own, ...query } = compileQuery({ filter, order, limit: at.max })
  const among = { [key]: { $in: by.values.map(keyOf) } }
  const found = await at.documents.findParts(at.name, { ...query, filter: both(among, own) }, ['id', key])
  const idsByValue = new Map<string, string[]>()
  for (const { id, k } of found) {
    const value = textOf(k?.[key.slice('k.'.length)])
    if (value === undefined || id === undefined) continue
    const ids = idsByValue.get(value) ?? []
    ids.push(id)
    idsByValue.set(value, ids)
  }
  return idsByValue
}

const both = (one: MongoFilter, other: MongoFilter): MongoFilter => ({ $and: [one, other] })

/** @throws Problem `query_too_costly` if the collection has too many documents to look at each */
async function requireFew({ documents, name, max }: Bounded): Promise<void> {
  if ((await documents.withoutRules.findNth(name, '', max + 1)) === undefined) return
  throw new Problem('query_too_costly', {
    detail: `${name} has more than ${max} documents in MongoDB, which has no index of its references.`,
    hint: 'List the documents that refer, page by page, by the field of the reference.',
    adminHint: 'Or declare the collection with "store": "relational".',
  })
}

/**
 * The ids that documents have at a path: `id`, or the field of a reference.
 * @returns undefined if more than `limit` documents match
 */
export async function findIds(
  { documents, name }: Bounded,
  { filter, path, limit }: Pick<Query, 'filter' | 'limit'> & { readonly path: Path },
): Promise<readonly string[] | undefined> {
  const isId = path[0] === 'id'
  const key = isId ? 'id' : keyPath(path, 'uuid')
  const query = compileQuery({ filter, order: BY_ID, limit: limit + 1 })
  const there = isId ? query.filter : both({ [key]: { $exists: true } }, query.filter)
  const found = await documents.findParts(name, { ...query, filter: there }, [key])
  if (found.length > limit) return undefined
  const ids = found.map(({ id, k }) => (isId ? id : textOf(k?.[key.slice('k.'.length)])))
  return [...new Set(ids)].filter((id) => id !== undefined)
}

/** Ids of one statement. */
const READ_AT_ONCE = 500

async function findByIds(
  { documents, name }: Bounded,
  ids: readonly string[],
): Promise<ReadonlyMap<string, MongoDocument>> {
  const found = new Map<string, MongoDocument>()
  for (let at = 0; at < ids.length; at += READ_AT_ONCE) {
    const some = ids.slice(at, at + READ_AT_ONCE)
    const query = { filter: { id: { $in: some } }, set: {}, sort: { id: 1 }, limit: some.length } as const
    for (const document of await documents.find(name, query)) found.set(document.id, document)
  }
  return found
}
