/** Live queries: decides what a subscriber of a filtered collection is told of each change (docs/events.md, "Live queries"). */

import { LRUCache } from 'lru-cache'
import Type from 'typebox'
import { ACCESS_LIMITS } from '../../access/limits.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { frame } from '../../core/bytes.ts'
import { component, exampleOf } from '../../core/components/component.ts'
import { EXAMPLE_ID } from '../../core/components/examples.ts'
import { isPublicRole } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { Entry } from '../../infra/valkey/streams.ts'
import { SUBSCRIPTION_EVENTS } from '../events/events.ts'
import { SelectedDocument, toDocument } from './document.ts'
import { COLLECTION_LIMITS } from './limits.ts'
import { evaluateWithin } from './query/evaluate.ts'
import type { Filter } from './query/filter.ts'
import { project, type Selection } from './query/order-and-selection.ts'
import { refusal } from './query/syntax.ts'
import { resolveCollection, resolveLookups } from './resolve-store.ts'
import type { Permission } from './rules/access.ts'
import { type DocumentChange, isExpired, type Reading, readChange, readingOf } from './rules/change-events.ts'
import { admits, requireCollectionRights } from './rules/permissions.ts'
import { type Collection, type Stored, valueAt } from './store.ts'
import { applyDeclaration } from './typed-query.ts'

export interface LiveQuery {
  readonly filter: Filter
  readonly selection: Selection | undefined
}

/** How the topics of events begin that tell of whole collections. */
const RESETS = 'platform.collection.'

/** The topics of what a live query is told of. */
export const topicsOf = (name: string): readonly string[] => [`collections.${name}.*`, `${RESETS}*`]

/** A change in the result of a live query, after which it has the document or not. */
const Changed = Type.Object({
  id: Type.String({ format: 'uuid' }),
  version: Type.Integer({ minimum: 1 }),
  document: Type.Unsafe<SelectedDocument>(SelectedDocument),
})
const Removed = Type.Object({ id: Type.String({ format: 'uuid' }), version: Type.Integer({ minimum: 1 }) })
const REMOVED = { id: EXAMPLE_ID.booking, version: 3 }

const DocumentInResult = component('LiveDocument', Changed, {
  ...REMOVED,
  document: exampleOf(SelectedDocument),
})
const DocumentOutOfResult = component('LiveRemoval', Removed, REMOVED)

/** The events of documents that come into the result, change in it, and leave it. */
const DOCUMENT_EVENTS = {
  enter: DocumentInResult,
  update: DocumentInResult,
  leave: DocumentOutOfResult,
  delete: DocumentOutOfResult,
}
/** What a change of a document is in the result. */
type Told = keyof typeof DOCUMENT_EVENTS

/** The events of a live query. */
export const LIVE_EVENTS = { ...SUBSCRIPTION_EVENTS, ...DOCUMENT_EVENTS }

/** Limits of the result: the caller's right to read, the expiry of documents, and the filter in the types of the declaration. */
interface Bounds extends Reading {
  readonly filter: Filter
}

const PARAMETERS: Readonly<Record<string, string>> = {
  order: 'A live query has no order: its documents arrive as they change. Sort them where they are shown.',
  limit: 'A live query has no limit: it is told of all documents that match. Narrow its filter.',
  expand: 'A live query does not follow changes of other documents, so it has no expand.',
  count: 'A live query has no count.',
}

/** @throws Problem `unknown_parameter` for a parameter of lists that a live query does not have */
export function refuseListParameters(filters: readonly (readonly [string, string])[]): void {
  for (const [key] of filters) {
    const name = /^(page\[|offset$)/.test(key) ? 'limit' : key
    const reason = Object.hasOwn(PARAMETERS, name) ? PARAMETERS[name] : undefined
    if (reason === undefined) continue
    const hint = `A field of that name is written in quotes: "${key.slice(0, 50)}"=eq.…`
    throw refusal({ code: 'unknown_parameter', in: 'query', name: key }, reason, hint)
  }
}

/** Refuses a collection whose documents have no change events. @throws Problem `not_supported` */
export function requireChanges({ name, store }: Pick<Collection, 'name' | 'store'>): void {
  if (store.kind === 'postgresql') return
  throw new Problem('not_supported', {
    detail: `Documents of ${name.slice(0, 100)} are in MongoDB and have no change events.`,
    hint: 'Declare the collection with "store": "relational", or read the list again from time to time.',
  })
}

/** The query of one subscriber. What it remembers only spares frames: without it each change would still be told rightly. */
export class LiveResult {
  readonly #scope: WorkspaceScope
  readonly #name: string
  readonly #query: LiveQuery
  /** Set once the collection was dropped, truncated or renamed. */
  #ended: Problem | undefined
  /** For `streamCheckMs`, as rights in all streams. */
  readonly #bounds = new LRUCache<'now', Bounds>({ max: 1, ttl: ACCESS_LIMITS.streamCheckMs })
  /** By id, whether the subscriber was shown the document last. Without `max`, which would allocate memory for all of them. */
  readonly #shown = new LRUCache<string, boolean>({
    maxSize: COLLECTION_LIMITS.liveDocumentsRemembered,
    sizeCalculation: () => 1,
  })

  constructor(scope: WorkspaceScope, name: string, query: LiveQuery) {
    this.#scope = scope
    this.#name = name
    this.#query = query
  }

  /**
   * Reads again what the caller may read.
   * @throws Problem `collection_reset`; `forbidden` if it is nothing, `not_supported`, or one of the filter that does not fit the declaration
   */
  async check(): Promise<Bounds> {
    if (this.#ended !== undefined) throw this.#ended
    const inside = await resolveLookups(this.#scope, [this.#name])
    const collection = await resolveCollection(inside, this.#name)
    requireCollectionRights(inside, collection, ['read'])
    requireChanges(collection)
    const { filter, selection } = this.#query
    const selected = selection === undefined ? {} : { selected: [...selection.keys()] }
    const query = applyDeclaration({ filter, order: [], limit: 0, ...selected }, collection.declared)
    const bounds = { ...readingOf(collection), filter: query.filter }
    this.#bounds.set('now', bounds)
    return bounds
  }

  /** Forgets what the subscriber was shown: after a gap it reads the list again, which may show it other documents. */
  forget(): void {
    this.#shown.clear()
  }

  /** The frame for a change; false if the subscriber is not told. */
  verdict(entry: Entry): string | false | Promise<string | false> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended)
    if (entry.topic.startsWith(RESETS)) return this.#reset(entry)
    const { role } = this.#scope.actor
    if (isPublicRole(role) && entry.readers?.[role] !== true) return false
    const bounds = this.#bounds.get('now')
    if (bounds === undefined) return this.check().then((found) => this.#frameOf(entry, found))
    try {
      return this.#frameOf(entry, bounds)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /**
   * Tells that the documents which the subscriber was shown are gone from under this name: a `gap`, after which clients read the list anew.
   * The stream ends when it is checked next.
   */
  #reset(entry: Entry): string | false {
    const { name, before } = JSON.parse(entry.text).data.collection as { name: string; before?: string }
    if (name !== this.#name && before !== this.#name) return false
    const verb = entry.topic.slice(RESETS.length)
    this.#ended = new Problem('collection_reset', { detail: `The collection ${this.#name} was ${verb}.` })
    return frame<typeof LIVE_EVENTS>({
      id: entry.id,
      event: 'gap',
      data: { after: entry.id, earliest: entry.id },
    })
  }

  #frameOf(entry: Entry, bounds: Bounds): string | false {
    const change = changeOf(entry)
    const event = this.#told(change, bounds)
    const { id, version, after, isDeleted } = change
    if (after === undefined && !isDeleted) this.#shown.delete(id)
    else this.#shown.set(id, event === 'enter' || event === 'update')
    if (event === undefined) return false
    if (event === 'leave' || event === 'delete')
      return frame<typeof LIVE_EVENTS>({ id: entry.id, event, data: { id, version } })
    if (after === undefined) throw new TypeError('a document in the result must have content')
    const document = project(toDocument(after), this.#query.selection)
    return frame<typeof LIVE_EVENTS>({ id: entry.id, event, data: { id, version, document } })
  }

  /** A document that the caller could not read before and cannot read now is not told of: neither its id nor that it changed. */
  #told(change: DocumentChange, bounds: Bounds): Told | undefined {
    const { read } = bounds
    const { id, before, after } = change
    if (change.isDeleted) {
      const isKnown = isReadable(read, before) || (before === undefined && this.#shown.get(id) === true)
      return isKnown ? 'delete' : undefined
    }
    if (after === undefined) return undefined
    const wasIn = this.#wasIn(change, bounds)
    if (isInResult(bounds, after)) return wasIn === true ? 'update' : 'enter'
    // If it is not known whether it was in the result, a `leave` is for those who may know of the document.
    return wasIn === true || (wasIn === undefined && isReadable(read, after)) ? 'leave' : undefined
  }

  /** True if the document was in the result before the change, also if it had expired; undefined if it is not known. */
  #wasIn({ id, isCreated, before }: DocumentChange, { read, filter }: Bounds): boolean | undefined {
    if (isCreated) return false
    if (before !== undefined) return isReadable(read, before) && matches(filter, before)
    return (read === true && hasNoFilter(filter)) || this.#shown.get(id)
  }
}

/** An undefined document is one that is not kept, since all callers who may read the collection read each document. */
const isReadable = (read: Permission, document: Stored | undefined): boolean =>
  typeof read === 'boolean' ? read : document !== undefined && admits(read, document)

const isInResult = (bounds: Bounds, document: Stored): boolean =>
  isReadable(bounds.read, document) && !isExpired(bounds, document) && matches(bounds.filter, document)

const hasNoFilter = (filter: Filter): boolean => filter.kind === 'all' && filter.of.length === 0

/** @throws Problem `query_too_costly` */
function matches(filter: Filter, document: Stored): boolean {
  const found = evaluateWithin(COLLECTION_LIMITS.liveFilterStepsMax, filter, (path) =>
    valueAt(document, path),
  )
  if (found !== undefined) return found
  throw new Problem('query_too_costly', {
    detail: 'The filter of the live query takes too long on a document that was changed.',
  })
}

/** Parsed once for all subscribers of a process. */
const CHANGES = new WeakMap<Entry, DocumentChange>()

function changeOf(entry: Entry): DocumentChange {
  const known = CHANGES.get(entry)
  if (known !== undefined) return known
  const change = readChange(entry)
  CHANGES.set(entry, change)
  return change
}
