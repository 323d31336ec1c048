/** Applies read rules to change events, for callers under rules. */

import { LRUCache } from 'lru-cache'
import { ACCESS_LIMITS } from '../../../access/limits.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import type { Entry } from '../../../infra/valkey/streams.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { resolveCollection, resolveLookups } from '../resolve-store.ts'
import type { Collection, Stored } from '../store.ts'
import type { Permissions } from './access.ts'
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

/**
 * Selects the changes that a caller under rules receives: its role could read the collection when the change was made, which the
 * change records, and the rule of now, which is cached for `feedCheckMs`, admits the document as the change left or deleted it.
 */
export function changeFilter(
  scope: WorkspaceScope,
  role: 'anon' | 'user',
): (entry: Entry) => boolean | Promise<boolean> {
  // Without `max`, which would allocate memory for all of them in each feed.
  const bounds = { maxSize: COLLECTION_LIMITS.schemasMax, sizeCalculation: () => 1 }
  const known = new LRUCache<string, Permissions>({ ...bounds, ttl: ACCESS_LIMITS.streamCheckMs })
  const ask = async (collection: string) => {
    const { permissions } = await readableIn(scope, collection)
    known.set(collection, permissions)
    return permissions
  }
  return (entry) => {
    const collection = collectionIn(entry.topic)
    if (entry.readers?.[role] !== true || collection === undefined) return false
    const permissions = known.get(collection)
    if (permissions !== undefined) return isReadable(permissions, entry)
    return ask(collection).then((found) => isReadable(found, entry))
  }
}

/** Parses an event only if the rule depends on its document. */
function isReadable({ read }: Permissions, entry: Entry): boolean {
  if (typeof read === 'boolean') return read
  const document = changedDocument(entry)
  return document !== undefined && admits(read, document)
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

/** The document of a change, as it left or deleted it. */
function changedDocument(entry: Entry): Stored | undefined {
  const { after, before, isDeleted } = readChange(entry)
  return isDeleted ? before : after
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
  if (earlier?.state === undefined) return { ...change, before: undefined, after }
  return { ...change, before: { ...now, version: version - 1, ...JSON.parse(earlier.state) }, after }
}
