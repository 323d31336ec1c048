/** Functions that ask too much of clients, and clients that do not answer (input requests of MCP servers). */

import { beforeAll, describe, expect, test } from 'vitest'
import { callsOf, ok, type PublishedMcpServer, publishMcpServer, RPC, rpc } from '../support/clients/mcp.ts'
import { type Message, modernRpc, readMessages } from '../support/clients/mcp-modern.ts'
import { FORM, signIn } from '../support/fixtures/asking-server.ts'
import { limitTenant } from '../support/fixtures/quotas.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../support/fixtures/tenants.ts'

/** Asks what its input says, whatever it is answered. */
const ASK = `export default (inputRequests) => ({ resultType: 'input_required', inputRequests })`
const TOOL = 'call_ask'

let workspace: TestWorkspace
let server: PublishedMcpServer
let agent: Caller

beforeAll(async () => {
  workspace = await createTestWorkspace()
  const { operator: as, workspaceId: workspace_id } = workspace
  await ok(call('POST', '/v1/functions', { as, body: { workspace_id, name: 'ask', source: ASK } }))
  server = await publishMcpServer(workspace, 'hostile', { 'functions:ask:invoke': { enabled: true } })
  const made = await ok(call('POST', `${server.base}/clients`, { as, body: { name: 'agent' } }))
  agent = await signIn(server, { id: made.client_id, secret: made.client_secret }, [TOOL])
})

const ask = async (input: object, more: object = {}): Promise<Message> =>
  (await modernRpc(server.path, agent, 'tools/call', { name: TOOL, arguments: { input }, ...more }, FORM))
    .message
const elicit = (params: object) => ({ it: { method: 'elicitation/create', params } })
const form = (requestedSchema: object) => ({ message: 'Well?', requestedSchema })
const field = { type: 'object', properties: { name: { type: 'string' } } }

describe('what functions ask', () => {
  test.each([
    ['a request under a name that is none', { 'a b': { method: 'logging/setLevel', params: {} } }],
    ['null in place of a request', { 'a b': null }],
    ['an unknown method', { it: { method: 'logging/setLevel' } }],
    [
      'more than ten',
      Object.fromEntries(Array.from({ length: 11 }, (_, n) => [`n${n}`, { method: 'roots/list' }])),
    ],
  ])('%s: is no request, but the output', async (_name, requests) => {
    const { result } = (await ask(requests)) as { result: Message }
    expect(result['content'][0].text).toBe(
      JSON.stringify({ resultType: 'input_required', inputRequests: requests }),
    )
  })

  test('forms that hide the field for a secret, and modes that are none, are not sent (T34)', async () => {
    const secret = { properties: { password: { type: 'string' } } }
    for (const params of [
      form({ type: 'object', properties: { login: { type: 'object', ...secret } } }),
      form({ type: 'object', allOf: [secret] }),
      { mode: 'URL', message: 'Open it', elicitationId: 'e1', url: 'https://evil.example/' },
      { mode: ['url'], message: 'Open it', elicitationId: 'e1', url: 'https://evil.example/' },
    ]) {
      const { result } = (await ask(elicit(params))) as { result: Message }
      expect(result['content']?.[0].text).toMatch(/^client_input_refused: it asks /)
    }
  })
})

describe('clients up to 2025-11-25 that do not answer', () => {
  const begin = async () => {
    const { headers } = await rpc(server.path, agent, 'initialize', {
      protocolVersion: '2025-11-25',
      capabilities: { elicitation: {} },
      clientInfo: { name: 'a', version: '1' },
    })
    const session = { ...RPC, 'mcp-session-id': headers.get('mcp-session-id') ?? '' }
    const disconnect = new AbortController()
    const params = { name: TOOL, arguments: { input: elicit(form(field)) } }
    const response = await fetch(server.url, {
      method: 'POST',
      headers: { ...agent, ...session, 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
      signal: disconnect.signal,
    })
    const messages: Message[] = []
    readMessages(response, (message) => messages.push(message)).catch(() => {})
    return { first: await eventually(async () => messages[0]), leave: () => disconnect.abort() }
  }
  const calls = async () => (await callsOf(server, `&tool=${TOOL}&outcome=ok`)).length

  test('a client that leaves: the function is not called again', async () => {
    const { first, leave } = await begin()
    expect(first).toMatchObject({ method: 'elicitation/create' })
    const before = await calls()
    leave()
    for (let n = 0; n < 8; n += 1) expect(await calls()).toBe(before)
  })

  test('calls that wait for answers count as streams of the tenant', async () => {
    // Clients of MCP servers have half of them.
    await limitTenant(workspace, { sse_streams: 6 })
    const waiting = []
    while (waiting.length < 6) {
      const one = await begin()
      waiting.push(one)
      if (one.first['error'] !== undefined || one.first['result'] !== undefined) break
    }
    expect(waiting.length).toBe(4)
    expect(JSON.stringify(waiting.at(-1)?.first)).toContain('streams')
    for (const { leave } of waiting) leave()
  })
})
