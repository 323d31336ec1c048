/**
 * Declared collections in the database: which tables can be created or changed, by which role, and that row-level
 * security stays.
 */

import { expect, test } from 'vitest'
import { ofTenant, tables } from '../../src/access/openers.ts'
import { randomIds } from '../../src/core/ids.ts'
import type { TenantId, WorkspaceRef } from '../../src/core/tenant.ts'
import { sql } from '../../src/infra/postgres/sql.ts'
import { createTable, sqlAsRole } from '../support/clients/sql-as-role.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  type TestWorkspace,
} from '../support/fixtures/tenants.ts'
import { openInProcessPlatform } from '../support/stack/in-process-platform.ts'
import { openCollectionsToAnon } from '../support/stack/workspace-settings.ts'

test('database roles: only the owner of the tables of collections creates any, and only theirs', async () => {
  const workspace = await createTestWorkspace()
  const own = [workspace.tenantId, workspace.workspaceId]
  for (const role of [
    'none',
    'tenon_admin',
    'tenon_operator',
    'tenon_service',
    'tenon_user',
    'tenon_anon',
    'tenon_tables',
  ])
    for (const schema of role === 'tenon_tables' ? ['tenon', 'public'] : ['tenon', 'tenon_data', 'public'])
      await expect(sqlAsRole(role, own, `create table ${schema}.x (id int)`)).rejects.toThrow(
        /permission denied/,
      )
  const { id } = await createTable(workspace)
  for (const role of ['none', 'tenon_admin', 'tenon_operator', 'tenon_service', 'tenon_user', 'tenon_anon'])
    for (const text of [
      `drop table tenon_data."${id}"`,
      `alter table tenon_data."${id}" no force row level security`,
      `create policy open on tenon_data."${id}" using (true)`,
    ])
      await expect(sqlAsRole(role, own, text)).rejects.toThrow(/permission denied|must be owner/)
})

test('tables of collections opened for another tenant or workspace: refused', async () => {
  const [a, b] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const sibling = await addTestWorkspace(a)
  const platform = openInProcessPlatform()
  const refOf = ({ tenantId, workspaceId }: TestWorkspace) => ({ tenantId, workspaceId }) as WorkspaceRef
  const adminOf = ({ tenantId }: TestWorkspace) =>
    ofTenant(platform.access, tenantId as TenantId, 'test', randomIds)
  try {
    expect(() => tables(adminOf(a), refOf(b))).toThrow('Not found')
    expect(() => tables(adminOf(b), refOf(a))).toThrow('Not found')
    // Each scope changes the declarations of its own workspace alone.
    const { id } = await createTable(a)
    const change = sql`update schemas set mode = 'off' where id = ${id} returning id`
    expect(await tables(adminOf(a), refOf(sibling)).rows(change)).toEqual([])
    expect(await tables(adminOf(a), refOf(a)).rows(change)).toEqual([{ id }])
  } finally {
    await platform.close()
  }
})

/** A declaration, and the statements of a table that is isolated. */
const ISOLATED = (id: string, { tenantId, workspaceId }: TestWorkspace) => [
  `create table tenon_data."${id}" (tenant_id text not null, workspace_id text not null, id uuid primary key,
    check (tenant_id = '${tenantId}' and workspace_id = '${workspaceId}'))`,
  `call tenon.allow('tenon_service', 'tenon_data."${id}"', 'workspace', 'select')`,
]
const OF_WORKSPACE = 'tenant_id = tenon.tenant() and workspace_id = tenon.workspace()'

/** The condition of a policy that is decided once for a statement. */
const inWorkspace = (ids: readonly string[]) =>
  `(select tenon.in_workspace('${ids.join("', '")}')) is not null`

test('declaration whose table is not isolated: is not committed', async () => {
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const own = [workspace.tenantId, workspace.workspaceId]
  const id = 'sch_01k5zzzzzzzzzzzzzzzzzzzzzz'
  const policy = (condition: string) =>
    `create policy anon_read on tenon_data."${id}" for select to tenon_anon using (${condition})`
  /** Ends with the check that would run at the commit. */
  const declare = (statements: readonly string[]) =>
    sqlAsRole(
      'tenon_admin',
      own,
      `insert into tenon.schemas (id, tenant_id, workspace_id, collection, store, schema, mode)
         values ('${id}', '${workspace.tenantId}', '${workspace.workspaceId}', 'x', 'relational', '{}', 'off');
       set local role tenon_tables; ${statements.join('; ')}; set constraints all immediate; select 1 as n`,
    )
  const [table = '', allow = ''] = ISOLATED(id, workspace)
  for (const extra of [
    [],
    [policy(OF_WORKSPACE)],
    [policy(`${OF_WORKSPACE} and true`)],
    [policy(`${OF_WORKSPACE} and case when tenant_id = 'x' then true end`)],
    [policy(`${OF_WORKSPACE} and (true or false)`)],
    [policy('tenant_id = tenon.tenant() and workspace_id = (select tenon.anon_workspace())')],
    [policy(inWorkspace(own))],
    [policy(`${inWorkspace(own)} and (tenant_id = 'x' or true)`)],
    [policy(`${inWorkspace(own)} and case when tenant_id = 'x' then true end`)],
    [policy(inWorkspace(own).replace('in_workspace', 'in_open_workspace'))],
  ])
    expect(await declare([table, allow, ...extra])).toEqual([{ n: 1 }])
  for (const statements of [
    [],
    [table],
    [table, allow, `alter table tenon_data."${id}" no force row level security`],
    [table, allow, `alter table tenon_data."${id}" disable row level security`],
    [ISOLATED(id, other)[0] ?? '', allow],
    [table.replace(' and workspace_id', ' or workspace_id'), allow],
    ...[
      'true',
      'tenant_id = tenon.tenant()',
      'workspace_id = tenon.workspace() and tenant_id = tenon.tenant()',
      `${OF_WORKSPACE} or true`,
      `(${OF_WORKSPACE}) or tenant_id = 'x'`,
      `true or (${OF_WORKSPACE})`,
      `not (${OF_WORKSPACE})`,
      `tenant_id = '${other.tenantId}' and workspace_id = tenon.workspace()`,
      inWorkspace([other.tenantId, other.workspaceId]),
      inWorkspace([workspace.tenantId, other.workspaceId]),
      inWorkspace([other.tenantId, workspace.workspaceId]),
      `${inWorkspace(own)} or true`,
      `(${inWorkspace(own)} and false) or true`,
      `not (${inWorkspace(own)})`,
      inWorkspace(own).replace('is not null', 'is null'),
      `(select tenon.in_workspace('${own.join("', '")}'))`,
      `tenon.tenant() is not null`,
    ].map((condition) => [table, allow, policy(condition)]),
    [table, allow, `create policy x on tenon_data."${id}" for insert to tenon_user with check (true)`],
    [
      table,
      allow,
      `create policy x on tenon_data."${id}" for update to tenon_user using (${OF_WORKSPACE}) with check (true)`,
    ],
  ])
    await expect(declare(statements), statements.at(-1)).rejects.toThrow(/not isolated/)
})

test('declaration whose table is missing: shows no earlier documents, accepts none', async () => {
  const workspace = await createTestWorkspace()
  await openCollectionsToAnon(workspace)
  const path = '/v1/collections/y/documents'
  const own = [workspace.tenantId, workspace.workspaceId]
  await asSuperuser(
    `insert into tenon.documents (tenant_id, workspace_id, collection, id, data)
     values ($1, $2, 'y', gen_random_uuid(), '{"secret": "kept"}')`,
    own,
  )
  // A superuser alone can: for all others the table must exist.
  await asSuperuser(`begin; set local session_replication_role = replica;
    insert into tenon.schemas (id, tenant_id, workspace_id, collection, store, schema, mode, access) values
      ('sch_01k5zzzzzzzzzzzzzzzzzzzzzw', '${own.join("', '")}', 'y', 'relational', '{}', 'off', '{"anon": {"read": false}}');
    commit`)
  for (const as of [workspace.anon, workspace.service])
    for (const method of ['GET', 'POST']) {
      const reply = await call(method, path, { as, ...(method === 'POST' && { body: {} }) })
      expect(reply.status).toBeGreaterThanOrEqual(400)
      expect(JSON.stringify(reply.body)).not.toContain('kept')
    }
  for (const role of ['tenon_admin', 'tenon_operator'])
    for (const change of ["update tenon.schemas set access = '{}'", 'delete from tenon.schemas'])
      await expect(sqlAsRole(role, own, `${change} where collection = 'y'`)).rejects.toThrow(
        /permission denied/,
      )
})

test('anon role in the database: may do what `access` allows, nothing else', async () => {
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const ref = [workspace.tenantId, workspace.workspaceId]
  const none = { read: true, create: false, update: false, delete: false }
  const statements = (table: string) => ({
    create: `insert into ${table} (id, c1) values (gen_random_uuid(), 2)`,
    update: `update ${table} set c1 = 3 where c1 = 1 returning c1`,
    delete: `delete from ${table} where c1 = 1 returning c1`,
  })
  for (const access of [
    none,
    { ...none, create: true },
    { ...none, update: true },
    { ...none, delete: true },
  ]) {
    const { id } = await createTable(workspace, { access: { anon: access } })
    for (const [action, text] of Object.entries(statements(`tenon_data."${id}"`))) {
      if (!access[action as keyof typeof access]) {
        await expect(sqlAsRole('tenon_anon', ref, text)).rejects.toThrow(/permission denied/)
        continue
      }
      expect(await sqlAsRole('tenon_anon', ref, text)).toHaveLength(action === 'create' ? 0 : 1)
      const foreign = sqlAsRole('tenon_anon', [other.tenantId, other.workspaceId], text)
      if (action === 'create') await expect(foreign).rejects.toThrow(/row-level security|check constraint/)
      else expect(await foreign).toEqual([])
    }
  }
})

test('row of a declaration: changed by no admin but for the state of its indexes', async () => {
  const [a, b] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const { id } = await createTable(a)
  const own = [a.tenantId, a.workspaceId]
  const set = (what: string) => `update tenon.schemas set ${what} where id = '${id}' returning id`
  for (const what of [
    `tenant_id = '${b.tenantId}'`,
    `relation = 'x'`,
    'revision = 7',
    `id = 'sch_x'`,
    `store = 'document'`,
    `mode = 'off'`,
    `columns = '[]'`,
    `access = '{}'`,
  ])
    await expect(sqlAsRole('tenon_admin', own, set(what))).rejects.toThrow(
      /permission denied|only be updated to DEFAULT/,
    )
  expect(await sqlAsRole('tenon_admin', [b.tenantId, b.workspaceId], set(`indexes = '[]'`))).toEqual([])
  for (const role of ['tenon_service', 'tenon_anon', 'none'])
    await expect(sqlAsRole(role, own, set(`indexes = '[]'`))).rejects.toThrow(/permission denied/)
  expect(await sqlAsRole('tenon_admin', own, set(`indexes = '[]'`))).toEqual([{ id }])
})

test('changed table: forces row-level security, keeps its policies and counters', async () => {
  const workspace = await createTestWorkspace()
  const { id, collection } = await createTable(workspace)
  const as = workspace.operator
  const limits = { documents: 2 }
  await call('PUT', '/v1/quotas', { as, body: { workspace_id: workspace.workspaceId, limits } })
  const schema = { properties: { n: { type: 'integer' }, m: { type: 'string' } } }
  const changed = await call('PUT', `/v1/schemas/${id}`, {
    as,
    body: { schema, access: { anon: { read: false } } },
  })
  expect(changed.status).toBe(200)
  const [table] = await asSuperuser(
    `select relrowsecurity, relforcerowsecurity, (select array_agg(polname::text order by polname) from pg_policy
       where polrelid = c.oid) as policies from pg_class c where relname = $1`,
    [`${id}_1`],
  )
  const policies = ['counting', 'owner', 'service']
  expect(table).toEqual({ relrowsecurity: true, relforcerowsecurity: true, policies })
  const create = () =>
    call('POST', `/v1/collections/${collection}/documents`, { as: workspace.service, body: { n: 2 } })
  expect([(await create()).status, (await create()).body.code]).toEqual([201, 'quota_exceeded'])
})
