/** Tells how far each server is, so that a step longer than 2 s is never silent. */

import type { Phase } from './server.ts'
import type { ServerName } from './state.ts'

const NEVER_SILENT_MS = 2_000

export interface ProgressEvent {
  readonly server: ServerName
  readonly phase: Phase
  readonly detail: string
  /** Since the stack's start. A phase that lasts is told again every 2 s. */
  readonly elapsedMs: number
}

/** Tells each phase once, and again every 2 s while it lasts. */
export class Progress {
  readonly #startedAt = Date.now()
  readonly #current = new Map<ServerName, { phase: Phase; detail: string }>()
  readonly #timer: NodeJS.Timeout
  readonly #onProgress: (event: ProgressEvent) => void

  constructor(onProgress: (event: ProgressEvent) => void) {
    this.#onProgress = onProgress
    this.#timer = setInterval(() => {
      for (const server of this.#current.keys()) this.#emit(server)
    }, NEVER_SILENT_MS)
  }

  tell(server: ServerName, phase: Phase, detail: string): void {
    this.#current.set(server, { phase, detail })
    this.#emit(server)
    if (phase === 'ready' || phase === 'external') this.#current.delete(server)
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #emit(server: ServerName): void {
    const current = this.#current.get(server)
    if (current !== undefined)
      this.#onProgress({ server, ...current, elapsedMs: Date.now() - this.#startedAt })
  }
}
