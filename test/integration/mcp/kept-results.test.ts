/** Results that are too large to return: kept for the caller, read in pages as a resource or by a tool, and forgotten. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  askToken,
  callsOf,
  callTool,
  createMcpWorkspace,
  MARKED,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  RPC,
  rpc,
  scopesOf,
  tokenFor,
  withLegacyClient,
  withModernClient,
} from '../../support/clients/mcp.ts'
import { asSuperuser, type Caller, call, type TestWorkspace } from '../../support/fixtures/tenants.ts'

const OUTPUT = { type: 'object', properties: { total: {}, rows: {} }, required: ['total'] }
const SOURCES = {
  big: 'export default ({ text, times }) => text.repeat(times)',
  rows: `export const input = { type: 'object' }
    export const output = ${JSON.stringify(OUTPUT)}
    export default () => ({ total: 7, rows: 'r'.repeat(200_000) })`,
  strict: `export const input = { type: 'object' }
    export const output = ${JSON.stringify({ ...OUTPUT, required: ['rows'] })}
    export default () => ({ total: 7, rows: 'r'.repeat(200_000) })`,
  wide: `export const input = { type: 'object' }
    export const output = ${JSON.stringify(OUTPUT)}
    export default () => Object.assign({ total: 7 }, Object.fromEntries(Array.from({ length: 40_000 }, (_, n) => ['member' + n, n])))`,
  picture: `export default (n) => ({ content: [{ type: 'image', data: 'AAEC'.repeat(n / 4), mimeType: 'image/png' }] })`,
}
const TOOLS = {
  ...Object.fromEntries(Object.keys(SOURCES).map((name) => [`functions:${name}:invoke`, { enabled: true }])),
  'results:server:read': { enabled: true },
  'collections:notes:get': { enabled: true },
  'collections:notes:create': { enabled: true },
}
const NAMES = [
  ...Object.keys(SOURCES).map((name) => `call_${name}`),
  'result_read',
  'notes_get',
  'notes_create',
]
const URI = /tenon-result:\/\/([0-9a-f]{32})/

let workspace: TestWorkspace
let server: PublishedMcpServer
let as: Caller

async function publishLarge(slug: string, of: TestWorkspace) {
  const published = await publishMcpServer(of, slug, TOOLS)
  return { published, as: await tokenFor(published, scopesOf(published, ...NAMES)) }
}

const deploy = (of: TestWorkspace) =>
  Promise.all(
    Object.entries(SOURCES).map(([name, source]) =>
      ok(
        call('POST', '/v1/functions', {
          as: of.operator,
          body: { workspace_id: of.workspaceId, name, source },
        }),
      ),
    ),
  )

/** A token of another principal: an agent of the server. */
async function agentOf(of: PublishedMcpServer): Promise<Caller> {
  const made = await ok(
    call('POST', `${of.base}/clients`, { as: of.workspace.operator, body: { name: 'agent' } }),
  )
  const client = { id: made.client_id, secret: made.client_secret }
  const { body } = await askToken({ resource: of.url, scope: scopesOf(of, ...NAMES) }, client)
  return { authorization: `Bearer ${body['access_token']}` }
}

const use = async (tool: string, args: unknown, by = as, on = server) => {
  const { body } = await callTool(on.path, by, tool, args)
  if (body.result === undefined) throw new Error(JSON.stringify(body))
  const { content, structuredContent, isError = false } = body.result
  const [, handle = ''] = URI.exec(content[0].text ?? '') ?? []
  return { content, text: String(content[0].text), handle, data: structuredContent, isError }
}

const read = (uri: string, by = as, on = server) => rpc(on.path, by, 'resources/read', { uri })

/** A whole resource, and how many pages it has. */
async function readAll(uri: string): Promise<{ bytes: Buffer; pages: number }> {
  const parts: Buffer[] = []
  for (let next: string | undefined = uri; next !== undefined; ) {
    const { body } = await read(next)
    const [page, rest] = body.result.contents
    expect(JSON.stringify(body).length).toBeLessThan(101_000)
    parts.push(page.blob === undefined ? Buffer.from(page.text) : Buffer.from(page.blob, 'base64'))
    next = rest?.uri
  }
  return { bytes: Buffer.concat(parts), pages: parts.length }
}

beforeAll(async () => {
  workspace = await createMcpWorkspace()
  await deploy(workspace)
  ;({ published: server, as } = await publishLarge('large', workspace))
})

describe.each([
  ['legacy', withLegacyClient],
  ['modern', withModernClient],
] as const)('%s client', (_era, connect) => {
  test('large result: a text and a link; members that are not required are left out', async () => {
    await connect(server.url, as, async (client) => {
      await client.listTools()
      const big = await client.callTool({
        name: 'call_big',
        arguments: { input: { text: 'ab', times: 100_000 } },
      })
      const [text, link] = big.content as [{ text: string }, { uri: string }]
      expect(big.isError ?? false).toBe(false)
      expect(text.text).toMatch(
        /^The result has 200002 bytes; at most 100000 are returned at once\. .*60 minutes/,
      )
      expect(text.text).toContain('read it with result_read and the handle')
      expect(link).toEqual({
        type: 'resource_link',
        uri: URI.exec(text.text)?.[0],
        name: 'Result of call_big',
        mimeType: 'text/plain',
        size: 200_000,
      })
      const { contents } = await client.readResource({ uri: link.uri })
      expect(contents.map(({ uri }) => uri)).toEqual([link.uri, expect.stringMatching(/\?offset=9\d+$/)])
      // The client itself refuses a result that does not fit the output schema.
      const rows = await client.callTool({ name: 'call_rows', arguments: {} })
      expect([rows.isError ?? false, rows.structuredContent]).toEqual([false, { ...MARKED, total: 7 }])
      expect(JSON.stringify(rows.content)).toContain('This answer lacks rows.')
      const strict = await client.callTool({ name: 'call_strict', arguments: {} })
      expect([strict.isError, strict.structuredContent]).toEqual([true, undefined])
      expect(JSON.stringify(strict.content)).toMatch(
        /output_too_large: .*carried out: do not repeat it.*tenon-result:/,
      )
      const wide = await client.callTool({ name: 'call_wide', arguments: {} })
      expect(JSON.stringify(wide)).toMatch(/This answer lacks \d+ other members\./)
      expect(wide.structuredContent).toMatchObject({ total: 7 })
      // The budget is that of each form, since hosts show their model one of them.
      const texts = (wide.content as { text?: string }[]).map(({ text = '' }) => text)
      for (const form of [texts.join(''), JSON.stringify(wide.structuredContent)])
        expect(form.length).toBeLessThan(100_000)
    })
  })
})

test('output of a flow that is too large: its state, and a link to all of it', async () => {
  const experimental = { workspace_id: workspace.workspaceId, experimental: ['mcp.flow_tools'] }
  await ok(call('POST', '/v1/services/configure', { as: workspace.operator, body: experimental }))
  const source = `document: { dsl: '1.0.3', namespace: n, name: report, version: '1.0.0' }
do:
  - make: { set: { rows: "\${ [range(30000)] }" } }
`
  const definitions = `${workspace.flows}/definitions`
  const { id } = await ok(call('POST', definitions, { as: workspace.operator, body: { source } }))
  await ok(call('POST', `${definitions}/${id}/versions`, { as: workspace.operator, body: {} }))
  const flows = await publishMcpServer(workspace, 'flows', { 'flows:report:run': { enabled: true } })
  const own = await tokenFor(flows, scopesOf(flows, 'run_report'))
  const { data, handle, isError, text } = await use('run_report', {}, own, flows)
  expect([isError, data]).toEqual([
    false,
    { ...MARKED, execution: expect.stringMatching(/^run_/), status: 'completed' },
  ])
  expect(text).toContain('This answer lacks output.')
  // This server does not have the tool that reads it.
  expect(text).not.toContain('result_read')
  const [page] = (await read(`tenon-result://${handle}`, own, flows)).body.result.contents
  expect(page.text).toContain('"rows":[0,1,2,3,')
})

test('kept result: pages have all of it and end between characters; secrets are masked', async () => {
  const secret = `svc_service_${'k'.repeat(20)}`
  const text = `${secret} "é😀\\`
  const { handle } = await use('call_big', { input: { text, times: 9_000 } })
  const expected = '[redacted] "é😀\\'.repeat(9_000)
  const { bytes, pages } = await readAll(`tenon-result://${handle}`)
  expect([bytes.toString() === expected, pages]).toEqual([true, expect.any(Number)])
  expect(pages).toBeGreaterThan(1)
  // The tool fences each part. It takes the URI as well.
  const parts: string[] = []
  for (let offset: number | null = 0; offset !== null; ) {
    const { content } = await use('result_read', { handle: `tenon-result://${handle}`, offset })
    const [, inside = ''] = /\n<untrusted-data-[0-9a-f]{16}>\n([\s\S]*)\n<\//.exec(content[0].text) ?? []
    parts.push(inside)
    offset = JSON.parse(content[1].text).next_offset ?? null
  }
  expect([parts.join('') === expected, parts.length > 1]).toEqual([true, true])
  const beyond = await use('result_read', { handle, offset: 5_000_000 })
  expect([beyond.isError, beyond.text]).toEqual([true, expect.stringContaining('the result has')])
})

test('image that is too large: kept as its bytes', async () => {
  const { content, handle } = await use('call_picture', { input: 400_000 })
  expect(content[1]).toMatchObject({ mimeType: 'image/png', size: 300_000 })
  const { bytes } = await readAll(`tenon-result://${handle}`)
  expect(bytes.equals(Buffer.from('AAEC'.repeat(100_000), 'base64'))).toBe(true)
})

test('document that is too large: the fields that fit; as a resource, an error that leads to all of it', async () => {
  const document = { title: 't', text: 'x'.repeat(60_000), more: 'y'.repeat(60_000) }
  const made = await use('notes_create', { document })
  expect(made.data).toMatchObject({ title: 't', text: document.text, id: expect.any(String) })
  const { data, text, handle, isError } = await use('notes_get', { id: made.data.id })
  expect([isError, Object.keys(data)]).toEqual([false, expect.arrayContaining(['id', 'title', 'text'])])
  expect(text).toContain('Name the `fields` that you need.')
  expect(JSON.parse((await readAll(`tenon-result://${handle}`)).bytes.toString())).toMatchObject(document)
  const { body } = await read(`tenon://notes/${made.data.id}`)
  const [uri = ''] = URI.exec(body.error.message) ?? []
  expect(JSON.parse((await readAll(uri)).bytes.toString())).toMatchObject(document)
})

test('client before 2025-06-18: no link, which it does not know', async () => {
  const params = { name: 'call_big', arguments: { input: { text: 'x', times: 200_000 } } }
  const { body } = await call('POST', server.path, {
    as,
    body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
    headers: { ...RPC, 'mcp-protocol-version': '2025-03-26' },
  })
  expect(body.result.content).toEqual([{ type: 'text', text: expect.stringMatching(URI) }])
})

test('handle of another principal, server or tenant, expired or without the scope: as unknown (T35)', async () => {
  const { handle } = await use('call_big', { input: { text: 'mine', times: 50_000 } })
  const foreign = await createMcpWorkspace()
  await deploy(foreign)
  const [sibling, other, agent] = await Promise.all([
    publishLarge('sibling', workspace),
    publishLarge('large', foreign),
    agentOf(server),
  ])
  const limited = await tokenFor(server, scopesOf(server, 'result_read'))
  const unknown = '0'.repeat(32)
  const byTool = async (by: Caller, on: PublishedMcpServer, which: string) =>
    (await use('result_read', { handle: which }, by, on)).text
  const byUri = async (by: Caller, on: PublishedMcpServer, which: string) =>
    (await read(`tenon-result://${which}`, by, on)).body.error
  for (const [by, on] of [
    [agent, server],
    [sibling.as, sibling.published],
    [other.as, other.published],
  ] as const) {
    expect(await byTool(by, on, handle)).toBe(await byTool(by, on, unknown))
    expect(await byTool(by, on, handle)).toMatch(/^not_found: There is no such result\./)
    const { data: foreignUri, ...error } = await byUri(by, on, handle)
    expect([error, foreignUri]).toEqual([
      { code: -32_002, message: expect.stringContaining('no such resource') },
      { uri: `tenon-result://${handle}` },
    ])
  }
  // The same principal, with a token that does not allow the tool.
  expect((await byUri(limited, server, handle)).code).toBe(-32_002)
  for (const uri of [
    `tenon-result://${handle.toUpperCase()}`,
    `tenon-result://${handle}?offset=-1`,
    `tenon-result://${handle}/../x`,
  ])
    expect((await read(uri)).body.error.code).toBe(-32_002)
  expect((await read(`tenon-result://${handle}`)).body.result.contents[0].text).toMatch(/^mine/)
  await asSuperuser(`update tenon.mcp_results set expires_at = now() where id = $1`, [handle])
  expect((await byUri(as, server, handle)).code).toBe(-32_002)
  expect(await byTool(as, server, handle)).toMatch(/^not_found/)
  const left = () => asSuperuser('select id from tenon.mcp_results where id = $1', [handle])
  await expect.poll(left, { interval: 200 }).toEqual([])
})

test('results of a principal: the oldest one makes room; of a workspace: no more are kept', async () => {
  const small = await publishMcpServer(workspace, 'small', {
    'functions:big:invoke': { enabled: true, limits: { result_bytes: 1_000 } },
  })
  const own = await tokenFor(small, scopesOf(small, 'call_big'))
  const once = () => use('call_big', { input: { text: 'x', times: 2_000 } }, own, small)
  const handles: string[] = []
  for (let n = 0; n < 11; n++) handles.push((await once()).handle)
  const kept = await asSuperuser<{ id: string }>(
    'select id from tenon.mcp_results where server_id = $1 order by made_at',
    [small.id],
  )
  expect(kept.map(({ id }) => id)).toEqual(handles.slice(1))
  await asSuperuser(
    `insert into tenon.mcp_results (tenant_id, workspace_id, id, server_id, principal, tool, mime_type, content, expires_at)
     select $1, $2, md5(n::text), $3, 'other', 'x', 'text/plain', convert_to(repeat('x', 5242880), 'UTF8'), now() + interval '1 hour'
     from generate_series(1, 10) n`,
    [workspace.tenantId, workspace.workspaceId, small.id],
  )
  const full = await once()
  expect([full.isError, full.content]).toEqual([
    true,
    [
      {
        type: 'text',
        text: expect.stringMatching(/^output_too_large: The result has 2002 bytes; at most 1000/),
      },
    ],
  ])
  expect((await callsOf(small))[0]).toMatchObject({ outcome: 'tool_error', code: 'output_too_large' })
  // The results of a server end with it.
  await ok(call('DELETE', small.base, { as: workspace.operator }))
  expect(await asSuperuser('select id from tenon.mcp_results where server_id = $1', [small.id])).toEqual([])
})

test('REST: the same content; one entry in the log for each call and each page', async () => {
  const as = workspace.operator
  const arguments_ = { input: { text: 'x', times: 200_000 } }
  const body = { tool: 'call_big', arguments: arguments_ }
  const result = await ok(call('POST', `${server.base}/call`, { as, body }))
  const [, link] = result.content
  expect(link).toMatchObject({ type: 'resource_link', size: 200_000 })
  const page = { tool: 'result_read', arguments: { handle: link.uri, offset: 199_990 } }
  const { content } = await ok(call('POST', `${server.base}/call`, { as, body: page }))
  expect(content[0].text).toContain('\nxxxxxxxxxx\n')
  const [second, first] = await callsOf(server)
  expect([first, second]).toMatchObject([
    { tool: 'call_big', outcome: 'ok', code: null, channel: 'rest' },
    { tool: 'result_read', outcome: 'ok', arguments_shape: ['handle: string', 'offset: number'] },
  ])
})
