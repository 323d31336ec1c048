/** Events through the API: heard by the tenant alone, in order, again from where one left off. */

import { afterEach, describe, expect, test } from 'vitest'
import { hear, heardAtLeast, messages, stopHearing } from '../../support/clients/sse.ts'
import { aRoom, aWorkspace, call, type Room } from '../../support/fixtures/tenants.ts'

afterEach(stopHearing)

const publish = (room: Room, topic: string, data: unknown) =>
  call('POST', '/v1/events/publish', { as: room.service, body: { topic, data } })

test('an event is heard as a CloudEvent, by an anon key in the query as well', async () => {
  const room = await aRoom()
  const [byHeader, byQuery] = await Promise.all([
    hear(room.service, 'topic=orders.created'),
    hear({}, `topic=orders.*&apikey=${room.anon['apikey']}`),
  ])
  const sent = await publish(room, 'orders.created', { n: 1 })
  expect(sent.status).toBe(202)
  for (const heard of [byHeader, byQuery]) {
    const [event] = await heardAtLeast(heard, 1)
    expect(event?.data).toEqual({
      specversion: '1.0',
      id: sent.body.id,
      source: `/workspaces/${room.workspaceId}`,
      type: 'orders.created',
      topic: 'orders.created',
      time: sent.body.time,
      datacontenttype: 'application/json',
      data: { n: 1 },
    })
    expect(event?.id).toMatch(/^\d+-\d+$/)
  }
})

test('tenants are walled off; workspaces of one tenant hear each other unless they ask not to', async () => {
  const [room, stranger] = await Promise.all([aRoom(), aRoom()])
  const sibling = await aWorkspace(room)
  const [own, brother, narrow, foreign] = await Promise.all([
    hear(room.service, 'topic=news'),
    hear(sibling.service, 'topic=news'),
    hear(sibling.service, 'topic=news&workspace=self'),
    hear(stranger.service, 'topic=news'),
  ])
  await publish(room, 'news', 'ours')
  await publish(stranger, 'news', 'theirs')
  await heardAtLeast(own, 1)
  await heardAtLeast(brother, 1)
  expect((await heardAtLeast(foreign, 1)).map(({ data }) => data.data)).toEqual(['theirs'])
  expect(messages(own).map(({ data }) => data.data)).toEqual(['ours'])
  expect(messages(narrow)).toEqual([])
})

test('three hundred events come in order, all of them, and again after the one last seen', async () => {
  const room = await aRoom()
  const heard = await hear(room.service, 'topic=count')
  for (let n = 0; n < 300; n++) await publish(room, 'count', n)
  const all = await heardAtLeast(heard, 300)
  expect(all.map(({ data }) => data.data)).toEqual(Array.from({ length: 300 }, (_, n) => n))
  const again = await hear(room.service, 'topic=count', { 'last-event-id': all[199]?.id ?? '' })
  await publish(room, 'count', 300)
  expect((await heardAtLeast(again, 101)).map(({ data }) => data.data)).toEqual(
    Array.from({ length: 101 }, (_, n) => 200 + n),
  )
})

describe('what is refused', () => {
  test('a service key in the URL, a key in the URL of another route', async () => {
    const room = await aRoom()
    const service = await call('GET', `/v1/events/subscribe?topic=a&apikey=${room.service['apikey']}`)
    expect([service.status, service.body.code]).toEqual([401, 'service_key_in_query'])
    const other = await call('GET', `/v1/collections/a/documents?apikey=${room.anon['apikey']}`)
    expect([other.status, other.body.code]).toEqual([401, 'service_key_in_query'])
  })

  test.each([
    [{ topic: 'a.*', data: 1 }, 400],
    [{ topic: '', data: 1 }, 400],
    [{ topic: 'a..b', data: 1 }, 400],
    [{ topic: 'platform.x', data: 1 }, 400],
    [{ topic: 'collections.todos.created', data: 1 }, 400],
    [{ topic: 'a' }, 400],
    [{ topic: 'a', data: 'x'.repeat(300_000) }, 413],
  ])('publishing %j', async (body, status) => {
    const room = await aRoom()
    expect((await call('POST', '/v1/events/publish', { as: room.service, body })).status).toBe(status)
  })

  test('an anon key does not publish; a topic with a wild card in the middle is none', async () => {
    const room = await aRoom()
    expect(
      (await call('POST', '/v1/events/publish', { as: room.anon, body: { topic: 'a', data: 1 } })).status,
    ).toBe(403)
    expect((await call('GET', '/v1/events/subscribe?topic=a.*.b', { as: room.anon })).status).toBe(400)
    expect((await call('GET', '/v1/events/subscribe', { as: room.anon })).status).toBe(400)
  })
})
