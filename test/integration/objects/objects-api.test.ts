/** Objects through the API: bodies survive a round trip, stored under the storage identity of the workspace. */

import { createHash, randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { openUpload } from '../../support/clients/uploads.ts'
import {
  type Caller,
  call,
  createTestWorkspaceWithStorage,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'
import { readApiProcess } from '../../support/stack/shared-api.ts'
import { openToAnon } from '../../support/stack/workspace-settings.ts'

interface StoringWorkspace extends TestWorkspace {
  readonly bucket: string
}
let workspace: StoringWorkspace
let other: StoringWorkspace
beforeAll(async () => {
  ;[workspace, other] = await Promise.all([createStoringWorkspace(), createStoringWorkspace()])
})
async function createStoringWorkspace(): Promise<StoringWorkspace> {
  const made = await createTestWorkspaceWithStorage()
  const { body } = await call('GET', `/v1/workspaces/${made.workspaceId}`, { as: made.operator })
  await openToAnon(made, 'notes/')
  return { ...made, bucket: body.bucket }
}
const pathOf = (key: string, bucket = workspace.bucket) =>
  `/v1/objects/${bucket}/${key.split('/').map(encodeURIComponent).join('/')}`
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')
interface Answer {
  readonly status: number
  readonly code: string | null
  readonly headers: Headers
  readonly bytes: Buffer
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests look into replies of every shape
  readonly json: any
}

/** Sends a body unchanged and returns the reply as bytes. */
async function send(
  method: string,
  path: string,
  options: { as?: Caller; body?: Uint8Array | string; headers?: Record<string, string> } = {},
): Promise<Answer> {
  const response = await fetch(`${inject('tenon').url}${path}`, {
    method,
    headers: { ...(options.as ?? workspace.service), ...options.headers },
    ...(options.body !== undefined && { body: options.body }),
  })
  const { status, headers } = response
  const bytes = Buffer.from(await response.arrayBuffer())
  const text = bytes.toString()
  const json = headers.get('content-type')?.includes('json') && text !== '' ? JSON.parse(text) : undefined
  return { status, code: headers.get('x-problem-code'), headers, bytes, text, json }
}

describe('round trips', () => {
  test('object: text: type and ETag are returned', async () => {
    const path = pathOf('notes/hello.txt')
    const headers = { 'content-type': 'text/plain; charset=utf-8' }
    const put = await send('PUT', path, { body: 'Grüße', headers })
    const etag = put.headers.get('etag') ?? ''
    expect(etag).toMatch(/^"[0-9a-f]{32}"$/)
    const named = { bucket: workspace.bucket, key: 'notes/hello.txt' }
    expect([put.status, put.json]).toEqual([201, { ...named, size: 7, etag, created: true }])
    const got = await send('GET', path, { as: workspace.anon })
    expect([got.status, got.text]).toEqual([200, 'Grüße'])
    expect(Object.fromEntries(got.headers)).toMatchObject({
      'content-type': 'text/plain; charset=utf-8',
      'content-length': '7',
      'accept-ranges': 'bytes',
      'x-content-type-options': 'nosniff',
      etag,
    })
    expect(Date.parse(got.headers.get('last-modified') ?? '')).toBeGreaterThan(Date.now() - 60_000)
    const again = await send('PUT', path, { body: 'x' })
    expect([again.status, again.json.created]).toEqual([200, false])
  })

  test.each([0, 1, 65_536, 20_000_000])('object: %i random bytes: returned unchanged', async (size) => {
    const body = randomBytes(size)
    const path = pathOf(`random/${size}`)
    expect((await send('PUT', path, { body })).json.size).toBe(size)
    const got = await send('GET', path)
    expect(got.headers.get('content-length')).toBe(String(size))
    expect(got.headers.get('content-type')).toBe('application/octet-stream')
    expect(sha256(got.bytes)).toBe(sha256(body))
  })

  test('object keys: equal after path normalisation: separate objects, listed as written', async () => {
    const shelf = await createStoringWorkspace()
    const as = shelf.service
    const keys = [
      'a/b',
      'a//b',
      '/a/b',
      'a/b/',
      'a\\b',
      'a%2Fb',
      'a b',
      'ünï/😀',
      'a+b',
      'x.versions/1',
      '.uploads/1',
    ]
    for (const key of keys) {
      expect((await send('PUT', pathOf(key, shelf.bucket), { as, body: `in ${key}` })).status, key).toBe(201)
    }
    for (const key of keys)
      expect((await send('GET', pathOf(key, shelf.bucket), { as })).text).toBe(`in ${key}`)
    const list = (query: string) => call('GET', `/v1/objects/${shelf.bucket}${query}`, { as: shelf.service })
    const listed = (await list('?page[size]=200')).body.data.map(({ key }: { key: string }) => key)
    expect(listed.sort()).toEqual(keys.sort())
    const underPrefix = (await list('?prefix=a%2F')).body.data.map(({ key }: { key: string }) => key)
    expect(underPrefix.sort()).toEqual(keys.filter((key) => key.startsWith('a/')).sort())
    const paged: string[] = []
    for (let after = ''; ; ) {
      const { data, page } = (await list(`?page[size]=4${after && `&page[after]=${after}`}`)).body
      paged.push(...data.map(({ key }: { key: string }) => key))
      if (page.next === null) break
      after = page.next
    }
    expect(paged).toEqual(paged.filter((key, index) => paged.indexOf(key) === index))
    expect(paged.sort()).toEqual(keys.sort())
    const { next } = (await list('?page[size]=1&prefix=a%2F')).body.page
    expect((await list(`?page[size]=1&prefix=a%2F&page[after]=${next}`)).status).toBe(200)
    for (const other of ['', '&prefix=b%2F', '&prefix=a'])
      expect((await list(`?page[after]=${next}${other}`)).body.code).toBe('cursor_mismatch')
  })

  const PEAK_MIB_MAX = 150

  /** Uploads an object twice at once and reads it. @returns by how many MiB the API's memory grew at most */
  async function peakOfRound(path: string, body: Buffer, status: 200 | 201): Promise<number> {
    const before = await residentBytes()
    let peak = before
    const watch = setInterval(() => void residentBytes().then((bytes) => (peak = Math.max(peak, bytes))), 20)
    const uploads = await Promise.all([path, pathOf('large too')].map((to) => send('PUT', to, { body })))
    expect(uploads.map((upload) => upload.status)).toEqual([status, status])
    expect(sha256((await send('GET', path)).bytes)).toBe(sha256(body))
    clearInterval(watch)
    return (peak - before) / 1_048_576
  }

  test('object: 100 MiB: streamed; a byte more than 5 GiB: refused before it is sent', async () => {
    const body = randomBytes(104_857_600)
    const path = pathOf('large')
    // Other test files load the same process, so a round that they have disturbed is repeated.
    const peaks: number[] = []
    do peaks.push(await peakOfRound(path, body, peaks.length === 0 ? 201 : 200))
    while (Math.min(...peaks) >= PEAK_MIB_MAX && peaks.length < 3)
    // Buffered, the two would be 200 MiB; what shows up is chunks that wait for the garbage collector.
    expect(Math.min(...peaks)).toBeLessThan(PEAK_MIB_MAX)
    const { sent, reply } = openUpload(pathOf('larger'), workspace.service, 5_368_709_121)
    sent.flushHeaders()
    const over = await reply
    sent.destroy()
    expect([over.status, over.body.code, over.body.limit_bytes]).toEqual([
      413,
      'EntityTooLarge',
      5_368_709_120,
    ])
    expect((await send('GET', pathOf('larger'))).code).toBe('NoSuchKey')
  })
})

/** Memory of the API process, found by its port. */
async function residentBytes(): Promise<number> {
  const status = await readApiProcess('status')
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) * 1_024
}

describe('conditions and ranges', () => {
  const path = () => pathOf('digits')
  const get = (headers: Record<string, string>) => send('GET', path(), { headers })

  test('range: valid, suffix and unsatisfiable: 206 or 416', async () => {
    await send('PUT', path(), { body: '0123456789' })
    const part = await get({ range: 'bytes=2-4' })
    expect([part.status, part.text, part.headers.get('content-range')]).toEqual([206, '234', 'bytes 2-4/10'])
    expect((await get({ range: 'bytes=-3' })).text).toBe('789')
    expect((await get({ range: 'bytes=7-' })).text).toBe('789')
    const outside = await get({ range: 'bytes=10-' })
    expect([outside.status, outside.code]).toEqual([416, 'InvalidRange'])
    expect((await get({ range: 'lines=1-2' })).status).toBe(200)
  })

  test('conditional request: If-None-Match with the current tag: not sent again; If-Match with an old tag: not overwritten', async () => {
    const etag = (await send('PUT', path(), { body: 'one' })).headers.get('etag') ?? ''
    const same = await get({ 'if-none-match': etag })
    expect([same.status, same.headers.get('etag'), same.bytes.length]).toEqual([304, etag, 0])
    expect((await get({ 'if-none-match': '"other"' })).status).toBe(200)
    expect((await get({ 'if-match': '"other"' })).code).toBe('PreconditionFailed')
    const put = (headers: Record<string, string>) => send('PUT', path(), { body: 'two', headers })
    expect((await put({ 'if-match': '"other"' })).status).toBe(412)
    expect((await put({ 'if-none-match': '*' })).status).toBe(412)
    expect((await get({})).text).toBe('one')
    expect((await put({ 'if-match': etag })).status).toBe(200)
  })

  test('HEAD: existing object: headers of GET, no body; DELETE: deletes once', async () => {
    await send('PUT', path(), { body: 'abc', headers: { 'content-type': 'text/css' } })
    const head = await send('HEAD', path())
    expect([head.status, head.bytes.length, head.headers.get('content-length')]).toEqual([200, 0, '3'])
    expect(head.headers.get('content-type')).toBe('text/css')
    const deleted = await send('DELETE', path())
    expect([deleted.status, deleted.json]).toEqual([
      200,
      { bucket: workspace.bucket, key: 'digits', deleted: true },
    ])
    for (const method of ['GET', 'HEAD', 'DELETE']) {
      expect([method, (await send(method, path())).code]).toEqual([method, 'NoSuchKey'])
    }
  })
})

describe('refused requests', () => {
  test.each(['..%2fsecret', '%2e%2e%2fsecret', 'a%2f..%2f..%2fb', 'a%5c..%5cb', 'a%00b', ''])(
    'object key: %j: 400 InvalidKey',
    async (key) => {
      for (const method of ['GET', 'PUT', 'DELETE']) {
        const reply = await send(
          method,
          `/v1/objects/${workspace.bucket}/${key}`,
          method === 'PUT' ? { body: 'x' } : {},
        )
        expect([method, reply.status, reply.code]).toEqual([method, 400, 'InvalidKey'])
      }
    },
  )

  test.each(['UPPER', 'ab', '*', 'a%2fb', 'arn:aws:s3:::x', 'x--usw2-az1--x-s3', 'a'.repeat(64)])(
    'bucket: %s: refused',
    async (bucket) => {
      expect((await send('GET', `/v1/objects/${bucket}/k`)).code).toBe('InvalidBucketName')
    },
  )

  test('bucket: owned by another tenant: the store refuses, nothing changes', async () => {
    const path = pathOf('secret')
    await send('PUT', path, { body: 'ours' })
    for (const method of ['GET', 'PUT', 'DELETE', 'HEAD']) {
      const reply = await send(method, path, {
        as: other.service,
        ...(method === 'PUT' && { body: 'theirs' }),
      })
      expect([method, reply.status, reply.code]).toEqual([method, 403, 'AccessDenied'])
    }
    const list = await send('GET', `/v1/objects/${workspace.bucket}`, { as: other.service })
    expect([list.status, list.json.code]).toEqual([403, 'AccessDenied'])
    expect((await send('GET', path)).text).toBe('ours')
  })

  test('anon key: writes: refused before the body is read', async () => {
    for (const method of ['PUT', 'DELETE']) {
      const reply = await send(method, pathOf('x'), {
        as: workspace.anon,
        ...(method === 'PUT' && { body: 'x' }),
      })
      expect([reply.status, reply.code]).toEqual([403, 'forbidden'])
    }
    const answer = await sendPartly(`content-length: 1000000`, '', workspace.anon['apikey'])
    expect(answer).toMatch(/^HTTP\/1\.1 403/)
  })
})

/** Sends a head and a part of a body, reads for a while, and disconnects. */
async function sendPartly(
  header: string,
  part: string,
  key = workspace.service['apikey'],
  path = pathOf('half'),
): Promise<string> {
  const { hostname, port } = new URL(inject('tenon').url)
  const socket = connect(Number(port), hostname)
  let seen = ''
  socket.on('data', (chunk) => {
    seen += chunk
  })
  socket.write(`PUT ${path} HTTP/1.1\r\nhost: x\r\napikey: ${key}\r\n${header}\r\n\r\n${part}`)
  await new Promise((done) => setTimeout(done, 400))
  socket.destroy()
  return seen
}

describe('interrupted uploads', () => {
  test('upload: interrupted, with known or unknown length: no object', async () => {
    await sendPartly('content-length: 1000000', 'x'.repeat(400_000))
    await sendPartly('transfer-encoding: chunked', `${(300_000).toString(16)}\r\n${'x'.repeat(300_000)}\r\n`)
    await sendPartly('transfer-encoding: chunked', 'no chunk\r\n')
    await new Promise((done) => setTimeout(done, 300))
    expect((await send('GET', pathOf('half'))).code).toBe('NoSuchKey')
  })

  test('upload: interrupted over an existing object: the object is unchanged', async () => {
    const path = pathOf('kept')
    await send('PUT', path, { body: 'old' })
    await sendPartly('content-length: 1000', 'new', workspace.service['apikey'], path)
    expect((await send('GET', path)).text).toBe('old')
  })

  test('upload: complete and chunked: stored', async () => {
    expect(await sendPartly('transfer-encoding: chunked', '5\r\nhello\r\n0\r\n\r\n')).toMatch(
      /^HTTP\/1\.1 201/,
    )
    expect((await send('GET', pathOf('half'))).text).toBe('hello')
  })
})

describe('other entry points', () => {
  const flow = (name: string, tasks: string) =>
    `document: { dsl: '1.0.3', namespace: test, name: ${name}, version: '1.0.0' }\ndo:\n${tasks}\n`
  async function runFlow(name: string, tasks: string) {
    const as = workspace.operator
    const body = { source: flow(name, tasks) }
    const made = await call('POST', `${workspace.flows}/definitions`, { as, body })
    expect(made.body.diagnostics).toEqual([])
    await call('POST', `${workspace.flows}/definitions/${name}/versions`, { as, body: {} })
    const start = { as, body: {}, headers: { prefer: 'wait=20' } }
    return (await call('POST', `${workspace.flows}/definitions/${name}/executions`, start)).body
  }

  test('flow: puts JSON and text, gets JSON, text and base64: values are identical', async () => {
    await send('PUT', pathOf('flow/raw'), { body: Buffer.from([0, 255]) })
    const at = (key: string) => `bucket: ${workspace.bucket}, key: ${key}`
    const { status, output } = await runFlow(
      'objects',
      `- put: { call: object.put, with: { ${at('flow/doc.json')}, content: { n: 1 } } }
- text: { call: object.put, with: { ${at('flow/page')}, content: "<p>ü", content_type: text/html } }
- both:
    fork:
      branches:
        - json: { call: object.get, with: { ${at('flow/doc.json')} } }
        - page: { call: object.get, with: { ${at('flow/page')} } }
        - raw: { call: object.get, with: { ${at('flow/raw')} } }
- drop: { call: object.delete, with: { ${at('flow/raw')} }, output: { as: '\${ $input }' } }`,
    )
    expect([status, output]).toEqual(['completed', [{ n: 1 }, '<p>ü', 'AP8=']])
    const page = await send('GET', pathOf('flow/page'))
    expect([page.text, page.headers.get('content-type')]).toEqual(['<p>ü', 'text/html'])
    expect((await send('GET', pathOf('flow/raw'))).code).toBe('NoSuchKey')
  })

  test('flow: bucket of another tenant: 403; object too large for a step: output_too_large', async () => {
    const foreign = await runFlow(
      'foreign',
      `- a: { call: object.get, with: { bucket: ${other.bucket}, key: x } }`,
    )
    expect(foreign).toMatchObject({ status: 'faulted', error: { status: 403 } })
    expect(foreign.error.code).toBe('AccessDenied')
    await send('PUT', pathOf('wide'), { body: 'x'.repeat(4_300_000) })
    const wide = await runFlow(
      'wide',
      `- a: { call: object.get, with: { bucket: ${workspace.bucket}, key: wide } }`,
    )
    expect(wide.error.code).toBe('output_too_large')
  })

  test('platform MCP server: object tools: one that reads, none that writes', async () => {
    await send('PUT', pathOf('tool'), { body: 'said', headers: { 'content-type': 'text/plain' } })
    const as = await tokenOf({
      roles: ['service'],
      tenant_id: workspace.tenantId,
      workspace_id: workspace.workspaceId,
    })
    const headers = { accept: 'application/json, text/event-stream' }
    const tool = async (name: string, bucket: string) => {
      const params = { name, arguments: { bucket, key: 'tool', content: 'x' } }
      if (name === 'object_get') Reflect.deleteProperty(params.arguments, 'content')
      const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params }
      return (await call('POST', '/v1/mcp/platform/mcp', { as, headers, body })).body.result
    }
    const { content } = await tool('object_get', workspace.bucket)
    expect(content[0].text).toMatch(/<untrusted-data-\w+>\nsaid\n<\/untrusted-data/)
    const foreign = await tool('object_get', other.bucket)
    expect(foreign).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('AccessDenied') }],
    })
    expect((await tool('object_put', workspace.bucket)).content[0].text).toContain('There is no such tool')
  })
})
