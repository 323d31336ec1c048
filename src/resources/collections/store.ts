/** The port of stores: what a collection needs of wherever its documents are. */

import type { Json } from '../../core/work.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import type { Declaration } from '../schemas/declarations.ts'
import type { Fault } from '../schemas/validate.ts'
import type { Filter, OrderKey } from './grammar/filter.ts'

/** What is known of a collection before any of its documents is touched. */
export interface Collection {
  readonly name: string
  /** Undefined where nobody declared it. */
  readonly declared?: Declaration
}

/** Fields that were checked, and their JSON. */
export interface Content {
  readonly fields: Record<string, unknown>
  readonly text: string
}

/** A document as a store gives it back. */
export interface Stored {
  readonly id: string
  readonly fields: Record<string, unknown>
  readonly version: number
  /** RFC 3339, milliseconds. */
  readonly created_at: string
  readonly updated_at: string
  /** Where the collection's schema is there to warn: what of it the document does not fit. */
  readonly warnings?: readonly Fault[]
}

export interface Query {
  readonly filter: Filter
  /** Ends with `id`, so that no two documents are equal in it. */
  readonly order: readonly OrderKey[]
  /** The order's values in the last document that was seen, one for each key; null where it has none. */
  readonly after?: readonly Json[]
  /** At most this many are given back. */
  readonly limit: number
  /** The names at the top that are shown; absent where all are. */
  readonly selected?: readonly string[]
  /** Whether all that the filter finds are counted: one by one, or, where they are many, as well as can be guessed. */
  readonly count?: Count
}

export type Count = 'exact' | 'estimated'

interface Listed {
  readonly rows: Stored[]
  /** Where it was asked for: of all that the filter finds, on whatever page. */
  readonly total?: number
}

/** Why an update did not happen, or what it made. */
export type Updated =
  | { readonly stored: Stored }
  | { readonly staleAt: number }
  | { readonly bytes: number }
  | undefined

/** All of it is bounded by the scope: a store adds tenant and workspace by itself and is never told them. */
export interface Store {
  /** The same id again gives back what the first attempt stored: activities are retried. */
  create(scope: WorkspaceScope, collection: Collection, id: string, content: Content): Promise<Stored>
  get(scope: WorkspaceScope, collection: Collection, id: string): Promise<Stored | undefined>
  list(scope: WorkspaceScope, collection: Collection, query: Query): Promise<Listed>
  /**
   * Sets the named fields; none named changes nothing and makes no version.
   * @param ifVersion the version it must be at
   * @returns undefined where there is no such document; `bytes` where it would become larger than a document may be
   */
  update(
    scope: WorkspaceScope,
    collection: Collection,
    id: string,
    content: Content,
    ifVersion?: number,
  ): Promise<Updated>
  /** @returns whether it was there */
  delete(scope: WorkspaceScope, collection: Collection, id: string): Promise<boolean>
}
