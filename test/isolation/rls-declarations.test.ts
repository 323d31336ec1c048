/**
 * Declared collections in the database: which tables can be created or changed, by which role, and that row-level
 * security stays.
 */

import { expect, test } from 'vitest'
import { createTable, sqlAsRole } from '../support/clients/sql-as-role.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  type TestWorkspace,
} from '../support/fixtures/tenants.ts'
import { openCollectionsToAnon } from '../support/stack/workspace-settings.ts'

test('database roles: create tables only through a declaration of their own tenant', async () => {
  const [a, b] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const own = [a.tenantId, a.workspaceId]
  for (const role of ['none', 'tenon_admin', 'tenon_operator', 'tenon_service', 'tenon_anon']) {
    for (const schema of ['tenon', 'tenon_data', 'public'])
      await expect(sqlAsRole(role, own, `create table ${schema}.x (id int)`)).rejects.toThrow(
        /permission denied/,
      )
    for (const inner of [
      "act_for_workspace('a', 'b')",
      'create_table(null, null)',
      'alter_table(null, null, null)',
    ])
      await expect(sqlAsRole(role, own, `select tenon.${inner}`)).rejects.toThrow(/permission denied/)
  }
  const id = 'sch_01k5zzzzzzzzzzzzzzzzzzzzzz'
  const insert = (of: TestWorkspace, columns: string, schemaId = id) =>
    `insert into tenon.schemas (id, tenant_id, workspace_id, collection, store, schema, mode, columns)
     values ('${schemaId}', '${of.tenantId}', '${of.workspaceId}', 'x', 'relational', '{}', 'off', '${columns}');
     select tenon.create_collection_table('${of.tenantId}', '${of.workspaceId}', '${schemaId}', '{}')`
  await expect(sqlAsRole('tenon_admin', own, insert(b, '[]'))).rejects.toThrow(/row-level security/)
  await expect(sqlAsRole('tenon_admin', ['', ''], insert(a, '[]'))).rejects.toThrow(/row-level security/)
  await expect(sqlAsRole('tenon_service', own, insert(a, '[]'))).rejects.toThrow(/permission denied/)
  const HOSTILE = [
    '{}',
    '[{"column":"c2","type":"text"}]',
    '[{"column":"c1; drop table tenon.tenants","type":"text"}]',
    '[{"column":"c1","type":"text); drop table tenon.tenants; --"}]',
    '[{"column":"c1","type":"numeric"}]',
    '[{"column":"c1"}]',
    '[null]',
    ...[
      { format: 'date-time', of: 'c1' },
      { format: 'date-time', of: 'tenant_id' },
      { format: "x'); drop table tenon.tenants; --", of: 'c1' },
      {},
      null,
    ].map(
      (canonical) => `[{"property":"x","column":"c1","type":"bigint"},
        {"property":"x","column":"c2","type":"text","canonical":${JSON.stringify(canonical).replaceAll("'", "''")}}]`,
    ),
    JSON.stringify(Array.from({ length: 201 }, (_, n) => ({ column: `c${n + 1}`, type: 'text' }))),
  ]
  for (const columns of HOSTILE)
    await expect(sqlAsRole('tenon_admin', own, insert(a, columns))).rejects.toThrow(/not a/)
  await expect(sqlAsRole('tenon_admin', own, insert(a, '[]', 'x"; drop table y'))).rejects.toThrow(
    /check constraint/,
  )
  // Verifies that a valid declaration works, so the refusals above are meaningful.
  const good =
    '[{"property":"x","column":"c1","type":"timestamptz"},{"property":"y","column":"c2","type":"uuid"}]'
  const table = `select relname from pg_class where relname = '${id}'`
  expect(await sqlAsRole('tenon_admin', own, `${insert(a, good)}; ${table}`)).toEqual([{ relname: id }])
})

test('table functions called for another tenant or workspace: refused', async () => {
  const [a, b] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const sibling = await addTestWorkspace(a)
  const { id } = await createTable(a)
  const calls = (of: TestWorkspace) =>
    [
      `create_collection_table('${of.tenantId}', '${of.workspaceId}', '${id}', '{}')`,
      `change_collection_table('${of.tenantId}', '${of.workspaceId}', '${id}', '{}', 'off', '[]', '[]', '{}', '{}')`,
      `drop_collection_table('${of.tenantId}', '${of.workspaceId}', '${id}')`,
    ].map((text) => `select tenon.${text}`)
  for (const by of [b, sibling, { tenantId: b.tenantId, workspaceId: '' }, { tenantId: '', workspaceId: '' }])
    for (const text of calls(a))
      await expect(sqlAsRole('tenon_admin', [by.tenantId, by.workspaceId], text)).rejects.toThrow(
        /permission denied for the workspace/,
      )
  // In the caller's own workspace this declaration does not exist.
  for (const by of [b, sibling]) {
    const [create = '', change = '', drop = ''] = calls(by)
    const own = [by.tenantId, by.workspaceId]
    for (const text of [create, change])
      await expect(sqlAsRole('tenon_admin', own, text)).rejects.toThrow(/returned no rows/)
    expect(await sqlAsRole('tenon_admin', own, drop)).toEqual([{ drop_collection_table: false }])
  }
  for (const role of ['tenon_service', 'tenon_anon', 'none'])
    for (const text of calls(a))
      await expect(sqlAsRole(role, [a.tenantId, a.workspaceId], text)).rejects.toThrow(/permission denied/)
  expect(await asSuperuser(`select c1 from tenon_data."${id}"`)).toEqual([{ c1: '1' }])
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
  await asSuperuser(
    `insert into tenon.schemas (id, tenant_id, workspace_id, collection, store, schema, mode, access)
     values ('sch_01k5zzzzzzzzzzzzzzzzzzzzzw', $1, $2, 'y', 'relational', '{}', 'off', '{"anon": {"read": false}}')`,
    own,
  )
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

test('declaration changed with hostile columns, indexes or by another tenant: refused', async () => {
  const [a, b] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const { id } = await createTable(a)
  const own = [a.tenantId, a.workspaceId]
  const set = (what: string) => `update tenon.schemas set ${what} where id = '${id}' returning id`
  const change = (columns: string, indexes: string) =>
    `select tenon.change_collection_table(tenant_id, workspace_id, id, schema, mode, ${columns}, ${indexes}, access, '{}')
     from tenon.schemas where id = '${id}'`
  const HOSTILE = [
    [`'{}'`, 'indexes'],
    [`'[{"property":"n","column":"c1","type":"text"}]'`, 'indexes'],
    [`'[{"property":"x","column":"c1; drop table tenon.tenants","type":"text"}]'`, 'indexes'],
    [`'[{"property":"x","column":"c2","type":"text); drop table tenon.tenants; --"}]'`, 'indexes'],
    [`'[{"property":"x","column":"tenant_id","type":"text"}]'`, 'indexes'],
    [
      `'[{"property":"x","column":"c2","type":"text"},{"property":"y","column":"c2","type":"text"}]'`,
      'indexes',
    ],
    ['columns', `'[{"name":"i1","columns":["extra"]}]'`],
    ['columns', `'[{"name":"i1; drop table tenon.tenants","columns":["c1"]}]'`],
    ['columns', `'[{"name":"i1","columns":["c1, extra"]}]'`],
    ['columns', `'{}'`],
  ] as const
  for (const [columns, indexes] of HOSTILE)
    await expect(sqlAsRole('tenon_admin', own, change(columns, indexes))).rejects.toThrow(
      /^not (a|an|column|index)/,
    )
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
  // Verifies that a valid change works, so the refusals above are meaningful.
  const good = change(
    `'[{"property":"n","column":"c1","type":"bigint"},{"property":"x","column":"c2","type":"jsonb"}]'`,
    `'[{"name":"i1","fields":["n"],"columns":["c1"],"unique":false,"state":"ready"}]'`,
  )
  const revision = `select revision from tenon.schemas where id = '${id}'`
  expect(await sqlAsRole('tenon_admin', own, `${good}; ${revision}`)).toEqual([{ revision: 1 }])
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
