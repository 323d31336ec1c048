/** Applies read rules to change events, for callers under rules. */

import { LRUCache } from 'lru-cache'
import { ACCESS_LIMITS } from '../../../access/limits.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import type { Entry } from '../../../infra/valkey/streams.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { resolveCollection, resolveLookups } from '../resolve-store.ts'
import type { Collection, Stored } from '../store.ts'
import type { Permissions } from './access.ts'
import { admits, requireRights } from './permissions.ts'

/**
 * Refuses a topic of changes in one collection of which the caller may read no document.
 * @throws Problem `forbidden`
 */
export async function requireReadable(scope: WorkspaceScope, topic: string): Promise<void> {
  const name = collectionIn(topic)
  if (name !== undefined) requireRights(scope, await readableIn(scope, name), ['read'])
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

/** The document of a change. When an updated one was created is not known, so tests of `_created_at` do not match it. */
function changedDocument({ topic, text, deleted }: Entry): Stored | undefined {
  const { time, data } = JSON.parse(text) as ChangeEvent
  const fields = deleted === undefined ? data.document : (JSON.parse(deleted) as Record<string, unknown>)
  if (fields === undefined) return undefined
  const createdAt = topic.endsWith('.created') ? time : ''
  const { id, version, owner = null } = data
  return { id, fields, version, owner, created_at: createdAt, updated_at: time }
}
