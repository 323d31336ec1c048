/** Bad and hostile credentials: each has its problem document, none gets to a store, none stands in a log. */

import { createHash, createHmac, randomBytes } from 'node:crypto'
import { exportJWK, generateKeyPair } from 'jose'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { makeKey } from '../../src/access/authentication/credentials.ts'
import { type RawHeaders, type RawReply, sendRaw } from '../support/clients/raw-http.ts'
import { aRoom, type Caller, call, type Room, tokenOf } from '../support/fixtures/tenants.ts'
import { type CountedNode, countedNode } from '../support/stack/counted-api.ts'
import { gatewayHeaders, identityHeaders } from '../support/stack/gateway.ts'

let node: CountedNode
let url: string
let room: Room
let other: Room
beforeAll(async () => {
  ;[node, room, other] = await Promise.all([countedNode(), aRoom(), aRoom()])
  url = await node.app.listen({ port: 0, host: '127.0.0.1' })
  // The issuer's key is read once.
  expect((await ask(await tokenOf(claims()))).status).toBe(200)
})
afterAll(() => node?.close())

const claims = (more: object = {}) => ({
  roles: ['service'],
  tenant_id: room.tenantId,
  workspace_id: room.workspaceId,
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

/** What a request costs the stores. */
async function costOf(work: () => Promise<unknown>) {
  // What is counted in the background is written now, and not again for a while.
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

/** Refused on every route, at no cost but what is said. */
async function expectRefused(headers: RawHeaders, code: string, cost = NOTHING): Promise<void> {
  for (const [method, path] of ROUTES) {
    let answer: RawReply | undefined
    const spent = await costOf(async () => {
      answer = await ask(headers, path, method)
    })
    if (answer !== undefined) expectProblem(answer, code)
    expect([method, path, spent]).toEqual([method, path, cost])
  }
}

const bearer = (head: object, payload: object, sign: (input: string) => string): Caller => {
  const input = [head, payload]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.')
  return { authorization: `Bearer ${input}.${sign(input)}` }
}

const now = () => Math.floor(Date.now() / 1_000)
const whole = () => {
  const { url: issuer } = inject('tenon')
  return { ...claims(), sub: 'eve', iss: `${issuer}/auth`, aud: `${issuer}/v1`, iat: now(), exp: now() + 600 }
}

describe('tokens', () => {
  test('alg none, in any spelling', async () => {
    for (const alg of ['none', 'None', 'NONE', 'nOnE', ''])
      await expectRefused(
        bearer({ alg, typ: 'at+jwt' }, whole(), () => ''),
        'token_invalid',
      )
  })

  test('HS256 signed with the public key, in whichever form', async () => {
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
      const signed = bearer(head, whole(), (input) =>
        createHmac('sha256', form).update(input).digest('base64url'),
      )
      await expectRefused(signed, 'token_invalid')
    }
  })

  test('a signature that was cut, changed, or belongs to other claims', async () => {
    const text = (await tokenOf(claims()))['authorization'] ?? ''
    const [head, , signature = ''] = text.split('.')
    const more = Buffer.from(JSON.stringify({ ...whole(), roles: ['operator'] })).toString('base64url')
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

  test('a key that comes with the token, or one that nobody knows: none is fetched', async () => {
    const { privateKey } = await generateKeyPair('ES256', { extractable: true })
    const jwk = await exportJWK(privateKey)
    for (const kid of [undefined, 'unknown', '../../etc/passwd', "' or 1=1 --"])
      await expectRefused(await tokenOf(claims(), { jwk: { ...jwk, ...(kid && { kid }) } }), 'token_invalid')
    const flood = Array.from({ length: 50 }, async () =>
      ask(await tokenOf(claims(), { jwk: { ...jwk, kid: randomBytes(8).toString('hex') } })),
    )
    expect(await costOf(() => Promise.all(flood))).toEqual(NOTHING)
  })

  test('wrong aud, another issuer, another typ', async () => {
    const { url: issuer } = inject('tenon')
    for (const overrides of [
      { audience: 'https://elsewhere.test' },
      { audience: `${issuer}/v1/mcp/workspaces/${room.workspaceId}/servers/x/mcp` },
      { audience: `${issuer}/v1/` },
      { audience: null },
      { issuer: 'https://evil.test/auth' },
      { issuer: `${issuer}/auth/` },
      { issuer: '' },
      { typ: 'JWT' },
      { typ: 'id+jwt' },
    ])
      await expectRefused(await tokenOf(claims(), overrides), 'token_invalid')
  })

  test('no exp, no iat, no sub, future nbf, an exp that has passed', async () => {
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

  test('near misses of a tenant: ten_1 against ten_10', async () => {
    const { tenantId, workspaceId } = room
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
    // Of the right form: whether it is there has to be asked, once.
    const missing = await tokenOf(claims({ tenant_id: other.tenantId }))
    expect(await costOf(() => ask(missing))).toEqual({ ...NOTHING, trips: 1 })
    await expectRefused(missing, 'token_invalid')
  })
})

describe('keys', () => {
  const text = () => room.service['apikey'] ?? ''

  test('what has not the form of a key is not even looked up', async () => {
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
      // What is kept of it is no key (origin T54).
      digest,
      `svc_service_${digest}00000000`,
      "svc_service_' or '1'='1",
      'x'.repeat(8_000),
    ])
      await expectRefused({ apikey }, 'api_key_invalid')
  })

  test('one that could be a key is looked up once, and no more is asked', async () => {
    const apikey = makeKey('service')
    await expectRefused({ apikey }, 'api_key_invalid', { ...NOTHING, trips: 1 })
  })

  test('schemes are of any case; one without a value, and others, are refused', async () => {
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
    // A gateway's word does not stand in for it either.
    await expectRefused({ authorization: '', ...gatewayHeaders(room) }, 'token_invalid')
    await expectRefused({ apikey: '', ...gatewayHeaders(room) }, 'api_key_invalid')
  })

  test('a header twice, or joined on the way: 400', async () => {
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
      { apikey: key, 'x-api-key': room.anon['apikey'] ?? '' },
    ])
      await expectRefused(headers, 'credentials_conflict')
  })

  test('in the URL: nowhere but where streams begin, and there an anon key alone', async () => {
    const [anon = '', service] = [room.anon['apikey'], text()]
    const events = '/v1/events/subscribe?topic=x&'
    const wrong = [
      ...ROUTES.filter(([, path]) => !path.includes('events/subscribe')).map(
        ([method, path]) => [method, `${path}?apikey=${anon}`, 'service_key_in_query'] as const,
      ),
      ['GET', `${events}apikey=${service}`, 'service_key_in_query'],
      ['GET', `${events}apikey=`, 'service_key_in_query'],
      ['GET', `${events}apikey=${anon}&apikey=${service}`, 'service_key_in_query'],
      ['GET', `${events}apikey=${anon}&apikey=${anon}`, 'credentials_conflict'],
      ['GET', `${events}apikey=${anon.slice(0, -1)}`, 'api_key_invalid'],
      ['POST', `/v1/mcp/platform/mcp?apikey=${anon}`, 'service_key_in_query'],
    ] as const
    const spent = await costOf(async () => {
      for (const [method, path, code] of wrong) expectProblem(await ask({}, path, method), code)
    })
    expect(spent).toEqual(NOTHING)
  })
})

describe('identity headers without the secret', () => {
  test('are nobody, and nothing is said of a secret', async () => {
    const right = gatewayHeaders(room)['x-gateway-secret'] ?? ''
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
        ...identityHeaders(room),
        ...(secret !== undefined && { 'x-gateway-secret': secret }),
      }
      await expectRefused(headers, 'credentials_missing')
    }
    const odd = { 'X-TENANT-ID': room.tenantId, 'X-Workspace-Id': [room.workspaceId, room.workspaceId] }
    await expectRefused(odd, 'credentials_missing')
  })

  test('a node without GATEWAY_SECRET believes nobody', async () => {
    const deaf = await countedNode({ GATEWAY_SECRET: '' })
    try {
      for (const secret of [gatewayHeaders(room)['x-gateway-secret'] ?? '', '', 'undefined']) {
        const headers = { ...identityHeaders(room), 'x-gateway-secret': secret }
        const reply = await deaf.app.inject({ url: '/v1/me', headers })
        expect([reply.statusCode, reply.json().code]).toEqual([401, 'credentials_missing'])
      }
    } finally {
      await deaf.close()
    }
  })
})

test('100 KB of headers are 431, with a problem, before anything is read', async () => {
  const spent = await costOf(async () => {
    const reply = await ask({ ...room.service, 'x-big': 'a'.repeat(100_000) })
    expect([reply.status, reply.body.code]).toEqual([431, 'headers_too_large'])
    expect(reply.headers['content-type']).toContain('application/problem+json')
  })
  expect(spent).toEqual(NOTHING)
})

test('the wires see what is let in', async () => {
  const { trips } = await costOf(() => ask(room.service))
  expect(trips).toBeGreaterThan(0)
  const body = { topic: 'x', data: 1 }
  const publish = { method: 'POST', url: '/v1/events/publish', headers: room.service, payload: body } as const
  const spent = await costOf(async () => expect((await node.app.inject(publish)).statusCode).toBe(202))
  expect(spent.streams).toBe(1)
})

test('no credential stands in the log, at the finest level', async () => {
  const token = await tokenOf(claims())
  const secrets = [
    room.service['apikey'],
    room.anon['apikey'],
    gatewayHeaders(room)['x-gateway-secret'],
    token['authorization']?.slice(7),
  ]
  await ask({ ...room.service, ...token, ...gatewayHeaders(room) })
  await ask(gatewayHeaders(room))
  await ask(gatewayHeaders(room), '/v1/nothing')
  await ask({ ...gatewayHeaders(room), 'x-pg-role': 'no' }, '/v1/me')
  await ask(gatewayHeaders(room), '/auth/token', 'POST')
  await ask({}, `${DOCUMENTS}?apikey=${room.anon['apikey']}`)
  node.platform.log.info(
    { headers: { ...room.service, ...token, ...gatewayHeaders(room) } },
    'what a careless line would say',
  )
  const text = node.lines.join('')
  expect(text).toContain('request')
  expect(secrets.filter((secret) => secret === undefined || text.includes(secret))).toEqual([])
})
