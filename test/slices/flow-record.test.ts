/** What it costs to write down what a run does: as little as can be, and nothing is missing. */

import { expect, test } from 'vitest'
import { Runs } from '../support/runs.ts'
import { withRawClient } from '../support/temporal.ts'
import { aRoom } from '../support/tenants.ts'

const MARKER = 25

test('what many branches do at the same time is written together', async () => {
  const runs = new Runs(await aRoom())
  const name = await runs.publish(
    `  - all: { for: { each: n, in: '\${ [range(40)] }', concurrency: 40 }, do: [ { one: { call: event.publish, with: { topic: t, data: { n: 1 } }, metadata: { tenon: { local: false } } } } ] }\n`,
  )
  const id = await runs.start(name)
  const run = await runs.until(id, ({ ended_at }) => ended_at !== null)
  expect(run.error).toBeNull()
  const calls = run.steps.filter(({ name }: { name: string }) => name === 'one')
  expect(calls).toHaveLength(40)
  expect(new Set(calls.map(({ status }: { status: string }) => status))).toEqual(new Set(['completed']))
  const { events } = await withRawClient((client) =>
    client.workflow.getHandle(run.workflow_id).fetchHistory(),
  )
  const writes = events?.filter(({ eventType }) => eventType === MARKER).length ?? 0
  expect(writes).toBeGreaterThan(0)
  expect(writes).toBeLessThan(10)
})
