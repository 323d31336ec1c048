/** Hosted MCP servers under attack over HTTP: tokens, scopes, transport, tenant isolation, call log. */

import { SignJWT } from 'jose'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import {
  callTool,
  NOTES,
  ok,
  type PublishedMcpServer,
  publish,
  publishMcpServer,
  RPC,
  rpc,
  scopesOf,
  tokenFor,
  withModernClient,
} from '../../support/clients/mcp.ts'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'
import { gatewayHeaders } from '../../support/stack/gateway.ts'

let ours: PublishedMcpServer
let theirs: PublishedMcpServer
let sibling: PublishedMcpServer
let reader: Caller
beforeAll(async () => {
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  ;[ours, theirs, sibling] = await Promise.all([
    publishMcpServer(workspace, 'notes'),
    publishMcpServer(other, 'notes', {
      ...NOTES,
      'collections:notes:get': { enabled: true, title: 'Theirs' },
    }),
    publishMcpServer(await addTestWorkspace(workspace), 'notes'),
  ])
  reader = await tokenFor(ours, scopesOf(ours, 'notes_list', 'notes_get'))
})

const metadataOf = ({ path }: PublishedMcpServer) =>
  `${inject('tenon').url}/.well-known/oauth-protected-resource${path}`
const challenge = (mcpServer: PublishedMcpServer) =>
  `resource_metadata="${metadataOf(mcpServer)}", scope="${scopesOf(mcpServer, 'notes_get', 'notes_list')}"`
const tokenClaims = ({ workspace, id }: PublishedMcpServer, more: object = {}) => ({
  sub: 'agent',
  client_id: 'tenon-operator',
  tenant_id: workspace.tenantId,
  workspace_id: workspace.workspaceId,
  mcp_server: id,
  mcp_version: 1,
  ...more,
})

describe('authentication', () => {
  test('no token: 401 that names the metadata and the scopes, without an error (T22)', async () => {
    for (const as of [{}, gatewayHeaders(ours.workspace)]) {
      const { status, headers, body } = await rpc(ours.path, as, 'tools/list')
      expect([status, body.code]).toEqual([401, 'credentials_missing'])
      expect(headers.get('www-authenticate')).toBe(`Bearer ${challenge(ours)}`)
      expect(headers.get('cache-control')).toBe('no-store')
    }
  })

  test('any wrong token: the same 401 invalid_token (T11)', async () => {
    const { url } = inject('tenon')
    const good = { audience: ours.url }
    const past = Math.floor(Date.now() / 1_000) - 1_000
    const unsigned = (head: object) =>
      `Bearer ${[
        head,
        { ...tokenClaims(ours), iss: `${url}/auth`, aud: ours.url, exp: past + 9_999, iat: past },
      ]
        .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
        .join('.')}.`
    const hs256 = await new SignJWT(tokenClaims(ours))
      .setProtectedHeader({ alg: 'HS256', typ: 'at+jwt' })
      .setIssuer(`${url}/auth`)
      .setAudience(ours.url)
      .setIssuedAt()
      .setExpirationTime('5m')
      .sign(Buffer.alloc(32, 1))
    const wrong: Record<string, Caller> = {
      garbage: { authorization: 'Bearer garbage' },
      'another scheme': { authorization: 'Basic YTpi' },
      'an API key': ours.workspace.service,
      'an API key for a token': { authorization: `Bearer ${ours.workspace.service['apikey']}` },
      'an API key beside a good token': { ...ours.workspace.service, ...reader },
      'a token of the REST API': ours.workspace.operator,
      'a token of a sibling workspace': await tokenFor(sibling, scopesOf(sibling, 'notes_list')),
      'a token of another tenant': await tokenFor(theirs, scopesOf(theirs, 'notes_list')),
      expired: await tokenOf(tokenClaims(ours, { exp: past }), good),
      'not yet valid': await tokenOf(tokenClaims(ours, { nbf: past + 9_999 }), good),
      'no audience': await tokenOf(tokenClaims(ours), { audience: null }),
      'ours among others': await tokenOf(tokenClaims(ours), { audience: [ours.url, `${url}/v1`] }),
      'another issuer': await tokenOf(tokenClaims(ours), { ...good, issuer: 'https://evil.test' }),
      'an ID token': await tokenOf(tokenClaims(ours), { ...good, typ: 'JWT' }),
      'our address, their tenant': await tokenOf(tokenClaims(theirs), good),
      'our address, a sibling workspace': await tokenOf(tokenClaims(sibling), good),
      'our address, another server': await tokenOf(tokenClaims(ours, { mcp_server: theirs.id }), good),
      'unknown client': await tokenOf(tokenClaims(ours, { client_id: 'agent_gone' }), good),
      'no client': await tokenOf(tokenClaims(ours, { client_id: undefined }), good),
      'no signature': { authorization: unsigned({ alg: 'none', typ: 'at+jwt' }) },
      'a secret for a key': { authorization: `Bearer ${hs256}` },
    }
    for (const [what, as] of Object.entries(wrong)) {
      const { status, headers, body } = await callTool(ours.path, as, 'notes_list')
      expect([what, status]).toEqual([what, 401])
      expect(headers.get('www-authenticate')).toBe(`Bearer error="invalid_token", ${challenge(ours)}`)
      expect(JSON.stringify({ ...body, instance: '' })).not.toMatch(/ten_|ws_|agent_/)
    }
    const fair = await tokenOf(tokenClaims(ours, { scope: scopesOf(ours, 'notes_list') }), good)
    expect((await callTool(ours.path, fair, 'notes_list')).body.result.isError).toBe(false)
  })

  test('token in the URL: 401', async () => {
    const token = reader['authorization']?.slice('Bearer '.length)
    expect((await rpc(`${ours.path}?access_token=${token}`, {}, 'tools/list')).status).toBe(401)
  })

  test('token of a server used elsewhere: 401 (T12)', async () => {
    for (const path of ['/v1/tenants', `${ours.base}/audit`, `/v1/collections/notes/documents`]) {
      const { status, body } = await call('GET', path, { as: reader })
      expect([path, status, body.code]).toEqual([path, 401, 'token_invalid'])
    }
    expect((await rpc('/v1/mcp/platform/mcp', reader, 'tools/list')).status).toBe(401)
  })

  test('unpublished server: the same 404 with and without a token (T13)', async () => {
    const crossed = ours.path
      .replace(ours.workspace.workspaceId, theirs.workspace.workspaceId)
      .replace('notes', ours.id)
    const made = ours.path.replace('notes', 'nothing')
    const bodies = await Promise.all(
      [crossed, made, made.replace(/ws_\w+/, 'ws_x')].flatMap((path) =>
        [{}, reader].map(async (as: Caller) => {
          const { status, body } = await rpc(path, as, 'tools/list')
          const { instance: _path, request_id: _id, ...rest } = body
          return { status, ...rest }
        }),
      ),
    )
    expect(new Set(bodies.map((body) => JSON.stringify(body))).size).toBe(1)
    expect(bodies[0]).toMatchObject({ status: 404, code: 'not_found' })
  })
})

describe('authorization', () => {
  test("tool outside the token's scope: hidden from the list, 403 with the missing scope in both protocol versions", async () => {
    const { body } = await rpc(ours.path, reader, 'tools/list')
    expect(body.result.tools.map(({ name }: { name: string }) => name)).toEqual(['notes_get', 'notes_list'])
    const scope = scopesOf(ours, 'notes_create')
    const args = { document: { text: 'never' } }
    const replies = await Promise.all([
      callTool(ours.path, reader, 'notes_create', args),
      modernCall(ours, reader, 'notes_create', args),
    ])
    for (const { status, headers, body: problem } of replies) {
      expect([status, problem.code]).toEqual([403, 'insufficient_scope'])
      expect(headers.get('www-authenticate')).toBe(
        `Bearer error="insufficient_scope", resource_metadata="${metadataOf(ours)}", scope="${scope}", ` +
          'error_description="The token does not allow this tool."',
      )
    }
    const { data } = await ok(call('GET', '/v1/collections/notes/documents', { as: ours.workspace.service }))
    expect(data.map(({ text }: { text: string }) => text)).not.toContain('never')
  })

  test('arguments outside the schema: refused; hostile strings are treated as plain values (T4, T32)', async () => {
    const as = await tokenFor(ours, scopesOf(ours, 'notes_get', 'notes_create'))
    const result = async (tool: string, args: unknown) =>
      (await callTool(ours.path, as, tool, args)).body.result
    for (const args of [{ id: 'x', name: 'other' }, { id: 1 }, {}, { id: 'x', __proto__x: 1 }]) {
      const { isError, content } = await result('notes_get', args)
      expect([isError, content[0].text]).toEqual([
        true,
        expect.stringMatching(
          /^validation_failed: The arguments of notes_get are not valid:\n- (id|name|__proto__x) (must|is) /,
        ),
      ])
    }
    for (const args of [[1], 'x']) {
      const { status, body } = await callTool(ours.path, as, 'notes_get', args)
      expect([status, body.error]).toEqual([400, { code: -32_602, message: 'arguments must be an object' }])
    }
    for (const id of [
      "' or 1=1 --",
      '../../tenants',
      '$ne',
      '${7*7}',
      'file:///etc/passwd',
      'a\r\nb',
      '\u0000',
    ]) {
      const { isError, content } = await result('notes_get', { id })
      expect([isError, content[0].text]).toEqual([
        true,
        expect.stringMatching(/^not_found: There is no such document\.$/m),
      ])
    }
    const nested = JSON.parse(`${'{"a":'.repeat(68)}1${'}'.repeat(68)}`)
    expect((await callTool(ours.path, as, 'notes_create', { document: nested })).status).toBe(400)
    const bad = await result('notes_create', { document: { id: 'mine', _version: 9 } })
    expect([bad.isError, bad.content[0].text]).toEqual([true, expect.stringContaining('validation_failed')])
  })
})

function modernCall(mcpServer: PublishedMcpServer, as: Caller, name: string, args: unknown, headers = {}) {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  return call('POST', mcpServer.path, {
    as,
    headers: {
      ...RPC,
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': name,
      ...headers,
    },
    body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args, _meta } },
  })
}

describe('transport', () => {
  test('batch: refused as a whole (T3)', async () => {
    const body = Array.from({ length: 50 }, (_, id) => ({
      jsonrpc: '2.0',
      id,
      method: 'tools/list',
      params: {},
    }))
    for (const version of [
      {},
      { 'mcp-protocol-version': '2025-03-26' },
      { 'mcp-protocol-version': '2026-07-28' },
    ]) {
      const reply = await call('POST', ours.path, { as: reader, body, headers: { ...RPC, ...version } })
      expect([reply.status, reply.body.error.code, reply.body.id]).toEqual([400, -32_600, null])
    }
  })

  test('wrong method, origin, content type or size: refused with its status (T4, T6)', async () => {
    for (const method of ['GET', 'HEAD', 'DELETE', 'PUT']) {
      const { status, headers } = await call(method, ours.path, { as: reader })
      expect([method, status, headers.get('allow')]).toEqual([method, 405, 'GET, POST'])
    }
    const list = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
    const send = async (body: unknown, headers: Record<string, string>) =>
      (await call('POST', ours.path, { as: reader, body, headers: { ...RPC, ...headers } })).status
    expect(await send(list, {})).toBe(200)
    expect(await send(list, { origin: inject('tenon').url })).toBe(200)
    for (const origin of ['https://evil.test', 'null', '', `${inject('tenon').url}.evil.test`]) {
      expect([origin, await send(list, { origin })]).toEqual([origin, 403])
    }
    expect(await send(list, { 'content-type': 'application/yaml' })).toBe(415)
    expect(await send(list, { 'content-type': 'text/plain' })).toBe(415)
    expect(await send(list, { accept: 'text/html' })).toBe(406)
    expect(await send('{', {})).toBe(400)
    expect(await send('"text"', {})).toBe(400)
    expect(await send('[', {})).toBe(400)
    expect(await send(`{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`, {})).toBe(400)
    expect(await send({ ...list, params: { x: 'x'.repeat(1_100_000) } }, {})).toBe(413)
    expect(
      await send({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: { a: 1 } } }, {}),
    ).toBeLessThan(500)
  })

  test.each([null, [], 'text', 1])('params %j: -32600 in every version (T4)', async (params) => {
    for (const version of ['2024-11-05', '2025-11-25', '2026-07-28'])
      for (const method of ['tools/list', 'tools/call']) {
        const headers = { ...RPC, 'mcp-protocol-version': version, 'mcp-method': method }
        const body = { jsonrpc: '2.0', id: 'x', method, params }
        const reply = await call('POST', ours.path, { as: reader, headers, body })
        const { error, id } = reply.body
        expect([version, method, reply.status, error?.code, id]).toEqual([version, method, 400, -32_600, 'x'])
      }
  })

  test('Accept that takes every type: answered as if it named both types (T4)', async () => {
    const params = { name: 'notes_list', arguments: { limit: 1 }, _meta: { progressToken: 1 } }
    for (const accept of ['*/*', 'text/html, */*;q=0.8', RPC.accept]) {
      const plain = await rpc(ours.path, reader, 'tools/list', {}, 1, { accept })
      expect([accept, plain.body.result?.tools.length]).toEqual([accept, 2])
      const stream = await rpc(ours.path, reader, 'tools/call', params, 1, { accept })
      expect([accept, stream.status]).toEqual([accept, 200])
      expect((await modernCall(ours, reader, 'notes_list', {}, { accept })).status).toBe(200)
    }
    for (const accept of ['application/json', 'text/*', 'application/*'])
      expect((await rpc(ours.path, reader, 'tools/list', {}, 1, { accept })).status).toBe(406)
  })

  test('protocol 2026-07-28: headers that differ from the body, unknown versions and unknown methods are refused (T5)', async () => {
    const differs = await modernCall(ours, reader, 'notes_list', {}, { 'mcp-name': 'notes_get' })
    expect([differs.status, differs.body.error.code]).toEqual([400, -32_020])
    const _meta = (version: string) => ({
      'io.modelcontextprotocol/protocolVersion': version,
      'io.modelcontextprotocol/clientCapabilities': {},
    })
    const send = (method: string, version: string) =>
      call('POST', ours.path, {
        as: reader,
        headers: { ...RPC, 'mcp-protocol-version': version, 'mcp-method': method },
        body: { jsonrpc: '2.0', id: 7, method, params: { _meta: _meta(version) } },
      })
    expect((await send('tools/list', '2027-01-01')).body.error.code).toBe(-32_022)
    for (const method of ['prompts/list', 'nothing']) {
      const { status, body } = await send(method, '2026-07-28')
      expect([status, body.error.code, body.id]).toEqual([404, -32_601, 7])
    }
    const list = await send('tools/list', '2026-07-28')
    expect(list.body.result).toMatchObject({ resultType: 'complete', cacheScope: 'private', ttlMs: 0 })
    const discovered = await withModernClient(ours.url, reader, async (client) => client.getServerVersion())
    expect(discovered).toMatchObject({ name: 'Server notes', version: '1' })
  })
})

test('two hundred concurrent calls of two tenants with the same ids: responses never mix (T2)', async () => {
  const [a, b] = await Promise.all([createDocument(ours, 'a'), createDocument(theirs, 'b')])
  const calls = Array.from({ length: 100 }, (_, id) =>
    [a, b].map(async ({ mcpServer, as, documentId, text }) => {
      const args = { id: documentId }
      const reply =
        id % 2
          ? callTool(mcpServer.path, as, 'notes_get', args, id)
          : modernCall(mcpServer, as, 'notes_get', args)
      const { result, id: answered } = (await reply).body
      expect([answered, result.structuredContent.text]).toEqual([id % 2 ? id : 1, text])
    }),
  )
  const titles = Array.from({ length: 20 }, async (_, n) => {
    const [{ mcpServer, as }, title] = n % 2 ? [a, 'Read a document of notes'] : [b, 'Theirs']
    const { tools } = (await rpc(mcpServer.path, as, 'tools/list')).body.result
    expect(tools.map((tool: { title: string }) => tool.title)).toEqual([title])
  })
  await Promise.all([...calls.flat(), ...titles])
  const foreign = await callTool(a.mcpServer.path, a.as, 'notes_get', { id: b.documentId })
  expect(foreign.body.result.isError).toBe(true)
})

async function createDocument(mcpServer: PublishedMcpServer, text: string) {
  const as = await tokenFor(mcpServer, scopesOf(mcpServer, 'notes_get'))
  const body = { text }
  const { id } = await ok(
    call('POST', '/v1/collections/notes/documents', { as: mcpServer.workspace.service, body }),
  )
  return { mcpServer, as, documentId: id as string, text }
}

test('calls of every outcome: each logged once, with its outcome and without arguments', async () => {
  const mcpServer = await publishMcpServer(await createTestWorkspace(), 'record')
  const as = await tokenFor(mcpServer, scopesOf(mcpServer, 'notes_get', 'notes_list'))
  const operator = mcpServer.workspace.operator
  await callTool(mcpServer.path, as, 'notes_list', {})
  await callTool(mcpServer.path, as, 'notes_get', { id: 'sesame' })
  await callTool(mcpServer.path, as, 'notes_get', { secret: 'sesame' })
  await callTool(mcpServer.path, as, 'sesame')
  await callTool(mcpServer.path, as, 'notes_delete', { id: 'sesame' })
  await modernCall(mcpServer, as, 'notes_list', {})
  await modernCall(mcpServer, as, 'notes_list', {}, { 'mcp-name': 'notes_get' })
  await callTool(mcpServer.path, {}, 'notes_list')
  await callTool(mcpServer.path, { authorization: 'Bearer x' }, 'notes_list')
  await call('POST', mcpServer.path, { as, body: [1, 2, 3], headers: RPC })
  await call('POST', mcpServer.path, { as, body: {}, headers: { ...RPC, origin: 'https://evil.test' } })
  const body = { tool: 'notes_list', arguments: {} }
  await call('POST', `${mcpServer.base}/call`, { as: operator, body, headers: { 'x-request-id': 'mine' } })
  await call('POST', `${mcpServer.base}/call`, { as: operator, body: { tool: 'nothing' } })
  await rpc(mcpServer.path, as, 'tools/list')
  const page = await ok(call('GET', `${mcpServer.base}/audit?order=asc`, { as: operator }))
  const rows = page.data.map((row: Record<string, unknown>) =>
    ['channel', 'tool', 'outcome', 'transport_status', 'rpc_code', 'code', 'version'].map(
      (name) => row[name],
    ),
  )
  expect(rows).toEqual([
    ['wire', 'notes_list', 'ok', 200, null, null, 1],
    ['wire', 'notes_get', 'tool_error', 200, null, 'not_found', 1],
    ['wire', 'notes_get', 'tool_error', 200, null, 'validation_failed', 1],
    ['wire', 'sesame', 'rpc_error', 200, -32_602, 'not_found', 1],
    ['wire', 'notes_delete', 'denied', 403, null, 'insufficient_scope', 1],
    ['wire', 'notes_list', 'ok', 200, null, null, 1],
    ['wire', 'notes_list', 'rpc_error', 400, -32_020, null, 1],
    ['wire', null, 'denied', 401, null, 'credentials_missing', 1],
    ['wire', null, 'denied', 401, null, 'token_invalid', 1],
    ['wire', null, 'rpc_error', 400, -32_600, 'batch_refused', 1],
    ['wire', null, 'denied', 403, null, 'forbidden', 1],
    ['rest', 'notes_list', 'ok', 200, null, null, 1],
    ['rest', 'nothing', 'rpc_error', 404, -32_602, 'not_found', 1],
  ])
  expect(JSON.stringify(page.data.filter(({ tool }: { tool: string }) => tool !== 'sesame'))).not.toContain(
    'sesame',
  )
  expect(page.data.at(-2)).toMatchObject({ request_id: 'mine', principal: 'tenon-operator' })
  const filtered = await ok(
    call('GET', `${mcpServer.base}/audit?outcome=denied&page[size]=2`, { as: operator }),
  )
  expect([filtered.data.length, filtered.page.has_more]).toEqual([2, true])
  await publish(mcpServer, NOTES)
  await callTool(mcpServer.path, as, 'notes_list', {})
  const last = await ok(call('GET', `${mcpServer.base}/audit`, { as: operator }))
  expect(last.data[0]).toMatchObject({ version: 2, tool: 'notes_list' })
})
