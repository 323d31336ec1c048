/** Headers of MCP 2026-07-28 that say something else than the body: refused, recorded by the body, and nothing runs. */

import { beforeAll, expect, test } from 'vitest'
import {
  callsOf,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  RPC,
  scopesOf,
  tokenFor,
} from '../support/clients/mcp.ts'
import { type Caller, call, createTestWorkspace, type Reply } from '../support/fixtures/tenants.ts'

const MODERN = '2026-07-28'
const HEADER_MISMATCH = -32_020

let server: PublishedMcpServer
let all: Caller
let reader: Caller
let id: string

const documents = '/v1/collections/notes/documents'

beforeAll(async () => {
  server = await publishMcpServer(await createTestWorkspace(), 'headers')
  all = await tokenFor(server, scopesOf(server, 'notes_list', 'notes_delete'))
  reader = await tokenFor(server, scopesOf(server, 'notes_list'))
  const body = { text: 'keep' }
  ;({ id } = await ok(call('POST', documents, { as: server.workspace.service, body })))
})

const encoded = (name: string) => `=?base64?${Buffer.from(name).toString('base64')}?=`

const RIGHT = { 'mcp-protocol-version': MODERN, 'mcp-method': 'tools/call', 'mcp-name': 'notes_delete' }

/** Deletes the document. A header that is undefined is left out. */
function remove(
  as: Caller,
  headers: Readonly<Record<string, string | undefined>>,
  meta: object = {},
): Promise<Reply> {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': MODERN,
    'io.modelcontextprotocol/clientCapabilities': {},
    ...meta,
  }
  const { 'mcp-protocol-version': _version, ...accept } = RPC
  const sent = Object.entries({ ...accept, ...RIGHT, ...headers }).filter(([, value]) => value !== undefined)
  return call('POST', server.path, {
    as,
    headers: Object.fromEntries(sent) as Record<string, string>,
    body: {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'notes_delete', arguments: { id }, _meta },
    },
  })
}

async function expectKept(): Promise<void> {
  expect((await call('GET', `${documents}/${id}`, { as: server.workspace.service })).status).toBe(200)
}

test.each<[string, Readonly<Record<string, string | undefined>>]>([
  ['another tool', { 'mcp-name': 'notes_list' }],
  ['another tool, encoded', { 'mcp-name': encoded('notes_list') }],
  ['two tools', { 'mcp-name': 'notes_list, notes_delete' }],
  ['no tool', { 'mcp-name': undefined }],
  ['another method', { 'mcp-method': 'tools/list', 'mcp-name': undefined }],
  ['another method with the tool', { 'mcp-method': 'prompts/get' }],
  ['no method', { 'mcp-method': undefined }],
  ['an older version', { 'mcp-protocol-version': '2025-11-25' }],
  ['an unknown version', { 'mcp-protocol-version': '2027-01-01' }],
  ['no version', { 'mcp-protocol-version': undefined }],
])('header of %s: refused in both forms, recorded, not run (T5)', async (_what, headers) => {
  // The second form is answered by the SDK in any case.
  for (const meta of [{}, { progressToken: 1 }]) {
    const { status, body } = await remove(all, headers, meta)
    expect([status, body.error?.code]).toEqual([400, HEADER_MISMATCH])
    expect(body.result).toBeUndefined()
    const [entry] = await callsOf(server)
    expect(entry).toMatchObject({
      ...{ channel: 'wire', tool: 'notes_delete', outcome: 'rpc_error' },
      ...{ transport_status: 400, rpc_code: HEADER_MISMATCH },
    })
  }
  await expectKept()
})

test('token that only reads, header of a tool that reads over a body that deletes: the scope of the body counts (T5)', async () => {
  for (const meta of [{}, { progressToken: 1 }]) {
    const { status, body } = await remove(reader, { 'mcp-name': 'notes_list' }, meta)
    expect([status, body.code]).toEqual([403, 'insufficient_scope'])
    const [entry] = await callsOf(server)
    expect(entry).toMatchObject({
      ...{ tool: 'notes_delete', outcome: 'denied', code: 'insufficient_scope' },
      scope: scopesOf(server, 'notes_delete'),
    })
  }
  await expectKept()
})

test('headers that agree, also encoded: it runs', async () => {
  const { body } = await remove(all, { 'mcp-name': encoded('notes_delete') })
  expect(body.result).toMatchObject({ isError: false })
  expect((await call('GET', `${documents}/${id}`, { as: server.workspace.service })).status).toBe(404)
})
