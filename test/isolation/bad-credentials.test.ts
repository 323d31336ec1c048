/** Invalid and hostile credentials: each gets its problem, reaches no store, and appears in no log. */

import { createHash, createHmac, randomBytes } from 'node:crypto'
import { exportJWK, generateKeyPair } from 'jose'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { makeKey } from '../../src/access/authentication/credentials.ts'
import { type RawHeaders, type RawReply, sendRaw } from '../support/clients/raw-http.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  tokenOf,
} from '../support/fixtures/tenants.ts'
import { type CountedApi, startCountedApi } from '../support/stack/counted-api.ts'
import { gatewayHeaders, identityHeaders } from '../support/stack/gateway.ts'

let node: CountedApi
let url: string
let workspace: TestWorkspace
let other: TestWorkspace
beforeAll(async () => {
  ;[node, workspace, other] = await Promise.all([
    startCountedApi(),
    createTestWorkspace(),
    createTestWorkspace(),
  ])
  url = await node.app.listen({ port: 0, host: '127.0.0.1' })
  // The issuer's signing key is read once and then cached.
  expect((await ask(await tokenOf(claims()))).status).toBe(200)
})
afterAll(() => node?.close())

const claims = (more: object = {}) => ({
  roles: ['service'],
  tenant_id: workspace.tenantId,
  workspace_id: workspace.workspaceId,
  ...more,
})

const DOCUMENTS = '/v1/collections/todos/documents'
const ROUTES = [
  ['GET', DOCUMENTS],
  ['POST', DOCUMENTS],
  ['GET', '/v1/events/subscribe?topic=x'],
  ['PUT', '/v1/objects/main/a'],
  ['POST', '/v1/events/publish'],
  ['GET', '/v1/tenants'],
  ['GET', '/v1/me'],
] as const

const ask = (headers: RawHeaders, path: string = DOCUMENTS, method = 'GET') =>
  sendRaw(`${url}${path}`, headers, method)

/** How many requests `work` causes at PostgreSQL, Valkey and the object store. */
async function countStoreRequests(work: () => Promise<unknown>) {
  // Writes background counters now, so that they cause no round trip for a while.
  await node.platform.meters.flush()
  const before = { ...node.seen }
  await work()
  const { trips, streams, objects } = node.seen
  return { trips: trips - before.trips, streams: streams - before.streams, objects: objects - before.objects }
}

const NOTHING = { trips: 0, streams: 0, objects: 0 }

function expectProblem({ status, headers, body }: RawReply, code: string): void {
  expect([status, body.code]).toEqual([code === 'credentials_conflict' ? 400 : 401, code])
  expect(headers['content-type']).toContain('application/problem+json')
  expect(body['request_id']).toBe(headers['x-request-id'])
  expect(JSON.stringify(body)).not.toMatch(/secret|jose|JWS|JWT[A-Z]|select |\bat \w+ \(|tenon_/)
  if (status === 401) expect(headers['www-authenticate']).toMatch(/Bearer|ApiKey/)
}

/** Expects the refusal on every route, with the given requests to stores. */
async function expectRefused(headers: RawHeaders, code: string, cost = NOTHING): Promise<void> {
  for (const [method, path] of ROUTES) {
    let answer: RawReply | undefined
    const storeRequests = await countStoreRequests(async () => {
      answer = await ask(headers, path, method)
    })
    if (answer !== undefined) expectProblem(answer, code)
    expect([method, path, storeRequests]).toEqual([method, path, cost])
  }
}

const bearer = (head: object, payload: object, sign: (input: string) => string): Caller => {
  const input = [head, payload]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.')
  return { authorization: `Bearer ${input}.${sign(input)}` }
}

const now = () => Math.floor(Date.now() / 1_000)
const validClaims = () => {
  const { url: issuer } = inject('tenon')
  return { ...claims(), sub: 'eve', iss: `${issuer}/auth`, aud: `${issuer}/v1`, iat: now(), exp: now() + 600 }
}

describe('access token', () => {
  test('alg none in any spelling: token_invalid', async () => {
    for (const alg of ['none', 'None', 'NONE', 'nOnE', ''])
      await expectRefused(
        bearer({ alg, typ: 'at+jwt' }, validClaims(), () => ''),
        'token_invalid',
      )
  })

  test('HS256 signed with the public key in any form: token_invalid', async () => {
    const { keys } = (await call('GET', '/auth/jwks')).body
    const [jwk] = keys
    const forms = [
      JSON.stringify(jwk),
      JSON.stringify({ keys }),
      jwk.x,
      `${jwk.x}${jwk.y}`,
      Buffer.from(jwk.x, 'base64url'),
    ]
    for (const form of forms) {
      const head = { alg: 'HS256', typ: 'at+jwt', kid: jwk.kid }
      const signed = bearer(head, validClaims(), (input) =>
        createHmac('sha256', form).update(input).digest('base64url'),
      )
      await expectRefused(signed, 'token_invalid')
    }
  })

  test('signature cut, changed or taken from other claims: token_invalid', async () => {
    const text = (await tokenOf(claims()))['authorization'] ?? ''
    const [head, , signature = ''] = text.split('.')
    const more = Buffer.from(JSON.stringify({ ...validClaims(), roles: ['operator'] })).toString('base64url')
    const flipped = `${signature.slice(0, 10)}${signature[10] === 'A' ? 'B' : 'A'}${signature.slice(11)}`
    for (const authorization of [
      `${head}.${more}.${signature}`,
      text.slice(0, -4),
      text.replace(signature, flipped),
      text.replace(signature, Buffer.alloc(64).toString('base64url')),
      `${text}.`,
    ])
      await expectRefused({ authorization }, 'token_invalid')
  })

  test('key embedded in the token or unknown key id: token_invalid, no key is fetched', async () => {
    const { privateKey } = await generateKeyPair('ES256', { extractable: true })
    const jwk = await exportJWK(privateKey)
    for (const kid of [undefined, 'unknown', '../../etc/passwd', "' or 1=1 --"])
      await expectRefused(await tokenOf(claims(), { jwk: { ...jwk, ...(kid && { kid }) } }), 'token_invalid')
    const flood = Array.from({ length: 50 }, async () =>
      ask(await tokenOf(claims(), { jwk: { ...jwk, kid: randomBytes(8).toString('hex') } })),
    )
    expect(await countStoreRequests(() => Promise.all(flood))).toEqual(NOTHING)
  })

  test('wrong audience, issuer or type: token_invalid', async () => {
    const { url: issuer } = inject('tenon')
    for (const overrides of [
      { audience: 'https://elsewhere.test' },
      { audience: `${issuer}/v1/mcp/workspaces/${workspace.workspaceId}/servers/x/mcp` },
      { audience: `${issuer}/v1/` },
      { audience: null },
      { issuer: 'https://evil.test/auth' },
      { issuer: `${issuer}/auth/` },
      { issuer: `${issuer}/auth.evil.test` },
      { issuer: '' },
      { typ: 'JWT' },
      { typ: 'id+jwt' },
    ])
      await expectRefused(await tokenOf(claims(), overrides), 'token_invalid')
  })

  test('missing or invalid exp, iat, sub or nbf: token_invalid; exp passed: token_expired', async () => {
    for (const wrong of [
      { exp: undefined },
      { iat: undefined },
      { sub: undefined },
      { nbf: now() + 600 },
      { exp: 'tomorrow' },
    ])
      await expectRefused(await tokenOf(claims(wrong)), 'token_invalid')
    await expectRefused(await tokenOf(claims({ exp: now() - 60 })), 'token_expired')
  })

  test('tenant or workspace id that nearly matches: token_invalid', async () => {
    const { tenantId, workspaceId } = workspace
    for (const tenant_id of [
      'ten_1',
      tenantId.slice(0, -1),
      `${tenantId}0`,
      ` ${tenantId}`,
      tenantId.toUpperCase(),
    ])
      await expectRefused(await tokenOf(claims({ tenant_id })), 'token_invalid')
    for (const workspace_id of ['ws_1', workspaceId.slice(0, -1), `${workspaceId}0`, `${workspaceId},*`])
      await expectRefused(await tokenOf(claims({ workspace_id })), 'token_invalid')
    // Of valid form: one query finds out whether it exists.
    const missing = await tokenOf(claims({ tenant_id: other.tenantId }))
    expect(await countStoreRequests(() => ask(missing))).toEqual({ ...NOTHING, trips: 1 })
    await expectRefused(missing, 'token_invalid')
  })
})

describe('API key', () => {
  const text = () => workspace.service['apikey'] ?? ''

  test('malformed: api_key_invalid without a lookup', async () => {
    const key = text()
    const digest = createHash('sha256').update(key).digest('base64url')
    for (const apikey of [
      '',
      'null',
      'svc_',
      key.slice(0, -1),
      `${key}0`,
      key.toUpperCase(),
      key.replace('service', 'anon'),
      key.replace('svc_service', 'svc_operator'),
      `${key.slice(0, 20)}${key[20] === 'A' ? 'B' : 'A'}${key.slice(21)}`,
      // The stored digest of a key is no key (origin T54).
      digest,
      `svc_service_${digest}00000000`,
      "svc_service_' or '1'='1",
      'x'.repeat(8_000),
    ])
      await expectRefused({ apikey }, 'api_key_invalid')
  })

  test('well-formed but unknown: api_key_invalid after one lookup', async () => {
    const apikey = makeKey('service')
    await expectRefused({ apikey }, 'api_key_invalid', { ...NOTHING, trips: 1 })
  })

  test('authorization scheme in any case: accepted; without a value or of another kind: token_invalid', async () => {
    for (const authorization of [`APIKEY ${text()}`, `apikey  ${text()}`, `bEaReR ${text()}`])
      expect((await ask({ authorization })).status).toBe(200)
    for (const authorization of [
      '',
      'Bearer',
      'ApiKey',
      text(),
      `Basic ${btoa(`a:${text()}`)}`,
      `Digest ${text()}`,
      'Negotiate x',
    ])
      await expectRefused({ authorization }, 'token_invalid')
    // Gateway headers do not replace an invalid credential either.
    await expectRefused({ authorization: '', ...gatewayHeaders(workspace) }, 'token_invalid')
    await expectRefused({ apikey: '', ...gatewayHeaders(workspace) }, 'api_key_invalid')
  })

  test('header sent twice or joined: credentials_conflict', async () => {
    const key = text()
    const token = (await tokenOf(claims()))['authorization'] ?? ''
    for (const headers of [
      { authorization: [token, token] },
      { authorization: [token, 'Basic x'] },
      { authorization: ['', token] },
      { Authorization: [`ApiKey ${key}`, token] },
      { authorization: `${token}, ${token}` },
      { authorization: `ApiKey ${key}, ApiKey ${key}` },
      { apikey: [key, key] },
      { 'x-api-key': `${key},${key}` },
      { apikey: key, 'x-api-key': workspace.anon['apikey'] ?? '' },
    ])
      await expectRefused(headers, 'credentials_conflict')
  })

  test('in the URL: accepted only for an anon key when subscribing to events', async () => {
    const [anon = '', service] = [workspace.anon['apikey'], text()]
    const events = '/v1/events/subscribe?topic=x&'
    const wrong = [
      ...ROUTES.filter(([, path]) => !path.includes('events/subscribe')).map(
        ([method, path]) => [method, `${path}?apikey=${anon}`, 'anon_key_in_query'] as const,
      ),
      ['GET', `${events}apikey=${service}`, 'service_key_in_query'],
      ['GET', `${events}apikey=`, 'service_key_in_query'],
      ['GET', `${events}apikey=${anon}&apikey=${service}`, 'service_key_in_query'],
      ['GET', `${events}apikey=${anon}&apikey=${anon}`, 'credentials_conflict'],
      ['GET', `${events}apikey=${anon.slice(0, -1)}`, 'api_key_invalid'],
      ['POST', `/v1/mcp/platform/mcp?apikey=${anon}`, 'anon_key_in_query'],
    ] as const
    const storeRequests = await countStoreRequests(async () => {
      for (const [method, path, code] of wrong) expectProblem(await ask({}, path, method), code)
    })
    expect(storeRequests).toEqual(NOTHING)
  })
})

test('link that is not signed: link_invalid, whatever else is sent, and no store is reached', async () => {
  const { tenantId, workspaceId } = workspace
  const wire = [tenantId, workspaceId, 'GET', 9e15, 'key_x', null, {}]
  const claimed = Buffer.from(JSON.stringify(wire)).toString('base64url')
  const storeRequests = await countStoreRequests(async () => {
    for (const link of [
      '',
      'x',
      'x.y.z',
      `${claimed}.`,
      `${claimed}.${'A'.repeat(43)}`,
      `${claimed}.x&link=y`,
    ])
      for (const method of ['GET', 'PUT', 'POST']) {
        const { status, body } = await ask(workspace.service, `/v1/objects/main/a?link=${link}`, method)
        expect([link, method, status, body.code]).toEqual([link, method, 403, 'link_invalid'])
      }
  })
  expect(storeRequests).toEqual(NOTHING)
})

describe('gateway identity headers without the secret', () => {
  test('any wrong secret: credentials_missing', async () => {
    const right = gatewayHeaders(workspace)['x-gateway-secret'] ?? ''
    for (const secret of [
      undefined,
      '',
      ' ',
      'guess',
      right.slice(1),
      `${right}0`,
      right.toUpperCase(),
      [right, right],
    ]) {
      const headers = {
        ...identityHeaders(workspace),
        ...(secret !== undefined && { 'x-gateway-secret': secret }),
      }
      await expectRefused(headers, 'credentials_missing')
    }
    const doubled = {
      'X-TENANT-ID': workspace.tenantId,
      'X-Workspace-Id': [workspace.workspaceId, workspace.workspaceId],
    }
    await expectRefused(doubled, 'credentials_missing')
  })

  test('node without GATEWAY_SECRET: credentials_missing for any secret', async () => {
    const nodeWithoutSecret = await startCountedApi({ GATEWAY_SECRET: '' })
    try {
      for (const secret of [gatewayHeaders(workspace)['x-gateway-secret'] ?? '', '', 'undefined']) {
        const headers = { ...identityHeaders(workspace), 'x-gateway-secret': secret }
        const reply = await nodeWithoutSecret.app.inject({ url: '/v1/me', headers })
        expect([reply.statusCode, reply.json().code]).toEqual([401, 'credentials_missing'])
      }
    } finally {
      await nodeWithoutSecret.close()
    }
  })
})

test('100 KB of headers: 431 with a problem, no store is reached', async () => {
  const storeRequests = await countStoreRequests(async () => {
    const reply = await ask({ ...workspace.service, 'x-big': 'a'.repeat(100_000) })
    expect([reply.status, reply.body.code]).toEqual([431, 'headers_too_large'])
    expect(reply.headers['content-type']).toContain('application/problem+json')
  })
  expect(storeRequests).toEqual(NOTHING)
})

test('counters of store requests: they count accepted requests', async () => {
  const { trips } = await countStoreRequests(() => ask(workspace.service))
  expect(trips).toBeGreaterThan(0)
  const body = { topic: 'x', data: 1 }
  const publish = {
    method: 'POST',
    url: '/v1/events/publish',
    headers: workspace.service,
    payload: body,
  } as const
  const storeRequests = await countStoreRequests(async () =>
    expect((await node.app.inject(publish)).statusCode).toBe(202),
  )
  // A script that the server does not know yet is sent twice.
  expect([1, 2]).toContain(storeRequests.streams)
})

test('log at its finest level: contains no credential', async () => {
  const token = await tokenOf(claims())
  const secrets = [
    workspace.service['apikey'],
    workspace.anon['apikey'],
    gatewayHeaders(workspace)['x-gateway-secret'],
    token['authorization']?.slice(7),
  ]
  await ask({ ...workspace.service, ...token, ...gatewayHeaders(workspace) })
  await ask(gatewayHeaders(workspace))
  await ask(gatewayHeaders(workspace), '/v1/nothing')
  await ask({ ...gatewayHeaders(workspace), 'x-pg-role': 'no' }, '/v1/me')
  await ask(gatewayHeaders(workspace), '/auth/token', 'POST')
  await ask({}, `${DOCUMENTS}?apikey=${workspace.anon['apikey']}`)
  node.platform.log.info(
    { headers: { ...workspace.service, ...token, ...gatewayHeaders(workspace) } },
    'what a careless line would say',
  )
  const text = node.lines.join('')
  expect(text).toContain('request')
  expect(secrets.filter((secret) => secret === undefined || text.includes(secret))).toEqual([])
})
