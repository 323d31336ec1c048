/** The workflow that a schedule starts: it starts the target, and lasts as long as a run that is its child. */

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
import type { Activities } from '../activities/contract.ts'
import type {
  RegistrationInput,
  ScheduledChild,
  ScheduledStart,
  ScheduledStartInput,
} from '../core/execution.ts'
import { QUEUES, startArgument, workflowTypeOf } from '../core/work.ts'
import type { flowExecution } from './flow/flow-execution.ts'
import { childOptions } from './flow/subflow.ts'

type Child = ChildWorkflowHandle<typeof flowExecution>

interface Started {
  readonly run_id: string
  readonly child?: Child
  readonly pauseMs: number
}

/** Starts the target of a schedule, and waits for the end of a child. @returns the run, or the reason why none was started */
export async function scheduledStart(
  input: ScheduledStartInput,
): Promise<{ run_id: string } | { skipped: string }> {
  // Not cancellable: a cancellation between writing the row and starting the workflow would leave a row without a workflow.
  const started = await CancellationScope.nonCancellable(() => start(input))
  if ('skipped' in started) {
    setCurrentDetails(`No run was started. ${started.skipped}`)
    return started
  }
  const { run_id, child, pauseMs } = started
  setCurrentDetails(`Run \`${run_id}\``)
  if (child !== undefined) await waitForEnd(child)
  if (pauseMs > 0) await sleep(pauseMs, { summary: 'until the next run' })
  return { run_id }
}

async function start(input: ScheduledStartInput): Promise<Started | { skipped: string }> {
  const started = await startDue(input)
  if ('skipped' in started) return started
  const { run_id, child } = started
  if (child === undefined) return { run_id, pauseMs: 0 }
  return { run_id, child: await startScheduledChild(child), pauseMs: child.pause_ms }
}

/** Fails if starting takes longer than the catch-up window of the schedule. */
async function startDue(input: ScheduledStartInput): Promise<ScheduledStart> {
  const { startScheduled } = proxyActivities<Activities>({
    startToCloseTimeout: '20s',
    scheduleToCloseTimeout: input.patience_ms,
    summary: `start a ${input.target.kind}`,
    retry: { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '10s' },
  })
  return unlessSuspended(() => startScheduled({ ...input, ...dueTime() }))
}

const SCHEDULED = defineSearchAttributeKey('TemporalScheduledStartTime', 'DATETIME')

/** The time at which the schedule was due, from Temporal's search attribute. */
function dueTime(): { due_at?: string } {
  const time = workflowInfo().typedSearchAttributes.get(SCHEDULED)
  return time === undefined ? {} : { due_at: time.toISOString() }
}

/** A suspended workspace starts nothing, and a resumed one does not catch up. */
async function unlessSuspended<T>(work: () => Promise<T>): Promise<T | { skipped: string }> {
  try {
    return await work()
  } catch (error) {
    const cause = error instanceof ActivityFailure ? error.cause : undefined
    if (cause instanceof ApplicationFailure && cause.type === 'held') return { skipped: cause.message }
    throw error
  }
}

const startScheduledChild = (child: ScheduledChild): Promise<Child> =>
  startChild<typeof flowExecution>(workflowTypeOf(child.input.flow.name), {
    ...childOptions(child),
    args: [startArgument('flowExecution', child.input)],
    parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
  })

/** Waits until the child has ended, even if it failed, which its own record shows. A cancellation is passed on to it. */
async function waitForEnd(child: Child): Promise<void> {
  CancellationScope.current()
    .cancelRequested.catch(() => CancellationScope.nonCancellable(() => cancel(child)))
    .catch(() => {})
  try {
    await child.result()
  } catch (error) {
    if (!(error instanceof ChildWorkflowFailure)) throw error
  }
}

const cancel = (child: Child): Promise<void> => getExternalWorkflowHandle(child.workflowId).cancel()

const { registerTriggers } = proxyActivities<Activities>({
  taskQueue: QUEUES.provisioning,
  startToCloseTimeout: '2m',
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '10s' },
})

export async function registration(input: RegistrationInput): Promise<void> {
  await registerTriggers(input)
}
