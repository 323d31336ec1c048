/** Streams of `subscriptions/listen` (MCP 2026-07-28): changed documents, new versions, who hears them, and for how long. */

import {
  PromptListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  askToken,
  NOTES,
  ok,
  type PublishedMcpServer,
  publish,
  publishMcpServer,
  rpc,
  scopesOf,
  tokenFor,
  withLegacyClient,
} from '../../support/clients/mcp.ts'
import { type Message, modernRpc, readMessages, sendModern } from '../../support/clients/mcp-modern.ts'
import { limitTenant } from '../../support/fixtures/quotas.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
let server: PublishedMcpServer
let client: { id: string; secret: string }

const signIn = async (...tools: string[]): Promise<Caller> => {
  const { body } = await askToken({ resource: server.url, scope: scopesOf(server, ...tools) }, client)
  return { authorization: `Bearer ${body['access_token']}` }
}

const createNote = async (text: string): Promise<string> => {
  const path = '/v1/collections/notes/documents'
  return (await ok(call('POST', path, { as: workspace.service, body: { text } }))).id
}

const patchNote = (id: string) =>
  ok(
    call('PATCH', `/v1/collections/notes/documents/${id}`, {
      as: workspace.service,
      body: { text: `changed ${Math.random()}` },
      headers: { 'content-type': 'application/merge-patch+json' },
    }),
  )

const INITIALIZE = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'a', version: '1' },
}

interface Stream {
  readonly status: number
  readonly messages: Message[]
  /** Resolves when the server has ended the stream. */
  readonly ended: Promise<void>
  readonly close: () => void
}

async function listen(as: Caller, notifications: object, path = server.path): Promise<Stream> {
  const disconnect = new AbortController()
  const params = { notifications }
  const response = await sendModern(path, as, 'subscriptions/listen', params, {
    signal: disconnect.signal,
  })
  const messages: Message[] = []
  const ended = readMessages(response, (message) => messages.push(message))
  ended.catch(() => {})
  await (response.status === 200 ? eventually(async () => messages[0]) : ended)
  return { status: response.status, messages, ended, close: () => disconnect.abort() }
}

const updatesIn = ({ messages }: Stream) =>
  messages
    .filter(({ method }) => method === 'notifications/resources/updated')
    .map(({ params }) => params.uri as string)

beforeAll(async () => {
  workspace = await createTestWorkspace()
  server = await publishMcpServer(workspace, 'news')
  const made = await ok(
    call('POST', `${server.base}/clients`, { as: workspace.operator, body: { name: 'a' } }),
  )
  client = { id: made.client_id, secret: made.client_secret }
})

test('documents that a client may read: each change is told, and no change of others', async () => {
  const [watched, other] = [await createNote('one'), await createNote('two')]
  const uri = `tenon://notes/${watched}`
  const reader = await listen(await signIn('notes_get'), { resourceSubscriptions: [uri] })
  const blind = await listen(await signIn('notes_list'), { resourceSubscriptions: [uri] })
  expect(reader.messages[0]).toMatchObject({
    method: 'notifications/subscriptions/acknowledged',
    params: { notifications: { resourceSubscriptions: [uri] } },
  })
  await patchNote(other)
  await patchNote(watched)
  await eventually(async () => (updatesIn(reader).length > 0 ? true : undefined))
  expect(updatesIn(reader)).toEqual([uri])
  expect(updatesIn(blind)).toEqual([])
  reader.close()
  blind.close()
})

test('objects that a client may read: each change is told under each URI of the object, and no change of others', async () => {
  const own = await createTestWorkspaceWithStorage()
  const bucket = await bucketOf(own)
  const files = await publishMcpServer(own, 'files', {
    [`buckets:${bucket}:get`]: { enabled: true, name: 'files_get' },
    [`buckets:${bucket}:list`]: { enabled: true, name: 'files_list' },
  })
  const change = (method: string, key: string) =>
    ok(
      call(method, `/v1/objects/${bucket}/${key}`, {
        as: own.service,
        ...(method === 'PUT' && { body: key }),
      }),
    )
  const uris = [`tenon-object://${bucket}/a%20b/c.txt`, `tenon-object://${bucket}/a%20b/c.txt?offset=1`]
  const listenAs = async (tool: string) =>
    listen(await tokenFor(files, scopesOf(files, tool)), { resourceSubscriptions: uris }, files.path)
  const [reader, blind] = [await listenAs('files_get'), await listenAs('files_list')]
  await change('PUT', 'a%20b/other.txt')
  await change('PUT', 'a%20b/c.txt')
  await change('DELETE', 'a%20b/c.txt')
  await eventually(async () => (updatesIn(reader).length >= 4 ? true : undefined))
  expect(updatesIn(reader)).toEqual([...uris, ...uris])
  expect(updatesIn(blind)).toEqual([])
  reader.close()
  blind.close()
})

test('another version is told to those who asked; the stream of a deleted client ends', async () => {
  const as = await signIn('notes_get')
  const [tools, resources] = await Promise.all([
    listen(as, { toolsListChanged: true }),
    listen(as, { resourcesListChanged: true }),
  ])
  await publish(server, { ...NOTES, 'collections:notes:query': { enabled: true } })
  await eventually(async () => tools.messages[1])
  expect(tools.messages.slice(1).map(({ method }) => method)).toEqual(['notifications/tools/list_changed'])
  expect(tools.messages[1]?.['params']._meta).toHaveProperty('io.modelcontextprotocol/subscriptionId')
  await eventually(async () => resources.messages[1])
  expect(resources.messages.slice(1).map(({ method }) => method)).toEqual([
    'notifications/resources/list_changed',
  ])
  const { id } = client
  const made = await ok(
    call('POST', `${server.base}/clients`, { as: workspace.operator, body: { name: 'b' } }),
  )
  client = { id: made.client_id, secret: made.client_secret }
  await ok(call('DELETE', `${server.base}/clients/${id}`, { as: workspace.operator }))
  await Promise.all([tools.ended, resources.ended])
})

test('prompts of another version: told to both generations of clients, which then list them', async () => {
  const prompts = (...names: string[]) =>
    Object.fromEntries(
      names.map((name) => [name, { messages: [{ role: 'user', content: { type: 'text', text: name } }] }]),
    )
  const publishPrompts = async (...names: string[]) => {
    const as = workspace.operator
    const body = { tools: NOTES, prompts: prompts(...names) }
    await ok(call('PUT', `${server.base}/curation`, { as, body }))
    await ok(call('POST', `${server.base}/publish`, { as, body: { accept: ['breaking'] } }))
  }
  await publishPrompts('first')
  const as = await signIn('notes_get')
  const stream = await listen(as, { promptsListChanged: true })
  let updates = 0
  await withLegacyClient(server.url, as, async (client) => {
    client.setNotificationHandler(PromptListChangedNotificationSchema, () => {
      updates += 1
    })
    const names = async () => (await client.listPrompts()).prompts.map(({ name }) => name)
    expect(await names()).toEqual(['first'])
    await publishPrompts('first', 'second')
    await eventually(async () => (updates > 0 && stream.messages[1] ? true : undefined))
    expect(await names()).toEqual(['first', 'second'])
  })
  expect(stream.messages.slice(1).map(({ method }) => method)).toEqual(['notifications/prompts/list_changed'])
  stream.close()
})

test('version that does not offer the documents any more: their changes are not told from then on', async () => {
  const [left, kept] = [await createNote('left'), await createNote('kept')]
  const as = await signIn('notes_get', 'notes_list')
  const resourceSubscriptions = [left, kept].map((id) => `tenon://notes/${id}`)
  const stream = await listen(as, { resourceSubscriptions, toolsListChanged: true })
  const { 'collections:notes:get': _get, ...others } = NOTES
  await publish(server, others)
  await eventually(async () => stream.messages.find(({ method }) => method?.includes('tools')))
  // The creation of the documents may have been told before.
  const before = stream.messages.length
  const updates = () => updatesIn({ ...stream, messages: stream.messages.slice(before) })
  await patchNote(left)
  await publish(server, NOTES)
  await eventually(async () => {
    await patchNote(kept)
    return updates().length > 0 ? true : undefined
  })
  expect(updates()).not.toContain(`tenon://notes/${left}`)
  stream.close()
})

describe('sessions of versions up to 2025-11-25', () => {
  const get = (as: Caller, headers: Record<string, string>, signal?: AbortSignal) =>
    fetch(server.url, {
      headers: { ...as, accept: 'text/event-stream', ...headers },
      ...(signal && { signal }),
    })

  test('stream: changes of subscribed documents until unsubscribed, and other versions', async () => {
    const as = await signIn('notes_get')
    const id = await createNote('one')
    const uri = `tenon://notes/${id}`
    const updated: string[] = []
    let lists = 0
    await withLegacyClient(server.url, as, async (client) => {
      client.setNotificationHandler(
        ResourceUpdatedNotificationSchema,
        ({ params }) => void updated.push(params.uri),
      )
      client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
        lists += 1
      })
      await client.subscribeResource({ uri })
      // The stream follows the subscriptions of its session every two seconds.
      await eventually(async () => {
        await patchNote(id)
        return updated.length > 0 ? true : undefined
      })
      expect(new Set(updated)).toEqual(new Set([uri]))
      await client.unsubscribeResource({ uri })
      await publish(server, NOTES)
      await eventually(async () => (lists > 0 ? true : undefined))
    })
  })

  test('GET: 405 without a session, 404 with one of another client; what is missed is told again, and is not stored (T8)', async () => {
    const as = await signIn('notes_get')
    const { headers } = await rpc(server.path, as, 'initialize', INITIALIZE)
    const session = {
      'mcp-session-id': headers.get('mcp-session-id') ?? '',
      'mcp-protocol-version': '2025-11-25',
    }
    await rpc(server.path, as, 'resources/subscribe', { uri: 'tenon://notes/x' }, 1, session)
    const long = { uri: `tenon://notes/${'x'.repeat(500_000)}` }
    const refused = await rpc(server.path, as, 'resources/subscribe', long, 1, session)
    expect(refused.body.error).toMatchObject({ code: -32_602 })
    const stranger = await ok(
      call('POST', `${server.base}/clients`, { as: workspace.operator, body: { name: 'c' } }),
    )
    const { body } = await askToken(
      { resource: server.url, scope: scopesOf(server, 'notes_get') },
      { id: stranger.client_id, secret: stranger.client_secret },
    )
    const foreign = await get({ authorization: `Bearer ${body['access_token']}` }, session)
    expect([(await get(as, {})).status, foreign.status]).toEqual([405, 404])
    const disconnect = new AbortController()
    const messages: Message[] = []
    const resumed = await get(as, { ...session, 'last-event-id': '1' }, disconnect.signal)
    readMessages(resumed, (message) => messages.push(message)).catch(() => {})
    await eventually(async () => (messages.length >= 4 ? true : undefined))
    expect(messages.map(({ method, params }) => [method, params?.uri])).toEqual([
      ['notifications/tools/list_changed', undefined],
      ['notifications/prompts/list_changed', undefined],
      ['notifications/resources/list_changed', undefined],
      ['notifications/resources/updated', 'tenon://notes/x'],
    ])
    disconnect.abort()
  })
})

test('streams: the process is about to end: they end with a time to reconnect after, and continue at another process', async () => {
  const as = await signIn('notes_get')
  const node = await startInProcessNode()
  const { headers } = await rpc(server.path, as, 'initialize', INITIALIZE)
  const session = {
    'mcp-session-id': headers.get('mcp-session-id') ?? '',
    'mcp-protocol-version': '2025-11-25',
    accept: 'text/event-stream',
  }
  const params = { notifications: { toolsListChanged: true } }
  const streams = await Promise.all([
    fetch(`${node.at.url}${server.path}`, { headers: { ...as, ...session } }),
    sendModern(server.path, as, 'subscriptions/listen', params, { at: node.at }),
  ])
  expect(streams.map(({ status }) => status)).toEqual([200, 200])
  const [texts] = await Promise.all([Promise.all(streams.map((stream) => stream.text())), node.drain()])
  for (const text of texts) expect(text).toMatch(/retry: \d+\n\n$/)
  await node.close()
  const continued = await fetch(server.url, { headers: { ...as, ...session } })
  expect(continued.status).toBe(200)
  await continued.body?.cancel()
})

test('streams and resources of a stream have a limit; a refusal leaves other streams open (T9)', async () => {
  const as = await signIn('notes_get')
  const many = Array.from({ length: 101 }, (_, index) => `tenon://notes/n${index}`)
  expect((await listen(as, { resourceSubscriptions: many })).status).toBe(400)
  // Clients of MCP servers have half of them.
  await limitTenant(workspace, { sse_streams: 6 })
  const streams: Stream[] = []
  while (streams.length < 10) {
    const stream = await listen(as, { toolsListChanged: true })
    streams.push(stream)
    if (stream.status !== 200) break
  }
  expect(streams.at(-1)).toMatchObject({
    status: 429,
    messages: [expect.objectContaining({ code: 'quota_exceeded' })],
  })
  expect(streams.length).toBe(4)
  const { message } = await modernRpc(server.path, as, 'tools/list')
  expect(message['result'].tools.length).toBeGreaterThan(0)
  for (const { close } of streams) close()
})
