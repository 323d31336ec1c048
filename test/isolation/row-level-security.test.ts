/** Row-level security, checked in the database's catalogue and by queries, including a check that the test can fail. */

import { Client } from 'pg'
import { expect, inject, test } from 'vitest'
import { DERIVED, deriveSecret } from '../../src/infra/crypto/secrets.ts'
import { createTable, sqlAsRole } from '../support/clients/sql-as-role.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  connectSuperuser,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../support/fixtures/tenants.ts'
import { openCollectionsToAnon } from '../support/stack/workspace-settings.ts'

test('every table: forces row-level security and has a policy', async () => {
  await createTable(await createTestWorkspace())
  const open = await asSuperuser<{ relname: string }>(`
    select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname like 'tenon%' and c.relkind in ('r', 'p') and not (c.relrowsecurity and c.relforcerowsecurity
      and exists (select from pg_policy p where p.polrelid = c.oid))`)
  expect(open).toEqual([])
  const tables = await asSuperuser<{ count: string }>(
    `select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'tenon' and c.relkind = 'r'`,
  )
  expect(Number(tables[0]?.count)).toBeGreaterThanOrEqual(12)
})

test('table of a collection: every policy is bound to its tenant and workspace only', async () => {
  const workspace = await createTestWorkspace()
  const reading = (read: boolean) => createTable(workspace, { access: { anon: { read } } })
  const [open, silent, closed] = [await reading(true), await createTable(workspace), await reading(false)]
  const policies = (id: string) =>
    asSuperuser(
      'select policyname, cmd, qual, with_check from pg_policies where schemaname = $1 and tablename = $2 order by 1',
      ['tenon_data', id],
    )
  const bound = '((tenant_id = tenon.tenant()) AND (workspace_id = tenon.workspace()))'
  // Decided once for a statement; a constraint binds the rows of the table to the workspace.
  const ids = `'${workspace.tenantId}'::text, '${workspace.workspaceId}'::text`
  const inWorkspace = (name: string) => `(( SELECT tenon.${name}(${ids}) AS ${name}) IS NOT NULL)`
  // The owner role checks for rows and counts them for quotas; it cannot log in.
  const counting = { policyname: 'counting', cmd: 'SELECT', qual: bound, with_check: null }
  const owner = { policyname: 'owner', cmd: 'SELECT', qual: inWorkspace('in_workspace'), with_check: null }
  const service = { ...owner, policyname: 'service', cmd: 'ALL', with_check: bound }
  const anon = { ...owner, policyname: 'anon_read' }
  // A declaration without an access rule follows the workspace's setting.
  const bySetting = { ...anon, qual: inWorkspace('in_open_workspace') }
  expect(await policies(open.id)).toEqual([anon, counting, owner, service])
  expect(await policies(silent.id)).toEqual([bySetting, counting, owner, service])
  expect(await policies(closed.id)).toEqual([counting, owner, service])
  const ref = [workspace.tenantId, workspace.workspaceId]
  expect(await sqlAsRole('tenon_anon', ref, `select c1 from tenon_data."${open.id}"`)).toEqual([{ c1: '1' }])
  await expect(sqlAsRole('tenon_anon', ref, `select c1 from tenon_data."${closed.id}"`)).rejects.toThrow(
    /permission denied/,
  )
})

test('table of another workspace: no role reads, writes or drops it', async () => {
  const [a, b] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const sibling = await addTestWorkspace(a)
  await Promise.all([a, b, sibling].map(openCollectionsToAnon))
  const { id } = await createTable(a)
  const table = `tenon_data."${id}"`
  for (const of of [b, sibling]) {
    const ref = [of.tenantId, of.workspaceId]
    for (const databaseRole of ['tenon_service', 'tenon_anon'])
      expect(await sqlAsRole(databaseRole, ref, `select id from ${table}`)).toEqual([])
    expect(await sqlAsRole('tenon_service', ref, `update ${table} set c1 = 2 returning id`)).toEqual([])
    expect(await sqlAsRole('tenon_service', ref, `delete from ${table} returning id`)).toEqual([])
    await expect(
      sqlAsRole('tenon_service', ref, `insert into ${table} (id, c1) values (gen_random_uuid(), 2)`),
    ).rejects.toThrow(/check constraint/)
    await expect(
      sqlAsRole(
        'tenon_service',
        ref,
        `insert into ${table} (tenant_id, workspace_id, id) values ('${a.tenantId}', '${a.workspaceId}', gen_random_uuid())`,
      ),
    ).rejects.toThrow(/row-level security/)
    for (const databaseRole of ['tenon_admin', 'tenon_operator', 'tenon_service'])
      await expect(sqlAsRole(databaseRole, ref, `drop table ${table}`)).rejects.toThrow(
        /permission denied|must be owner/,
      )
  }
  for (const databaseRole of ['tenon_admin', 'tenon_operator'])
    await expect(
      sqlAsRole(databaseRole, [a.tenantId, a.workspaceId], `select id from ${table}`),
    ).rejects.toThrow(/permission denied/)
})

/** A session of a role, whose transaction the caller ends. */
async function openTransaction(role: string, { tenantId, workspaceId }: TestWorkspace): Promise<Client> {
  const client = new Client({ connectionString: inject('tenon').env['DATABASE_APP_URL'] })
  await client.connect()
  await client.query('begin')
  await client.query(
    "select set_config('role', $1, true), set_config('tenon.tenant', $2, true), set_config('tenon.workspace', $3, true)",
    [role, tenantId, workspaceId],
  )
  return client
}

const WRITE_UNDECLARED =
  "insert into tenon.documents (collection, id, data) values ('z', gen_random_uuid(), '{}')"
const declare = ({ operator: as, workspaceId }: TestWorkspace) => {
  const body = { workspace_id: workspaceId, collection: 'z', store: 'relational', schema: {} }
  return call('POST', '/v1/schemas', { as, body })
}
/** Resolves when a session waits for the advisory lock that one of our functions names. */
const waitsFor = (
  lock: 'collection_lock' | 'quota_lock',
  { tenantId, workspaceId }: TestWorkspace,
  name: string,
) =>
  eventually(async () => {
    const waiting = await asSuperuser(
      `select from pg_locks where locktype = 'advisory' and not granted
        and (classid::bigint << 32) | objid::bigint = tenon.${lock}($1, $2, $3)`,
      [tenantId, workspaceId, name],
    )
    return waiting.length > 0 ? true : undefined
  })

test('collection declared while an undeclared document is written: waits, then is refused', async () => {
  const workspace = await createTestWorkspace()
  const writer = await openTransaction('tenon_service', workspace)
  await writer.query(WRITE_UNDECLARED)
  const declared = declare(workspace)
  await waitsFor('collection_lock', workspace, 'z')
  await writer.query('commit')
  await writer.end()
  const { status, body } = await declared
  expect([status, body.code]).toEqual([409, 'state_conflict'])
})

test('document written undeclared while its collection is declared: waits, then is refused', async () => {
  const workspace = await createTestWorkspace()
  const { tenantId, workspaceId } = workspace
  // The declaration holds the lock of its collection when it waits for that of a quota.
  const quota = await connectSuperuser(inject('tenon'))
  await quota.query("select pg_advisory_lock(tenon.quota_lock($1, $2, 'documents'))", [tenantId, workspaceId])
  const declared = declare(workspace)
  await waitsFor('quota_lock', workspace, 'documents')
  const writer = await openTransaction('tenon_service', workspace)
  const written = writer.query(WRITE_UNDECLARED).then(
    () => 'done',
    (error: { code: string }) => error.code,
  )
  await waitsFor('collection_lock', workspace, 'z')
  await quota.end()
  expect((await declared).status).toBe(201)
  expect(await written).toBe('TN002')
  await writer.end()
})

test('owner of the tables of collections: the index builder may act as it; it sees no row and owns nothing else', async () => {
  const { databaseUrl, masterKey, env } = inject('tenon')
  const workspace = await createTestWorkspace()
  const { id } = await createTable(workspace)
  const url = new URL(databaseUrl)
  url.username = 'tenon_builder'
  url.password = deriveSecret(masterKey, DERIVED.builderPassword)
  const builder = new Client({ connectionString: url.href })
  await builder.connect()
  try {
    await expect(builder.query('select from tenon.documents')).rejects.toThrow(/permission denied/)
    for (const databaseRole of ['tenon_service', 'tenon_admin', 'tenon_operator', 'tenon_app', 'tenon_owner'])
      await expect(builder.query(`set role ${databaseRole}`)).rejects.toThrow(/permission denied/)
    await builder.query('set role tenon_tables')
    // The owner is subject to row-level security too.
    expect((await builder.query(`select id from tenon_data."${id}"`)).rows).toEqual([])
  } finally {
    await builder.end()
  }
  expect(env).not.toHaveProperty('DATABASE_BUILDER_URL')
  await expect(sqlAsRole('tenon_owner', ['', ''], 'select 1')).rejects.toThrow(/permission denied/)
  const own = [workspace.tenantId, workspace.workspaceId]
  expect(await sqlAsRole('tenon_tables', own, `select id from tenon_data."${id}"`)).toEqual([])
  for (const text of [
    `update tenon_data."${id}" set c1 = 2 returning id`,
    `delete from tenon_data."${id}" returning id`,
  ])
    expect(await sqlAsRole('tenon_tables', own, text)).toEqual([])
  await expect(
    sqlAsRole('tenon_tables', own, `insert into tenon_data."${id}" (id) values (gen_random_uuid())`),
  ).rejects.toThrow(/row-level security/)
  // Of the platform it reads what a declaration needs, in the workspace of the session alone.
  const readable = await asSuperuser<{ relname: string }>(`
    select c.relname from pg_class c where c.relnamespace = 'tenon'::regnamespace and c.relkind = 'r'
      and has_any_column_privilege('tenon_tables', c.oid, 'select, insert, update') order by 1`)
  expect(readable.map(({ relname }) => relname)).toEqual(['documents', 'quota_sources', 'quotas', 'schemas'])
  const other = await createTestWorkspace()
  for (const ref of [
    [other.tenantId, other.workspaceId],
    [workspace.tenantId, other.workspaceId],
    ['', ''],
  ])
    for (const text of ['tenon.schemas', 'tenon.quota_sources'])
      expect(await sqlAsRole('tenon_tables', ref, `select from ${text}`)).toEqual([])
})

test('database roles: none is superuser, bypasses row-level security or inherits; the owners cannot log in', async () => {
  const roles = await asSuperuser(`
    select rolname, rolsuper, rolbypassrls, rolcanlogin from pg_roles where rolname like 'tenon%' order by 1`)
  expect(roles.map((role) => Object.values(role))).toEqual([
    ['tenon_admin', false, false, false],
    ['tenon_anon', false, false, false],
    ['tenon_app', false, false, true],
    ['tenon_builder', false, false, true],
    ['tenon_issuer', false, false, false],
    ['tenon_key_rotation', false, false, false],
    ['tenon_operator', false, false, false],
    ['tenon_owner', false, false, false],
    ['tenon_payload_keys', false, false, false],
    ['tenon_purger', false, false, false],
    ['tenon_reconciler', false, false, false],
    ['tenon_relay', false, false, false],
    ['tenon_service', false, false, false],
    ['tenon_tables', false, false, false],
    ['tenon_triggers', false, false, false],
    ['tenon_user', false, false, false],
  ])
  const owners = await asSuperuser(`
    select distinct n.nspname, r.rolname from pg_class c join pg_namespace n on n.oid = c.relnamespace
      join pg_roles r on r.oid = c.relowner where n.nspname like 'tenon%' order by 1`)
  expect(owners.map((owner) => Object.values(owner))).toEqual([
    ['tenon', 'tenon_owner'],
    ['tenon_data', 'tenon_tables'],
  ])
})

test('login role: sees nothing by itself; each role sees its own tenant only', async () => {
  const [a, b] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  await Promise.all([a, b].map(openCollectionsToAnon))
  await call('POST', '/v1/collections/c/documents', { as: a.service, body: { of: 'a' } })
  const client = new Client({ connectionString: inject('tenon').env['DATABASE_APP_URL'] })
  await client.connect()
  try {
    await expect(client.query('select count(*) from tenon.documents')).rejects.toThrow(/permission denied/)
    const count = async (databaseRole: string, tenant: string, workspace: string) => {
      await client.query('begin')
      await client.query(
        "select set_config('role', $1, true), set_config('tenon.tenant', $2, true), set_config('tenon.workspace', $3, true)",
        [databaseRole, tenant, workspace],
      )
      const { rows } = await client.query(
        "select count(*)::int as n from tenon.documents where collection = 'c'",
      )
      await client.query('rollback')
      return rows[0].n
    }
    expect(await count('tenon_service', a.tenantId, a.workspaceId)).toBe(1)
    expect(await count('tenon_anon', a.tenantId, a.workspaceId)).toBe(1)
    expect(await count('tenon_anon', b.tenantId, b.workspaceId)).toBe(0)
    expect(await count('tenon_service', b.tenantId, a.workspaceId)).toBe(0)
    expect(await count('tenon_service', a.tenantId, b.workspaceId)).toBe(0)
    expect(await count('tenon_service', '', '')).toBe(0)
  } finally {
    await client.end()
  }
})

test('stored idempotent reply: visible to its own role, tenant and workspace only', async () => {
  const [a, b] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const sibling = await addTestWorkspace(a)
  const headers = { 'idempotency-key': 'k' }
  await call('POST', '/v1/collections/c/documents', { as: a.service, headers, body: {} })
  const own = [a.tenantId, a.workspaceId]
  const all = 'select id from tenon.idempotency'
  expect(await sqlAsRole('tenon_service', own, all)).toHaveLength(1)
  const others = [
    [b.tenantId, b.workspaceId],
    [a.tenantId, sibling.workspaceId],
    [b.tenantId, a.workspaceId],
    ['', ''],
  ]
  for (const ref of others) expect(await sqlAsRole('tenon_service', ref, all)).toEqual([])
  for (const databaseRole of ['tenon_anon', 'tenon_admin'])
    expect(await sqlAsRole(databaseRole, own, all)).toEqual([])
  expect(await sqlAsRole('tenon_operator', ['', ''], `${all} where workspace_id = '${own[1]}'`)).toEqual([])
  const insert = (role: string) => `insert into tenon.idempotency (role, id, request, seed, expires_at)
    values ('${role}', sha256('a'), sha256('b'), '\\x00112233445566778899aabbccddeeff', now()) returning role`
  await expect(sqlAsRole('tenon_anon', own, insert('tenon_service'))).rejects.toThrow(/row-level security/)
  expect(await sqlAsRole('tenon_anon', own, insert('tenon_anon'))).toHaveLength(1)
  // Unexpired replies stay, whichever role calls the cleanup.
  await sqlAsRole('tenon_anon', own, 'select tenon.delete_expired_replies(); commit')
  expect(await sqlAsRole('tenon_service', own, all)).toHaveLength(1)
})

test('issuer secrets: hidden from other roles; accounts and clients: visible to their tenant only', async () => {
  const [a, b] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const sibling = await addTestWorkspace(a)
  const as = a.operator
  const bound = { tenant_id: a.tenantId, workspace_id: a.workspaceId, role: 'service' }
  await call('POST', '/v1/accounts', { as, body: { ...bound, email: 'rls@example.test' } })
  await call('POST', '/v1/oauth-clients', { as, body: { ...bound, kind: 'machine', name: 'rls' } })
  const own = [a.tenantId, a.workspaceId]
  const others = [
    [b.tenantId, b.workspaceId],
    [a.tenantId, sibling.workspaceId],
    [b.tenantId, a.workspaceId],
    ['', ''],
  ]
  for (const table of ['accounts', 'oauth_clients']) {
    const all = `select id from tenon.${table} where tenant_id = '${a.tenantId}'`
    for (const ref of [own, [a.tenantId, '']])
      expect(await sqlAsRole('tenon_admin', ref, all)).toHaveLength(1)
    for (const ref of others) expect(await sqlAsRole('tenon_admin', ref, all)).toEqual([])
    for (const databaseRole of ['tenon_anon', 'tenon_service', 'tenon_relay'])
      await expect(sqlAsRole(databaseRole, own, all)).rejects.toThrow(/permission denied/)
  }
  const hidden = ['password from tenon.accounts', 'invitation from tenon.accounts']
  hidden.push(
    'secret_hash from tenon.oauth_clients',
    'id from tenon.issuer_state',
    'id from tenon.signing_keys',
  )
  for (const databaseRole of ['tenon_admin', 'tenon_operator', 'tenon_service'])
    for (const what of hidden)
      await expect(sqlAsRole(databaseRole, own, `select ${what}`)).rejects.toThrow(/permission denied/)
  const promote = "update tenon.accounts set role = 'tenant_admin', workspace_id = null"
  const setPassword = "update tenon.accounts set password = 'x'"
  for (const text of [promote, setPassword])
    await expect(sqlAsRole('tenon_admin', own, text)).rejects.toThrow(/permission denied/)
  const insert = (role: string, tenant: string, workspace: string) =>
    sqlAsRole(
      'tenon_admin',
      own,
      `insert into tenon.accounts (id, tenant_id, workspace_id, role, email, name, created_by)
       values ('x', ${tenant}, ${workspace}, '${role}', 'x@y', '', 'x')`,
    )
  await expect(insert('operator', 'null', 'null')).rejects.toThrow(/row-level security/)
  await expect(insert('tenant_admin', `'${a.tenantId}'`, 'null')).rejects.toThrow(/row-level security/)
  await expect(insert('tenant_admin', `'${a.tenantId}'`, `'${a.workspaceId}'`)).rejects.toThrow(/check/)
  await expect(insert('service', `'${b.tenantId}'`, `'${b.workspaceId}'`)).rejects.toThrow(
    /row-level security/,
  )
  await expect(insert('service', `'${a.tenantId}'`, `'${b.workspaceId}'`)).rejects.toThrow(
    /row-level|foreign/,
  )
})

test('table without row-level security: the same query leaks, so the tests above can fail', async () => {
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

test('trigger role: reads triggers and secrets, updates offsets, nothing else', async () => {
  const { tenantId, workspaceId } = await createTestWorkspace()
  const as = (text: string) => sqlAsRole('tenon_triggers', [tenantId, workspaceId], text)
  const tables = await asSuperuser<{ name: string }>(
    "select tablename as name from pg_tables where schemaname = 'tenon'",
  )
  const visible = [
    'trigger_states',
    'triggers',
    'webhook_secrets',
    'subscription_offsets',
    'event_subscriptions',
    'callbacks',
  ]
  for (const { name } of tables.filter((table) => !visible.includes(table.name)))
    await expect(as(`select from tenon."${name}"`)).rejects.toThrow(/permission denied/)
  for (const name of visible) {
    await expect(as(`select from tenon.${name} limit 1`)).resolves.toBeDefined()
    await expect(as(`delete from tenon.${name}`)).rejects.toThrow(/permission denied/)
    await expect(as(`update tenon.${name} set tenant_id = ''`)).rejects.toThrow(/permission denied/)
  }
  await expect(as("update tenon.trigger_states set correlation_state = '[]' where false")).resolves.toEqual(
    [],
  )
  await expect(as('update tenon.triggers set revision = 1')).rejects.toThrow(/permission denied/)
  await expect(as("update tenon.webhook_secrets set sealed = ''")).rejects.toThrow(/permission denied/)
  // Which workspaces wait for events, and whose a callback is: neither filters, values nor executions.
  for (const column of ['filter', 'value', 'topic', 'execution_id', 'workflow_id'])
    await expect(as(`select ${column} from tenon.event_subscriptions`)).rejects.toThrow(/permission denied/)
  for (const column of ['execution_id', 'workflow_id', 'step', 'body_sha256'])
    await expect(as(`select ${column} from tenon.callbacks`)).rejects.toThrow(/permission denied/)
  // An operator configures functions of all tenants, and reads no events of theirs.
  const asOperator = (text: string) => sqlAsRole('tenon_operator', ['', ''], text)
  await expect(asOperator('select seen from tenon.trigger_states limit 1')).resolves.toBeDefined()
  await expect(asOperator('select correlation_state from tenon.trigger_states')).rejects.toThrow(
    /permission denied/,
  )
  for (const databaseRole of ['tenon_anon', 'tenon_service', 'tenon_relay'])
    for (const name of ['triggers', 'trigger_states'])
      await expect(
        sqlAsRole(databaseRole, [tenantId, workspaceId], `select from tenon.${name}`),
      ).rejects.toThrow(/permission denied/)
  for (const databaseRole of ['tenon_anon', 'tenon_service', 'tenon_operator', 'tenon_relay'])
    for (const name of ['webhook_secrets', 'webhook_deliveries', 'event_subscriptions', 'callbacks'])
      await expect(
        sqlAsRole(databaseRole, [tenantId, workspaceId], `select from tenon.${name}`),
      ).rejects.toThrow(/permission denied/)
})

test('reconciler role: sees open executions, nothing of their content', async () => {
  const noTenant = ['', '']
  for (const visible of ['input', 'output', 'error', 'started_by', 'correlation_key'])
    await expect(
      sqlAsRole('tenon_reconciler', noTenant, `select ${visible} from tenon.executions`),
    ).rejects.toThrow(/permission denied/)
  for (const content of ['start from tenon.run_slots', 'flow_id from tenon.flow_intervals'])
    await expect(sqlAsRole('tenon_reconciler', noTenant, `select ${content}`)).rejects.toThrow(
      /permission denied/,
    )
  for (const table of ['documents', 'flows', 'flow_versions', 'flow_aliases', 'execution_steps', 'api_keys'])
    await expect(sqlAsRole('tenon_reconciler', noTenant, `select from tenon.${table}`)).rejects.toThrow(
      /permission denied/,
    )
  for (const change of [
    "update tenon.executions set status = 'completed'",
    'update tenon.executions set overdue = true',
    'delete from tenon.executions',
    'update tenon.flow_intervals set due_at = now()',
    "update tenon.run_slots set state = 'admitted'",
    'delete from tenon.run_slots',
    "update tenon.workspaces set state = 'active'",
  ])
    await expect(sqlAsRole('tenon_reconciler', noTenant, change)).rejects.toThrow(/permission denied/)
  const ended = 'select id from tenon.executions where ended_at is not null'
  expect(await sqlAsRole('tenon_reconciler', noTenant, ended)).toEqual([])
})
