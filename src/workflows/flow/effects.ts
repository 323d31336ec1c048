/** Carries out the effects of a flow as timers, activities and child workflows. */

import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import {
  allHandlersFinished,
  CancellationScope,
  isCancellation,
  sleep,
  uuid4,
  workflowInfo,
} from '@temporalio/workflow'
import { ERRORS, FinalError, FlowError } from '../../../flows-dsl/errors.ts'
import type { Json } from '../../../flows-dsl/ir.ts'
import type { Effects } from '../../../flows-dsl/machine/driver.ts'
import type { StepRef } from '../../../flows-dsl/tasks/task.ts'
import { canonical } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import type { FlowRunInput } from '../../core/run.ts'
import { callAsActivity, callInline, InFlightBudget, sizeOf, usesCallsQueue } from './calls.ts'
import type { ConcurrencySlot } from './concurrency-slot.ts'
import { type CurrentDetails, summaryLine } from './current-details.ts'
import type { ExecutionGate } from './execution-gate.ts'
import { type LogicalClock, nowMs } from './logical-clock.ts'
import type { Recorder } from './recorder.ts'
import type { ResultCache } from './result-cache.ts'
import { runSubflow } from './subflow.ts'

/** What keeps account of a run, beside its interpreter. */
interface ExecutionServices {
  readonly moments: LogicalClock
  readonly recorder: Recorder
  readonly hold: ExecutionGate
  readonly reuse: ResultCache
  readonly details: CurrentDetails
  /** Nothing where the run keeps its place while it waits. */
  readonly place: ConcurrencySlot | undefined
}

export function createEffects(input: FlowRunInput, books: ExecutionServices): Effects {
  const { recorder, hold, reuse } = books
  return {
    nowMs,
    record: (event) => {
      reuse.stepEntered(event.step)
      recorder.record(event, reuse.isReused(event.step))
    },
    onIdle: idleHandler(books),
    sleep: sleepEffect(books),
    call: callEffect(input, books),
    wait: waitEffect(input, books),
    shouldContinueAsNew: () => workflowInfo().continueAsNewSuggested,
    flush: async () => {
      // Whoever is to be answered is answered here.
      do await recorder.flush(hold.isSuspendedOrPaused ? 'suspended' : 'running')
      while (!allHandlersFinished())
    },
    onHeldChanged: (isHeld) => void recorder.flush(isHeld ? 'suspended' : 'running'),
    digest: digestOf,
    onApprovalsReopened: (isReopened) => {
      hold.setApprovalReopened(isReopened)
      void recorder.flush(isReopened ? 'waiting' : 'running')
    },
    random: () => Number.parseInt(uuid4().slice(0, 8), 16) / 2 ** 32,
    scope: (work, { isShielded } = { isShielded: false }) => {
      const scope = new CancellationScope({ cancellable: !isShielded })
      void scope.run(work)
      return { cancel: () => scope.cancel() }
    },
    pause: () => yieldThread(books),
    isCancellation,
  }
}

/**
 * A timer, which ends the workflow task: the thread is free for the runs of others, and the history has the pause where each replay
 * comes to it. Who cancels the run does not cancel that.
 */
function yieldThread({ moments }: ExecutionServices): Promise<void> {
  const timer = CancellationScope.nonCancellable(() => sleep(1, { summary: 'lets other runs go first' }))
  moments.tickAfter(timer)
  return timer
}

/** What a branch has done is to be seen while others go on. */
function idleHandler({ recorder, moments }: ExecutionServices): NonNullable<Effects['onIdle']> {
  return (isWaiting) => {
    if (!moments.hasInlineCalls) void recorder.flushIfChanged(isWaiting)
  }
}

function sleepEffect(books: ExecutionServices): Effects['sleep'] {
  const { recorder, hold, reuse, moments, details } = books
  return async (durationMs, step, { limits } = { limits: false }) => {
    if (!limits && reuse.skipsSleep(step)) return
    if (hold.isClosed) await waitWhileClosed(books)
    checkHistoryLimit(step)
    const summary = summaryLine(step)
    if (!limits) recorder.recordWaiting(step)
    const heldMs = hold.closedMs()
    const left = limits ? undefined : details.addStep(step)
    try {
      const shown = recorder.flush('waiting')
      const timer = sleep(durationMs, { summary })
      moments.tickAfter(timer)
      await Promise.all([shown, timer])
      if (hold.isClosed || hold.closedMs() > heldMs) await hold.afterTimer(heldMs, { summary, limits })
    } finally {
      left?.()
    }
    reuse.effectEnded()
  }
}

function callEffect(input: FlowRunInput, books: ExecutionServices): Effects['call'] {
  const { recorder, hold, reuse, moments, details, place } = books
  const underWay = new InFlightBudget()
  const make: Effects['call'] = async (request) => {
    const before = reuse.take(request.step)
    if (before !== undefined) return before
    if (hold.isClosed) await waitWhileClosed(books)
    checkHistoryLimit(request.step)
    const giveBack = underWay.reserve(sizeOf(request.arguments))
    if (giveBack === undefined)
      throw new FlowError(ERRORS.runtime, 'The arguments of the call are too large.', request.step.pointer)
    const left = details.addStep(request.step)
    try {
      const asked = { ...request, ...(input.secrets && { secrets: Object.keys(input.secrets) }) }
      const beside = asked.local && (await callInline(asked, books))
      if (beside) return beside.output
      const shown = usesCallsQueue(asked) ? recorder.flush('running') : undefined
      const answer = callAsActivity(asked, hold)
      if (asked.local) moments.resetAfter(answer)
      else moments.tickAfter(answer)
      const [, output] = await Promise.all([shown, answer])
      return output
    } finally {
      left()
      giveBack()
      reuse.effectEnded()
      if (hold.isPaused) await waitWhileClosed(books)
    }
  }
  if (place === undefined) return make
  return (request) => place.during(() => make(request))
}

function waitEffect(input: FlowRunInput, books: ExecutionServices): Effects['wait'] {
  const { recorder, hold, reuse, moments, details, place } = books
  const wait: Effects['wait'] = async (what, { digest: about, ...asked }, step) => {
    const digest = about as string | undefined
    const child = reuse.childOf(step)
    recorder.annotate(step, {
      ...(digest !== undefined && { digest }),
      ...(child !== undefined && { child }),
    })
    const before = reuse.take(step, digest)
    if (before !== undefined) return before
    if (hold.isClosed) await waitWhileClosed(books)
    recorder.recordWaiting(step)
    const left = details.addStep(step)
    await recorder.flush('waiting')
    if (what === 'workflow') {
      const begun = (id: string) => recorder.annotate(step, { child: id })
      const output = runSubflow({ details: asked, step, hold, parent: input, begun })
      moments.tickAfter(output)
      const answered = () => reuse.effectEnded()
      void output.then(answered, answered)
      void output.then(left, left)
      return output
    }
    const { cancelRequested } = CancellationScope.current()
    void cancelRequested.catch(left)
    return cancelRequested
  }
  if (place === undefined) return wait
  // A flow that is waited for is work.
  return (...asked) => (asked[0] === 'workflow' ? place.during(() => wait(...asked)) : wait(...asked))
}

/** A run that Temporal ended for its size would be shown as running for ever: it is faulted before. */
function checkHistoryLimit({ pointer }: StepRef): void {
  const { historyLength, historySize } = workflowInfo()
  if (historyLength <= LIMITS.runEventsMax && historySize <= LIMITS.runHistoryBytesMax) return
  const detail = 'The run has made too many steps, or carried too much; start another for the rest.'
  throw new FinalError(ERRORS.runtime, detail, pointer)
}

/** Waits as long as the run is held; who looks at one that is paused sees all that it did before. */
async function waitWhileClosed({ hold, recorder }: ExecutionServices): Promise<void> {
  if (hold.isPaused) await recorder.flush()
  await hold.untilOpen()
}

/** SHA-256 (FIPS 180-4) of a value as canonical JSON (RFC 8785), 64 hexadecimal digits. */
function digestOf(value: Json): string {
  return bytesToHex(sha256(utf8ToBytes(canonical(value))))
}
