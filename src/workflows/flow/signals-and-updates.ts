/** Handles signals and updates of an execution: events, decisions, pauses, patches. */

import { CancellationScope, defineSignal, defineUpdate, setHandler } from '@temporalio/workflow'
import type { Driver } from '../../../flows-dsl/machine/driver.ts'
import type {
  ExecutionEvent,
  ExecutionPatch,
  ExecutionPause,
  StepCallback,
  StepDecision,
  StepRelease,
  UpdateReply,
} from '../../core/execution.ts'
import { withoutHandles } from '../../core/secret-handle.ts'
import type { ExecutionGate } from './execution-gate.ts'
import { type LogicalClock, nowMs } from './logical-clock.ts'
import type { Recorder } from './recorder.ts'

const event = defineSignal<[ExecutionEvent]>('event')
const callback = defineSignal<[StepCallback]>('callback')
const decide = defineUpdate<UpdateReply, [StepDecision]>('decide')
const release = defineUpdate<UpdateReply, [StepRelease]>('release')
const pause = defineUpdate<UpdateReply, [ExecutionPause]>('pause')
const patch = defineUpdate<UpdateReply, [ExecutionPatch]>('patch')

/** The parts of an execution that commands act on. */
interface CommandTargets {
  readonly driver: Driver
  readonly gate: ExecutionGate
  readonly recorder: Recorder
  readonly clock: LogicalClock
}

/** Registers the handlers of signals, updates and cancellation. The driver accepts messages even before it runs. */
export function registerHandlers(run: CommandTargets): void {
  const { driver, gate, recorder, clock } = run
  // A held step has no open effect that the cancellation would reject.
  CancellationScope.current().cancelRequested.catch(() => {
    clock.tick()
    if (gate.isPaused) void setPaused(run, { paused: false, reason: null })
    driver.cancel()
  })
  setHandler(event, (received) => {
    clock.tick()
    driver.event(withoutHandles(received))
  })
  setHandler(callback, ({ step, callback: { id, output } }) => {
    clock.tick()
    driver.callback(step, { id, output: withoutHandles(output) })
  })
  setHandler(decide, ({ step, decision }) => {
    clock.tick()
    const given = withoutHandles(decision)
    const forget = recorder.addDecision(step, given, nowMs())
    const refused = driver.decide(step, given)
    if (refused !== undefined) forget()
    return answerOf(refused)
  })
  setHandler(release, ({ step, ...rest }) => {
    clock.tick()
    return answerOf(driver.release(step, withoutHandles(rest.release)))
  })
  setHandler(pause, async (request) => {
    clock.tick()
    if (recorder.isEnded) return { refused: 'The execution has ended.' }
    if (request.paused && driver.status.isCancelled) return { refused: 'The execution is being cancelled.' }
    if (request.paused !== gate.isPaused) await setPaused(run, request)
    return {}
  })
  setHandler(patch, (changes) => {
    clock.tick()
    if (!gate.isPaused && !driver.status.isHeld)
      return { refused: 'The execution is neither paused nor has a held step: pause it first.' }
    const refused = driver.patch(withoutHandles({ ...changes }))
    // Approvers see the changed data of a pending approval at once.
    if (refused === undefined) void recorder.flushIfChanged(false)
    return answerOf(refused)
  })
}

/** Records the change before the update returns, so that a caller who reads the execution then sees it. */
function setPaused({ gate, recorder }: CommandTargets, { paused, reason }: ExecutionPause): Promise<void> {
  gate.pause(paused)
  return recorder.recordPause(paused, reason)
}

function answerOf(refused: string | undefined): UpdateReply {
  return refused === undefined ? {} : { refused }
}
