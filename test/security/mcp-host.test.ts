/** MCP endpoints answer only under their own host names (DNS rebinding), and to pages of allowed origins. */

import { type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { parseConfig } from '../../src/infra/config.ts'
import { type PublishedMcpServer, publishMcpServer, RPC, scopesOf, tokenFor } from '../support/clients/mcp.ts'
import { type Caller, call, createTestWorkspace, operator } from '../support/fixtures/tenants.ts'
import { startCountedApi } from '../support/stack/counted-api.ts'

let mcpServer: PublishedMcpServer
let endpoints: [string, string, Caller][]
beforeAll(async () => {
  mcpServer = await publishMcpServer(await createTestWorkspace(), 'host')
  endpoints = [
    ['hosted', mcpServer.path, await tokenFor(mcpServer, scopesOf(mcpServer, 'notes_list'))],
    ['platform', '/v1/mcp/platform/mcp', await operator()],
  ]
})

const LIST = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} })

/** Sends `tools/list` under another host name; fetch sets `Host` itself. */
function listUnderHost(
  path: string,
  as: Caller,
  host: string | undefined,
  base = inject('tenon').url,
  method = 'POST',
) {
  const { hostname, port } = new URL(base)
  const headers = { ...RPC, ...as, 'content-type': 'application/json', ...(host !== undefined && { host }) }
  return new Promise<{ status: number; code?: string; origin?: string }>((resolve, reject) => {
    const read = async (response: IncomingMessage) => {
      const body = await text(response)
      const { code } = body.startsWith('{') ? JSON.parse(body) : {}
      const origin = response.headers['access-control-allow-origin']
      return { status: response.statusCode ?? 0, ...(code && { code }), ...(origin && { origin }) }
    }
    request({ hostname, port, path, method, headers, agent: false, setHost: false })
      .once('error', reject)
      .once('response', (response) => void read(response).then(resolve, reject))
      .end(method === 'POST' ? LIST : undefined)
  })
}

test('MCP endpoint under its public or a loopback name with its port: answers', async () => {
  const { port, host } = new URL(inject('tenon').url)
  for (const [what, path, as] of endpoints) {
    for (const name of [host, host.toUpperCase(), `127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`])
      expect([what, name, (await listUnderHost(path, as, name)).status]).toEqual([what, name, 200])
  }
})

test('MCP endpoint under any other Host: 403, or 400 for what is none, with and without a token (T1)', async () => {
  const { port } = new URL(inject('tenon').url)
  const names = [
    'evil.example',
    `evil.example:${port}`,
    'localhost:1',
    'localhost',
    `localhost.evil.example:${port}`,
    '',
  ]
  const malformed = [
    `evil@localhost:${port}`,
    `localhost:${port}/`,
    `localhost:${port}#`,
    `localhost:${port}.`,
  ]
  for (const [what, path, as] of endpoints) {
    for (const name of names) {
      for (const caller of [as, {}]) {
        const { status, code } = await listUnderHost(path, caller, name)
        expect([what, name, status, code]).toEqual([what, name, 403, 'host_not_allowed'])
      }
    }
    for (const name of malformed) {
      const { status, code } = await listUnderHost(path, as, name)
      expect([what, name, status, code]).toEqual([what, name, 400, 'header_invalid'])
    }
  }
})

test('page of an allowed origin: preflight answered, replies readable; of another one: neither (T1)', async () => {
  const { url } = inject('tenon')
  const preflight = {
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization',
  }
  for (const [what, path, as] of endpoints) {
    const send = async (method: string, origin: string, headers: Record<string, string>) => {
      const body = method === 'POST' ? { body: JSON.parse(LIST) } : {}
      const reply = await call(method, path, { headers: { ...headers, origin }, ...body })
      return [what, reply.status, reply.headers.get('access-control-allow-origin')]
    }
    expect(await send('OPTIONS', url, preflight)).toEqual([what, 204, url])
    expect(await send('POST', url, { ...RPC, ...as })).toEqual([what, 200, url])
    expect(await send('POST', url, RPC)).toEqual([what, 401, url])
    for (const origin of ['https://evil.test', 'null', `${url}.evil.test`]) {
      expect(await send('OPTIONS', origin, preflight)).toEqual([what, 405, null])
      expect(await send('POST', origin, { ...RPC, ...as })).toEqual([what, 403, null])
    }
  }
})

test('page of an allowed origin: reads the id of its session, and opens its stream', async () => {
  const { url } = inject('tenon')
  const [, path, as] = endpoints.find(([, at]) => at.includes('/servers/')) ?? ['', '', {}]
  const preflight = { origin: url, 'access-control-request-method': 'GET' }
  const { headers } = await call('OPTIONS', path, { headers: preflight })
  expect(headers.get('access-control-allow-methods')).toBe('GET, POST')
  expect(headers.get('access-control-allow-headers')).toMatch(/mcp-session-id.*last-event-id/)
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'page', version: '1' },
  }
  const body = { jsonrpc: '2.0', id: 1, method: 'initialize', params }
  const begun = await call('POST', path, { headers: { ...RPC, ...as, origin: url }, body })
  expect(begun.headers.get('access-control-expose-headers')).toContain('mcp-session-id')
  const id = begun.headers.get('mcp-session-id') ?? ''
  const stream = await call('GET', path, { headers: { ...RPC, ...as, origin: url, 'mcp-session-id': id } })
  expect([stream.status, stream.headers.get('access-control-allow-origin')]).toEqual([200, url])
})

describe('TENON_MCP_ORIGINS', () => {
  test('listed origins: pages of them call, and read refusals; of other schemes, ports and names: neither', async () => {
    const listed = ['https://app.example', 'http://localhost:5173']
    const node = await startCountedApi({ TENON_MCP_ORIGINS: listed.join(',') })
    try {
      const base = await node.app.listen({ port: 0, host: '127.0.0.1' })
      const { url } = inject('tenon')
      for (const [what, path, as] of endpoints) {
        const send = async (origin: string, caller: Caller, method?: string) => {
          const preflight = { 'access-control-request-method': 'POST' }
          const headers = { ...caller, origin, ...(method && preflight) }
          const reply = await listUnderHost(path, headers, new URL(url).host, base, method)
          return [what, origin, reply.status, reply.origin]
        }
        for (const origin of [...listed, url]) {
          expect(await send(origin, as, 'OPTIONS')).toEqual([what, origin, 204, origin])
          expect(await send(origin, as)).toEqual([what, origin, 200, origin])
          expect(await send(origin, {})).toEqual([what, origin, 401, origin])
        }
        for (const origin of [
          'http://app.example',
          'https://app.example:8443',
          'https://app.example.evil.test',
          'https://evil.app.example',
          'https://app.example,http://localhost:5173',
          'http://localhost',
          'null',
        ]) {
          expect(await send(origin, as, 'OPTIONS')).toEqual([what, origin, 405, undefined])
          expect(await send(origin, as)).toEqual([what, origin, 403, undefined])
        }
      }
    } finally {
      await node.close()
    }
  })

  test.each(['app.example', 'https://app.example/', 'https://a,,https://b', '*', 'https://a, https://b'])(
    'invalid list “%s”: the process does not start',
    (value) => {
      const env = { ...inject('tenon').env, TENON_MCP_ORIGINS: value }
      expect(() => parseConfig(env)).toThrow('TENON_MCP_ORIGINS')
    },
  )
})

describe('TENON_MCP_HOSTS', () => {
  test('name listed with or without a port: only that spelling is accepted', async () => {
    const node = await startCountedApi({ TENON_MCP_HOSTS: 'tenon.internal,api:8787' })
    try {
      const base = await node.app.listen({ port: 0, host: '127.0.0.1' })
      const [, path, as] = endpoints[1] ?? ['', '', {}]
      const status = async (name: string) => (await listUnderHost(path, as, name, base)).status
      expect(await Promise.all(['tenon.internal', 'api:8787'].map(status))).toEqual([200, 200])
      expect(await Promise.all(['tenon.internal:1', 'api', 'api:8788'].map(status))).toEqual([403, 403, 403])
    } finally {
      await node.close()
    }
  })

  test.each(['http://a', 'a/b', 'a,,b', '*'])('invalid list “%s”: the process does not start', (value) => {
    expect(() => parseConfig({ ...inject('tenon').env, TENON_MCP_HOSTS: value })).toThrow('TENON_MCP_HOSTS')
  })
})
