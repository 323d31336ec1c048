/**
 * Queries that no index narrows: they read a whole collection. They run a few at a time, so that they delay no others, and their
 * refusals name the index to declare.
 */

import type { WorkspaceScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'
import { KeyedSemaphore } from '../../infra/keyed-semaphore.ts'
import { COLLECTION_LIMITS } from './limits.ts'
import { type Filter, type OrderKey, pathsOf, pathText } from './query/filter.ts'
import { hasTrigrams } from './query/operands.ts'
import { isNarrowing, type Search } from './query/search.ts'
import { type Index, isOfAll } from './schemas/api-types.ts'
import type { Declaration } from './schemas/declaration-cache.ts'
import { type Collection, joinedCollection, type Query } from './store.ts'

const { tenantMax, processMax, waitMs, waitingMax } = COLLECTION_LIMITS.scans
const SLOTS = new KeyedSemaphore(tenantMax, waitMs, processMax, 1)
const BUSY = 'Too many queries without an index run at the same time, so this one was not run.'

/**
 * Runs a query of one page: at once if an index narrows it, else as soon as its tenant may scan. Not for use inside of a
 * transaction, which would hold its locks while it waits.
 * @throws as `work` does; Problem `overloaded` if too many wait, or it waited too long. That, and `query_timeout`, have a hint
 */
export async function inLine<T>(
  scope: WorkspaceScope,
  collection: Pick<Collection, 'store' | 'declared' | 'permissions'>,
  query: Query,
  work: () => Promise<T>,
): Promise<T> {
  const { declared } = collection
  const release = await waitForSlot(scope, collection, query).catch((error: unknown) => {
    throw error instanceof Problem && error.code === 'overloaded' ? withHint(error, query, declared) : error
  })
  try {
    return await work()
  } catch (error) {
    throw error instanceof Problem && error.code === 'query_timeout'
      ? withHint(error, query, declared)
      : error
  } finally {
    release()
  }
}

/**
 * Runs a query whose result its request can do without: at once if an index narrows it or its tenant may scan now, else not at all.
 */
export async function ifInLine<T>(
  { ref }: WorkspaceScope,
  collection: Pick<Collection, 'store' | 'declared' | 'permissions'>,
  query: Query,
  work: () => Promise<T>,
): Promise<T | undefined> {
  if (collection.store.kind !== 'postgresql' || isNarrowed(collection, query)) return work()
  const release = SLOTS.tryAcquire(ref.tenantId)
  if (release === undefined) return undefined
  try {
    return await work()
  } finally {
    release()
  }
}

/** Runs work that reads whole collections of a tenant as soon as the tenant may scan. @throws Problem `overloaded` as {@link inLine} does */
export async function inScanLine<T>(tenantId: string, work: () => Promise<T>): Promise<T> {
  const release = await SLOTS.acquire(tenantId, BUSY, { waitingMax })
  try {
    return await work()
  } finally {
    release()
  }
}

/** PostgreSQL's alone: collections in MongoDB have no indexes to declare. */
async function waitForSlot(
  { ref }: WorkspaceScope,
  collection: Pick<Collection, 'store' | 'declared' | 'permissions'>,
  query: Query,
): Promise<() => void> {
  if (collection.store.kind !== 'postgresql' || isNarrowed(collection, query)) return () => {}
  return SLOTS.acquire(ref.tenantId, BUSY, { waitingMax })
}

/**
 * True if an index selects the documents, or gives the first of them in their order. It is decided by the form of the query, as
 * the planner may; an index may still select many.
 */
export function isNarrowed(
  { declared, permissions: { read } }: Pick<Collection, 'declared' | 'permissions'>,
  { filter, order, count, search }: Pick<Query, 'filter' | 'order' | 'count'> & { readonly search?: Search },
): boolean {
  const indexes = indexesOf(declared)
  if (search !== undefined && isNarrowing(search) && indexes.leakproof.text.size > 0) return true
  if (typeof read !== 'boolean' && isSelective(read, indexes)) return true
  if (isSelective(filter, indexes)) return true
  const isOpen = filter.kind === 'all' && filter.of.length === 0 && typeof read === 'boolean'
  return isOpen && count === undefined && isIndexOrder(order[0], indexes)
}

/** The fields by which the indexes of a collection find documents. */
interface Indexes {
  /** Fields by whose values an index finds documents. */
  readonly leading: ReadonlySet<string | undefined>
  /** By kind, the fields of the indexes that row-level security lets PostgreSQL use. */
  readonly leakproof: Readonly<Record<'text' | 'array' | 'trigram', ReadonlySet<string | undefined>>>
}

function indexesOf(declared: Declaration | undefined): Indexes {
  const ready = (declared?.indexes ?? []).filter(({ state }) => state === 'ready')
  const fieldsOf = (found: (index: Index) => boolean) =>
    new Set(ready.filter(found).map(({ fields }) => fields[0]))
  const ofKind = (kind: Index['kind']) => fieldsOf((index) => index.kind === kind && index.leakproof === true)
  return {
    leading: fieldsOf(isOfAll).add('id'),
    leakproof: { text: ofKind('text'), array: ofKind('array'), trigram: ofKind('trigram') },
  }
}

function isSelective(filter: Filter, indexes: Indexes): boolean {
  switch (filter.kind) {
    case 'all':
      return filter.of.some((part) => isSelective(part, indexes))
    case 'any':
      return filter.of.every((part) => isSelective(part, indexes))
    case 'unknown':
      return true
    case 'null':
      return !filter.not && isLeading(filter.path, indexes)
    case 'test':
      return !filter.not && filter.path.length === 1 && isFound(filter, indexes)
    case 'related':
      // References have an index at both ends.
      return (
        !filter.not &&
        filter.join !== undefined &&
        isSelective(filter.filter, indexesOf(joinedCollection(filter.join).declared))
      )
    case 'exists':
    case 'fields':
    case 'deferred':
      return false
  }
}

const isLeading = (path: readonly string[], { leading }: Indexes) => path.length === 1 && leading.has(path[0])

function isFound(
  { path: [field], test }: Extract<Filter, { kind: 'test' }>,
  { leading, leakproof }: Indexes,
): boolean {
  if (test.op === 'array') return test.how !== 'cd' && test.values.length > 0 && leakproof.array.has(field)
  if (test.op !== 'like') return leading.has(field) && ('value' in test || 'values' in test)
  if (leakproof.trigram.has(field) && hasTrigrams(test.pattern)) return true
  return leading.has(field) && !test.fold && typeof test.pattern[0] === 'object'
}

/** An index is ascending with nulls last, and read backwards descending with nulls first; ids are never null. */
const isIndexOrder = (key: OrderKey | undefined, indexes: Indexes): boolean =>
  key !== undefined &&
  isLeading(key.path, indexes) &&
  (key.path[0] === 'id' || key.descending === key.nullsFirst)

/** Adds the fields on which a missing index would help. */
function withHint(
  { code, detail, cause }: Problem,
  { filter, order }: Query,
  declared: Declaration | undefined,
) {
  const paths = [...pathsOf(filter), ...order.map(({ path }) => path)].filter((path) => path.length === 1)
  const first = new Set(declared?.indexes.filter(isOfAll).map(({ fields }) => fields[0]))
  const fields = [...new Set(paths.flat())].filter((name) => !NEVER_INDEXED.test(name) && !first.has(name))
  const named = fields.map((name) => pathText([name])).join(', ')
  const hints =
    fields.length === 0
      ? { hint: 'Restrict the query. The fields that it uses have an index, or cannot have one.' }
      : {
          hint: 'Restrict the query.',
          adminHint: `Or declare the collection with an index on ${named} (POST /v1/schemas).`,
        }
  return new Problem(code, { ...(detail !== undefined && { detail }), ...hints, cause })
}

/** Fields that no declaration can index. */
const NEVER_INDEXED = /^(id$|_)/
