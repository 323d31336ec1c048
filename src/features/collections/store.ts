/** The port of document stores: collections, queries, changes, what is stored after them, and the problems of those refused. */

import type { MarkedEffect } from '../../access/completion.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { shortPointer } from '../../core/json.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import type { Actor } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import type { Json } from '../../core/work.ts'
import type { OwnerChange } from '../../infra/mongo/mongo.ts'
import type { Sql } from '../../infra/postgres/sql.ts'
import type { Aggregate } from './aggregates/aggregate.ts'
import type { DeclaredCheck, Exclusion } from './constraints/constraint.ts'
import { COLLECTION_LIMITS } from './limits.ts'
import type { Distance } from './query/distance.ts'
import { valueBelow } from './query/evaluate.ts'
import type { Filter, Join, OrderKey, Path } from './query/filter.ts'
import type { Near } from './query/near.ts'
import type { Search, ShownSearch } from './query/search.ts'
import type { Reference } from './references/reference.ts'
import type { Permissions, Readers } from './rules/access.ts'
import type { Index } from './schemas/api-types.ts'
import type { Format } from './schemas/canonical-text.ts'
import type { Declaration } from './schemas/declaration-cache.ts'
import type { Violation } from './schemas/evaluate-schema.ts'

/** A collection before any of its documents is read: where they are, and what the caller may do with them. */
export interface Collection {
  readonly name: string
  /** One store for all collections that a transaction may change. */
  readonly store: Store
  /** Undefined if the collection is not declared. */
  readonly declared?: Declaration
  readonly permissions: Permissions
  readonly readers: Readers
  /** True if its changes are told to nobody. */
  readonly isQuiet?: true
}

/** The collection at the other end of a reference. */
export const joinedCollection = ({ collection }: Join): Collection => collection as Collection

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
  /** How much a text is like the one that a query looks for, from 0 to 1. */
  readonly similarity?: number
  /** Metres from the place that a list is ordered by. */
  readonly distance?: number
  /** How well the document fits a search: the more, the better. */
  readonly score?: number
  /** The parts of its texts that a search has found, escaped, by field. */
  readonly highlight?: Readonly<Record<string, string>>
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
  /** Gives the order instead of `order`, and leaves out documents that are not like the text at all. */
  readonly near?: Near
  /** The words that all documents have. By score, it gives the order instead of `order`, and `after` is a score and an id. */
  readonly search?: ShownSearch
  /** Gives the order instead of `order`, and leaves out documents without a place. */
  readonly distance?: Distance
  /** Requests the branches of the first `documents`. A store that does not read them in the same round trip leaves them out. */
  readonly expand?: { readonly branches: readonly Branch[]; readonly documents: number }
}

export type Count = 'exact' | 'estimated'

/** The documents at the other end of a reference. */
export interface Branch {
  /** `one`: the document that is referred to; `many`: those that refer to a document; `count`: their number. */
  readonly kind: 'one' | 'many' | 'count'
  /** The field of the reference: in the documents that are expanded for `one`, else in those of the branch. */
  readonly field: string
  /** Of the documents of the branch. */
  readonly collection: Collection
  /** Typed; `limit` is that of documents for each. */
  readonly query: Query
  readonly below: readonly Branch[]
}

/** What a branch has found. */
export interface BranchFound {
  /** `value`: the id of the document that each is found for; for `one`, of itself. */
  readonly documents: readonly { readonly value: string; readonly stored: Stored }[]
  /** By the ids of the documents that are expanded; those without any may be missing. */
  readonly counts: ReadonlyMap<string, number>
  /** Of the branches below, in their order. */
  readonly below: readonly BranchFound[]
}

/** A field that is compared in a format, and the canonical texts to compare it with. */
export interface By {
  readonly path: Path
  readonly as: Format
  readonly values: readonly string[]
}

/** An aggregate with typed literals, and a page of its groups. */
export interface AggregateQuery {
  /** If it has groups, its order ends with all of them, so that it is a total order. */
  readonly aggregate: Aggregate
  readonly search?: Search
  /** The values of the order's keys in the last group of the page before. */
  readonly after?: readonly Json[]
  readonly limit: number
}

export interface GroupRow {
  /** The members of the answer, in its order. */
  readonly values: readonly (readonly [name: string, value: Json])[]
  /** The values of the order's keys. */
  readonly keys: readonly Json[]
}

/** The document of a checked change, and how its fields differ from the schema of a collection in mode `warn`. */
interface OnDocument {
  readonly collection: Collection
  readonly id: string
  readonly warnings: readonly Violation[]
}

/** `ifVersions`: the versions that the document may have; by default any. */
interface OnExisting extends OnDocument {
  readonly ifVersions?: readonly number[]
}

/** Repeating an id changes nothing and returns the existing document, since activities are retried. */
export interface Create extends OnDocument {
  readonly verb: 'create'
  readonly content: Content
  /** Then an id that exists is a refusal. */
  readonly mustBeNew?: boolean
  /** Only in imports by service keys. By default the user who acts; none for a key. */
  readonly owner?: string
}

/** A document of an archive, checked: it keeps its version and its times. */
export interface Restored extends Pick<Create, 'collection' | 'id' | 'content' | 'owner'> {
  readonly version: number
  /** RFC 3339, milliseconds. */
  readonly created_at: string
  readonly updated_at: string
}

/** Sets and unsets the named fields. Without any, it changes nothing and makes no version. */
interface Update extends OnExisting {
  readonly verb: 'update'
  readonly content: Content
  readonly unset: readonly string[]
}

interface Replace extends OnExisting {
  readonly verb: 'replace'
  readonly content: Content
}

interface Delete extends OnExisting {
  readonly verb: 'delete'
}

/** The second form of a write: one change of one document, checked against schema, rules and bounds (`check-changes.ts`). */
export type CheckedChange = Create | Update | Replace | Delete

/** The third form of a write: what is stored after a change. */
export interface Written {
  readonly id: string
  readonly created: boolean
  /** The version of the document now, or when it was deleted. */
  readonly version: number
  /** The document after a single change other than `delete`. Several documents could exceed the size of a reply. */
  readonly stored?: Stored
}

/** Shows a change that was made, with its warnings. */
export function toWritten({ id, verb, warnings }: CheckedChange, version: number, stored?: Stored): Written {
  const written = { id, created: verb === 'create', version }
  if (stored === undefined) return written
  return { ...written, stored: warnings.length === 0 ? stored : { ...stored, warnings } }
}

/** Why a change cannot be made. `isTakenAlong`: a deletion of the same transaction has taken the document along. */
type Reason =
  | { readonly missing: true; readonly isTakenAlong?: true }
  /** A document has the id that is to be new. */
  | { readonly exists: true }
  /** The document exists at another version, or would become too large. */
  | { readonly current: number; readonly bytes: number }
  | Conflict

/** A change is refused because of other documents. */
export type Conflict =
  /** Another document has the same values in the fields of this unique index. */
  | { readonly duplicated: Pick<Index, 'fields' | 'where'> }
  /** Another document has an overlapping range. */
  | { readonly overlapped: Exclusion }
  /** The document breaks a check. */
  | { readonly broken: DeclaredCheck }
  /** There is no document of this id in the collection that the field refers to. */
  | { readonly unresolved: Reference }
  /** Documents refer to this one, or to one that would be deleted with it: those of the declaration with this id. */
  | { readonly referenced: string; readonly blocking?: Blocking }

/** Some of the documents that protect one from deletion, also those that the caller may not read. */
export interface Blocking {
  readonly collection: string
  readonly ids: readonly string[]
  /** True if they would not be valid with null in place of their reference. */
  readonly isInvalid?: true
}

/** The first change that cannot be made, by its index: so none is made. */
export type Refusal = Reason & { readonly index: number }

export const isRefusal = (result: object): result is Refusal => 'index' in result

/** What {@link Store.removeExpired} has done: `kept` documents stay, since others refer to them. */
export interface Expired {
  readonly removed: number
  readonly kept: number
}

/** The document that a change creates, as far as it is known before. */
export function createdBy(
  { user }: Pick<Actor, 'user'>,
  { id, content, owner }: Pick<Create, 'id' | 'content' | 'owner'>,
): Stored {
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
  _score: (stored) => stored.score,
}

/** The value at a path of a document, system fields included; undefined if there is none. */
export function valueAt(stored: Stored, path: Path): unknown {
  const [name] = path
  const system = path.length === 1 && Object.hasOwn(SYSTEM_FIELDS, name) ? SYSTEM_FIELDS[name] : undefined
  return system === undefined ? valueBelow(stored.fields, path) : system(stored)
}

/** Ties changes to the idempotency claim of their request: see `Completion`. */
export interface Once {
  /** A statement that ends the claim, if all changes were made. */
  readonly keep: (written: readonly Written[]) => Sql
  /** For a store whose changes share no transaction with that statement. */
  readonly effect: MarkedEffect
}

/**
 * A store of documents. It takes tenant and workspace from the scope alone, and its permissions from each collection.
 * @example
 * const { store } = collection
 * const [document] = await store.read(scope, [{ collection, id }])
 * const { rows } = await store.list(scope, collection, { filter: ALL, order: BY_ID, limit: 50 })
 */
export interface Store {
  /** One transaction changes documents of one kind of store. */
  readonly kind: 'postgresql' | 'mongodb'
  /** In the order of the documents; undefined for a missing one. */
  read(
    scope: WorkspaceScope,
    documents: readonly Pick<OnDocument, 'collection' | 'id'>[],
  ): Promise<(Stored | undefined)[]>
  list(
    scope: WorkspaceScope,
    collection: Collection,
    query: Query,
  ): Promise<{
    rows: Stored[]
    /** The number of all documents that match, if it was requested. */
    total?: number
    /** True if more documents match than were ordered by their scores. */
    approximate?: true
    /** Of the branches of `expand`, in their order: of each at most one document more than `expandedDocumentsMax`. */
    found?: readonly BranchFound[]
  }>
  /** Without groups, one row for all documents. @throws Problem `not_supported`, `query_too_costly` or `number_unsafe` */
  aggregate(scope: WorkspaceScope, collection: Collection, query: AggregateQuery): Promise<GroupRow[]>
  /**
   * The ids that documents have at a path, which is `id` or the field of a reference, each once.
   * @returns undefined if more than `limit` documents match
   */
  listIds(
    scope: WorkspaceScope,
    collection: Collection,
    query: Pick<Query, 'filter' | 'limit'> & { readonly path: Path },
  ): Promise<readonly string[] | undefined>
  /**
   * For each value of a field, the first documents that have it.
   * @param query `limit`: documents for each value; `most`: for all of them together
   * @throws Problem `query_too_costly` if the store would look at too many documents
   */
  listEach(
    scope: WorkspaceScope,
    collection: Collection,
    query: Query & { readonly by: By; readonly most: number },
  ): Promise<readonly { readonly value: string; readonly stored: Stored }[]>
  /** For each value of a field, the number of documents that have it. @throws Problem `query_too_costly` as {@link Store.listEach} does */
  countEach(
    scope: WorkspaceScope,
    collection: Collection,
    query: Pick<Query, 'filter'> & { readonly by: By },
  ): Promise<ReadonlyMap<string, number>>
  /**
   * Makes all changes or none.
   * @param once ends the claim of the request, in PostgreSQL in the same transaction
   * @param together true for deletions whose order does not matter. If one is refused, it may be another than the one that is named
   * @returns what is stored after each change, or the first change that cannot be made
   * @throws Problem `idempotency_in_flight` if another attempt has taken the claim over
   * @throws Problem `atomic_not_supported` if there are several and the store has no transactions
   * @example
   * const result = await store.write(scope, [{ verb: 'delete', collection, id, warnings: [] }])
   * if (isRefusal(result)) throw problemOf(result)
   */
  write(
    scope: WorkspaceScope,
    changes: readonly CheckedChange[],
    once?: Once,
    together?: boolean,
  ): Promise<readonly Written[] | Refusal>
  /**
   * Finds the change that an earlier attempt of the request has made but not kept; undefined if it has made none. A store
   * whose changes share a transaction with the claim has no such function.
   * @returns the version that it made, and the document as it is now
   * @throws Problem `idempotency_outcome_unknown`
   */
  findMade?(
    scope: WorkspaceScope,
    change: Pick<CheckedChange, 'collection' | 'id' | 'verb'>,
    effect: MarkedEffect,
  ): Promise<Pick<Written, 'version' | 'stored'> | undefined>
  /**
   * Adds many new documents. Documents whose id exists stay as they are, and none is read back. PostgreSQL stores all or
   * none; MongoDB may store some before it fails.
   * @returns `made`: the ids of those that are new
   */
  add(
    scope: WorkspaceScope,
    collection: Collection,
    creates: readonly Create[],
  ): Promise<{ readonly made: readonly string[] } | Conflict>
  /**
   * Stores documents of an archive as they were, and tells nobody. Documents whose id exists stay as they are. It stores all or
   * none, as {@link Store.add} does.
   */
  restore(
    scope: WorkspaceScope,
    collection: Collection,
    documents: readonly Restored[],
  ): Promise<{ readonly made: readonly string[] } | Conflict>
  /** Deletes some documents that have expired; `limit` of them if there may be more. */
  removeExpired(scope: WorkspaceScope, collection: Collection, limit: number): Promise<Expired>
  /** Those of some ids whose documents have expired. For callers who may read every document of the collection. */
  expiredAmong(
    scope: WorkspaceScope,
    collection: Collection,
    ids: readonly string[],
  ): Promise<ReadonlySet<string>>
  /**
   * Gives some documents of an owner to another, and changes nothing else of them: neither version nor times. It tells nobody.
   * @returns how many; 0 if the owner has none left
   */
  changeOwner(scope: WorkspaceScope, collection: Collection, change: OwnerChange): Promise<number>
}

export const etagOf = (version: number): string => `"v${version}"`

export const documentNotFound = (): Problem => notFound('document')

/** The condition was not met (RFC 9110 §13.1.1). */
export function versionMismatch(version: number): Problem {
  const detail = `The document is at version ${version}.`
  return new Problem('precondition_failed', { detail, headers: { etag: etagOf(version) } })
}

/** Of a document that the caller may not read, too: like every unique value, the id is taken. */
const idExists = () =>
  new Problem('precondition_failed', {
    detail: 'There is a document of this id.',
    hint: 'Read the document, or create one of another id.',
  })

export function problemOf(reason: Reason): Problem {
  if ('missing' in reason) return documentNotFound()
  if ('exists' in reason) return idExists()
  if ('duplicated' in reason) return duplicate(reason.duplicated.fields)
  if ('overlapped' in reason) return overlap(reason.overlapped)
  if ('broken' in reason) return brokenChecks([reason.broken])
  if ('unresolved' in reason) return unresolved(reason.unresolved)
  if ('referenced' in reason) return new Problem('reference_in_use')
  const { current, bytes } = reason
  if (bytes <= COLLECTION_LIMITS.documentBytesMax) return versionMismatch(current)
  const detail = `The document would have ${bytes} bytes; at most ${COLLECTION_LIMITS.documentBytesMax} are stored.`
  return new Problem('body_too_large', {
    detail,
    members: { limit_bytes: COLLECTION_LIMITS.documentBytesMax },
  })
}

function duplicate(fields: readonly string[]): Problem {
  const names = fields.join(', ')
  return new Problem('unique_violation', {
    detail: `Another document has the same ${names}.`,
    errors: fields.map((name) => ({ in: 'body', name, pointer: `/${name}`, detail: 'is taken' })),
  })
}

function overlap({ fields, range }: Exclusion): Problem {
  const same = fields.length === 0 ? '' : ` with the same ${fields.join(', ')}`
  return new Problem('exclusion_violation', {
    detail: `Another document${same} has a range ${range.join(' to ')} that overlaps.`,
    errors: range.map((name) => ({
      ...{ in: 'body', name, pointer: `/${shortPointer(name)}` },
      detail: 'is in a range that overlaps with that of another document',
    })),
  })
}

/** The problem of a document that breaks checks. */
export function brokenChecks(checks: readonly DeclaredCheck[]): Problem {
  const errors = checks.flatMap(({ name, message, fields }) =>
    fields.map((field) => ({
      ...{ in: 'body' as const, name: field, pointer: `/${shortPointer(field)}`, keyword: 'check' },
      detail: message === undefined ? `breaks the check ${name}` : `breaks the check ${name}: ${message}`,
    })),
  )
  const names = checks.map(({ name }) => name)
  const messages = checks.map(
    ({ name, message }) => message ?? `The document does not meet the check ${name}.`,
  )
  return new Problem('schema_violation', {
    detail: messages.join(' '),
    errors: errors.slice(0, CORE_LIMITS.diagnosticsReturnedMax),
    members: { checks: names },
  })
}

/** Of a document that is not there, and of one that the caller may not read. */
export function unresolved({ field, collection }: Reference): Problem {
  const detail = `is not the id of a document of ${collection} that you may read`
  return new Problem('reference_not_found', {
    detail: `${field} ${detail}.`,
    errors: [{ in: 'body', name: field, pointer: `/${shortPointer(field)}`, detail }],
  })
}
