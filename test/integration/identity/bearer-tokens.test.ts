/** Bearer tokens: the rights that claims grant, and the endpoint that issues tokens to machines. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  base,
  Caller,
  expectProblem,
  expectStatus,
  get,
  list,
  send,
  str,
} from '../../support/clients/rest-client.ts'
import { askToken, machine, makeMachine } from '../../support/fixtures/administrators.ts'
import { createTenantPair, expectIsolated, type World, word } from '../../support/fixtures/tenant-pair.ts'
import { tokenOf } from '../../support/fixtures/tenants.ts'

const DOCUMENTS = '/v1/collections/notes/documents'
const ISSUER = `${base}/auth`

let world: World

beforeAll(async () => {
  world = await createTenantPair()
})

const inA = () => ({ tenant_id: world.a.tenant, workspace_id: world.a.workspace })

test('token: in the query: not read as a credential', async () => {
  for (const name of ['access_token', 'token', 'authorization']) {
    const { authorization = '' } = await tokenOf({ ...inA(), roles: ['service'] })
    const text = authorization.slice('Bearer '.length)
    const reply = await new Caller({}).get(`${DOCUMENTS}?${name}=${text}`)
    expectStatus(reply, 400, 401)
    expect(reply.text).not.toContain(text)
  }
})

describe('rights granted by claims', () => {
  const as = async (payload: Record<string, unknown>) =>
    new Caller(await tokenOf(payload), world.a.transcript)

  test('claims: tenant_id and workspace_id: data of that workspace', async () => {
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

  test('workspace admin: workspaces: sees its own only', async () => {
    const caller = await machine(world, world.a, 'workspace_admin')
    expectStatus(await caller.get(`/v1/workspaces/${world.a.workspace}`), 200)
    expectProblem(await caller.get(`/v1/workspaces/${world.b.workspace}`), 404, 'not_found')
    expect(list(await caller.get('/v1/workspaces')).map((one) => str(one, 'id'))).toEqual([world.a.workspace])
    expectProblem(await caller.post('/v1/workspaces', { name: 'W', slug: word() }), 403)
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
  test('client credentials: valid: at+jwt that names issuer, audience, subject, tenant and workspace', async () => {
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
