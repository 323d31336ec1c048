/** What was read from the object store or written there not long ago, within a bound of memory. */

export class Kept {
  readonly #entries = new Map<string, Buffer>()
  readonly #bytesMax: number
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get(name: string): Buffer | undefined {
    const found = this.#entries.get(name)
    if (found === undefined) return undefined
    this.#entries.delete(name)
    this.#entries.set(name, found)
    return found
  }

  /** What was asked for least recently goes first. */
  set(name: string, bytes: Buffer): void {
    this.#drop(name)
    this.#entries.set(name, bytes)
    this.#bytes += bytes.length
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#bytesMax) return
      this.#drop(oldest)
    }
  }

  #drop(name: string): void {
    this.#bytes -= this.#entries.get(name)?.length ?? 0
    this.#entries.delete(name)
  }
}
