/** Positions in event streams: `ready` and heartbeats carry them, and a gap is reported exactly if a matching event was dropped. */

import { EventSource } from 'eventsource'
import { afterEach, expect, inject, test } from 'vitest'
import { isBefore } from '../../../src/core/execution.ts'
import type { TenantId, WorkspaceId } from '../../../src/core/tenant.ts'
import { Events } from '../../../src/features/events/events.ts'
import { EVENT_LIMITS } from '../../../src/features/events/limits.ts'
import { Appender } from '../../../src/features/events/outbox-relay.ts'
import { changesOf, eventsOf, Streams } from '../../../src/infra/valkey/streams.ts'
import {
  closeSubscriptions,
  messages,
  receivedAtLeast,
  subscribeToEvents,
} from '../../support/clients/sse.ts'
import {
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { startTcpProxy } from '../../support/servers/tcp-proxy.ts'
import { openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'

const url = new URL(inject('tenon').url)
afterEach(closeSubscriptions)

const publish = (workspace: TestWorkspace, topic: string, data: unknown) =>
  call('POST', '/v1/events/publish', { as: workspace.service, body: { topic, data } })
const after = (id: string | undefined) => ({ 'last-event-id': id ?? '' })
const dataOf = (received: Parameters<typeof messages>[0]) => messages(received).map(({ data }) => data.data)

/** Fills the stream of a workspace's changes with changes of one collection, as the relay does. */
async function flood(workspace: TestWorkspace, collection: string, count: number): Promise<void> {
  const ref = { tenantId: workspace.tenantId as TenantId, workspaceId: workspace.workspaceId as WorkspaceId }
  const [appender, topic] = [
    new Appender(inject('tenon').env['REDIS_URL'] ?? '', () => {}),
    `collections.${collection}.created`,
  ]
  const message = { topic, source: `/workspaces/${ref.workspaceId}`, text: '{}' }
  const batch = Array.from({ length: 500 }, () => ({ key: changesOf(ref), message }))
  for (let n = 0; n < count; n += batch.length) await appender.append(batch)
  appender.close()
}

test('EventSource: connection lost before the first event, and between events: hears all', async () => {
  const workspace = await createTestWorkspace()
  await openCollectionsToAnon(workspace)
  const proxy = await startTcpProxy(url)
  const address = `http://127.0.0.1:${proxy.port}/v1/events/subscribe`
  for (const topic of ['es.*', 'es.*,collections.es.*']) {
    const source = new EventSource(`${address}?topic=${topic}&apikey=${workspace.anon['apikey']}`)
    const heard: unknown[] = []
    let ready = 0
    source.onmessage = ({ data }) => heard.push(JSON.parse(data).data)
    source.addEventListener('ready', () => ready++)
    const connected = (times: number) => eventually(async () => ready >= times || undefined, 10_000)
    await connected(1)
    proxy.drop()
    await publish(workspace, 'es.demo', 1)
    await connected(2)
    await publish(workspace, 'es.demo', 2)
    await eventually(async () => heard.length >= 2 || undefined)
    proxy.drop()
    await publish(workspace, 'es.demo', 3)
    await connected(3)
    await eventually(async () => heard.length >= 3 || undefined)
    expect(heard).toEqual([1, 2, 3])
    source.close()
  }
  proxy.close()
})

test('position of a stream: never the id of an event that the subscriber does not get', async () => {
  const workspace = await createTestWorkspace()
  const all = await subscribeToEvents(workspace.service, 'topic=secret,mine')
  await publish(workspace, 'secret', 1)
  await receivedAtLeast(all, 1)
  const own = await subscribeToEvents(workspace.anon, 'topic=mine')
  const again = await subscribeToEvents(workspace.anon, 'topic=mine', after('nonsense'))
  const positions = JSON.stringify([own, again])
  for (const { id } of messages(all)) expect(positions).not.toContain(id)
  expect(own[0]).toMatchObject({ event: 'ready', id: own[0]?.data.cursor })
})

test.each([
  ['ahead of the stream', '1999999999999-0', 'pos'],
  ['before the stream', '1-0', 'pos'],
  ['malformed', 'garbage "1-0"', 'pos'],
  ['too long', '9'.repeat(2_000), 'pos'],
  ['of one stream for two', '1-1', 'pos,collections.pos.*'],
  ['of two streams for one', '1-1,2-2', 'pos,other'],
])('Last-Event-ID: %s: a gap with the earliest position first, then live events', async (_, id, topic) => {
  const workspace = await createTestWorkspace()
  await publish(workspace, 'pos', 'kept')
  const received = await subscribeToEvents(workspace.service, `topic=${topic}`, after(id))
  expect(received.slice(0, 2).map(({ event }) => event)).toEqual(['gap', 'ready'])
  expect(received[0]?.data.after).toBe(id.slice(0, 100))
  await publish(workspace, 'pos', 'new')
  await eventually(async () => dataOf(received).includes('new') || undefined)
  const kept = await subscribeToEvents(workspace.service, `topic=${topic}`, after(received[0]?.data.earliest))
  expect((await receivedAtLeast(kept, 2)).map(({ data }) => data.data)).toEqual(['kept', 'new'])
  expect(kept[0]?.event).toBe('ready')
})

test('Last-Event-ID: empty, or in the query: as absent, and as in the header', async () => {
  const workspace = await createTestWorkspace()
  await publish(workspace, 'pos', 1)
  const empty = await subscribeToEvents(workspace.service, 'topic=pos', after(''))
  const query = await subscribeToEvents(workspace.service, 'topic=pos&last_event_id=0-0')
  const both = await subscribeToEvents(workspace.service, 'topic=pos&last_event_id=0-0', after(empty[0]?.id))
  await publish(workspace, 'pos', 2)
  for (const received of [empty, query, both])
    await eventually(async () => dataOf(received).includes(2) || undefined)
  expect([empty, query, both].map(dataOf)).toEqual([[2], [1, 2], [2]])
  expect([empty, query, both].flatMap((received) => received.filter(({ event }) => event === 'gap'))).toEqual(
    [],
  )
})

test('events of other collections dropped: no gap for a quiet one; its own dropped: a gap', async () => {
  const workspace = await createTestWorkspace()
  const create = (collection: string) =>
    call('POST', `/v1/collections/${collection}/documents`, { as: workspace.service, body: {} })
  const rare = await subscribeToEvents(workspace.service, 'topic=collections.rare.*')
  const before = rare[0]?.id
  await create('rare')
  const [{ id } = { id: '' }] = await receivedAtLeast(rare, 1)
  await flood(workspace, 'bulk', EVENT_LIMITS.changesKeptMax * 1.1)
  await create('rare')
  await receivedAtLeast(rare, 2)
  const first = async (topic: string, position: string | undefined) =>
    (await subscribeToEvents(workspace.service, `topic=${topic}`, after(position)))[0]?.event
  expect(await first('collections.rare.*', id)).toBe('ready')
  expect(await first('collections.rare.*', before)).toBe('gap')
  expect(await first('collections.rare.updated', before)).toBe('ready')
  expect(await first('collections.bulk.*', id)).toBe('gap')
  expect(await first('collections.*', id)).toBe('gap')
})

test('subscriber of a quiet topic: its position passes the events of others', async () => {
  const ref = { tenantId: `ten_${unique('t')}`, workspaceId: `ws_${unique('w')}` } as const
  const streams = new Streams(inject('tenon').env['REDIS_URL'] ?? '', () => {})
  const feed = await new Events(ref, streams).subscribe({ topics: ['quiet'], ownWorkspace: false })
  const sent: string[] = []
  const stop = feed.open({ send: (text) => sent.push(text) > 0, drained: async () => {}, end: () => {} })
  const first = await feed.position?.()
  const message = { topic: 'loud', source: 's', text: '{}' }
  const loud = await streams.publish(eventsOf(ref.tenantId), message)
  await eventually(async () => isBefore(loud, (await feed.position?.()) ?? '') || undefined)
  const quiet = await streams.publish(eventsOf(ref.tenantId), { ...message, topic: 'quiet' })
  await eventually(async () => sent.some((text) => text.includes(quiet)) || undefined)
  expect(first && isBefore(first, loud)).toBe(true)
  stop()
  streams.close()
})

test('data with numbers that would not read back the same: refused as in documents', async () => {
  const workspace = await createTestWorkspace()
  const send = async (path: string, text: string) => {
    const response = await fetch(new URL(path, url), {
      method: 'POST',
      headers: { ...workspace.service, 'content-type': 'application/json' },
      body: text,
    })
    return [response.status, ((await response.json()) as { code?: string }).code]
  }
  for (const number of ['9007199254740993', '1e400', '-1e400', '123456789012345678901']) {
    const document = await send('/v1/collections/numbers/documents', `{"n": [${number}]}`)
    expect(document).toEqual([400, 'number_unsafe'])
    expect(await send('/v1/events/publish', `{"topic": "n", "data": ${number}}`)).toEqual(document)
    expect(await send('/v1/events/publish', `{"topic": "n", "data": {"a": [${number}]}}`)).toEqual(document)
  }
  expect(await send('/v1/events/publish', '{"topic": "n", "data": 9007199254740991}')).toEqual([
    202,
    undefined,
  ])
})
