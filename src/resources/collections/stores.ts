/** Which store a collection is in, and what is known of it. */

import { Problem } from '../../core/problem.ts'
import { refusal } from '../../platform/pg/database.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { declarationOf, forgetDeclaration } from '../schemas/declarations.ts'
import { sameAsAnother } from '../schemas/indexes.ts'
import { declaredStore } from './declared.ts'
import { mongoStore } from './mongo/store.ts'
import { jsonbStore } from './postgres/jsonb.ts'
import { tableStore } from './postgres/table.ts'
import type { Collection, Store } from './store.ts'

export interface Place {
  readonly store: Store
  readonly collection: Collection
}

/** The store of a collection, declared or not; a name that nobody declared is in the document store. */
export async function storeOf(_scope: WorkspaceScope, name: string): Promise<Place> {
  return { store: current, collection: { name } }
}

async function placeOf(scope: WorkspaceScope, name: string): Promise<Place> {
  const declared = await declarationOf(scope, name)
  if (declared === undefined) return { store: documentStore(scope), collection: { name } }
  const elsewhere = declared.store === 'document' ? scope.documents : undefined
  const inner = elsewhere === undefined ? tableStore : mongoStore(elsewhere)
  return { store: declaredStore(inner, declared), collection: { name, declared } }
}

/** Of collections that nobody declared. */
const documentStore = ({ documents }: WorkspaceScope): Store =>
  documents === undefined ? jsonbStore : mongoStore(documents)

/** Whatever the declaration is at the moment of each call. */
const current: Store = {
  create: (scope, { name }, ...rest) =>
    within(scope, name, (at) => at.store.create(scope, at.collection, ...rest)),
  update: (scope, { name }, ...rest) =>
    within(scope, name, (at) => at.store.update(scope, at.collection, ...rest)),
  delete: (scope, { name }, ...rest) =>
    within(scope, name, (at) => at.store.delete(scope, at.collection, ...rest)),
  get: (scope, { name }, ...rest) => within(scope, name, (at) => at.store.get(scope, at.collection, ...rest)),
  list: (scope, { name }, ...rest) =>
    within(scope, name, (at) => at.store.list(scope, at.collection, ...rest)),
}

/**
 * What is remembered of a declaration may be some seconds old. Where the database refuses because of that, it is
 * asked for anew and the work done once more: nothing was done the first time.
 */
async function within<T>(scope: WorkspaceScope, name: string, work: (at: Place) => Promise<T>): Promise<T> {
  try {
    return await work(await permitted(scope, name))
  } catch (error) {
    const why = refusal(error)
    if (why !== 'is_declared' && why !== 'no_table')
      throw sameAsAnother(error, await declarationOf(scope, name)) ?? error
    forgetDeclaration(scope, name)
    return work(await permitted(scope, name))
  }
}

/** The policies say the same; here it gets a reason. */
async function permitted(scope: WorkspaceScope, name: string): Promise<Place> {
  const place = await placeOf(scope, name)
  if (scope.actor.role !== 'anon' || place.collection.declared?.anon.read !== false) return place
  throw new Problem('forbidden', { detail: `Anon keys may not read the collection ${name}.` })
}
