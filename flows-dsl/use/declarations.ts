/** Knows what a definition declares by name: where it stands, and that it is compiled once for all who refer to it. */

import type { FaultList } from '../fault-list.ts'
import type { Located, LocatedEntry, LocatedMap, LocatedScalar } from '../located.ts'

export const SECTIONS = ['authentications', 'catalogs', 'errors', 'functions', 'retries', 'timeouts'] as const
type Section = (typeof SECTIONS)[number]

/** Functions that call functions; a chain costs stack at each link. */
const DEPTH_MAX = 32

type Compile<T> = (entry: LocatedEntry) => T | undefined

/** Whoever refers to a name brings what compiles it: the same for all of a section. */
export class Declarations {
  readonly #faults: FaultList & { apart<T>(read: () => T): T }
  readonly #entries = new Map<Section, ReadonlyMap<string, LocatedEntry>>()
  readonly #compiled = new Map<string, unknown>()
  readonly #asked = new Set<string>()
  /** Those that are being compiled at the moment, outermost first. */
  readonly #open = new Set<string>()

  constructor(faults: FaultList & { apart<T>(read: () => T): T }) {
    this.#faults = faults
  }

  declare(section: Section, map: LocatedMap): void {
    this.#entries.set(section, new Map(map.entries.map((entry) => [entry.key, entry])))
  }

  has(section: Section, name: string): boolean {
    return this.#entries.get(section)?.has(name) === true
  }

  names(section: Section): readonly string[] {
    return [...(this.#entries.get(section)?.keys() ?? [])]
  }

  /**
   * What a name stands for; one that is not there, or leads back to itself, is a fault of the place.
   * @param scope what else makes a difference, such as variables: a part of what "once" means
   */
  find<T>(
    section: Section,
    reference: LocatedScalar,
    compile: Compile<T>,
    scope: readonly string[] = [],
  ): T | undefined {
    const name = String(reference.value)
    const entry = this.#entries.get(section)?.get(name)
    if (entry !== undefined) return this.#once(section, entry, compile, scope, reference)
    const message = `There is nothing named \`${name}\` in \`use.${section}\`.`
    return this.#faults.unknown('unknown_reference', reference, message, name, this.names(section))
  }

  /** Compiles what nobody has asked for, so that its faults are seen too. */
  checkRest(section: Section, compile: Compile<unknown>): void {
    for (const entry of this.#entries.get(section)?.values() ?? []) {
      if (!this.#asked.has(`${section} ${entry.key}`)) this.#once(section, entry, compile, [], entry.value)
    }
  }

  #once<T>(
    section: Section,
    entry: LocatedEntry,
    compile: Compile<T>,
    scope: readonly string[],
    at: Located,
  ): T | undefined {
    const key = [section, entry.key, ...scope].join(' ')
    // A section has one kind of compiled form, which is that of `compile`.
    if (this.#compiled.has(key)) return this.#compiled.get(key) as T | undefined
    if (this.#open.has(key)) {
      const message = `\`${entry.key}\` of \`use.${section}\` leads back to itself.`
      return this.#faults.fault('circular_reference', at, message)
    }
    if (this.#open.size >= DEPTH_MAX) {
      return this.#faults.fault('nesting_too_deep', at, `Nested deeper than ${DEPTH_MAX}.`)
    }
    this.#asked.add(`${section} ${entry.key}`)
    this.#open.add(key)
    const value = this.#faults.apart(() => compile(entry))
    this.#open.delete(key)
    this.#compiled.set(key, value)
    return value
  }
}
