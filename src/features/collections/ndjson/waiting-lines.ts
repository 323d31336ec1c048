/** The lines of an import that wait: for a later one to which they refer, or for an earlier one of the same document. */

import { Problem } from '../../../core/problem.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { sortKey } from '../schemas/canonical-text.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import type { Entry } from './entries.ts'

/** A line, and the problem that it has if nothing comes that it waits for. */
interface Lost {
  readonly entry: Entry
  readonly problem: Problem
}

export class WaitingLines {
  readonly #keyOf: (entry: Entry) => string | undefined
  /** The problem of a line if the document never comes to which it refers; undefined if it waits for an earlier line alone. */
  readonly #problems = new Map<Entry, Problem | undefined>()
  readonly #byDocument = new Map<string, Set<Entry>>()
  /** Lines that are stored at this moment. Unless they are added again, they wait no longer then. */
  #released = new Set<Entry>()
  #bytes = 0

  /** @param keyOf identifies the document of a line, as {@link documentKey} does */
  constructor(keyOf: (entry: Entry) => string | undefined) {
    this.#keyOf = keyOf
  }

  get size(): number {
    return this.#problems.size
  }

  /** In the order of the file. */
  get entries(): Entry[] {
    return [...this.#problems.keys()].sort((a, b) => a.line - b.line)
  }

  /** The last line before all of these; undefined if none waits. */
  get linesBefore(): number | undefined {
    const [first] = this.entries
    return first && first.line - 1
  }

  /** @returns false if too many lines wait already */
  add(entry: Entry, problem: Problem | undefined): boolean {
    if (!this.#released.delete(entry)) {
      if (this.size >= COLLECTION_LIMITS.importWaitingLines) return false
      if (this.#bytes + entry.bytes > COLLECTION_LIMITS.importWaitingBytes) return false
      this.#bytes += entry.bytes
      const key = this.#keyOf(entry)
      if (key !== undefined)
        this.#byDocument.set(key, (this.#byDocument.get(key) ?? new Set<Entry>()).add(entry))
    }
    this.#problems.set(entry, problem)
    return true
  }

  /** True if an earlier line of the same document waits: the later one would be overwritten. */
  isBehind(entry: Entry): boolean {
    const key = this.size === 0 ? undefined : this.#keyOf(entry)
    const others = key === undefined ? undefined : this.#byDocument.get(key)
    for (const other of others ?? []) if (other.line < entry.line && !this.#released.has(other)) return true
    return false
  }

  /** Stores lines that wait. Those that are not added again meanwhile are done; if it fails, none is. */
  async release(entries: readonly Entry[], store: () => Promise<void>): Promise<void> {
    this.#released = new Set(entries)
    await store()
    for (const entry of this.#released) this.#remove(entry)
    this.#released = new Set()
  }

  /**
   * Takes out lines whose document does not come, as no line could be stored any more: of documents for which later lines wait,
   * the lines before these; else all.
   */
  takeLost(): readonly Lost[] {
    const lastBehind = new Map<string | undefined, number>()
    const all = this.entries
    for (const entry of all)
      if (this.#problems.get(entry) === undefined) lastBehind.set(this.#keyOf(entry), entry.line)
    const isInTheWay = (entry: Entry) =>
      this.#problems.get(entry) !== undefined && entry.line < (lastBehind.get(this.#keyOf(entry)) ?? 0)
    const inTheWay = all.filter(isInTheWay)
    return (inTheWay.length === 0 ? all : inTheWay).map((entry) => {
      const problem = this.#problems.get(entry) ?? behindOther()
      this.#remove(entry)
      return { entry, problem }
    })
  }

  #remove(entry: Entry): void {
    if (!this.#problems.delete(entry)) return
    this.#bytes -= entry.bytes
    const key = this.#keyOf(entry)
    if (key === undefined) return
    const others = this.#byDocument.get(key)
    others?.delete(entry)
    if (others?.size === 0) this.#byDocument.delete(key)
  }
}

/** Of a line for which there is no room to wait. */
export const behindOther = (): Problem =>
  new Problem('state_conflict', {
    detail: 'An earlier line of the same document waits for a later line, and no more lines can wait.',
    hint: 'Import the line again.',
  })

/** Identifies the document that a line creates or changes: by its id, or by the values of the fields by which an upsert finds it. */
export function documentKey(
  { request }: Entry,
  on: readonly string[],
  declared: Declaration | undefined,
): string | undefined {
  if (request instanceof Problem) return undefined
  const { id, data } = request
  if (on.length === 0) return id
  const read = (field: string) => (Object.hasOwn(data, field) ? data[field] : undefined)
  return JSON.stringify(on.map((field) => sortKey(declared?.formats.get(field), read(field)) ?? null))
}
