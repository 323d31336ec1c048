/** Quotas that a tenant has for its workspaces: its admins divide them, and nobody gives out more than there is. */

import { beforeEach, expect, test } from 'vitest'
import {
  addTestWorkspace,
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../../support/fixtures/tenants.ts'

let one: TestWorkspace
let two: TestWorkspace
let admin: Caller

beforeEach(async () => {
  one = await createTestWorkspace()
  two = await addTestWorkspace(one)
  admin = await tokenOf({ roles: ['tenant_admin'], tenant_id: one.tenantId })
})

const set = (as: Caller, target: object, limits: object) =>
  call('PUT', '/v1/quotas', { as, body: { ...target, limits } })
const of = ({ workspaceId: workspace_id }: TestWorkspace) => ({ workspace_id })

test('quota that the tenant does not have itself: only operators set it', async () => {
  const { status, body } = await set(admin, of(one), { flows: 5 })
  expect([status, body.code]).toEqual([403, 'forbidden'])
  expect(body.detail).toBe('The tenant has no quota flows of its own to divide among its workspaces.')
  const own = await set(admin, { tenant_id: one.tenantId }, { flows: 5 })
  expect([own.status, own.body.detail]).toEqual([403, 'Only operators set quotas of a tenant.'])
  expect((await set(one.operator, of(one), { flows: 5 })).status).toBe(200)
})

test('quota of the tenant: its admins divide it, and a refusal names the limit and whose it is', async () => {
  const { tenantId: tenant_id, operator } = one
  const early = await set(operator, { tenant_id }, { flows: 10 })
  expect([early.status, early.body]).toMatchObject([
    409,
    { quota: 'flows', tenant_id, limit: 10, without_limit: [one.workspaceId, two.workspaceId].sort() },
  ])
  for (const workspace of [one, two]) await set(operator, of(workspace), { flows: 5 })
  const tenant = await set(operator, { tenant_id }, { flows: 10 })
  expect(tenant.body.quotas.flows).toEqual({ limit: 10, used: 10, remaining: 0 })

  const over = await set(admin, of(one), { flows: 6 })
  expect([over.status, over.body]).toMatchObject([409, { code: 'state_conflict', limit: 10, allotted: 11 }])
  expect(over.body.detail).toBe(
    `The quota flows of the tenant ${tenant_id} is 10, and its workspaces would have 11 together.`,
  )
  expect((await set(admin, of(one), { flows: -1 })).status).toBe(409)
  expect((await set(admin, of(two), { flows: 1 })).status).toBe(200)
  expect((await set(admin, of(one), { flows: 8 })).body.quotas.flows).toMatchObject({ limit: 8, used: 0 })
  // What is left goes to a new workspace, which has no more than that.
  const three = await addTestWorkspace(one)
  const read = await call('GET', `/v1/quotas?workspace_id=${three.workspaceId}`, { as: admin })
  expect(read.body.quotas.flows).toMatchObject({ limit: 1 })
  expect(read.body.quotas.users).toMatchObject({ limit: 10_000 })
})

test('parallel changes of several workspaces: together within the quota of the tenant', async () => {
  const { tenantId: tenant_id, operator } = one
  const others = await Promise.all([1, 2, 3].map(() => addTestWorkspace(one)))
  const all = [one, two, ...others]
  for (const workspace of all) await set(operator, of(workspace), { functions: 1 })
  expect((await set(operator, { tenant_id }, { functions: 12 })).status).toBe(200)
  const replies = await Promise.all(all.map((workspace) => set(admin, of(workspace), { functions: 5 })))
  const done = replies.filter(({ status }) => status === 200).length
  expect(replies.map(({ status }) => status).filter((status) => status !== 200 && status !== 409)).toEqual([])
  const { body } = await call('GET', `/v1/quotas?tenant_id=${tenant_id}`, { as: admin })
  expect(body.quotas.functions).toMatchObject({ limit: 12, used: 5 + 4 * done })
  expect(done).toBe(1)
})

test('admin of another tenant or of a workspace: sets none', async () => {
  const other = await createTestWorkspace()
  const stranger = await tokenOf({ roles: ['tenant_admin'], tenant_id: other.tenantId })
  expect((await set(stranger, of(one), { flows: 5 })).status).toBe(404)
  const place = { tenant_id: one.tenantId, workspace_id: one.workspaceId }
  const below = await tokenOf({ roles: ['workspace_admin'], ...place })
  expect((await set(below, of(one), { flows: 5 })).body.code).toBe('forbidden')
})

test('workspace that is being deleted, or could not be made: needs a share as well, since it may come back', async () => {
  const { tenantId: tenant_id, operator } = one
  for (const state of ['deleting', 'provisioning_failed']) {
    await asSuperuser('update tenon.workspaces set state = $1 where id = $2', [state, two.workspaceId])
    await set(operator, of(one), { flows: 5 })
    const { status, body } = await set(operator, { tenant_id }, { flows: 10 })
    expect([state, status, body.without_limit]).toEqual([state, 409, [two.workspaceId]])
  }
  await set(operator, of(two), { flows: 5 })
  expect((await set(operator, { tenant_id }, { flows: 10 })).status).toBe(200)
})

test('workspace that could not be made, and was deleted: its share is free again', async () => {
  const { tenantId: tenant_id, operator: as } = one
  const limits = { flows: 10 }
  for (const workspace of [one, two]) await set(as, of(workspace), { flows: 0 })
  expect((await set(as, { tenant_id }, limits)).status).toBe(200)
  const body = { tenant_id, name: 'W', slug: unique('w'), bucket: null }
  const make = async (slug: string) =>
    (await call('POST', '/v1/workspaces', { as, body: { ...body, slug }, headers: { prefer: 'wait=30' } }))
      .body.id
  const flowsOf = async (workspace_id: string) =>
    (await call('GET', `/v1/quotas?workspace_id=${workspace_id}`, { as })).body.quotas.flows.limit
  const failed = await make(unique('w'))
  expect(await flowsOf(failed)).toBe(10)
  await asSuperuser(`update tenon.workspaces set state = 'provisioning_failed' where id = $1`, [failed])
  const { body: removal } = await call('DELETE', `/v1/workspaces/${failed}`, { as })
  await eventually(async () => {
    const { state } = (await call('GET', `/v1/operations/${removal.id}`, { as })).body
    return state === 'succeeded' || undefined
  }, 60_000)
  expect(await flowsOf(await make(unique('w')))).toBe(10)
})
