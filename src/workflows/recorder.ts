/** Gathers what happened in a run and writes it to the projection before the run blocks and when it ends. */

import type { Json } from '../../flows-dsl/ir.ts'
import type { StepEvent } from '../../flows-dsl/tasks/task.ts'
import { LIMITS } from '../core/limits.ts'
import type { RecordState, RunUpdate, StepUpdate } from '../core/work.ts'

const STATUS = {
  started: 'running',
  retried: 'running',
  held: 'running',
  completed: 'completed',
  faulted: 'faulted',
  skipped: 'skipped',
} as const

export class Recorder {
  readonly #executionId: string
  readonly #write: (update: RunUpdate) => Promise<void>
  /** Steps that have begun and not ended, by pointer and iteration. */
  readonly #open = new Map<string, StepUpdate>()
  #changed = new Map<number, StepUpdate>()
  #seq = 0
  #status: RunUpdate['status'] = 'running'
  #isEnded = false
  #last: Promise<void> = Promise.resolve()

  /** @param before where the run has been elsewhere */
  constructor(executionId: string, write: (update: RunUpdate) => Promise<void>, before?: RecordState) {
    this.#executionId = executionId
    this.#write = write
    this.#seq = before?.seq ?? 0
    for (const step of before?.open ?? []) this.#open.set(keyOf(step), step)
  }

  /** All that is known here and not yet written is lost with it: to be asked after a `flush`. */
  get state(): RecordState {
    return { seq: this.#seq, open: [...this.#open.values()] }
  }

  /** @param isReused whether it was answered by the run that this one repeats */
  record(event: StepEvent, isReused = false): void {
    const { pointer, name, kind, iteration, summary, place } = event.step
    const key = keyOf(event.step)
    const at = new Date(event.at_ms).toISOString()
    const { error: _before, ...begun } = this.#open.get(key) ?? {
      seq: this.#seq++,
      name,
      kind,
      pointer,
      iteration,
      summary,
      place,
      status: 'running',
      started_at: at,
    }
    const ended = STATUS[event.phase] !== 'running'
    const step: StepUpdate = {
      ...begun,
      status: STATUS[event.phase],
      ...(ended && { ended_at: at }),
      ...(event.error !== undefined && { error: event.error as unknown as Json }),
      ...(isReused && { reused: true }),
      ...kept(event.answer),
    }
    if (ended) this.#open.delete(key)
    else this.#open.set(key, step)
    this.#changed.set(step.seq, step)
  }

  /** Writes what has changed since the last time. One write follows the other, so the last state wins. */
  flush(status = this.#status, end: Partial<RunUpdate> = {}): Promise<void> {
    this.#status = status
    const update: RunUpdate = {
      execution_id: this.#executionId,
      status,
      steps: [...this.#changed.values()],
      ...end,
    }
    this.#changed = new Map()
    this.#last = this.#last.then(() => this.#write(update))
    return this.#last
  }

  /** Whether its end is written, or about to be. */
  get isEnded(): boolean {
    return this.#isEnded
  }

  /** Writes that somebody has paused the run, or has let it go on. */
  paused(paused: boolean, pause_reason: string | null): Promise<void> {
    return this.flush(this.#status, { paused, pause_reason })
  }

  end(status: RunUpdate['status'], result: { output?: Json; error?: Json }): Promise<void> {
    const ended_at = new Date().toISOString()
    this.#isEnded = true
    // What nobody waits for any more (a branch that lost, a run that was cancelled) did not go on.
    for (const step of this.#open.values())
      this.#changed.set(step.seq, { ...step, status: 'cancelled', ended_at })
    return this.flush(status, { ...result, ended_at })
  }
}

function keyOf({ pointer, iteration }: { pointer: string; iteration: number }): string {
  return `${pointer}#${iteration}`
}

function kept(answer: Json | undefined): Pick<StepUpdate, 'answer' | 'cut'> {
  if (answer === undefined) return {}
  return JSON.stringify(answer).length <= LIMITS.stepAnswerCharsMax ? { answer } : { cut: true }
}
