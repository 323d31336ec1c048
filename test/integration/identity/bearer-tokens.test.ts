/** Checks bearer tokens: required claims, every way to be invalid, and the rights they grant. */

import { createHmac, createPublicKey } from 'node:crypto'
import { generateKeyPair, type JWK, SignJWT } from 'jose'
import { beforeAll, describe, expect, test } from 'vitest'
import { sendRaw } from '../../support/clients/raw-http.ts'
import { tokenOf } from '../../support/fixtures/tenants.ts'
import { askToken, machine, makeMachine } from '../../support/fixtures/administrators.ts'
import {
  base,
  Caller,
  expectAlive,
  expectProblem,
  expectStatus,
  get,
  list,
  send,
  str,
  token,
} from '../../support/clients/rest-client.ts'
import { createTenantPair, expectIsolated, type World, word } from '../../support/fixtures/tenant-pair.ts'

const DOCUMENTS = '/v1/collections/notes/documents'
const ISSUER = `${base}/auth`

let world: World

beforeAll(async () => {
  world = await createTenantPair()
})

const inA = () => ({ tenant_id: world.a.tenant, workspace_id: world.a.workspace })
const now = () => Math.floor(Date.now() / 1000)
const b64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

async function publicKey(): Promise<JWK> {
  const [first] = list(await send('GET', '/auth/jwks'), 'keys')
  return first as JWK
}

const claims = (more: Record<string, unknown> = {}) => ({
  ...{ iss: ISSUER, aud: `${base}/v1`, sub: 'mallory', iat: now(), exp: now() + 300, roles: ['service'] },
  ...inA(),
  ...more,
})

async function forgedToken(
  header: Record<string, unknown>,
  sign: (input: string) => string | Promise<string>,
) {
  const input = `${b64({ typ: 'at+jwt', ...header })}.${b64(claims())}`
  return `${input}.${await sign(input)}`
}

async function tokenSignedWithPublicKey(): Promise<string> {
  const jwk = await publicKey()
  const pem = createPublicKey({ key: { ...jwk }, format: 'jwk' }).export({ type: 'spki', format: 'pem' })
  return forgedToken({ alg: 'HS256', kid: jwk.kid }, (input) =>
    createHmac('sha256', pem).update(input).digest('base64url'),
  )
}

async function ownKey(
  header: Record<string, unknown> = {},
  more: Record<string, unknown> = {},
): Promise<string> {
  const { privateKey } = await generateKeyPair('ES256')
  return new SignJWT(claims(more))
    .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: (await publicKey()).kid ?? '', ...header })
    .sign(privateKey)
}

const bare = ({ authorization = '' }: Readonly<Record<string, string>>) =>
  authorization.slice('Bearer '.length)
const good = async (more: Record<string, unknown> = {}) =>
  bare(await tokenOf({ ...inA(), roles: ['service'], ...more }))

async function tamperedToken(): Promise<string> {
  const [head, body = '', end] = (await good()).split('.')
  const payload = JSON.parse(Buffer.from(body, 'base64url').toString())
  return `${head}.${b64({ ...payload, tenant_id: world.b.tenant, workspace_id: world.b.workspace })}.${end}`
}

const wrong: [string, () => Promise<string>, string?][] = [
  ['three segments that are no token', async () => 'abc.def.ghi'],
  ['one word', async () => 'abc'],
  ['alg none', () => forgedToken({ alg: 'none' }, () => '')],
  ['alg None in another letter case', () => forgedToken({ alg: 'nOnE' }, () => '')],
  ['HS256 signed with the public key', tokenSignedWithPublicKey],
  ['foreign key under our kid', () => ownKey()],
  ['an unknown kid', () => ownKey({ kid: word() })],
  ['embedded key (jwk)', async () => ownKey({ jwk: await publicKey() })],
  ['own jku', () => ownKey({ jku: 'https://example.com/jwks.json', kid: word() })],
  ['claims changed after signing', tamperedToken],
  ['no exp', () => good({ exp: undefined })],
  ['no sub', () => good({ sub: undefined })],
  ['exp as text', () => good({ exp: 'tomorrow' })],
  ['exp in the past', () => good({ iat: now() - 900, exp: now() - 300 }), 'token_expired'],
  ['nbf in the future', () => good({ nbf: now() + 600 })],
  [
    'other audience',
    async () => bare(await tokenOf({ ...inA(), roles: ['service'] }, { audience: 'https://example.com' })),
  ],
  ['no audience', async () => bare(await tokenOf({ ...inA(), roles: ['service'] }, { audience: null }))],
  [
    'issuer that is not configured',
    async () => bare(await tokenOf({ ...inA(), roles: ['service'] }, { issuer: 'https://example.com' })),
  ],
  [
    'our issuer with a trailing slash',
    async () => bare(await tokenOf({ ...inA(), roles: ['service'] }, { issuer: `${ISSUER}/` })),
  ],
  [
    'issuer that is a prefix of ours',
    async () => bare(await tokenOf({ ...inA(), roles: ['service'] }, { issuer: `${ISSUER}.example.com` })),
  ],
  [
    'typ of an ID token',
    async () => bare(await tokenOf({ ...inA(), roles: ['service'] }, { typ: 'id+jwt' })),
  ],
]

describe('invalid tokens are 401, whatever else is sent (decisions §3)', () => {
  test('control: valid token: accepted', async () => {
    expectStatus(await new Caller({ authorization: `Bearer ${await good()}` }).get(DOCUMENTS), 200)
  })

  test.each(wrong)('token: %s: 401', async (_, make, code = 'token_invalid') => {
    const text = await make()
    const reply = await new Caller({ authorization: `Bearer ${text}` }).get(DOCUMENTS)
    expectProblem(reply, 401, code)
    const challenge = reply.headers.get('www-authenticate') ?? ''
    expect(challenge).toMatch(/Bearer/)
    expect(challenge).toMatch(/error="invalid_token"/)
    expect(reply.headers.get('cache-control')).toContain('no-store')
    if (text.length > 20) expect(reply.text).not.toContain(text)
  })

  test.each([
    ['Basic YTpi', 401],
    ['Bearer', 401],
    ['Bearer ', 401],
    ['Digest username="a"', 401],
    ['ApiKey', 401],
  ])('Authorization: %j: %i', async (authorization, status) => {
    expectProblem(await new Caller({ authorization }).get(DOCUMENTS), status)
  })

  test('Authorization: scheme in any letter case: accepted (RFC 9110 §11.1)', async () => {
    expectStatus(await new Caller({ authorization: `bearer ${await good()}` }).get(DOCUMENTS), 200)
    expectStatus(await new Caller({ authorization: `apikey ${world.a.serviceKey}` }).get(DOCUMENTS), 200)
  })

  test('Authorization: sent twice: problem', async () => {
    const headers = { authorization: [`Bearer ${await good()}`, `ApiKey ${world.a.serviceKey}`] }
    const reply = await sendRaw(base + DOCUMENTS, headers)
    expect(reply).toMatchObject({ status: 400, body: { code: 'credentials_conflict', status: 400 } })
  })

  test('Authorization: same value twice: problem', async () => {
    const text = `Bearer ${await good()}`
    expect(await sendRaw(base + DOCUMENTS, { authorization: [text, text] })).toMatchObject({ status: 400 })
  })

  test('header: 100 KB: 431 with a problem', async () => {
    const reply = await new Caller({ authorization: `Bearer ${'a'.repeat(100_000)}` }).get(DOCUMENTS)
    expect(reply.status).toBe(431)
    expect(reply.headers.get('content-type')).toMatch(/^application\/problem\+json/)
    expect(reply.body).toMatchObject({ status: 431, code: 'headers_too_large' })
    await expectAlive()
  })

  test('token: flood of unknown key ids: valid tokens are still accepted', async () => {
    const flood = await Promise.all(Array.from({ length: 60 }, async () => ownKey({ kid: word() })))
    const replies = await Promise.all(
      flood.map((text) => new Caller({ authorization: `Bearer ${text}` }).get(DOCUMENTS)),
    )
    for (const reply of replies) expectProblem(reply, 401, 'token_invalid')
    expectStatus(await new Caller({ authorization: `Bearer ${await good()}` }).get(DOCUMENTS), 200)
  })

  test('token: in the query: not read as a credential', async () => {
    for (const name of ['access_token', 'token', 'authorization']) {
      const text = await good()
      const reply = await new Caller({}).get(`${DOCUMENTS}?${name}=${text}`)
      expectStatus(reply, 400, 401)
      expect(reply.text).not.toContain(text)
    }
  })
})

describe('rights granted by claims', () => {
  const as = async (payload: Record<string, unknown>) =>
    new Caller(await tokenOf(payload), world.a.transcript)

  test('claims: tenant_id and workspace_id: data of that workspace (decisions §3 data_access)', async () => {
    const caller = await as({ ...inA(), roles: ['service'] })
    expectStatus(await caller.post(DOCUMENTS, { title: 'by token', mark: world.a.mark }), 201)
    const mine = await world.a.service.get(`${DOCUMENTS}?title=eq.by%20token`)
    expect(list(mine)).toHaveLength(1)
  })

  test.each([
    ['truncated id', (t: string) => t.slice(0, -1)],
    ['id with an extra letter', (t: string) => `${t}0`],
    ['ten_1', () => 'ten_1'],
    ['list of ids', (t: string) => [t]],
    ['SQL', () => "ten_1' or true --"],
  ])('claim tenant_id: %s: no access', async (_, bend) => {
    const caller = await as({ ...inA(), tenant_id: bend(world.a.tenant), roles: ['service'] })
    expectStatus(await caller.get(DOCUMENTS), 401, 403, 404)
  })

  test('claim workspace_id: of another tenant: no access', async () => {
    const caller = await as({
      tenant_id: world.a.tenant,
      workspace_id: world.b.workspace,
      roles: ['service'],
    })
    const reply = await caller.get('/v1/collections/keepsakes/documents')
    expect(reply.text).not.toContain(world.b.mark)
    if (reply.status === 200) expect(list(reply)).toEqual([])
  })

  test('claim roles: none: no administrative route', async () => {
    expectProblem(await (await as(inA())).get(`/v1/api-keys?workspace_id=${world.a.workspace}`), 403)
  })

  test.each(['superuser', 'tenon_owner', 'postgres', '__proto__'])(
    'claim roles: %s: not a role, no access',
    async (role) => {
      const caller = await as({ ...inA(), roles: [role], role })
      expectProblem(await caller.get('/v1/tenants'), 403)
      expectStatus(await caller.post(DOCUMENTS, { title: 'x' }), 201, 403)
    },
  )

  test('tenant admin: routes of the operator: refused', async () => {
    const caller = await machine(world, world.a, 'tenant_admin')
    expectProblem(await caller.post('/v1/tenants', { name: 'N', slug: `n-${word()}` }), 403)
    expectStatus(await caller.get(`/v1/tenants/${world.a.tenant}`), 200)
    expectProblem(await caller.get(`/v1/tenants/${world.b.tenant}`), 404, 'not_found')
    const seen = await caller.get('/v1/tenants')
    expect(list(seen).map((one) => str(one, 'id'))).toEqual([world.a.tenant])
  })

  test('tenant admin: creates workspaces: in the own tenant only (decisions §11)', async () => {
    const caller = await machine(world, world.a, 'tenant_admin')
    const sent = { name: 'W', slug: `w-${word()}`, bucket: null }
    const made = await caller.post('/v1/workspaces', sent, { prefer: 'wait=30' })
    expectStatus(made, 201)
    expect(get(made, 'tenant_id')).toBe(world.a.tenant)
    const foreign = await caller.post('/v1/workspaces', { ...sent, slug: word(), tenant_id: world.b.tenant })
    expectStatus(foreign, 400, 403, 404)
    expect(foreign.text).not.toContain(world.b.mark)
  })

  test('workspace admin: workspaces: sees its own only', async () => {
    const caller = await machine(world, world.a, 'workspace_admin')
    expectStatus(await caller.get(`/v1/workspaces/${world.a.workspace}`), 200)
    expectProblem(await caller.get(`/v1/workspaces/${world.b.workspace}`), 404, 'not_found')
    expect(list(await caller.get('/v1/workspaces')).map((one) => str(one, 'id'))).toEqual([world.a.workspace])
    expectProblem(await caller.post('/v1/workspaces', { name: 'W', slug: word() }), 403)
  })

  test('operator: data route: refused with both domains named (decisions §3)', async () => {
    const reply = await new Caller({ authorization: `Bearer ${await token()}` }).get(DOCUMENTS)
    expectProblem(reply, 403, 'privilege_domain_mismatch')
    expect(str(reply, 'detail')).toMatch(/data_access/)
    expect(str(reply, 'detail')).toMatch(/token/i)
  })

  test('claim scope: narrower than the role: narrows', async () => {
    const caller = await as({ ...inA(), roles: ['service'], scope: 'openid collections:read' })
    expectStatus(await caller.get(DOCUMENTS), 200)
    const refused = await caller.post(DOCUMENTS, { title: 'no' })
    expectProblem(refused, 403, 'insufficient_scope')
    expect(refused.headers.get('www-authenticate')).toMatch(/Bearer.*scope="collections:write"/)
  })
})

describe('token endpoint', () => {
  test('client credentials: valid: at+jwt with the claims of data-plane §2.8', async () => {
    const { a } = world
    const reply = await askToken(await makeMachine(world, a, 'workspace_admin'))
    expectStatus(reply, 200)
    expect(reply.headers.get('cache-control')).toContain('no-store')
    expect(reply.body).toMatchObject({ token_type: 'Bearer', expires_in: 3600 })
    const [head = '', body = ''] = str(reply, 'access_token').split('.')
    const read = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString())
    expect(read(head)).toMatchObject({ typ: 'at+jwt', kid: expect.stringMatching(/\S/) })
    expect(read(head).alg).toMatch(/^(RS256|PS256|ES256|EdDSA)$/)
    expect(read(body)).toMatchObject({
      ...{ iss: ISSUER, sub: expect.stringMatching(/\S/), tenant_id: a.tenant, workspace_id: a.workspace },
      ...{ iat: expect.any(Number), exp: expect.any(Number), jti: expect.stringMatching(/\S/) },
      roles: ['workspace_admin'],
    })
    expect([read(body).aud].flat()).toContain(`${base}/v1`)
  })

  test('client credentials: wrong secret or unknown client: same 401 invalid_client', async () => {
    const real = await makeMachine(world, world.a, 'tenant_admin')
    const wrongSecret = await askToken({ ...real, secret: 'wrong' })
    const unknownClient = await askToken({ id: `${real.id.slice(0, -4)}zzzz`, secret: 'wrong' })
    for (const reply of [wrongSecret, unknownClient]) {
      expect(reply.status).toBe(401)
      expect(get(reply, 'error')).toBe('invalid_client')
    }
    expect(unknownClient.body).toEqual(wrongSecret.body)
  })

  test('JWKS: published keys: no private parts', async () => {
    const reply = await send('GET', '/auth/jwks')
    expectStatus(reply, 200)
    for (const key of list(reply, 'keys')) {
      for (const part of ['d', 'p', 'q', 'dp', 'dq', 'qi', 'k']) expect(get(key, part)).toBeUndefined()
      expect(get(key, 'kid')).toMatch(/\S/)
    }
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
