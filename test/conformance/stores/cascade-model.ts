/** A naive model of documents that refer to one another, and of what their deletion takes along. */

import type { Random } from '../../support/random.ts'

export type OnDelete = 'restrict' | 'cascade' | 'set_null'

export interface Reference {
  readonly field: string
  readonly collection: string
  readonly on_delete: OnDelete
}

export interface Doc {
  readonly id: string
  readonly collection: string
  readonly n: number
  readonly fields: Readonly<Record<string, string | null>>
  readonly version: number
}

export type Event = readonly [verb: 'deleted' | 'updated', id: string, version: number]

const FIELDS = ['a_id', 'b_id']

/** From this number on, a document needs the first of its references. */
export const GUARDED_FROM = 8

/** Random references between collections, each to any of them. */
export function someReferences(random: Random, names: readonly string[]): Map<string, Reference[]> {
  const kinds = ['restrict', 'cascade', 'cascade', 'set_null', 'set_null'] as const
  return new Map(
    names.map((name) => [
      name,
      FIELDS.slice(0, 1 + random(2)).map((field) => ({
        field,
        collection: names[random(names.length)] ?? name,
        on_delete: kinds[random(kinds.length)] ?? 'cascade',
      })),
    ]),
  )
}

export class Model {
  docs: ReadonlyMap<string, Doc> = new Map()
  events: readonly Event[] = []
  readonly #references: ReadonlyMap<string, readonly Reference[]>

  constructor(references: ReadonlyMap<string, readonly Reference[]>) {
    this.#references = references
  }

  add(doc: Doc): void {
    this.docs = new Map(this.docs).set(doc.id, doc)
  }

  of(collection: string): Doc[] {
    return [...this.docs.values()].filter((doc) => doc.collection === collection)
  }

  /** Deletes documents as a set. @returns false, with nothing changed, if one is not there, is protected or cannot lose its reference */
  deleteTogether(ids: readonly string[]): boolean {
    if (ids.some((id) => !this.docs.has(id))) return false
    const doomed = new Set(ids)
    for (let size = 0; size < doomed.size; ) {
      size = doomed.size
      for (const doc of this.docs.values())
        if (this.#leadsTo(doc, doomed, 'cascade').length > 0) doomed.add(doc.id)
    }
    const next = new Map(this.docs)
    const events: Event[] = []
    for (const doc of this.docs.values()) {
      if (doomed.has(doc.id)) {
        next.delete(doc.id)
        events.push(['deleted', doc.id, doc.version])
        continue
      }
      if (this.#leadsTo(doc, doomed, 'restrict').length > 0) return false
      const lost = this.#leadsTo(doc, doomed, 'set_null')
      if (lost.length === 0) continue
      const fields = { ...doc.fields, ...Object.fromEntries(lost.map((field) => [field, null])) }
      if (doc.n >= GUARDED_FROM && fields['a_id'] === null) return false
      next.set(doc.id, { ...doc, fields, version: doc.version + 1 })
      events.push(['updated', doc.id, doc.version + 1])
    }
    this.docs = next
    this.events = [...this.events, ...events]
    return true
  }

  /** Deletes documents one after the other, all or none. @returns the index of the one that is refused */
  deleteInOrder(ids: readonly string[]): number | undefined {
    const { docs, events } = this
    const refused = ids.findIndex((id) => !this.deleteTogether([id]))
    if (refused === -1) return undefined
    this.docs = docs
    this.events = events
    return refused
  }

  /** As a bulk change does: together, and if that is refused, each half by itself. @returns how many could not be deleted */
  deleteMany(ids: readonly string[]): number {
    const isTaking = ids[0] !== undefined && this.#takesAlong(this.docs.get(ids[0])?.collection ?? '')
    const isMade = isTaking ? this.deleteTogether(ids) : this.deleteInOrder(ids) === undefined
    if (isMade) return 0
    // Those that went with another one are passed over.
    if (ids.length === 1) return this.docs.has(ids[0] ?? '') ? 1 : 0
    const half = Math.ceil(ids.length / 2)
    return this.deleteMany(ids.slice(0, half)) + this.deleteMany(ids.slice(half))
  }

  #leadsTo(doc: Doc, ids: ReadonlySet<string>, kind: OnDelete): string[] {
    return (this.#references.get(doc.collection) ?? [])
      .filter(({ field, on_delete }) => on_delete === kind && ids.has(doc.fields[field] ?? ''))
      .map(({ field }) => field)
  }

  /** True if a reference that leads to the collection, also over others, changes or deletes documents. */
  #takesAlong(collection: string): boolean {
    return [...this.#references.values()]
      .flat()
      .some((one) => one.collection === collection && one.on_delete !== 'restrict')
  }
}
