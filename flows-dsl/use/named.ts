/** Knows one section of `use`: what is declared there by name, each compiled once for all who refer to it. */

import type { Checker } from '../checker.ts'
import type { Located, LocatedEntry, LocatedScalar } from '../located.ts'

/** Functions that call functions; a chain costs stack at each link. */
const DEPTH_MAX = 32

/**
 * Compiles what one name stands for. `scope` is what the place that refers to it gives: variables, or whatever else
 * makes a difference; it is a part of what "once" means.
 */
type Compile<T> = (entry: LocatedEntry, scope: readonly string[]) => T | undefined

export class Named<T> {
  readonly #checker: Checker
  readonly #section: string
  readonly #compile: Compile<T>
  readonly #entries = new Map<string, LocatedEntry>()
  readonly #compiled = new Map<string, T | undefined>()
  readonly #asked = new Set<string>()
  /** Those that are being compiled at the moment, outermost first. */
  readonly #open = new Set<string>()

  /** @param declared the section, a mapping of names; anything else has its fault already */
  constructor(checker: Checker, section: string, declared: Located | undefined, compile: Compile<T>) {
    this.#checker = checker
    this.#section = section
    this.#compile = compile
    const entries = declared?.kind === 'map' ? declared.entries : []
    for (const entry of entries) this.#entries.set(entry.key, entry)
  }

  has(name: string): boolean {
    return this.#entries.has(name)
  }

  names(): readonly string[] {
    return [...this.#entries.keys()]
  }

  /** What a name stands for; one that is not there, or leads back to itself, is a fault of the place. */
  find(reference: LocatedScalar, scope: readonly string[] = []): T | undefined {
    const name = String(reference.value)
    const entry = this.#entries.get(name)
    if (entry !== undefined) return this.#once(entry, scope, reference)
    const message = `There is nothing named \`${name}\` in \`use.${this.#section}\`.`
    return this.#checker.unknown('unknown_reference', reference, message, name, this.names())
  }

  /** Compiles what nobody has asked for, so that its faults are seen too. */
  checkRest(scope: readonly string[] = []): void {
    for (const entry of this.#entries.values()) {
      if (!this.#asked.has(entry.key)) this.#once(entry, scope, entry.value)
    }
  }

  #once(entry: LocatedEntry, scope: readonly string[], at: Located): T | undefined {
    const key = [entry.key, ...scope].join(' ')
    if (this.#compiled.has(key)) return this.#compiled.get(key)
    if (this.#open.has(key)) {
      const message = `\`${entry.key}\` of \`use.${this.#section}\` leads back to itself.`
      return this.#checker.fault('circular_reference', at, message)
    }
    if (this.#open.size >= DEPTH_MAX) {
      return this.#checker.fault('nesting_too_deep', at, `Nested deeper than ${DEPTH_MAX}.`)
    }
    this.#asked.add(entry.key)
    this.#open.add(key)
    const value = this.#checker.apart(() => this.#compile(entry, scope))
    this.#open.delete(key)
    this.#compiled.set(key, value)
    return value
  }
}
