/** Collects steps and events of an execution and writes them to its record before it blocks and when it ends. */

import { CancellationScope, proxyLocalActivities, proxySinks } from '@temporalio/workflow'
import type { Json } from '../../../flows-dsl/ir.ts'
import type { StepEvent, StepRef } from '../../../flows-dsl/tasks/task.ts'
import type { Activities, Records } from '../../activities/contract.ts'
import { LIMITS } from '../../core/limits.ts'
import type { RecordState, RunEventUpdate, RunUpdate, StepUpdate } from '../../core/run.ts'
import { holdsHandle } from '../../core/secret-handle.ts'

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
  readonly #pen: RecordWriter
  /** Steps that have begun and not ended, by pointer and iteration. */
  readonly #open = new Map<string, StepUpdate>()
  #changed = new Map<number, StepUpdate>()
  #seq = 0
  /** What happened since the last write; numbers go on through the whole run. */
  #events: RunEventUpdate[] = []
  #told = 0
  #status: RunUpdate['status'] = 'running'
  #isEnded = false
  /** What the next write says besides. */
  #more: Partial<RunUpdate> = {}

  /** @param before where the run has been elsewhere */
  constructor(executionId: string, pen: RecordWriter, before: RecordState | undefined) {
    this.#executionId = executionId
    this.#pen = pen
    this.#seq = before?.seq ?? 0
    this.#told = before?.lastEventSeq ?? 0
    this.#status = before?.status ?? 'running'
    this.#events = [...(before?.events ?? [])]
    for (const step of before?.open ?? []) this.#open.set(keyOf(step), step)
    for (const step of before?.changed ?? []) this.#changed.set(step.seq, step)
  }

  /** All that is known here: to be asked after a `flush`, so that it is little. */
  get state(): RecordState {
    return {
      seq: this.#seq,
      open: [...this.#open.values()],
      changed: [...this.#changed.values()],
      events: this.#events,
      lastEventSeq: this.#told,
      status: this.#status,
    }
  }

  /** @param isReused whether it was answered by the run that this one repeats */
  record(event: StepEvent, isReused = false): void {
    const { pointer, name, kind, iteration, summary, path } = event.step
    const key = keyOf(event.step)
    const at = new Date(event.at_ms).toISOString()
    const {
      error: _error,
      waits: _waits,
      ...begun
    } = this.#open.get(key) ?? {
      seq: this.#seq++,
      name,
      kind,
      pointer,
      iteration,
      summary,
      path,
      status: 'running',
      started_at: at,
    }
    const ended = STATUS[event.phase] !== 'running'
    const attempt = event.phase === 'retried' ? (begun.attempt ?? 1) + 1 : begun.attempt
    const step: StepUpdate = {
      ...begun,
      ...(attempt !== undefined && { attempt }),
      status: STATUS[event.phase],
      ...(ended && { ended_at: at }),
      ...(event.error !== undefined && { error: event.error as unknown as Json }),
      ...(isReused && { reused: true }),
      ...recordedAnswer(event.answer),
    }
    if (ended) this.#open.delete(key)
    else this.#open.set(key, step)
    this.#changed.set(step.seq, step)
    this.#tell(event.phase, at, step, event.took)
  }

  /** The step waits: for a time, for the world, or for another flow. In a new history it says so again. */
  recordWaiting(step: StepRef): void {
    const open = this.#open.get(keyOf(step))
    if (open === undefined || open.waits) return
    this.#open.set(keyOf(step), { ...open, waits: true })
    this.#tell('waiting', now(), open)
  }

  /** Keeps what an open step is asked about, or which execution it runs, for its record. */
  annotate(step: StepRef, what: Pick<StepUpdate, 'digest' | 'child'>): void {
    const open = this.#open.get(keyOf(step))
    if (open !== undefined) this.#open.set(keyOf(step), { ...open, ...what })
  }

  /** @param of a step, or the run where it has no `seq` */
  #tell(what: RunEventUpdate['what'], at: string, of: Partial<StepUpdate> = {}, took?: string): void {
    if (this.#told === 0) this.#events.push({ seq: ++this.#told, at, what: 'started' })
    const { seq, attempt, error } = of
    this.#events.push({
      seq: ++this.#told,
      at,
      what,
      ...(seq !== undefined && { step: seq }),
      ...(attempt !== undefined && { attempt }),
      ...(took !== undefined && { took }),
      ...(error !== undefined && { error }),
    })
    const { executionEventsMax: max } = LIMITS
    // Nobody would keep them.
    if (this.#events.length > 2 * max) this.#events = this.#events.slice(-max)
  }

  /** The run has another status now. */
  #turn(status: RunUpdate['status'], more: Partial<RunUpdate>): void {
    const { ended_at = now(), error } = more
    const before = this.#status
    this.#status = status
    this.#more = { ...this.#more, ...more }
    if (status === before) return
    if (before === 'suspended' && (status === 'running' || status === 'waiting'))
      this.#tell('resumed', ended_at)
    if (status !== 'running' || before === 'waiting')
      this.#tell(status, ended_at, { ...(error !== undefined && { error }) })
  }

  /** Writes what has changed since the last time. */
  flush(status = this.#status, more: Partial<RunUpdate> = {}): Promise<void> {
    this.#turn(status, more)
    return this.#pen.write(() => this.#taken())
  }

  /** The same, of a run that has nothing to do now; nothing where nothing has changed. */
  async flushIfChanged(isWaiting: boolean): Promise<void> {
    if (this.#changed.size + this.#events.length === 0) return
    await this.flush(isWaiting && this.#status === 'running' ? 'waiting' : this.#status)
  }

  /** All that is to be written. */
  #taken(): RunUpdate {
    const update: RunUpdate = {
      execution_id: this.#executionId,
      status: this.#status,
      steps: [...this.#changed.values()],
      ...(this.#events.length > 0 && { events: this.#events }),
      ...this.#more,
    }
    this.#changed = new Map()
    this.#events = []
    this.#more = {}
    return update
  }

  /** Whether its end is written, or about to be. */
  get isEnded(): boolean {
    return this.#isEnded
  }

  /** Writes that somebody has paused the run, or has let it go on. */
  recordPause(paused: boolean, pause_reason: string | null): Promise<void> {
    return this.flush(this.#status, { paused, pause_reason })
  }

  /** Acknowledges that the execution knows that it holds its slot. */
  ackSlot(generation: number): Promise<void> {
    return this.flush(this.#status, { ack_generation: generation })
  }

  end(
    status: RunUpdate['status'],
    result: Pick<RunUpdate, 'output' | 'error' | 'compensation'>,
  ): Promise<void> {
    const ended_at = now()
    this.#isEnded = true
    // What nobody waits for any more (a branch that lost, a run that was cancelled) did not go on.
    for (const step of this.#open.values()) {
      this.#changed.set(step.seq, { ...step, status: 'cancelled', ended_at })
      this.#tell('cancelled', ended_at, step)
    }
    this.#turn(status, { ...result, ended_at })
    return this.#pen.end(() => this.#taken())
  }
}

function keyOf({ pointer, iteration }: { pointer: string; iteration: number }): string {
  return `${pointer}#${iteration}`
}

/** In the sandbox, the time of the current workflow task. */
const now = () => new Date().toISOString()

/** A secret that an answer has shown is masked in the record: whoever goes by it has to know. */
function recordedAnswer(answer: Json | undefined): Pick<StepUpdate, 'answer' | 'cut'> {
  if (answer === undefined) return {}
  if (JSON.stringify(answer).length > LIMITS.stepAnswerCharsMax) return { cut: true }
  return holdsHandle(answer) ? { answer, cut: true } : { answer }
}

/** Both methods are given what gathers all that is to be written, and ask it when they can write. */
export interface RecordWriter {
  /** @returns when it is written */
  write(taken: () => RunUpdate): Promise<void>
  /** For the last time. @returns when the run may end */
  end(taken: () => RunUpdate): Promise<void>
}

/** One write follows the other, so the last state wins; all that wait for one are one. */
export function createRecordWriter(): RecordWriter {
  let last: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined
  let isEnding = false
  return {
    write: (taken) => {
      next ??= last.then(() => {
        next = undefined
        return isEnding ? undefined : recordRun(taken())
      })
      last = next
      return next
    },
    end: (taken) => {
      isEnding = true
      return last.then(() => sinks.records.write(taken()))
    },
  }
}

/** Local: the projection is one short idempotent write, and it must come however long the database is away. */
const activities = proxyLocalActivities<Activities>({
  startToCloseTimeout: '10s',
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '10s' },
})

/** Whoever is given up takes timers and calls along, a run or a branch, never the record of what was done. */
function recordRun(update: RunUpdate): Promise<void> {
  return CancellationScope.nonCancellable(() => activities.recordRun(update))
}

/** Written before Temporal is told that the run has ended (activities/flow/record-sink.ts), so there is no answer to wait for. */
const sinks = proxySinks<Records>()
