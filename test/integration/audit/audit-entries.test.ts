/** Checks the audit log: complete, visible to the right readers, without secrets, independently verifiable. */

import { createHash } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { machine } from '../../support/fixtures/administrators.ts'
import { Caller, expectProblem, expectStatus, get, list, type Reply, str } from '../../support/clients/rest-client.ts'
import { createTenantPair, expectIsolated, makeKey, type Party, type World, word } from '../../support/fixtures/tenant-pair.ts'

const AUDIT = '/v1/audit'
const DOCUMENTS = '/v1/collections/notes/documents'

type Entry = Record<string, unknown>

let world: World

beforeAll(async () => {
  world = await createTenantPair()
})

const of = (party: Party, query = '') => world.admin.get(`${AUDIT}?tenant_id=${party.tenant}${query}`)

/** Entries of a request, which may follow shortly after its reply. */
async function entriesOf(reply: Reply, party = world.a): Promise<Entry[]> {
  const id = reply.headers.get('x-request-id')
  const found = async () => {
    const listed = await of(party, '&page[size]=200')
    expectStatus(listed, 200)
    return (list(listed) as Entry[]).filter((entry) => entry['request_id'] === id)
  }
  await expect.poll(async () => (await found()).length, { timeout: 5000 }).toBeGreaterThan(0)
  return found()
}

/** Every entry of a tenant, oldest first. */
async function allEntries(party: Party): Promise<Entry[]> {
  const all: Entry[] = []
  for (let after = ''; ; ) {
    const page = await of(party, `&page[size]=200${after}`)
    expectStatus(page, 200)
    all.push(...(list(page) as Entry[]))
    if (get(page, 'page/next') === null) return all.reverse()
    after = `&page[after]=${encodeURIComponent(str(page, 'page/next'))}`
  }
}

function canonical(value: unknown): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  const members = Object.entries(value).sort(([one], [two]) => (one < two ? -1 : 1))
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(',')}}`
}

const isNothing = (value: unknown) => value === 0 || (Array.isArray(value) && value.length === 0)

describe('every mutating operation (issue 6, 8: actor, before/after digest, request id)', () => {
  test('audit entry: key created: actor, operation, target, request', async () => {
    const { a } = world
    const admin = await machine(world, a, 'tenant_admin')
    const made = await admin.post('/v1/api-keys', {
      workspace_id: a.workspace,
      kind: 'anon',
      name: 'audited',
    })
    const [entry, ...more] = await entriesOf(made)
    expect(more).toEqual([])
    expect(entry).toMatchObject({
      ...{ tenant_id: a.tenant, workspace_id: a.workspace, operation: 'api_key.create' },
      ...{ outcome: 'done', status: 201, code: null, before: null },
      actor: { kind: 'token', role: 'tenant_admin', subject: get(await admin.get('/v1/me'), 'subject') },
      at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      after: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
    expect(JSON.stringify(entry)).not.toContain(str(made, 'key'))
  })

  test('audit entry: change: digests before and after', async () => {
    const { a } = world
    const made = await a.admin.post('/v1/api-keys', { workspace_id: a.workspace, kind: 'anon', name: 'one' })
    const path = `/v1/api-keys/${str(made, 'id')}`
    const digest = async () =>
      createHash('sha256')
        .update(canonical((await a.admin.get(path)).body))
        .digest('hex')
    const before = await digest()
    const [second] = await entriesOf(await a.admin.send('PATCH', path, { json: { name: 'two' } }))
    const [third] = await entriesOf(await a.admin.send('PATCH', path, { json: { name: 'one' } }))
    expect(second).toMatchObject({ operation: 'api_key.update', target: path, before })
    expect(second?.['after']).not.toBe(second?.['before'])
    expect(third).toMatchObject({ before: second?.['after'], after: await digest() })
  })

  const writes: [string, string, (p: Party) => Promise<Reply>][] = [
    ['collection.create', 'a document', (p) => p.service.post(DOCUMENTS, { mark: p.mark })],
    [
      'event.publish',
      'an event',
      (p) => p.service.post('/v1/events/publish', { topic: 'a.b', data: p.mark }),
    ],
    [
      'quota.set',
      'quotas',
      (p) => p.admin.put('/v1/quotas', { workspace_id: p.workspace, limits: { flows: 900 } }),
    ],
    [
      'schema.create',
      'a schema',
      (p) =>
        p.admin.post('/v1/schemas', {
          workspace_id: p.workspace,
          collection: `c${word()}`,
          store: 'document',
          schema: {},
        }),
    ],
    [
      'oauth_client.create',
      'a client',
      (p) =>
        p.admin.post('/v1/oauth-clients', {
          kind: 'machine',
          name: 'm',
          role: 'service',
          workspace_id: p.workspace,
        }),
    ],
    [
      'account.create',
      'an account',
      (p) =>
        p.admin.post('/v1/accounts', {
          email: `${word()}@example.test`,
          role: 'workspace_admin',
          workspace_id: p.workspace,
        }),
    ],
  ]

  test.each(writes)('audit entry: %s: %s: one entry', async (operation, _, write) => {
    const reply = await write(world.a)
    expectStatus(reply, 200, 201, 202)
    const found = await entriesOf(reply)
    expect(found).toHaveLength(1)
    expect(found[0]).toMatchObject({ operation, outcome: 'done', tenant_id: world.a.tenant })
  })

  test('audit entry: successful read: none', async () => {
    const read = await world.a.service.get(DOCUMENTS)
    const write = await world.a.service.post(DOCUMENTS, { mark: world.a.mark })
    await entriesOf(write)
    const all = await allEntries(world.a)
    expect(all.some((entry) => entry['request_id'] === read.headers.get('x-request-id'))).toBe(false)
  })

  test('audit entry: request repeated under its Idempotency-Key: no second one', async () => {
    const headers = { 'idempotency-key': word(), 'x-request-id': `test-${word()}` }
    const body = { mark: world.a.mark }
    await world.a.service.post(DOCUMENTS, body, headers)
    const again = await world.a.service.post(DOCUMENTS, body, headers)
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    await entriesOf(await world.a.service.post(DOCUMENTS, body))
    expect(await entriesOf(again)).toHaveLength(1)
  })
})

describe('every denial', () => {
  const denials: [string, string, number, () => Promise<Reply>][] = [
    ['wrong privilege domain', 'privilege_domain_mismatch', 403, () => world.a.service.get('/v1/tenants')],
    ['write by an anon key', 'forbidden', 403, () => world.a.anon.post(DOCUMENTS, { n: 1 })],
  ]

  test.each(denials)('denial: %s: recorded with its code', async (_, code, status, ask) => {
    const reply = await ask()
    expectStatus(reply, status)
    const [entry] = await entriesOf(reply)
    expect(entry).toMatchObject({ outcome: 'denied', status, actor: { kind: 'api_key' } })
    expect(entry?.['code']).toBe(get(reply, 'code') ?? code)
    expect(entry?.['address']).toMatch(/127\.0\.0\.1/)
  })

  test('denial: revoked key: recorded for its tenant', async () => {
    const { a } = world
    const made = await a.admin.post('/v1/api-keys', { workspace_id: a.workspace, kind: 'service', name: 'r' })
    await a.admin.delete(`/v1/api-keys/${str(made, 'id')}`)
    const refused = await new Caller({ apikey: str(made, 'key') }).get(DOCUMENTS)
    expectProblem(refused, 401, 'api_key_revoked')
    expect(await entriesOf(refused)).toMatchObject([
      {
        ...{ workspace_id: a.workspace, outcome: 'denied', code: 'api_key_revoked' },
        actor: { kind: 'api_key', subject: str(made, 'id'), role: null },
      },
    ])
  })

  test("denial: write into another tenant: recorded for the caller's tenant, not for the other", async () => {
    const otherAdmin = await machine(world, world.b, 'tenant_admin')
    const made = await world.a.admin.post('/v1/api-keys', {
      workspace_id: world.a.workspace,
      kind: 'anon',
      name: 'x',
    })
    const refused = await otherAdmin.delete(`/v1/api-keys/${str(made, 'id')}`)
    expectProblem(refused, 404)
    const [entry] = await entriesOf(refused, world.b)
    expect(entry).toMatchObject({ tenant_id: world.b.tenant, status: 404 })
    const entriesOfA = await allEntries(world.a)
    expect(entriesOfA.some((one) => one['request_id'] === refused.headers.get('x-request-id'))).toBe(false)
  })
})

describe('secrets (issue 6, 8: redacted by value as well as by name)', () => {
  test('audit log: keys, tokens, secrets, invitations: in no entry', async () => {
    const { a } = world
    const key = await makeKey(a.admin, a.workspace, 'service')
    const client = await a.admin.post('/v1/oauth-clients', {
      kind: 'machine',
      name: 'm',
      role: 'service',
      workspace_id: a.workspace,
    })
    const invited = await a.admin.post('/v1/accounts', {
      email: `${word()}@example.test`,
      role: 'workspace_admin',
      workspace_id: a.workspace,
    })
    const inPath = await a.service.delete(`${DOCUMENTS}/${a.serviceKey}`)
    expectStatus(inPath, 400, 404)
    const inTopic = await a.service.post(
      '/v1/events/publish',
      { topic: `x.${key}`, data: 1 },
      { 'x-request-id': key.slice(0, 100) },
    )
    expectStatus(inTopic, 202, 400)
    await entriesOf(await a.service.post(DOCUMENTS, { mark: a.mark, password: key }))
    const all = JSON.stringify(await allEntries(a))
    const secrets = [
      key,
      a.serviceKey,
      a.anonKey,
      str(client, 'client_secret'),
      str(invited, 'invitation_url'),
    ]
    secrets.push((a.admin.headers['authorization'] ?? '').slice('Bearer '.length), a.mark)
    for (const secret of secrets) expect(all.includes(secret), secret.slice(0, 14)).toBe(false)
  })
})

describe('readers', () => {
  test('audit log: tenant admin: own tenant; workspace admin: own workspace', async () => {
    const { a } = world
    const sent = { tenant_id: a.tenant, name: 'W', slug: `w-${word()}`, bucket: null }
    await a.admin.post('/v1/workspaces', sent, { prefer: 'wait=30' })
    const tenants = await (await machine(world, a, 'tenant_admin')).get(`${AUDIT}?page[size]=200`)
    expect(list(tenants).length).toBeGreaterThan(0)
    expect(list(tenants).every((entry) => get(entry, 'tenant_id') === a.tenant)).toBe(true)
    const workspaces = await (await machine(world, a, 'workspace_admin')).get(`${AUDIT}?page[size]=200`)
    expect(list(workspaces).length).toBeGreaterThan(0)
    expect(list(workspaces).every((entry) => get(entry, 'workspace_id') === a.workspace)).toBe(true)
  })

  test('audit log: another tenant named: refused', async () => {
    const otherAdmin = await machine(world, world.b, 'tenant_admin')
    for (const path of [AUDIT, `${AUDIT}/verify`]) {
      const reply = await otherAdmin.get(`${path}?tenant_id=${world.a.tenant}`)
      expectStatus(reply, 200, 400, 403, 404)
      expect(reply.text).not.toContain(world.a.workspace)
      if (reply.status === 200) expect(get(reply, 'data') ?? get(reply, 'checked')).toSatisfy(isNothing)
    }
  })

  test('audit log: API key: refused', async () => {
    for (const caller of [world.a.anon, world.a.service]) {
      expectProblem(await caller.get(AUDIT), 403, 'privilege_domain_mismatch')
    }
  })

  test.each(['POST', 'PUT', 'PATCH', 'DELETE'])('audit log: %s: 405, append-only', async (method) => {
    const reply = await world.admin.send(method, AUDIT, method === 'DELETE' ? {} : { json: {} })
    expectProblem(reply, 405, 'method_not_allowed')
  })

  test('audit log: filters since, until, actor, operation, outcome: newest first, narrowed', async () => {
    const { a } = world
    await entriesOf(await a.service.get('/v1/tenants'))
    const listed = list(await of(a, '&page[size]=200')) as Entry[]
    const numbers = listed.map(({ seq }) => Number(seq))
    expect(numbers).toEqual([...numbers].sort((one, two) => two - one))
    const denied = list(await of(a, '&outcome=denied')) as Entry[]
    expect(denied.length).toBeGreaterThan(0)
    expect(denied.every(({ outcome }) => outcome === 'denied')).toBe(true)
    const created = list(await of(a, '&operation=api_key.create')) as Entry[]
    expect(created.length).toBeGreaterThan(0)
    expect(created.every(({ operation }) => operation === 'api_key.create')).toBe(true)
    const middle = String(listed[Math.floor(listed.length / 2)]?.['at'])
    const since = list(await of(a, `&since=${middle}&page[size]=200`)) as Entry[]
    const until = list(await of(a, `&until=${middle}&page[size]=200`)) as Entry[]
    expect(since.every(({ at }) => String(at) >= middle)).toBe(true)
    expect(until.every(({ at }) => String(at) <= middle)).toBe(true)
    expectProblem(await of(a, '&since=yesterday'), 400)
    expectProblem(await of(a, '&colour=red'), 400, 'unknown_parameter')
  })
})

describe('hash chain (issue 6, 8: hash-chained per tenant)', () => {
  test('GET /v1/audit/verify: intact chain: ok', async () => {
    const reply = await world.admin.get(`${AUDIT}/verify?tenant_id=${world.a.tenant}`)
    expectStatus(reply, 200)
    expect(reply.body).toMatchObject({ ok: true, next: null, first_bad: null })
    expect(get(reply, 'checked')).toBeGreaterThan(5)
  })

  test('hash chain: computed from exported entries alone: matches (docs/audit.md "By yourself")', async () => {
    const all = await allEntries(world.b)
    let before = '0'.repeat(64)
    for (const [at, { seq, prev_hash, hash, ...rest }] of all.entries()) {
      expect(seq).toBe(at + 1)
      expect(prev_hash).toBe(before)
      const text = `${before}\n${seq}\n${canonical(rest)}`
      before = createHash('sha256').update(text).digest('hex')
      expect(hash).toBe(before)
    }
    expect(all.length).toBeGreaterThan(3)
  })

  test('anchor: head kept earlier: accepted; other value: refused', async () => {
    const path = `${AUDIT}/verify?tenant_id=${world.a.tenant}`
    const { seq, hash } = get(await world.admin.get(path), 'head') as Entry
    const head = `${seq}:${hash}`
    const good = await world.admin.get(`${path}&anchor=${encodeURIComponent(head)}`)
    expect(get(good, 'ok')).toBe(true)
    const bent = head.replace(/.$/, (last) => (last === '0' ? '1' : '0'))
    const bad = await world.admin.get(`${path}&anchor=${encodeURIComponent(bent)}`)
    expect(bad.body).toMatchObject({ ok: false })
    expect(JSON.stringify(get(bad, 'first_bad'))).toContain('anchor')
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
