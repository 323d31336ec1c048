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
import { callOf, isSlow, localCall, sizeOf, UnderWay } from './calls.ts'
import type { Place } from './concurrency-slot.ts'
import { type Details, lineOf } from './current-details.ts'
import type { Hold } from './execution-gate.ts'
import { type Moments, nowMs } from './logical-clock.ts'
import type { Recorder } from './recorder.ts'
import type { Reuse } from './result-cache.ts'
import { runSubflow } from './subflow.ts'

/** What keeps account of a run, beside its interpreter. */
interface Books {
  readonly moments: Moments
  readonly recorder: Recorder
  readonly hold: Hold
  readonly reuse: Reuse
  readonly details: Details
  /** Nothing where the run keeps its place while it waits. */
  readonly place: Place | undefined
}

export function effects(input: FlowRunInput, books: Books): Effects {
  const { recorder, hold, reuse } = books
  return {
    nowMs,
    record: (event) => {
      reuse.entered(event.step)
      recorder.record(event, reuse.isUsed(event.step))
    },
    onIdle: resting(books),
    sleep: sleeping(books),
    call: calling(input, books),
    wait: waiting(input, books),
    shouldContinueAsNew: () => workflowInfo().continueAsNewSuggested,
    flush: async () => {
      // Whoever is to be answered is answered here.
      do await recorder.flush(hold.isStopped ? 'suspended' : 'running')
      while (!allHandlersFinished())
    },
    onHeldChanged: (isHeld) => void recorder.flush(isHeld ? 'suspended' : 'running'),
    digest: digestOf,
    onApprovalsReopened: (isReopened) => {
      hold.ask(isReopened)
      void recorder.flush(isReopened ? 'waiting' : 'running')
    },
    random: () => Number.parseInt(uuid4().slice(0, 8), 16) / 2 ** 32,
    scope: (work, { isShielded } = { isShielded: false }) => {
      const scope = new CancellationScope({ cancellable: !isShielded })
      void scope.run(work)
      return { cancel: () => scope.cancel() }
    },
    pause: () => pausing(books),
    isCancellation,
  }
}

/**
 * A timer, which ends the workflow task: the thread is free for the runs of others, and the history has the pause where each replay
 * comes to it. Who cancels the run does not cancel that.
 */
function pausing({ moments }: Books): Promise<void> {
  const timer = CancellationScope.nonCancellable(() => sleep(1, { summary: 'lets other runs go first' }))
  moments.answeredBy(timer)
  return timer
}

/** What a branch has done is to be seen while others go on. */
function resting({ recorder, moments }: Books): NonNullable<Effects['onIdle']> {
  return (isWaiting) => {
    if (!moments.isAnsweredSoon) void recorder.rest(isWaiting)
  }
}

function sleeping(books: Books): Effects['sleep'] {
  const { recorder, hold, reuse, moments, details } = books
  return async (durationMs, step, { limits } = { limits: false }) => {
    if (!limits && reuse.hasSlept(step)) return
    if (hold.isOn) await stillness(books)
    refuseEndless(step)
    const summary = lineOf(step)
    if (!limits) recorder.waits(step)
    const heldMs = hold.heldMs()
    const left = limits ? undefined : details.at(step)
    try {
      const shown = recorder.flush('waiting')
      const timer = sleep(durationMs, { summary })
      moments.answeredBy(timer)
      await Promise.all([shown, timer])
      if (hold.isOn || hold.heldMs() > heldMs) await hold.afterTimer(heldMs, { summary, limits })
    } finally {
      left?.()
    }
    reuse.answered()
  }
}

function calling(input: FlowRunInput, books: Books): Effects['call'] {
  const { recorder, hold, reuse, moments, details, place } = books
  const underWay = new UnderWay()
  const make: Effects['call'] = async (request) => {
    const before = reuse.take(request.step)
    if (before !== undefined) return before
    if (hold.isOn) await stillness(books)
    refuseEndless(request.step)
    const giveBack = underWay.take(sizeOf(request.arguments))
    if (giveBack === undefined)
      throw new FlowError(ERRORS.runtime, 'The arguments of the call are too large.', request.step.pointer)
    const left = details.at(request.step)
    try {
      const asked = { ...request, ...(input.secrets && { secrets: Object.keys(input.secrets) }) }
      const beside = asked.local && (await localCall(asked, books))
      if (beside) return beside.output
      const shown = isSlow(asked) ? recorder.flush('running') : undefined
      const answer = callOf(asked, hold)
      if (asked.local) moments.endedBy(answer)
      else moments.answeredBy(answer)
      const [, output] = await Promise.all([shown, answer])
      return output
    } finally {
      left()
      giveBack()
      reuse.answered()
      if (hold.isPaused) await stillness(books)
    }
  }
  if (place === undefined) return make
  return (request) => place.during(() => make(request))
}

function waiting(input: FlowRunInput, books: Books): Effects['wait'] {
  const { recorder, hold, reuse, moments, details, place } = books
  const wait: Effects['wait'] = async (what, { digest: about, ...asked }, step) => {
    const digest = about as string | undefined
    const child = reuse.childOf(step)
    recorder.note(step, { ...(digest !== undefined && { digest }), ...(child !== undefined && { child }) })
    const before = reuse.take(step, digest)
    if (before !== undefined) return before
    if (hold.isOn) await stillness(books)
    recorder.waits(step)
    const left = details.at(step)
    await recorder.flush('waiting')
    if (what === 'workflow') {
      const begun = (id: string) => recorder.note(step, { child: id })
      const output = runSubflow({ details: asked, step, hold, parent: input, begun })
      moments.answeredBy(output)
      const answered = () => reuse.answered()
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
function refuseEndless({ pointer }: StepRef): void {
  const { historyLength, historySize } = workflowInfo()
  if (historyLength <= LIMITS.runEventsMax && historySize <= LIMITS.runHistoryBytesMax) return
  const detail = 'The run has made too many steps, or carried too much; start another for the rest.'
  throw new FinalError(ERRORS.runtime, detail, pointer)
}

/** Waits as long as the run is held; who looks at one that is paused sees all that it did before. */
async function stillness({ hold, recorder }: Books): Promise<void> {
  if (hold.isPaused) await recorder.flush()
  await hold.lifted()
}

/** SHA-256 (FIPS 180-4) of a value as canonical JSON (RFC 8785), 64 hexadecimal digits. */
function digestOf(value: Json): string {
  return bytesToHex(sha256(utf8ToBytes(canonical(value))))
}
