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
import type { RunStatusDisplay } from './run-status.ts'
import { runSubflow } from './subflow.ts'

/** What keeps account of a run, beside its interpreter. */
interface ExecutionServices {
  readonly clock: LogicalClock
  readonly recorder: Recorder
  readonly gate: ExecutionGate
  readonly results: ResultCache
  readonly details: CurrentDetails
  readonly status: RunStatusDisplay
  /** Nothing where the run keeps its slot while it waits. */
  readonly slot: ConcurrencySlot | undefined
}

export function createEffects(input: FlowRunInput, services: ExecutionServices): Effects {
  const { recorder, gate, results, status } = services
  return {
    nowMs,
    record: (event) => {
      results.stepEntered(event.step)
      recorder.record(event, results.isReused(event.step))
    },
    onIdle: idleHandler(services),
    sleep: sleepEffect(services),
    call: callEffect(input, services),
    wait: waitEffect(input, services),
    shouldContinueAsNew: () => workflowInfo().continueAsNewSuggested,
    flush: async () => {
      // Whoever is to be answered is answered here.
      do await recorder.flush(gate.isSuspendedOrPaused ? 'suspended' : 'running')
      while (!allHandlersFinished())
    },
    onHeldChanged: (isHeld) => {
      status.show()
      void recorder.flush(isHeld ? 'suspended' : 'running')
    },
    digest: digestOf,
    onApprovalsReopened: (isReopened) => {
      gate.setApprovalReopened(isReopened)
      void recorder.flush(isReopened ? 'waiting' : 'running')
    },
    random: () => Number.parseInt(uuid4().slice(0, 8), 16) / 2 ** 32,
    scope: (work, { isShielded } = { isShielded: false }) => {
      const scope = new CancellationScope({ cancellable: !isShielded })
      void scope.run(work)
      return { cancel: () => scope.cancel() }
    },
    pause: () => yieldThread(services),
    isCancellation,
  }
}

/**
 * A timer, which ends the workflow task: the thread is free for the runs of others, and the history has the pause where each replay
 * comes to it. Who cancels the run does not cancel that.
 */
function yieldThread({ clock }: ExecutionServices): Promise<void> {
  const timer = CancellationScope.nonCancellable(() => sleep(1, { summary: 'lets other runs go first' }))
  clock.tickAfter(timer)
  return timer
}

/** What a branch has done is to be seen while others go on. */
function idleHandler({ recorder, clock }: ExecutionServices): NonNullable<Effects['onIdle']> {
  return (isWaiting) => {
    if (!clock.hasInlineCalls) void recorder.flushIfChanged(isWaiting)
  }
}

function sleepEffect(services: ExecutionServices): Effects['sleep'] {
  const { recorder, gate, results, clock, details, status } = services
  return async (durationMs, step, { limits } = { limits: false }) => {
    if (!limits && results.skipsSleep(step)) return
    if (gate.isClosed) await waitWhileClosed(services)
    checkHistoryLimit(step)
    status.show()
    const summary = summaryLine(step)
    if (!limits) recorder.recordWaiting(step)
    const heldMs = gate.closedMs()
    const left = limits ? undefined : details.addStep(step)
    try {
      const shown = recorder.flush('waiting')
      const timer = sleep(durationMs, { summary })
      clock.tickAfter(timer)
      await Promise.all([shown, timer])
      if (gate.isClosed || gate.closedMs() > heldMs) await gate.afterTimer(heldMs, { summary, limits })
    } finally {
      left?.()
    }
    results.effectEnded()
  }
}

function callEffect(input: FlowRunInput, services: ExecutionServices): Effects['call'] {
  const { recorder, gate, results, clock, details, slot, status } = services
  const inFlight = new InFlightBudget()
  const make: Effects['call'] = async (request) => {
    const before = results.take(request.step)
    if (before !== undefined) return before
    if (gate.isClosed) await waitWhileClosed(services)
    checkHistoryLimit(request.step)
    const giveBack = inFlight.reserve(sizeOf(request.arguments))
    if (giveBack === undefined)
      throw new FlowError(ERRORS.runtime, 'The arguments of the call are too large.', request.step.pointer)
    status.show()
    const left = details.addStep(request.step)
    try {
      const asked = { ...request, ...(input.secrets && { secrets: Object.keys(input.secrets) }) }
      const beside = asked.local && (await callInline(asked, services))
      if (beside) return beside.output
      const shown = usesCallsQueue(asked) ? recorder.flush('running') : undefined
      const answer = callAsActivity(asked, gate)
      if (asked.local) clock.resetAfter(answer)
      else clock.tickAfter(answer)
      const [, output] = await Promise.all([shown, answer])
      return output
    } finally {
      left()
      giveBack()
      results.effectEnded()
      if (gate.isPaused) await waitWhileClosed(services)
    }
  }
  if (slot === undefined) return make
  return (request) => slot.during(() => make(request))
}

function waitEffect(input: FlowRunInput, services: ExecutionServices): Effects['wait'] {
  const { recorder, gate, results, clock, details, slot, status } = services
  const wait: Effects['wait'] = async (what, { digest: about, ...asked }, step) => {
    const digest = about as string | undefined
    const child = results.childOf(step)
    recorder.annotate(step, {
      ...(digest !== undefined && { digest }),
      ...(child !== undefined && { child }),
    })
    const before = results.take(step, digest)
    if (before !== undefined) return before
    if (gate.isClosed) await waitWhileClosed(services)
    recorder.recordWaiting(step)
    status.show()
    const left = details.addStep(step)
    await recorder.flush('waiting')
    if (what === 'workflow') {
      const begun = (id: string) => recorder.annotate(step, { child: id })
      const output = runSubflow({ details: asked, step, gate, parent: input, begun })
      clock.tickAfter(output)
      const answered = () => results.effectEnded()
      void output.then(answered, answered)
      void output.then(left, left)
      return output
    }
    const { cancelRequested } = CancellationScope.current()
    void cancelRequested.catch(left)
    return cancelRequested
  }
  if (slot === undefined) return wait
  // A flow that is waited for is work.
  return (...asked) => (asked[0] === 'workflow' ? slot.during(() => wait(...asked)) : wait(...asked))
}

/** A run that Temporal ended for its size would be shown as running for ever: it is faulted before. */
function checkHistoryLimit({ pointer }: StepRef): void {
  const { historyLength, historySize } = workflowInfo()
  if (historyLength <= LIMITS.runEventsMax && historySize <= LIMITS.runHistoryBytesMax) return
  const detail = 'The run has made too many steps, or carried too much; start another for the rest.'
  throw new FinalError(ERRORS.runtime, detail, pointer)
}

/** Waits as long as the run is held; who looks at one that is paused sees all that it did before. */
async function waitWhileClosed({ gate, recorder }: ExecutionServices): Promise<void> {
  if (gate.isPaused) await recorder.flush()
  await gate.untilOpen()
}

/** SHA-256 (FIPS 180-4) of a value as canonical JSON (RFC 8785), 64 hexadecimal digits. */
function digestOf(value: Json): string {
  return bytesToHex(sha256(utf8ToBytes(canonical(value))))
}
