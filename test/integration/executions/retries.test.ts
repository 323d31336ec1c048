// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Retried tasks: one entry each in the record, whatever runs beside, and every later task runs. Thousands of tasks pause. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { Executions } from '../../support/fixtures/executions.ts'
import { createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'
import { repeated } from '../../support/stack/soak.ts'
import { withRawClient } from '../../support/stack/temporal.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

const RUNS = repeated(50, 200)

let workspace: TestWorkspace
let executions: Executions
let server: FakeServers
/** How often each `Idempotency-Key` has come: it is the same for all attempts of a call. */
const attempts = new Map<string, number>()
beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  server = await FakeServers.open({
    '/flaky': ({ headers }) => {
      const key = String(headers['idempotency-key'])
      const count = (attempts.get(key) ?? 0) + 1
      attempts.set(key, count)
      return count < 3 ? { status: 503 } : { json: { count } }
    },
  })
  await configure(workspace, { egress: { allow: [server.host] } })
})
afterAll(() => server.close())

test(`${RUNS} executions whose call fails twice: each task has one entry, that call three attempts, and the last task runs`, async () => {
  const ask = `call: http, with: { method: post, endpoint: 'http://${server.host}/flaky' }`
  const retry = 'retry: { delay: { milliseconds: 50 }, limit: { attempt: { count: 5 } } }'
  const flow = await executions.publish(`  - safely: { try: [{ ask: { ${ask} } }], catch: { ${retry} } }
  - last: { call: collection.create, with: { name: asked, document: { n: 1 } }, output: { as: '\${ .n }' } }`)
  const ids = await Promise.all(Array.from({ length: RUNS }, () => executions.start(flow)))
  const ended = await Promise.all(ids.map((id) => executions.ended(id, 120_000)))
  expect(ended.map(({ status, output }) => [status, output])).toEqual(ids.map(() => ['completed', 1]))
  expect([...attempts.values()]).toEqual(ids.map(() => 3))
  for (const { steps } of ended) {
    const attempts = steps.map(({ name, iteration, status }: Record<string, unknown>) => [
      name,
      iteration,
      status,
    ])
    expect(attempts).toEqual([
      ['safely', 0, 'completed'],
      ['ask', 0, 'faulted'],
      ['ask', 1, 'faulted'],
      ['ask', 2, 'completed'],
      ['last', 0, 'completed'],
    ])
    expect(steps[0].attempt).toBe(3)
  }
})

test('9,000 tasks without a call: the execution pauses after each thousand, and completes', async () => {
  const each = `for: { in: '\${ [range(4500)] }', concurrency: 100 }, do: [{ a: { set: { n: '\${ $item }' } } }, { b: { set: { m: 1 } } }]`
  const id = await executions.start(await executions.publish(`  - all: { ${each}, output: { as: length } }`))
  const run = await executions.ended(id, 120_000)
  expect(run).toMatchObject({ status: 'completed', output: 4_500, error: null })
  const timers = await withRawClient(async (client) => {
    const { events } = await client.workflow.getHandle(run.workflow_id).fetchHistory()
    return events?.filter(({ timerFiredEventAttributes }) => timerFiredEventAttributes).length
  })
  expect(timers).toBe(9)
})
