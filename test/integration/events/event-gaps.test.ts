/** Events that a stream drops before a trigger or an execution consumes them: it reports the gap. */

import { setTimeout } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import type { TenantId, WorkspaceId } from '../../../src/core/tenant.ts'
import { changesOf, eventsOf, timeOf } from '../../../src/infra/valkey/streams.ts'
import { FlowRunner } from '../../conformance/flows/flow-runner.ts'
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
import { stopwatch } from '../../support/stopwatch.ts'

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

const lastOf = async (key: string) => (await redis.xrevrange(key, '+', '-', 'COUNT', 1))[0]?.[0]

/** How far what executions of the workspace wait for was delivered. */
async function consumedOf({ workspaceId }: TestWorkspace): Promise<string | undefined> {
  const [row] = await asSuperuser<{ events_offset: string }>(
    'select events_offset from tenon.subscription_offsets where workspace_id = $1',
    [workspaceId],
  )
  return row?.events_offset
}

/** Waits until the trigger has consumed its whole stream. */
const waitUntilConsumed = (
  flow: Published,
  key: string,
  offset: 'events_offset' | 'changes_offset' = 'events_offset',
) =>
  eventually(async () => {
    const last = await lastOf(key)
    const [row] = await asSuperuser<{ consumed: string }>(
      `select ${offset} as consumed from tenon.trigger_states where trigger_id = $1`,
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
})

test('event trigger on changes: far behind, entries dropped: reports a gap', async () => {
  const workspace = await createTestWorkspace()
  const key = changesOf(refOf(workspace))
  const flow = await publishOn(workspace, '{ one: { with: { type: collections.far.created } } }')
  const make = (n: number) =>
    call('POST', '/v1/collections/far/documents', { as: workspace.service, body: { n } })
  await make(1)
  await ended(flow, 1)
  // Start and end of the execution are in the stream as well; the trigger has passed them before it falls behind.
  await eventually(async () =>
    JSON.stringify(await redis.xrange(key, '-', '+')).includes('platform.execution.completed')
      ? true
      : undefined,
  )
  await waitUntilConsumed(flow, key, 'changes_offset')
  const before = await redis.xlen(key)
  await blockStarts(workspace)
  for (const n of [2, 3, 4]) await make(n)
  await eventually(async () => ((await redis.xlen(key)) === before + 3 ? true : undefined))
  const times = (await redis.xrange(key, '-', '+')).map(([id]) => timeOf(id))
  const [consumed, last] = [times[before - 1], times.at(-1)]
  await dropAllButLast(key, before + 3)
  await allowStarts(workspace)
  await ended(flow, 2)
  expect((await inputsOf(flow)).at(-1)).toMatchObject([{ document: { n: 4 } }])
  const { from, to } = await gapOf(workspace, flow)
  expect([from, to].map((time) => Date.parse(time))).toEqual([consumed, last])
})

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
})

describe('execution that listens', () => {
  let workspace: TestWorkspace
  let runner: FlowRunner
  let events: string
  beforeEach(async () => {
    workspace = await createTestWorkspace()
    runner = new FlowRunner(workspace, inject('tenon'))
    events = eventsOf(refOf(workspace).tenantId)
  })

  const start = async (tasks: string) => {
    const name = unique('listens')
    const head = `document: { dsl: '1.0.3', namespace: test, name: ${name}, version: '1.0.0' }`
    await runner.publish(name, `${head}\ndo:\n${tasks}`)
    const { id } = await runner.start(name, {})
    await eventually(async () => ((await read(id)).status === 'waiting' ? true : undefined))
    return id as string
  }
  const read = async (id: string) => (await runner.call('GET', `${workspace.flows}/executions/${id}`)).body
  const endWait = async (id: string) =>
    expect((await runner.call('POST', `${workspace.flows}/executions/${id}/skip-step`, {})).status).toBe(200)
  const listens = (type: string) => `  - one: { listen: { to: { one: { with: { type: ${type} } } } } }\n`
  const REST = '  - rest: { wait: PT1H }\n'

  test('events dropped between its start and the `listen`: it takes what is left, and reports the gap', async () => {
    const topic = unique('early')
    const id = await start(REST + listens(topic))
    expect((await read(id)).event_gap).toBeNull()
    const startedMs = Date.parse((await read(id)).started_at)
    for (const n of [1, 2, 3]) await emitAt(workspace, topic, { n })
    await redis.xtrim(events, 'MAXLEN', 1)
    await endWait(id)
    const { output, event_gap: gap } = await runner.ended(id)
    const [[last = '0'] = []] = await redis.xrange(events, '-', '+')
    expect(output).toEqual([{ n: 3 }])
    expect(Date.parse(gap.to)).toBe(timeOf(last))
    expect(Date.parse(gap.from)).toBeLessThanOrEqual(startedMs)
  })

  test('events that were there when it began to listen: no gap', async () => {
    const topic = unique('whole')
    await emitAt(workspace, topic, { n: 'before the start' })
    const id = await start(REST + listens(topic))
    for (const n of [1, 2]) await emitAt(workspace, topic, { n })
    await endWait(id)
    expect(await runner.ended(id)).toMatchObject({ output: [{ n: 1 }], event_gap: null })
  })

  test('events dropped before they were delivered: those that wait for the stream report the gap, no others', async () => {
    const topic = unique('late')
    const [waits, other] = [await start(listens(topic)), await start(listens('collections.none.created'))]
    await emitAt(workspace, unique('other'), {})
    const [[first = ''] = []] = await redis.xrange(events, '-', '+')
    for (const n of [1, 2]) await emitAt(workspace, unique('other'), { n })
    // Else the consumer could write its position after this test has set it back.
    await eventually(async () =>
      (await consumedOf(workspace)) === (await lastOf(events)) ? true : undefined,
    )
    await redis.xtrim(events, 'MAXLEN', 1)
    // As a consumer that was not there in between finds them.
    await asSuperuser('update tenon.subscription_offsets set events_offset = $1 where workspace_id = $2', [
      first,
      workspace.workspaceId,
    ])
    await emitAt(workspace, unique('other'), {})
    const { event_gap: gap } = await eventually(async () => {
      const run = await read(waits)
      return run.event_gap === null ? undefined : run
    })
    expect(Date.parse(gap.from)).toBe(timeOf(first))
    expect((await read(other)).event_gap).toBeNull()
    await emitAt(workspace, topic, { n: 3 })
    expect(await runner.ended(waits)).toMatchObject({ output: [{ n: 3 }], event_gap: gap })
  })

  test.each([
    ['of other types', 'other'],
    ['of its type, for other executions', undefined],
  ])(
    'ten thousand events between its start and the `listen`, %s: hears its own within seconds',
    async (_, other) => {
      const topic = unique('many')
      const correlate = "correlate: { order: { from: .data.order, expect: '${ 9999 }' } }"
      const id = await start(
        `${REST}  - one: { listen: { to: { one: { with: { type: ${topic} }, ${correlate} } } } }\n`,
      )
      const source = `/workspaces/${workspace.workspaceId}`
      const pipeline = redis.pipeline()
      for (let n = 0; n < 10_000; n++) {
        const type = n === 9_999 ? topic : (other ?? topic)
        const event = {
          specversion: '1.0',
          id: `e${n}`,
          source,
          type,
          data: { order: n, text: 'x'.repeat(200) },
        }
        pipeline.xadd(events, '*', 'topic', type, 'source', source, 'event', JSON.stringify(event))
      }
      await pipeline.exec()
      const elapsedMs = stopwatch()
      await endWait(id)
      const { output, event_gap: gap } = await runner.ended(id)
      expect([output[0].order, gap]).toEqual([9_999, null])
      expect(elapsedMs()).toBeLessThan(10_000)
    },
  )
})
