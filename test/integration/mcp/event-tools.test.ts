/** The tool that reads events: cursors, waiting, bursts, and what the workspace may hear. */

import { beforeAll, expect, test } from 'vitest'
import {
  callTool,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  scopesOf,
  tokenFor,
  withModernClient,
} from '../../support/clients/mcp.ts'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'

interface Event {
  readonly topic: string
  readonly source: string
  readonly data: unknown
  readonly omitted_bytes?: number
}

const AN_HOUR_AGO = new Date(Date.now() - 3_600_000).toISOString()

let workspace: TestWorkspace
let server: PublishedMcpServer
let as: Caller

const use = async (args: unknown, name = 'event_read') => {
  const { body } = await callTool(server.path, as, name, args)
  if (body.result === undefined) throw new Error(JSON.stringify(body))
  const { content, structuredContent = {}, isError = false } = body.result
  const { data = [], page, gap } = structuredContent
  return {
    text: String(content[0].text),
    events: data as Event[],
    page,
    gap,
    isError,
    bytes: JSON.stringify(structuredContent).length,
  }
}

const publishAs = (by: TestWorkspace, topic: string, data: unknown) =>
  ok(call('POST', '/v1/events/publish', { as: by.service, body: { topic, data } }))
const publish = (topic: string, data: unknown) => publishAs(workspace, topic, data)
const dataOf = ({ events }: { events: readonly Event[] }) => events.map(({ data }) => data)

beforeAll(async () => {
  workspace = await createTestWorkspace()
  server = await publishMcpServer(workspace, 'news', {
    'events:stream:read': { enabled: true },
    'events:stream:publish': { enabled: true },
  })
  as = await tokenFor(server, scopesOf(server, 'event_read', 'event_publish'))
})

test('cursor: begins now, at a time, or after the page before; misses and repeats nothing', async () => {
  await publish('a.old', 0)
  const first = await use({ topics: ['a.*'] })
  expect([first.events, first.page.has_more]).toEqual([[], false])
  for (const n of [1, 2, 3]) await publish('a.b', n)
  await publish('other', 4)
  const second = await use({ topics: ['a.*'], cursor: first.page.next, limit: 2 })
  expect([dataOf(second), second.page.has_more]).toEqual([[1, 2], true])
  const third = await use({ topics: ['a.*'], cursor: second.page.next })
  expect([dataOf(third), third.page.has_more, third.gap]).toEqual([[3], false, undefined])
  // The cursor has passed the events of other topics.
  const fourth = await use({ topics: ['a.*', 'other'], cursor: third.page.next })
  expect([fourth.events, fourth.page.next]).toEqual([[], third.page.next])
  const since = await use({ topics: ['a.*', 'other'], since: AN_HOUR_AGO })
  expect([dataOf(since), since.gap]).toEqual([[0, 1, 2, 3, 4], undefined])
  const empty = await use({ topics: ['x'], since: new Date(Date.now() + 1_000).toISOString() })
  await publish('x', 5)
  const later = await use({ topics: ['x'], cursor: empty.page.next })
  expect([dataOf(later), later.gap]).toEqual([[5], undefined])
})

test('wait: ends with the first event of the topics, or empty with a cursor', async () => {
  await withModernClient(server.url, as, async (client) => {
    await client.listTools()
    let isWaiting = true
    const waiting = client
      .callTool({ name: 'event_read', arguments: { topics: ['w.*'], wait_seconds: 25 } })
      .finally(() => {
        isWaiting = false
      })
    // It is not known when the call begins to listen.
    while (isWaiting) {
      await publish('v', 'not this')
      await publish('w.x', 'this')
    }
    const { structuredContent } = await waiting
    const heard = dataOf({ events: (structuredContent as { data: Event[] }).data })
    expect([heard.length > 0, new Set(heard)]).toEqual([true, new Set(['this'])])
    // A call whose wait is over returns a cursor and no events, so this call returned before.
  })
  const nothing = await use({ topics: ['w.none'], wait_seconds: 1 })
  expect([nothing.events, typeof nothing.page.next]).toEqual([[], 'string'])
})

test('changes of documents and published events: one order, one cursor', async () => {
  const topics = ['collections.notes.*', 'm.*']
  const { page } = await use({ topics })
  expect(page.next).toMatch(/^\d+-\d+,\d+-\d+$/)
  await ok(call('POST', '/v1/collections/notes/documents', { as: workspace.service, body: { text: 'new' } }))
  const changed = await use({ topics, cursor: page.next, wait_seconds: 10 })
  expect(changed.events).toMatchObject([{ topic: 'collections.notes.created' }])
  expect(JSON.stringify(changed.events)).toContain('"new"')
  await publish('m.x', 1)
  expect((await use({ topics, cursor: changed.page.next })).events).toMatchObject([{ topic: 'm.x', data: 1 }])
  const { isError, text } = await use({ topics: ['m.x'], cursor: page.next })
  expect([isError, text]).toEqual([
    true,
    expect.stringMatching(/^cursor_invalid: The cursor belongs to other topics/),
  ])
})

test('burst: pages within the budget with every event once; one that is too large comes without its data', async () => {
  const cursor = (await use({ topics: ['burst'] })).page.next
  const note = 'x'.repeat(6_000)
  for (let n = 0; n < 40; n++) await publish('burst', { n, note })
  await publish('burst', 'y'.repeat(200_000))
  await publish('burst', { n: 41 })
  const seen: unknown[] = []
  for (let next = cursor, more = true; more; ) {
    const { events, page, bytes } = await use({ topics: ['burst'], cursor: next, limit: 200 })
    expect(bytes).toBeLessThanOrEqual(100_000)
    seen.push(...events.map(({ data, omitted_bytes }) => omitted_bytes ?? (data as { n: number }).n))
    ;[next, more] = [page.next, page.has_more]
  }
  expect(seen.filter((one) => Number(one) < 100)).toEqual([...Array.from({ length: 40 }, (_, n) => n), 41])
  expect(seen[40]).toBeGreaterThan(200_000)
})

test('visibility: the tenant, or the workspace alone; never another tenant', async () => {
  const [sibling, foreign] = await Promise.all([addTestWorkspace(workspace), createTestWorkspace()])
  const cursor = (await use({ topics: ['seen'] })).page.next
  await publishAs(foreign, 'seen', 'foreign')
  await publishAs(sibling, 'seen', 'sibling')
  await publish('seen', 'own')
  expect(dataOf(await use({ topics: ['seen'], cursor }))).toEqual(['sibling', 'own'])
  expect(dataOf(await use({ topics: ['seen'], cursor, own_workspace: true }))).toEqual(['own'])
  // Changes of documents of another workspace are not heard.
  const changes = ['collections.notes.*']
  const since = AN_HOUR_AGO
  await ok(call('POST', '/v1/collections/notes/documents', { as: sibling.service, body: { text: 'hidden' } }))
  expect(JSON.stringify(await use({ topics: changes, since }))).not.toContain('hidden')
})

test.each([
  [{}, 'topics is required'],
  [{ topics: [] }, 'topics'],
  [{ topics: ['*'] }, 'topics[0]'],
  [{ topics: ['a,b'] }, 'topics[0]'],
  [{ topics: ['a'], cursor: '$' }, 'cursor'],
  [{ topics: ['a'], cursor: '0-0', since: '2026-01-01T00:00:00Z' }, 'either `cursor` or `since`'],
  [{ topics: ['a'], since: 'yesterday' }, 'since'],
  [{ topics: ['a'], wait_seconds: 26 }, 'wait_seconds'],
  [{ topics: ['a'], bytes_max: 9e9 }, 'bytes_max is unknown'],
])('arguments %j: refused', async (args, words) => {
  const { isError, text } = await use(args)
  expect([isError, text]).toEqual([true, expect.stringMatching(/^validation_failed/)])
  expect(text).toContain(words)
})
