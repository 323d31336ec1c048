/** Invalid HTTP requests: always a problem document, never a 500, no internals disclosed. */

import { connect } from 'node:net'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { API_LIMITS } from '../../../src/api/limits.ts'
import { call, createTestWorkspace, type Reply, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { stopwatch } from '../../support/stopwatch.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const DOCUMENTS = '/v1/collections/todos/documents'

function isProblem({ status, headers, body }: Reply, code: string): void {
  expect(headers.get('content-type')).toContain('application/problem+json')
  // Intermediaries must not store the reply for another caller.
  expect(headers.get('cache-control')).toBe('private, no-store')
  expect(headers.get('vary')).toBe('Authorization, apikey, Accept, Origin')
  expect(body).toMatchObject({ code, status, request_id: headers.get('x-request-id') })
  expect(body.type).toBe(`/docs/problems/${code}`)
  expect(JSON.stringify(body)).not.toMatch(/select |insert |at \w+ \(|node_modules|tenon_(app|service|anon)/)
}

test('routing: an id of more than 1024 characters: 404, with or without credentials', async () => {
  const path = `/v1/operations/${'x'.repeat(1_100)}`
  isProblem(await call('GET', path, {}), 'route_not_found')
  isProblem(await call('GET', path, { as: workspace.service }), 'route_not_found')
})

test('routing: unknown path: 404; unknown method of a known path: 405 with Allow', async () => {
  isProblem(await call('GET', '/v1/nothing', { as: workspace.service }), 'route_not_found')
  const reply = await call('PATCH', '/v1/tenants', { as: workspace.operator, body: {} })
  isProblem(reply, 'method_not_allowed')
  expect(reply.status).toBe(405)
  expect(reply.headers.get('allow')).toBe('POST, GET, HEAD')
})

describe('bodies', () => {
  const post = (body: string, headers: Record<string, string> = {}) =>
    call('POST', DOCUMENTS, { as: workspace.service, body, headers })

  test.each([
    ['malformed JSON', '{"a":', 'body_invalid', 400],
    ['two values', '{} {}', 'body_invalid', 400],
    ['__proto__ member', '{"__proto__":{"admin":true}}', 'body_invalid', 400],
    ['array at the root', '[1]', 'validation_failed', 400],
    ['text at the root', '"x"', 'validation_failed', 400],
    ['null', 'null', 'validation_failed', 400],
    ['reserved member id', '{"id":"mine"}', 'validation_failed', 400],
    ['reserved name', '{"_version":7}', 'validation_failed', 400],
    ['NUL in a value', '{"a":"x\\u0000y"}', 'string_nul', 400],
    ['NUL in a name', '{"a\\u0000":1}', 'string_nul', 400],
    ['empty name', '{"a":{"":1}}', 'validation_failed', 400],
    ['name of 202 bytes', JSON.stringify({ a: { ['é'.repeat(101)]: 1 } }), 'validation_failed', 400],
    ['NUL and half a surrogate pair', '{"a":["\\u0000","\\ud800"]}', 'validation_failed', 400],
    ['name twice', '{"a":1,"a":2}', 'body_invalid', 400],
    ['lone surrogate', '{"a":"\\ud800"}', 'value_invalid', 400],
    ['unsafe integer', '{"a":9007199254740993}', 'number_unsafe', 400],
    ['40 levels', `${'{"a":'.repeat(40)}1${'}'.repeat(40)}`, 'validation_failed', 400],
    ['100,000 levels', `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`, 'validation_failed', 400],
    [
      '1,001 keys',
      JSON.stringify(Object.fromEntries(Array.from({ length: 1_001 }, (_, n) => [`k${n}`, n]))),
      'validation_failed',
      400,
    ],
    ['300 KiB', JSON.stringify({ a: 'x'.repeat(300_000) }), 'body_too_large', 413],
    ['2 MiB', JSON.stringify({ a: 'x'.repeat(2_000_000) }), 'body_too_large', 413],
  ])('body: %s: %s', async (_name, body, code, status) => {
    const reply = await post(body)
    isProblem(reply, code)
    expect(reply.status).toBe(status)
  })

  test('body: larger than its route takes: names the limit of that route alone', async () => {
    const body = JSON.stringify({ input: 'x'.repeat(5_000_000) })
    const flow = await call('POST', '/v1/flows/nosuch/executions', { as: workspace.service, body })
    expect([flow.status, flow.body.detail]).toEqual([
      413,
      'The body of this request has at most 4456448 bytes.',
    ])
    expect((await post(body)).body.detail).toBe('The body of this request has at most 1048576 bytes.')
  })

  test('body: another content type: 415', async () => {
    isProblem(
      await post('a=1', { 'content-type': 'application/x-www-form-urlencoded' }),
      'media_type_unsupported',
    )
    isProblem(await post('a: 1', { 'content-type': 'application/yaml' }), 'media_type_unsupported')
  })

  test('body: DELETE with a JSON type and no body: accepted', async () => {
    const { body } = await post('{}')
    const headers = { 'content-type': 'application/json' }
    expect((await call('DELETE', `${DOCUMENTS}/${body.id}`, { as: workspace.service, headers })).status).toBe(
      200,
    )
  })

  test('administrative body: several errors: all at once, with pointers', async () => {
    const reply = await call('POST', '/v1/tenants', {
      as: workspace.operator,
      body: { slug: 'UPPER', colour: 1 },
    })
    isProblem(reply, 'validation_failed')
    expect(reply.body.errors.map(({ pointer }: { pointer: string }) => pointer).sort()).toEqual([
      '/colour',
      '/name',
      '/slug',
    ])
  })

  test('body: field that belongs in the path: validation_failed', async () => {
    const body = { ws: workspace.workspaceId, source: 'x' }
    isProblem(
      await call('POST', `${workspace.flows}/validate`, { as: workspace.operator, body }),
      'validation_failed',
    )
  })
})

describe('query', () => {
  test.each([
    ['?page[size]=0', 'validation_failed'],
    ['?page[size]=201', 'validation_failed'],
    ['?page[size]=ten', 'validation_failed'],
    ['?page[size]=1&page[size]=2', 'validation_failed'],
    ['?page[after]=rubbish', 'cursor_invalid'],
    ['?page[after]=c1_AA', 'cursor_invalid'],
    ['?status=open', 'filter_operator_missing'],
    ['?limit=3', 'unknown_parameter'],
    ['?apikey=svc_service_x', 'service_key_in_query'],
  ])('query: %s: %s', async (query, code) => {
    isProblem(await call('GET', `${DOCUMENTS}${query}`, { as: workspace.service }), code)
  })
})

test.each(['%00', '..%2f..', 'a%20b', '%F0%9F%98%80', 'x'.repeat(64), "';drop table documents;--"])(
  'collection name: %s: refused',
  async (name) => {
    const reply = await call('GET', `/v1/collections/${name}/documents`, { as: workspace.service })
    expect(reply.status).toBeGreaterThanOrEqual(400)
    expect(reply.status).toBeLessThan(500)
  },
)

test.each(['%00', '1', 'null', `${'0'.repeat(8)}-0000-0000-0000-${'0'.repeat(12)}`, 'x'.repeat(300)])(
  'document id: %s: not found or invalid',
  async (id) => {
    const reply = await call('GET', `${DOCUMENTS}/${id}`, { as: workspace.service })
    expect([400, 404]).toContain(reply.status)
  },
)

describe('credentials', () => {
  const read = (as: Record<string, string>) => call('GET', DOCUMENTS, { as })
  const key = () => workspace.service['apikey'] ?? ''

  test('API key: four presentations: accepted', async () => {
    for (const as of [
      { apikey: key() },
      { 'x-api-key': key() },
      { authorization: `ApiKey ${key()}` },
      { authorization: `Bearer ${key()}` },
    ]) {
      expect((await read(as)).status).toBe(200)
    }
    expect((await read({ apikey: key(), 'x-api-key': key() })).status).toBe(200)
  })

  test('API key: two different ones: refused as contradictory', async () => {
    isProblem(
      await read({ apikey: key(), 'x-api-key': workspace.anon['apikey'] ?? '' }),
      'credentials_conflict',
    )
  })

  test('API key: one letter changed: refused', async () => {
    const text = key()
    const changed = `${text.slice(0, 20)}${text[20] === 'A' ? 'B' : 'A'}${text.slice(21)}`
    isProblem(await read({ apikey: changed }), 'api_key_invalid')
  })

  test('API key: revoked: refused at once; expired: refused on time', async () => {
    const { operator: as, workspaceId: workspace_id } = workspace
    const made = await call('POST', '/v1/api-keys', {
      as,
      body: { workspace_id, kind: 'service', name: 'x' },
    })
    expect((await read({ apikey: made.body.key })).status).toBe(200)
    expect((await call('DELETE', `/v1/api-keys/${made.body.id}`, { as })).body.status).toBe('revoked')
    isProblem(await read({ apikey: made.body.key }), 'api_key_revoked')
    const soon = new Date(Date.now() + 700).toISOString()
    const body = { workspace_id, kind: 'service', name: 'x', expires_at: soon }
    const short = await call('POST', '/v1/api-keys', { as, body })
    expect((await read({ apikey: short.body.key })).status).toBe(200)
    await new Promise((done) => setTimeout(done, 800))
    isProblem(await read({ apikey: short.body.key }), 'api_key_expired')
  })

  test('API key: created: shown once, its text is stored nowhere', async () => {
    const { operator: as, workspaceId: workspace_id } = workspace
    const made = await call('POST', '/v1/api-keys', { as, body: { workspace_id, kind: 'anon', name: 'x' } })
    const list = await call('GET', `/v1/api-keys?workspace_id=${workspace_id}`, { as })
    expect(list.body.data.map(({ id }: { id: string }) => id)).toContain(made.body.id)
    expect(JSON.stringify(list.body)).not.toContain(made.body.key)
  })
})

test('issuer: routes: tokens and public keys only', async () => {
  // One key, or more during a rotation; no private part.
  const { keys } = (await call('GET', '/auth/jwks')).body
  expect(keys.length).toBeGreaterThan(0)
  for (const key of keys)
    expect(Object.keys(key).sort()).toEqual(['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y'])
  for (const path of [
    '/auth/auth',
    '/auth/me',
    '/auth/session/end',
    '/auth/request',
    '/auth/../v1/tenants',
  ]) {
    expect((await call('GET', path)).headers.get('content-type')).toContain('problem+json')
  }
})

test('HTTP method: not supported: 4xx', async () => {
  for (const method of ['QUERY', 'PROPFIND', 'TRACE']) {
    const { hostname, port } = new URL(inject('tenon').url)
    const status = await new Promise((resolve) => {
      const socket = connect(Number(port), hostname, () =>
        socket.write(`${method} ${DOCUMENTS} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`),
      )
      socket.once('data', (chunk) => resolve(Number(String(chunk).split(' ')[1])))
    })
    expect(status, method).toBeGreaterThanOrEqual(400)
    expect(status, method).toBeLessThan(500)
  }
})

test('refused request: client keeps sending: gets its reply, is disconnected', async () => {
  const { hostname, port } = new URL(inject('tenon').url)
  const socket = connect({ host: hostname, port: Number(port) })
  // An error while sending after the disconnection is no failure of the test.
  const ended = new Promise((done) => socket.once('close', done).on('error', done))
  let answer = ''
  socket.on('data', (chunk) => {
    answer += String(chunk)
  })
  socket.write(
    'POST /v1/collections/notes/documents HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n',
  )
  const keepSending = setInterval(() => socket.write(' '), 50)
  const elapsedMs = stopwatch()
  try {
    await ended
  } finally {
    clearInterval(keepSending)
    socket.destroy()
  }
  expect(answer).toMatch(/^HTTP\/1.1 401 /)
  expect(elapsedMs()).toBeLessThan(6 * API_LIMITS.drainMs)
})

test('X-Request-Id: harmless: kept; otherwise: replaced', async () => {
  const send = async (id: string) =>
    (await call('GET', '/healthz', { headers: { 'x-request-id': id } })).headers.get('x-request-id')
  expect(await send('abc-123')).toBe('abc-123')
  expect(await send('a b')).toMatch(/^req_/)
  expect(await send('x'.repeat(200))).toMatch(/^req_/)
})

test.each([
  ['GET / HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n', 400],
  [`GET /healthz HTTP/1.1\r\nhost: x\r\nx-big: ${'a'.repeat(20_000)}\r\n\r\n`, 431],
  ['\u0016\u0003\u0001', 400],
])('not HTTP (%#): a problem as well', async (text, status) => {
  const { port } = new URL(inject('tenon').url)
  const answer = await new Promise<string>((resolve, reject) => {
    const socket = connect(Number(port), '127.0.0.1', () => socket.write(text))
    let seen = ''
    socket.on('data', (chunk) => {
      seen += chunk
    })
    socket.on('close', () => resolve(seen))
    socket.on('error', reject)
  })
  expect(answer).toContain(`HTTP/1.1 ${status}`)
  expect(answer).toContain('"request_id":"req_')
})
