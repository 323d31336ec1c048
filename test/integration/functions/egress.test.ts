/** `fetch` of functions: to the servers that the function names, and to private ones that its workspace may reach as well. */

import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { deployed, invoke, resultOf } from '../../support/fixtures/functions.ts'
import {
  addTestWorkspace,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { FakeServers, type Route } from '../../support/servers/fake-servers.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

/** Sends the requests of its input. The result has what each got. */
const FETCHES = `export default async ({ requests }) => {
  const got = []
  for (const [to, init] of requests) {
    try {
      const response = await fetch(to, init)
      const { status, headers, url, redirected } = response
      got.push({ status, url, redirected, headers: [...headers], text: await response.text() })
    } catch ({ name, message, code }) {
      got.push({ name, message, code })
    }
  }
  return got
}`

const echo: Route = ({ method, headers, body }) => ({ json: { method, headers, body } })
let upstream: FakeServers
let second: FakeServers
let workspace: TestWorkspace
let id: string
beforeAll(async () => {
  const redirect =
    (status: number, to: () => string): Route =>
    () => ({ status, headers: { location: to() } })
  second = await FakeServers.open({ '/echo': echo })
  upstream = await FakeServers.open({
    '/echo': echo,
    '/to-echo': redirect(302, () => '/echo?n=1'),
    '/see-other': redirect(303, () => '/echo'),
    '/same': redirect(307, () => '/echo'),
    '/elsewhere': redirect(307, () => `${second.origin}/echo`),
    '/metadata': redirect(302, () => 'http://169.254.169.254/latest'),
    '/round': redirect(302, () => '/round'),
    '/scheme': redirect(302, () => 'file:///etc/passwd'),
    '/userinfo': redirect(302, () => `http://a:b@${upstream.host}/echo`),
    '/zip': () => ({ headers: { 'content-encoding': 'gzip' }, text: gzipSync('zipped') }),
    '/bomb': () => ({ headers: { 'content-encoding': 'gzip' }, text: gzipSync(Buffer.alloc(11_000_000)) }),
    '/large': () => ({ text: Buffer.alloc(10_485_761) }),
    '/hangs': () => ({ hangs: true }),
    '/odd': () => ({ status: 999 }),
  })
  workspace = await createTestWorkspace()
  await configure(workspace, { egress: { allow: [upstream.host, second.host] } })
  id = await deployed(workspace, FETCHES, { egress: [upstream.host, second.host], timeout: '5s' })
})
afterAll(() => Promise.all([upstream.close(), second.close()]))

type Init = {
  redirect?: 'manual' | 'error'
  method?: string
  headers?: Record<string, string>
  body?: string
}
const fetches = (
  requests: readonly (readonly [url: string, init?: Init | undefined])[],
  of = id,
  at = workspace,
) => resultOf(at.service, of, { requests })
const fetchOne = async (path: string, init?: Init) =>
  (await fetches([[`${upstream.origin}${path}`, init]]))[0]
const echoed = async (path: string, init?: Init) => JSON.parse((await fetchOne(path, init)).text)

describe('servers', () => {
  test('without `egress`: refused before anything is sent, with the entry to add', async () => {
    const none = await deployed(workspace, FETCHES)
    const [loopback, named] = await fetches(
      [[`${upstream.origin}/none`], ['https://api.example.com/v1?key=1']],
      none,
    )
    expect(loopback).toMatchObject({ name: 'TypeError', code: 'egress_refused' })
    expect(named.message).toBe(
      'The function may not send requests to api.example.com:443. Add "api.example.com:443" to `egress` in its configuration.',
    )
    expect(upstream.requestsTo('/none')).toEqual([])
  })

  test('a URL that is not http or https: refused with that reason, and no entry to add', async () => {
    for (const { code, message } of await fetches([
      ['about:blank'],
      ['blob:https://a.example/1'],
      ['ftp://a.example/'],
    ]))
      expect([code, message]).toEqual([
        'egress_refused',
        expect.stringMatching(/only http: and https: are\.$/),
      ])
  })

  test('a private address: takes the function’s entry and its own workspace’s, not `*` and not another workspace’s', async () => {
    const other = await addTestWorkspace(workspace)
    const [theirs, all] = await Promise.all([
      deployed(other, FETCHES, { egress: [upstream.host, '*'] }),
      deployed(workspace, FETCHES, { egress: ['*'] }),
    ])
    const request = [[`${upstream.origin}/echo/private`]] as const
    const [ofOther] = await fetches(request, theirs, other)
    expect(ofOther).toMatchObject({ code: 'egress_refused' })
    expect(ofOther.message).toContain(`npx tenon workspace egress allow ${upstream.host}`)
    const [ofAll] = await fetches(request, all)
    expect(ofAll.message).toContain('is not a public address: `*` does not admit it')
    expect(upstream.requestsTo('/echo/private')).toEqual([])
    expect((await fetches(request))[0].status).toBe(200)
  })

  test('configuration: an entry that is none is refused with its place', async () => {
    for (const entry of [
      'example.com',
      'https://example.com:443',
      '*:443',
      '*.1.2.3:80',
      'a@b:1',
      'a:99999',
    ]) {
      const body = {
        workspace_id: workspace.workspaceId,
        name: unique('f'),
        source: FETCHES,
        config: { egress: [entry] },
      }
      const reply = await call('POST', '/v1/functions', { as: workspace.operator, body })
      expect([reply.status, reply.body.code], entry).toEqual([400, 'validation_failed'])
      expect(reply.body.detail).toContain('host:port')
    }
  })
})

describe('requests', () => {
  test('method, headers and body arrive; those of the connection and of the platform are not the code’s', async () => {
    const { method, headers, body } = await echoed('/echo', {
      method: 'PATCH',
      headers: {
        ...{ 'x-own': 'a', authorization: 'Bearer b', 'content-type': 'text/plain' },
        ...{
          host: 'other.test',
          connection: 'close',
          'transfer-encoding': 'chunked',
          'tenon-chain-depth': '0',
        },
      },
      body: 'text',
    })
    expect([method, body]).toEqual(['PATCH', 'text'])
    expect(headers).toMatchObject({
      ...{ 'x-own': 'a', authorization: 'Bearer b', 'content-type': 'text/plain', 'content-length': '4' },
      ...{ host: upstream.host, 'tenon-chain-depth': '1' },
    })
    expect(headers['transfer-encoding']).toBeUndefined()
  })

  test('a response: decoded, at most 10 MB, within the time of the run', async () => {
    expect(await fetchOne('/zip')).toMatchObject({ status: 200, text: 'zipped' })
    expect(await fetchOne('/bomb')).toMatchObject({ code: 'upstream_invalid' })
    expect(await fetchOne('/large')).toMatchObject({ code: 'upstream_invalid' })
    expect(await fetchOne('/odd')).toMatchObject({ name: 'TypeError', code: 'upstream_invalid' })
    const short = await deployed(workspace, FETCHES, { egress: [upstream.host], timeout: '1s' })
    const { body } = await invoke(workspace.service, short, { requests: [[`${upstream.origin}/hangs`]] })
    expect(body.code).toBe('function_timeout')
  })
})

describe('redirects', () => {
  test('302 and 303 become GET without body; 307 keeps both', async () => {
    const post = {
      method: 'POST',
      body: 'a=1',
      headers: { 'content-type': 'text/plain', authorization: 'b' },
    }
    for (const path of ['/to-echo', '/see-other']) {
      const { method, headers, body } = await echoed(path, post)
      expect([method, body, headers['content-type'], headers.authorization]).toEqual([
        'GET',
        '',
        undefined,
        'b',
      ])
    }
    expect(await echoed('/same', post)).toMatchObject({ method: 'POST', body: 'a=1' })
  })

  test('`redirect`: follow tells the last URL, manual gets the redirect itself, error throws; nothing more is sent', async () => {
    const url = `${upstream.origin}/echo`
    expect(await fetchOne('/to-echo#top')).toMatchObject({ status: 200, url: `${url}?n=1`, redirected: true })
    expect(await fetchOne('/echo#top')).toMatchObject({ status: 200, url, redirected: false })
    const before = second.requests.length
    const manual = await fetchOne('/elsewhere', { redirect: 'manual' })
    const from = { status: 307, url: `${upstream.origin}/elsewhere`, redirected: false }
    expect(manual).toMatchObject(from)
    expect(manual.headers).toContainEqual(['location', `${second.origin}/echo`])
    const failed = await fetchOne('/elsewhere', { redirect: 'error' })
    expect(failed).toMatchObject({ name: 'TypeError', code: 'upstream_invalid' })
    expect(second.requests.length).toBe(before)
  })

  test('to another origin: without authorization and cookies', async () => {
    const headers = { authorization: 'Bearer b', cookie: 'c=1', 'x-own': 'a' }
    const seen = await echoed('/elsewhere', { headers })
    expect(seen.headers).toMatchObject({ host: second.host, 'x-own': 'a', 'tenon-chain-depth': '1' })
    expect([seen.headers.authorization, seen.headers.cookie]).toEqual([undefined, undefined])
  })

  test.each([
    ['/metadata', 'egress_refused'],
    ['/scheme', 'egress_refused'],
    ['/userinfo', 'egress_refused'],
    ['/round', 'upstream_invalid'],
  ])('%s: not followed', async (path, code) => {
    expect(await fetchOne(path)).toMatchObject({ name: 'TypeError', code })
  })

  test('to a server that only another function names: refused', async () => {
    const narrow = await deployed(workspace, FETCHES, { egress: [upstream.host] })
    const before = second.requests.length
    const [refused] = await fetches([[`${upstream.origin}/elsewhere`]], narrow)
    expect(refused.message).toContain(`Add "${second.host}" to \`egress\``)
    expect(second.requests.length).toBe(before)
  })
})

test('a request that comes back to the API: its run is deeper, up to the maximum', async () => {
  const { host, origin } = new URL(inject('tenon').url)
  await configure(workspace, { egress: { allow: [upstream.host, second.host, host] } })
  const returning = await deployed(workspace, FETCHES, { egress: [host], timeout: '30s' })
  const apikey = workspace.service['apikey'] ?? ''
  const inner = await deployed(workspace, 'export default (_, { tenon }) => tenon.functions.invoke("none")')
  const request = [
    `${origin}/v1/functions/${inner}/invoke`,
    { method: 'POST', headers: { apikey, 'content-type': 'application/json' }, body: '{}' },
  ] as const
  const at = async (depth: number) => {
    const headers = { 'tenon-chain-depth': String(depth) }
    return (await invoke(workspace.service, returning, { requests: [request] }, headers)).body[0]
  }
  // The egress list of the workspace is cached for some seconds; a refusal reads it again.
  const allowed = await eventually(async () => {
    const got = await at(1)
    return got.status === undefined ? undefined : got
  })
  expect(JSON.parse(allowed.text)).toMatchObject({ code: 'function_error' })
  expect(JSON.parse((await at(14)).text)).toMatchObject({ code: 'state_conflict' })
  expect(await at(15)).toMatchObject({ code: 'state_conflict' })
})
