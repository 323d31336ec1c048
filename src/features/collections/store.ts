/** The port of document stores: collections, queries, changes, outcomes, and the problems that outcomes become. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { LIMITS } from '../../core/limits.ts'
import { notFound, Problem } from '../../core/problem.ts'
import type { Json } from '../../core/work.ts'
import type { Sql } from '../../infra/postgres/sql.ts'
import type { Filter, OrderKey } from './query/filter.ts'
import type { AnonAccess, Declaration } from './schemas/declaration-cache.ts'
import type { Fault } from './schemas/validate.ts'

/** A collection as it is known before any of its documents is read. */
export interface Collection {
  readonly name: string
  /** Undefined if the collection is not declared. */
  readonly declared?: Declaration
  /** The rights of anon keys in it. */
  readonly anon: AnonAccess
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
  /** The faults of the document against a schema in mode `warn`. */
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
  /** Requests the number of all documents that match: exact, or estimated if they are many. */
  readonly count?: Count
}

export type Count = 'exact' | 'estimated'

interface Listed {
  readonly rows: Stored[]
  /** The number of all documents that match, if it was requested. */
  readonly total?: number
}

/** One change of one document. `ifVersions`: those it may be at; where absent, any. */
export type Change =
  /** The same id again changes nothing and gives back what is there: activities are retried. */
  | { readonly verb: 'create'; readonly id: string; readonly content: Content }
  /** Sets the named fields and takes others away; where that is none at all, it changes nothing and makes no version. */
  | {
      readonly verb: 'update'
      readonly id: string
      readonly content: Content
      readonly unset: readonly string[]
      readonly ifVersions?: readonly number[]
    }
  | {
      readonly verb: 'replace'
      readonly id: string
      readonly content: Content
      readonly ifVersions?: readonly number[]
    }
  | { readonly verb: 'delete'; readonly id: string; readonly ifVersions?: readonly number[] }

export type Create = Extract<Change, { verb: 'create' }>

/** A document's place. */
export interface DocumentLocation {
  readonly collection: Collection
  readonly id: string
}
export interface Write {
  readonly collection: Collection
  readonly change: Change
}

/** The outcome of a change. `current`: the document exists at another version, or would become too large. */
export type Outcome =
  /** `stored`: the document, where a single change was made. Of several, so much could come back that it is not sent. */
  | { readonly version: number; readonly stored?: Stored }
  | { readonly missing: true }
  | { readonly current: number; readonly bytes: number }
  /** Another document has the same values in these fields, which are unique. */
  | { readonly taken: readonly string[] }

/** All of it is bounded by the scope: a store adds tenant and workspace by itself and is never told them. */
export interface Store {
  /** Changes in one kind of store can be one transaction. */
  readonly kind: 'postgresql' | 'mongodb'
  /** In the order asked; undefined where there is none. */
  read(scope: WorkspaceScope, places: readonly DocumentLocation[]): Promise<(Stored | undefined)[]>
  list(scope: WorkspaceScope, collection: Collection, query: Query): Promise<Listed>
  /**
   * All changes or none. Where one cannot be made, its outcome says why and the others' say nothing.
   * @param marks what belongs into the same transaction besides, where the store is in PostgreSQL
   * @throws Problem `atomic_not_supported` where there are several and the store cannot
   */
  write(
    scope: WorkspaceScope,
    writes: readonly Write[],
    marks?: readonly Sql[],
  ): Promise<(Outcome | undefined)[]>
  /**
   * Many new documents at once. Those whose id is there already stay as they are, and no other is read back. In
   * PostgreSQL all are stored or none; in MongoDB some may be where it breaks off.
   */
  add(scope: WorkspaceScope, collection: Collection, creates: readonly Create[]): Promise<Added>
}

/** `made`: how many were not there yet. */
type Added = { readonly made: number } | Extract<Outcome, { taken: readonly string[] }>

export const etagOf = (version: number): string => `"v${version}"`

export const documentNotFound = (): Problem => notFound('document')

/** The condition was not met (RFC 9110 §13.1.1). */
export function versionMismatch(version: number): Problem {
  const detail = `The document is at version ${version}.`
  return new Problem('precondition_failed', { detail, headers: { etag: etagOf(version) } })
}

/** @returns undefined where the change was made */
export function problemOf(outcome: Outcome): Problem | undefined {
  if ('missing' in outcome) return documentNotFound()
  if ('taken' in outcome) return taken(outcome.taken)
  if (!('current' in outcome)) return undefined
  if (outcome.bytes <= LIMITS.documentBytesMax) return versionMismatch(outcome.current)
  const detail = `The document would have ${outcome.bytes} bytes; at most ${LIMITS.documentBytesMax} are stored.`
  return new Problem('body_too_large', { detail, members: { limit_bytes: LIMITS.documentBytesMax } })
}

function taken(fields: readonly string[]): Problem {
  const names = fields.join(', ')
  return new Problem('unique_violation', {
    detail: `Another document has the same ${names}.`,
    errors: fields.map((name) => ({ in: 'body', name, pointer: `/${name}`, detail: 'is taken' })),
  })
}
