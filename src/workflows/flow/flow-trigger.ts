/** The workflow that a schedule starts: it lasts as long as its execution, so that overlap policies apply to executions. */

import { ChildWorkflowFailure } from '@temporalio/common'
import {
  CancellationScope,
  type ChildWorkflowHandle,
  getExternalWorkflowHandle,
  ParentClosePolicy,
  proxyActivities,
  setCurrentDetails,
  sleep,
  startChild,
} from '@temporalio/workflow'
import type { Activities } from '../../activities/contract.ts'
import type { FlowTriggerInput, RegistrationInput, Triggered } from '../../core/execution.ts'
import { QUEUES, startArgument, workflowTypeOf } from '../../core/work.ts'
import { dueTime, startActivities, unlessSuspended } from '../due-start.ts'
import { RETRIES } from '../retries.ts'
import type { flowExecution } from './flow-execution.ts'
import { childOptions } from './subflow.ts'

type Run = ChildWorkflowHandle<typeof flowExecution>

/** Starts the execution of a schedule and waits for its end. @returns the execution, or the reason why none was started */
export async function flowTrigger(
  input: FlowTriggerInput,
): Promise<{ execution_id: string } | { skipped: string }> {
  // Not cancellable: a cancellation between writing the row and starting the workflow would leave a row without a workflow.
  const started = await CancellationScope.nonCancellable(() => startExecution(input))
  if ('skipped' in started) {
    setCurrentDetails(`No execution was started. ${started.skipped}`)
    return started
  }
  setCurrentDetails(`Execution \`${started.id}\``)
  await waitForEnd(started.run)
  if (started.afterMs > 0) await sleep(started.afterMs, { summary: 'until the next execution' })
  return { execution_id: started.id }
}

interface StartedRun {
  readonly id: string
  readonly run: Run
  readonly afterMs: number
}

async function startExecution(input: FlowTriggerInput): Promise<StartedRun | { skipped: string }> {
  const triggered = await admitExecution(input)
  if ('skipped' in triggered) return triggered
  const run = await startChild<typeof flowExecution>(workflowTypeOf(triggered.input.flow.name), {
    ...childOptions(triggered),
    args: [startArgument('flowExecution', triggered.input)],
    parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
  })
  return { id: triggered.input.execution_id, run, afterMs: triggered.after_ms }
}

/** Writes the row of the execution. */
function admitExecution(input: FlowTriggerInput): Promise<Triggered> {
  const { admitTrigger } = startActivities(input.patience_ms, 'start an execution')
  return unlessSuspended(() => admitTrigger({ ...input, ...dueTime() }))
}

/** Waits until the execution has ended, even if it failed, which its own record shows. A cancellation is passed on to it. */
async function waitForEnd(run: Run): Promise<void> {
  CancellationScope.current()
    .cancelRequested.catch(() => CancellationScope.nonCancellable(() => cancelExecution(run)))
    .catch(() => {})
  try {
    await run.result()
  } catch (error) {
    if (!(error instanceof ChildWorkflowFailure)) throw error
  }
}

const cancelExecution = (run: Run): Promise<void> => getExternalWorkflowHandle(run.workflowId).cancel()

const { registerTriggers } = proxyActivities<Activities>({
  taskQueue: QUEUES.provisioning,
  startToCloseTimeout: '2m',
  retry: RETRIES.record,
})

export async function registration(input: RegistrationInput): Promise<void> {
  await registerTriggers(input)
}
