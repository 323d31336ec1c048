/** Code of functions that tries to reach what is not public: odd spellings, names, redirects, headers, and ways around `fetch`. */

import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FetchRoute, guardedFetch } from '../../src/activities/function/guarded-fetch.ts'
import { Problem } from '../../src/core/problem.ts'
import { FunctionEgress } from '../../src/features/functions/egress.ts'
import { Egress, PublicAddresses } from '../../src/infra/http-client/egress.ts'
import { deployed, resultOf } from '../support/fixtures/functions.ts'
import { createTestWorkspace, type TestWorkspace } from '../support/fixtures/tenants.ts'

describe('in a function that may reach all public servers', () => {
  let workspace: TestWorkspace
  beforeAll(async () => {
    workspace = await createTestWorkspace()
  })

  test('no spelling of a private address is reached', async () => {
    const urls = [
      ...['http://127.0.0.1:5432/', 'http://localhost:5432/', 'http://0.0.0.0:80/'],
      ...[
        'http://2130706433/',
        'http://0x7f000001/',
        'http://0177.0.0.1/',
        'http://127.1/',
        'http://①②⑦.0.0.1/',
      ],
      ...[
        'http://[::1]/',
        'http://[::ffff:127.0.0.1]/',
        'http://[::ffff:7f00:1]/',
        'http://[64:ff9b::7f00:1]/',
      ],
      ...[
        'http://169.254.169.254/latest/meta-data',
        'http://[fd00:ec2::254]/',
        'http://10.0.0.1/',
        'http://192.168.0.1/',
      ],
      ...['http://100.64.0.1/', 'http://[fe80::1]/', 'http://[fc00::1]/', 'http://224.0.0.1/'],
    ]
    const id = await deployed(
      workspace,
      'export default ({ urls }) => Promise.all(urls.map((url) => fetch(url).then(({ status }) => status, ({ code }) => code)))',
      { egress: ['*'], timeout: '30s' },
    )
    const got = await resultOf(workspace.service, id, { urls })
    expect(urls.filter((_, index) => got[index] !== 'egress_refused')).toEqual([])
  })

  test('other schemes, credentials in URLs, other methods and broken headers are refused', async () => {
    const id = await deployed(
      workspace,
      `export default async () => {
        const outcome = (work) => Promise.resolve().then(work).then(({ status }) => status, (error) => error.code ?? error.name)
        return Promise.all([
          outcome(() => fetch('file:///etc/passwd')),
          outcome(() => fetch('ftp://example.com/')),
          outcome(() => fetch('data:text/plain,a')),
          outcome(() => fetch('http://user:pass@example.com/')),
          outcome(() => fetch('http://example.com/', { method: 'CONNECT' })),
          outcome(() => fetch('http://example.com/', { headers: { a: 'b\\r\\nhost: c' } })),
          outcome(() => fetch('http://example.com:0/')),
        ])
      }`,
      { egress: ['*'] },
    )
    const got: unknown[] = await resultOf(workspace.service, id)
    for (const each of got)
      expect(['egress_refused', 'validation_failed', 'TypeError', 'upstream_unavailable']).toContain(each)
    expect(got).not.toContain(200)
  })

  test('the process itself has no network and no resolver', async () => {
    const id = await deployed(
      workspace,
      `export default async () => {
        const failure = (work) => Promise.resolve().then(work).then(() => 'done', ({ name }) => name)
        return Promise.all([
          failure(() => Deno.connect({ hostname: '127.0.0.1', port: 5432 })),
          failure(() => Deno.resolveDns('example.com', 'A')),
          failure(() => Deno.listen({ port: 0 })),
          failure(() => new Promise((done, fail) => { const socket = new WebSocket('ws://127.0.0.1:5432'); socket.onopen = done; socket.onerror = () => fail(new Error()) })),
          failure(async () => { const { lookup } = await import(String('node:dns/promises')); return lookup('localhost') }),
          failure(async () => { const { connect } = await import(String('node:net')); return new Promise((done, fail) => connect(5432, '127.0.0.1', done).on('error', fail)) }),
        ])
      }`,
      { egress: ['*'] },
    )
    expect(await resultOf(workspace.service, id)).not.toContain('done')
  })
})

describe('names whose addresses change', () => {
  let server: Server
  let port: number
  const reached: string[] = []
  /** The answers to the next lookups of `rebind.test`; the last one stays. */
  let addresses: string[] = []
  const lookups: string[] = []
  const find = (name: string) => {
    lookups.push(name)
    const address = (addresses.length > 1 ? addresses.shift() : addresses[0]) ?? '127.0.0.9'
    return Promise.resolve([{ address, family: 4 }])
  }
  /** In this test 127.0.0.1 stands for a public address. */
  class OnePublic extends PublicAddresses {
    override isPublic(text: string): boolean {
      return text === '127.0.0.1'
    }
  }
  const egress = new Egress([], find, new OnePublic())
  const route = (entries: readonly string[]): FetchRoute => ({
    egress: new FunctionEgress(entries),
    allowed: () => Promise.resolve([]),
    allowedNow: () => Promise.resolve([]),
    chainDepth: 0,
    send: (outbound, sender, bounds) => egress.send(outbound, sender, bounds),
  })
  const get = (url: string, entries: readonly string[]) =>
    guardedFetch({ method: 'GET', url, headers: [] }, route(entries), { timeoutMs: 2_000 }).then(
      ({ status }) => status,
      (error: unknown) => (error instanceof Problem ? error.code : error),
    )

  beforeAll(async () => {
    server = createServer(({ url = '', headers }, response) => {
      reached.push(`${headers.host}${url}`)
      if (url === '/again') response.writeHead(302, { location: `http://rebind.test:${port}/second` })
      response.end()
    })
    await new Promise<void>((done) => server.listen(0, '0.0.0.0', done))
    port = (server.address() as AddressInfo).port
  })
  afterAll(() => {
    server.closeAllConnections()
    server.close()
  })

  test('private at the second hop of a redirect: the hop is refused', async () => {
    addresses = ['127.0.0.1', '127.0.0.2']
    expect(await get(`http://rebind.test:${port}/again`, ['*'])).toBe('egress_refused')
    expect(reached).toEqual([`rebind.test:${port}/again`])
  })

  test('private for a server that the function names: refused as well', async () => {
    addresses = ['127.0.0.2']
    expect(await get(`http://rebind.test:${port}/named`, [`rebind.test:${port}`])).toBe('egress_refused')
    addresses = ['127.0.0.1']
    expect(await get(`http://rebind.test:${port}/named`, [`rebind.test:${port}`])).toBe(200)
  })

  test('a name that the function may not reach: is not looked up, so it carries nothing out', async () => {
    lookups.length = 0
    for (const url of [
      'http://secret.evil.test/',
      'http://example.com.evil.test/',
      'http://xexample.com/',
      'http://example.com:81/',
    ])
      expect(await get(url, ['example.com:80', '*.example.com:80'])).toBe('egress_refused')
    // `*.example.com` names subdomains alone.
    expect(await get('http://example.com/', ['*.example.com:80'])).toBe('egress_refused')
    expect(lookups).toEqual([])
    addresses = ['127.0.0.2']
    await get('http://a.b.EXAMPLE.com/', ['*.example.com:80'])
    expect(new Set(lookups)).toEqual(new Set(['a.b.example.com']))
  })

  test('line breaks in headers and methods: nothing is sent', async () => {
    addresses = ['127.0.0.1']
    const before = reached.length
    const url = `http://rebind.test:${port}/`
    for (const bad of [
      { method: 'GET', headers: [['a', 'b\r\nx: y']] },
      { method: 'GET', headers: [['a\r\nb', 'c']] },
      { method: 'GET', headers: [['a', 'ĀĊ']] },
      { method: 'GET / HTTP/1.1\r\nx: y', headers: [] },
      { method: 'connect', headers: [] },
    ] as const)
      await expect(guardedFetch({ url, ...bad }, route(['*']), { timeoutMs: 2_000 })).rejects.toMatchObject({
        code: 'validation_failed',
      })
    expect(reached.length).toBe(before)
  })
})
