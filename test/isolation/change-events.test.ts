/** Change events: delivered within their workspace only, and to anon keys only if they may read the collection. */

import { afterEach, expect, test } from 'vitest'
import { closeSubscriptions, messages, receivedAtLeast, subscribeToEvents } from '../support/clients/sse.ts'
import { change, note, transaction } from '../support/fixtures/outbox.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  type TestWorkspace,
} from '../support/fixtures/tenants.ts'
import { openCollectionsToAnon } from '../support/stack/workspace-settings.ts'

afterEach(closeSubscriptions)

const PAST = { 'last-event-id': '0-0' }
const documents = (frames: Parameters<typeof messages>[0]) =>
  messages(frames).map(({ data }) => data.data.document)

async function declare(workspace: TestWorkspace, collection: string, read: boolean): Promise<string> {
  const body = {
    ...{ workspace_id: workspace.workspaceId, collection, store: 'document', schema: {}, mode: 'off' },
    access: { anon: { read } },
  }
  const made = await call('POST', '/v1/schemas', { as: workspace.operator, body })
  expect(made.status).toBe(201)
  return made.body.id
}

const withdraw = (workspace: TestWorkspace, id: string) =>
  call('DELETE', `/v1/schemas/${id}`, { as: workspace.operator })

test('other tenant or sibling workspace subscribes: receives none of these changes, live or replayed', async () => {
  const [workspace, stranger] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const sibling = await addTestWorkspace(workspace)
  await Promise.all([workspace, stranger, sibling].map(openCollectionsToAnon))
  await change(workspace, [{ collection: 'todos', document: { n: 1 } }])
  const own = await subscribeToEvents(workspace.service, 'topic=collections.*', PAST)
  const [first] = await receivedAtLeast(own, 1)
  const topics = [
    'collections.*',
    'collections.todos.*',
    'collections.todos.created',
    'collections.todos.*&workspace=self',
  ]
  const others = await Promise.all(
    [stranger, sibling].flatMap(({ service, anon }) =>
      [service, anon].flatMap((as) =>
        topics.flatMap((topic) =>
          [PAST, { 'last-event-id': first?.id ?? '' }, {}].map((headers) =>
            subscribeToEvents(as, `topic=${topic}`, headers),
          ),
        ),
      ),
    ),
  )
  await change(workspace, [{ collection: 'todos', document: { n: 2 } }])
  await receivedAtLeast(own, 2)
  // Each receives its own change, and nothing before it.
  await Promise.all(
    [stranger, sibling].map((each) => change(each, [{ collection: 'todos', document: { n: 3 } }])),
  )
  await Promise.all(others.map((frames) => receivedAtLeast(frames, 1)))
  for (const frames of others) expect(documents(frames)).toEqual([{ n: 3 }])
  expect(documents(own)).toEqual([{ n: 1 }, { n: 2 }])
})

test('anon key subscribes: receives readable collections; a closed one is refused by name and omitted from wildcards', async () => {
  const workspace = await createTestWorkspace()
  await openCollectionsToAnon(workspace)
  await declare(workspace, 'secrets', false)
  await declare(workspace, 'open', true)
  for (const topic of ['collections.secrets.*', 'collections.secrets.created', 'collections.secrets']) {
    for (const headers of [{}, PAST]) {
      const refused = await call('GET', `/v1/events/subscribe?topic=${topic}`, {
        as: workspace.anon,
        headers,
      })
      expect([refused.status, refused.body.code]).toEqual([403, 'forbidden'])
    }
  }
  const live = await subscribeToEvents(workspace.anon, 'topic=collections.*')
  const service = await subscribeToEvents(workspace.service, 'topic=collections.*')
  await change(workspace, [
    { collection: 'secrets', document: { of: 'secrets' } },
    { collection: 'secrets', verb: 'deleted' },
    { collection: 'open', document: { of: 'open' } },
    { collection: 'undeclared', document: { of: 'undeclared' } },
  ])
  await receivedAtLeast(service, 4)
  const past = await subscribeToEvents(workspace.anon, 'topic=collections.*', PAST)
  for (const frames of [live, past]) {
    await receivedAtLeast(frames, 2)
    expect(documents(frames)).toEqual([{ of: 'open' }, { of: 'undeclared' }])
  }
})

test('changes while a collection was closed: not delivered to anon keys after it opens', async () => {
  const workspace = await createTestWorkspace()
  await openCollectionsToAnon(workspace)
  const id = await declare(workspace, 'secrets', false)
  // Relayed after the collection opens; the time of the change decides.
  const client = await transaction(workspace)
  await note(client, [{ collection: 'secrets', document: { of: 'closed' } }])
  expect((await withdraw(workspace, id)).status).toBe(200)
  await client.query('commit')
  await client.end()
  await change(workspace, [{ collection: 'secrets', document: { of: 'open' } }])
  const service = await subscribeToEvents(workspace.service, 'topic=collections.*', PAST)
  await receivedAtLeast(service, 2)
  for (const topic of ['collections.*', 'collections.secrets.*']) {
    const frames = await subscribeToEvents(workspace.anon, `topic=${topic}`, PAST)
    await receivedAtLeast(frames, 1)
    expect(documents(frames)).toEqual([{ of: 'open' }])
  }
  expect(documents(service)).toEqual([{ of: 'closed' }, { of: 'open' }])
})

test('changes while a collection was open: not delivered to anon keys after it closes, on open streams either', async () => {
  const workspace = await createTestWorkspace()
  await openCollectionsToAnon(workspace)
  const live = await subscribeToEvents(workspace.anon, 'topic=collections.*')
  const service = await subscribeToEvents(workspace.service, 'topic=collections.*')
  await change(workspace, [{ collection: 'notes', document: { n: 1 } }])
  const [first] = await receivedAtLeast(live, 1)
  await declare(workspace, 'notes', false)
  await change(workspace, [
    { collection: 'notes', document: { n: 2 } },
    { collection: 'others', document: { n: 3 } },
  ])
  await receivedAtLeast(service, 3)
  expect((await receivedAtLeast(live, 2)).map(({ data }) => data.data.document)).toEqual([{ n: 1 }, { n: 3 }])
  for (const after of ['0-0', first?.id ?? '']) {
    const past = await subscribeToEvents(workspace.anon, 'topic=collections.*', { 'last-event-id': after })
    await receivedAtLeast(past, 1)
    expect(documents(past)).toEqual([{ n: 3 }])
  }
})

test('publish to a topic of changes: refused', async () => {
  const workspace = await createTestWorkspace()
  const frames = await subscribeToEvents(workspace.service, 'topic=collections.*')
  for (const topic of [
    'collections',
    'collections.todos',
    'collections.todos.created',
    'collections.a.b.c',
  ]) {
    const refused = await call('POST', '/v1/events/publish', {
      as: workspace.service,
      body: { topic, data: 1 },
    })
    expect([refused.status, refused.body.code]).toEqual([400, 'validation_failed'])
    expect(refused.body.detail).toMatch(/below collections are the platform's own/)
  }
  await change(workspace, [{ collection: 'a', document: {} }])
  expect((await receivedAtLeast(frames, 1)).map(({ data }) => data.topic)).toEqual(['collections.a.created'])
})

test('relay role: reads the outbox only; key roles: insert their own rows, read none', async () => {
  const [workspace, stranger] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const id = await declare(workspace, 'secrets', false)
  await call('POST', '/v1/collections/c/documents', { as: workspace.service, body: { n: 1 } })
  const as = async (role: string, text: string) => {
    const client = await transaction(workspace, role)
    try {
      return (await client.query(text)).rows
    } finally {
      await client.end()
    }
  }
  const tables = await asSuperuser<{ name: string }>(`
    select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname like 'tenon%'`)
  expect(tables.map(({ name }) => name)).toContain(`tenon_data.${id}`)
  // Of the tables of collections one: other test files make hundreds, all in the same way.
  const others = tables.filter(({ name }) => name !== 'tenon.outbox' && !name.startsWith('tenon_data.'))
  for (const { name } of [...others, { name: `tenon_data.${id}` }])
    await expect(as('tenon_relay', `select from ${name}`)).rejects.toThrow(/permission denied/)
  await expect(as('tenon_relay', 'select count(*) from tenon.outbox')).resolves.toHaveLength(1)
  const insert = (columns: string, values: string) => `
    insert into tenon.outbox (collection, verb, document_id, version${columns})
    values ('secrets', 'created', gen_random_uuid(), 1${values})`
  await expect(as('tenon_relay', insert('', ''))).rejects.toThrow(/permission denied/)
  for (const role of ['tenon_anon', 'tenon_service', 'tenon_admin', 'tenon_operator'])
    for (const text of ['select from tenon.outbox', 'delete from tenon.outbox'])
      await expect(as(role, text)).rejects.toThrow(/permission denied/)
  for (const [column, value] of [
    ['tenant_id', stranger.tenantId],
    ['workspace_id', stranger.workspaceId],
  ]) {
    const foreign = insert(`, ${column}`, `, '${value}'`)
    await expect(as('tenon_service', foreign)).rejects.toThrow(/row-level security/)
  }
})
