/** Queues rows in memory and appends them in batches: in order, one batch at a time, again after a failure. */

import { Problem } from '../core/problem.ts'
import { INFRA_LIMITS } from './limits.ts'
import { inTrace } from './trace-context.ts'

interface AppendQueueOptions<Row> {
  /**
   * Stores up to `INFRA_LIMITS.appendRowsMax` rows, or none of them.
   * @throws Problem if they are to be appended again later. After any other error, and after `value_invalid`, they are
   *   appended one by one
   */
  readonly append: (rows: readonly Row[]) => Promise<void>
  /** @param pending number of rows that wait */
  readonly onFailure: (error: unknown, pending: number) => void
  /** The row cannot be stored, and is dropped. */
  readonly onRejected: (row: Row, error: unknown) => void
  /** Called after each append. */
  readonly onStored?: () => void
  /** Rows that may wait. */
  readonly rowsMax: number
}

export class AppendQueue<Row> {
  readonly #options: AppendQueueOptions<Row>
  #pending: Row[] = []
  #timer: NodeJS.Timeout | undefined
  /** How many rows were ever queued, and how many of them are stored. */
  #queued = 0
  #stored = 0
  #appending: Promise<void> | undefined

  constructor(options: AppendQueueOptions<Row>) {
    this.#options = options
  }

  /** The number of rows that wait. */
  get size(): number {
    return this.#pending.length
  }

  /** Queues a row, which is stored within `INFRA_LIMITS.appendDelayMs`. No I/O. @returns false if the queue is full */
  push(row: Row): boolean {
    if (this.#pending.length >= this.#options.rowsMax) return false
    this.#pending.push(row)
    this.#queued += 1
    this.#flushAfter(INFRA_LIMITS.appendDelayMs)
    return true
  }

  /**
   * Resolves when all rows queued until now are stored. Rows that are queued meanwhile go with the next batch.
   * @throws the error of an append, after which a timer retries
   */
  async flush(): Promise<void> {
    this.#stopTimer()
    const upTo = this.#queued
    while (this.#stored < upTo) {
      // The rows are of several requests.
      this.#appending ??= inTrace(undefined, () => this.#appendNext()).finally(() => {
        this.#appending = undefined
      })
      await this.#appending
    }
  }

  /** Stores the rest, if it can. @returns the number of rows that are lost */
  async close(): Promise<number> {
    await this.flush().catch(() => {})
    this.#stopTimer()
    return this.size
  }

  async #appendNext(): Promise<void> {
    // Rows of the same turn of the event loop share the append.
    await new Promise((resolve) => setImmediate(resolve))
    const rows = this.#pending.slice(0, INFRA_LIMITS.appendRowsMax)
    try {
      await this.#store(rows)
    } catch (error) {
      this.#options.onFailure(error, this.size)
      this.#flushAfter(INFRA_LIMITS.appendRetryMs)
      throw error
    }
    this.#pending = this.#pending.slice(rows.length)
    this.#stored += rows.length
    this.#options.onStored?.()
  }

  /** If one row is rejected, only that row is lost. */
  async #store(rows: readonly Row[]): Promise<void> {
    try {
      await this.#options.append(rows)
    } catch (error) {
      if (error instanceof Problem && error.code !== 'value_invalid') throw error
      const [first] = rows
      if (rows.length > 1) for (const row of rows) await this.#store([row])
      else if (first !== undefined) this.#options.onRejected(first, error)
    }
  }

  #flushAfter(ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.flush().catch(() => {})
    }, ms).unref()
  }

  #stopTimer(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
