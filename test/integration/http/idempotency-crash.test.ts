/** A process dies between effect and reply: the next attempt under the key finds the first effect. */

import { expect, test } from 'vitest'
import { ACCESS_LIMITS } from '../../../src/access/limits.ts'
import { count, deploy, post, replayed, simulateCrash } from '../../support/clients/idempotency.ts'
import { endOf } from '../../support/fixtures/archives.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

test('crash after create: next attempt: same document, no second one', async () => {
  const testWorkspace = await createTestWorkspace()
  const first = await post(testWorkspace.service, 'k', { n: 1 })
  await simulateCrash(testWorkspace)
  const again = await post(testWorkspace.service, 'k', { n: 1 })
  expect([again.status, replayed(again), again.body]).toEqual([201, 'true', first.body])
  expect(again.headers.get('location')).toBe(first.headers.get('location'))
  expect(await count(testWorkspace)).toBe(1)
  expect(replayed(await post(testWorkspace.service, 'k', { n: 1 }))).toBe('true')
})

test('crash after create in a declared collection, or after a function: next attempt: same document, same run', async () => {
  const testWorkspace = await createTestWorkspace()
  const schema = { type: 'object', properties: { n: { type: 'integer' } } }
  const declared = {
    workspace_id: testWorkspace.workspaceId,
    collection: 'table',
    store: 'relational',
    schema,
  }
  await call('POST', '/v1/schemas', { as: testWorkspace.operator, body: declared })
  await deploy(testWorkspace, 'draw', 'export default () => crypto.randomUUID()')
  const asks = [
    [() => post(testWorkspace.service, 'k', { n: 1 }, '/v1/collections/table/documents'), 'true'],
    [() => post(testWorkspace.service, 'k', {}, '/v1/functions/draw/invoke'), null],
  ] as const
  for (const [ask, isReplayed] of asks) {
    const first = await ask()
    await simulateCrash(testWorkspace)
    const again = await ask()
    expect([again.body, replayed(again)]).toEqual([first.body, isReplayed])
  }
  expect(await count(testWorkspace, 'table')).toBe(1)
})

test('crash after a batch: next attempt: finds the same documents', async () => {
  const testWorkspace = await createTestWorkspace()
  const ops = [1, 2, 3].map((n) => ({ op: 'create', data: { n } }))
  const ask = () => post(testWorkspace.service, 'k', { ops }, '/v1/collections/orders/batch')
  const first = await ask()
  expect([first.status, first.body.results.length]).toEqual([200, 3])
  await simulateCrash(testWorkspace)
  const again = await ask()
  expect([again.status, replayed(again), again.body]).toEqual([200, 'true', first.body])
  expect(await count(testWorkspace)).toBe(3)
})

test.each([true, false])(
  'crash after a batch of increments (declared collection: %s): next attempt: applied once',
  async (isDeclared) => {
    const testWorkspace = await createTestWorkspace()
    const collection = isDeclared ? 'table' : 'orders'
    const schema = { type: 'object', properties: { n: { type: 'integer' } } }
    const declared = { workspace_id: testWorkspace.workspaceId, collection, store: 'relational', schema }
    if (isDeclared) await call('POST', '/v1/schemas', { as: testWorkspace.operator, body: declared })
    const path = `/v1/collections/${collection}/documents`
    const { body: made } = await post(testWorkspace.service, 'made', { n: 1 }, path)
    const increment = { op: 'increment', id: made.id, field: 'n' }
    const ops = [increment, { op: 'create', data: { n: 7 } }]
    const ask = () => post(testWorkspace.service, 'k', { ops }, `/v1/collections/${collection}/batch`)
    const alone = () =>
      post(testWorkspace.service, 'k1', { ops: [increment] }, `/v1/collections/${collection}/batch`)
    for (const each of [ask, alone]) {
      const first = await each()
      expect(first.status).toBe(200)
      await simulateCrash(testWorkspace)
      for (let again = 0; again < 2; again++) {
        const { status, body } = await each()
        expect([status, body]).toEqual([200, first.body])
      }
    }
    const { body: now } = await call('GET', `${path}/${made.id}`, { as: testWorkspace.service })
    expect([now.n, await count(testWorkspace, collection)]).toEqual([3, 2])
  },
)

test('crash after a rollback: next attempt: the same refusal, not a success', async () => {
  const testWorkspace = await createTestWorkspace()
  const { body: made } = await post(testWorkspace.service, 'made', { n: 1 })
  const increment = { op: 'increment', id: made.id, field: 'n' }
  const ops = [increment, { ...increment, if_version: 99 }]
  const ask = () => post(testWorkspace.service, 'k', { ops }, '/v1/collections/orders/batch')
  const first = await ask()
  expect(first.status).toBe(412)
  await simulateCrash(testWorkspace)
  expect((await ask()).status).toBe(412)
})

/** Leaves the claim as if its request had been cut off before its effect. */
const cutOff = (workspace: TestWorkspace, lease: string) =>
  asSuperuser(
    `update tenon.idempotency set done = false, status = null, reply = null, held_until = now() + $2::interval
     where workspace_id = $1`,
    [workspace.workspaceId, lease],
  )

test('claim: process is gone: free within 5 s, which Retry-After says; same body runs once, another is refused', async () => {
  const testWorkspace = await createTestWorkspace()
  await post(testWorkspace.service, 'k', { n: 1 })
  await cutOff(testWorkspace, `${ACCESS_LIMITS.idempotencyLeaseSeconds} seconds`)
  const held = await post(testWorkspace.service, 'k', { n: 1 })
  expect(held.body.code).toBe('idempotency_in_flight')
  const wait = Number(held.headers.get('retry-after'))
  expect(wait).toBeGreaterThan(1)
  expect(wait).toBeLessThanOrEqual(5)
  const free = await eventually(async () => {
    const again = await post(testWorkspace.service, 'k', { n: 2 })
    return again.body.code === 'idempotency_in_flight' ? undefined : again
  })
  expect(free.body.code).toBe('idempotency_key_reused')
  await cutOff(testWorkspace, '0 seconds')
  const race = await Promise.all(Array.from({ length: 10 }, () => post(testWorkspace.service, 'k', { n: 1 })))
  expect(race.filter((reply) => reply.status === 201 && replayed(reply) === null)).toHaveLength(1)
  expect(await count(testWorkspace)).toBe(1)
})

test('crash during creation of a tenant, workspace or execution: next attempt: continues', async () => {
  const testWorkspace = await createTestWorkspace()
  const source = `document: { dsl: '1.0.3', namespace: t, name: f, version: '1.0.0' }\ndo: [{ a: { set: { ok: true } } }]`
  await call('POST', `${testWorkspace.flows}/definitions`, { as: testWorkspace.operator, body: { source } })
  await call('POST', `${testWorkspace.flows}/definitions/f/versions`, {
    as: testWorkspace.operator,
    body: {},
  })
  const workspace = { tenant_id: testWorkspace.tenantId, name: 'X', slug: unique('x') }
  const asks = [
    ['/v1/tenants', { name: 'X', slug: unique('x') }, 202],
    ['/v1/workspaces', workspace, 202],
    [`${testWorkspace.flows}/definitions/f/executions`, { input: { n: 1 } }, 201],
  ] as const
  for (const [path, body, status] of asks) {
    const key = unique('k')
    const first = await post(testWorkspace.operator, key, body, path)
    await simulateCrash(testWorkspace, body)
    const again = await post(testWorkspace.operator, key, body, path)
    expect([path, again.status, again.body.id]).toEqual([path, status, first.body.id])
    expect(replayed(again)).toBeNull()
  }
  const { body } = await call('GET', `${testWorkspace.flows}/executions`, { as: testWorkspace.operator })
  expect(body.data).toHaveLength(1)
})

test('tenant creation: never started: begins again under the same ids; failed in a step: stays failed', async () => {
  const testWorkspace = await createTestWorkspace()
  const [key, body] = [unique('k'), { name: 'X', slug: unique('x') }]
  const first = await post(testWorkspace.operator, key, body, '/v1/tenants')
  // A job that still runs would find its tenant in another state, and fail.
  await endOf(testWorkspace, first.body.id)
  const refuse = async (state: 'deleted' | 'provisioning_failed', detail: string) => {
    await simulateCrash(testWorkspace, body)
    const error = { code: 'dependency_unavailable', detail }
    const operation = `update tenon.operations set state = 'failed', error = $2 where id = $1 returning target`
    const [row] = await asSuperuser<{ target: string }>(operation, [first.body.id, error])
    await asSuperuser('update tenon.tenants set state = $2, slug = id where id = $1', [row?.target, state])
    await post(testWorkspace.operator, key, body, '/v1/tenants')
    return (await call('GET', `/v1/tenants/${row?.target}`, { as: testWorkspace.operator })).body
  }
  expect(await refuse('deleted', 'Temporal did not accept the job.')).toMatchObject({
    // A step may already be complete when the state is read.
    state: expect.stringMatching(/^(provisioning|active)$/),
    slug: body.slug,
  })
  expect(await refuse('provisioning_failed', 'A step failed.')).toMatchObject({
    state: 'provisioning_failed',
  })
})

test('crash after creating an API key: next attempt: the same key, with its text', async () => {
  const testWorkspace = await createTestWorkspace()
  const key = unique('k')
  const body = { workspace_id: testWorkspace.workspaceId, kind: 'anon', name: 'x' }
  const ask = () => post(testWorkspace.operator, key, body, '/v1/api-keys')
  const first = await ask()
  expect(first.status).toBe(201)
  await simulateCrash(testWorkspace, body)
  const again = await ask()
  expect([again.status, again.body, replayed(again)]).toEqual([201, first.body, 'true'])
})
