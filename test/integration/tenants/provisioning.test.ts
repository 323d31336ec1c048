/** Provisions tenants and workspaces by a workflow, with a job to follow, for operators and tenant admins. */

import { v7 } from 'uuid'
import { describe, expect, inject, test } from 'vitest'
import { typeId } from '../../../src/core/ids.ts'
import { QUEUES } from '../../../src/core/work.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace as createBareTestWorkspace,
  createTestWorkspaceWithStorage as createTestWorkspace,
  eventually,
  operator,
  provisionTenant,
  provisionWorkspace,
  tokenOf,
  unique,
} from '../../support/fixtures/tenants.ts'
import { openTemporal } from '../../support/stack/temporal.ts'

test('create tenant without Prefer: 202 and a job that lists its steps', async () => {
  const as = await operator()
  const reply = await call('POST', '/v1/tenants', { as, body: { name: 'Acme', slug: unique('acme') } })
  expect(reply.status).toBe(202)
  expect(reply.headers.get('location')).toBe(`/v1/operations/${reply.body.id}`)
  const done = await eventually(async () => {
    const { body } = await call('GET', reply.headers.get('location') ?? '', { as })
    return body.state === 'succeeded' ? body : undefined
  })
  expect(done.steps).toEqual([{ name: 'activate_tenant', state: 'succeeded' }])
  expect(done.finished_at).not.toBeNull()
  const tenant = await call('GET', `/v1/tenants/${done.target}`, { as })
  expect(tenant.body).toMatchObject({ id: done.target, name: 'Acme', state: 'active' })
})

test('create with Prefer: wait: 201 and the resource itself', async () => {
  const as = await operator()
  const headers = { prefer: 'respond-async, wait=30' }
  const tenant = await call('POST', '/v1/tenants', { as, headers, body: { name: 'A', slug: unique('a') } })
  expect([tenant.status, tenant.body.state]).toEqual([201, 'active'])
  expect(tenant.headers.get('location')).toBe(`/v1/tenants/${tenant.body.id}`)
  const body = { tenant_id: tenant.body.id, name: 'W', slug: 'main' }
  const workspace = await call('POST', '/v1/workspaces', { as, headers, body })
  expect([workspace.status, workspace.body.state]).toEqual([201, 'active'])
  expect(workspace.body.bucket).toMatch(/^main-[0-9a-z]{12}$/)
  const again = await call('POST', '/v1/workspaces', { as, headers, body })
  expect([again.status, again.body.code]).toEqual([409, 'conflict'])
})

/** Ids, names and times differ. Data keys are made when they are first needed; the audit log and events are written by the API. */
async function rowsOf(tenantId: string): Promise<Record<string, unknown[]>> {
  const tables = await asSuperuser<{ name: string }>(
    `select c.table_name as name from information_schema.columns c join information_schema.tables t
       using (table_schema, table_name)
     where table_schema = 'tenon' and column_name = 'tenant_id' and table_type = 'BASE TABLE'
       and table_name !~ '^(audit|payload_keys|api_keys|outbox)'`,
  )
  const found: Record<string, unknown[]> = {}
  for (const { name } of [{ name: 'tenants' }, ...tables]) {
    const owner = name === 'tenants' ? 'id' : 'tenant_id'
    const statement = `select to_jsonb(t) as row from tenon.${name} t where ${owner} = $1 order by 1`
    const rows = await asSuperuser<{ row: Record<string, unknown> }>(statement, [tenantId])
    const texts = rows.map(({ row }) => JSON.stringify(row).replaceAll(DIFFERENT, '"…"'))
    if (texts.length > 0) found[name] = texts.sort()
  }
  return found
}
const DIFFERENT = /"(ten|ws|op)_\w+(:[^"]*)?"|"(t|w|tenant|workspace)-[0-9a-f]{10}"|"\d{4}-[^"]*"/g

test('workspace of the tests, which is inserted: has the rows that provisioning leaves', async () => {
  const inserted = await createBareTestWorkspace()
  const as = inserted.operator
  const tenantId = await provisionTenant(as)
  await provisionWorkspace({ tenantId, operator: as })
  const rows = await rowsOf(tenantId)
  expect(Object.keys(rows)).toEqual(expect.arrayContaining(['tenants', 'workspaces', 'operations', 'quotas']))
  expect(await rowsOf(inserted.tenantId)).toEqual(rows)
})

describe('provisioning that fails', () => {
  /** Inserts a tenant and its job as the API does, with an unknown step. */
  async function startFailingProvisioning() {
    const { temporal, close } = openTemporal()
    const [tenantId, operationId] = [typeId('ten', v7()), typeId('op', v7())]
    const [slug, uuid] = [unique('doomed'), v7()]
    await asSuperuser(
      `insert into tenon.tenants (id, name, slug, state) values ($1, 'D', $2, 'provisioning')`,
      [tenantId, slug],
    )
    await asSuperuser(
      `insert into tenon.operations (id, tenant_id, type, target, workflow_id, state)
       values ($1, $2, 'tenant.create', $2, $2 || ':-:tenant-provision:' || $3, 'queued')`,
      [operationId, tenantId, uuid],
    )
    const input = {
      operation_id: operationId,
      kind: 'tenant',
      target: { tenantId, workspaceId: '-' },
      steps: ['levitate', 'activate_tenant'],
    }
    const start = {
      definition: 'provision',
      queue: QUEUES.provisioning,
      subject: 'tenant-provision',
      uuid,
    } as const
    await temporal.workflowsOf({ tenantId, workspaceId: '-' }).start({ ...start, input, summary: 'doomed' })
    await close()
    return { tenantId, operationId, slug }
  }

  test('unknown step: job and tenant show the failure, and the slug is free once it is deleted', async () => {
    const { tenantId, operationId, slug } = await startFailingProvisioning()
    const as = await operator()
    const failed = await eventually(async () => {
      const { body } = await call('GET', `/v1/operations/${operationId}`, { as })
      return body.state === 'failed' ? body : undefined
    })
    expect(failed.error).toMatchObject({ detail: expect.stringContaining('levitate') })
    expect(failed.steps).toMatchObject([{ name: 'levitate', state: 'failed', code: 'not_found' }])
    const tenant = await call('GET', `/v1/tenants/${tenantId}`, { as })
    expect(tenant.body.state).toBe('provisioning_failed')
    const again = () => call('POST', '/v1/tenants', { as, body: { name: 'D', slug } })
    expect((await again()).status).toBe(409)
    expect((await call('DELETE', `/v1/tenants/${tenantId}`, { as })).status).toBe(202)
    expect((await again()).status).toBe(202)
  })
})

test('ten concurrent creations with one slug: one succeeds', async () => {
  const as = await operator()
  const slug = unique('race')
  const replies = await Promise.all(
    Array.from({ length: 10 }, () => call('POST', '/v1/tenants', { as, body: { name: 'R', slug } })),
  )
  expect(replies.map(({ status }) => status).sort()).toEqual([202, ...Array(9).fill(409)])
})

test('tenant admin: creates workspaces in its own tenant only, without naming it', async () => {
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const as = await tokenOf({ roles: ['tenant_admin'], tenant_id: workspace.tenantId })
  const headers = { prefer: 'wait=30' }
  const mine = await call('POST', '/v1/workspaces', { as, headers, body: { name: 'W', slug: unique('w') } })
  expect([mine.status, mine.body.tenant_id]).toEqual([201, workspace.tenantId])
  const body = { tenant_id: other.tenantId, name: 'W', slug: unique('w') }
  expect((await call('POST', '/v1/workspaces', { as, body })).status).toBe(404)
  const list = await call('GET', '/v1/workspaces', { as })
  expect(new Set(list.body.data.map((w: { tenant_id: string }) => w.tenant_id))).toEqual(
    new Set([workspace.tenantId]),
  )
})

test('invalid or expired access token: token_invalid or token_expired', async () => {
  const claims = { roles: ['operator'] }
  const { url } = inject('tenon')
  const bad = [
    await tokenOf(claims, { typ: 'JWT' }),
    await tokenOf(claims, { issuer: 'https://elsewhere.example' }),
    await tokenOf(claims, { audience: `${url}/v2` }),
    await tokenOf({ ...claims, exp: undefined }),
    await tokenOf({ ...claims, nbf: Math.floor(Date.now() / 1_000) + 3_600 }),
    { authorization: 'Bearer eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0.eyJyb2xlcyI6WyJvcGVyYXRvciJdfQ.' },
  ]
  for (const as of bad) expect((await call('GET', '/v1/tenants', { as })).body.code).toBe('token_invalid')
  const expired = await tokenOf({ ...claims, exp: Math.floor(Date.now() / 1_000) - 60 })
  expect((await call('GET', '/v1/tenants', { as: expired })).body.code).toBe('token_expired')
  const unbound = await tokenOf({ roles: ['tenant_admin'] })
  expect((await call('GET', '/v1/tenants', { as: unbound })).status).toBe(403)
})

test('list of tenants: pages through all without duplicates', async () => {
  const as = await operator()
  await Promise.all([createBareTestWorkspace(), createBareTestWorkspace(), createBareTestWorkspace()])
  const [{ n } = { n: 0 }] = await asSuperuser<{ n: number }>('select count(*)::int as n from tenon.tenants')
  // Other tests create hundreds of tenants.
  const size = Math.max(2, Math.min(200, Math.floor(n / 5)))
  const seen = new Set<string>()
  let after = ''
  do {
    const { body } = await call('GET', `/v1/tenants?page[size]=${size}${after && `&page[after]=${after}`}`, {
      as,
    })
    for (const { id } of body.data) {
      expect(seen.has(id)).toBe(false)
      seen.add(id)
    }
    after = body.page.next ?? ''
  } while (after !== '')
  expect(seen.size).toBeGreaterThanOrEqual(3)
})
