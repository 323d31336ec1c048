/** Tools and resources over the bucket of a workspace: text, images and other files, pages, conditions, hostile keys. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import {
  callsOf,
  callTool,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  rpc,
  scopesOf,
  tokenFor,
  withLegacyClient,
  withModernClient,
} from '../../support/clients/mcp.ts'
import {
  type Caller,
  call,
  createTestWorkspaceWithStorage,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

const VERBS = ['list', 'get', 'put', 'delete']
const PNG = Buffer.from('89504e470d0a1a0a0000', 'hex')

let workspace: TestWorkspace
let foreign: TestWorkspace
let bucket: string
let foreignBucket: string
let server: PublishedMcpServer
let as: Caller

const toolsOf = (name: string) =>
  Object.fromEntries(
    VERBS.map((verb) => [`buckets:${name}:${verb}`, { enabled: true, name: `files_${verb}` }]),
  )

const use = async (tool: string, args: unknown, by = as) => {
  const { body } = await callTool(server.path, by, `files_${tool}`, args)
  if (body.result === undefined) throw new Error(JSON.stringify(body))
  const { content, structuredContent, isError = false } = body.result
  return { content, text: String(content[0].text), data: structuredContent, isError }
}

const read = async (uri: string) => (await rpc(server.path, as, 'resources/read', { uri })).body

/** Stores an object through the API. */
const store = async (key: string, body: string | Uint8Array, type: string, of = workspace, into = bucket) => {
  const path = `/v1/objects/${into}/${key.split('/').map(encodeURIComponent).join('/')}`
  const headers = { ...of.service, 'content-type': type }
  const reply = await fetch(`${inject('tenon').url}${path}`, { method: 'PUT', headers, body })
  expect(reply.status).toBeLessThan(300)
}

/** The text inside of the fence. */
const inside = (text: string) =>
  /^The block .* is data: .*\n<(untrusted-data-[0-9a-f]{16})>\n([\s\S]*)\n<\/\1>$/.exec(text)?.[2]

beforeAll(async () => {
  ;[workspace, foreign] = await Promise.all([
    createTestWorkspaceWithStorage(),
    createTestWorkspaceWithStorage(),
  ])
  ;[bucket, foreignBucket] = await Promise.all([bucketOf(workspace), bucketOf(foreign)])
  server = await publishMcpServer(workspace, 'files', toolsOf(bucket))
  as = await tokenFor(server, scopesOf(server, ...VERBS.map((verb) => `files_${verb}`)))
})

test('candidates: four of the own bucket, none of another one; hints are honest', async () => {
  const { data } = await ok(call('GET', `${server.base}/candidates`, { as: workspace.operator }))
  const found = data.filter(({ candidate }: { candidate: string }) => candidate.startsWith('buckets:'))
  expect(found.map(({ name }: { name: string }) => name)).toEqual(VERBS.map((verb) => `${bucket}_${verb}`))
  expect(found.map(({ annotations }: { annotations: object }) => annotations)).toMatchObject([
    { readOnlyHint: true, destructiveHint: false },
    { readOnlyHint: true, destructiveHint: false },
    { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
    { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
  ])
  const body = { tools: { [`buckets:${foreignBucket}:get`]: { enabled: true } } }
  const reply = await call('PUT', `${server.base}/curation`, { as: workspace.operator, body })
  expect([reply.status, reply.body.detail]).toEqual([400, expect.stringContaining('is not a candidate')])
})

describe.each([
  ['legacy', withLegacyClient],
  ['modern', withModernClient],
] as const)('%s client', (era, connect) => {
  test('object: stored, listed, read as text and as a resource, deleted', async () => {
    await connect(server.url, as, async (client) => {
      await client.listTools()
      const run = async (verb: string, args: Record<string, unknown>) => {
        const { structuredContent, content, isError } = await client.callTool({
          name: `files_${verb}`,
          arguments: args,
        })
        return { data: structuredContent, content: content as { text: string }[], isError: isError ?? false }
      }
      const key = `${era}/a b?#é.txt`
      const put = await run('put', { key, text: 'Grüße', only_new: true })
      expect(put).toMatchObject({ isError: false, data: { key, size: 7, created: true } })
      const { etag } = put.data as { etag: string }
      const again = await run('put', { key, text: 'x', only_new: true })
      expect([again.isError, again.content[0]?.text]).toEqual([
        true,
        expect.stringMatching(/^PreconditionFailed/),
      ])
      const stale = await run('put', { key, text: 'x', if_etag: '"0"' })
      expect([stale.isError, stale.content[0]?.text]).toEqual([
        true,
        expect.stringMatching(/^PreconditionFailed/),
      ])
      expect((await run('put', { key, text: 'Hallo', if_etag: etag })).data).toMatchObject({ created: false })
      expect((await run('list', { prefix: `${era}/` })).data).toMatchObject({
        data: [{ key, size: 5 }],
        page: { has_more: false },
      })
      const { content } = await run('get', { key })
      const uri = `tenon-object://${bucket}/${era}/a%20b%3F%23%C3%A9.txt`
      expect(inside(content[0]?.text ?? '')).toBe('Hallo')
      expect(JSON.parse(content[1]?.text ?? '')).toMatchObject({ uri, content_type: 'text/plain', size: 5 })
      const { resourceTemplates } = await client.listResourceTemplates()
      expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toEqual([
        `tenon-object://${bucket}/{+key}`,
      ])
      expect((await client.readResource({ uri })).contents).toEqual([
        { uri, mimeType: 'text/plain', text: 'Hallo' },
      ])
      expect((await run('delete', { key })).data).toMatchObject({ key, deleted: true })
      await expect(client.readResource({ uri })).rejects.toThrow('no such resource')
      expect((await run('get', { key })).content[0]?.text).toMatch(/^NoSuchKey/)
    })
  })
})

test('content by its type: image, audio, embedded file; what is no UTF-8 is no text (T30)', async () => {
  const base64 = PNG.toString('base64')
  await use('put', { key: 'a.png', base64, content_type: 'image/png' })
  expect((await use('get', { key: 'a.png' })).content[0]).toEqual({
    type: 'image',
    data: base64,
    mimeType: 'image/png',
  })
  await use('put', { key: 'a.mp3', base64, content_type: 'Audio/MPEG; x=1' })
  expect((await use('get', { key: 'a.mp3' })).content[0]).toMatchObject({
    type: 'audio',
    mimeType: 'audio/mpeg',
  })
  for (const [key, type] of [
    ['a.zip', 'application/zip'],
    ['latin.txt', 'text/plain'],
    ['odd', '<script>'],
  ] as const) {
    await use('put', { key, base64, content_type: type })
    const mimeType = type === '<script>' ? 'application/octet-stream' : type
    const uri = `tenon-object://${bucket}/${key}`
    expect((await use('get', { key })).content[0]).toEqual({
      type: 'resource',
      resource: { uri, mimeType, blob: base64 },
    })
    expect((await read(uri)).result.contents).toEqual([{ uri, mimeType, blob: base64 }])
  }
  await store('empty', '', 'application/json')
  expect(inside((await use('get', { key: 'empty' })).text)).toBe('')
  await use('put', { key: 'data.json', text: '{"a":1}', content_type: 'application/vnd.x+json' })
  expect(inside((await use('get', { key: 'data.json' })).text)).toBe('{"a":1}')
})

test('long text: parts that end between characters, each within the budget', async () => {
  const text = 'aé😀"\n'.repeat(40_000)
  await store('long.csv', text, 'text/csv; charset=utf-8')
  const parts: string[] = []
  for (let offset: number | undefined = 0; offset !== undefined; ) {
    const { content } = await use('get', { key: 'long.csv', offset })
    expect(Buffer.byteLength(JSON.stringify(content))).toBeLessThanOrEqual(100_000)
    parts.push(inside(content[0].text) ?? '')
    const page = JSON.parse(content[1].text)
    expect(page).toMatchObject({ size: 360_000, offset })
    offset = page.next_offset ?? undefined
  }
  expect([parts.join('') === text, parts.length > 3]).toEqual([true, true])
  const [first, rest] = (await read(`tenon-object://${bucket}/long.csv`)).result.contents
  const next = (await read(rest.uri)).result.contents[0]
  expect(text.startsWith(first.text + next.text)).toBe(true)
  const beyond = await use('get', { key: 'long.csv', offset: 360_000 })
  expect([beyond.isError, beyond.text]).toEqual([
    true,
    expect.stringContaining('the object has 360000 bytes'),
  ])
})

test('10 MB of base64 or of an image: refused on the way in, a link on the way out (T30)', async () => {
  const { status } = await callTool(server.path, as, 'files_put', {
    key: 'x',
    base64: 'A'.repeat(10_000_000),
  })
  expect(status).toBe(413)
  await store('large.png', Buffer.alloc(10_000_000), 'image/png')
  const uri = `tenon-object://${bucket}/large.png`
  const { content } = await use('get', { key: 'large.png' })
  expect(content[0]).toEqual({
    type: 'resource_link',
    uri,
    name: 'large.png',
    mimeType: 'image/png',
    size: 10_000_000,
  })
  const [part, rest] = (await read(uri)).result.contents
  expect(Buffer.from(part.blob, 'base64').length % 3).toBe(0)
  expect(rest.uri).toBe(`${uri}?offset=${Buffer.from(part.blob, 'base64').length}`)
  const last = (await read(`${uri}?offset=9999990`)).result.contents
  expect(last).toEqual([{ uri, mimeType: 'image/png', blob: Buffer.alloc(10).toString('base64') }])
})

test('list: pages within the budget that lead through all keys', async () => {
  const keys = Array.from({ length: 7 }, (_, n) => `pages/${n}`)
  for (const key of keys) await use('put', { key, text: '' })
  const seen: string[] = []
  let cursor: string | undefined
  do {
    const { data } = await use('list', { prefix: 'pages/', limit: 3, ...(cursor && { cursor }) })
    seen.push(...data.data.map(({ key }: { key: string }) => key))
    cursor = data.page.next ?? undefined
  } while (cursor !== undefined)
  expect(seen).toEqual(keys)
  expect((await use('list', { cursor: 'c1_x' })).isError).toBe(true)
})

test('keys and buckets in arguments: no way out of the own bucket (T32)', async () => {
  await store('secret.txt', 'foreign', 'text/plain', foreign, foreignBucket)
  const hostile = [
    `../${foreignBucket}/secret.txt`,
    `..\\${foreignBucket}\\secret.txt`,
    'a/../../x',
    'a\u0000b',
    '',
    '\ud800',
    'k'.repeat(2_000),
  ]
  for (const key of hostile)
    for (const verb of ['get', 'put', 'delete']) {
      const { isError, text } = await use(verb, { key, ...(verb === 'put' && { text: 'x' }) })
      expect([isError, text]).toEqual([
        true,
        expect.stringMatching(/^(InvalidKey|KeyTooLongError|validation_failed)/),
      ])
    }
  // Percent signs, line breaks and URIs are plain characters of a key.
  for (const key of [
    '%2e%2e/x',
    'a\r\nx-amz-acl: public-read',
    `file:///etc/passwd`,
    `s3://${foreignBucket}/secret.txt`,
  ])
    expect((await use('get', { key })).text).toMatch(/^NoSuchKey/)
  for (const extra of [{ bucket: foreignBucket }, { range: 'bytes=0-1' }, { bytes_max: 9e9 }])
    expect((await use('get', { key: 'a.png', ...extra })).text).toMatch(/^validation_failed: .* is unknown/s)
  for (const uri of [
    `tenon-object://${foreignBucket}/secret.txt`,
    `tenon-object://${bucket}/../${foreignBucket}/secret.txt`,
    `tenon-object://${bucket}/%2e%2e/${foreignBucket}/secret.txt`,
    `tenon-object://${bucket}/%E0%A4%A`,
    `tenon://${bucket}/a.png`,
  ])
    expect((await read(uri)).error.code).toBe(-32_002)
})

test('content of put: either text or canonical base64', async () => {
  for (const content of [
    {},
    { text: 'a', base64: 'YQ==' },
    { base64: 'YQ' },
    { base64: 'Y Q==' },
    { base64: '%' },
  ]) {
    const { isError, text } = await use('put', { key: 'x', ...content })
    expect([isError, text]).toEqual([true, expect.stringMatching(/^validation_failed/)])
  }
  const { text } = await use('put', { key: 'x', text: 'a', content_type: 'text/plain\r\nx: y' })
  expect(text).toMatch(/^validation_failed/)
})

test('token without the scope: no resource; reads are recorded as calls of the tool (T15)', async () => {
  await use('put', { key: 'logged', text: 'x' })
  const limited = await tokenFor(server, scopesOf(server, 'files_list'))
  const uri = `tenon-object://${bucket}/logged`
  const refused = await rpc(server.path, limited, 'resources/read', { uri })
  expect(refused.body.error.code).toBe(-32_002)
  expect(JSON.stringify(await rpc(server.path, limited, 'resources/templates/list'))).not.toContain(
    'tenon-object',
  )
  await read(uri)
  const [last] = await callsOf(server)
  expect(last).toMatchObject({
    tool: 'files_get',
    outcome: 'ok',
    arguments_shape: ['key: string', 'offset: number'],
  })
  const path = `/v1/audit?tenant_id=${workspace.tenantId}&page[size]=200`
  const { data } = await ok(call('GET', path, { as: workspace.operator }))
  const stored = data.filter(({ target }: { target: string }) => target.endsWith('/logged'))
  expect(stored).toMatchObject([{ operation: 'object.put', outcome: 'done', actor: { kind: 'mcp_client' } }])
})
