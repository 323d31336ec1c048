/** Checks events: publish, subscribe, replay, tenant isolation. */

import { afterEach, beforeAll, expect, test } from 'vitest'
import { Caller, expectProblem, expectStatus, get, pause, Stream, str } from '../../support/clients/rest-client.ts'
import { createTenantPair, expectIsolated, expectUnaffected, type World } from '../../support/fixtures/tenant-pair.ts'

let world: World
const streams: Stream[] = []

beforeAll(async () => {
  world = await createTenantPair()
})

afterEach(() => {
  for (const stream of streams.splice(0)) stream.close()
})

/** Subscribes as a browser does, with the anon key in the query, and waits until the stream is ready. */
async function subscribe(
  who: 'a' | 'b',
  topic: string,
  headers: Record<string, string> = {},
): Promise<Stream> {
  const { anonKey, transcript } = world[who]
  const path = `/v1/events/subscribe?topic=${topic}&apikey=${anonKey}`
  const stream = await Stream.open(path, new Caller({}, transcript), headers)
  streams.push(stream)
  await stream.next(({ event }) => event === 'ready')
  return stream
}

function publish(who: 'a' | 'b', topic: string, data: unknown) {
  return world[who].service.post('/v1/events/publish', { topic, data })
}

const hasNumber = (n: number) => (frame: { event: string; data: unknown }) =>
  frame.event === 'message' && get(frame.data, 'data/n') === n

test('publish: valid event: 202 with id, topic and time', async () => {
  const reply = await publish('a', 'orders.created', { mark: world.a.mark })
  expectStatus(reply, 202)
  expect(reply.body).toMatchObject({
    id: expect.stringMatching(/\S/),
    topic: 'orders.created',
    time: expect.stringMatching(/Z$/),
  })
})

test('subscribe: anon key in ?apikey=: ready event', async () => {
  const stream = await subscribe('a', 'ready')
  expect(stream.reply.status).toBe(200)
  expect(stream.reply.headers.get('content-type')).toMatch(/^text\/event-stream/)
  expect(stream.reply.headers.get('cache-control')).toMatch(/no-store/)
  expect(get((await stream.next(({ event }) => event === 'ready')).data, 'topic')).toBe('ready')
})

test('event: delivered: a CloudEvent with id, topic, time and data', async () => {
  const stream = await subscribe('a', 'envelope')
  expectStatus(await publish('a', 'envelope', { n: 1, mark: world.a.mark }), 202)
  const received = await stream.next(hasNumber(1))
  expect(received.id).toMatch(/\S/)
  expect(received.data).toMatchObject({
    specversion: '1.0',
    id: expect.any(String),
    source: expect.stringContaining(world.a.workspace),
    type: 'envelope',
    topic: 'envelope',
    time: expect.stringMatching(/Z$/),
    data: { n: 1, mark: world.a.mark },
  })
})

test.each([[null], [false], [0], ['text'], [[1, 2]]])(
  'event: data %j: any JSON value is delivered',
  async (data) => {
    const topic = `any-${typeof data}-${Array.isArray(data)}`
    const stream = await subscribe('a', topic)
    expectStatus(await publish('a', topic, data), 202)
    const received = await stream.next(({ event }) => event === 'message')
    expect(get(received.data, 'data')).toEqual(data)
  },
)

test('events: one topic: in order', async () => {
  const stream = await subscribe('a', 'ordered')
  for (let n = 1; n <= 12; n++) expectStatus(await publish('a', 'ordered', { n }), 202)
  await stream.next(hasNumber(12))
  expect(stream.messages().map(({ data }) => get(data, 'data/n'))).toEqual(
    [...Array(12).keys()].map((n) => n + 1),
  )
})

test('replay: Last-Event-ID: everything after it', async () => {
  const first = await subscribe('a', 'replayed')
  for (const n of [1, 2, 3]) expectStatus(await publish('a', 'replayed', { n, mark: world.a.mark }), 202)
  const one = await first.next(hasNumber(1))
  await first.next(hasNumber(3))
  first.close()
  const again = await subscribe('a', 'replayed', { 'last-event-id': one.id ?? '' })
  await again.next(hasNumber(3))
  expect(again.messages().map(({ data }) => get(data, 'data/n'))).toEqual([2, 3])
})

test('subscription: another topic: not delivered', async () => {
  const stream = await subscribe('a', 'mine')
  await publish('a', 'other', { n: 1 })
  await publish('a', 'mine', { n: 2 })
  await stream.next(hasNumber(2))
  expect(stream.messages()).toHaveLength(1)
})

test('subscription: same topic in another tenant: not delivered', async () => {
  const [streamA, streamB] = [await subscribe('a', 'shared'), await subscribe('b', 'shared')]
  expectStatus(await publish('a', 'shared', { n: 1, mark: world.a.mark }), 202)
  await streamA.next(hasNumber(1))
  expectStatus(await publish('b', 'shared', { n: 2 }), 202)
  await streamB.next(hasNumber(2))
  expect(streamB.messages()).toHaveLength(1)
})

test('event of another workspace: service key: delivered with its workspace; anon key: not delivered', async () => {
  const { a } = world
  const sent = { tenant_id: a.tenant, name: 'Second', slug: 'second' }
  const made = await a.admin.post('/v1/workspaces', sent, { prefer: 'wait=30' })
  const key = await a.admin.post('/v1/api-keys', {
    workspace_id: str(made, 'id'),
    kind: 'service',
    name: 'second',
  })
  const anon = await subscribe('a', 'tenantwide')
  const stream = await Stream.open('/v1/events/subscribe?topic=tenantwide', a.service)
  streams.push(stream)
  await stream.next(({ event }) => event === 'ready')
  const second = new Caller({ apikey: str(key, 'key') })
  expectStatus(await second.post('/v1/events/publish', { topic: 'tenantwide', data: { n: 1 } }), 202)
  const received = await stream.next(hasNumber(1))
  expect(str(received.data, 'source')).toContain(str(made, 'id'))
  expectStatus(await publish('a', 'tenantwide', { n: 2 }), 202)
  await anon.next(hasNumber(2))
  expect(anon.messages()).toHaveLength(1)
})

test('subscribe: no topic: problem', async () => {
  expectProblem(await world.a.service.get('/v1/events/subscribe'), 400)
})

test('publish: topic of the platform: refused', async () => {
  const reply = await publish('a', 'platform.tenant.created', {})
  expect(reply.status).toBeGreaterThanOrEqual(400)
  expectProblem(reply, reply.status)
})

test('publish: 300 KB: 413, not delivered', async () => {
  const stream = await subscribe('a', 'large')
  expectProblem(await publish('a', 'large', 'x'.repeat(300 * 1024)), 413)
  expectStatus(await publish('a', 'large', { n: 1 }), 202)
  await stream.next(hasNumber(1))
  expect(stream.messages()).toHaveLength(1)
  await expectUnaffected(world)
})

test('replay: Last-Event-ID of another tenant: nothing of that tenant', async () => {
  const stream = await subscribe('a', 'foreign')
  await publish('a', 'foreign', { n: 1, mark: world.a.mark })
  await publish('a', 'foreign', { n: 2, mark: world.a.mark })
  const { id } = await stream.next(hasNumber(1))
  const path = `/v1/events/subscribe?topic=foreign&apikey=${world.b.anonKey}`
  const otherStream = await Stream.open(path, new Caller({}, world.b.transcript), {
    'last-event-id': id ?? '',
  })
  streams.push(otherStream)
  // Assumption: a foreign id is refused (400) or answered with `ready` or `gap`; neither shows anything of A.
  if (otherStream.reply.status === 200) {
    await otherStream.next(({ event }) => event === 'ready' || event === 'gap')
    expectStatus(await publish('b', 'foreign', { n: 9 }), 202)
    await otherStream.next(hasNumber(9))
    expect(otherStream.messages()).toHaveLength(1)
  } else {
    expect(otherStream.reply.status).toBe(400)
    expect(otherStream.reply.headers.get('content-type')).toMatch(/problem\+json/)
    await pause(100)
  }
  await expectUnaffected(world)
})

test.each(['garbage', '0-0', '-1', '%00', 'x'.repeat(4000)])(
  'replay: forged Last-Event-ID (%#): harmless',
  async (id) => {
    const path = `/v1/events/subscribe?topic=forged&apikey=${world.b.anonKey}`
    const stream = await Stream.open(path, new Caller({}, world.b.transcript), { 'last-event-id': id })
    streams.push(stream)
    expect([200, 400, 410]).toContain(stream.reply.status)
    await expectUnaffected(world)
  },
)

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
