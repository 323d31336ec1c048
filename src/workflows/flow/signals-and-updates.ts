/** Handles signals and updates of an execution: events, decisions, pauses, patches. */

import { CancellationScope, defineSignal, defineUpdate, setHandler } from '@temporalio/workflow'
import type { Driver } from '../../../flows-dsl/machine/driver.ts'
import type { RunAnswer, RunDecision, RunEvent, RunPatch, RunPause, RunRelease } from '../../core/run.ts'
import { withoutHandles } from '../../core/secret-handle.ts'
import type { Hold } from './execution-gate.ts'
import type { Moments } from './logical-clock.ts'
import type { Recorder } from './recorder.ts'

const event = defineSignal<[RunEvent]>('event')
const decide = defineUpdate<RunAnswer, [RunDecision]>('decide')
const release = defineUpdate<RunAnswer, [RunRelease]>('release')
const pause = defineUpdate<RunAnswer, [RunPause]>('pause')
const patch = defineUpdate<RunAnswer, [RunPatch]>('patch')

/** What a command may act on. */
interface Run {
  readonly drive: Driver
  readonly hold: Hold
  readonly recorder: Recorder
  readonly moments: Moments
}

/** Listens from now on: what comes before the run has begun is kept by it. */
export function listenTo(run: Run): void {
  const { drive, hold, recorder, moments } = run
  // A run that is held has nothing open that would tell it.
  CancellationScope.current().cancelRequested.catch(() => {
    moments.hear()
    if (hold.isPaused) void turn(run, { paused: false, reason: null })
    drive.cancel()
  })
  setHandler(event, (said) => {
    moments.hear()
    drive.event(withoutHandles(said))
  })
  setHandler(decide, ({ step, decision }) => {
    moments.hear()
    return answer(drive.decide(step, withoutHandles(decision)))
  })
  setHandler(release, ({ step, ...rest }) => {
    moments.hear()
    return answer(drive.release(step, withoutHandles(rest.release)))
  })
  setHandler(pause, async (asked) => {
    moments.hear()
    if (recorder.isEnded) return { refused: 'The execution has ended.' }
    if (asked.paused && drive.status.isCancelled) return { refused: 'The execution is being cancelled.' }
    if (asked.paused !== hold.isPaused) await turn(run, asked)
    return {}
  })
  setHandler(patch, (what) => {
    moments.hear()
    if (!hold.isPaused && !drive.status.isHeld) return { refused: 'The execution goes on: pause it first.' }
    return answer(drive.patch(withoutHandles({ ...what })))
  })
}

/** The run itself says so in its record: of two who ask at the same time, both see what became of it. */
function turn({ hold, recorder }: Run, { paused, reason }: RunPause): Promise<void> {
  hold.pause(paused)
  return recorder.paused(paused, reason)
}

function answer(refused: string | undefined): RunAnswer {
  return refused === undefined ? {} : { refused }
}
