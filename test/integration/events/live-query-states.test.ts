/** Live queries where the state before a change, or the document itself, is not known, and of documents that expire. */

import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { afterEach, beforeAll, expect, inject, test } from 'vitest'
import { createTaskContexts } from '../../../src/activities/flow/background-work.ts'
import type { Feed } from '../../../src/core/bytes.ts'
import type { TenantId, WorkspaceId } from '../../../src/core/tenant.ts'
import { subscribeToQuery } from '../../../src/features/events/live-queries.ts'
import { changesOf } from '../../../src/infra/valkey/streams.ts'
import { changesIn, openLive, readList } from '../../support/clients/live-copy.ts'
import {
  closeSubscriptions,
  messages,
  type ReceivedEvent,
  receivedAtLeast,
  subscribeToEvents,
  subscribeToStream,
} from '../../support/clients/sse.ts'
import { createIn, declaredWithRules } from '../../support/fixtures/access-rules.ts'
import { transaction } from '../../support/fixtures/outbox.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'

let ws: TestWorkspace
beforeAll(async () => {
  ws = await createTestWorkspace()
})
afterEach(closeSubscriptions)

const PAST = '2026-01-01T00:00:00Z'
const FUTURE = '2999-12-31T23:59:59Z'
const RED = { user: { read: { team: 'red' } } }

async function created(path: string, body: object, as: Caller = ws.service): Promise<string> {
  const made = await createIn(path, as, body)
  expect(made.status, JSON.stringify(made.body)).toBe(201)
  return made.body.id
}
const put = (path: string, id: string, body: object) =>
  call('PUT', `${path}/documents/${id}`, { as: ws.service, body })

interface OldRow {
  readonly verb: 'updated' | 'deleted'
  readonly id: string
  readonly document?: object
}

/** Writes a change as build 0.1.0 does in a rolling upgrade: without the state before, or the deleted document. */
async function noteOld(collection: string, { verb, id, document }: OldRow): Promise<void> {
  const client = await transaction(ws)
  const values = [collection, verb, id, document === undefined ? null : JSON.stringify(document)]
  const text = `insert into tenon.outbox (collection, verb, document_id, version, document, anon_reads, user_reads)
    values ($1, $2, $3, 2, $4::json, true, true)`
  try {
    await client.query(text, values)
    await client.query('commit')
  } finally {
    await client.end()
  }
}

const told = (received: readonly ReceivedEvent[]) =>
  changesIn(received).map(({ event, data }) => [event, data.id])
const toldOf = (received: readonly ReceivedEvent[], id: string) =>
  eventually(async () => (told(received).some(([, one]) => one === id) ? true : undefined))

test('user under a rule, no filter, a change without the state before: told only if the document is readable', async () => {
  const { at: path, collection } = await declaredWithRules(ws, RED)
  const live = await openLive(await userToken(ws, 'mia'), path)
  const [hidden, shown] = [randomUUID(), randomUUID()]
  await noteOld(collection, { verb: 'updated', id: hidden, document: { title: 'b', team: 'blue' } })
  await noteOld(collection, { verb: 'updated', id: shown, document: { title: 'r', team: 'red' } })
  await toldOf(live.received, shown)
  await noteOld(collection, { verb: 'updated', id: shown, document: { title: 'r', team: 'blue' } })
  await eventually(async () => (told(live.received).length >= 2 ? true : undefined))
  expect(told(live.received)).toEqual([
    ['enter', shown],
    ['leave', shown],
  ])
})

test('event that does not have its document: told to nobody who is selected by the document', async () => {
  const { at: path, collection } = await declaredWithRules(ws, { user: { read: { team: { eq: null } } } })
  const mia = await userToken(ws, 'mia')
  const lives = [await openLive(mia, path), await openLive(ws.service, path)]
  const feed = await subscribeToEvents(mia, `topic=collections.${collection}.*`)
  await noteOld(collection, { verb: 'updated', id: randomUUID() })
  const whole = randomUUID()
  await noteOld(collection, { verb: 'updated', id: whole, document: { title: 'x' } })
  for (const { received } of lives) {
    await toldOf(received, whole)
    expect(told(received).map(([, id]) => id)).toEqual([whole])
  }
  await receivedAtLeast(feed, 1)
  expect(messages(feed).map(({ data }) => data.data.id)).toEqual([whole])
})

test('deletion that is judged by a rule of later: told of a document that was shown, and of no other', async () => {
  const { at: path, collection, schemaId } = await declaredWithRules(ws, { user: { read: true } })
  const { received } = await openLive(await userToken(ws, 'mia'), path)
  const shown = await created(path, { title: 'x', team: 'blue' })
  await toldOf(received, shown)
  const { body } = await call('GET', `/v1/schemas/${schemaId}`, { as: ws.operator })
  const { schema, mode } = body
  const changed = await call('PUT', `/v1/schemas/${schemaId}`, {
    as: ws.operator,
    body: { schema, mode, access: RED },
  })
  expect(changed.status, JSON.stringify(changed.body)).toBe(200)
  // The open stream applies the new rule once it does not tell of a blue document any more.
  await eventually(async () => {
    const blue = await created(path, { team: 'blue' })
    await toldOf(received, await created(path, { team: 'red' }))
    return told(received).some(([, id]) => id === blue) ? undefined : true
  })
  const count = told(received).length
  for (const id of [randomUUID(), shown]) await noteOld(collection, { verb: 'deleted', id })
  const last = await created(path, { team: 'red' })
  await toldOf(received, last)
  expect(told(received).slice(count)).toEqual([
    ['delete', shown],
    ['enter', last],
  ])
})

/** A client that reads nothing until it is let. */
function slowClient() {
  const { promise, resolve } = Promise.withResolvers<void>()
  const sent: string[] = []
  const sink = {
    send: (text: string) => sent.push(text) === 0,
    drained: () => promise,
    end: (code: string) => void sent.push(code),
  }
  return { sink, read: resolve, sent: () => sent.join('') }
}

test('gap in an open stream: what was shown before it counts no more, so a document that entered meanwhile leaves', async () => {
  const own = await createTestWorkspace()
  const name = unique('gap')
  const document = (id: string, body: object) =>
    call('PUT', `/v1/collections/${name}/documents/${id}`, { as: own.service, body })
  const ref = { tenantId: own.tenantId as TenantId, workspaceId: own.workspaceId as WorkspaceId }
  const key = changesOf(ref)
  const redis = new Redis(inject('tenon').env['REDIS_URL'] ?? '')
  const relayed = (count: number) =>
    eventually(async () => ((await redis.xlen(key)) === count ? true : undefined))
  const node = await startInProcessNode()
  try {
    const made = await createIn(`/v1/collections/${name}`, own.service, { open: false })
    await relayed(1)
    const { position } = await readList(own.service, `/v1/collections/${name}`, 'open=eq.true')
    await document(made.body.id, { n: 1 })
    // The document is told of from the past, so that the stream waits for the client before it reads on.
    await relayed(2)
    const { service } = await createTaskContexts(node.platform.access)(ref)
    const client = slowClient()
    const filters: [string, string][] = [['open', 'eq.true']]
    const input = { name, filters, last_event_id: position }
    const feed = (await subscribeToQuery.run(service, input)) as Feed
    const stop = feed.open(client.sink)
    // The stream keeps in mind that it has not shown the document.
    await eventually(async () => (client.sent().includes('event: leave') ? true : undefined))
    await document(made.body.id, { open: true })
    await relayed(3)
    await redis.xtrim(key, 'MAXLEN', 0)
    await document(made.body.id, { open: false })
    client.read()
    const last = await created(`/v1/collections/${name}`, { open: true }, own.service)
    await eventually(async () => (client.sent().includes(last) ? true : undefined))
    stop()
    const frames = [...client.sent().matchAll(/event: (\w+)/g)].map(([, event]) => event)
    expect(frames).toEqual(['ready', 'leave', 'gap', 'leave', 'enter'])
  } finally {
    redis.disconnect()
    await node.close()
  }
})

/** Without those of deletions, which a worker makes at any time. */
const toldOfContent = (received: readonly ReceivedEvent[]) =>
  told(received).filter(([event]) => event !== 'delete')

test('document that expires by its change leaves; one that has expired does not enter', async () => {
  const { at: path } = await declaredWithRules(ws, {}, { ttl: { field: 'publish_at' } })
  const { received } = await openLive(ws.service, path)
  await created(path, { title: 'over', publish_at: PAST })
  const soon = await created(path, { title: 'soon', publish_at: FUTURE })
  await put(path, soon, { publish_at: PAST })
  const last = await created(path, { title: 'last' })
  await toldOf(received, last)
  expect(toldOfContent(received)).toEqual([
    ['enter', soon],
    ['leave', soon],
    ['enter', last],
  ])
})

test('changes from before a document expired, told later: without it, to live queries and to users', async () => {
  const { at: path, collection, schemaId } = await declaredWithRules(ws, { user: { read: true } })
  const { position } = await readList(ws.service, path, '')
  const over = await created(path, { title: 'over', publish_at: PAST })
  const last = await created(path, { title: 'last', publish_at: FUTURE })
  const set = await call('PUT', `/v1/schemas/${schemaId}`, {
    as: ws.operator,
    body: { ttl: { field: 'publish_at' } },
  })
  expect(set.status, JSON.stringify(set.body)).toBe(202)
  await eventually(async () => {
    const { body } = await call('GET', `/v1/schemas/${schemaId}`, { as: ws.operator })
    return body.ttl === null ? undefined : true
  })
  const since = { 'last-event-id': position }
  const live = await subscribeToStream(ws.service, `${path}/subscribe?`, since)
  await toldOf(live, last)
  expect(toldOfContent(live)).toEqual([['enter', last]])
  const mia = await userToken(ws, 'mia')
  const feed = await subscribeToEvents(mia, `topic=collections.${collection}.*`, since)
  await noteOld(collection, { verb: 'deleted', id: over })
  const isDeletion = ({ data }: ReceivedEvent) => data.topic.endsWith('.deleted')
  await eventually(async () => messages(feed).find(isDeletion))
  expect(messages(feed).map(({ data }) => [data.topic.split('.').at(-1), data.data.id])).toContainEqual([
    'deleted',
    over,
  ])
  const others = messages(feed).filter((event) => !isDeletion(event))
  expect(others.map(({ data }) => data.data.id)).toEqual([last])
})

test('update under a rule for reading: keeps the earlier values of the fields that it names, by which subscribers are told', async () => {
  const own = await createTestWorkspace()
  const properties = { team: { type: 'string' }, level: { type: 'integer' }, title: { type: 'string' } }
  const { at: path } = await declaredWithRules(own, RED, { schema: { properties } })
  const key = changesOf({ tenantId: own.tenantId as TenantId, workspaceId: own.workspaceId as WorkspaceId })
  const redis = new Redis(inject('tenon').env['REDIS_URL'] ?? '')
  const mia = await userToken(own, 'mia')
  const queries = ['level=eq.1', 'more=eq.1', 'title=eq.large anon user']
  const lives = await Promise.all(queries.map((query) => openLive(mia, path, query)))
  const document = { level: 1, more: 1, title: 'large anon user', other: 'other anon user' }
  const id = await created(path, { team: 'red', ...document }, own.service)
  const at = `${path}/documents/${id}`
  const change = async (body: object, query = '', method = 'PUT') => {
    const { status, body: answer } = await call(method, `${at}${query}`, { as: own.service, body })
    expect(status, JSON.stringify(answer)).toBe(200)
  }
  try {
    await change({ level: 2 })
    await change({ more: 2 })
    await change({ level: 1, more: 1, further: 'a  b' })
    await change({ team: 'blue' })
    await change({ team: 'red', further: 'c' })
    await change({ team: 'red', level: 3, more: 3 }, '?replace=true')
    await eventually(async () => ((await redis.xlen(key)) === 7 ? true : undefined))
    const kept = (await redis.xrange(key, '-', '+')).map(
      ([, fields]) => fields[fields.indexOf('readers') + 1],
    )
    expect(kept.map((text = '') => /large|other/.test(text))).toEqual([
      ...[false, false, false, false, false, false],
      true,
    ])
    const events = [
      ['enter', 'leave', 'enter', 'leave', 'enter', 'leave'],
      ['enter', 'update', 'leave', 'enter', 'leave', 'enter', 'leave'],
      ['enter', 'update', 'update', 'update', 'leave', 'enter', 'leave'],
    ]
    for (const [index, { received }] of lives.entries()) {
      const expected = events[index] ?? []
      await eventually(async () => (told(received).length >= expected.length ? true : undefined))
      expect(
        told(received).map(([event]) => event),
        queries[index],
      ).toEqual(expected)
    }
  } finally {
    redis.disconnect()
  }
})
