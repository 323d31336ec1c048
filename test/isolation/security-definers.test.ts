/**
 * Database functions that run as their owner: which roles may call them, and that they count only for their own
 * tenant.
 */

import { expect, test } from 'vitest'
import { transaction } from '../support/fixtures/outbox.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
} from '../support/fixtures/tenants.ts'

test('security definer functions: callable by the listed roles, with a fixed search path', async () => {
  const called = await asSuperuser<{ name: string; roles: string[] }>(`
    select p.proname as name, array_agg(r.rolname::text order by r.rolname) as roles
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace, pg_roles r
    where n.nspname like 'tenon%' and p.prosecdef and p.prorettype <> 'trigger'::regtype
      and r.rolname like 'tenon%' and r.rolname <> 'tenon_owner' and has_function_privilege(r.rolname, p.oid, 'execute')
    group by 1 order by 1`)
  const inside = ['tenon_admin', 'tenon_anon', 'tenon_service', 'tenon_user']
  expect(called).toEqual([
    { name: 'accounts_named', roles: ['tenon_admin'] },
    { name: 'append_audit', roles: ['tenon_operator'] },
    { name: 'append_mcp_calls', roles: ['tenon_admin'] },
    { name: 'causes_with', roles: ['tenon_admin'] },
    { name: 'chain_entries', roles: ['tenon_reconciler'] },
    { name: 'consume_quota', roles: inside },
    { name: 'creator_of', roles: ['tenon_admin'] },
    { name: 'cut_chain', roles: ['tenon_reconciler'] },
    { name: 'decision_refusal', roles: ['tenon_admin'] },
    {
      name: 'delete_expired_replies',
      roles: ['tenon_admin', 'tenon_anon', 'tenon_operator', 'tenon_service', 'tenon_user'],
    },
    { name: 'enable_counting', roles: ['tenon_admin', 'tenon_operator'] },
    { name: 'limited', roles: inside },
    { name: 'people_behind', roles: ['tenon_admin'] },
    { name: 'quota_count', roles: ['tenon_admin', 'tenon_operator'] },
    { name: 'require_upload_room', roles: ['tenon_service', 'tenon_user'] },
    { name: 'total_bytes', roles: ['tenon_tables'] },
    { name: 'versions_in_tools', roles: ['tenon_admin', 'tenon_operator'] },
  ])
  // Any role may create temporary objects; none is found before ours.
  const open = await asSuperuser(`
    select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname like 'tenon%' and p.prosecdef and not coalesce(
      p.proconfig[1] in ('search_path=pg_catalog, pg_temp', 'search_path=tenon, pg_temp'), false)`)
  expect(open).toEqual([])
})

/** What the owner sees of a table: the widest of its policies. */
const SEEN = `case when not c.relforcerowsecurity then 'all' else coalesce((
  select case max(case when p.qual is null then 0 when p.qual = 'true' then 3 when p.qual ~ 'workspace_id' then 1
      when p.qual ~ 'tenant_id' then 2 else 3 end)
    when 3 then 'all' when 2 then 'tenant' when 1 then 'workspace' else 'none' end
  from pg_policies p where p.schemaname = 'tenon' and p.tablename = c.relname and p.cmd <> 'INSERT'
    and 'tenon_owner' = any(p.roles)), 'none') end`

test('tables that a security definer function reads: seen in all workspaces of the tenant, unless it counts for one', async () => {
  const narrow = await asSuperuser<{ name: string; tables: string[] }>(`
    select p.proname as name, array_agg(c.relname || ': ' || seen order by c.relname) as tables
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      join pg_class c on c.relnamespace = n.oid and c.relkind = 'r'
        and p.prosrc ~ ('(from|join|update|using)\\s+(tenon\\.)?' || c.relname || '\\M')
      cross join lateral (select ${SEEN}) as s(seen)
    where n.nspname = 'tenon' and p.prosecdef and seen in ('none', 'workspace')
    group by 1 order by 1`)
  // These count, log or change for one workspace: that of the session, or the one that they act for meanwhile.
  expect(narrow).toEqual([
    { name: 'append_mcp_calls', tables: ['mcp_call_heads: workspace'] },
    { name: 'quota_tools', tables: ['mcp_server_versions: workspace', 'mcp_servers: workspace'] },
    { name: 'require_upload_room', tables: ['object_uploads: workspace', 'resumable_uploads: workspace'] },
    { name: 'versions_in_tools', tables: ['mcp_server_versions: workspace'] },
  ])
})

test('login role: may set twelve roles and no other', async () => {
  const roles = await asSuperuser(`
    select rolname from pg_roles where rolname <> 'tenon_app' and pg_has_role('tenon_app', oid, 'set') order by 1`)
  const databaseRoles = [
    'tenon_admin',
    'tenon_anon',
    'tenon_issuer',
    'tenon_operator',
    'tenon_payload_keys',
    'tenon_purger',
    'tenon_reconciler',
    'tenon_relay',
    'tenon_service',
    'tenon_tables',
    'tenon_triggers',
    'tenon_user',
  ]
  expect(roles).toEqual(databaseRoles.map((rolname) => ({ rolname })))
})

async function withOneDocument(workspace: TestWorkspace): Promise<void> {
  const collection = unique('c')
  const body = { workspace_id: workspace.workspaceId, collection, store: 'relational', schema: {} }
  expect((await call('POST', '/v1/schemas', { as: workspace.operator, body })).status).toBe(201)
  const made = await call('POST', `/v1/collections/${collection}/documents`, {
    as: workspace.service,
    body: {},
  })
  expect(made.status).toBe(201)
}

test('quota_count: counts for admins of that tenant or workspace only, keeps their session settings', async () => {
  const [own, stranger] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const sibling = await addTestWorkspace(own)
  await Promise.all([own, stranger, sibling].map(withOneDocument))
  const countAs = async (by: TestWorkspace, of: TestWorkspace) => {
    const client = await transaction(by, 'tenon_admin')
    const text = `select tenon.quota_count($1, $2, 'documents')::int as n,
      current_setting('tenon.tenant') = $3 and current_setting('tenon.workspace') = $4 as same`
    const values = [of.tenantId, of.workspaceId, by.tenantId, by.workspaceId]
    try {
      return (await client.query(text, values)).rows
    } finally {
      await client.end()
    }
  }
  const ofTenant = { ...own, workspaceId: '' }
  const noTenant = { ...own, tenantId: '', workspaceId: '' }
  for (const [by, of] of [
    [own, own],
    [ofTenant, own],
    [ofTenant, sibling],
  ] as const)
    expect(await countAs(by, of)).toEqual([{ n: 1, same: true }])
  for (const [by, of] of [
    [own, sibling],
    [own, stranger],
    [ofTenant, stranger],
    [noTenant, own],
  ] as const)
    expect(await countAs(by, of)).toEqual([{ n: 0, same: true }])
})
