/** Whether a run is held: while its tenant or workspace is suspended it begins nothing, and goes on where it stopped. */

import { ActivityFailure, ApplicationFailure } from '@temporalio/common'
import { condition, defineSignal, patched, setHandler, sleep } from '@temporalio/workflow'
import type { Begun, Held, RunStanding } from '../core/work.ts'

/** How the run's workspace stands; the workflow `suspension` sends it. */
const standing = defineSignal<[RunStanding]>('standing')

const SUSPENDED: readonly unknown[] = ['tenant_suspended', 'workspace_suspended']
/** Until a call is tried again whose refusal is out of date, or came from who had heard of a suspension first. */
const REFUSED_MS = 1_000

export class Hold {
  readonly #onChange: (isHeld: boolean) => void
  #seq = -1
  #sinceMs: number | undefined
  #endedMs = 0

  /** Listens from now on: made before the run waits for anything. */
  constructor(onChange: (isHeld: boolean) => void) {
    this.#onChange = onChange
    setHandler(standing, (heard) => this.#hear(heard))
  }

  get isOn(): boolean {
    return this.#sinceMs !== undefined
  }

  /** Waits as long as the run is held. Asked only while it is: where nothing is awaited, commands keep their order. */
  lifted(): Promise<void> {
    return condition(() => !this.isOn)
  }

  /**
   * A timer that does nothing while the run is held. Of one that limits other work, the time for which that was held
   * does not count.
   */
  async sleep(durationMs: number, options: { summary: string; limits: boolean }): Promise<void> {
    const { summary, limits } = options
    let countedMs = this.#heldMs()
    let leftMs = durationMs
    do {
      await sleep(leftMs, { summary })
      if (this.isOn) await this.lifted()
      leftMs = limits ? this.#heldMs() - countedMs : 0
      countedMs += leftMs
    } while (leftMs > 0)
  }

  /**
   * After a call has failed: waits until it may be tried again.
   * @returns undefined where it failed for another reason; else the attempt that the next one goes on with, if there
   *   was one: a function that was refused a place has not begun
   */
  async waitAfter(error: unknown): Promise<{ begun?: Begun } | undefined> {
    const failure = error instanceof ActivityFailure ? error.cause : undefined
    if (!(failure instanceof ApplicationFailure)) return undefined
    if (failure.type === 'held') {
      const [{ seq, begun }] = failure.details as [Held]
      this.#hear({ seq, suspended: true })
      if (this.isOn) await this.lifted()
      else await sleep(REFUSED_MS) // It was resumed while it was refused.
      return { begun }
    }
    // Runs that began before there was a hold went on with such a failure as with any other.
    if (!SUSPENDED.includes(failure.type) || !patched('hold')) return undefined
    await sleep(REFUSED_MS)
    if (this.isOn) await this.lifted()
    return {}
  }

  #hear({ seq, suspended }: RunStanding): void {
    if (seq <= this.#seq) return
    this.#seq = seq
    if (suspended === this.isOn) return
    const now = nowMs()
    this.#endedMs += this.#sinceMs === undefined ? 0 : now - this.#sinceMs
    this.#sinceMs = suspended ? now : undefined
    this.#onChange(suspended)
  }

  /** For how long the run has been held so far. */
  #heldMs(): number {
    return this.#endedMs + (this.#sinceMs === undefined ? 0 : nowMs() - this.#sinceMs)
  }
}

/** In the sandbox `Date` is the time of the current workflow task: the same at each replay. */
function nowMs(): number {
  return Number(new Date())
}
