/** The database role of end users: which tables, rows and functions of PostgreSQL a statement of it reaches. */

import { readdir, readFile } from 'node:fs/promises'
import { Client, Pool } from 'pg'
import { beforeAll, expect, inject, test, vi } from 'vitest'
import { sqlAsRole } from '../../support/clients/sql-as-role.ts'
import { closeSubscriptions, receivedAtLeast, subscribeToEvents } from '../../support/clients/sse.ts'
import {
  addTestWorkspace,
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'
import type { Running } from '../../support/stack/start.ts'

const OWN = { _owner: '$user.id' }

let ours: TestWorkspace
let others: TestWorkspace[]
let table: string
let mia: Caller

beforeAll(async () => {
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  ours = workspace
  others = [other, await addTestWorkspace(workspace)]
  mia = await userToken(ours, 'mia')
  table = await ownTable()
  // A row in each table that the role may read, or insert into.
  const configured = await call('POST', '/v1/services/configure', { as: ours.operator, body: settings() })
  expect(configured.status, JSON.stringify(configured.body)).toBe(200)
  for (const as of [mia, await userToken(ours, 'ben'), ours.service]) {
    const reply = await call('POST', `/v1/collections/${collection}/documents`, {
      ...{ as, body: { n: 1 } },
      headers: { 'idempotency-key': 'k' },
    })
    expect(reply.status, JSON.stringify(reply.body)).toBe(201)
  }
})

const collection = unique('c')
const settings = () => ({ workspace_id: ours.workspaceId, anon: { collections: 'none' } })

/** @returns the table of a collection whose documents belong to their creators */
async function ownTable(): Promise<string> {
  const body = {
    ...{ workspace_id: ours.workspaceId, collection, store: 'relational' },
    schema: { properties: { n: { type: 'integer' }, owner: { type: 'string' } } },
    access: { user: { read: OWN, create: true, update: OWN, delete: OWN } },
  }
  const reply = await call('POST', '/v1/schemas', { as: ours.operator, body })
  expect(reply.status, JSON.stringify(reply.body)).toBe(201)
  return `tenon_data."${reply.body.id}"`
}

const refOf = ({ tenantId, workspaceId }: TestWorkspace, user?: object | string): string[] => [
  ...[tenantId, workspaceId],
  ...(user === undefined ? [] : [typeof user === 'string' ? user : JSON.stringify(user)]),
]
const asUser = <T extends object>(text: string, ref = refOf(ours, { id: 'mia', claims: {} })) =>
  sqlAsRole<T>('tenon_user', ref, text)

/** What each statement of the role may do with tables of the platform. */
const PRIVILEGES = {
  buckets: ['select'],
  bulk_changes: ['insert', 'select', 'update'],
  function_aliases: ['select'],
  function_runs: ['insert'],
  function_versions: ['select'],
  functions: ['select'],
  idempotency: ['delete', 'insert', 'select', 'update'],
  object_upload_parts: ['delete', 'insert', 'select', 'update'],
  object_removals: ['insert', 'select'],
  object_uploads: ['delete', 'insert', 'select', 'update'],
  objects: ['delete', 'insert', 'select', 'update'],
  outbox: ['insert'],
  resumable_uploads: ['delete', 'insert', 'select', 'update'],
  schemas: ['select'],
  services: ['select'],
  unused_blobs: ['insert'],
}

test('tables of the platform – by their grants – are closed to the role but for sixteen', async () => {
  const granted = await asSuperuser<{ name: string; privileges: string[] }>(`
    select c.relname as name, array_agg(p order by p) as privileges
    from pg_class c join pg_namespace n on n.oid = c.relnamespace,
      unnest(array['select', 'insert', 'update', 'delete', 'truncate', 'references', 'trigger']) p
    where n.nspname = 'tenon' and c.relkind in ('r', 'p', 'v', 'm', 'S')
      and case when c.relkind = 'S' then p in ('select', 'update') and has_sequence_privilege('tenon_user', c.oid, p)
        when p in ('delete', 'truncate', 'trigger') then has_table_privilege('tenon_user', c.oid, p)
        else has_any_column_privilege('tenon_user', c.oid, p) end
    group by 1`)
  expect(Object.fromEntries(granted.map(({ name, privileges }) => [name, privileges]))).toEqual(PRIVILEGES)
})

const WORKSPACE = ['tenant_id', 'workspace_id']
const SETTINGS = [...WORKSPACE, 'anon', 'public_read', 'user_objects', 'user_topics', 'image_settings']
const FUNCTION = [...WORKSPACE, 'id', 'name', 'active_version', 'config']
const VERSION = [...WORKSPACE, 'function_id', 'version', 'input_schema']
const ALIAS = [...WORKSPACE, 'function_id', 'name', 'versions']
const FUNCTIONS = { functions: FUNCTION, function_versions: VERSION, function_aliases: ALIAS }
/** Columns that a role may read where it may not read all of them. */
const READABLE = {
  tenon_user: {
    services: SETTINGS,
    ...FUNCTIONS,
  },
  tenon_anon: { services: SETTINGS, ...FUNCTIONS },
}
/** Tables that a role may read as a whole: each has columns of the statements of the product alone. */
const READABLE_AS_A_WHOLE = {
  tenon_user: [
    'buckets',
    'bulk_changes',
    'idempotency',
    'object_removals',
    'object_upload_parts',
    'object_uploads',
    'objects',
    'resumable_uploads',
    'schemas',
  ],
  tenon_anon: ['buckets', 'documents', 'idempotency', 'objects', 'schemas'],
}

test.each(['tenon_user', 'tenon_anon'] as const)(
  'columns of the platform – by the grants of %s – are those that its statements need',
  async (role) => {
    const found = await asSuperuser<{ name: string; columns: string[]; whole: boolean }>(`
      select c.relname as name, array_agg(a.attname::text) as columns,
        count(*) = (select count(*) from pg_attribute w where w.attrelid = c.oid and w.attnum > 0 and not w.attisdropped) as whole
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      where n.nspname = 'tenon' and c.relkind in ('r', 'p', 'v', 'm')
        and has_column_privilege('${role}', c.oid, a.attnum, 'select')
      group by c.oid, c.relname order by 1`)
    expect(found.filter(({ whole }) => whole).map(({ name }) => name)).toEqual(READABLE_AS_A_WHOLE[role])
    const some = found.filter(({ whole }) => !whole)
    const sorted = (of: Readonly<Record<string, readonly string[]>>) =>
      Object.fromEntries(Object.entries(of).map(([name, columns]) => [name, [...columns].sort()]))
    expect(sorted(Object.fromEntries(some.map(({ name, columns }) => [name, columns])))).toEqual(
      sorted(READABLE[role]),
    )
  },
)

test('columns of a document – by the grants of the role – set neither owner, workspace nor creation', async () => {
  const settable = (right: string) =>
    asSuperuser<{ attname: string }>(`
      select attname::text from pg_attribute where attrelid = '${table}'::regclass and attnum > 0 and not attisdropped
        and has_column_privilege('tenon_user', attrelid, attnum, '${right}') order by 1`).then((rows) =>
      rows.map(({ attname }) => attname),
    )
  expect(await settable('insert')).toEqual(['c1', 'c2', 'extra', 'id'])
  expect(await settable('update')).toEqual(['c1', 'c2', 'extra', 'updated_at', 'version'])
  for (const text of [
    `insert into ${table} (id, owner) values (gen_random_uuid(), 'ben')`,
    `update ${table} set owner = 'ben'`,
    `update ${table} set created_at = now()`,
  ])
    await expect(asUser(text), text).rejects.toThrow(/permission denied/)
})

test('every table of the platform – read by the role – shows rows of the own workspace alone', async () => {
  const tables = await asSuperuser<{ name: string }>(`
    select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'tenon' and c.relkind in ('r', 'p', 'v', 'm')`)
  const columns: Readonly<Record<string, string>> = {
    buckets: 'tenant_id, workspace_id',
    schemas: '*',
    services: 'tenant_id, workspace_id',
    idempotency: 'tenant_id, workspace_id, role',
    function_aliases: 'tenant_id, workspace_id, versions',
    function_versions: 'tenant_id, workspace_id, input_schema',
    functions: 'tenant_id, workspace_id',
    objects: 'tenant_id, workspace_id',
    bulk_changes: 'tenant_id, workspace_id',
    object_removals: 'tenant_id, workspace_id',
    object_upload_parts: 'tenant_id, workspace_id',
    object_uploads: 'tenant_id, workspace_id',
    resumable_uploads: 'tenant_id, workspace_id',
  }
  /** Of the others the role sees rows only where something is open to users. */
  const isFilled = (name: string) => ['idempotency', 'schemas', 'services'].includes(name)
  for (const { name } of tables) {
    const text = `select ${columns[name] ?? '*'} from tenon."${name}"`
    if (columns[name] === undefined) {
      await expect(asUser(text), name).rejects.toThrow(/permission denied/)
      continue
    }
    const rows = await asUser<Record<string, unknown>>(text)
    if (isFilled(name)) expect(rows.length, name).toBeGreaterThan(0)
    for (const row of rows)
      expect([name, row['tenant_id'], row['workspace_id']]).toEqual([name, ...refOf(ours)])
    if (name === 'idempotency') expect(new Set(rows.map(({ role }) => role))).toEqual(new Set(['tenon_user']))
    for (const ref of [
      ['', ''],
      [ours.tenantId, ''],
      ['', ours.workspaceId],
      ...others.map((of) => refOf(of)),
    ])
      expect(JSON.stringify(await asUser(text, ref)), `${name} for ${ref}`).not.toContain(ours.workspaceId)
  }
})

test('documents of an owner – read and changed with any other settings – stay hidden and unchanged', async () => {
  const owners = async (ref: string[]) =>
    (await asUser<{ owner: string }>(`select owner from ${table}`, ref)).map(({ owner }) => owner)
  expect(await owners(refOf(ours, { id: 'mia', claims: {} }))).toEqual(['mia'])
  const strangers = [
    refOf(ours),
    ...[
      {},
      { id: null },
      { id: '' },
      { id: ['mia'] },
      { id: { a: 'mia' } },
      { ID: 'mia' },
      [],
      'null',
      '"mia"',
    ].map((user) => refOf(ours, user)),
    ...others.map((of) => refOf(of, { id: 'mia' })),
    ['', '', '{"id":"mia"}'],
    [ours.tenantId, '', '{"id":"mia"}'],
    ['', ours.workspaceId, '{"id":"mia"}'],
  ]
  for (const ref of strangers) {
    const context = JSON.stringify(ref)
    expect(await owners(ref), context).toEqual([])
    expect(await asUser(`update ${table} set c1 = 7 returning id`, ref), context).toEqual([])
    expect(await asUser(`delete from ${table} returning id`, ref), context).toEqual([])
  }
  await expect(owners(refOf(ours, '{"id":'))).rejects.toThrow(/invalid input syntax/)
})

test('rows – inserted for another workspace – are refused', async () => {
  const [theirs] = others
  if (theirs === undefined) throw new TypeError('there is another workspace')
  const insert = (columns: string, values: string) =>
    `insert into ${table} (id${columns}) values (gen_random_uuid()${values}) returning owner`
  expect(await asUser(insert('', ''))).toEqual([{ owner: 'mia' }])
  for (const of of others)
    await expect(asUser(insert('', ''), refOf(of, { id: 'mia' }))).rejects.toThrow(/row-level security|check/)
  for (const [column, value] of [
    ['tenant_id', theirs.tenantId],
    ['workspace_id', theirs.workspaceId],
  ])
    await expect(asUser(insert(`, ${column}`, `, '${value}'`))).rejects.toThrow(/permission denied/)
  const event = (column: string, value: string) =>
    `insert into tenon.outbox (collection, verb, document_id, version, ${column})
     values ('c', 'created', gen_random_uuid(), 1, '${value}')`
  await expect(asUser(event('tenant_id', theirs.tenantId))).rejects.toThrow(/row-level security/)
  await expect(asUser(event('workspace_id', theirs.workspaceId))).rejects.toThrow(/row-level security/)
  await expect(
    asUser(`insert into tenon.idempotency (role, id, request, seed, expires_at)
      values ('tenon_service', sha256('a'), sha256('b'), '\\x00112233445566778899aabbccddeeff', now())`),
  ).rejects.toThrow(/row-level security/)
})

test('functions and procedures of the platform – by their grants – are those of statements and policies', async () => {
  const callable = await asSuperuser<{ name: string }>(`
    select p.proname as name from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname like 'tenon%' and p.prorettype <> 'trigger'::regtype
      and has_function_privilege('tenon_user', p.oid, 'execute') order by 1`)
  expect(callable.map(({ name }) => name)).toEqual(CALLABLE)
})

/** Those that run with the rights of their owner are in security-definers.test.ts. */
const CALLABLE = [
  ...[
    'alias_version',
    'anon_workspace',
    'audit_hash',
    'caller',
    'canonical',
    'chain_hashes',
    'collection_lock',
    'consume_quota',
    'contains_json',
  ],
  ...[
    'delete_expired_replies',
    'folded',
    'in_open_workspace',
    'in_workspace',
    'limited',
    'matches_pattern',
    'matches_words',
    'quota_lock',
    'refuse_change',
    'refuse_object_change',
    'require_upload_room',
  ],
  ...['role_rank', 'tenant', 'workspace'],
]

test('functions and procedures of tables and quotas – called by the role – are refused', async () => {
  const [tenant, workspace] = refOf(ours)
  const counted = `'${table}'::regclass`
  for (const text of [
    `call tenon.allow('tenon_user', ${counted}, 'all', 'select')`,
    `call tenon.switch_counting(${counted}, 'documents', 'disable')`,
    `call tenon.add_row_quota('documents', ${counted})`,
    `call tenon.add_byte_quota(${counted})`,
    `select tenon.total_bytes('${tenant}', '${workspace}', ${counted})`,
    `select tenon.act_for_workspace('${tenant}', '${workspace}')`,
  ])
    await expect(asUser(text), text).rejects.toThrow(/permission denied for (function|procedure)/)
})

test('policies and tables – created, changed or dropped by the role – are refused', async () => {
  for (const text of [
    `create policy mine on ${table} using (true)`,
    `create policy mine on tenon.api_keys to tenon_user using (true)`,
    `alter policy user_read on ${table} using (true)`,
    `drop policy user_read on ${table}`,
    `alter table ${table} disable row level security`,
    `alter table ${table} no force row level security`,
    `alter table ${table} alter column owner set default 'ben'`,
    `alter table ${table} owner to tenon_user`,
    `truncate ${table}`,
    `drop table ${table}`,
    `create table tenon_data.x (id int)`,
    `create view tenon_data.x as select * from ${table}`,
    `create function tenon.caller2() returns int language sql return 1`,
    `create or replace function tenon.caller() returns jsonb language sql return '{}'::jsonb`,
    'alter role tenon_user bypassrls',
    'set session authorization tenon_owner',
    'set role tenon_owner',
  ])
    await expect(asUser(text), text).rejects.toThrow(/must be|permission denied|must have/)
  // A grant without the right to it is a warning, and changes nothing.
  for (const right of ['grant select on tenon.tenants to tenon_user', `grant all on ${table} to tenon_user`])
    await expect(asUser(`${right}; truncate tenon.tenants, ${table}`), right).rejects.toThrow(
      /permission denied/,
    )
  expect(await asUser('set row_security = off; select 1 as n').catch(({ message }) => message)).toEqual([
    { n: 1 },
  ])
  await expect(asUser(`set row_security = off; select from ${table}`)).rejects.toThrow(/row-level security/)
})

/** Where a pattern occurs in the product's sources. @returns the name of the file and the text that was found */
async function occurrences(pattern: RegExp): Promise<string[]> {
  const names = (await readdir('src', { recursive: true })).filter((name) => name.endsWith('.ts'))
  const found = await Promise.all(
    names.map(async (name) =>
      [...(await readFile(`src/${name}`, 'utf8')).matchAll(pattern)].map(
        ([text]) => `${name}: ${text.replaceAll(/\s+/g, ' ')}`,
      ),
    ),
  )
  return found.flat().sort()
}

test('statements of the product – that write – name the owner of a document in imports and for users who are made anonymous, by service keys alone', async () => {
  expect((await occurrences(/insert into/g)).length).toBeGreaterThan(30)
  // The event of a change has the owner of its document or object.
  expect(await occurrences(/insert into[^(`]*\([^`]*?\bowner\b/g)).toEqual([
    // The role has no right to it: see the test of the columns above.
    'features/collections/postgres/write-statements.ts: insert into ${table.name} (${namesOf(table)}, owner',
    // An import of an archive, which an admin of the tenant asks for.
    'features/collections/postgres/write-statements.ts: insert into ${table.name} (${namesOf(table)}, owner',
    'features/collections/postgres/write-statements.ts: insert into tenon.outbox (collection, verb, document_id, version, document, deleted, owner',
    // It reads the owner that the database set.
    'features/objects/catalogue.ts: insert into objects (key, version, blob, size, etag, headers, metadata, tags) values (${key}, ${version}, ${blob}, ${size}, ${etag}, ${headers}, ${metadata}, ${tags}) on conflict do nothing returning null::uuid as replaced, key, size, etag, headers, owner',
    'features/objects/objects-transfer.ts: insert into objects (key, version, blob, size, etag, headers, metadata, tags, owner',
  ])
  // Documents and objects of a user who is made anonymous, with the rights of a service key.
  const owning = /\bset\s[^`;]*\bowner"?\s*=|`\s*"?owner"?\s*=|\bowner"?\s*=\s*\$\{/g
  const files = new Set((await occurrences(owning)).map((one) => one.replace(/: .*/, '')))
  expect([...files].map((name) => name.replace(/.*\//, ''))).toEqual(['store.ts', 'anonymous-data.ts'])
})

test('the owner – named by a user in any way to write – is refused, or a property like any other', async () => {
  const at = `/v1/collections/${collection}`
  const { body: own } = await call('POST', `${at}/documents`, { as: mia, body: { owner: 'ben' } })
  expect([own.owner, own._owner]).toEqual(['ben', 'mia'])
  const one = `${at}/documents/${own.id}`
  const batch = (op: object) => ['POST', `${at}/batch`, { ops: [{ ...op, id: own.id }] }] as const
  for (const [method, path, body] of [
    ['POST', `${at}/documents`, { _owner: 'ben' }],
    ['PUT', one, { _owner: 'ben' }],
    ['PUT', `${one}?replace=true`, { _owner: 'ben' }],
    ['PUT', `${one}?unset=_owner`, { n: 1 }],
    ['PATCH', one, { _owner: 'ben' }],
    ['PATCH', one, { _owner: null }],
    batch({ op: 'update', data: { _owner: 'ben' } }),
    batch({ op: 'replace', data: { _owner: 'ben' } }),
    batch({ op: 'patch', data: { _owner: 'ben' } }),
    batch({ op: 'increment', field: '_owner' }),
  ] as const) {
    const reply = await call(method, path, { as: mia, body })
    expect([method, path, reply.status], JSON.stringify(reply.body)).toEqual([method, path, 400])
  }
  for (const [method, path, body] of [
    ['PUT', one, { owner: 'ben', c1: 5, tenant_id: 'x' }],
    ['PUT', `${one}?replace=true`, { owner: 'ben' }],
    ['PATCH', one, { owner: 'eve' }],
    batch({ op: 'update', data: { owner: 'ben' } }),
  ] as const) {
    const reply = await call(method, path, { as: mia, body })
    expect([method, path, reply.status], JSON.stringify(reply.body)).toEqual([method, path, 200])
  }
  const lines = { as: mia, body: '{"owner":"ben"}\n{"_owner":"ben"}\n{"_owner":"mia"}\n' }
  const headers = { 'content-type': 'application/x-ndjson' }
  const { body: imported } = await call('POST', `${at}/import`, { ...lines, headers })
  expect([imported.created, imported.failed, imported.errors[0].pointer]).toEqual([2, 1, '/_owner'])
  const rows = await asSuperuser<{ owner: string }>(
    `select owner from ${table} where owner is not null order by 1`,
  )
  expect(rows.map(({ owner }) => owner)).toEqual(['ben', 'mia', 'mia', 'mia', 'mia'])
})

/** The state of a session that decides what its next statement reaches: its roles, and every setting that differs from a new session's. */
const sessionState = async (client: Pick<Client, 'query'>, names: readonly string[]) => {
  const { rows } = await client.query(
    `select current_user, session_user, array(select name || '=' || setting from pg_settings where source = 'session') as changed,
      array(select name || '=' || coalesce(current_setting(name, true), '') from unnest($1::text[]) as name) as settings`,
    [names],
  )
  return rows[0]
}

/** Sends requests of each kind of caller at once, which end well, are refused, fail in a statement, or lose their client. */
async function sendOfEachKind(at: Running): Promise<number[]> {
  const documents = `/v1/collections/${collection}/documents`
  const id = crypto.randomUUID()
  const lines = {
    headers: { 'content-type': 'application/x-ndjson' },
    body: `{"id":"${id}","n":1}\n{"n":"x"}\n`,
  }
  const statusesOf = async (as: Caller) => {
    const aborted = fetch(`${at.url}${documents}?count=exact`, {
      headers: as,
      signal: AbortSignal.timeout(1),
    })
    const sent = [
      call('GET', documents, { as, at }),
      call('POST', documents, { as, at, body: { n: 1 } }),
      call('POST', documents, { as, at, body: { n: 1 }, headers: { 'idempotency-key': unique('k') } }),
      call('POST', documents, { as, at, body: { n: 'x' } }),
      call('POST', `/v1/collections/${collection}/import`, { as, at, ...lines }),
      call('PATCH', `${documents}/${id}`, { as, at, body: { n: 2 } }),
      call('GET', '/v1/workspaces', { as, at }),
    ]
    await aborted.catch(() => {})
    return (await Promise.all(sent)).map(({ status }) => status)
  }
  const callers = [
    mia,
    await userToken(ours, 'ben'),
    ours.anon,
    ours.service,
    ours.operator,
    ...others.map((of) => of.service),
  ]
  return (await Promise.all(callers.map(statusesOf))).flat()
}

test('idle connections – after requests of users, keys and admins, good and bad – have the login role and no setting of a request', async () => {
  const connect = vi.spyOn(Pool.prototype, 'connect')
  const node = await startInProcessNode()
  const fresh = new Client({ connectionString: inject('tenon').env['DATABASE_APP_URL'] })
  try {
    await fresh.connect()
    const heard = await subscribeToEvents(mia, `topic=collections.${collection}.*`, {}, node.at)
    const statuses = await sendOfEachKind(node.at)
    expect(new Set(statuses.map((status) => Math.floor(status / 100)))).toEqual(new Set([2, 4]))
    await receivedAtLeast(heard, 2)
    const names = [...new Set(await occurrences(/(?<=set_config\(')[\w.]+(?=')/g))].map(
      (found) => found.split(': ')[1] ?? '',
    )
    expect(names).toEqual(expect.arrayContaining(['role', 'tenon.tenant', 'tenon.workspace', 'tenon.user']))
    const clean = await sessionState(fresh, names)
    expect(clean.current_user).toBe(clean.session_user)
    const pools = new Set(connect.mock.contexts as Pool[])
    const idle = [...pools].flatMap((pool) => Array.from({ length: pool.idleCount }, () => pool))
    expect(idle.length).toBeGreaterThan(3)
    // All at once, so that each is another connection.
    const held = await Promise.all(idle.map((pool) => pool.connect()))
    for (const client of held) expect(await sessionState(client, names)).toEqual(clean)
    for (const client of held) client.release()
  } finally {
    closeSubscriptions()
    await fresh.end()
    await node.close()
    connect.mockRestore()
  }
})
