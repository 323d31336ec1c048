// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Faults that trackers of other MCP gateways report: withheld tools that can be called, types that skip a check, results without a bound. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import {
  callsOf,
  callTool,
  createMcpWorkspace,
  ok,
  type PublishedMcpServer,
  publish,
  publishMcpServer,
  RPC,
  rpc,
  scopesOf,
  tokenFor,
} from '../support/clients/mcp.ts'
import { modernRpc } from '../support/clients/mcp-modern.ts'
import { Executions } from '../support/fixtures/executions.ts'
import { type Caller, call, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { McpUpstream } from '../support/servers/mcp-upstream.ts'
import { configure } from '../support/stack/workspace-settings.ts'

const NAMES = ['list', 'get', 'create']
const TOOLS = Object.fromEntries(NAMES.map((verb) => [`collections:notes:${verb}`, { enabled: true }]))
const LARGE = 'x'.repeat(3_000_000)
const content = (...parts: object[]) => ({ content: parts })
/** Results of 3 MB, each in another part, of tools of another server. */
const RESULTS: Readonly<Record<string, object>> = {
  text: content({ type: 'text', text: LARGE }),
  resource: content({
    type: 'resource',
    resource: { uri: 'file:///a', mimeType: 'text/plain', text: LARGE },
  }),
  image: content({ type: 'image', mimeType: 'image/png', data: LARGE.replaceAll('x', 'A') }),
  parts: content(
    ...Array.from({ length: 10_000 }, (_, n) => ({ type: 'text', text: `part ${n} ${'x'.repeat(200)}` })),
  ),
  structure: { ...content(), structuredContent: { rows: LARGE, n: 1 } },
}

let workspace: TestWorkspace
let upstream: McpUpstream
let server: PublishedMcpServer
let reader: Caller
let writer: Caller

beforeAll(async () => {
  workspace = await createMcpWorkspace()
  server = await publishMcpServer(workspace, 'faults', TOOLS)
  reader = await tokenFor(server, scopesOf(server, 'notes_list'))
  writer = await tokenFor(server, scopesOf(server, 'notes_list', 'notes_create'))
  upstream = await McpUpstream.open(
    'stateless',
    Object.entries(RESULTS).map(([name, result]) => ({
      name,
      inputSchema: { type: 'object', properties: {} },
      ...(name === 'structure' && {
        outputSchema: { type: 'object', properties: { n: { type: 'integer' } } },
      }),
      call: () => result,
    })),
  )
  await configure(workspace, { egress: { allow: [upstream.host] } })
})
afterAll(() => upstream.close())

describe('body of a call', () => {
  const message = (text: string) =>
    JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'notes_create', arguments: { document: { text } } },
    })
  const BOM = [0xef, 0xbb, 0xbf]

  test.each([
    ['text/plain', 'text/plain', []],
    ['a type that begins as JSON', 'application/jsonp', []],
    ['JSON within another type', 'x/json+application/json', []],
    ['two types', 'text/plain, application/json', []],
    ['another charset', 'application/json; charset=utf-16', []],
    ['no type', undefined, []],
    ['a byte order mark', 'application/json', BOM],
  ] as const)(
    '%s: refused, or checked as any other; without the scope it has no effect',
    async (name, type, before) => {
      for (const [as, who] of [
        [reader, 'reader'],
        [writer, 'writer'],
      ] as const) {
        const text = `${name} of ${who}`
        const response = await fetch(`${inject('tenon').url}${server.path}`, {
          method: 'POST',
          headers: { ...as, ...RPC, ...(type && { 'content-type': type }) },
          body: new Uint8Array([...before, ...Buffer.from(message(text))]),
        })
        const isMade = response.status === 200 && !(await response.text()).includes('"error"')
        expect(isMade ? who : response.status, text).toSatisfy(
          (one) => one === 'writer' || [400, 403, 415].includes(one),
        )
        const { data } = await ok(
          call('GET', `/v1/collections/notes/documents?page[size]=200`, {
            as: workspace.service,
          }),
        )
        expect(data.filter((one: { text: string }) => one.text === text)).toHaveLength(isMade ? 1 : 0)
      }
      const calls = await callsOf(server, '&tool=notes_create&outcome=ok')
      expect(calls.filter(({ scope }) => scope !== `mcp:faults:notes_create`)).toEqual([])
    },
  )
})

test('withheld tool: unknown by every way, and each attempt is recorded', async () => {
  const made = await publishMcpServer(workspace, 'withheld', {
    'collections:notes:delete': { enabled: true },
    ...TOOLS,
  })
  const executions = new Executions(workspace)
  for (const tool of ['notes_delete', 'notes_create'])
    await executions.publish(
      `  - a: { call: mcp, with: { server: withheld, tool: ${tool}, arguments: ${tool === 'notes_delete' ? '{ id: x }' : '{ document: { a: 1 } }'} } }\n`,
      { name: tool.replace('_', '-') },
    )
  const all = await tokenFor(made, scopesOf(made, 'notes_delete', 'notes_create', 'notes_list', 'notes_get'))
  // `delete` was in an older version, `create` is disabled, `query` is in the draft alone, `update` was never chosen.
  const list = { 'collections:notes:list': { enabled: true }, 'collections:notes:get': { enabled: true } }
  await publish(made, { ...list, 'collections:notes:create': { enabled: false } })
  const draft = { ...list, 'collections:notes:query': { enabled: true } }
  await ok(call('PUT', `${made.base}/curation`, { as: workspace.operator, body: { tools: draft } }))
  await ok(call('PATCH', made.base, { as: workspace.operator, body: { search: 'on' } }))
  for (const name of ['notes_delete', 'notes_create', 'notes_query', 'notes_update']) {
    const args = { name, arguments: { id: 'x' } }
    const ways = {
      legacy: (await rpc(made.path, all, 'tools/call', args)).body,
      modern: (await modernRpc(made.path, all, 'tools/call', args)).message,
      search: (await rpc(made.path, all, 'tools/call', { name: 'tool_call', arguments: args })).body,
    }
    for (const [way, body] of Object.entries(ways))
      expect(body['error'], `${name} by ${way}`).toMatchObject({
        code: -32_602,
        message: expect.stringContaining('There is no such tool.'),
      })
    const rest = { tool: name, arguments: { id: 'x' } }
    expect(await call('POST', `${made.base}/call`, { as: workspace.operator, body: rest })).toMatchObject({
      status: 404,
      body: { code: 'not_found' },
    })
    const entries = await callsOf(made, `&tool=${name}&after=2000-01-01T00:00:00Z`)
    expect(entries.filter(({ outcome }) => outcome !== 'ok').length, name).toBeGreaterThanOrEqual(4)
  }
  for (const flow of ['notes-delete', 'notes-create'])
    expect(await executions.ended(await executions.start(flow)), flow).toMatchObject({ status: 'faulted' })
  const { tools } = JSON.parse(
    (await callTool(made.path, all, 'tool_search', { query: 'delete notes' })).body.result.content[0].text,
  )
  expect(tools.map(({ name }: { name: string }) => name)).not.toContain('notes_delete')
})

test('tool that fails: recorded as a tool error, and the next call is made anew', async () => {
  const source = `export const output = { type: 'object', properties: { n: { type: 'integer' } } }
export default ({ fails }) => { if (fails) throw new Error('broken'); return { n: 1 } }`
  const body = { workspace_id: workspace.workspaceId, name: 'fails', source }
  await ok(call('POST', '/v1/functions', { as: workspace.operator, body }))
  const made = await publishMcpServer(workspace, 'failing', { call_fails: { enabled: true } })
  const as = await tokenFor(made, scopesOf(made, 'call_fails'))
  const use = async (fails: boolean) =>
    (await callTool(made.path, as, 'call_fails', { input: { fails } })).body.result
  expect([
    (await use(true)).isError,
    (await use(false)).structuredContent.n,
    (await use(true)).isError,
  ]).toEqual([true, 1, true])
  const outcomes = (await callsOf(made)).map(({ outcome, code }) => [outcome, code])
  const failed = ['tool_error', 'function_error']
  expect(outcomes).toEqual([failed, ['ok', null], failed])
})

test('result of 3 MB in any part: bounded, and the model is told', async () => {
  const body = { name: 'large', kind: 'mcp', url: upstream.url }
  const sources = `/v1/mcp/workspaces/${workspace.workspaceId}/sources`
  await ok(call('POST', sources, { as: workspace.operator, body }))
  const tools = Object.keys(RESULTS).map((name) => [`mcp:large:${name}`, { enabled: true }])
  const made = await publishMcpServer(workspace, 'large', Object.fromEntries(tools))
  const names = Object.keys(RESULTS).map((name) => `large_${name}`)
  const as = await tokenFor(made, scopesOf(made, ...names))
  for (const name of names) {
    const { result } = (await callTool(made.path, as, name)).body
    // Each form keeps within the budget.
    expect(JSON.stringify(result.content).length, name).toBeLessThan(110_000)
    expect(JSON.stringify(result.structuredContent ?? {}).length, name).toBeLessThan(100_000)
    expect(JSON.stringify(result.content), name).toMatch(/are returned|more parts are not passed on/)
  }
})

test('argument that is too long: the error names it, its limit and its length in characters', async () => {
  const title = {
    'collections:notes:list': {
      enabled: true,
      arguments: {
        cursor: { schema: { $schema: 'http://json-schema.org/draft-07/schema#', maxLength: 10 } },
      },
    },
  }
  const made = await publishMcpServer(workspace, 'counted', title)
  const as = await tokenFor(made, scopesOf(made, 'notes_list'))
  const { result } = (await callTool(made.path, as, 'notes_list', { cursor: '日本語😀'.repeat(5) })).body
  expect(result.content[0].text).toContain('- cursor must have at most 10 characters, and has 20')
})

test('version in a header with spaces, URI of a resource that is none: read, and an error of the protocol', async () => {
  const headers = { 'mcp-protocol-version': '  2025-11-25 ' }
  expect(
    (await rpc(server.path, reader, 'tools/list', {}, 1, headers)).body.result.tools.length,
  ).toBeGreaterThan(0)
  for (const uri of ['::', '', 'tenon://%', 'tenon-result://'])
    for (const error of [
      (await rpc(server.path, reader, 'resources/read', { uri })).body.error,
      (await modernRpc(server.path, reader, 'resources/read', { uri })).message['error'],
    ])
      expect([-32_602, -32_002], uri).toContain(error.code)
})
