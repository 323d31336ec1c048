/**
 * Measures a document read as an MCP tool, in both protocol eras, against the same read, and a write, over
 * REST in the same run; then a tool of another server.
 */

import { Agent, request } from 'node:http'
import { ApiClient, fetchToken } from '../src/cli/client.ts'
import type { Running } from '../test/support/stack/start.ts'
import { interleaved, print, throughput } from './measure.ts'
import { proxied } from './surface-mcp-proxied.ts'

const ROUNDS = 300
const LANES = 16
const LANE_MS = 3_000
const MODERN = '2026-07-28'
const VERBS = ['list', 'query', 'get', 'create', 'update', 'delete']

export async function mcp(running: Running): Promise<void> {
  const { path, token, apikey, id, ...bench } = await aServer(running)
  const send = sender(running.url)
  const rest = () => send('GET', `/v1/collections/bench/documents/${id}`, { apikey })
  const accept = 'application/json, text/event-stream'
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', accept }
  const era = { 'mcp-protocol-version': MODERN, 'mcp-method': 'tools/call', 'mcp-name': 'bench_get' }
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': MODERN,
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  const works = {
    'GET document over REST': rest,
    'POST document over REST': () =>
      send(
        'POST',
        '/v1/collections/bench/documents',
        { apikey, 'content-type': 'application/json' },
        '{"n":1}',
      ),
    'tools/call, era of 2025': () => send('POST', path, headers, message({})),
    'tools/call, era of 2026': () => send('POST', path, { ...headers, ...era }, message({ _meta })),
    'tools/list, 96 tools': () => send('POST', path, headers, LIST),
  }
  function message(more: object): string {
    const params = { name: 'bench_get', arguments: { id }, ...more }
    return JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
  }
  const figures = await interleaved(ROUNDS, works)
  const base = figures['GET document over REST'].p50Ms
  print('one at a time', 'p50 ms', 'p99 ms', '× REST')
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures)) print(name, p50Ms, p99Ms, p50Ms / base)
  print(`\n${LANES} at once`, 'per s', '× REST')
  let rate: number | undefined
  for (const [name, work] of Object.entries(works)) {
    const found = await throughput(LANES, LANE_MS, work)
    rate ??= found
    print(name, found, found / rate)
  }
  await proxied({ ...bench, url: running.url, senderTo: sender })
}

async function aServer({ url, clientId, clientSecret }: Running) {
  const admin = new ApiClient(url, {
    authorization: `Bearer ${await fetchToken(url, clientId, clientSecret)}`,
  })
  const slug = `bench-${Date.now()}`
  const tenant = await admin.post<{ id: string }>('/v1/tenants', { name: 'Bench', slug }, 30)
  const workspace = { tenant_id: tenant.id, name: 'Bench', slug }
  const { id: workspace_id } = await admin.post<{ id: string }>('/v1/workspaces', workspace, 30)
  const wanted = { workspace_id, kind: 'service', name: 'bench' }
  const { key: apikey } = await admin.post<{ key: string }>('/v1/api-keys', wanted)
  const data = new ApiClient(url, { apikey })
  const { id } = await data.post<{ id: string }>('/v1/collections/bench/documents', { n: 1 })
  await admin.call('PUT', '/v1/quotas', { workspace_id, limits: { mcp_servers: 2 } })
  const base = `/v1/mcp/workspaces/${workspace_id}/servers`
  const { path } = await admin.post<{ path: string }>(base, { name: 'Bench', slug: 'bench', search: 'off' })
  // With the six tools of `bench`, nearly as many as a server may have.
  const others = Array.from({ length: 15 }, (_, n) => `other${n}`)
  for (const name of others) await data.post(`/v1/collections/${name}/documents`, { n: 1 })
  const tools = Object.fromEntries(
    ['bench', ...others].flatMap((name) =>
      VERBS.map((verb) => [`collections:${name}:${verb}`, { enabled: true, scope: 'all' }]),
    ),
  )
  await admin.call('PUT', `${base}/bench/curation`, { tools })
  await admin.post(`${base}/bench/publish`, {})
  const tokenFor = (of: string, scope: string) =>
    fetchToken(url, clientId, clientSecret, { resource: `${url}${of}`, scope })
  return {
    path,
    token: await tokenFor(path, 'mcp:bench:all'),
    apikey,
    id,
    admin,
    workspaceId: workspace_id,
    tokenFor,
  }
}

const LIST = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' })

/** Keep-alive and little else. A failed tool call is an error. */
function sender(url: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: LANES })
  const { hostname, port } = new URL(url)
  return (method: string, path: string, headers: Record<string, string>, body?: string) =>
    new Promise<string>((done, fail) => {
      const sent = request({ agent, hostname, port, method, path, headers }, (response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk
        })
        response.on('end', () =>
          (response.statusCode === 200 || response.statusCode === 201) && !text.includes('"isError":true')
            ? done(text)
            : fail(new Error(text)),
        )
      })
      sent.on('error', fail)
      sent.end(body)
    })
}
