/** Applies read rules to change events, for callers under rules. */

import { LRUCache } from 'lru-cache'
import { ACCESS_LIMITS } from '../../../access/limits.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import type { Entry } from '../../../infra/valkey/streams.ts'
import { type DeclaredExpiry, expiredFilter } from '../expiry/expiry.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { evaluate } from '../query/evaluate.ts'
import { resolveCollection, resolveLookups } from '../resolve-store.ts'
import { type Collection, type Stored, valueAt } from '../store.ts'
import type { Permission } from './access.ts'
import { admits, requireCollectionRights } from './permissions.ts'

/**
 * Refuses a topic of changes in one collection of which the caller may read no document.
 * @throws Problem `forbidden`
 */
export async function requireReadable(scope: WorkspaceScope, topic: string): Promise<void> {
  const name = collectionIn(topic)
  if (name !== undefined) requireCollectionRights(scope, await readableIn(scope, name), ['read'])
}

/** `todos` of `collections.todos.*`; undefined if the topic is of all collections. */
function collectionIn(topic: string): string | undefined {
  const name = topic.split('.')[1]
  return name === '*' ? undefined : name
}

/** The collection, with what the caller may do in it now. */
async function readableIn(scope: WorkspaceScope, name: string): Promise<Collection> {
  return resolveCollection(await resolveLookups(scope, [name]), name)
}

/** The rule for reading and the expiry of a collection: they decide which change events a caller gets. */
export interface Reading {
  readonly read: Permission
  readonly expiry: DeclaredExpiry | undefined
}

export const readingOf = ({ permissions, declared }: Collection): Reading => ({
  read: permissions.read,
  expiry: declared?.expiry,
})

/** By the clock of this process, now: an event may be replayed long after the change. */
export const isExpired = ({ expiry }: Reading, document: Stored): boolean =>
  expiry !== undefined && evaluate(expiredFilter(expiry), (path) => valueAt(document, path))

/**
 * Selects the changes that a caller under rules receives: its role could read the collection when the change was made, which the
 * change records, and the rule of now, which is cached for `feedCheckMs`, admits the document as the change left or deleted it.
 * A document that has expired since is not told of until it is deleted.
 */
export function changeFilter(
  scope: WorkspaceScope,
  role: 'anon' | 'user',
): (entry: Entry) => boolean | Promise<boolean> {
  // Without `max`, which would allocate memory for all of them in each feed.
  const bounds = { maxSize: COLLECTION_LIMITS.schemasMax, sizeCalculation: () => 1 }
  const known = new LRUCache<string, Reading>({ ...bounds, ttl: ACCESS_LIMITS.streamCheckMs })
  const ask = async (collection: string) => {
    const reading = readingOf(await readableIn(scope, collection))
    known.set(collection, reading)
    return reading
  }
  return (entry) => {
    const collection = collectionIn(entry.topic)
    if (entry.readers?.[role] !== true || collection === undefined) return false
    const reading = known.get(collection)
    if (reading !== undefined) return isReadable(reading, entry)
    return ask(collection).then((found) => isReadable(found, entry))
  }
}

/** Parses an event only if its document decides. */
function isReadable(reading: Reading, entry: Entry): boolean {
  const { read, expiry } = reading
  if (read === false || (read === true && expiry === undefined)) return read
  const { isDeleted, before, after } = readChange(entry)
  const document = isDeleted ? before : after
  if (document === undefined) return isDeleted && read === true
  return admits(read, document) && (isDeleted || !isExpired(reading, document))
}

interface ChangeEvent {
  readonly time: string
  readonly data: {
    readonly id: string
    readonly version: number
    readonly owner?: string
    readonly document?: Record<string, unknown>
  }
}

/**
 * A change of a document. The document before it is undefined if there was none, or it is not kept; the one after it if it was deleted,
 * or the event does not have it.
 */
export interface DocumentChange {
  readonly id: string
  readonly version: number
  readonly isCreated: boolean
  readonly isDeleted: boolean
  readonly before: Stored | undefined
  readonly after: Stored | undefined
}

export function readChange({ topic, text, deleted, earlier }: Entry): DocumentChange {
  const { time, data } = JSON.parse(text) as ChangeEvent
  const { id, version, owner = null } = data
  const isCreated = topic.endsWith('.created')
  const createdAt = earlier?.createdAt ?? (isCreated ? time : '')
  const now = { id, version, owner, created_at: createdAt, updated_at: time }
  const change = { id, version, isCreated, isDeleted: topic.endsWith('.deleted') }
  if (change.isDeleted) {
    const before = deleted === undefined ? undefined : { ...now, fields: JSON.parse(deleted) }
    return { ...change, before, after: undefined }
  }
  const after = data.document === undefined ? undefined : { ...now, fields: data.document }
  const state =
    earlier?.state === undefined ? undefined : stateBefore(JSON.parse(earlier.state), after?.fields)
  const before = state === undefined ? undefined : { ...now, version: version - 1, ...state }
  return { ...change, before, after }
}

/** The state before an update as the change keeps it: all fields, or those that the update named. */
interface State extends Pick<Stored, 'updated_at' | 'fields'> {
  readonly names?: readonly string[]
}

function stateBefore(
  { names, updated_at, fields }: State,
  after: Stored['fields'] | undefined,
): Omit<State, 'names'> | undefined {
  if (names === undefined) return { updated_at, fields }
  if (after === undefined) return undefined
  const named = new Set(names)
  const others = Object.entries(after).filter(([name]) => !named.has(name))
  return { updated_at, fields: Object.fromEntries([...others, ...Object.entries(fields)]) }
}
