// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Slots of a flow with `concurrency` when executions are cancelled, whatever they do, and run again: the limit holds, the queue moves. */

import { beforeAll, expect, test } from 'vitest'
import { Executions } from '../../support/fixtures/executions.ts'
import { asSuperuser, createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'

let executions: Executions
beforeAll(async () => {
  executions = new Executions(await createTestWorkspace())
})

/** Starts executions one after the other, so that their order is known. */
async function startInOrder(flow: string, count: number, input: object = {}): Promise<string[]> {
  const ids: string[] = []
  for (let n = 0; n < count; n++) ids.push(await executions.start(flow, { input }))
  return ids
}

/** A task that fails at once, and is tried again in an hour. */
const RETRYING = `  - a:
      try: [{ b: { raise: { error: { type: communication, status: 503 } } } }]
      catch: { retry: { delay: PT1H } }`

test.each([
  ['waits for an event', '  - heard: { listen: { to: { one: { with: { type: go } } } } }'],
  ['waits for a time', '  - w: { wait: PT10M }'],
  ['waits for a retry', RETRYING],
])('execution that %s is cancelled: frees its slot, and the next one runs', async (_state, tasks) => {
  const flow = await executions.publish(tasks, { more: 'concurrency: { limit: 1 }\n' })
  const [first = '', second = '', third = ''] = await startInOrder(flow, 3)
  await executions.shown(first, 'waiting')
  await executions.send(first, 'cancel')
  expect(await executions.ended(first)).toMatchObject({ status: 'cancelled', output: null, error: null })
  await executions.shown(second, 'waiting')
  expect((await executions.read(third)).queue).toMatchObject({ position: 1, running: 1 })
  for (const id of [third, second]) await executions.send(id, 'cancel')
})

test('running and queued executions are cancelled beside a rerun: never more than the limit run, the queued one never does', async () => {
  const wait = "  - w: { wait: '${ .ms }' }"
  const flow = await executions.publish(wait, { more: 'concurrency: { limit: 2 }\n' })
  const faulted = await executions.start(flow, { input: { ms: 'soon' } })
  await executions.shown(faulted, 'faulted')
  const ids = await startInOrder(flow, 6, { ms: 'PT1S' })
  const [first = '', last = ''] = [ids[0], ids[5]]
  await executions.shown(first, 'waiting')
  await Promise.all([
    executions.send(first, 'cancel'),
    executions.send(last, 'cancel'),
    executions.send(faulted, 'rerun'),
  ])
  let maxAdmitted = 0
  await eventually(async () => {
    const [row] = await asSuperuser<{ open: number; admitted: number }>(
      `with flow as (select flow_id as id from tenon.executions where id = $1)
      select (select count(*)::int from tenon.executions where flow_id = flow.id and ended_at is null) as open,
        (select count(*)::int from tenon.run_slots where owner_id = flow.id and state = 'admitted') as admitted
      from flow`,
      [faulted],
    )
    maxAdmitted = Math.max(maxAdmitted, row?.admitted ?? 0)
    return row?.open === 0 ? true : undefined
  }, 60_000)
  expect(maxAdmitted).toBe(2)
  expect(await executions.read(last)).toMatchObject({ status: 'cancelled', steps: [] })
})
