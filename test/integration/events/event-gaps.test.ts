/** Events that a stream drops before a trigger consumes them: the trigger reports the gap. */

import { setTimeout } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import type { TenantId, WorkspaceId } from '../../../src/core/tenant.ts'
import { changesOf, eventsOf, timeOf } from '../../../src/infra/valkey/streams.ts'
import { emitAt, ended, type Published, publishOn, runsOf } from '../../support/fixtures/event-triggers.ts'
import { limit } from '../../support/fixtures/quotas.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let redis: Redis
beforeAll(() => {
  redis = new Redis(inject('tenon').env['REDIS_URL'] ?? '')
})
afterAll(() => redis.disconnect())

const refOf = ({ tenantId, workspaceId }: TestWorkspace) => ({
  tenantId: tenantId as TenantId,
  workspaceId: workspaceId as WorkspaceId,
})

/** While its quota is used up, events wait in their streams. */
const blockStarts = (workspace: TestWorkspace) => limit(workspace, { concurrent_executions: 0 })
const allowStarts = (workspace: TestWorkspace) => limit(workspace, { concurrent_executions: 10 })

/** Longer than an attempt of a consumer to start executions takes. */
const ATTEMPT_MS = 500

/** Drops all but the newest entry of a stream, as an overflow does. */
async function dropAllButLast(key: string, length: number): Promise<void> {
  await eventually(async () => ((await redis.xlen(key)) === length ? true : undefined))
  await redis.xtrim(key, 'MAXLEN', 1)
  // An attempt under way has read the dropped entries already: it has to be refused before starts are allowed again.
  await setTimeout(ATTEMPT_MS)
}

async function readTrigger(workspace: TestWorkspace, flow: Published) {
  const { body } = await call('GET', `${workspace.flows}/triggers`, { as: workspace.operator })
  return body.data.find(({ id }: { id: string }) => id === flow.triggerId)
}

const gapOf = (workspace: TestWorkspace, flow: Published) =>
  eventually(async () => (await readTrigger(workspace, flow)).gap as { from: string; to: string } | undefined)

/** Waits until the trigger has consumed its whole stream. */
const waitUntilConsumed = (
  flow: Published,
  key: string,
  offset: 'events_offset' | 'changes_offset' = 'events_offset',
) =>
  eventually(async () => {
    const [[last] = []] = await redis.xrevrange(key, '+', '-', 'COUNT', 1)
    const [row] = await asSuperuser<{ consumed: string }>(
      `select ${offset} as consumed from tenon.trigger_offsets where trigger_id = $1`,
      [flow.triggerId],
    )
    return row?.consumed === last ? true : undefined
  })

const inputsOf = async (flow: Published) => (await runsOf(flow)).map(({ input }) => input)

test('event trigger: first start after entries were dropped: reports a gap', async () => {
  const workspace = await createTestWorkspace()
  const topic = unique('first')
  const flow = await publishOn(workspace, `{ one: { with: { type: ${topic} } } }`)
  await blockStarts(workspace)
  for (const n of [1, 2, 3]) await emitAt(workspace, topic, { n })
  await dropAllButLast(eventsOf(refOf(workspace).tenantId), 3)
  const waiting = await readTrigger(workspace, flow)
  expect(waiting).not.toHaveProperty('gap')
  await allowStarts(workspace)
  await ended(flow, 1)
  expect(await inputsOf(flow)).toEqual([[{ n: 3 }]])
  const { from, to } = await gapOf(workspace, flow)
  expect(from).toBe(waiting.created_at)
  expect(Date.parse(to)).toBeGreaterThan(Date.parse(from))
  expect(Date.parse(to)).toBeLessThan(Date.now() + 1_000)
}, 60_000)

test('event trigger on changes: far behind, entries dropped: reports a gap', async () => {
  const workspace = await createTestWorkspace()
  const key = changesOf(refOf(workspace))
  const flow = await publishOn(workspace, '{ one: { with: { type: collections.far.created } } }')
  const make = (n: number) =>
    call('POST', '/v1/collections/far/documents', { as: workspace.service, body: { n } })
  await make(1)
  await ended(flow, 1)
  // The end of the execution is in the stream as well; the trigger has passed it before it falls behind.
  await eventually(async () => ((await redis.xlen(key)) === 2 ? true : undefined))
  await waitUntilConsumed(flow, key, 'changes_offset')
  await blockStarts(workspace)
  for (const n of [2, 3, 4]) await make(n)
  await eventually(async () => ((await redis.xlen(key)) === 5 ? true : undefined))
  const [, consumed, , , last] = (await redis.xrange(key, '-', '+')).map(([id]) => timeOf(id))
  await dropAllButLast(key, 5)
  await allowStarts(workspace)
  await ended(flow, 2)
  expect((await inputsOf(flow)).at(-1)).toMatchObject([{ document: { n: 4 } }])
  const { from, to } = await gapOf(workspace, flow)
  expect([from, to].map((time) => Date.parse(time))).toEqual([consumed, last])
}, 60_000)

test('event trigger: dropped entries already consumed, or trigger paused: no gap', async () => {
  const workspace = await createTestWorkspace()
  const key = eventsOf(refOf(workspace).tenantId)
  const topic = unique('heard')
  const on = `{ one: { with: { type: ${topic} } } }`
  const flow = await publishOn(workspace, on)
  for (const n of [1, 2]) await emitAt(workspace, topic, { n })
  await ended(flow, 2)
  await waitUntilConsumed(flow, key)
  await dropAllButLast(key, 2)
  await emitAt(workspace, topic, { n: 3 })
  await ended(flow, 3)
  await waitUntilConsumed(flow, key)
  expect(await readTrigger(workspace, flow)).not.toHaveProperty('gap')
  await blockStarts(workspace)
  for (const n of [4, 5, 6]) await emitAt(workspace, topic, { n })
  await dropAllButLast(key, 5)
  const path = `${workspace.flows}/triggers/${flow.triggerId}/pause`
  expect((await call('POST', path, { as: workspace.operator, body: {} })).body).not.toHaveProperty('gap')
  await waitUntilConsumed(flow, key)
  expect(await readTrigger(workspace, flow)).not.toHaveProperty('gap')
}, 60_000)
