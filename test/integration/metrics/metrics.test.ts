/** Checks the metrics of the common platform: what they count, which series there are, and what labels may say. */

import { beforeAll, expect, test } from 'vitest'
import { scrape, sumOf } from '../../support/clients/metrics.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { FunctionRuns } from '../../support/fixtures/function-runs.ts'
import { call, createTestWorkspace, eventually, type TestWorkspace } from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

/** Counts how much metrics of a process grow during some work. Other test files work meanwhile, so they may grow by more. */
async function growthIn(process: 'api' | 'worker', work: () => Promise<unknown>) {
  const before = await scrape(process)
  await work()
  return async (name: string, labels: Readonly<Record<string, string>>): Promise<number> =>
    (sumOf(await scrape(process), name, labels) ?? 0) - (sumOf(before, name, labels) ?? 0)
}

test('requests: are counted by operation and status class, and measured by area', async () => {
  const grown = await growthIn('api', async () => {
    for (const body of [{ n: 1 }, { n: 2 }, 'no JSON'])
      await call('POST', '/v1/collections/measured/documents', { as: workspace.service, body })
  })
  const operation = 'collection.create'
  expect(await grown('tenon_http_requests_total', { operation, status: '2xx' })).toBeGreaterThanOrEqual(2)
  expect(await grown('tenon_http_requests_total', { operation, status: '4xx' })).toBeGreaterThanOrEqual(1)
  expect(await grown('tenon_http_problems_total', { code: 'body_invalid' })).toBeGreaterThanOrEqual(1)
  expect(await grown('tenon_http_request_seconds_total', { operation })).toBeGreaterThan(0)
  const area = { area: 'Collections' }
  expect(await grown('tenon_http_request_duration_seconds_count', area)).toBeGreaterThanOrEqual(3)
})

test('executions and runs: end: are counted, with how long they waited, beside the tasks that the SDK counts', async () => {
  const [executions, runs] = [new Executions(workspace), new FunctionRuns(workspace)]
  const flow = await executions.publish('- one: { set: { n: 1 } }')
  const code = await runs.deploy('measured', 'export default () => { throw new Error("no") }')
  const grown = await growthIn('worker', async () => {
    await executions.ended(await executions.start(flow))
    await runs.invoke(code)
  })
  const waits = 'tenon_queue_seconds_count'
  const grows = (name: string, labels: Readonly<Record<string, string>>) =>
    eventually(async () => ((await grown(name, labels)) > 0 ? true : undefined))
  await grows('tenon_runs_total', { kind: 'execution', outcome: 'completed' })
  await grows('tenon_runs_total', { kind: 'function_run', outcome: 'function_error' })
  await grows(waits, { kind: 'execution' })
  await grows(waits, { kind: 'function_run' })
  await grows('temporal_workflow_task_execution_latency_count', { task_queue: 'tenon-flows' })
})
