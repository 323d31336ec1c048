/** Code that serves HTTP requests: it sees no credential of the platform, and decides about nothing but its own response. */

import { request } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { beforeAll, expect, inject, test } from 'vitest'
import { recordOf } from '../support/fixtures/functions.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  type TestWorkspace,
  tokenOf,
} from '../support/fixtures/tenants.ts'
import { configure } from '../support/stack/workspace-settings.ts'

const HOSTILE = `
const set: [string, string][] = [
  ['set-cookie', 'session=stolen'], ['access-control-allow-origin', 'https://evil.example'],
  ['access-control-allow-credentials', 'true'], ['content-security-policy', "script-src 'unsafe-inline'"],
  ['x-content-type-options', 'sniff'], ['strict-transport-security', 'max-age=0'], ['x-request-id', 'forged'],
  ['x-run-id', 'forged'], ['ratelimit', 'forged'], ['clear-site-data', '"*"'], ['nel', '{}'], ['report-to', '{}'],
  ['service-worker-allowed', '/'], ['alt-svc', 'h3="evil.example:443"'], ['www-authenticate', 'Basic realm="x"'],
  ['x-accel-redirect', '/internal'], ['x-sendfile', '/etc/passwd'], ['cross-origin-resource-policy', 'cross-origin'],
  ['connection', 'x-hop'], ['x-hop', '1'], ['transfer-encoding', 'gzip'], ['content-length', '3'],
  ['use-as-dictionary', 'match="/*"'], ['set-login', 'logged-out'], ['observe-browsing-topics', '?1'],
  ['attribution-reporting-register-source', '{}'], ['attribution-reporting-register-trigger', '{}'],
  ['activate-storage-access', 'load'], ['age', '99'], ['date', 'Thu, 01 Jan 1970 00:00:00 GMT'],
  ['server', 'forged'], ['via', '1.1 forged'], ['surrogate-control', 'max-age=99'],
  ['content-type', 'text/html'], ['x-kept', 'yes'], ['vary', 'x-kept'],
]
export const fetch = async (request: Request, context: object) => {
  const { pathname, searchParams } = new URL(request.url)
  if (pathname === '/headers') return new Response('<script>alert(1)</script> and more', { headers: set })
  if (pathname === '/status') return { status: Number(searchParams.get('s')) } as Response
  if (pathname === '/flood') {
    let n = 0
    const chunk = new Uint8Array(1_000_000)
    return new Response(new ReadableStream({ pull: (to) => { if (n++ < 200) to.enqueue(chunk); else to.close() } }))
  }
  return new Response(JSON.stringify({ url: request.url, headers: [...request.headers], context, body: await request.text() }))
}`

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
  await deploy('hostile', HOSTILE)
})

async function deploy(name: string, source: string, more: object = {}): Promise<void> {
  const config = { anon: true, timeout: '60s', ...more }
  const body = { workspace_id: workspace.workspaceId, name, source, config }
  expect((await call('POST', '/v1/functions', { as: workspace.operator, body })).status).toBe(201)
}

const at = (path: string) => `/v1/functions/hostile/http${path}`
const urlOf = (path: string) => `${inject('tenon').url}${at(path)}`

test('credentials of the platform, in every place: reach the code in none', async () => {
  const { tenantId, workspaceId } = workspace
  const { authorization = '' } = await tokenOf({
    roles: ['service'],
    tenant_id: tenantId,
    workspace_id: workspaceId,
  })
  const { apikey: service = '' } = workspace.service
  const { apikey: anon = '' } = workspace.anon
  const common = { cookie: 'session=of-the-issuer', 'proxy-authorization': 'Basic eDp5' }
  const senders: Record<string, [string, Record<string, string>]> = {
    header: ['/seen', { apikey: service, authorization }],
    scheme: ['/seen', { authorization: `ApiKey ${service}` }],
    bearer: ['/seen', { authorization: `Bearer ${service}` }],
    other: ['/seen', { 'x-api-key': service }],
    query: [`/seen?x=1&apikey=${anon}&y=2`, { referer: `https://a.example/?apikey=${anon}` }],
    escaped: [`/seen?%61pikey=${anon}`, { 'x-original-url': `/v1/x?apikey=${anon}` }],
  }
  for (const [place, [path, headers]] of Object.entries(senders)) {
    const sent = { ...common, ...headers }
    const seen = await new Promise<string>((done, fail) => {
      request(
        urlOf(path),
        { headers: sent, agent: false },
        (response) => void text(response).then(done, fail),
      )
        .once('error', fail)
        .end()
    })
    const secrets = [service, anon, authorization.split(' ')[1] ?? '', 'of-the-issuer', 'eDp5', 'apikey']
    expect({
      place,
      found: secrets.filter((secret) => seen.includes(secret)),
      isJson: seen.startsWith('{"url"'),
    }).toEqual({
      place,
      found: [],
      isJson: true,
    })
  }
})

test('headers of the response: those of the platform stay, and a page of the code runs no scripts', async () => {
  const headers = { ...workspace.service, origin: 'https://page.example', 'x-request-id': 'mine' }
  const { headers: anon } = await fetch(urlOf('/headers'), {
    headers: { ...workspace.anon, origin: headers.origin },
  })
  const response = await fetch(urlOf('/headers'), {
    headers: { ...workspace.service, 'x-request-id': 'mine' },
  })
  expect(await response.text()).toBe('<script>alert(1)</script> and more')
  expect(Object.fromEntries(response.headers)).toMatchObject({
    'content-type': 'text/html',
    'content-security-policy': 'sandbox',
    'x-content-type-options': 'nosniff',
    'cross-origin-resource-policy': 'cross-origin',
    'x-request-id': 'mine',
    'x-run-id': expect.stringMatching(/^run_/),
    'x-kept': 'yes',
    vary: 'Authorization, apikey, Accept, Origin, x-kept',
  })
  for (const name of [
    ...[
      'set-cookie',
      'access-control-allow-credentials',
      'strict-transport-security',
      'clear-site-data',
      'nel',
    ],
    ...[
      'report-to',
      'service-worker-allowed',
      'alt-svc',
      'www-authenticate',
      'x-accel-redirect',
      'x-sendfile',
    ],
    ...['x-hop', 'content-length', 'use-as-dictionary', 'set-login', 'observe-browsing-topics'],
    ...['attribution-reporting-register-source', 'attribution-reporting-register-trigger'],
    ...['activate-storage-access', 'age', 'server', 'via', 'surrogate-control'],
  ])
    expect([name, response.headers.get(name)]).toEqual([name, null])
  expect(response.headers.get('ratelimit')).not.toBe('forged')
  expect(response.headers.get('date')).not.toContain('1970')
  expect([anon.get('access-control-allow-origin'), anon.get('access-control-allow-credentials')]).toEqual([
    '*',
    null,
  ])
})

test('trace context of a client: the code, its calls and its run continue it, without baggage, and no other run does', async () => {
  const { host, origin } = new URL(inject('tenon').url)
  await configure(workspace, { egress: { allow: [host] } })
  const source = `export const fetch = async (request) => {
    const called = await globalThis.fetch('${origin}${at('/seen')}', { headers: { apikey: '${workspace.anon['apikey']}' } })
    return Response.json({ called: await called.json(), own: request.headers.get('traceparent') })
  }`
  await deploy('traced', source, { egress: [host] })
  const runs = []
  const traces: string[] = []
  for (const as of [workspace.anon, workspace.service]) {
    const trace = crypto.randomUUID().replaceAll('-', '')
    const baggage = crypto.randomUUID()
    const traceparent = `00-${trace}-b7ad6b7169203331-01`
    const headers = { traceparent, tracestate: `x=${baggage}`, baggage: `t=${baggage}` }
    const reply = await call('GET', '/v1/functions/traced/http/', { as, headers })
    expect(reply.status, JSON.stringify(reply.body)).toBe(200)
    expect(reply.body.own).toBe(traceparent)
    const run = reply.headers.get('x-run-id') ?? ''
    const others = JSON.stringify([reply.body.called, await recordOf(run)])
    expect(others.split(trace).length, others).toBeGreaterThan(2)
    expect(JSON.stringify([...reply.headers])).not.toContain(trace)
    for (const foreign of [baggage, ...traces]) expect(others).not.toContain(foreign)
    traces.push(trace)
    runs.push(run, reply.headers.get('x-request-id'))
  }
  // The second run is in the process of the first.
  expect(new Set(runs).size).toBe(4)
})

test.each(['100', '101', '199', '0', '600', '1e9'])(
  'status %s: 502, and no response of that status',
  async (status) => {
    const reply = await call('GET', at(`/status?s=${status}`), { as: workspace.service })
    expect([reply.status, reply.body.code]).toEqual([502, 'function_error'])
  },
)

test('line break in a header: 502, and no header of the code', async () => {
  const source = `
    Object.defineProperty(Response.prototype, 'headers', { get: () => [['x-a', 'b\\r\\nset-cookie: a=b']] })
    export const fetch = () => new Response('x')`
  await deploy('splits', source)
  const reply = await call('GET', '/v1/functions/splits/http/', { as: workspace.service })
  expect([reply.status, reply.body.code, reply.body.detail]).toEqual([
    502,
    'function_error',
    'The Response has an invalid header: "x-a".',
  ])
  expect([reply.headers.get('x-a'), reply.headers.get('set-cookie')]).toEqual([null, null])
})

test('paths with dot segments, hosts and escapes: stay below the function', async () => {
  for (const path of ['/..%2f..%2fsecret', '//evil.example/x', '/a/../../../x', '/%2e%2e/x']) {
    const seen = await raw(`GET ${at(path)} HTTP/1.1`)
    const [, body = ''] = /(\{.*\})/s.exec(seen) ?? []
    expect([path, new URL(JSON.parse(body).url).host]).toEqual([
      path,
      new URL(inject('tenon').env['TENON_PUBLIC_URL'] ?? inject('tenon').url).host,
    ])
  }
})

/** Sends a request whose path no client library changes. */
function raw(line: string): Promise<string> {
  const { hostname, port } = new URL(inject('tenon').url)
  return new Promise((done, fail) => {
    let got = ''
    const socket = connect(Number(port), hostname, () =>
      socket.write(
        `${line}\r\nhost: x\r\napikey: ${workspace.service['apikey']}\r\nconnection: close\r\n\r\n`,
      ),
    )
    socket
      .on('data', (chunk) => (got += chunk))
      .once('close', () => done(got))
      .once('error', fail)
  })
}

test('a response above the limit: is cut off, and recorded as too large', async () => {
  const response = await fetch(urlOf('/flood'), { headers: { ...workspace.service } })
  let bytes = 0
  const read = async () => {
    for await (const chunk of response.body ?? []) bytes += chunk.byteLength
  }
  await expect(read()).rejects.toThrow()
  expect(bytes).toBeLessThanOrEqual(104_857_600)
  const [run] = await asSuperuser<{ error: { code: string } }>(
    'select error from tenon.function_runs where id = $1 and ended_at is not null',
    [response.headers.get('x-run-id')],
  )
  expect(run?.error.code ?? 'not recorded yet').toBe('function_output_too_large')
})
