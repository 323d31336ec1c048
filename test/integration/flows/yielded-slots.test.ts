// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Executions that give their place back while they wait (`holdWhileWaiting: false`), and queue before they go on. */

import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { reacquireSlot, yieldSlot } from '../../../src/features/flows/executions/concurrency.ts'
import { Runs } from '../../support/fixtures/executions.ts'
import { resumeWorkspace, suspendWorkspace } from '../../support/fixtures/suspension.ts'
import { aRoom, asSuperuser, call, eventually, type Room } from '../../support/fixtures/tenants.ts'
import { openInside, scopeOf } from '../../support/stack/in-process-platform.ts'

const LISTEN = '  - heard: { listen: { to: { one: { with: { type: go } } } } }\n'

/** Holds up whoever asks until it is let go, and counts. */
let server: Server
let held: ServerResponse[] = []
let isOpen = false
let under = 0
let most = 0
let room: Room
let runs: Runs

beforeAll(async () => {
  server = createServer((_request, reply) => {
    most = Math.max(most, ++under)
    reply.on('close', () => {
      under -= 1
    })
    reply.setHeader('content-type', 'application/json')
    if (isOpen) setTimeout(() => reply.end('{}'), 20)
    else held.push(reply)
  }).listen(0, '127.0.0.1')
  room = await aRoom()
  runs = new Runs(room)
  await letOut(room)
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})
beforeEach(() => {
  isOpen = false
  held = []
  most = 0
})

const place = () => `127.0.0.1:${(server.address() as AddressInfo).port}`
const asking = (name: string, more = '') =>
  `  - ${name}: { call: http, with: { method: post, endpoint: 'http://${place()}/${name}' }${more} }\n`

async function letOut({ workspaceId, operator: as }: Room): Promise<void> {
  const body = { workspace_id: workspaceId, egress: { allow: [place()] } }
  expect((await call('POST', '/v1/services/configure', { as, body })).status).toBe(200)
}

/** Lets everybody go who has asked, and whoever asks from now on. */
function open(): void {
  isOpen = true
  for (const reply of held.splice(0)) reply.end('{}')
}

const published = (tasks: string, more = '', of = runs) =>
  of.publish(tasks, { more: `concurrency: { limit: 1, holdWhileWaiting: false${more} }\n` })
const go = (id: string, of = runs) => of.send(id, 'signal', { event: { type: 'go' } })
const asked = (count: number) => eventually(async () => (held.length === count ? true : undefined))

async function placeOf(id: string) {
  const [row] = await asSuperuser<{ state: string; generation: number; notify_pending: boolean }>(
    'select state, generation, notify_pending from tenon.concurrency_slots where execution_id = $1',
    [id],
  )
  return row
}
const stands = (id: string, state: string) =>
  eventually(async () => ((await placeOf(id))?.state === state ? true : undefined))

/** One that has left its place, and one that has it and asks the server. */
async function awayAndAsking(
  flow: string,
  [first, second]: readonly object[] = [],
): Promise<[away: string, asking: string]> {
  const away = await runs.start(flow, { input: first })
  await stands(away, 'yielded')
  const other = await runs.start(flow, { input: second })
  await runs.shown(other, 'waiting')
  await go(other)
  await asked(1)
  return [away, other]
}

describe('an execution that waits', () => {
  test('gives its place back, and goes on with another where there is one', async () => {
    const flow = await published(LISTEN + asking('after'))
    const first = await runs.start(flow)
    await stands(first, 'yielded')
    const second = await runs.start(flow)
    await stands(second, 'yielded')
    await go(first)
    await asked(1)
    expect(await placeOf(first)).toEqual({ state: 'admitted', generation: 1, notify_pending: false })
    open()
    expect(await runs.ended(first)).toMatchObject({ status: 'completed' })
    await go(second)
    expect(await runs.ended(second)).toMatchObject({ status: 'completed' })
    expect([await placeOf(first), await placeOf(second)]).toEqual([undefined, undefined])
  })

  test('queues where there is none: it stands still until there is, and goes before who has not begun', async () => {
    const limited = asking('after', ', timeout: { after: "${ $workflow.input.limit }" }')
    const flow = await published(LISTEN + limited, ', onLimit: queue')
    const [back, busy] = await awayAndAsking(flow, [{ limit: 'PT2S' }, { limit: 'PT1M' }])
    const fresh = await runs.start(flow, { input: { limit: 'PT1M' } })
    await go(back)
    await stands(back, 'requeued')
    const shown = await runs.read(back)
    expect(shown).toMatchObject({
      status: 'waiting',
      queue: { position: 1, limit: 1, running: 1, key: '' },
    })
    expect((await runs.read(fresh)).queue).toMatchObject({ position: 2 })
    // Longer than its limit of time, which stands still with it.
    await new Promise((done) => setTimeout(done, 2_500))
    expect(held).toHaveLength(1)
    held.pop()?.end('{}')
    await runs.ended(busy)
    await asked(1)
    expect([(await placeOf(back))?.state, (await placeOf(fresh))?.state]).toEqual(['admitted', 'queued'])
    expect(await runs.read(back)).not.toHaveProperty('queue')
    await eventually(async () => ((await placeOf(back))?.notify_pending === false ? true : undefined))
    open()
    expect(await runs.ended(back)).toMatchObject({ status: 'completed' })
    await runs.shown(fresh, 'waiting')
    await go(fresh)
    await runs.ended(fresh)
  })

  test('keeps it where it does not wait for long, or only for another flow', async () => {
    const child = await runs.publish(LISTEN)
    const flow = await published(
      `  - rest: { wait: { milliseconds: 50 } }\n  - sub: { run: { workflow: { namespace: n, name: ${child} } } }\n`,
    )
    const id = await runs.start(flow)
    const [inner] = await eventually(async () => {
      const path = `${room.flows}/executions?flow=${child}&status=waiting`
      const { body } = await call('GET', path, { as: room.operator })
      return body.data.length > 0 ? body.data : undefined
    })
    await new Promise((done) => setTimeout(done, 1_500))
    expect(await placeOf(id)).toMatchObject({ state: 'admitted', generation: 0 })
    await go(inner.id)
    expect(await runs.ended(id)).toMatchObject({ status: 'completed' })
  })

  test('queues, and is neither refused nor cancels anybody, where one more that begins would', async () => {
    for (const onLimit of ['refuse', 'cancel_running']) {
      isOpen = false
      const flow = await published(LISTEN + asking('after'), `, onLimit: ${onLimit}`)
      const [back, busy] = await awayAndAsking(flow)
      await go(back)
      await stands(back, 'requeued')
      open()
      for (const id of [back, busy]) expect(await runs.ended(id)).toMatchObject({ status: 'completed' })
    }
  })
})

describe('one that queues to go on', () => {
  test('can be cancelled, and what it undoes needs a place too', async () => {
    const undoing = asking(
      'before',
      ', compensate: [ { undo: { call: http, with: { method: post, endpoint: URL } } } ]',
    )
    const flow = await published(
      undoing.replace('URL', `'http://${place()}/undo'`) + LISTEN + asking('after'),
    )
    const back = await runs.start(flow)
    await asked(1)
    held.pop()?.end('{}')
    await stands(back, 'yielded')
    const busy = await runs.start(flow)
    await asked(1)
    await go(back)
    await stands(back, 'requeued')
    await runs.send(back, 'cancel')
    await new Promise((done) => setTimeout(done, 500))
    expect((await runs.read(back)).ended_at).toBeNull()
    // It rests when it has asked: then its place is free.
    open()
    expect(await runs.ended(back)).toMatchObject({ status: 'cancelled' })
    await go(busy)
    await runs.ended(busy)
    expect(await placeOf(back)).toBeUndefined()
  })

  test('waits while its workspace is suspended, though a place is free, and goes on when it is resumed', async () => {
    const own = await aRoom()
    await letOut(own)
    const theirs = new Runs(own)
    isOpen = true
    const id = await theirs.start(await published(LISTEN + asking('after'), '', theirs))
    await stands(id, 'yielded')
    await suspendWorkspace(own, own.operator)
    await theirs.shown(id, 'suspended')
    await asSuperuser("update tenon.concurrency_slots set state = 'requeued' where execution_id = $1", [id])
    await new Promise((done) => setTimeout(done, 1_500))
    expect((await placeOf(id))?.state).toBe('requeued')
    await resumeWorkspace(own, own.operator)
    await stands(id, 'admitted')
    await go(id, theirs)
    expect(await theirs.ended(id)).toMatchObject({ status: 'completed' })
  })

  test('is told again where whoever gave it its place died before it was told', async () => {
    const flow = await published(LISTEN + asking('after'))
    const [back, busy] = await awayAndAsking(flow)
    await go(back)
    await stands(back, 'requeued')
    await asSuperuser(
      `update tenon.concurrency_slots set state = 'admitted', notify_pending = true, checked_at = now() - interval '1 minute'
        where execution_id = $1`,
      [back],
    )
    await asked(2)
    await eventually(async () => ((await placeOf(back))?.notify_pending === false ? true : undefined))
    open()
    for (const id of [back, busy]) await runs.ended(id)
  })
})

test('what is said too late of a place, in a turn before, changes nothing', async () => {
  const flow = await published(LISTEN + asking('after'))
  const id = await runs.start(flow)
  await stands(id, 'yielded')
  const platform = openInside()
  try {
    const scope = scopeOf(platform, room)
    // It has come back twice since, and has not heard of the second time.
    await asSuperuser(
      "update tenon.concurrency_slots set state = 'admitted', generation = 3, notify_pending = true, checked_at = now() + interval '1 hour' where execution_id = $1",
      [id],
    )
    await reacquireSlot(scope, { execution_id: id, turn: 1, at_once: false })
    await yieldSlot(scope, { execution_id: id, turn: 2 })
    expect(await placeOf(id)).toEqual({ state: 'admitted', generation: 3, notify_pending: true })
  } finally {
    await platform.close()
  }
  expect((await runs.send(id, 'cancel')).status).toBe(202)
  await runs.ended(id)
})

test('never do more ask at once than may, however often they wait; and all of them end', async () => {
  isOpen = true
  const wait = (name: string) => `  - ${name}: { wait: { milliseconds: 600 } }\n`
  const lines = asking('a') + wait('b') + asking('c') + wait('d') + asking('e')
  const flow = await runs.publish(lines, { more: 'concurrency: { limit: 3, holdWhileWaiting: false }\n' })
  const ids = await Promise.all(Array.from({ length: 15 }, () => runs.start(flow)))
  const ended = await Promise.all(
    ids.map((id) =>
      eventually(async () => {
        const run = await runs.read(id)
        return run.ended_at === null ? undefined : run.status
      }, 80_000),
    ),
  )
  expect(new Set(ended)).toEqual(new Set(['completed']))
  expect(most).toBeGreaterThan(1)
  expect(most).toBeLessThanOrEqual(3)
}, 100_000)
