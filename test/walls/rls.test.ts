/** The walls in the database itself: asked of its catalogue, and shown to be able to fail. */

import { Client } from 'pg'
import { expect, inject, test } from 'vitest'
import { migrate } from '../../src/platform/pg/migrate.ts'
import { DERIVED, deriveSecret } from '../../src/platform/secrets.ts'
import { aRoom, asSuperuser, call } from '../support/tenants.ts'

test('every table of the schema forces row-level security and has a policy', async () => {
  const open = await asSuperuser<{ relname: string }>(`
    select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'tenon' and c.relkind in ('r', 'p') and not (c.relrowsecurity and c.relforcerowsecurity
      and exists (select from pg_policy p where p.polrelid = c.oid))`)
  expect(open).toEqual([])
  const tables = await asSuperuser<{ count: string }>(
    `select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'tenon' and c.relkind = 'r'`,
  )
  expect(Number(tables[0]?.count)).toBeGreaterThanOrEqual(11)
})

test('no role of ours is superuser, bypasses RLS or inherits; the owner of the tables is none that logs in', async () => {
  const roles = await asSuperuser(`
    select rolname, rolsuper, rolbypassrls, rolcanlogin from pg_roles where rolname like 'tenon%' order by 1`)
  expect(roles.map((role) => Object.values(role))).toEqual([
    ['tenon_admin', false, false, false],
    ['tenon_anon', false, false, false],
    ['tenon_app', false, false, true],
    ['tenon_operator', false, false, false],
    ['tenon_owner', false, false, false],
    ['tenon_service', false, false, false],
  ])
  const owners = await asSuperuser(`
    select distinct r.rolname from pg_class c join pg_namespace n on n.oid = c.relnamespace
      join pg_roles r on r.oid = c.relowner where n.nspname = 'tenon'`)
  expect(owners).toEqual([{ rolname: 'tenon_owner' }])
})

test('the login role sees nothing by itself, and no mask sees another tenant', async () => {
  const [a, b] = await Promise.all([aRoom(), aRoom()])
  await call('POST', '/v1/collections/c/documents', { as: a.service, body: { of: 'a' } })
  const client = new Client({ connectionString: inject('tenon').env['DATABASE_APP_URL'] })
  await client.connect()
  try {
    await expect(client.query('select count(*) from tenon.documents')).rejects.toThrow(/permission denied/)
    const count = async (mask: string, tenant: string, workspace: string) => {
      await client.query('begin')
      await client.query(
        "select set_config('role', $1, true), set_config('tenon.tenant', $2, true), set_config('tenon.workspace', $3, true)",
        [mask, tenant, workspace],
      )
      const { rows } = await client.query(
        "select count(*)::int as n from tenon.documents where collection = 'c'",
      )
      await client.query('rollback')
      return rows[0].n
    }
    expect(await count('tenon_service', a.tenantId, a.workspaceId)).toBe(1)
    expect(await count('tenon_anon', a.tenantId, a.workspaceId)).toBe(1)
    expect(await count('tenon_service', b.tenantId, a.workspaceId)).toBe(0)
    expect(await count('tenon_service', a.tenantId, b.workspaceId)).toBe(0)
    expect(await count('tenon_service', '', '')).toBe(0)
  } finally {
    await client.end()
  }
})

test('with row-level security off the same question leaks: the test above is able to fail', async () => {
  const client = new Client({ connectionString: inject('tenon').databaseUrl })
  await client.connect()
  try {
    await client.query('begin')
    await client.query('create table tenon.leaky (like tenon.documents including defaults)')
    await client.query('grant select on tenon.leaky to tenon_service')
    await client.query(
      "insert into tenon.leaky (tenant_id, workspace_id, collection, id, data) values ('a', 'w', 'c', gen_random_uuid(), '{}'), ('b', 'w', 'c', gen_random_uuid(), '{}')",
    )
    await client.query(
      "select set_config('role', 'tenon_service', true), set_config('tenon.tenant', 'a', true)",
    )
    const { rows } = await client.query('select count(*)::int as n from tenon.leaky')
    expect(rows[0].n).toBe(2)
  } finally {
    await client.query('rollback')
    await client.end()
  }
})

test('migrations are idempotent, also two at once', async () => {
  const { databaseUrl, masterKey } = inject('tenon')
  const dump = () =>
    asSuperuser(`select table_name, column_name, data_type, column_default from information_schema.columns
      where table_schema = 'tenon' order by 1, 2`)
  const before = await dump()
  const password = deriveSecret(masterKey, DERIVED.appPassword)
  const runs = await Promise.all([migrate(databaseUrl, password), migrate(databaseUrl, password)])
  expect(runs.map(({ applied }) => applied)).toEqual([[], []])
  expect(await dump()).toEqual(before)
})
