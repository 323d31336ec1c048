/** The lines that one attempt of a run prints: stored in batches while it runs, so that others can follow them. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { FUNCTION_LIMITS } from '../../features/functions/limits.ts'
import { appendLines, type NumberedLine } from '../../features/functions/runs/record-run.ts'
import type { LogLine } from '../../features/functions/sandbox/invocation.ts'

export class RunLog {
  readonly #record: WorkspaceScope
  readonly #runId: string
  #seq: number
  #unstored: NumberedLine[] = []
  #timer: NodeJS.Timeout | undefined
  #storing: Promise<void> = Promise.resolve()

  /** @param record the workspace in the role of an admin @param attempt numbers of lines follow those of earlier attempts */
  constructor(record: WorkspaceScope, runId: string, attempt = 1) {
    this.#record = record
    this.#runId = runId
    this.#seq = (attempt - 1) * FUNCTION_LIMITS.logBytesMax
  }

  add(line: LogLine): void {
    this.#unstored.push({ ...line, seq: ++this.#seq })
    this.#timer ??= setTimeout(() => this.#store(), FUNCTION_LIMITS.logFlushMs)
  }

  /** The lines that are not stored yet, for the caller to store. Earlier ones are stored by then: followers read in order. */
  async take(): Promise<NumberedLine[]> {
    const lines = this.#takeUnstored()
    await this.#storing
    return lines
  }

  /** Takes back lines whose storage by the caller has failed. */
  putBack(lines: readonly NumberedLine[]): void {
    this.#unstored.unshift(...lines)
  }

  /** Stores what is left. Never rejects: a run does not fail since its lines cannot be stored. */
  async close(): Promise<void> {
    this.#store()
    await this.#storing
  }

  #takeUnstored(): NumberedLine[] {
    clearTimeout(this.#timer)
    this.#timer = undefined
    return this.#unstored.splice(0)
  }

  #store(): void {
    const lines = this.#takeUnstored()
    if (lines.length === 0) return
    this.#storing = this.#storing
      .then(() => appendLines(this.#record, this.#runId, lines))
      .catch((error: unknown) => this.#record.logError(error, 'lines of a function run lost'))
  }
}
