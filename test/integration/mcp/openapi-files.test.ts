/** Files of OpenAPI tools: uploads from base64 arguments, and answers that are no text. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  callTool,
  createMcpWorkspace,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  rpc,
  scopesOf,
  tokenFor,
} from '../../support/clients/mcp.ts'
import { type Caller, call, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

/** Bytes that no text has. */
const BYTES = Buffer.from([0, 0xff, 0x0d, 0x0a, 0x22, 0x89, 0x50])
const base64 = BYTES.toString('base64')
const LARGE = Buffer.alloc(150_000, 0xfe)

const binary = { type: 'string', format: 'binary' }
const body = (type: string, schema: object) => ({ requestBody: { content: { [type]: { schema } } } })
const object = (properties: object) => ({ type: 'object', properties })
const answers = (media: string, schema: object = {}) => ({
  responses: { 200: { content: { [media]: { schema } } } },
})

const OPERATIONS = {
  form: body(
    'multipart/form-data',
    object({
      photo: binary,
      more: { type: 'array', items: binary },
      tag: { type: 'string' },
      about: object({ n: { type: 'integer' } }),
    }),
  ),
  raw: body('application/octet-stream', binary),
  note: body('text/csv', { type: 'string' }),
  png: answers('image/png', binary),
  wav: answers('audio/wav', binary),
  zip: answers('application/zip', binary),
  large: answers('image/png', binary),
  typed: answers('application/json', object({ n: { type: 'integer' } })),
}
const FILES: Readonly<Record<string, readonly [type: string, bytes: Buffer]>> = {
  png: ['image/png', BYTES],
  wav: ['audio/wav; codecs=1', BYTES],
  zip: ['application/zip', BYTES],
  large: ['image/png', LARGE],
  typed: ['image/png', BYTES],
}

let workspace: TestWorkspace
let api: FakeServers
let server: PublishedMcpServer
let as: Caller

const use = async (tool: string, args: object = {}) =>
  (await callTool(server.path, as, tool, args)).body.result
const received = () => api.requestsTo('/api/').at(-1)

beforeAll(async () => {
  api = await FakeServers.open({
    '/api/': ({ url }) => {
      const [type, bytes] = FILES[url.slice(5).split('?')[0] ?? ''] ?? []
      return bytes === undefined ? { json: {} } : { text: bytes, headers: { 'content-type': type ?? '' } }
    },
  })
  workspace = await createMcpWorkspace()
  await configure(workspace, { egress: { allow: [api.host] } })
  const paths = Object.entries(OPERATIONS).map(([operationId, one]) => {
    const method = 'requestBody' in one ? 'post' : 'get'
    return [`/api/${operationId}`, { [method]: { operationId, responses: {}, ...one } }]
  })
  const document = { openapi: '3.0.3', servers: [{ url: api.origin }], paths: Object.fromEntries(paths) }
  const source = { name: 'api', kind: 'openapi', url: `${api.origin}/o.json`, document }
  const path = `/v1/mcp/workspaces/${workspace.workspaceId}/sources`
  const made = await ok(call('POST', path, { as: workspace.operator, body: source }))
  expect(made.skipped).toEqual([])
  const names = Object.keys(OPERATIONS)
  const tools = Object.fromEntries(names.map((name) => [`openapi:api:${name}`, { enabled: true }]))
  server = await publishMcpServer(workspace, 'files', { ...tools, 'results:server:read': { enabled: true } })
  as = await tokenFor(server, scopesOf(server, ...names, 'result_read'))
})
afterAll(() => api.close())

test('multipart form: files and fields arrive as a server reads them', async () => {
  const photo = { base64, filename: 'a "b"\r\n.png', media_type: 'image/png' }
  const args = { photo, more: [{ base64 }, { base64: '' }], tag: 'é', about: { n: 1 } }
  expect((await use('form', args)).isError).toBe(false)
  const { headers, bytes } = received() ?? {}
  expect(headers?.['content-type']).toMatch(/^multipart\/form-data; boundary=/)
  const init = { headers: { 'content-type': String(headers?.['content-type']) } }
  const form = await new Response(new Uint8Array(bytes ?? []), init).formData()
  const file = form.get('photo') as File
  expect([Buffer.from(await file.arrayBuffer()), file.type]).toEqual([BYTES, 'image/png'])
  expect(form.getAll('more').map((one) => (one as File).size)).toEqual([BYTES.length, 0])
  expect([form.get('tag'), form.get('about')]).toEqual(['é', '{"n":1}'])
  expect([...form.keys()]).toEqual(['photo', 'more', 'more', 'tag', 'about'])
})

test('bytes and text as the whole body: sent as they are; what is no base64 is refused, and nothing is sent', async () => {
  await use('raw', { body: base64 })
  expect([received()?.bytes, received()?.headers['content-type']]).toEqual([
    BYTES,
    'application/octet-stream',
  ])
  await use('note', { body: 'a,"b"' })
  expect([received()?.body, received()?.headers['content-type']]).toEqual(['a,"b"', 'text/csv'])
  const before = api.requests.length
  for (const [tool, args] of [
    ['raw', { body: 'no base64!' }],
    ['form', { photo: { base64: 'é' } }],
  ] as const)
    expect((await use(tool, args)).content[0].text).toMatch(/^validation_failed: (body|photo) must be base64/)
  expect(api.requests).toHaveLength(before)
})

test('answer that is no text: an image, audio, or an embedded file', async () => {
  expect((await use('png')).content).toEqual([{ type: 'image', data: base64, mimeType: 'image/png' }])
  expect((await use('wav')).content).toEqual([{ type: 'audio', data: base64, mimeType: 'audio/wav' }])
  const uri = `${api.origin}/api/zip`
  expect((await use('zip')).content).toEqual([
    { type: 'resource', resource: { uri, mimeType: 'application/zip', blob: base64 } },
  ])
})

test('file above the budget: kept, and read in parts that make the same bytes', async () => {
  const { content, isError } = await use('large')
  expect([isError, content[0].text]).toEqual([
    false,
    expect.stringContaining('it with result_read and the handle'),
  ])
  expect(content[1]).toMatchObject({ type: 'resource_link', mimeType: 'image/png', size: LARGE.length })
  const parts: Buffer[] = []
  for (let uri: string | undefined = content[1].uri; uri !== undefined; ) {
    const { contents } = (await rpc(server.path, as, 'resources/read', { uri })).body.result
    parts.push(Buffer.from(contents[0].blob, 'base64'))
    uri = contents[1]?.uri
  }
  expect(parts.length).toBeGreaterThan(1)
  expect(Buffer.concat(parts).equals(LARGE)).toBe(true)
})

test('file in place of the object that the document promises: an error, as clients check results', async () => {
  expect((await use('typed')).content[0].text).toMatch(/^result_invalid: .*it is a file/)
})
