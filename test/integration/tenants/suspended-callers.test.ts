/** Checks suspension: everything of a suspended tenant stops within 5 s, on every path, until it is resumed. */

import { beforeAll, describe, expect, test } from 'vitest'
import { addAccount, addClient, refresh, tokensOf } from '../../support/clients/browser.ts'
import { tokenOf } from '../../support/fixtures/tenants.ts'
import { gatewayHeaders } from '../../support/stack/gateway.ts'
import { askToken, machine, makeMachine } from '../../support/fixtures/administrators.ts'
import { anonymous, Caller, expectProblem, expectStatus, get, list, Stream, str } from '../../support/clients/rest-client.ts'
import { createTenantPair, expectIsolated, type Party, type World, word } from '../../support/fixtures/tenant-pair.ts'

const DOCUMENTS = '/v1/collections/notes/documents'
const SUSPENDED = 'tenant_suspended'

let world: World

beforeAll(async () => {
  world = await createTenantPair()
})

/** A tenant for one test, so that no other test is affected. */
async function createParty(): Promise<Party> {
  const { a } = await createTenantPair()
  expectStatus(await a.service.post(DOCUMENTS, { title: 'before', mark: a.mark }), 201)
  return a
}

const suspend = (of: Party, json: unknown = { reason: 'unpaid' }) =>
  world.admin.post(`/v1/tenants/${of.tenant}/suspend`, json)
const resume = (of: Party) => world.admin.post(`/v1/tenants/${of.tenant}/resume`, {})

/** Repeats the request until the code is the expected one, for at most the promised 5 s. */
const waitForCode = (ask: () => Promise<{ status: number; body: unknown }>, wanted: unknown) =>
  expect
    .poll(
      async () => {
        const reply = await ask()
        return get(reply.body, 'code') ?? reply.status
      },
      { timeout: 5000, interval: 50 },
    )
    .toBe(wanted)

describe('suspended tenant (data-plane §2.9; issue 6, 9)', () => {
  test('suspended tenant: keys, tokens, gateway identities: 403 tenant_suspended on every route', async () => {
    const a = await createParty()
    const claims = { tenant_id: a.tenant, workspace_id: a.workspace, roles: ['service'] }
    const callers = [
      ...[a.service, a.anon, new Caller(await tokenOf(claims)), await machine(world, a, 'tenant_admin')],
      ...[await machine(world, a, 'workspace_admin'), await machine(world, a, 'service')],
      new Caller({ ...gatewayHeaders({ tenantId: a.tenant, workspaceId: a.workspace }) }),
    ]
    for (const caller of callers) expectStatus(await caller.get('/v1/me'), 200)
    const done = await suspend(a)
    expectStatus(done, 200)
    expect(done.body).toMatchObject({ id: a.tenant, state: 'suspended' })
    for (const caller of callers) {
      await waitForCode(() => caller.get('/v1/me'), SUSPENDED)
      expectProblem(await caller.get('/v1/me'), 403, SUSPENDED)
    }
    for (const [method, path] of [
      ['GET', DOCUMENTS],
      ['POST', DOCUMENTS],
      ['POST', '/v1/collections/notes/query'],
      ['POST', '/v1/events/publish'],
      ['GET', '/v1/events/subscribe?topic=x'],
      ['POST', '/v1/functions/any/invoke'],
      ['GET', '/v1/analytics/query?metric=requests&window=1h'],
      ['GET', '/v1/objects/bucket/key'],
    ] as const) {
      const reply = await a.service.send(method, path, method === 'POST' ? { json: {} } : {})
      expectProblem(reply, 403, SUSPENDED)
      expect(reply.text).not.toContain('unpaid')
    }
    expectStatus(await world.a.service.get('/v1/me'), 200)
    expectStatus(await resume(a), 200)
    for (const caller of callers) await waitForCode(() => caller.get('/v1/me'), 200)
    expect(list(await a.service.get(DOCUMENTS))).toHaveLength(1)
    expectStatus(await a.service.post(DOCUMENTS, { title: 'after', mark: a.mark }), 201)
  })

  test('suspended tenant: open stream: ends with that code', async () => {
    const a = await createParty()
    const streams = [
      await Stream.open('/v1/events/subscribe?topic=x', a.service),
      await Stream.open(`/v1/events/subscribe?topic=x&apikey=${a.anonKey}`, new Caller({})),
    ]
    for (const stream of streams) await stream.next(({ event }) => event === 'ready')
    expectStatus(await suspend(a), 200)
    for (const stream of streams) {
      const end = await stream.next(({ event }) => event === 'end', 5000)
      expect(get(end.data, 'code')).toBe(SUSPENDED)
    }
    await resume(a)
    const again = await Stream.open('/v1/events/subscribe?topic=x', a.service)
    await again.next(({ event }) => event === 'ready')
    again.close()
  })

  test('suspended tenant: reply stored under an Idempotency-Key: not disclosed', async () => {
    const a = await createParty()
    const headers = { 'idempotency-key': word() }
    const body = { title: 'kept', mark: a.mark }
    expectStatus(await a.service.post(DOCUMENTS, body, headers), 201)
    await suspend(a)
    await waitForCode(() => a.service.post(DOCUMENTS, body, headers), SUSPENDED)
    await resume(a)
    await waitForCode(() => a.service.post(DOCUMENTS, body, headers), 201)
  })

  test('suspended tenant: machines: no token; users: neither sign-in nor refresh', async () => {
    const a = await createParty()
    const tenantMachine = await makeMachine(world, a, 'tenant_admin')
    const app = await addClient(world.admin.headers)
    const ada = await addAccount(world.admin.headers, { role: 'tenant_admin', tenant_id: a.tenant })
    const { body } = await tokensOf(app, ada)
    await suspend(a)
    const status = async () => (await askToken(tenantMachine)).status
    await expect.poll(status, { timeout: 5000 }).toBeGreaterThanOrEqual(400)
    await expect(tokensOf(app, ada)).rejects.toThrow()
    const refused = await refresh(app, body['refresh_token'])
    expect(refused.status).toBeGreaterThanOrEqual(400)
    const userCaller = new Caller({ authorization: `Bearer ${body['access_token']}` })
    await waitForCode(() => userCaller.get('/v1/me'), SUSPENDED)
    await resume(a)
    await expect.poll(status, { timeout: 5000 }).toBe(200)
    expect((await tokensOf(app, ada)).status).toBe(200)
    await waitForCode(() => userCaller.get('/v1/me'), 200)
    // Password hashing is slow on purpose.
  }, 60_000)

  test('suspended tenant: operator: sees the reason, may read', async () => {
    const a = await createParty()
    await suspend(a, { reason: 'abuse' })
    const shown = await world.admin.get(`/v1/tenants/${a.tenant}`)
    expect(shown.body).toMatchObject({
      ...{ state: 'suspended', suspended_reason: 'abuse', suspended_by: expect.stringMatching(/\S/) },
      suspended_at: expect.stringMatching(/Z$/),
    })
    expectStatus(await world.admin.get(`/v1/api-keys?workspace_id=${a.workspace}`), 200)
    await resume(a)
    const again = await world.admin.get(`/v1/tenants/${a.tenant}`)
    expect(again.body).toMatchObject({ state: 'active' })
  })

  test('suspended tenant: key revoked meanwhile: stays revoked after resume', async () => {
    const a = await createParty()
    const key = { workspace_id: a.workspace, kind: 'service', name: 'x' }
    const made = await world.admin.post('/v1/api-keys', key)
    await suspend(a)
    const deleted = await world.admin.delete(`/v1/api-keys/${str(made, 'id')}`)
    await resume(a)
    const caller = new Caller({ apikey: str(made, 'key') })
    if (deleted.status === 200) await waitForCode(() => caller.get('/v1/me'), 'api_key_revoked')
    else expectStatus(deleted, 403, 409)
  })
})

describe('permissions and repetition', () => {
  test('suspension of a tenant: any role but operator: refused', async () => {
    for (const role of ['tenant_admin', 'workspace_admin'] as const) {
      const one = await machine(world, world.a, role)
      for (const verb of ['suspend', 'resume']) {
        expectProblem(await one.post(`/v1/tenants/${world.a.tenant}/${verb}`, {}), 403)
      }
    }
    expectProblem(
      await world.a.service.post(`/v1/tenants/${world.a.tenant}/suspend`, {}),
      403,
      'privilege_domain_mismatch',
    )
    expectStatus(await world.a.service.get('/v1/me'), 200)
  })

  test('suspension: repeated: same reply, no change (docs/suspension.md)', async () => {
    const a = await createParty()
    const [one, two] = [await suspend(a), await suspend(a)]
    expectStatus(two, 200)
    expect(get(two, 'state')).toBe('suspended')
    expect(get(two, 'suspended_at')).toBe(get(one, 'suspended_at'))
    expectStatus(await resume(a), 200)
    expectStatus(await resume(a), 200)
  })

  test('suspension: missing tenant: 404', async () => {
    const missingTenant = { ...world.a, tenant: `${world.a.tenant.slice(0, -5)}zzzzz` }
    expectProblem(await suspend(missingTenant), 404, 'not_found')
    expectProblem(await resume(missingTenant), 404, 'not_found')
  })

  test('suspension: twenty suspend and resume requests at once: one of the two states, keys agree', async () => {
    const a = await createParty()
    const all = await Promise.all(Array.from({ length: 20 }, (_, at) => (at % 2 ? suspend(a) : resume(a))))
    for (const reply of all) expectStatus(reply, 200, 409)
    const state = get(await world.admin.get(`/v1/tenants/${a.tenant}`), 'state')
    await waitForCode(() => a.service.get('/v1/me'), state === 'active' ? 200 : SUSPENDED)
  })
})

describe('suspended workspace', () => {
  const changeState = async (of: Party, verb: string, by: Caller = world.admin) =>
    by.post(`/v1/workspaces/${of.workspace}/${verb}`, verb === 'suspend' ? { reason: 'pause' } : {})

  test('suspended workspace: requests: refused; sibling workspace: unaffected', async () => {
    const a = await createParty()
    const sent = { tenant_id: a.tenant, name: 'S', slug: `s-${word()}`, bucket: null }
    const sibling = str(await world.admin.post('/v1/workspaces', sent, { prefer: 'wait=30' }), 'id')
    const key = { workspace_id: sibling, kind: 'service', name: 'x' }
    const other = new Caller({ apikey: str(await world.admin.post('/v1/api-keys', key), 'key') })
    expectStatus(await changeState(a, 'suspend'), 200)
    await waitForCode(() => a.service.get('/v1/me'), 'workspace_suspended')
    expectStatus(await other.get('/v1/me'), 200)
    expectStatus(await changeState(a, 'resume'), 200)
    await waitForCode(() => a.service.get('/v1/me'), 200)
  })

  test('suspended workspace: by an operator: the tenant admin cannot resume it', async () => {
    const a = await createParty()
    const admin = await machine(world, a, 'tenant_admin')
    expectStatus(await changeState(a, 'suspend'), 200)
    expectStatus(await changeState(a, 'resume', admin), 403, 409)
    await waitForCode(() => a.service.get('/v1/me'), 'workspace_suspended')
    expectStatus(await changeState(a, 'resume'), 200)
    expectStatus(await changeState(a, 'suspend', admin), 200)
    expectStatus(await changeState(a, 'resume', admin), 200)
  })

  test('suspension: workspace of another tenant: 404 identical to that of a missing one', async () => {
    const otherAdmin = await machine(world, world.b, 'tenant_admin')
    const missing = { ...world.a, workspace: `${world.a.workspace.slice(0, -5)}zzzzz` }
    const seen = await changeState(world.a, 'suspend', otherAdmin)
    expectProblem(seen, 404, 'not_found')
    const none = await changeState(missing, 'suspend', otherAdmin)
    expect(anonymous(seen, world.a.workspace)).toBe(anonymous(none, missing.workspace))
    expectStatus(await world.a.service.post(DOCUMENTS, { mark: world.a.mark }), 201)
  })
})

describe('executions', () => {
  const SOURCE = `document: {dsl: '1.0.0', namespace: test, name: slow, version: '1.0.0'}
do:
  - first: {set: {a: 1}}
  - pause: {wait: {seconds: 3}}
  - last: {call: collection.create, with: {name: traces, document: {done: true}}}
`
  test('execution: tenant suspended: held; resumed: continues to one effect', async () => {
    const a = await createParty()
    const flows = `/v1/flows/workspaces/${a.workspace}`
    const made = await world.admin.post(`${flows}/definitions`, { source: SOURCE })
    expectStatus(made, 201)
    expectStatus(await world.admin.post(`${flows}/definitions/slow/versions`, {}), 201)
    const started = await world.admin.post(`${flows}/definitions/slow/executions`, { input: {} })
    expectStatus(started, 201)
    const path = `${flows}/executions/${str(started, 'id')}`
    const status = async () => get(await world.admin.get(path), 'status')
    expectStatus(await suspend(a), 200)
    await expect.poll(status, { timeout: 8000 }).toBe('suspended')
    expectStatus(await resume(a), 200)
    await expect.poll(status, { timeout: 20_000 }).toBe('completed')
    expect(list(await a.service.get('/v1/collections/traces/documents'))).toHaveLength(1)
  }, 60_000)
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
