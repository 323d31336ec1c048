/** Shows how far a transfer is, on a terminal only. */

const MIB = 1_048_576
const SHOWN_MS = 200

export class Progress {
  readonly #name: string
  /** In bytes; undefined: not known. */
  readonly #total: number | undefined
  readonly #startedMs = performance.now()
  readonly #isShown = process.stderr.isTTY === true
  #shownMs = 0
  #first: number | undefined

  /** @param name of what is sent @param total in bytes, if it is known */
  constructor(name: string, total?: number) {
    this.#name = name
    this.#total = total
  }

  /** @param bytes that were transferred, also by earlier commands */
  show(bytes: number): void {
    this.#first ??= bytes
    const nowMs = performance.now()
    if (!this.#isShown || nowMs - this.#shownMs < SHOWN_MS) return
    this.#shownMs = nowMs
    const rate = (bytes - this.#first) / Math.max((nowMs - this.#startedMs) / 1_000, 0.001)
    const part = this.#total ? `${Math.floor((bytes * 100) / this.#total)} %` : ''
    const parts = [part, `${(bytes / MIB).toFixed(1)} MiB`, `${(rate / MIB).toFixed(1)} MiB/s`]
    process.stderr.write(`\r\u001b[K${this.#name}  ${parts.filter(Boolean).join('  ')}`)
  }

  /** Removes the line. */
  end(): void {
    if (this.#shownMs > 0) process.stderr.write('\r\u001b[K')
  }
}
