/** Handles signals and updates of an execution: events, decisions, pauses, patches. */

import { CancellationScope, defineSignal, defineUpdate, setHandler } from '@temporalio/workflow'
import type { Driver } from '../../../flows-dsl/machine/driver.ts'
import type { RunAnswer, RunDecision, RunEvent, RunPatch, RunPause, RunRelease } from '../../core/run.ts'
import { withoutHandles } from '../../core/secret-handle.ts'
import type { ExecutionGate } from './execution-gate.ts'
import type { LogicalClock } from './logical-clock.ts'
import type { Recorder } from './recorder.ts'

const event = defineSignal<[RunEvent]>('event')
const decide = defineUpdate<RunAnswer, [RunDecision]>('decide')
const release = defineUpdate<RunAnswer, [RunRelease]>('release')
const pause = defineUpdate<RunAnswer, [RunPause]>('pause')
const patch = defineUpdate<RunAnswer, [RunPatch]>('patch')

/** What a command may act on. */
interface CommandTargets {
  readonly driver: Driver
  readonly gate: ExecutionGate
  readonly recorder: Recorder
  readonly clock: LogicalClock
}

/** Listens from now on: what comes before the run has begun is kept by it. */
export function registerHandlers(run: CommandTargets): void {
  const { driver, gate, recorder, clock } = run
  // A run that is held has nothing open that would tell it.
  CancellationScope.current().cancelRequested.catch(() => {
    clock.tick()
    if (gate.isPaused) void turn(run, { paused: false, reason: null })
    driver.cancel()
  })
  setHandler(event, (said) => {
    clock.tick()
    driver.event(withoutHandles(said))
  })
  setHandler(decide, ({ step, decision }) => {
    clock.tick()
    return answer(driver.decide(step, withoutHandles(decision)))
  })
  setHandler(release, ({ step, ...rest }) => {
    clock.tick()
    return answer(driver.release(step, withoutHandles(rest.release)))
  })
  setHandler(pause, async (asked) => {
    clock.tick()
    if (recorder.isEnded) return { refused: 'The execution has ended.' }
    if (asked.paused && driver.status.isCancelled) return { refused: 'The execution is being cancelled.' }
    if (asked.paused !== gate.isPaused) await turn(run, asked)
    return {}
  })
  setHandler(patch, (what) => {
    clock.tick()
    if (!gate.isPaused && !driver.status.isHeld) return { refused: 'The execution goes on: pause it first.' }
    return answer(driver.patch(withoutHandles({ ...what })))
  })
}

/** The run itself says so in its record: of two who ask at the same time, both see what became of it. */
function turn({ gate, recorder }: CommandTargets, { paused, reason }: RunPause): Promise<void> {
  gate.pause(paused)
  return recorder.recordPause(paused, reason)
}

function answer(refused: string | undefined): RunAnswer {
  return refused === undefined ? {} : { refused }
}
