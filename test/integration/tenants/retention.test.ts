/** Retention of rows that expire by their age: meters, operations, deliveries; its settings; how many statements a workspace takes. */

import { v7 } from 'uuid'
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest'
import { inAnyState } from '../../../src/access/openers.ts'
import type { WorkspaceScope } from '../../../src/access/scope.ts'
import { openPlatform } from '../../../src/app/platform.ts'
import { typeId } from '../../../src/core/ids.ts'
import type { TenantId, WorkspaceId } from '../../../src/core/tenant.ts'
import { RETENTION_LIMITS } from '../../../src/features/retention/limits.ts'
import { workspaceRetention } from '../../../src/features/retention/workspace-retention.ts'
import { RUN_KINDS } from '../../../src/features/run-kinds.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { openLog } from '../../../src/infra/log.ts'
import { sqlAsRole } from '../../support/clients/sql-as-role.ts'
import { makeRetentionDue } from '../../support/fixtures/executions.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'

const opened = openPlatform(parseConfig(inject('tenon').env), openLog('silent', 'test'))
afterAll(() => opened.platform.close())

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const configure = (body: object, of = workspace, as = of.operator) =>
  call('POST', '/v1/services/configure', { as, body: { workspace_id: of.workspaceId, ...body } })

/** One row for each of `count` minutes that ended `days` ago. */
const addMeters = ({ tenantId, workspaceId }: TestWorkspace, days: number, count = 1) =>
  asSuperuser(
    `insert into tenon.meters select $1, $2, date_trunc('minute', now()) - $3 * interval '1 day' - n * interval '1 minute',
      1, 0, 0, 0, 0, '{}' from generate_series(1, $4::int) n`,
    [tenantId, workspaceId, days, count],
  )
const addOperation = ({ tenantId }: TestWorkspace, days: number | null) =>
  asSuperuser(
    `insert into tenon.operations (id, tenant_id, type, target, workflow_id, state, finished_at)
     values ($1, $2, 'test', 'x', 'x', 'succeeded', now() - $3 * interval '1 day')`,
    [typeId('op', v7()), tenantId, days],
  )

/** The days since each row of the workspace, and of operations of its tenant, rounded. */
async function kept({ tenantId, workspaceId }: TestWorkspace) {
  const rows = await asSuperuser<{ days: number }>(
    `select round(extract(epoch from now() - at) / 86400)::int as days from tenon.meters where workspace_id = $1
     union all select round(extract(epoch from now() - finished_at) / 86400)::int from tenon.operations
       where tenant_id = $2 and type = 'test' order by 1`,
    [workspaceId, tenantId],
  )
  return rows.map(({ days }) => days)
}

test('rows older than their period: removed, more than one statement takes as well; younger ones and those of others stay', async () => {
  const other = await createTestWorkspace()
  await asSuperuser("update tenon.workspaces set retention_due_at = 'infinity' where id = $1", [
    other.workspaceId,
  ])
  for (const of of [workspace, other]) {
    await addMeters(of, 91, RETENTION_LIMITS.rowsMax + 200)
    await addMeters(of, 88)
    await addOperation(of, 95)
    await addOperation(of, 80)
    await addOperation(of, null)
  }
  await makeRetentionDue(workspace)
  await eventually(async () => ((await kept(workspace)).length === 3 ? true : undefined))
  expect(await kept(workspace)).toEqual([80, 88, null])
  expect(await kept(other)).toHaveLength(RETENTION_LIMITS.rowsMax + 204)
})

test('periods of workspace and tenant: counted at once when they change; absent ones have their default again', async () => {
  const of = await createTestWorkspace()
  await addMeters(of, 50)
  await addMeters(of, 10)
  await addOperation(of, 50)
  await addOperation(of, 10)
  const changed = await configure(
    { retention: { meters: '20d' }, tenant: { retention: { operations: '30d', audit: '3650d' } } },
    of,
  )
  expect(changed.body).toMatchObject({
    retention: { meters: '20d' },
    tenant: { retention: { operations: '30d', audit: '3650d' } },
  })
  await eventually(async () => ((await kept(of)).length === 2 ? true : undefined))
  expect(await kept(of)).toEqual([10, 10])
  const sibling = await addTestWorkspace(of)
  expect((await configure({ tenant: { retention: {} } }, sibling)).body.tenant).toEqual({ retention: {} })
  const { body } = await call('GET', `/v1/services?workspace_id=${of.workspaceId}`, { as: of.operator })
  expect(body).toMatchObject({ retention: { meters: '20d' }, tenant: { retention: {} } })
})

test.each([
  ['retention.mcp_calls', '29d', { retention: { mcp_calls: '29d' } }],
  ['retention.meters', '1h', { retention: { meters: '1h' } }],
  ['retention.webhook_deliveries', '3651d', { retention: { webhook_deliveries: '3651d' } }],
  ['tenant.retention.audit', '1d', { tenant: { retention: { audit: '1d' } } }],
  ['tenant.retention.operations', '2d', { tenant: { retention: { operations: '2d' } } }],
])('period %s of %s: refused, with the bounds', async (name, _period, body) => {
  const { status, body: problem } = await configure(body)
  expect([status, problem.code, problem.errors?.[0].name]).toEqual([400, 'validation_failed', name])
  expect(problem.detail).toMatch(/lies between/)
})

test('periods of the tenant: admins of one workspace cannot set them, admins of the tenant can, those of another cannot', async () => {
  const of = await createTestWorkspace()
  const body = { tenant: { retention: { audit: '60d' } } }
  const change = async (claims: object) => (await configure(body, of, await tokenOf({ ...claims }))).body
  const bound = { tenant_id: of.tenantId, workspace_id: of.workspaceId }
  expect(await change({ ...bound, roles: ['workspace_admin'] })).toMatchObject({
    status: 403,
    detail: 'Only admins of the tenant, and operators, can change `tenant`.',
  })
  const foreign = { tenant_id: workspace.tenantId, roles: ['tenant_admin'] }
  expect(await change(foreign)).toMatchObject({ status: 404 })
  const periods = () => asSuperuser('select retention from tenon.tenants where id = $1', [of.tenantId])
  expect(await periods()).toEqual([{ retention: {} }])
  expect(await change({ tenant_id: of.tenantId, roles: ['tenant_admin'] })).toMatchObject(body)
  expect(await periods()).toEqual([{ retention: { audit: '60d' } }])
})

/** The statements that one look at a workspace takes. */
async function countStatements({ tenantId, workspaceId }: TestWorkspace): Promise<number> {
  const ref = { tenantId: tenantId as TenantId, workspaceId: workspaceId as WorkspaceId }
  const [scope, service] = (['workspace_admin', 'service'] as const).map((role) =>
    inAnyState(opened.platform.access, ref, { subject: 'test', role }),
  ) as [WorkspaceScope, WorkspaceScope]
  const batches = vi.spyOn(opened.parts.database, 'batch')
  const context = { scope, service, isActive: true }
  await workspaceRetention(RUN_KINDS).run(context, {
    retention: { workspace: {}, tenant: {} },
  })
  const count = batches.mock.calls.length
  batches.mockRestore()
  return count
}

test('workspace with nothing to remove: few statements, then rest until the next hour: 2,000 of them take some five a second', async () => {
  const of = await createTestWorkspace()
  const setBack =
    "update tenon.workspaces set usage_until = usage_until - interval '2 hours', retention_due_at = 'infinity' where id = $1"
  await asSuperuser(setBack, [of.workspaceId])
  const [hourly, further] = [await countStatements(of), await countStatements(of)]
  expect([hourly, further]).toEqual([9, 6])
  const [row] = await asSuperuser<{ seconds: number }>(
    `select extract(epoch from retention_due_at - date_trunc('hour', now(), 'UTC'))::int as seconds from tenon.workspaces where id = $1`,
    [of.workspaceId],
  )
  // Some minutes after the hour has ended, or sooner if the pause ends before.
  expect(row?.seconds).toBeGreaterThan(3_500)
  expect(row?.seconds).toBeLessThanOrEqual(3_600 + 120 + RETENTION_LIMITS.usageSpreadSeconds)
  expect((2_000 * hourly + 2_000 / RETENTION_LIMITS.workspacesMax) / 3_600).toBeLessThan(5.5)
})

test('due workspaces and chains: found by an index, however many there are', async () => {
  for (const table of ['workspaces', 'audit_heads', 'mcp_call_heads']) {
    const plan = await sqlAsRole(
      'tenon_reconciler',
      ['', ''],
      `set local enable_seqscan = off;
       set local enable_bitmapscan = off;
       explain select 1 from tenon.${table} where retention_due_at < now() order by retention_due_at limit 20`,
    )
    const text = JSON.stringify(plan)
    expect(text, table).toMatch(/Index (Only )?Scan using \w*retention/)
    expect(text, table).not.toMatch(/Sort/)
  }
})
