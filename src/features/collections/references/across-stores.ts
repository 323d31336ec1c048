/**
 * Filters through references of which one end is in MongoDB: the ids of the documents at the other end are read before, and the
 * filter becomes a test of them.
 */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { type Filter, type Join, pathText } from '../query/filter.ts'
import { inLine } from '../scans.ts'
import { type Collection, joinedCollection } from '../store.ts'
import { oneOf } from './targets.ts'

type Joined = Extract<Filter, { kind: 'related' }> & { readonly join: Join }

/** True if no statement of one store reads both collections. */
export const isAcrossStores = (one: Pick<Collection, 'store'>, other: Pick<Collection, 'store'>): boolean =>
  one.store.kind !== 'postgresql' || other.store.kind !== 'postgresql'

/** @throws Problem `query_too_costly` if too many documents match at the other end */
export async function readJoined(scope: WorkspaceScope, joined: Joined): Promise<Filter> {
  const { filter, join, not, path } = joined
  const collection = joinedCollection(join)
  const limit = COLLECTION_LIMITS.mongoDocumentsReadMax
  const ids = await inLine(scope, collection, { filter, order: [], limit }, () =>
    collection.store.listIds(scope, collection, { filter, path: join.other, limit }),
  )
  if (ids === undefined) throw tooMany(pathText(path), collection.name)
  const [own] = join.own
  const test = oneOf(own, ids)
  if (!not) return test
  const isNull: Filter = { kind: 'null', path: join.own, not: false }
  return { kind: 'any', of: [isNull, { ...test, not: true } as Filter] }
}

const tooMany = (name: string, collection: string) =>
  new Problem('query_too_costly', {
    detail: `More than ${COLLECTION_LIMITS.mongoDocumentsReadMax} documents of ${collection} match the filter on ${name.slice(0, 100)}, and they are not in one store with those that are looked for.`,
    hint: 'Restrict the filter on the documents of the reference.',
    adminHint: 'Or declare both collections with "store": "relational".',
  })
