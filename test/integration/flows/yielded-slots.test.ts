// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Executions that yield their slot while they wait (`holdWhileWaiting: false`) and queue before they continue. */

import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { reacquireSlot, yieldSlot } from '../../../src/features/flows/executions/concurrency.ts'
import { Runs } from '../../support/fixtures/executions.ts'
import { resumeWorkspace, suspendWorkspace } from '../../support/fixtures/suspension.ts'
import { aRoom, asSuperuser, call, eventually, type Room } from '../../support/fixtures/tenants.ts'
import { openInside, scopeOf } from '../../support/stack/in-process-platform.ts'

const LISTEN = '  - heard: { listen: { to: { one: { with: { type: go } } } } }\n'

/** A server that delays responses until `open`, and counts concurrent requests. */
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

/** Answers all pending requests, and later ones at once. */
function open(): void {
  isOpen = true
  for (const reply of held.splice(0)) reply.end('{}')
}

const published = (tasks: string, more = '', of = runs) =>
  of.publish(tasks, { more: `concurrency: { limit: 1, holdWhileWaiting: false${more} }\n` })
const go = (id: string, of = runs) => of.send(id, 'signal', { event: { type: 'go' } })
const asked = (count: number) => eventually(async () => (held.length === count ? true : undefined))

async function placeOf(id: string) {
  const [row] = await asSuperuser<{ state: string; turn: number; unheard: boolean }>(
    'select state, turn, unheard from tenon.admissions where execution_id = $1',
    [id],
  )
  return row
}
const stands = (id: string, state: string) =>
  eventually(async () => ((await placeOf(id))?.state === state ? true : undefined))

/** Starts an execution that has yielded its slot, and one that holds it and calls the server. */
async function awayAndAsking(
  flow: string,
  [first, second]: readonly object[] = [],
): Promise<[away: string, asking: string]> {
  const away = await runs.start(flow, { input: first })
  await stands(away, 'away')
  const other = await runs.start(flow, { input: second })
  await runs.shown(other, 'waiting')
  await go(other)
  await asked(1)
  return [away, other]
}

describe('waiting execution', () => {
  test('slot free when it continues: yields its slot, acquires another, completes', async () => {
    const flow = await published(LISTEN + asking('after'))
    const first = await runs.start(flow)
    await stands(first, 'away')
    const second = await runs.start(flow)
    await stands(second, 'away')
    await go(first)
    await asked(1)
    expect(await placeOf(first)).toEqual({ state: 'admitted', turn: 1, unheard: false })
    open()
    expect(await runs.ended(first)).toMatchObject({ status: 'completed' })
    await go(second)
    expect(await runs.ended(second)).toMatchObject({ status: 'completed' })
    expect([await placeOf(first), await placeOf(second)]).toEqual([undefined, undefined])
  })

  test('no slot free when it continues: queues ahead of new executions, its timeout does not run', async () => {
    const limited = asking('after', ', timeout: { after: "${ $workflow.input.limit }" }')
    const flow = await published(LISTEN + limited, ', onLimit: queue')
    const [back, busy] = await awayAndAsking(flow, [{ limit: 'PT2S' }, { limit: 'PT1M' }])
    const fresh = await runs.start(flow, { input: { limit: 'PT1M' } })
    await go(back)
    await stands(back, 'returning')
    const shown = await runs.read(back)
    expect(shown).toMatchObject({
      status: 'waiting',
      queue: { position: 1, limit: 1, running: 1, key: '' },
    })
    expect((await runs.read(fresh)).queue).toMatchObject({ position: 2 })
    // Longer than its timeout, which does not run while it queues.
    await new Promise((done) => setTimeout(done, 2_500))
    expect(held).toHaveLength(1)
    held.pop()?.end('{}')
    await runs.ended(busy)
    await asked(1)
    expect([(await placeOf(back))?.state, (await placeOf(fresh))?.state]).toEqual(['admitted', 'queued'])
    expect(await runs.read(back)).not.toHaveProperty('queue')
    await eventually(async () => ((await placeOf(back))?.unheard === false ? true : undefined))
    open()
    expect(await runs.ended(back)).toMatchObject({ status: 'completed' })
    await runs.shown(fresh, 'waiting')
    await go(fresh)
    await runs.ended(fresh)
  })

  test('short wait or wait for a subflow: keeps its slot', async () => {
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
    expect(await placeOf(id)).toMatchObject({ state: 'admitted', turn: 0 })
    await go(inner.id)
    expect(await runs.ended(id)).toMatchObject({ status: 'completed' })
  })

  test('onLimit is refuse or cancel_running: still queues when it continues, cancels no other', async () => {
    for (const onLimit of ['refuse', 'cancel_running']) {
      isOpen = false
      const flow = await published(LISTEN + asking('after'), `, onLimit: ${onLimit}`)
      const [back, busy] = await awayAndAsking(flow)
      await go(back)
      await stands(back, 'returning')
      open()
      for (const id of [back, busy]) expect(await runs.ended(id)).toMatchObject({ status: 'completed' })
    }
  })
})

describe('execution queued to continue', () => {
  test('cancelled: its compensation waits for a slot too', async () => {
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
    await stands(back, 'away')
    const busy = await runs.start(flow)
    await asked(1)
    await go(back)
    await stands(back, 'returning')
    await runs.send(back, 'cancel')
    await new Promise((done) => setTimeout(done, 500))
    expect((await runs.read(back)).ended_at).toBeNull()
    // The other execution waits after its call, which frees the slot.
    open()
    expect(await runs.ended(back)).toMatchObject({ status: 'cancelled' })
    await go(busy)
    await runs.ended(busy)
    expect(await placeOf(back)).toBeUndefined()
  })

  test('workspace suspended: stays queued despite a free slot, continues after resume', async () => {
    const own = await aRoom()
    await letOut(own)
    const theirs = new Runs(own)
    isOpen = true
    const id = await theirs.start(await published(LISTEN + asking('after'), '', theirs))
    await stands(id, 'away')
    await suspendWorkspace(own, own.operator)
    await theirs.shown(id, 'suspended')
    await asSuperuser("update tenon.admissions set state = 'returning' where execution_id = $1", [id])
    await new Promise((done) => setTimeout(done, 1_500))
    expect((await placeOf(id))?.state).toBe('returning')
    await resumeWorkspace(own, own.operator)
    await stands(id, 'admitted')
    await go(id, theirs)
    expect(await theirs.ended(id)).toMatchObject({ status: 'completed' })
  })

  test('crash before it was notified of its slot: notified again, continues', async () => {
    const flow = await published(LISTEN + asking('after'))
    const [back, busy] = await awayAndAsking(flow)
    await go(back)
    await stands(back, 'returning')
    await asSuperuser(
      `update tenon.admissions set state = 'admitted', unheard = true, checked_at = now() - interval '1 minute'
        where execution_id = $1`,
      [back],
    )
    await asked(2)
    await eventually(async () => ((await placeOf(back))?.unheard === false ? true : undefined))
    open()
    for (const id of [back, busy]) await runs.ended(id)
  })
})

test('slot message of an earlier generation: ignored', async () => {
  const flow = await published(LISTEN + asking('after'))
  const id = await runs.start(flow)
  await stands(id, 'away')
  const platform = openInside()
  try {
    const scope = scopeOf(platform, room)
    // It has reacquired its slot twice since, and the second grant is not yet acknowledged.
    await asSuperuser(
      "update tenon.admissions set state = 'admitted', turn = 3, unheard = true, checked_at = now() + interval '1 hour' where execution_id = $1",
      [id],
    )
    await reacquireSlot(scope, { execution_id: id, turn: 1, at_once: false })
    await yieldSlot(scope, { execution_id: id, turn: 2 })
    expect(await placeOf(id)).toEqual({ state: 'admitted', turn: 3, unheard: true })
  } finally {
    await platform.close()
  }
  expect((await runs.send(id, 'cancel')).status).toBe(202)
  await runs.ended(id)
})

test('15 executions with a limit of 3 that wait repeatedly: never more than 3 call at once, all complete', async () => {
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
