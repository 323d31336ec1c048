/** Which store a collection is in, and what is known of it. */

import type { WorkspaceScope } from '../../platform/scope.ts'
import { jsonbStore } from './jsonb.ts'
import { mongoStore } from './mongo-store.ts'
import type { Collection, Store } from './store.ts'

export interface Place {
  readonly store: Store
  readonly collection: Collection
}

/** The store and the metadata of a collection. A name that nobody declared is in the document store. */
export async function storeOf(scope: WorkspaceScope, name: string): Promise<Place> {
  const { documents } = scope
  return { store: documents === undefined ? jsonbStore : mongoStore(documents), collection: { name } }
}
