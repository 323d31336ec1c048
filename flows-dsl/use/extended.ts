/** Knows which extensions stand with which tasks (OWS 1.0 "Extension"). */

import type { Extension } from '../ir.ts'

/** An extension, and the kinds of tasks that it extends. */
export type ForKinds = Extension & { readonly kinds: readonly string[] }

export class Extended {
  #extensions: readonly ForKinds[] = []
  #isOn = true
  /** The same list at each task of a kind: written out they could be many. */
  readonly #found = new Map<string, readonly Extension[]>()

  /** Whether tasks that are compiled now are extended. */
  get isOn(): boolean {
    return this.#isOn
  }

  /** Extensions are compiled while nothing is extended, and extend all that is compiled after. */
  by(compile: () => readonly ForKinds[]): void {
    this.#isOn = false
    this.#extensions = compile()
    this.#isOn = true
  }

  /** What comes before and after tasks of a kind that are compiled now, in the order of declaration. */
  of(kind: string): readonly Extension[] {
    if (!this.#isOn || this.#extensions.length === 0) return []
    const known = this.#found.get(kind)
    if (known !== undefined) return known
    const found = this.#extensions.filter(({ kinds }) => kinds.includes(kind))
    const extensions = found.map(({ kinds: _kinds, ...extension }) => extension)
    this.#found.set(kind, extensions)
    return extensions
  }
}
