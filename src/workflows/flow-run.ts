/** Binds the language to Temporal: its effects become timers and activities, its events the run's projection. */

import { CancelledFailure } from '@temporalio/common'
import {
  allHandlersFinished,
  CancellationScope,
  continueAsNew,
  isCancellation,
  proxyLocalActivities,
  setCurrentDetails,
  sleep,
  uuid4,
  workflowInfo,
} from '@temporalio/workflow'
import { ERRORS, type ErrorObject, FinalError, FlowError } from '../../flows-dsl/errors.ts'
import type { FlowIR, Json } from '../../flows-dsl/ir.ts'
import { Drive, type Effects } from '../../flows-dsl/run.ts'
import type { StepRef } from '../../flows-dsl/tasks/task.ts'
import type { Activities } from '../activities/contract.ts'
import { LIMITS } from '../core/limits.ts'
import type { FlowRunInput, RunUpdate } from '../core/work.ts'
import { callOf, isSlow, localCall } from './calls.ts'
import { listenTo } from './commands.ts'
import { failureOf } from './flow-failure.ts'
import { Hold } from './hold.ts'
import { Moments } from './moments.ts'
import { Recorder } from './recorder.ts'
import { Reuse } from './reuse.ts'
import { runSubflow } from './subflow.ts'
import { UnderWay } from './under-way.ts'

/** One execution of a flow. A fault of the flow fails the run, so that operators see it red. */
export async function flowRun(input: FlowRunInput): Promise<Json> {
  const { continued } = input
  const merges = (input.protocol ?? 1) >= 2
  const recorder = new Recorder(input.execution_id, recordRun, { merges, before: continued?.record })
  const hold = new Hold(continued?.hold)
  const reuse = new Reuse(input.reuse)
  const startedAt = new Date(nowMs()).toISOString()
  setCurrentDetails(`**${input.flow.name}** v${input.flow.version}, execution \`${input.execution_id}\``)
  try {
    const { started_by, secrets } = input
    const info = {
      id: input.execution_id,
      started_at: startedAt,
      flow: input.flow,
      ...(started_by !== undefined && { started_by }),
      ...(secrets !== undefined && { secrets }),
    }
    const moments = new Moments()
    const world = effects(input, { recorder, hold, reuse, moments })
    const ir = input.ir as FlowIR
    const drive = continued
      ? Drive.from(ir, continued.snapshot, world)
      : Drive.of(ir, input.input, world, info)
    hold.onLifted = (durationMs) => drive.postpone(durationMs)
    listenTo({ drive, hold, recorder, moments })
    const result = await drive.toEnd()
    if (result.status === 'moved') {
      const { snapshot } = result
      const state = { snapshot, hold: hold.state, record: recorder.state }
      return await continueAsNew<typeof flowRun>({ ...input, reuse: reuse.left, continued: state })
    }
    if (result.status === 'completed' && sizeOf(result.output) > LIMITS.stepOutputBytesMax) {
      throw await ended(recorder, input.ir, tooLarge())
    }
    if (result.status === 'completed') {
      await recorder.end('completed', { output: result.output })
      return result.output
    }
    if (result.status === 'cancelled') throw new CancelledFailure('The run was cancelled.')
    const { error } = result
    throw await ended(recorder, input.ir, error)
  } catch (error) {
    if (isCancellation(error)) await recorder.end('cancelled', {})
    throw isOfTheFlow(error) ? await ended(recorder, input.ir, broken(error)) : error
  }
}

/** What the interpreter should never throw, and would throw again at each attempt: the definition has asked for it. */
function isOfTheFlow(error: unknown): error is Error {
  return error instanceof FlowError || error instanceof RangeError
}

/** The run ends: who fails a workflow task for ever is nobody's run any more. */
function broken({ message }: Error): ErrorObject {
  return new FlowError(ERRORS.runtime, `The flow cannot be run: ${message}.`, '/').toObject()
}

/** Ends the record as faulted. @returns what the workflow fails with, so that operators see it red */
async function ended(recorder: Recorder, ir: unknown, error: ErrorObject): Promise<Error> {
  await recorder.end('faulted', { error: error as unknown as Json })
  return failureOf(error, ir)
}

/** Bytes of a value as it travels: JSON in UTF-8. */
function sizeOf(value: Json): number {
  return new TextEncoder().encode(JSON.stringify(value)).length
}

/** Who reads it holds all of it: a run that would return more is faulted before. */
function tooLarge(): ErrorObject {
  const detail = `The output of the flow is larger than ${LIMITS.stepOutputBytesMax} bytes.`
  return new FlowError(ERRORS.runtime, detail, '/output').toObject()
}

interface Parts {
  readonly moments: Moments
  readonly recorder: Recorder
  readonly hold: Hold
  readonly reuse: Reuse
}

function effects(input: FlowRunInput, { recorder, hold, reuse, moments }: Parts): Effects {
  const underWay = new UnderWay()
  return {
    nowMs,
    record: (event) => {
      reuse.entered(event.step)
      recorder.record(event, reuse.isUsed(event.step))
    },
    sleep: async (durationMs, step, { limits } = { limits: false }) => {
      if (!limits && reuse.hasSlept(step)) return
      if (hold.isOn) await stillness(hold, recorder)
      describe(step)
      refuseEndless(step)
      const { summary } = step
      if (!limits) recorder.waits(step)
      const heldMs = hold.heldMs()
      const shown = recorder.flush('waiting')
      const timer = sleep(durationMs, { summary })
      moments.answeredBy(timer)
      await Promise.all([shown, timer])
      if (hold.isOn || hold.heldMs() > heldMs) await hold.afterTimer(heldMs, { summary, limits })
      reuse.answered()
    },
    call: async (request) => {
      const before = reuse.take(request.step)
      if (before !== undefined) return before
      if (hold.isOn) await stillness(hold, recorder)
      describe(request.step)
      refuseEndless(request.step)
      const giveBack = underWay.take(sizeOf(request.arguments))
      if (giveBack === undefined)
        throw new FlowError(ERRORS.runtime, 'The arguments of the call are too large.', request.step.pointer)
      try {
        const asked = { ...request, ...(input.secrets && { secrets: Object.keys(input.secrets) }) }
        if (asked.local === true) return await localCall(asked, hold, moments)
        const shown = isSlow(asked) ? recorder.flush('running') : undefined
        const answer = callOf(asked, hold)
        moments.answeredBy(answer)
        const [, output] = await Promise.all([shown, answer])
        return output
      } finally {
        giveBack()
        reuse.answered()
        if (hold.isPaused) await stillness(hold, recorder)
      }
    },
    wait: async (what, details, step) => {
      const before = reuse.take(step)
      if (before !== undefined) return before
      if (hold.isOn) await stillness(hold, recorder)
      describe(step)
      recorder.waits(step)
      await recorder.flush('waiting')
      if (what === 'workflow') {
        const output = runSubflow({ details, step, hold, parent: input })
        moments.answeredBy(output)
        void output.then(
          () => reuse.answered(),
          () => reuse.answered(),
        )
        return output
      }
      return CancellationScope.current().cancelRequested
    },
    isFull: () => workflowInfo().continueAsNewSuggested,
    settled: async () => {
      // Whoever is to be answered is answered here.
      do await recorder.flush(hold.isOn ? 'suspended' : 'running')
      while (!allHandlersFinished())
    },
    held: (isHeld) => void recorder.flush(isHeld ? 'suspended' : 'running'),
    random: () => Number.parseInt(uuid4().slice(0, 8), 16) / 2 ** 32,
    scope: (work, { isShielded } = { isShielded: false }) => {
      const scope = new CancellationScope({ cancellable: !isShielded })
      void scope.run(work)
      return { cancel: () => scope.cancel() }
    },
    isCancellation,
  }
}

/** A run that Temporal ended for its size would be shown as running for ever: it is faulted before. */
function refuseEndless({ pointer }: StepRef): void {
  const { historyLength, historySize } = workflowInfo()
  if (historyLength <= LIMITS.runEventsMax && historySize <= LIMITS.runHistoryBytesMax) return
  const detail = 'The run has made too many steps, or carried too much; start another for the rest.'
  throw new FinalError(ERRORS.runtime, detail, pointer)
}

/** Waits as long as the run is held; who looks at one that is paused sees all that it did before. */
async function stillness(hold: Hold, recorder: Recorder): Promise<void> {
  if (hold.isPaused) await recorder.flush()
  await hold.lifted()
}

/** In the sandbox `Date` is the time of the current workflow task: the same at each replay. */
function nowMs(): number {
  return Number(new Date())
}

function describe(step: StepRef): void {
  setCurrentDetails(`Now at \`${step.pointer}\`: ${step.summary}`)
}

/** Local: the projection is one short idempotent write, and it must come however long the database is away. */
const records = proxyLocalActivities<Activities>({
  startToCloseTimeout: '10s',
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '10s' },
})

/** Whoever is given up takes timers and calls along, a run or a branch, never the record of what was done. */
function recordRun(update: RunUpdate): Promise<void> {
  return CancellationScope.nonCancellable(() => records.recordRun(update))
}
