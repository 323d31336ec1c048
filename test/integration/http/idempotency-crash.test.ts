/** A process dies between effect and reply: the next attempt under the key finds the first effect. */

import { expect, test } from 'vitest'
import { count, cutOff, deploy, post, replayed } from '../../support/clients/idempotency.ts'
import { aRoom, asSuperuser, call, unique } from '../../support/fixtures/tenants.ts'

test('crash after create: next attempt: same document, no second one', async () => {
  const room = await aRoom()
  const first = await post(room.service, 'k', { n: 1 })
  await cutOff(room)
  const again = await post(room.service, 'k', { n: 1 })
  expect([again.status, replayed(again), again.body]).toEqual([201, null, first.body])
  expect(await count(room)).toBe(1)
  expect(replayed(await post(room.service, 'k', { n: 1 }))).toBe('true')
})

test('crash after create in a declared collection, or after a function: next attempt: same document, same run', async () => {
  const room = await aRoom()
  const schema = { type: 'object', properties: { n: { type: 'integer' } } }
  const declared = { workspace_id: room.workspaceId, collection: 'table', store: 'relational', schema }
  await call('POST', '/v1/schemas', { as: room.operator, body: declared })
  await deploy(room, 'draw', 'export default () => crypto.randomUUID()')
  const asks = [
    () => post(room.service, 'k', { n: 1 }, '/v1/collections/table/documents'),
    () => post(room.service, 'k', {}, '/v1/functions/draw/invoke'),
  ]
  for (const ask of asks) {
    const first = await ask()
    await cutOff(room)
    const again = await ask()
    expect([again.body, replayed(again)]).toEqual([first.body, null])
  }
  expect(await count(room, 'table')).toBe(1)
})

test('crash after a batch: next attempt: finds the same documents', async () => {
  const room = await aRoom()
  const ops = [1, 2, 3].map((n) => ({ op: 'create', data: { n } }))
  const ask = () => post(room.service, 'k', { ops }, '/v1/collections/orders/batch')
  const first = await ask()
  expect([first.status, first.body.results.length]).toEqual([200, 3])
  await cutOff(room)
  const again = await ask()
  expect([again.status, replayed(again), again.body]).toEqual([200, null, first.body])
  expect(await count(room)).toBe(3)
})

test.each([true, false])(
  'crash after a batch of increments (declared collection: %s): next attempt: applied once',
  async (isDeclared) => {
    const room = await aRoom()
    const collection = isDeclared ? 'table' : 'orders'
    const schema = { type: 'object', properties: { n: { type: 'integer' } } }
    const declared = { workspace_id: room.workspaceId, collection, store: 'relational', schema }
    if (isDeclared) await call('POST', '/v1/schemas', { as: room.operator, body: declared })
    const path = `/v1/collections/${collection}/documents`
    const { body: made } = await post(room.service, 'made', { n: 1 }, path)
    const increment = { op: 'increment', id: made.id, field: 'n' }
    const ops = [increment, { op: 'create', data: { n: 7 } }]
    const ask = () => post(room.service, 'k', { ops }, `/v1/collections/${collection}/batch`)
    const alone = () => post(room.service, 'k1', { ops: [increment] }, `/v1/collections/${collection}/batch`)
    for (const each of [ask, alone]) {
      expect((await each()).status).toBe(200)
      await cutOff(room)
      for (let again = 0; again < 2; again++) {
        const { status, body } = await each()
        expect([status, body.code, body.detail]).toEqual([
          409,
          'idempotency_reply_lost',
          'It was cut off after all of it was done, and before its reply was kept.',
        ])
      }
    }
    const { body: now } = await call('GET', `${path}/${made.id}`, { as: room.service })
    expect([now.n, await count(room, collection)]).toEqual([3, 2])
  },
)

test('crash after a rollback: next attempt: the same refusal, not a success', async () => {
  const room = await aRoom()
  const { body: made } = await post(room.service, 'made', { n: 1 })
  const increment = { op: 'increment', id: made.id, field: 'n' }
  const ops = [increment, { ...increment, if_version: 99 }]
  const ask = () => post(room.service, 'k', { ops }, '/v1/collections/orders/batch')
  const first = await ask()
  expect(first.status).toBe(412)
  await cutOff(room)
  expect((await ask()).status).toBe(412)
})

test('claim: may still be running: idempotency_in_flight; lapsed: same body runs once, another is refused', async () => {
  const room = await aRoom()
  await post(room.service, 'k', { n: 1 })
  await cutOff(room)
  await asSuperuser(
    "update tenon.idempotency set held_until = now() + interval '1 minute' where workspace_id = $1",
    [room.workspaceId],
  )
  expect((await post(room.service, 'k', { n: 1 })).body.code).toBe('idempotency_in_flight')
  await cutOff(room)
  expect((await post(room.service, 'k', { n: 2 })).body.code).toBe('idempotency_key_reused')
  const race = await Promise.all(Array.from({ length: 10 }, () => post(room.service, 'k', { n: 1 })))
  expect(race.filter((reply) => reply.status === 201 && replayed(reply) === null)).toHaveLength(1)
  expect(await count(room)).toBe(1)
})

test('crash during creation of a tenant, workspace or execution: next attempt: continues', async () => {
  const room = await aRoom()
  const source = `document: { dsl: '1.0.3', namespace: t, name: f, version: '1.0.0' }\ndo: [{ a: { set: { ok: true } } }]`
  await call('POST', `${room.flows}/definitions`, { as: room.operator, body: { source } })
  await call('POST', `${room.flows}/definitions/f/versions`, { as: room.operator, body: {} })
  const workspace = { tenant_id: room.tenantId, name: 'X', slug: unique('x') }
  const asks = [
    ['/v1/tenants', { name: 'X', slug: unique('x') }, 202],
    ['/v1/workspaces', workspace, 202],
    [`${room.flows}/definitions/f/executions`, { input: { n: 1 } }, 201],
  ] as const
  for (const [path, body, status] of asks) {
    const key = unique('k')
    const first = await post(room.operator, key, body, path)
    await cutOff(room, body)
    const again = await post(room.operator, key, body, path)
    expect([path, again.status, again.body.id]).toEqual([path, status, first.body.id])
    expect(replayed(again)).toBeNull()
  }
  const { body } = await call('GET', `${room.flows}/executions`, { as: room.operator })
  expect(body.data).toHaveLength(1)
})

test('tenant creation: failed without being started: begins again under the same ids; failed in a step: stays failed', async () => {
  const room = await aRoom()
  const [key, body] = [unique('k'), { name: 'X', slug: unique('x') }]
  const first = await post(room.operator, key, body, '/v1/tenants')
  const refuse = async (detail: string) => {
    await cutOff(room, body)
    const error = { code: 'dependency_unavailable', detail }
    const operation = `update tenon.operations set state = 'failed', error = $2 where id = $1 returning target`
    const [row] = await asSuperuser<{ target: string }>(operation, [first.body.id, error])
    const tenant = "update tenon.tenants set state = 'provisioning_failed', slug = id where id = $1"
    await asSuperuser(tenant, [row?.target])
    await post(room.operator, key, body, '/v1/tenants')
    return (await call('GET', `/v1/tenants/${row?.target}`, { as: room.operator })).body
  }
  expect(await refuse('Temporal did not take the work.')).toMatchObject({
    // A step may already be complete when the state is read.
    state: expect.stringMatching(/^(provisioning|active)$/),
    slug: body.slug,
  })
  expect(await refuse('A step failed.')).toMatchObject({ state: 'provisioning_failed' })
})

test('crash after creating an API key, whose text cannot be rebuilt: next attempt: conflict', async () => {
  const room = await aRoom()
  const key = unique('k')
  const body = { workspace_id: room.workspaceId, kind: 'anon', name: 'x' }
  const ask = () => post(room.operator, key, body, '/v1/api-keys')
  expect((await ask()).status).toBe(201)
  await cutOff(room, body)
  const again = await ask()
  expect([again.status, again.body.code, replayed(await ask())]).toEqual([409, 'conflict', 'true'])
})
