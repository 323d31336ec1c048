/** Fairness between tenants: one queues thousands of calls, another's ten calls are hardly delayed. */

import { createServer, type Server, type ServerResponse } from 'node:http'
import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { QUEUES } from '../../src/core/work.ts'
import { call, createTestWorkspace, eventually, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { type OwnPlatform, ownPlatform } from '../support/stack/own-platform.ts'
import { repeated } from '../support/stack/soak.ts'

const CALLS_PER_RUN = 250
/** A call may wait for one of the other tenant to end, which doubles its time; the rest is for a slow machine. */
const FACTOR = 2.5
/** How long each call takes; the worker makes a hundred at once. */
const CALL_MS = 3_000
/** TASK_QUEUE_TYPE_ACTIVITY in Temporal's protocol. */
const ACTIVITIES = 2

const source = (url: string) => `document: { dsl: '1.0.3', namespace: test, name: many, version: '1.0.0' }
do:
  - all:
      for: { each: n, in: '\${ [range($workflow.input.calls)] }', concurrency: ${CALLS_PER_RUN} }
      do:
        - ask: { call: http, with: { method: get, endpoint: '${url}' }, metadata: { tenon: { local: false } } }
`

const CASES = [
  // A thousand are already too many without fairness.
  { fairness: true, calls: repeated(1_500, 5_000), servers: {} },
  // The control, in a soak only.
  { fairness: false, calls: 1_000, servers: { TEMPORAL_DYNAMIC_CONFIG: 'matching.enableFairness=false' } },
].slice(0, repeated(1, 2))

describe.each(CASES)('fairness set to $fairness', ({ fairness, calls: queued, servers }) => {
  let own: OwnPlatform
  let temporal: Client
  let slow: Server
  /** Unanswered calls while others are queued, as completed calls would cause work. */
  let pendingResponses: ServerResponse[] | undefined
  let loud: TestWorkspace
  let quiet: TestWorkspace
  beforeAll(async () => {
    own = await ownPlatform({ servers })
    const { running } = own.started
    const [port] = running.echoPorts
    const address = running.env['TEMPORAL_ADDRESS'] ?? ''
    temporal = new Client({ connection: await Connection.connect({ address }) })
    slow = createServer((_request, response) => answer(response)).listen(port, '127.0.0.1')
    loud = own.workspace
    quiet = await createTestWorkspace(running)
    await Promise.all([publish(loud), publish(quiet)])
  })
  afterAll(async () => {
    await temporal?.connection.close()
    await own?.end()
    slow?.closeAllConnections()
    slow?.close()
  })

  const at = () => own.started.running

  const later = (response: ServerResponse, ms: number) => setTimeout(() => response.end('"done"'), ms)

  function answer(response: ServerResponse): void {
    if (pendingResponses === undefined) later(response, CALL_MS)
    else pendingResponses.push(response)
  }

  /** From now on calls take their normal time; held ones end one after the other. */
  function releaseResponses(): void {
    const first = pendingResponses ?? []
    pendingResponses = undefined
    for (const [index, response] of first.entries()) later(response, (index * CALL_MS) / first.length)
  }

  async function publish(workspace: TestWorkspace): Promise<void> {
    const options = { at: at(), as: workspace.operator }
    const body = { source: source(`http://127.0.0.1:${at().echoPorts[0]}/`) }
    await call('POST', `${workspace.flows}/definitions`, { ...options, body })
    const published = await call('POST', `${workspace.flows}/definitions/many/versions`, {
      ...options,
      body: {},
    })
    expect(published.status, JSON.stringify(published.body)).toBe(201)
  }

  async function startFlow(workspace: TestWorkspace, calls: number) {
    const path = `${workspace.flows}/definitions/many/executions`
    const body = { input: { calls } }
    const run = await call('POST', path, { at: at(), as: workspace.operator, body })
    expect(run.status, JSON.stringify(run.body)).toBe(201)
    return run.body
  }

  /** How long ten concurrent calls of the quiet tenant take in milliseconds, at most `ms`. */
  async function tenCalls(ms: number): Promise<number> {
    const startedMs = performance.now()
    const { id } = await startFlow(quiet, 10)
    const end = eventually(async () => {
      const { body } = await call('GET', `${quiet.flows}/executions/${id}`, { at: at(), as: quiet.operator })
      return body.status === 'completed' ? performance.now() - startedMs : undefined
    }, ms)
    return end.catch(() => ms)
  }

  /**
   * Starts two executions at a time: a workflow task that schedules many calls has ten seconds, on a slow machine
   * too.
   */
  async function queueAll(): Promise<void> {
    const lane = async () => {
      for (let run = 0; run < queued / CALLS_PER_RUN / 2; run++) {
        const { workflow_id } = await startFlow(loud, CALLS_PER_RUN)
        const handle = temporal.workflow.getHandle(workflow_id)
        await eventually(async () => {
          const { historyLength } = await handle.describe()
          return historyLength > CALLS_PER_RUN ? true : undefined
        }, 60_000)
      }
    }
    await Promise.all([lane(), lane()])
  }

  /** How many calls wait in the task queue. */
  async function waiting(): Promise<number> {
    const { stats } = await temporal.connection.workflowService.describeTaskQueue({
      namespace: 'default',
      taskQueue: { name: QUEUES.calls },
      taskQueueType: ACTIVITIES,
      reportStats: true,
    })
    return Number(stats?.approximateBacklogCount ?? 0)
  }

  test(`ten calls behind ${queued} queued calls: take ${fairness ? 'less' : 'more'} than ${FACTOR} times their time alone`, async () => {
    const alone = await tenCalls(30_000)
    pendingResponses = []
    await queueAll()
    releaseResponses()
    const behind = await tenCalls(FACTOR * alone + 500)
    // Temporal reports the backlog some seconds late.
    await eventually(async () => ((await waiting()) > queued / 2 ? true : undefined))
    if (fairness) expect(behind).toBeLessThan(FACTOR * alone)
    else expect(behind).toBeGreaterThan(FACTOR * alone)
  })
})
