/** API keys as resources: their fields and pages, what is refused, expiry, scopes, and keys of a sibling workspace. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  anonymous,
  Caller,
  expectProblem,
  expectStatus,
  get,
  list,
  str,
} from '../../support/clients/rest-client.ts'
import { machine } from '../../support/fixtures/administrators.ts'
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
const use = (key: string) => new Caller({ apikey: key }).get(DOCUMENTS)

describe('fields', () => {
  test('API key: created: 201 with Location, every field, and the text once', async () => {
    const made = await make({ name: 'ci' })
    expectStatus(made, 201)
    const id = str(made, 'id')
    expect(new URL(made.headers.get('location') ?? '', 'http://x').pathname).toBe(`${KEYS}/${id}`)
    expect(made.headers.get('cache-control')).toContain('no-store')
    const { key, ...fields } = made.body as Record<string, unknown>
    expect(key).toMatch(/^svc_service_[\w-]{40,}$/)
    expect(fields).toMatchObject({
      id: expect.stringMatching(/^key_[0-9a-hjkmnp-tv-z]{26}$/),
      ...{ name: 'ci', kind: 'service', tenant_id: world.a.tenant, workspace_id: world.a.workspace },
      ...{ scopes: [], last4: String(key).slice(-4), status: 'active', rate_limit: null },
      ...{ expires_at: null, last_used_at: null, created_by: expect.stringMatching(/\S/) },
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    })
    expect(String(key).startsWith(String(fields['prefix']))).toBe(true)
    const read = await world.a.admin.get(`${KEYS}/${id}`)
    expect(read.body).toEqual(fields)
  })

  test('list: more keys than a page: next page by page[after]', async () => {
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

  test('errors: several: reported at once', async () => {
    const reply = await world.a.admin.post(KEYS, { kind: 'root', name: '' })
    expectProblem(reply, 400, 'validation_failed')
    const pointers = list(reply, 'errors').map((error) => str(error, 'pointer'))
    expect(pointers.join(' ')).toMatch(/kind/)
    expect(pointers.join(' ')).toMatch(/name/)
    expect(pointers.join(' ')).toMatch(/workspace_id/)
  })
})

describe('lifecycle', () => {
  test('status: active → expired at expires_at', async () => {
    const end = new Date(Date.now() + 2000).toISOString()
    const made = await make({ expires_at: end })
    expectStatus(made, 201)
    expect(get(made, 'expires_at')).toBe(end)
    expectStatus(await use(str(made, 'key')), 200)
    const code = async () => get(await use(str(made, 'key')), 'code')
    await expect.poll(code).toBe('api_key_expired')
    expect(get(await world.a.admin.get(`${KEYS}/${str(made, 'id')}`), 'status')).toBe('expired')
    expectProblem(await change(str(made, 'id'), { status: 'active' }), 409, 'state_conflict')
  })
})

describe('scopes', () => {
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
})

describe('keys of others', () => {
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
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
