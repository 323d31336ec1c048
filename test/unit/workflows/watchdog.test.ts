/**
 * Workflow threads of the SDK with our patches: an endless activation is terminated, and the thread continues
 * with others.
 */

import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import threads from 'node:worker_threads'
import type { coresdk } from '@temporalio/proto'
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { prepareWorkflowThreads } from '../../../src/activities/sdk-patches/index.ts'

type Completion = coresdk.workflow_completion.IWorkflowActivationCompletion
interface Workflow {
  activate(activation: unknown): Promise<Completion>
  getAndResetSinkCalls(): Promise<readonly unknown[]>
  dispose(): Promise<void>
}
interface Creator {
  createWorkflow(options: unknown): Promise<Workflow>
  destroy(): Promise<void>
}

/** More than an activation that ends takes on a busy machine. */
const TIMEOUT_MS = 1_000
const at = (path: string) => fileURLToPath(new URL(path, import.meta.url))
const ofSdk = createRequire(createRequire(import.meta.url).resolve('@temporalio/worker'))

let creator: Creator
beforeAll(async () => {
  const logger = new DefaultLogger('ERROR')
  const { code } = await bundleWorkflowCode({
    workflowsPath: at('../../support/fixtures/runaway-workflows.ts'),
    logger,
  })
  const { parseWorkflowCode } = ofSdk('./worker.js')
  const { ThreadedVMWorkflowCreator } = ofSdk('./workflow/threaded-vm.js')
  const { Worker } = threads
  prepareWorkflowThreads()
  try {
    creator = await ThreadedVMWorkflowCreator.create({
      threadPoolSize: 1,
      workflowBundle: parseWorkflowCode(code),
      isolateExecutionTimeoutMs: TIMEOUT_MS,
      reuseV8Context: true,
      registeredActivityNames: new Set(),
      logger,
    })
  } finally {
    threads.Worker = Worker
  }
})
afterAll(() => creator.destroy())

let runs = 0
/** What the last activation of each type wrote to sinks. */
const sinkCalls = new Map<string, readonly unknown[]>()

/**
 * Runs the first activation of an execution. @returns the SDK's completion @throws the error that the thread
 * reports
 */
async function first(workflowType: string) {
  const runId = `run-${runs++}`
  const now = new Date()
  const info = {
    ...{ workflowId: runId, runId, workflowType, taskQueue: 'queue', namespace: 'default', attempt: 1 },
    ...{ searchAttributes: {}, firstExecutionRunId: runId, startTime: now, runStartTime: now },
    unsafe: { isReplaying: false },
  }
  const workflow = await creator.createWorkflow({
    info,
    randomnessSeed: [1, 2, 3, 4, 5, 6, 7, 8],
    now: now.getTime(),
    showStackTraceSources: false,
    failureExceptionTypeNames: [],
  })
  const timestamp = { seconds: Math.floor(now.getTime() / 1_000), nanos: 0 }
  const initializeWorkflow = { workflowType, workflowId: runId, arguments: [], startTime: timestamp }
  try {
    return await workflow.activate({ runId, timestamp, historyLength: 3, jobs: [{ initializeWorkflow }] })
  } finally {
    // The SDK does this after every activation, too.
    sinkCalls.set(workflowType, await workflow.getAndResetSinkCalls())
    await workflow.dispose()
  }
}

/** The failure that the worker reports to Temporal, in either form in which the thread reports it. */
const failureOf = (workflowType: string) =>
  first(workflowType).then(
    ({ failed }) => failed?.failure?.message,
    (error: Error) => error.message,
  )

test.each(['atOnce', 'inPromises', 'inConditions', 'turnByTurn'])(
  'endless workflow, %s: is terminated, and others continue',
  async (type) => {
    const others = [first('ends')]
    const failure = failureOf(type)
    others.push(first('ends'))
    expect(await failure).toBe(`Script execution timed out after ${TIMEOUT_MS}ms`)
    for (const { successful, failed } of await Promise.all([...others, first('ends')])) {
      expect(failed).toBeFalsy()
      expect(JSON.stringify(successful)).toContain('completeWorkflowExecution')
    }
  },
)

test('sink calls of an activation that is terminated: are dropped, since Temporal gets no result of it', async () => {
  expect(await failureOf('recordsForEver')).toContain('timed out')
  await first('recordsAndEnds')
  expect(sinkCalls.get('recordsForEver')).toEqual([])
  expect(sinkCalls.get('recordsAndEnds')).toContainEqual(
    expect.objectContaining({ ifaceName: 'records', args: ['done'] }),
  )
})
