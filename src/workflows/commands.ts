/** What people and the world tell a run that goes on: events, decisions, what becomes of steps that are held. */

import { CancellationScope, defineSignal, defineUpdate, setHandler } from '@temporalio/workflow'
import type { Drive } from '../../flows-dsl/run.ts'
import { withoutHandles } from '../core/secret-handle.ts'
import type { RunAnswer, RunDecision, RunEvent, RunRelease } from '../core/work.ts'

const event = defineSignal<[RunEvent]>('event')
const decide = defineUpdate<RunAnswer, [RunDecision]>('decide')
const release = defineUpdate<RunAnswer, [RunRelease]>('release')

/** Listens from now on: what comes before the run has begun is kept by it. */
export function listenTo(drive: Drive): void {
  // A run that is held has nothing open that would tell it.
  CancellationScope.current().cancelRequested.catch(() => drive.cancel())
  setHandler(event, (said) => drive.event(withoutHandles(said)))
  setHandler(decide, ({ step, decision }) => answer(drive.decide(step, withoutHandles(decision))))
  setHandler(release, ({ step, ...rest }) => answer(drive.release(step, withoutHandles(rest.release))))
}

function answer(refused: string | undefined): RunAnswer {
  return refused === undefined ? {} : { refused }
}
