/** Events through the API: delivered within the tenant only, in order, and replayed from a position. */

import { afterEach, describe, expect, test } from 'vitest'
import {
  closeSubscriptions,
  messages,
  receivedAtLeast,
  subscribeToEvents,
} from '../../support/clients/sse.ts'
import {
  addTestWorkspace,
  call,
  createTestWorkspace,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'

afterEach(closeSubscriptions)

const publish = (workspace: TestWorkspace, topic: string, data: unknown) =>
  call('POST', '/v1/events/publish', { as: workspace.service, body: { topic, data } })

test('event: published: delivered as a CloudEvent, also to an anon key in the query', async () => {
  const workspace = await createTestWorkspace()
  const [byHeader, byQuery] = await Promise.all([
    subscribeToEvents(workspace.service, 'topic=orders.created'),
    subscribeToEvents({}, `topic=orders.*&apikey=${workspace.anon['apikey']}`),
  ])
  const sent = await publish(workspace, 'orders.created', { n: 1 })
  expect(sent.status).toBe(202)
  for (const received of [byHeader, byQuery]) {
    const [event] = await receivedAtLeast(received, 1)
    expect(event?.data).toEqual({
      specversion: '1.0',
      id: sent.body.id,
      source: `/workspaces/${workspace.workspaceId}`,
      type: 'orders.created',
      topic: 'orders.created',
      time: sent.body.time,
      datacontenttype: 'application/json',
      traceparent: expect.stringMatching(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/),
      data: { n: 1 },
    })
    expect(event?.id).toMatch(/^\d+-\d+$/)
  }
})

test('events: another tenant: never delivered; another workspace of the tenant: delivered unless excluded', async () => {
  const [workspace, otherTenant] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const sibling = await addTestWorkspace(workspace)
  const [own, secondWorkspace, narrow, foreign] = await Promise.all([
    subscribeToEvents(workspace.service, 'topic=news'),
    subscribeToEvents(sibling.service, 'topic=news'),
    subscribeToEvents(sibling.service, 'topic=news&workspace=self'),
    subscribeToEvents(otherTenant.service, 'topic=news'),
  ])
  await publish(workspace, 'news', 'ours')
  await publish(otherTenant, 'news', 'theirs')
  await receivedAtLeast(own, 1)
  await receivedAtLeast(secondWorkspace, 1)
  expect((await receivedAtLeast(foreign, 1)).map(({ data }) => data.data)).toEqual(['theirs'])
  expect(messages(own).map(({ data }) => data.data)).toEqual(['ours'])
  expect(messages(narrow)).toEqual([])
})

test('events: 300 in a row: all in order, and again after the last one seen', async () => {
  const workspace = await createTestWorkspace()
  const received = await subscribeToEvents(workspace.service, 'topic=count')
  for (let n = 0; n < 300; n++) await publish(workspace, 'count', n)
  const all = await receivedAtLeast(received, 300)
  expect(all.map(({ data }) => data.data)).toEqual(Array.from({ length: 300 }, (_, n) => n))
  const again = await subscribeToEvents(workspace.service, 'topic=count', {
    'last-event-id': all[199]?.id ?? '',
  })
  await publish(workspace, 'count', 300)
  expect((await receivedAtLeast(again, 101)).map(({ data }) => data.data)).toEqual(
    Array.from({ length: 101 }, (_, n) => 200 + n),
  )
})

test('several topics in one stream: published events and changes, each topic in order, replayed from a cursor', async () => {
  const workspace = await createTestWorkspace()
  const topics = 'topic=chat.*,news,collections.tasks.*'
  const create = (n: number) =>
    call('POST', '/v1/collections/tasks/documents', { as: workspace.service, body: { n } })
  const seen = (events: Awaited<ReturnType<typeof receivedAtLeast>>) =>
    events.map(({ data: { topic, data } }) => `${topic} ${data.document?.n ?? data}`)
  const received = await subscribeToEvents(workspace.service, topics)
  for (const n of [1, 2, 3]) {
    await publish(workspace, 'chat.a', n)
    await publish(workspace, 'ignored', n)
    await create(n)
    await publish(workspace, 'news', n)
  }
  const all = await receivedAtLeast(received, 9)
  const published = [1, 2, 3].flatMap((n) => [`chat.a ${n}`, `news ${n}`])
  const changed = [1, 2, 3].map((n) => `collections.tasks.created ${n}`)
  const ofKind = (list: string[], isChange: boolean) =>
    list.filter((text) => text.startsWith('collections.') === isChange)
  expect(ofKind(seen(all), false)).toEqual(published)
  expect(ofKind(seen(all), true)).toEqual(changed)
  // From any position on, nothing is lost and nothing is repeated.
  for (const position of [0, 3, 7]) {
    const cursor = all[position]?.id ?? ''
    expect(cursor).toMatch(/^\d+-\d+,\d+-\d+$/)
    const again = await subscribeToEvents(workspace.service, topics, { 'last-event-id': cursor })
    const rest = seen(await receivedAtLeast(again, 8 - position))
    expect(rest.toSorted()).toEqual(seen(all.slice(position + 1)).toSorted())
    expect(ofKind(rest, true)).toEqual(ofKind(seen(all.slice(position + 1)), true))
  }
})

test('several topics: an anon key needs the right to each of them', async () => {
  const workspace = await createTestWorkspace()
  await openCollectionsToAnon(workspace)
  const declared = { store: 'relational', schema: {}, access: { anon: { read: false } } }
  const body = { workspace_id: workspace.workspaceId, collection: 'hidden', ...declared }
  expect((await call('POST', '/v1/schemas', { as: workspace.operator, body })).status).toBe(201)
  const subscribe = (topic: string) =>
    call('GET', `/v1/events/subscribe?topic=${topic}`, { as: workspace.anon })
  expect((await subscribe('chat.*,collections.tasks.*')).status).toBe(200)
  for (const topic of [
    'chat.*,collections.hidden.*',
    'collections.hidden.*,collections.tasks.*',
    'a,platform.*',
  ])
    expect([topic, (await subscribe(topic)).status]).toEqual([topic, 403])
  const received = await subscribeToEvents(workspace.anon, 'topic=news,collections.*')
  await call('POST', '/v1/collections/hidden/documents', { as: workspace.service, body: { n: 1 } })
  await call('POST', '/v1/collections/tasks/documents', { as: workspace.service, body: { n: 2 } })
  await publish(workspace, 'news', 3)
  const topics = (await receivedAtLeast(received, 2)).map(({ data }) => data.topic)
  expect(topics.toSorted()).toEqual(['collections.tasks.created', 'news'])
})

describe('refused requests', () => {
  test.each([
    ['21 topics', Array.from({ length: 21 }, (_, n) => `t${n}`).join()],
    ['empty topic', 'a,,b'],
    ['comma at the end', 'a,'],
  ])('subscribe: %s: refused', async (_name, topic) => {
    const { service } = await createTestWorkspace()
    const path = `/v1/events/subscribe?topic=${topic}`
    expect((await call('GET', path, { as: service })).status).toBe(400)
  })

  test('subscribe: service key in the URL, or a key in the URL of another route: refused', async () => {
    const workspace = await createTestWorkspace()
    const service = await call('GET', `/v1/events/subscribe?topic=a&apikey=${workspace.service['apikey']}`)
    expect([service.status, service.body.code]).toEqual([401, 'service_key_in_query'])
    const other = await call('GET', `/v1/collections/a/documents?apikey=${workspace.anon['apikey']}`)
    expect([other.status, other.body.code]).toEqual([401, 'anon_key_in_query'])
  })

  test.each([
    [{ topic: 'a.*', data: 1 }, 400],
    [{ topic: '', data: 1 }, 400],
    [{ topic: 'a..b', data: 1 }, 400],
    [{ topic: 'platform.x', data: 1 }, 400],
    [{ topic: 'collections.todos.created', data: 1 }, 400],
    [{ topic: 'a' }, 400],
    [{ topic: 'a', data: 'x'.repeat(300_000) }, 413],
  ])('publish: %j: refused with %i', async (body, status) => {
    const workspace = await createTestWorkspace()
    expect((await call('POST', '/v1/events/publish', { as: workspace.service, body })).status).toBe(status)
  })

  test('anon key: publishes: refused; topic with a wildcard in the middle: refused', async () => {
    const workspace = await createTestWorkspace()
    expect(
      (await call('POST', '/v1/events/publish', { as: workspace.anon, body: { topic: 'a', data: 1 } }))
        .status,
    ).toBe(403)
    expect((await call('GET', '/v1/events/subscribe?topic=a.*.b', { as: workspace.anon })).status).toBe(400)
    expect((await call('GET', '/v1/events/subscribe', { as: workspace.anon })).status).toBe(400)
  })
})
