/** Who may hear of changes of documents: a key that may not read a collection does not hear of it either. */

import { LRUCache } from 'lru-cache'
import { LIMITS } from '../core/limits.ts'
import { type Admits, isOfChanges } from '../platform/events/events.ts'
import type { WorkspaceScope } from '../platform/scope.ts'
import { anonSettings, closedCollection } from './anon.ts'
import { anonAccess, declarationOf } from './schemas/declarations.ts'

/**
 * What of a topic's events the caller may hear; undefined where it is everything.
 * @throws Problem `forbidden` where the topic is of one collection that the caller may not read
 */
export async function admissionTo(scope: WorkspaceScope, topic: string): Promise<Admits | undefined> {
  if (scope.actor.role !== 'anon' || !isOfChanges(topic)) return undefined
  const name = collectionOf(topic)
  if (name !== undefined) {
    const { reads, isDefault } = await readingOf(scope, name)
    if (!reads) throw closedCollection(scope, { name, right: 'read', isDefault })
  }
  return admissionOfAnon(scope)
}

/** `todos` of `collections.todos.*`; undefined where the topic is of all. */
function collectionOf(topic: string): string | undefined {
  const name = topic.split('.')[1]
  return name === '*' ? undefined : name
}

/** Whether anon keys may read a collection, and whether the workspace's setting decides that. */
async function readingOf(scope: WorkspaceScope, collection: string) {
  const [declared, settings] = await Promise.all([declarationOf(scope, collection), anonSettings(scope)])
  return { reads: anonAccess(declared, settings).read, isDefault: declared?.anon.read === undefined }
}

/**
 * An anon key hears a change where it could read the collection when it was made, which stands with the change, and
 * may read it now, which is asked once in a while.
 */
function admissionOfAnon(scope: WorkspaceScope): Admits {
  // Without `max`, which would allocate room for all of them in each feed.
  const bounds = { maxSize: LIMITS.schemasPerWorkspaceMax, sizeCalculation: () => 1 }
  const known = new LRUCache<string, boolean>({ ...bounds, ttl: LIMITS.feedCheckMs })
  const ask = async (collection: string) => {
    const { reads } = await readingOf(scope, collection)
    known.set(collection, reads)
    return reads
  }
  return ({ topic, anonReads: then }) => {
    const collection = collectionOf(topic)
    if (then !== true || collection === undefined) return false
    return known.get(collection) ?? ask(collection)
  }
}
