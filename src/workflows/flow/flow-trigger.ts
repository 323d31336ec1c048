/** The workflow that a schedule starts: it lasts as long as its execution, so that overlap policies apply to executions. */

import {
  ActivityFailure,
  ApplicationFailure,
  ChildWorkflowFailure,
  defineSearchAttributeKey,
} from '@temporalio/common'
import {
  CancellationScope,
  type ChildWorkflowHandle,
  getExternalWorkflowHandle,
  ParentClosePolicy,
  proxyActivities,
  setCurrentDetails,
  sleep,
  startChild,
  workflowInfo,
} from '@temporalio/workflow'
import type { Activities } from '../../activities/contract.ts'
import type { FlowTriggerInput, RegistrationInput, Triggered } from '../../core/run.ts'
import { QUEUES } from '../../core/work.ts'
import type { flowRun } from './flow-run.ts'
import { childOf } from './subflow.ts'

const SCHEDULED = defineSearchAttributeKey('TemporalScheduledStartTime', 'DATETIME')

type Run = ChildWorkflowHandle<typeof flowRun>

/** @returns the execution that was begun, or why none was */
export async function flowTrigger(
  input: FlowTriggerInput,
): Promise<{ execution_id: string } | { skipped: string }> {
  // Who is cancelled between the row and the run would leave a row that nobody runs.
  const begun = await CancellationScope.nonCancellable(() => begin(input))
  if ('skipped' in begun) {
    setCurrentDetails(`Nothing was begun. ${begun.skipped}`)
    return begun
  }
  setCurrentDetails(`Execution \`${begun.id}\``)
  await ended(begun.run)
  if (begun.afterMs > 0) await sleep(begun.afterMs, { summary: 'until the next run' })
  return { execution_id: begun.id }
}

interface StartedTrigger {
  readonly id: string
  readonly run: Run
  readonly afterMs: number
}

async function begin(input: FlowTriggerInput): Promise<StartedTrigger | { skipped: string }> {
  const triggered = await admitted(input)
  if ('skipped' in triggered) return triggered
  const run = await startChild<typeof flowRun>('flowRun', {
    ...childOf(triggered),
    args: [triggered.run],
    parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
  })
  return { id: triggered.run.execution_id, run, afterMs: triggered.after_ms }
}

/** What cannot be begun within the time in which it would be made up for is left out, as Temporal does. */
async function admitted(input: FlowTriggerInput): Promise<Triggered> {
  const { admitTrigger } = proxyActivities<Activities>({
    startToCloseTimeout: '20s',
    scheduleToCloseTimeout: input.patience_ms,
    summary: 'begin a run',
    retry: { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '10s' },
  })
  try {
    return await admitTrigger({ ...input, ...whenDue() })
  } catch (error) {
    const cause = error instanceof ActivityFailure ? error.cause : undefined
    // Of a suspended workspace nothing is begun, and nothing is kept that would all begin when it is resumed.
    if (cause instanceof ApplicationFailure && cause.type === 'held') return { skipped: cause.message }
    throw error
  }
}

/** As Temporal's schedule says it. */
function whenDue(): { due_at?: string } {
  const time = workflowInfo().typedSearchAttributes.get(SCHEDULED)
  return time === undefined ? {} : { due_at: time.toISOString() }
}

/** Waits for the end of a run, however it ended: that is told by the run. Who is cancelled meanwhile cancels it first. */
async function ended(run: Run): Promise<void> {
  CancellationScope.current()
    .cancelRequested.catch(() => CancellationScope.nonCancellable(() => cancelled(run)))
    .catch(() => {})
  try {
    await run.result()
  } catch (error) {
    if (!(error instanceof ChildWorkflowFailure)) throw error
  }
}

const cancelled = (run: Run): Promise<void> => getExternalWorkflowHandle(run.workflowId).cancel()

const { registerTriggers } = proxyActivities<Activities>({
  taskQueue: QUEUES.provisioning,
  startToCloseTimeout: '2m',
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '10s' },
})

export async function registration(input: RegistrationInput): Promise<void> {
  await registerTriggers(input)
}
