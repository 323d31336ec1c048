/**
 * Runs the flows of other tests with replay before each step and continue-as-new after some, and with continue-as-new after
 * each step: the results are the same.
 */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { testExamples } from '../conformance/flows/examples-run.ts'
import { KINDS, type Kinds, prepare, runKind } from '../conformance/flows/flow-per-task-type.ts'
import { FlowRunner } from '../conformance/flows/flow-runner.ts'
import {
  agrees,
  corpusWithoutRequests,
  generatedFlows,
  isShort,
} from '../conformance/flows/simulator-agreement.ts'
import { call, eventually } from '../support/fixtures/tenants.ts'
import { FakeServers } from '../support/servers/fake-servers.ts'
import { type OwnPlatform, ownPlatform } from '../support/stack/own-platform.ts'
import { repeated } from '../support/stack/soak.ts'
import { withRawClient } from '../support/stack/temporal.ts'
import { HINT, testManyHistories } from './many-histories.ts'

const CALL =
  '{ call: collection.create, with: { name: moves, document: {} }, metadata: { tenon: { local: false } } }'
const LISTENER = `document: { dsl: '1.0.3', namespace: n, name: hears, version: '1.0.0' }
do:
  - a: { listen: { to: { any: [{ with: { type: hears.n } }], until: '\${ length == 20 }' } }, output: { as: '\${ map(.n) }' } }`
/** TASK_QUEUE_KIND_STICKY in Temporal's protocol. */
const STICKY = 2

describe.each([
  // A worker without a cache runs one task after the other; with many executions some would time out.
  {
    how: 'worker without a cache',
    atOnce: 1,
    servers: { TEMPORAL_DYNAMIC_CONFIG: `limit.historyCount.suggestContinueAsNew=${HINT}` },
    env: { TENON_MAX_CACHED_WORKFLOWS: '0' },
  },
  {
    how: 'continue-as-new after each step',
    atOnce: 5,
    servers: { TEMPORAL_DYNAMIC_CONFIG: 'limit.historyCount.suggestContinueAsNew=1' },
    env: {},
  },
])('flow corpus, $how', ({ atOnce, servers, env }) => {
  let own: OwnPlatform
  let kinds: Kinds
  beforeAll(async () => {
    own = await ownPlatform({ servers, env })
    kinds = {
      runner: new FlowRunner(own.workspace, own.started.running),
      fakeServers: await FakeServers.open(),
    }
    await prepare(kinds)
  })
  afterAll(async () => {
    await own?.end()
    await kinds?.fakeServers.close()
  })

  testExamples(() => kinds.runner)
  if (atOnce === 1) testManyHistories(() => own)

  // In `end-continued`, thousands of timers would be replayed at each step; the others continue as new here as well. The
  // recorded histories are replays of every kind, so a worker without a cache runs a fifth of them outside a soak, and the
  // other one half of them.
  const share = atOnce === 1 ? repeated(5, 1) : repeated(2, 1)
  const kindsHere = KINDS.filter(({ name }, n) => name !== 'end-continued' && n % share === 0)
  test.each(kindsHere)('$name: same result', async (kind) => {
    await runKind(kind, kinds)
  })

  test('events published one after the other: `listen` receives all of them', async () => {
    await kinds.runner.publish('hears', LISTENER)
    const { id } = await kinds.runner.start('hears', {})
    const numbers = Array.from({ length: 20 }, (_, n) => n)
    for (const n of numbers) {
      const body = { topic: 'hears.n', data: { n } }
      await call('POST', '/v1/events/publish', {
        at: kinds.runner.at,
        as: kinds.runner.workspace.service,
        body,
      })
    }
    expect((await kinds.runner.ended(id)).output).toEqual(numbers)
  })

  test('flow with five calls: continues as new as often as configured', async () => {
    const calls = Array.from({ length: 5 }, (_, n) => `  - call${n}: ${CALL}`)
    const head = "document: { dsl: '1.0.3', namespace: n, name: moves, version: '1.0.0' }"
    await kinds.runner.publish('moves', `${head}\ndo:\n${calls.join('\n')}`)
    const { id, workflow_id } = await kinds.runner.start('moves', {})
    const { request_id, ...ended } = await kinds.runner.ended(id)
    expect(ended).toMatchObject({ status: 'completed' })
    const expected = atOnce === 1 ? 2 : 5
    // Visibility lags.
    await eventually(async () => ((await histories(workflow_id)) >= expected ? true : undefined))
    if (atOnce === 1) expect(await histories(workflow_id)).toBeLessThan(5)
    // Each of them acts for the request that has started the execution.
    const { workspace, at } = kinds.runner
    const query = `tenant_id=${workspace.tenantId}&operation=collection.create&request_id=${request_id}`
    const created = async () =>
      (await call('GET', `/v1/audit?${query}`, { as: workspace.operator, at })).body.data
    await eventually(async () => ((await created()).length === calls.length ? true : undefined))
    await eventually(async () => ((await histories(request_id, 'RequestIds')) >= expected ? true : undefined))
  })

  test('generated flows and the quiet corpus: agree with the simulator', async () => {
    const madeUp = generatedFlows(repeated(4, 20)).filter(isShort)
    const remaining = [
      ...madeUp.map((source, n) => ({ name: `made-${n}`, source, input: {} })),
      ...corpusWithoutRequests().filter((_, n) => n % repeated(4, 1) === 0),
    ]
    expect(remaining.length).toBeGreaterThan(5)
    const lane = async () => {
      for (let next = remaining.pop(); next !== undefined; next = remaining.pop()) {
        await agrees(kinds.runner, next.name, next.source, next.input)
      }
    }
    await Promise.all(Array.from({ length: atOnce }, lane))
  })

  test('all these executions: sticky tasks only if the worker has a cache', async () => {
    const stickyUse = await withRawClient(async ({ workflow }) => {
      const many: boolean[] = []
      for await (const { workflowId, runId } of workflow.list({ query: 'FlowName is not null' })) {
        const { events } = await workflow.getHandle(workflowId, runId).fetchHistory()
        const tasks = (events ?? []).flatMap(({ workflowTaskScheduledEventAttributes: task }) => task ?? [])
        if (tasks.length > 1) many.push(tasks.some(({ taskQueue }) => taskQueue?.kind === STICKY))
        // Each continuation has a history of its own.
        if (many.length === repeated(60, 1_000)) break
      }
      return many
    }, kinds.runner.at)
    expect(stickyUse.length).toBeGreaterThan(atOnce === 1 ? 8 : 20)
    expect(stickyUse.includes(true)).toBe(!('TENON_MAX_CACHED_WORKFLOWS' in env))
  })

  /** How many histories an execution had. */
  const histories = (id: string, attribute: 'WorkflowId' | 'RequestIds' = 'WorkflowId') =>
    withRawClient(async (client) => {
      let count = 0
      for await (const _ of client.workflow.list({ query: `${attribute} = "${id}"` })) count += 1
      return count
    }, kinds.runner.at)
})
