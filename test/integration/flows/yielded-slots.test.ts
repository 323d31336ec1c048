// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Executions that yield their slot while they wait (`holdWhileWaiting: false`) and queue before they continue. */

import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { EXECUTION } from '../../../src/features/flows/executions/concurrency.ts'
import { reacquireSlot, yieldSlot } from '../../../src/features/runs/slots.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { resumeWorkspace, suspendWorkspace } from '../../support/fixtures/suspension.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { openInProcessPlatform, scopeOf } from '../../support/stack/in-process-platform.ts'

const LISTEN = '  - heard: { listen: { to: { one: { with: { type: go } } } } }\n'

/** A server that delays responses until `answerAll` is called, and counts concurrent requests. */
let server: Server
let pendingReplies: ServerResponse[] = []
let repliesAtOnce = false
let inProgress = 0
let maxInProgress = 0
let workspace: TestWorkspace
let executions: Executions

beforeAll(async () => {
  server = createServer((_request, reply) => {
    maxInProgress = Math.max(maxInProgress, ++inProgress)
    reply.on('close', () => {
      inProgress -= 1
    })
    reply.setHeader('content-type', 'application/json')
    if (repliesAtOnce) setTimeout(() => reply.end('{}'), 20)
    else pendingReplies.push(reply)
  }).listen(0, '127.0.0.1')
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  await allowEgress(workspace)
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})
beforeEach(() => {
  repliesAtOnce = false
  pendingReplies = []
  maxInProgress = 0
})

const host = () => `127.0.0.1:${(server.address() as AddressInfo).port}`
const httpTask = (name: string, more = '') =>
  `  - ${name}: { call: http, with: { method: post, endpoint: 'http://${host()}/${name}' }${more} }\n`

async function allowEgress({ workspaceId, operator: as }: TestWorkspace): Promise<void> {
  const body = { workspace_id: workspaceId, egress: { allow: [host()] } }
  expect((await call('POST', '/v1/services/configure', { as, body })).status).toBe(200)
}

/** Answers all pending requests, and later ones at once. */
function answerAll(): void {
  repliesAtOnce = true
  for (const reply of pendingReplies.splice(0)) reply.end('{}')
}

const publishFlow = (tasks: string, more = '', of = executions) =>
  of.publish(tasks, { more: `concurrency: { limit: 1, holdWhileWaiting: false${more} }\n` })
const sendGo = (id: string, of = executions) => of.send(id, 'signal', { event: { type: 'go' } })
const callsWaiting = (count: number) =>
  eventually(async () => (pendingReplies.length === count ? true : undefined))

async function slotOf(id: string) {
  const [row] = await asSuperuser<{ state: string; generation: number; notify_pending: boolean }>(
    'select state, generation, notify_pending from tenon.run_slots where run_id = $1',
    [id],
  )
  return row
}
const reachesState = (id: string, state: string) =>
  eventually(async () => ((await slotOf(id))?.state === state ? true : undefined))

/** Starts an execution that has yielded its slot, and one that holds it and calls the server. */
async function startYieldedAndCalling(
  flow: string,
  [first, second]: readonly object[] = [],
): Promise<[away: string, httpTask: string]> {
  const away = await executions.start(flow, { input: first })
  await reachesState(away, 'yielded')
  const other = await executions.start(flow, { input: second })
  await executions.shown(other, 'waiting')
  await sendGo(other)
  await callsWaiting(1)
  return [away, other]
}

describe('waiting execution', () => {
  test('slot free when it continues: yields its slot, acquires another, completes', async () => {
    const flow = await publishFlow(LISTEN + httpTask('after'))
    const first = await executions.start(flow)
    await reachesState(first, 'yielded')
    const second = await executions.start(flow)
    await reachesState(second, 'yielded')
    await sendGo(first)
    await callsWaiting(1)
    expect(await slotOf(first)).toEqual({ state: 'admitted', generation: 1, notify_pending: false })
    answerAll()
    expect(await executions.ended(first)).toMatchObject({ status: 'completed' })
    await sendGo(second)
    expect(await executions.ended(second)).toMatchObject({ status: 'completed' })
    expect([await slotOf(first), await slotOf(second)]).toEqual([undefined, undefined])
  })

  test('no slot free when it continues: queues ahead of new executions, its timeout does not run', async () => {
    const limited = httpTask('after', ', timeout: { after: "${ $workflow.input.limit }" }')
    const flow = await publishFlow(LISTEN + limited, ', onLimit: queue')
    const [returning, busy] = await startYieldedAndCalling(flow, [{ limit: 'PT2S' }, { limit: 'PT1M' }])
    const fresh = await executions.start(flow, { input: { limit: 'PT1M' } })
    await sendGo(returning)
    await reachesState(returning, 'requeued')
    const execution = await executions.read(returning)
    expect(execution).toMatchObject({
      status: 'waiting',
      queue: { position: 1, limit: 1, running: 1, key: '' },
    })
    expect((await executions.read(fresh)).queue).toMatchObject({ position: 2 })
    // Longer than its timeout, which does not run while it queues.
    await new Promise((done) => setTimeout(done, 2_500))
    expect(pendingReplies).toHaveLength(1)
    pendingReplies.pop()?.end('{}')
    await executions.ended(busy)
    await callsWaiting(1)
    expect([(await slotOf(returning))?.state, (await slotOf(fresh))?.state]).toEqual(['admitted', 'queued'])
    expect(await executions.read(returning)).not.toHaveProperty('queue')
    await eventually(async () => ((await slotOf(returning))?.notify_pending === false ? true : undefined))
    answerAll()
    expect(await executions.ended(returning)).toMatchObject({ status: 'completed' })
    await executions.shown(fresh, 'waiting')
    await sendGo(fresh)
    await executions.ended(fresh)
  })

  test('short wait or wait for a subflow: keeps its slot', async () => {
    const child = await executions.publish(LISTEN)
    const flow = await publishFlow(
      `  - rest: { wait: { milliseconds: 50 } }\n  - sub: { run: { workflow: { namespace: n, name: ${child} } } }\n`,
    )
    const id = await executions.start(flow)
    const [inner] = await eventually(async () => {
      const path = `${workspace.flows}/executions?flow=${child}&status=waiting`
      const { body } = await call('GET', path, { as: workspace.operator })
      return body.data.length > 0 ? body.data : undefined
    })
    await new Promise((done) => setTimeout(done, 1_500))
    expect(await slotOf(id)).toMatchObject({ state: 'admitted', generation: 0 })
    await sendGo(inner.id)
    expect(await executions.ended(id)).toMatchObject({ status: 'completed' })
  })

  test('onLimit is refuse or cancel_running: still queues when it continues, cancels no other', async () => {
    for (const onLimit of ['refuse', 'cancel_running']) {
      repliesAtOnce = false
      const flow = await publishFlow(LISTEN + httpTask('after'), `, onLimit: ${onLimit}`)
      const [returning, busy] = await startYieldedAndCalling(flow)
      await sendGo(returning)
      await reachesState(returning, 'requeued')
      answerAll()
      for (const id of [returning, busy])
        expect(await executions.ended(id)).toMatchObject({ status: 'completed' })
    }
  })
})

describe('execution queued to continue', () => {
  test('cancelled: its compensation waits for a slot too', async () => {
    const undoing = httpTask(
      'before',
      ', compensate: [ { undo: { call: http, with: { method: post, endpoint: URL } } } ]',
    )
    const flow = await publishFlow(
      undoing.replace('URL', `'http://${host()}/undo'`) + LISTEN + httpTask('after'),
    )
    const returning = await executions.start(flow)
    await callsWaiting(1)
    pendingReplies.pop()?.end('{}')
    await reachesState(returning, 'yielded')
    const busy = await executions.start(flow)
    await callsWaiting(1)
    await sendGo(returning)
    await reachesState(returning, 'requeued')
    await executions.send(returning, 'cancel')
    await new Promise((done) => setTimeout(done, 500))
    expect((await executions.read(returning)).ended_at).toBeNull()
    // The other execution waits after its call, which frees the slot.
    answerAll()
    expect(await executions.ended(returning)).toMatchObject({ status: 'cancelled' })
    await sendGo(busy)
    await executions.ended(busy)
    expect(await slotOf(returning)).toBeUndefined()
  })

  test('workspace suspended: stays queued despite a free slot, continues after resume', async () => {
    const own = await createTestWorkspace()
    await allowEgress(own)
    const theirs = new Executions(own)
    repliesAtOnce = true
    const id = await theirs.start(await publishFlow(LISTEN + httpTask('after'), '', theirs))
    await reachesState(id, 'yielded')
    await suspendWorkspace(own, own.operator)
    await theirs.shown(id, 'suspended')
    await asSuperuser("update tenon.run_slots set state = 'requeued' where run_id = $1", [id])
    await new Promise((done) => setTimeout(done, 1_500))
    expect((await slotOf(id))?.state).toBe('requeued')
    await resumeWorkspace(own, own.operator)
    await reachesState(id, 'admitted')
    await sendGo(id, theirs)
    expect(await theirs.ended(id)).toMatchObject({ status: 'completed' })
  })

  test('crash before it was notified of its slot: notified again, continues', async () => {
    const flow = await publishFlow(LISTEN + httpTask('after'))
    const [returning, busy] = await startYieldedAndCalling(flow)
    await sendGo(returning)
    await reachesState(returning, 'requeued')
    await asSuperuser(
      `update tenon.run_slots set state = 'admitted', notify_pending = true, checked_at = now() - interval '1 minute'
        where run_id = $1`,
      [returning],
    )
    await callsWaiting(2)
    await eventually(async () => ((await slotOf(returning))?.notify_pending === false ? true : undefined))
    answerAll()
    for (const id of [returning, busy]) await executions.ended(id)
  })
})

test('slot message of an earlier generation: ignored', async () => {
  const flow = await publishFlow(LISTEN + httpTask('after'))
  const id = await executions.start(flow)
  await reachesState(id, 'yielded')
  const platform = openInProcessPlatform()
  try {
    const scope = scopeOf(platform, workspace)
    // It has reacquired its slot twice since, and the second grant is not yet acknowledged.
    await asSuperuser(
      "update tenon.run_slots set state = 'admitted', generation = 3, notify_pending = true, checked_at = now() + interval '1 hour' where run_id = $1",
      [id],
    )
    await reacquireSlot(scope, EXECUTION, { runId: id, generation: 1, atOnce: false })
    await yieldSlot(scope, EXECUTION, { runId: id, generation: 2 })
    expect(await slotOf(id)).toEqual({ state: 'admitted', generation: 3, notify_pending: true })
  } finally {
    await platform.close()
  }
  expect((await executions.send(id, 'cancel')).status).toBe(202)
  await executions.ended(id)
})

test('15 executions with a limit of 3 that wait repeatedly: never more than 3 call at once, all complete', async () => {
  repliesAtOnce = true
  const wait = (name: string) => `  - ${name}: { wait: { milliseconds: 600 } }\n`
  const lines = httpTask('a') + wait('b') + httpTask('c') + wait('d') + httpTask('e')
  const flow = await executions.publish(lines, {
    more: 'concurrency: { limit: 3, holdWhileWaiting: false }\n',
  })
  const ids = await Promise.all(Array.from({ length: 15 }, () => executions.start(flow)))
  const ended = await Promise.all(
    ids.map((id) =>
      eventually(async () => {
        const run = await executions.read(id)
        return run.ended_at === null ? undefined : run.status
      }, 80_000),
    ),
  )
  expect(new Set(ended)).toEqual(new Set(['completed']))
  expect(maxInProgress).toBeGreaterThan(1)
  expect(maxInProgress).toBeLessThanOrEqual(3)
})
