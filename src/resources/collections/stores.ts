/** Which store a collection is in, and what is known of it. */

import type { WorkspaceScope } from '../../platform/scope.ts'
import { jsonbStore } from './jsonb.ts'
import type { Collection, Store } from './store.ts'

export interface Place {
  readonly store: Store
  readonly collection: Collection
}

/** The store and the metadata of a collection. A name that nobody declared is in the document store. */
export async function storeOf(_scope: WorkspaceScope, name: string): Promise<Place> {
  return { store: jsonbStore, collection: { name } }
}
