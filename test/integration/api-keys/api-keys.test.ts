/** Checks API keys: payload, lifecycle, rotation, scopes and access. */

import { beforeAll, describe, expect, test } from 'vitest'
import { machine } from '../../support/fixtures/administrators.ts'
import { anonymous, Caller, expectProblem, expectStatus, get, list, Stream, str } from '../../support/clients/rest-client.ts'
import { createTenantPair, expectIsolated, type World, word } from '../../support/fixtures/tenant-pair.ts'

const KEYS = '/v1/api-keys'
const DOCUMENTS = '/v1/collections/notes/documents'

let world: World

beforeAll(async () => {
  world = await createTenantPair()
})

const make = (more: Record<string, unknown> = {}, headers: Record<string, string> = {}) =>
  world.a.admin.post(
    KEYS,
    { workspace_id: world.a.workspace, kind: 'service', name: 'of the test', ...more },
    headers,
  )

const change = (id: string, json: unknown) => world.a.admin.send('PATCH', `${KEYS}/${id}`, { json })
const rotate = (id: string, json: unknown = {}, headers: Record<string, string> = {}) =>
  world.a.admin.post(`${KEYS}/${id}/rotate`, json, headers)
const use = (key: string) => new Caller({ apikey: key }).get(DOCUMENTS)

describe('payload (data-plane §2.13 "Keys payload")', () => {
  test('API key: created: 201 with Location, every field, and the text once', async () => {
    const made = await make({ name: 'ci' })
    expectStatus(made, 201)
    const id = str(made, 'id')
    expect(new URL(made.headers.get('location') ?? '', 'http://x').pathname).toBe(`${KEYS}/${id}`)
    expect(made.headers.get('cache-control')).toContain('no-store')
    const { key, ...shown } = made.body as Record<string, unknown>
    expect(key).toMatch(/^svc_service_[\w-]{40,}$/)
    expect(shown).toMatchObject({
      id: expect.stringMatching(/^key_[0-9a-hjkmnp-tv-z]{26}$/),
      ...{ name: 'ci', kind: 'service', tenant_id: world.a.tenant, workspace_id: world.a.workspace },
      ...{ scopes: [], last4: String(key).slice(-4), status: 'active', rate_limit: null },
      ...{ expires_at: null, last_used_at: null, created_by: expect.stringMatching(/\S/) },
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    })
    expect(String(key).startsWith(String(shown['prefix']))).toBe(true)
    const read = await world.a.admin.get(`${KEYS}/${id}`)
    expect(read.body).toEqual(shown)
  })

  test('list: more keys than a page: next page by page[after] (decisions §5 "Page")', async () => {
    for (const name of ['p1', 'p2', 'p3']) expectStatus(await make({ name }), 201)
    const seen = new Set<string>()
    for (let after = ''; ; ) {
      const query = `workspace_id=${world.a.workspace}&page[size]=2${after}`
      const page = await world.a.admin.get(`${KEYS}?${query}`)
      expectStatus(page, 200)
      for (const key of list(page)) seen.add(str(key, 'id'))
      expect(get(page, 'page')).toMatchObject({ size: 2, has_more: get(page, 'page/next') !== null })
      if (get(page, 'page/next') === null) break
      after = `&page[after]=${encodeURIComponent(str(page, 'page/next'))}`
    }
    expect(seen.size).toBeGreaterThanOrEqual(5)
  })

  test.each(['0', '201', 'many'])('page[size]: %s: 400, never clamped', async (size) => {
    const path = `${KEYS}?workspace_id=${world.a.workspace}&page[size]=${size}`
    expectProblem(await world.a.admin.get(path), 400)
  })

  test('query parameter: unknown: 400 unknown_parameter', async () => {
    const path = `${KEYS}?workspace_id=${world.a.workspace}&colour=red`
    expectProblem(await world.a.admin.get(path), 400, 'unknown_parameter')
  })

  test('field: unknown: 400', async () => {
    expectProblem(await make({ colour: 'red' }), 400, 'validation_failed')
  })

  test.each([
    ['kind', 'root'],
    ['name', ''],
    ['expires_at', 'tomorrow'],
    ['expires_at', '2020-01-01T00:00:00.000Z'],
    ['rate_limit', 0],
    ['rate_limit', 1.5],
    ['scopes', ['everything']],
    ['scopes', 'collections:read'],
  ])('field: %s is %j: 400', async (field, value) => {
    expectProblem(await make({ [field]: value }), 400)
  })

  test('errors: several: reported at once (data-plane §2.1)', async () => {
    const reply = await world.a.admin.post(KEYS, { kind: 'root', name: '' })
    expectProblem(reply, 400, 'validation_failed')
    const pointers = list(reply, 'errors').map((error) => str(error, 'pointer'))
    expect(pointers.join(' ')).toMatch(/kind/)
    expect(pointers.join(' ')).toMatch(/name/)
    expect(pointers.join(' ')).toMatch(/workspace_id/)
  })
})

describe('refused keys', () => {
  test('API key: one character mistyped: 401 api_key_invalid with an ApiKey challenge', async () => {
    const { serviceKey } = world.a
    const last = serviceKey.at(-1) === 'a' ? 'b' : 'a'
    const reply = await use(serviceKey.slice(0, -1) + last)
    expectProblem(reply, 401, 'api_key_invalid')
    expect(reply.headers.get('www-authenticate')).toMatch(/ApiKey/)
    expect(reply.text).not.toContain(serviceKey.slice(12, 40))
  })

  test.each(['svc_service_', 'svc_anon_', 'svc_other_abc', 'svc_', 'hello'])(
    'API key: %j: 401, never 500',
    async (key) => {
      expectProblem(await use(key), 401)
    },
  )

  test('API key: prefix of the other kind: 401', async () => {
    expectProblem(await use(world.a.anonKey.replace('svc_anon_', 'svc_service_')), 401, 'api_key_invalid')
  })

  test('API key: empty apikey header, another credential present: no fallback', async () => {
    const reply = await new Caller({ apikey: '', 'x-tenant-id': world.a.tenant }).get(DOCUMENTS)
    expectProblem(reply, 401)
  })
})

describe('lifecycle (data-plane §2.9 "API key")', () => {
  test('status: active ⇄ disabled', async () => {
    const made = await make()
    const [id, key] = [str(made, 'id'), str(made, 'key')]
    const off = await change(id, { status: 'disabled' })
    expectStatus(off, 200)
    expect(off.body).toMatchObject({ id, status: 'disabled' })
    expectProblem(await use(key), 401, 'api_key_disabled')
    expect((await change(id, { status: 'active' })).body).toMatchObject({ status: 'active' })
    expectStatus(await use(key), 200)
  })

  test('status: active → expired at expires_at', async () => {
    const end = new Date(Date.now() + 2000).toISOString()
    const made = await make({ expires_at: end })
    expectStatus(made, 201)
    expect(get(made, 'expires_at')).toBe(end)
    expectStatus(await use(str(made, 'key')), 200)
    const code = async () => get(await use(str(made, 'key')), 'code')
    await expect.poll(code, { timeout: 10_000 }).toBe('api_key_expired')
    expect(get(await world.a.admin.get(`${KEYS}/${str(made, 'id')}`), 'status')).toBe('expired')
    expectProblem(await change(str(made, 'id'), { status: 'active' }), 409, 'state_conflict')
  })

  test('status: → revoked: at once on that node, final, still listed', async () => {
    const made = await make()
    const [id, key] = [str(made, 'id'), str(made, 'key')]
    expectStatus(await use(key), 200)
    expectStatus(await world.a.admin.delete(`${KEYS}/${id}`), 200)
    const refused = await use(key)
    expectProblem(refused, 401, 'api_key_revoked')
    expect(refused.headers.get('www-authenticate')).toMatch(/ApiKey/)
    expectProblem(await change(id, { status: 'active' }), 409, 'state_conflict')
    expectProblem(await rotate(id), 409, 'state_conflict')
    const listed = await world.a.admin.get(`${KEYS}?workspace_id=${world.a.workspace}&status=revoked`)
    expect(list(listed).map((one) => str(one, 'id'))).toContain(id)
    expect(list(listed).every((one) => get(one, 'status') === 'revoked')).toBe(true)
  })

  test('stream: its key is revoked: ends within 5 s with the reason', async () => {
    const made = await make()
    const stream = await Stream.open('/v1/events/subscribe?topic=x', new Caller({ apikey: str(made, 'key') }))
    await stream.next(({ event }) => event === 'ready')
    expectStatus(await world.a.admin.delete(`${KEYS}/${str(made, 'id')}`), 200)
    const end = await stream.next(({ event }) => event === 'end', 6000)
    expect(get(end.data, 'code')).toBe('api_key_revoked')
  })

  test('last_used_at: key used: set (decisions §3)', async () => {
    const made = await make()
    expectStatus(await use(str(made, 'key')), 200)
    const used = async () => get(await world.a.admin.get(`${KEYS}/${str(made, 'id')}`), 'last_used_at')
    await expect.poll(used, { timeout: 65_000, interval: 500 }).toMatch(/Z$/)
  }, 70_000)
})

describe('rotation (data-plane §2.9: new key + old expires_at now+grace)', () => {
  test('rotation: during the grace: both keys work, the old one is expiring', async () => {
    const made = await make({ scopes: ['collections:read'], rate_limit: 5000, name: 'turned' })
    const turned = await rotate(str(made, 'id'), { grace_seconds: 60 })
    expectStatus(turned, 200, 201)
    expect(str(turned, 'key')).not.toBe(str(made, 'key'))
    expect(turned.body).toMatchObject({ name: 'turned', scopes: ['collections:read'], rate_limit: 5000 })
    const old = await world.a.admin.get(`${KEYS}/${str(made, 'id')}`)
    expect(get(old, 'status')).toBe('expiring')
    const left = Date.parse(str(old, 'expires_at')) - Date.now()
    expect(left).toBeGreaterThan(40_000)
    expect(left).toBeLessThan(61_000)
    for (const reply of [made, turned]) expectStatus(await use(str(reply, 'key')), 200)
    expectProblem(await rotate(str(made, 'id')), 409, 'state_conflict')
  })

  test('rotation: grace 0: the old key ends at once', async () => {
    const made = await make()
    const turned = await rotate(str(made, 'id'), { grace_seconds: 0 })
    expectProblem(await use(str(made, 'key')), 401, 'api_key_expired')
    expectStatus(await use(str(turned, 'key')), 200)
  })

  test('rotation: ten at once: one succeeds', async () => {
    const made = await make()
    const all = await Promise.all(Array.from({ length: 10 }, () => rotate(str(made, 'id'))))
    expect(all.filter(({ status }) => status < 300)).toHaveLength(1)
    for (const reply of all) if (reply.status >= 300) expectProblem(reply, 409, 'state_conflict')
  })

  test('rotation: repeated under an Idempotency-Key: stored reply (data-plane §2.5)', async () => {
    const made = await make()
    const headers = { 'idempotency-key': word() }
    const [one, two] = [
      await rotate(str(made, 'id'), {}, headers),
      await rotate(str(made, 'id'), {}, headers),
    ]
    expect(two.body).toEqual(one.body)
    expect(two.headers.get('idempotent-replayed')).toBe('true')
  })

  test.each([-1, 2.5, 60 * 60 * 24 * 31, 'soon'])('rotation: grace_seconds %j: 400', async (grace) => {
    const made = await make()
    expectProblem(await rotate(str(made, 'id'), { grace_seconds: grace }), 400)
  })
})

describe('scopes', () => {
  test.each([[['collections:write']], [['collections:read', 'objects:write']], [['functions:write']]])(
    'anon key: scopes %j: refused (issue 6, 2: no anon keys with write scopes)',
    async (scopes) => {
      expectProblem(await make({ kind: 'anon', scopes }), 400)
    },
  )

  test('scope: missing: 403 insufficient_scope, named in the challenge', async () => {
    const key = new Caller({ apikey: str(await make({ scopes: ['collections:read'] }), 'key') })
    expectStatus(await key.get(DOCUMENTS), 200)
    const refused = await key.post(DOCUMENTS, { title: 'no' })
    expectProblem(refused, 403, 'insufficient_scope')
    expect(refused.headers.get('www-authenticate')).toMatch(/error="insufficient_scope"/)
    expect(refused.headers.get('www-authenticate')).toMatch(/scope="collections:write"/)
  })

  test('scope: publish only: cannot read', async () => {
    const key = new Caller({ apikey: str(await make({ scopes: ['events:write'] }), 'key') })
    expectStatus(await key.post('/v1/events/publish', { topic: 'a.b', data: 1 }), 202)
    expectProblem(await key.get('/v1/events/subscribe?topic=a.b'), 403, 'insufficient_scope')
    expectProblem(await key.get(DOCUMENTS), 403, 'insufficient_scope')
    expectStatus(await key.get('/v1/me'), 200)
  })

  test('scope: narrowed by PATCH: effective for the next request', async () => {
    const made = await make()
    const key = new Caller({ apikey: str(made, 'key') })
    expectStatus(await key.post(DOCUMENTS, { title: 'yes', mark: world.a.mark }), 201)
    expectStatus(await change(str(made, 'id'), { scopes: ['collections:read'] }), 200)
    expectProblem(await key.post(DOCUMENTS, { title: 'no' }), 403, 'insufficient_scope')
  })
})

describe('keys of others', () => {
  const verbs: [string, string, unknown][] = [
    ['GET', '', undefined],
    ['PATCH', '', { name: 'mine' }],
    ['POST', '/rotate', {}],
    ['DELETE', '', undefined],
  ]

  test.each(verbs)(
    '%s %s: by the admin of another tenant: 404 identical to that of a missing one',
    async (method, end, json) => {
      const otherAdmin = await machine(world, world.b, 'tenant_admin')
      const id = str(await make(), 'id')
      const missing = `${id.slice(0, -6)}zzzzzz`
      const ask = (which: string) => otherAdmin.send(method, `${KEYS}/${which}${end}`, json ? { json } : {})
      const [seen, none] = [await ask(id), await ask(missing)]
      expectProblem(seen, 404, 'not_found')
      expect(anonymous(seen, id)).toBe(anonymous(none, missing))
    },
  )

  test('workspace admin: keys of a sibling workspace: neither listed nor created', async () => {
    const { a } = world
    const sent = { tenant_id: a.tenant, name: 'Sibling', slug: `sib-${word()}`, bucket: null }
    const sibling = str(await a.admin.post('/v1/workspaces', sent, { prefer: 'wait=30' }), 'id')
    const own = await machine(world, { ...a, workspace: sibling }, 'workspace_admin')
    const listed = await own.get(`${KEYS}?workspace_id=${a.workspace}`)
    expect(anonymous(listed)).toBe(
      anonymous(await own.get(`${KEYS}?workspace_id=${a.workspace.slice(0, -4)}zzzz`)),
    )
    expect(list(listed)).toEqual([])
    expectProblem(await own.post(KEYS, { workspace_id: a.workspace, kind: 'service', name: 'x' }), 404)
    expectStatus(await own.post(KEYS, { workspace_id: sibling, kind: 'service', name: 'x' }), 201)
    expectStatus(await own.get(`${KEYS}?workspace_id=${sibling}`), 200)
  })

  test.each(['anonKey', 'serviceKey'] as const)(
    'API key (%s): creates or reads keys: refused',
    async (which) => {
      const key = new Caller({ apikey: world.a[which] })
      for (const reply of [
        await key.get(`${KEYS}?workspace_id=${world.a.workspace}`),
        await key.post(KEYS, {}),
      ]) {
        expectProblem(reply, 403, 'privilege_domain_mismatch')
        expect(str(reply, 'detail')).toContain('structural_admin')
      }
    },
  )
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
