/** Collects steps and events of an execution, and writes them to its record before it waits and when it ends. */

import type { LocalActivityOptions } from '@temporalio/common'
import { CancellationScope, proxyLocalActivities, proxySinks, workflowInfo } from '@temporalio/workflow'
import type { Json, JsonObject } from '../../../flows-dsl/ir.ts'
import { storageFlaw } from '../../../flows-dsl/storable.ts'
import { decisionOf } from '../../../flows-dsl/tasks/approve.ts'
import type { StepEvent, StepRef } from '../../../flows-dsl/tasks/task.ts'
import type { Activities, Records } from '../../activities/contract.ts'
import type {
  ApprovalRequest,
  ExecutionEventUpdate,
  ExecutionUpdate,
  RecordState,
  StepUpdate,
} from '../../core/execution.ts'
import { holdsHandle } from '../../core/secret-handle.ts'
import { FLOW_LIMITS } from '../../features/flows/limits.ts'
import { RETRIES } from '../retries.ts'
import { StepValueRecorder } from './step-data.ts'

const STATUS = {
  started: 'running',
  retried: 'running',
  held: 'running',
  completed: 'completed',
  faulted: 'faulted',
  skipped: 'skipped',
  cancelled: 'cancelled',
} as const

export class Recorder {
  readonly #executionId: string
  readonly #writer: RecordWriter
  /** Steps that have started and not ended, by pointer and iteration. */
  readonly #open = new Map<string, StepUpdate>()
  #changed = new Map<number, StepUpdate>()
  readonly #values = new StepValueRecorder()
  #seq = 0
  /** Events since the last write. They are numbered through the whole execution. */
  #events: ExecutionEventUpdate[] = []
  #lastEventSeq = 0
  #status: ExecutionUpdate['status'] = 'running'
  #isEnded = false
  /** The generation of the execution's event subscriptions, if it has or had any. */
  #subscribed: number | undefined
  /** Further fields of the next update. */
  #fields: Partial<ExecutionUpdate> = {}

  /** @param before the state before continue-as-new */
  constructor(executionId: string, writer: RecordWriter, before: RecordState | undefined) {
    this.#executionId = executionId
    this.#writer = writer
    this.#seq = before?.seq ?? 0
    this.#lastEventSeq = before?.lastEventSeq ?? 0
    this.#status = before?.status ?? 'running'
    this.#events = [...(before?.events ?? [])]
    for (const step of before?.open ?? []) this.#open.set(keyOf(step), step)
    for (const step of before?.changed ?? []) this.#changed.set(step.seq, step)
  }

  /** The state for continue-as-new. Read it after a `flush`, which leaves little of it. */
  get state(): RecordState {
    return {
      seq: this.#seq,
      open: [...this.#open.values()],
      changed: [...this.#changed.values()],
      events: this.#events,
      lastEventSeq: this.#lastEventSeq,
      status: this.#status,
    }
  }

  /** @param isReused the result comes from the execution that this one repeats */
  record(event: StepEvent, isReused = false): void {
    const { pointer, name, kind, iteration, summary, path } = event.step
    const key = keyOf(event.step)
    const at = new Date(event.at_ms).toISOString()
    const {
      error: _error,
      isWaiting: _waits,
      ...started
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
    const attempt = event.phase === 'retried' ? (started.attempt ?? 1) + 1 : started.attempt
    const answer = recordedResult(event.answer)
    this.#values.addResult(answer.result, started.seq)
    const step: StepUpdate = {
      ...started,
      ...(attempt !== undefined && { attempt }),
      data: this.#values.add(started, { input: event.input, output: event.output }),
      status: STATUS[event.phase],
      ...(ended && { ended_at: at }),
      ...(event.error !== undefined && { error: event.error as unknown as Json }),
      ...(isReused && { reused: true }),
      ...answer,
    }
    if (ended) this.#open.delete(key)
    else this.#open.set(key, step)
    this.#changed.set(step.seq, step)
    this.#addEvent(event.phase, at, step, event.took)
  }

  /** Records once that a step waits. After continue-as-new the wait starts again, which is no further event. */
  recordWaiting(step: StepRef): void {
    const open = this.#open.get(keyOf(step))
    if (open === undefined || open.isWaiting) return
    this.#open.set(keyOf(step), { ...open, isWaiting: true })
    this.#addEvent('waiting', now(), open)
  }

  /** Adds fields to an open step; they are written with its next change. */
  annotate(step: StepRef, fields: Pick<StepUpdate, 'digest' | 'child'>): void {
    const open = this.#open.get(keyOf(step))
    if (open !== undefined) this.#open.set(keyOf(step), { ...open, ...fields })
  }

  /** Records what an open step asks of its environment. A step that is about to be written shows it at once. */
  recordArguments(ref: StepRef, given: Json): void {
    const open = this.#open.get(keyOf(ref))
    if (open === undefined) return
    const step = { ...open, data: this.#values.add(open, { arguments: given }) }
    this.#open.set(keyOf(ref), step)
    if (this.#changed.has(step.seq)) this.#changed.set(step.seq, step)
  }

  /** Keeps what an approval asks for, for its record. */
  annotateApproval(step: StepRef, { digest, ...details }: JsonObject): void {
    const open = this.#open.get(keyOf(step))
    if (open === undefined) return
    const { data, ...rest } = details
    const isLarge = JSON.stringify(data ?? null).length > FLOW_LIMITS.stepResultCharsMax
    const approval = (isLarge ? rest : details) as unknown as ApprovalRequest
    this.#change({ ...open, ...(typeof digest === 'string' && { digest }), approval })
  }

  /** Keeps a decision about an open approval. @returns forgets it, if it was refused */
  addDecision(step: string, given: JsonObject, nowMs: number): () => void {
    const open = this.#open.get(step)
    const approvers = open?.approval?.approvers
    const decision = decisionOf(
      given,
      { approvers: Array.isArray(approvers) ? approvers.map(String) : [] },
      nowMs,
    )
    if (open === undefined || typeof decision === 'string') return () => {}
    const before = this.#changed.get(open.seq)
    this.#change({ ...open, decisions: [...(open.decisions ?? []), decision] })
    return () => {
      if (before === undefined) this.#changed.delete(open.seq)
      else this.#changed.set(open.seq, before)
      if (this.#open.has(step)) this.#open.set(step, open)
    }
  }

  #change(step: StepUpdate): void {
    this.#open.set(keyOf(step), step)
    this.#changed.set(step.seq, step)
  }

  /** @param of the step; for an event of the execution as a whole, an object without `seq` */
  #addEvent(
    what: ExecutionEventUpdate['what'],
    at: string,
    of: Partial<StepUpdate> = {},
    took?: string,
  ): void {
    if (this.#lastEventSeq === 0) this.#events.push({ seq: ++this.#lastEventSeq, at, what: 'started' })
    const { seq, attempt, error } = of
    this.#events.push({
      seq: ++this.#lastEventSeq,
      at,
      what,
      ...(seq !== undefined && { step: seq }),
      ...(attempt !== undefined && { attempt }),
      ...(took !== undefined && { took }),
      ...(error !== undefined && { error }),
    })
    const { eventsKeptMax: max } = FLOW_LIMITS
    // The record keeps only the newest ones.
    if (this.#events.length > 2 * max) this.#events = this.#events.slice(-max)
  }

  /** Sets the status, and adds an event if it has changed. */
  #setStatus(status: ExecutionUpdate['status'], fields: Partial<ExecutionUpdate>): void {
    const { ended_at = now(), error } = fields
    const before = this.#status
    this.#status = status
    this.#fields = { ...this.#fields, ...fields }
    if (status === before) return
    if (before === 'suspended' && (status === 'running' || status === 'waiting'))
      this.#addEvent('resumed', ended_at)
    if (status !== 'running' || before === 'waiting')
      this.#addEvent(status, ended_at, { ...(error !== undefined && { error }) })
  }

  /** Writes the changes since the last write. */
  flush(status = this.#status, fields: Partial<ExecutionUpdate> = {}): Promise<void> {
    // The last record has the final status.
    if (!this.#isEnded) this.#setStatus(status, fields)
    return this.#writer.write(() => [this.#takeUpdate(), this.#summary()])
  }

  /** For operators in the Temporal UI, in which a write before a wait is the last line of a waiting execution. */
  #summary(): string {
    const waiting = [...this.#open.values()].filter(({ isWaiting: waits }) => waits)
    if (this.#status !== 'waiting' || waiting.length === 0) return `record: ${this.#status}`
    const [{ summary = '' } = {}, ...more] = waiting
    return `waits for ${summary}${more.length === 0 ? '' : `, and ${more.length} more`}`
  }

  /** Writes the changes of an idle execution, if there are any. @param isWaiting it only waits, and no call runs */
  async flushIfChanged(isWaiting: boolean): Promise<void> {
    if (this.#changed.size + this.#events.length === 0) return
    await this.flush(isWaiting && this.#status === 'running' ? 'waiting' : this.#status)
  }

  /** Removes and returns the changes to write. */
  #takeUpdate(): ExecutionUpdate {
    const update: ExecutionUpdate = {
      execution_id: this.#executionId,
      status: this.#status,
      steps: [...this.#changed.values()],
      ...(this.#events.length > 0 && { events: this.#events }),
      ...this.#fields,
    }
    this.#changed = new Map()
    this.#events = []
    this.#fields = {}
    return update
  }

  /** True if the end of the execution is written, or about to be. */
  get isEnded(): boolean {
    return this.#isEnded
  }

  /** Writes that the execution was paused or resumed. */
  recordPause(paused: boolean, pause_reason: string | null): Promise<void> {
    return this.flush(this.#status, { paused, pause_reason })
  }

  /** Acknowledges the slot of that generation. */
  ackSlot(generation: number): Promise<void> {
    return this.flush(this.#status, { ack_generation: generation })
  }

  /** Keeps the generation of event subscriptions that exist from now on. */
  setSubscribed(generation: number): void {
    this.#subscribed = generation
  }

  /** The next write ends the event subscriptions that exist now. */
  unsubscribe(): void {
    if (this.#subscribed !== undefined) this.#fields = { ...this.#fields, unsubscribed: this.#subscribed }
  }

  end(
    status: ExecutionUpdate['status'],
    result: Pick<ExecutionUpdate, 'output' | 'error' | 'compensation'>,
  ): Promise<void> {
    const ended_at = now()
    this.unsubscribe()
    this.#isEnded = true
    // Open steps were abandoned: those of a branch that lost a race, or of an execution that was cancelled.
    for (const step of this.#open.values()) {
      this.#changed.set(step.seq, { ...step, status: 'cancelled', ended_at })
      this.#addEvent('cancelled', ended_at, step)
    }
    this.#setStatus(status, { ...result, ended_at })
    return this.#writer.end(() => this.#takeUpdate())
  }
}

function keyOf({ pointer, iteration }: { pointer: string; iteration: number }): string {
  return `${pointer}#${iteration}`
}

/** In the sandbox, the time of the current workflow task. */
const now = () => new Date().toISOString()

/** Marks a result that the record masks (a secret) or cannot store as `truncated`, so that no rerun reuses it. */
function recordedResult(answer: Json | undefined): Pick<StepUpdate, 'result' | 'truncated'> {
  if (answer === undefined) return {}
  if (JSON.stringify(answer).length > FLOW_LIMITS.stepResultCharsMax) return { truncated: true }
  if (storageFlaw(answer) !== undefined) return { truncated: true }
  return holdsHandle(answer) ? { result: answer, truncated: true } : { result: answer }
}

/** Writes updates. `takeUpdate` collects the changes; it is called when the write starts, so it returns the newest state. */
export interface RecordWriter {
  /** Resolves when the update is written. `takeUpdate` also returns a line for operators. */
  write(takeUpdate: () => readonly [ExecutionUpdate, summary: string]): Promise<void>
  /** Writes the last update. Resolves when the workflow may end. */
  end(takeUpdate: () => ExecutionUpdate): Promise<void>
}

/** Writes one update after the other, so the last state wins. Requests during a write share the next one. */
export function createRecordWriter(): RecordWriter {
  let last: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined
  let isEnding = false
  return {
    write: (takeUpdate) => {
      next ??= last.then(() => {
        next = undefined
        if (isEnding) return undefined
        const [update, summary] = takeUpdate()
        return recordExecution(ordered(update), summary)
      })
      last = next
      return next
    },
    end: (takeUpdate) => {
      isEnding = true
      return last.then(() => sinks.records.write(ordered(takeUpdate())))
    },
  }
}

function ordered(update: ExecutionUpdate): ExecutionUpdate {
  const { runStartTime, historyLength } = workflowInfo()
  return { ...update, order: [runStartTime.getTime(), historyLength] }
}

/** A local activity, since it is one short idempotent write; retried without limit, until the database is available. */
const OPTIONS: LocalActivityOptions = {
  startToCloseTimeout: '10s',
  retry: RETRIES.record,
}
const activities = proxyLocalActivities<Activities>(OPTIONS)

/** Not cancellable: an execution or a branch that is cancelled must still be recorded. */
export function recordExecution(update: ExecutionUpdate, summary: string): Promise<void> {
  return CancellationScope.nonCancellable(() =>
    activities.recordExecution.executeWithOptions({ ...OPTIONS, summary }, [update]),
  )
}

/** Lets the worker measure how long the execution has waited. It is no command, so it leaves no trace in the history. */
export const reportBeginning = (executionId: string): void => sinks.records.began(executionId)

/** The sink writes before the worker reports the end to Temporal (activities/flow/record-sink.ts), so there is no result to await. */
const sinks = proxySinks<Records>()
