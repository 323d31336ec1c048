/**
 * Writes documents: checks the changes that a caller wants (`check-changes.ts`), lets the store make all or none, and checks
 * again if another writer came first.
 */

import { requireHeld } from '../../access/completion.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { isPublicRole } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { Json } from '../../core/work.ts'
import { CpuBudget } from '../../infra/cpu-budget.ts'
import { INFRA_LIMITS } from '../../infra/limits.ts'
import { undefinedOnDeadlock } from '../../infra/postgres/errors.ts'
import { retryContended } from '../../infra/retry.ts'
import { checkAll, isBlindWrite, RIGHTS, type WantedChange, withOpIndex } from './check-changes.ts'
import { conflictProblem, equalTo, isWithOther } from './constraints/conflicting.ts'
import { COLLECTION_LIMITS } from './limits.ts'
import { BY_ID } from './query/filter.ts'
import { writeCascading } from './references/cascade.ts'
import { findHiddenTarget, referencedProblem } from './references/targets.ts'
import { withCollections, withExpired, withoutRules } from './resolve-store.ts'
import type { Right } from './rules/access.ts'
import { admits, requireCollectionRights } from './rules/permissions.ts'
import { type Index, isOfAll } from './schemas/api-types.ts'
import {
  type CheckedChange,
  type Collection,
  isRefusal,
  type Once,
  problemOf,
  type Refusal,
  type Store,
  type Stored,
  unresolved,
  versionMismatch,
  type Written,
} from './store.ts'

interface WriteOptions {
  /** The CPU budget of a request that does more than this write. */
  readonly budget?: CpuBudget
  /** Of a request with an idempotency key. */
  readonly once?: Once | undefined
  /** True if the changes publish no change events. */
  readonly quiet?: boolean
  /** True if the changes are deletions whose order does not matter: one may take another one along. */
  readonly together?: boolean | undefined
}

/** The collection in a form whose changes publish no change events. */
export const quietly = (collection: Collection): Collection => ({ ...collection, isQuiet: true })

/** One object for each, since changes of the same collection become one statement. */
function quietlyAt(at: (name: string) => Collection): (name: string) => Collection {
  const known = new Map<string, Collection>()
  return (name) => {
    const collection = known.get(name) ?? quietly(at(name))
    known.set(name, collection)
    return collection
  }
}

/**
 * Makes all changes or none, in one round trip if no document has to be read first.
 * @throws Problem of the first change that fails; if there are several, `op_index` is its index
 */
export function writeAll(
  scope: WorkspaceScope,
  wanted: readonly WantedChange[],
  {
    budget = wanted.length > 1 ? new CpuBudget() : undefined,
    once,
    quiet = false,
    together,
  }: WriteOptions = {},
): Promise<readonly Written[]> {
  const collections = new Map<string, readonly Right[]>(wanted.map(({ collection }) => [collection, []]))
  const { attemptsMax, ...bounds } = INFRA_LIMITS.contention
  const attemptsOfBatch = Math.max(2, Math.floor(COLLECTION_LIMITS.batchAttemptsMax / wanted.length))
  return withCollections(scope, collections, async (found, inside) => {
    const at = quiet ? quietlyAt(found) : found
    requireRights(inside, wanted, at)
    return retryContended(
      'Too many writers change this document at once.',
      () => attemptAll(inside, { wanted, at, budget, once, together }),
      { ...bounds, attemptsMax: Math.min(attemptsMax, attemptsOfBatch) },
    )
  })
}

/** @throws Problem `forbidden` for the first change that the caller may make to no document */
function requireRights(scope: WorkspaceScope, wanted: readonly WantedChange[], at: Attempt['at']): void {
  for (const [index, { collection, op }] of wanted.entries()) {
    try {
      requireCollectionRights(scope, at(collection), RIGHTS[op])
    } catch (error) {
      throw withOpIndex(error, index, wanted)
    }
  }
}

/**
 * Makes one change.
 * @example
 * const change = { op: 'create', collection: 'todos', id: scope.uuid(), data: { title: 'Call' } } as const
 * const { id, version } = await write(scope, change)
 */
export async function write(
  scope: WorkspaceScope,
  wanted: WantedChange,
  options?: WriteOptions,
): Promise<Written> {
  const [written] = await writeAll(scope, [wanted], options)
  if (written === undefined) throw new TypeError('a change that was made must have a result')
  return written
}

interface Attempt {
  readonly wanted: readonly WantedChange[]
  readonly at: (collection: string) => Collection
  readonly budget: CpuBudget | undefined
  readonly once: Once | undefined
  readonly together: boolean | undefined
}

/** @returns undefined if another writer came first and all is to be checked again */
async function attemptAll(
  scope: WorkspaceScope,
  { wanted, at, budget, once, together }: Attempt,
): Promise<readonly Written[] | undefined> {
  const earlier = await madeEarlier(scope, { wanted, at, once })
  if (earlier !== undefined) return earlier
  const isBlind = wanted.every((change) => isBlindWrite(at(change.collection), change))
  const currents = isBlind ? undefined : await readCurrent(scope, wanted, at)
  const find = (change: WantedChange) => findByKey(scope, at(change.collection), change)
  const changes = await checkAll(scope, wanted, { at, currents, find, budget })
  const hidden =
    (await findHiddenTarget(scope, changes, currents)) &&
    // A reference that stays is no new one, which takes the documents before to know.
    (await findHiddenTarget(scope, changes, currents ?? (await readCurrent(scope, wanted, at))))
  if (hidden !== undefined) throw withOpIndex(unresolved(hidden.reference), hidden.index, wanted)
  const result = await writeChecked(scope, storeOf(wanted, at), changes, { once, together })
  if (result === undefined || !isRefusal(result)) return result
  const [refused, change] = [wanted[result.index], changes[result.index]]
  if (refused === undefined || change === undefined) throw new TypeError('a refused change must exist')
  if (!isBlind && (await isTransient(scope, at(refused.collection), { wanted: refused, refusal: result })))
    return undefined
  throw withOpIndex(await problemNow(scope, change, result), result.index, wanted)
}

/** Makes changes that are checked, with what references take along. @returns undefined if other writers were in the way */
export async function writeChecked(
  scope: WorkspaceScope,
  store: Store,
  changes: readonly CheckedChange[],
  { once, together }: Pick<WriteOptions, 'once' | 'together'> = {},
): Promise<readonly Written[] | Refusal | undefined> {
  const result = await store.write(scope, changes, once, together).catch(undefinedOnDeadlock)
  if (result === undefined || !isRefusal(result) || !('referenced' in result)) return result
  return writeCascading(scope, changes, { refusal: result, once, together })
}

/** The result of what an earlier attempt of the request has made in a store that shares no transaction with its claim. */
async function madeEarlier(
  scope: WorkspaceScope,
  { wanted: [change, ...others], at, once }: Pick<Attempt, 'wanted' | 'at' | 'once'>,
): Promise<readonly Written[] | undefined> {
  if (once === undefined || change === undefined || others.length > 0) return undefined
  const { op, id } = change
  const collection = at(change.collection)
  // A document with an id that the caller has chosen may be that of another request.
  const isMade = op === 'create' && change.mustBeNew !== true
  const verb = isMade || op === 'delete' ? op : 'update'
  const made = await collection.store.findMade?.(scope, { collection, id, verb }, once.effect)
  if (made === undefined) return undefined
  const results = [{ id, created: op === 'create', ...made }]
  requireHeld(await scope.rows(once.keep(results)))
  return results
}

/** True if the change may succeed when it is checked again on the current document. */
async function isTransient(
  scope: WorkspaceScope,
  collection: Collection,
  { wanted, refusal }: { readonly wanted: WantedChange; readonly refusal: Refusal },
): Promise<boolean> {
  if ('isTakenAlong' in refusal) return false
  if ('missing' in refusal || 'current' in refusal) return wanted.op !== 'create' && !isTooLarge(refusal)
  if (wanted.op !== 'upsert') return false
  // Another writer may have made the document of this key meanwhile, with the same id.
  if ('exists' in refusal) return (await findByKey(scope, collection, wanted)) !== undefined
  if (!('duplicated' in refusal)) return false
  const { duplicated } = refusal
  if (!isOfAll(duplicated) || !duplicated.fields.every((field) => wanted.on.includes(field))) return false
  return !(await isHeldOutOfSight(scope, collection, wanted))
}

/**
 * True if a document that the caller does not find has the key of an upsert, since the caller may not read it or it has expired: the
 * caller can neither update nor create it.
 */
async function isHeldOutOfSight(
  scope: WorkspaceScope,
  collection: Collection,
  wanted: WantedChange,
): Promise<boolean> {
  const isPublic = isPublicRole(scope.actor.role)
  if (!isPublic && collection.declared?.expiry === undefined) return false
  const open = isPublic ? withoutRules(scope, collection) : { service: scope, collection }
  const holder = await findByKey(open.service, withExpired(open.service, open.collection), wanted)
  if (holder === undefined) return false
  if (!admits(collection.permissions.read, holder)) return true
  return (await findByKey(open.service, open.collection, wanted)) === undefined
}

const isTooLarge = (refusal: Refusal) =>
  'current' in refusal && refusal.bytes > COLLECTION_LIMITS.documentBytesMax

/** The store of all changes, since a transaction cannot span stores. */
function storeOf(wanted: readonly WantedChange[], at: Attempt['at']): Store {
  const [store, ...others] = wanted.map(({ collection }) => at(collection).store)
  if (store === undefined) throw new TypeError('a write must have a change')
  if (others.every(({ kind }) => kind === store.kind)) return store
  throw new Problem('atomic_not_supported', { detail: 'The collections are in different stores.' })
}

/** Reads the current document of each change; undefined for a new one. */
async function readCurrent(
  scope: WorkspaceScope,
  wanted: readonly WantedChange[],
  at: Attempt['at'],
): Promise<(Stored | undefined)[]> {
  const places = wanted
    .filter((change) => !mayCreate(change))
    .map(({ collection, id }) => ({ collection: at(collection), id }))
  const documents = places.length === 0 ? [] : await storeOf(wanted, at).read(scope, places)
  return Promise.all(
    wanted.map(async (change, index) => {
      if (!mayCreate(change)) return documents.shift()
      return findByKey(scope, at(change.collection), change).catch((error: unknown) => {
        throw withOpIndex(error, index, wanted)
      })
    }),
  )
}

const mayCreate = ({ op }: WantedChange) => op === 'create' || op === 'upsert'

/** Finds the existing document of an upsert. */
async function findByKey(
  scope: WorkspaceScope,
  collection: Collection,
  wanted: WantedChange,
): Promise<Stored | undefined> {
  if (wanted.op !== 'upsert') return undefined
  const of = uniqueKeyOf(collection, wanted.on, wanted.data).map(([name, value]) =>
    equalTo(name, value, collection.declared ?? { formats: new Map() }),
  )
  const query = { filter: { kind: 'all', of }, order: BY_ID, limit: 1 } as const
  const { rows } = await collection.store.list(scope, collection, query)
  return rows[0]
}

/** The values by which an upsert finds its document. @throws Problem if they are not declared unique, or absent */
function uniqueKeyOf({ name, declared }: Collection, on: readonly string[], data: object): [string, Json][] {
  const hasFields = ({ fields }: Index) =>
    fields.length === on.length && fields.every((field) => on.includes(field))
  const isKey = (index: Index) =>
    index.unique && index.state === 'ready' && isOfAll(index) && hasFields(index)
  if (declared?.indexes.some(isKey) !== true) {
    const detail = `${on.join(', ').slice(0, 200)} is not declared unique in ${name}.`
    throw new Problem('upsert_not_unique', { detail })
  }
  return on.map((field) => {
    const value = Object.hasOwn(data, field) ? (data as Record<string, Json>)[field] : undefined
    if (value !== undefined && value !== null) return [field, value]
    throw new Problem('validation_failed', { detail: `An upsert needs a value in ${field}.` })
  })
}

/** After a version mismatch, reports the version of now rather than the one that was read. */
async function problemNow(scope: WorkspaceScope, change: CheckedChange, refusal: Refusal): Promise<unknown> {
  const { collection, id } = change
  if (isWithOther(refusal)) return conflictProblem(scope, change, refusal)
  if ('referenced' in refusal) return referencedProblem(scope, { name: collection.name, id }, refusal)
  if (!('current' in refusal) || isTooLarge(refusal)) return problemOf(refusal)
  const [now] = await collection.store.read(scope, [{ collection, id }])
  return now === undefined ? problemOf({ missing: true }) : versionMismatch(now.version)
}
