/** The port of document stores: collections, queries, changes, outcomes, and the problems that outcomes become. */

import type { MarkedEffect } from '../../access/completion.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import type { Actor } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import type { Json } from '../../core/work.ts'
import type { Sql } from '../../infra/postgres/sql.ts'
import { COLLECTION_LIMITS } from './limits.ts'
import { valueBelow } from './query/evaluate.ts'
import type { Filter, OrderKey, Path } from './query/filter.ts'
import type { Permissions, Readers } from './rules/access.ts'
import type { Declaration } from './schemas/declaration-cache.ts'
import type { Violation } from './schemas/evaluate-schema.ts'

/** The state of a collection before any of its documents is read. */
export interface Collection {
  readonly name: string
  /** Undefined if the collection is not declared. */
  readonly declared?: Declaration
  /** What the caller may do in it. */
  readonly permissions: Permissions
  readonly readers: Readers
}

/** Fields that were checked, and their JSON. */
export interface Content {
  readonly fields: Record<string, unknown>
  readonly text: string
}

/** A document as a store returns it. */
export interface Stored {
  readonly id: string
  readonly fields: Record<string, unknown>
  readonly version: number
  /** RFC 3339, milliseconds. */
  readonly created_at: string
  readonly updated_at: string
  /** The end user who created it; null if nobody did. */
  readonly owner: string | null
  /** The violations of a schema in mode `warn`. */
  readonly warnings?: readonly Violation[]
}

export interface Query {
  readonly filter: Filter
  /** Ends with `id`, so that it is a total order. */
  readonly order: readonly OrderKey[]
  /** The values of the order's keys in the last document of the page before; null if it has none. */
  readonly after?: readonly Json[]
  readonly limit: number
  /** The top-level names to return; by default all. */
  readonly selected?: readonly string[]
  /** Requests the number of all documents that match: exact, or estimated if they are many. */
  readonly count?: Count
}

export type Count = 'exact' | 'estimated'

/** One change of one document. `ifVersions`: the versions that it may have; by default any. */
export type Change =
  /** Repeating an id changes nothing and returns the existing document, since activities are retried. */
  | {
      readonly verb: 'create'
      readonly id: string
      readonly content: Content
      /** Only in imports by service keys. By default the user who acts; none for a key. */
      readonly owner?: string
    }
  /** Sets and unsets the named fields. Without any, it changes nothing and makes no version. */
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

/** The document that a change creates, as far as it is known before. */
export function createdBy({ user }: Pick<Actor, 'user'>, { id, content, owner }: Create): Stored {
  const now = new Date().toISOString()
  const system = { version: 1, created_at: now, updated_at: now, owner: owner ?? user?.id ?? null }
  return { id, fields: content.fields, ...system }
}

const SYSTEM_FIELDS: Readonly<Record<string, (stored: Stored) => unknown>> = {
  id: (stored) => stored.id,
  _created_at: (stored) => stored.created_at,
  _updated_at: (stored) => stored.updated_at,
  _version: (stored) => stored.version,
  _owner: (stored) => stored.owner,
}

/** The value at a path of a document, system fields included; undefined if there is none. */
export function valueAt(stored: Stored, path: Path): unknown {
  const [name] = path
  const system = path.length === 1 && Object.hasOwn(SYSTEM_FIELDS, name) ? SYSTEM_FIELDS[name] : undefined
  return system === undefined ? valueBelow(stored.fields, path) : system(stored)
}

/** The location of a document. */
export interface DocumentLocation {
  readonly collection: Collection
  readonly id: string
}
export interface Write {
  readonly collection: Collection
  readonly change: Change
}

export interface Made {
  readonly version: number
  /** The document after a single change. Several documents could exceed the size of a reply. */
  readonly stored?: Stored
}

/** Ties changes to the idempotency claim of their request: see `Completion`. */
export interface Once<T = Outcome> {
  /** A statement that ends the claim, if all changes were made. */
  readonly keep: (made: readonly T[]) => Sql
  /** For a store whose changes share no transaction with that statement. */
  readonly effect: MarkedEffect
}

/** The outcome of a change. `current`: the document exists at another version, or would become too large. */
export type Outcome =
  | Made
  | { readonly missing: true }
  | { readonly current: number; readonly bytes: number }
  /** Another document has the same values in these unique fields. */
  | { readonly taken: readonly string[] }

/** A store of documents. It takes tenant and workspace from the scope alone. */
export interface Store {
  /** One transaction changes documents of one kind of store. */
  readonly kind: 'postgresql' | 'mongodb'
  /** In the order of the locations; undefined for a missing document. */
  read(scope: WorkspaceScope, locations: readonly DocumentLocation[]): Promise<(Stored | undefined)[]>
  list(
    scope: WorkspaceScope,
    collection: Collection,
    query: Query,
  ): Promise<{
    rows: Stored[]
    /** The number of all documents that match, if it was requested. */
    total?: number
  }>
  /**
   * Makes all changes or none. If one cannot be made, its outcome has the reason, and the others are undefined.
   * @param once ends the claim of the request, in PostgreSQL in the same transaction
   * @throws Problem `idempotency_in_flight` if another attempt has taken the claim over
   * @throws Problem `atomic_not_supported` if there are several and the store has no transactions
   */
  write(scope: WorkspaceScope, writes: readonly Write[], once?: Once): Promise<(Outcome | undefined)[]>
  /**
   * Finds the change that an earlier attempt of the request has made but not kept; undefined if it has made none. A store
   * whose changes share a transaction with the claim has no such function.
   * @returns the version that it made, and the document as it is now
   * @throws Problem `idempotency_outcome_unknown`
   */
  findMade?(
    scope: WorkspaceScope,
    location: DocumentLocation & Pick<Change, 'verb'>,
    effect: MarkedEffect,
  ): Promise<Made | undefined>
  /**
   * Adds many new documents. Documents whose id exists stay as they are, and none is read back. PostgreSQL stores all or
   * none; MongoDB may store some before it fails.
   * @returns `made`: how many are new
   */
  add(
    scope: WorkspaceScope,
    collection: Collection,
    creates: readonly Create[],
  ): Promise<{ readonly made: number } | Extract<Outcome, { taken: readonly string[] }>>
}

export const etagOf = (version: number): string => `"v${version}"`

export const documentNotFound = (): Problem => notFound('document')

/** The condition was not met (RFC 9110 §13.1.1). */
export function versionMismatch(version: number): Problem {
  const detail = `The document is at version ${version}.`
  return new Problem('precondition_failed', { detail, headers: { etag: etagOf(version) } })
}

/** @returns undefined if the change was made */
export function problemOf(outcome: Outcome): Problem | undefined {
  if ('missing' in outcome) return documentNotFound()
  if ('taken' in outcome) return taken(outcome.taken)
  if (!('current' in outcome)) return undefined
  if (outcome.bytes <= COLLECTION_LIMITS.documentBytesMax) return versionMismatch(outcome.current)
  const detail = `The document would have ${outcome.bytes} bytes; at most ${COLLECTION_LIMITS.documentBytesMax} are stored.`
  return new Problem('body_too_large', {
    detail,
    members: { limit_bytes: COLLECTION_LIMITS.documentBytesMax },
  })
}

function taken(fields: readonly string[]): Problem {
  const names = fields.join(', ')
  return new Problem('unique_violation', {
    detail: `Another document has the same ${names}.`,
    errors: fields.map((name) => ({ in: 'body', name, pointer: `/${name}`, detail: 'is taken' })),
  })
}
