/** Who may hear of changes of documents: a key that may not read a collection does not hear of it either. */

import { LIMITS } from '../core/limits.ts'
import { Problem } from '../core/problem.ts'
import { type Admits, isOfChanges } from '../platform/events/events.ts'
import type { WorkspaceScope } from '../platform/scope.ts'
import { declarationOf } from './schemas/declarations.ts'

/**
 * What of a topic's events the caller may hear; undefined where it is everything.
 * @throws Problem `forbidden` where the topic is of one collection that the caller may not read
 */
export async function admissionTo(scope: WorkspaceScope, topic: string): Promise<Admits | undefined> {
  if (scope.actor.role !== 'anon' || !isOfChanges(topic)) return undefined
  const named = collectionOf(topic)
  if (named !== undefined && !(await anonReads(scope, named)))
    throw new Problem('forbidden', { detail: `Anon keys may not read the collection ${named}.` })
  return admissionOfAnon(scope)
}

/** `todos` of `collections.todos.*`; undefined where the topic is of all. */
function collectionOf(topic: string): string | undefined {
  const name = topic.split('.')[1]
  return name === '*' ? undefined : name
}

const anonReads = async (scope: WorkspaceScope, collection: string) =>
  (await declarationOf(scope, collection))?.anon.read !== false

/**
 * An anon key hears a change where it could read the collection when it was made, which stands with the change, and
 * may read it now, which is asked once in a while.
 */
function admissionOfAnon(scope: WorkspaceScope): Admits {
  const known = new Map<string, { readonly reads: boolean; readonly untilMs: number }>()
  const ask = async (collection: string) => {
    const reads = await anonReads(scope, collection)
    if (known.size >= LIMITS.schemasPerWorkspaceMax) known.clear()
    known.set(collection, { reads, untilMs: Date.now() + LIMITS.feedCheckMs })
    return reads
  }
  return ({ topic, anonReads: then }) => {
    const collection = collectionOf(topic)
    if (then !== true || collection === undefined) return false
    const found = known.get(collection)
    return found !== undefined && found.untilMs > Date.now() ? found.reads : ask(collection)
  }
}
