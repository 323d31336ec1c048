/** Events with any JSON value, and streams that are opened with positions of others or forged ones. */

import { afterEach, beforeAll, expect, test } from 'vitest'
import { Caller, expectStatus, get, pause, Stream } from '../../support/clients/rest-client.ts'
import {
  createTenantPair,
  expectIsolated,
  expectUnaffected,
  type World,
} from '../../support/fixtures/tenant-pair.ts'

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
