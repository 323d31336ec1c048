/** Signed links: one request for one object, as the credential that made it, and only as it was made. */

import fc from 'fast-check'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { addUser, createUserApp, userTokens } from '../../support/clients/users.ts'
import {
  type Caller,
  call,
  createTestWorkspaceWithStorage,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { gatewayHeaders } from '../../support/stack/gateway.ts'
import { bucketOf, configure } from '../../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
let bucket: string
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
})

interface Link {
  readonly url: string
  readonly method: string
  readonly expires_at: string
  readonly headers?: Record<string, string>
}

const presign = (body: object, as: Caller = workspace.service, of = bucket) =>
  call('POST', `/v1/buckets/${of}/presign`, { as, body })

async function linkTo(body: object, as?: Caller): Promise<Link> {
  const { status, body: link } = await presign(body, as)
  expect(status, JSON.stringify(link)).toBe(200)
  return link
}

/** Longer than credentials and settings are cached. */

const codeOf = (response: Response) => response.headers.get('x-problem-code')
const answer = async (response: Promise<Response>) => {
  const got = await response
  await got.arrayBuffer()
  return [got.status, codeOf(got)]
}

async function stored(key: string, body = '0123456789', type = 'text/plain'): Promise<string> {
  const path = `${inject('tenon').url}/v1/objects/${bucket}/${encodeURIComponent(key)}`
  const put = await fetch(path, {
    method: 'PUT',
    headers: { ...workspace.service, 'content-type': type },
    body,
  })
  expect(put.ok).toBe(true)
  return key
}

const read = async (key: string) => {
  const path = `${inject('tenon').url}/v1/objects/${bucket}/${encodeURIComponent(key)}`
  const response = await fetch(path, { headers: workspace.service })
  return response.ok ? response.text() : codeOf(response)
}

describe('link to read', () => {
  test('sent by a browser: the object, its ranges and conditions, whatever other credentials come with it', async () => {
    const key = await stored('links/ä plan+1.txt')
    const { url, method, expires_at } = await linkTo({ key, expires_in: 60 })
    expect(method).toBe('GET')
    expect(Date.parse(expires_at)).toBeGreaterThan(Date.now())
    const other = { authorization: 'Bearer garbage', apikey: 'svc_service_nothing', cookie: 'a=b' }
    const whole = await fetch(url, { headers: other })
    expect([whole.status, await whole.text()]).toEqual([200, '0123456789'])
    const part = await fetch(url, { headers: { range: 'bytes=2-4' } })
    expect([part.status, await part.text()]).toEqual([206, '234'])
    const etag = whole.headers.get('etag') ?? ''
    expect((await fetch(url, { headers: { 'if-none-match': etag } })).status).toBe(304)
    expect((await fetch(url, { method: 'HEAD' })).headers.get('content-length')).toBe('10')
    expect(whole.headers.get('cross-origin-resource-policy')).toBe('cross-origin')
    expect(whole.headers.get('cache-control')).toContain('private')
  })

  test('with a media type and a disposition: the reply has them; a line break is refused', async () => {
    const key = await stored('links/report')
    const disposition = `attachment; filename="may.pdf"; filename*=UTF-8''%E2%82%AC.pdf`
    const { url } = await linkTo({ key, content_type: 'application/pdf', disposition })
    const { headers } = await fetch(url)
    expect([headers.get('content-type'), headers.get('content-disposition')]).toEqual([
      'application/pdf',
      disposition,
    ])
    for (const text of ['a\r\nset-cookie: x=1', 'a\nb', 'a\u0000b', 'ä'])
      for (const field of ['disposition', 'content_type'])
        expect((await presign({ key, [field]: text })).body.code).toBe('validation_failed')
  })

  test('with parameters that set headers of the reply: refused, since the link does not have them', async () => {
    const { url } = await linkTo({ key: await stored('links/page.txt', '<script>') })
    for (const method of ['GET', 'HEAD'])
      expect(codeOf(await fetch(`${url}&response-content-type=text%2Fhtml`, { method }))).toBe(
        'link_exceeded',
      )
  })

  test('another page: reads it, unless cors.origins leaves its origin out', async () => {
    const own = await createTestWorkspaceWithStorage()
    const ownBucket = await bucketOf(own)
    const path = `/v1/objects/${ownBucket}/a.txt`
    await call('PUT', path, { as: own.service, body: 'a' })
    const { url } = (await presign({ key: 'a.txt' }, own.service, ownBucket)).body
    const headers = { origin: 'https://app.example.com' }
    const shown = await fetch(url, { headers })
    expect([shown.status, shown.headers.get('access-control-allow-origin')]).toEqual([200, '*'])
    await configure(own, { cors: { origins: ['https://other.example.com'] } })
    await expect.poll(() => answer(fetch(url, { headers }))).toEqual([403, 'origin_refused'])
    expect((await fetch(url)).status).toBe(200)
  })
})

describe('link to upload', () => {
  test('PUT with a type and a size: stores what fits, and nothing else', async () => {
    const key = 'uploads/photo.png'
    const { url, headers = {} } = await linkTo({
      key,
      method: 'PUT',
      content_type: 'image/png',
      max_bytes: 4,
      disposition: 'inline; filename="photo.png"',
    })
    expect(headers).toEqual({ 'content-type': 'image/png' })
    const put = (body: string | ReadableStream, type: string) =>
      fetch(url, { method: 'PUT', headers: { 'content-type': type }, body, duplex: 'half' } as RequestInit)
    expect(await answer(put('12345', 'image/png'))).toEqual([403, 'link_exceeded'])
    expect(await answer(put('1234', 'text/html'))).toEqual([403, 'link_exceeded'])
    const unannounced = new Blob(['12', '345']).stream()
    expect(await answer(put(unannounced, 'image/png'))).toEqual([403, 'link_exceeded'])
    expect(await read(key)).toBe('NoSuchKey')
    expect((await put('1234', 'image/png')).status).toBe(201)
    expect(await read(key)).toBe('1234')
    const kept = await call('GET', `/v1/buckets/${bucket}/object?key=${key}`, { as: workspace.service })
    expect(kept.body.headers['content-disposition']).toBe('inline; filename="photo.png"')
  })

  test('POST: stores the one file of a form as a stream, and refuses any other form', async () => {
    const key = 'uploads/form.txt'
    const { url } = await linkTo({ key, method: 'POST', content_type: 'text/plain', max_bytes: 300_000 })
    const send = (parts: [string, string | Blob, string?][]) => {
      const form = new FormData()
      for (const [name, value, file] of parts)
        if (typeof value === 'string') form.append(name, value)
        else form.append(name, value, file)
      return fetch(url, { method: 'POST', body: form })
    }
    const file = (text: string, type = 'text/plain') => new Blob([text], { type })
    const large = 'x'.repeat(300_000)
    for (const [parts, code] of [
      [[['file', file(`${large}x`), 'a.txt']], 'link_exceeded'],
      [[['file', file('a', 'text/html'), 'a.txt']], 'link_exceeded'],
      [
        [
          ['extra', '1'],
          ['file', file('a'), 'a.txt'],
        ],
        'link_exceeded',
      ],
      [
        [
          ['file', file('a'), 'a.txt'],
          ['extra', '1'],
        ],
        'link_exceeded',
      ],
      [
        [
          ['file', file('a'), 'a.txt'],
          ['more', file('b'), 'b.txt'],
        ],
        'link_exceeded',
      ],
      [[['file', file('', 'application/octet-stream'), '']], 'link_exceeded'],
      [[], 'link_exceeded'],
    ] as [[string, string | Blob, string?][], string][])
      expect([parts.map(([name]) => name), await answer(send(parts))]).toEqual([
        parts.map(([name]) => name),
        [403, code],
      ])
    expect(await read(key)).toBe('NoSuchKey')
    expect((await send([['file', file(large), 'a.txt']])).status).toBe(201)
    expect(await read(key)).toBe(large)
    expect((await send([['file', file('a'), 'a.txt']])).status).toBe(200)
    expect(await read(key)).toBe('a')
  })

  test('POST of what is no form: 415; of a form that is cut: 400; nothing is stored', async () => {
    const { url } = await linkTo({ key: 'uploads/cut', method: 'POST' })
    const post = (type: string, body: string) =>
      answer(fetch(url, { method: 'POST', headers: { 'content-type': type }, body }))
    const part = '--b\r\ncontent-disposition: form-data; name="f"; filename="f"\r\n\r\n'
    expect(await post('text/plain', 'a')).toEqual([415, 'media_type_unsupported'])
    expect(await post('multipart/form-data', 'a')).toEqual([415, 'media_type_unsupported'])
    for (const cut of [part.slice(0, 20), part, `${part}data`, `${part}data\r\n--b`])
      expect([cut, (await post('multipart/form-data; boundary=b', cut))[0]]).toEqual([cut, 400])
    expect(await read('uploads/cut')).toBe('NoSuchKey')
  })

  test('key without objects:write: makes links to read, and none to upload', async () => {
    const { operator, workspaceId } = workspace
    const made = await call('POST', '/v1/api-keys', {
      as: operator,
      body: { workspace_id: workspaceId, kind: 'service', name: 'reader', scopes: ['objects:read'] },
    })
    const reader = { apikey: made.body.key }
    expect((await presign({ key: 'a' }, reader)).status).toBe(200)
    expect((await presign({ key: 'a', method: 'PUT' }, reader)).body.code).toBe('insufficient_scope')
  })
})

describe('link that is not as it was made', () => {
  test('any changed character of key, bucket or token, and any other method: 403', async () => {
    const key = await stored('links/changed.txt')
    const { url } = await linkTo({ key })
    const at = new URL(url).pathname.indexOf(bucket) + inject('tenon').url.length
    const end = url.length
    const isValue = (index: number) => index < url.indexOf('?link=') || index >= url.indexOf('?link=') + 6
    const positions = Array.from({ length: end - at }, (_, index) => at + index).filter(isValue)
    const change = fc.record({
      index: fc.constantFrom(...positions),
      by: fc.constantFrom(...'aZ09-_.'),
      cut: fc.boolean(),
    })
    await fc.assert(
      fc.asyncProperty(change, async ({ index, by, cut }) => {
        fc.pre(cut || url[index] !== by)
        const changed = url.slice(0, index) + (cut ? '' : by) + url.slice(index + 1)
        const [status, code] = await answer(fetch(changed))
        // Without a key the path is that of a list, which takes no link.
        if (code === 'credentials_missing') return
        expect([changed, status, code]).toEqual([changed, 403, 'link_invalid'])
      }),
      { seed: 41, numRuns: 200 },
    )
    for (const method of ['PUT', 'POST', 'DELETE']) {
      const [status] = await answer(fetch(url, { method, ...(method !== 'DELETE' && { body: 'x' }) }))
      expect([method, status]).toEqual([method, method === 'DELETE' ? 401 : 403])
    }
    expect(await answer(fetch(`${url}&link=more`))).toEqual([403, 'link_invalid'])
    expect(await read(key)).toBe('0123456789')
  })

  test('link of another workspace: opens the other object, and with this path nothing', async () => {
    const key = await stored('links/ours.txt')
    const other = await createTestWorkspaceWithStorage()
    const otherBucket = await bucketOf(other)
    expect((await presign({ key }, other.service)).body.code).toBe('AccessDenied')
    const link: Link = (await presign({ key }, other.service, otherBucket)).body
    expect(await answer(fetch(link.url))).toEqual([404, 'NoSuchKey'])
    expect(await answer(fetch(link.url.replace(otherBucket, bucket)))).toEqual([403, 'link_invalid'])
  })

  test('text that is no link: 403, whatever it is', async () => {
    const path = `${inject('tenon').url}/v1/objects/${bucket}/a`
    const wire = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const { tenantId, workspaceId } = workspace
    for (const text of [
      ...['', '.', 'a.b', 'a.b.c', '%00', 'null.x', `${wire(null)}.x`, `${wire({})}.x`, `${wire([])}.x`],
      `${wire([tenantId, workspaceId, 'GET', 9e15, 'key_x', null, {}])}.${'A'.repeat(43)}`,
      `${wire([tenantId, workspaceId, 'GET', 9e15, 'key_x', null, {}])}.`,
    ])
      expect([text, await answer(fetch(`${path}?link=${text}`))]).toEqual([text, [403, 'link_invalid']])
  })
})

describe('link whose time is over', () => {
  test('expired: 403 link_expired', async () => {
    const { url, expires_at } = await linkTo({ key: await stored('links/short.txt'), expires_in: 1 })
    expect(Date.parse(expires_at)).toBeLessThan(Date.now() + 1_000)
    await expect.poll(() => answer(fetch(url))).toEqual([403, 'link_expired'])
    for (const expires_in of [0, -1, 604_801, 1.5])
      expect((await presign({ key: 'a', expires_in })).body.code).toBe('validation_failed')
  })

  test('key revoked: its links end within seconds, also for an upload under way', async () => {
    const { operator, workspaceId } = workspace
    const body = { workspace_id: workspaceId, kind: 'service', name: unique('links') }
    const made = (await call('POST', '/v1/api-keys', { as: operator, body })).body
    const as = { apikey: made.key }
    const reading = await linkTo({ key: await stored('links/revoked.txt') }, as)
    const writing = await linkTo({ key: 'links/half.bin', method: 'PUT' }, as)
    expect((await fetch(reading.url)).status).toBe(200)
    let isRevoked = false
    const slow = new ReadableStream({
      async pull(controller) {
        await new Promise((next) => setTimeout(next, 100))
        controller.enqueue(new Uint8Array(10))
        if (isRevoked) return
        isRevoked = true
        expect((await call('DELETE', `/v1/api-keys/${made.id}`, { as: operator })).status).toBe(200)
      },
    })
    const upload = fetch(writing.url, { method: 'PUT', body: slow, duplex: 'half' } as RequestInit)
    expect(await answer(upload)).toEqual([403, 'link_expired'])
    expect(await answer(fetch(reading.url))).toEqual([403, 'link_expired'])
    expect(await read('links/half.bin')).toBe('NoSuchKey')
  })

  test('user: a link is made within the rules, ends with the rule, and with the user', async () => {
    const own = await createTestWorkspaceWithStorage()
    const ownBucket = await bucketOf(own)
    const rule = { read: ['of/{user.id}/'], write: ['of/{user.id}/'] }
    await configure(own, { objects: { user: rule } })
    const mia = await userToken(own, 'mia')
    const me = (await call('GET', '/v1/me', { as: mia })).body.subject
    expect((await presign({ key: 'of/other/a' }, mia, ownBucket)).body.code).toBe('forbidden')
    const upload: Link = (await presign({ key: `of/${me}/a`, method: 'PUT' }, mia, ownBucket)).body
    expect(await answer(fetch(upload.url, { method: 'PUT', body: 'a' }))).toEqual([201, null])
    const download: Link = (await presign({ key: `of/${me}/a` }, mia, ownBucket)).body
    // Of this token only its own expiry is known.
    const long: Link = (await presign({ key: `of/${me}/a`, expires_in: 604_800 }, mia, ownBucket)).body
    expect(Date.parse(long.expires_at)).toBeLessThan(Date.now() + 86_400_000)
    expect((await fetch(download.url)).status).toBe(200)
    await configure(own, { objects: { user: { read: [] } } })
    await expect.poll(() => answer(fetch(download.url))).toEqual([403, 'forbidden'])
  })

  test('user of the platform: the link outlives the token, follows the claims, and ends when the user is disabled', async () => {
    const own = await createTestWorkspaceWithStorage()
    const ownBucket = await bucketOf(own)
    await configure(own, { objects: { user: { read: ['team/{user.claims.team}/'] } } })
    await call('PUT', `/v1/objects/${ownBucket}/team/red/a`, { as: own.service, body: 'a' })
    const app = await createUserApp(own)
    const user = await addUser(app)
    const change = async (body: object) => {
      const changed = await call('PATCH', `/v1/users/${user.id}`, { as: own.operator, body })
      expect(changed.status, JSON.stringify(changed.body)).toBe(200)
    }
    await change({ claims: { team: 'red' } })
    const { body: tokens } = await userTokens(app, user)
    const as = { authorization: `Bearer ${tokens['access_token']}` }
    const link: Link = (await presign({ key: 'team/red/a', expires_in: 604_800 }, as, ownBucket)).body
    expect(Date.parse(link.expires_at)).toBeGreaterThan(Date.now() + 6 * 86_400_000)
    const [claims = ''] = (new URL(link.url).searchParams.get('link') ?? '').split('.')
    expect(Buffer.from(claims, 'base64url').toString()).not.toMatch(/red|@|usr_/)
    expect((await fetch(link.url)).status).toBe(200)
    await change({ claims: { team: 'blue' } })
    await expect.poll(() => answer(fetch(link.url))).toEqual([403, 'forbidden'])
    await change({ claims: { team: 'red' } })
    await expect.poll(() => answer(fetch(link.url))).toEqual([200, null])
    await change({ disabled: true })
    await expect.poll(() => answer(fetch(link.url))).toEqual([403, 'link_expired'])
  })

  test('caller that may make none: anon key, gateway, admin: 403', async () => {
    expect((await presign({ key: 'a' }, workspace.anon)).body.code).toBe('forbidden')
    expect((await presign({ key: 'a' }, gatewayHeaders(workspace))).body.code).toBe('forbidden')
    expect((await presign({ key: 'a' }, workspace.operator)).body.code).toBe('privilege_domain_mismatch')
  })
})
