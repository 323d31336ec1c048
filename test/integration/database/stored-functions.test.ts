/** Each function of the database that is written in PL/pgSQL for tables, collections and quotas, called by itself. */

import { readFile } from 'node:fs/promises'
import type { Client } from 'pg'
import { expect, inject, test } from 'vitest'
import {
  call,
  connectSuperuser,
  createTestWorkspace,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'

const FILES = [
  'infra/postgres/roles.sql',
  'features/collections/collections.sql',
  'features/collections/collection-tables.sql',
  'features/quotas/quotas.sql',
  'features/objects/objects.sql',
  'features/tenants/purge/purge.sql',
]

interface Session {
  readonly workspace: TestWorkspace
  /** Runs statements as a superuser in one transaction, which is rolled back. @returns the rows of the last one */
  run<T extends object>(text: string): Promise<T[]>
  /** The error of statements that fail; the transaction goes on without them. */
  fails(text: string): Promise<{ code?: string; message: string; detail?: string }>
  used(quota: string): Promise<number | undefined>
}

async function inTransaction(work: (session: Session) => Promise<void>): Promise<void> {
  const workspace = await createTestWorkspace()
  const client = await connectSuperuser(inject('tenon'))
  try {
    await client.query('begin')
    const { tenantId, workspaceId } = workspace
    await client.query(`set local tenon.tenant = '${tenantId}'; set local tenon.workspace = '${workspaceId}'`)
    await work(sessionOf(client, workspace))
  } finally {
    await client.end()
  }
}

function sessionOf(client: Client, workspace: TestWorkspace): Session {
  const run = async <T extends object>(text: string) =>
    ([await client.query(text)].flat().at(-1)?.rows ?? []) as T[]
  return {
    workspace,
    run,
    fails: async (text) => {
      await client.query('savepoint s')
      const error = await client.query(text).then(
        () => ({ message: 'it did not fail' }),
        (reason: { code: string; message: string; detail?: string }) => reason,
      )
      await client.query('rollback to s')
      return error
    },
    used: async (quota) => {
      const [row] = await run<{ used: string }>(
        `select used from tenon.quotas where workspace_id = '${workspace.workspaceId}' and name = '${quota}'`,
      )
      return row && Number(row.used)
    },
  }
}

const TABLE = 'tenon_data.counted'
const addBucket = `insert into tenon.buckets (name) values ('b' || substr(md5(tenon.workspace()), 1, 20))`
const createTable = `create table ${TABLE} (tenant_id text not null default tenon.tenant(),
  workspace_id text not null default tenon.workspace(), n int, ended_at timestamptz)`
const setQuota = ({ tenantId, workspaceId }: TestWorkspace, name: string, max: number, resets = 'null') =>
  `insert into tenon.quotas (tenant_id, workspace_id, name, max, used, resets_at)
   values ('${tenantId}', '${workspaceId}', '${name}', ${max}, 0, ${resets})
   on conflict (tenant_id, workspace_id, name) do update set max = excluded.max, used = 0`
const ofSession = ({ tenantId, workspaceId }: TestWorkspace) => `'${tenantId}', '${workspaceId}'`

/** By the name of the function that is tested. */
const CASES: Readonly<Record<string, (session: Session) => Promise<void>>> = {
  allow: async ({ run }) => {
    await run(`${createTable}; call tenon.allow('tenon_service', '${TABLE}', 'workspace', 'select');
      call tenon.allow('tenon_admin', '${TABLE}', 'tenant'); call tenon.allow('tenon_issuer', '${TABLE}', 'whole tenant');
      call tenon.allow('tenon_operator', '${TABLE}', 'all')`)
    const ofTenant = 'tenant_id = tenon.tenant()'
    const found = await run<{ policyname: string; cmd: string; qual: string }>(
      `select policyname, cmd, qual from pg_policies where tablename = 'counted' order by 1`,
    )
    expect(found.map(({ policyname, cmd, qual }) => [policyname, cmd, qual])).toEqual([
      [
        'admin',
        'ALL',
        `((${ofTenant}) AND ((tenon.workspace() IS NULL) OR (workspace_id = tenon.workspace())))`,
      ],
      ['issuer', 'ALL', `(${ofTenant})`],
      ['operator', 'ALL', 'true'],
      ['service', 'SELECT', `((${ofTenant}) AND (workspace_id = tenon.workspace()))`],
    ])
    expect(
      await run(`select relrowsecurity, relforcerowsecurity from pg_class where oid = '${TABLE}'::regclass`),
    ).toEqual([{ relrowsecurity: true, relforcerowsecurity: true }])
  },

  refuse_declared: async ({ run, fails, workspace }) => {
    const insert = `insert into tenon.documents (collection, id, data) values ('c', gen_random_uuid(), '{}')`
    await run(insert)
    await run(`insert into tenon.schemas (id, collection, store, schema, mode)
      values ('sch_01k5zzzzzzzzzzzzzzzzzzzzzz', 'c', 'relational', '{}', 'off')`)
    expect((await fails(insert)).code).toBe('TN002')
    await run(`${insert.replace("'c'", "'d'")}; select '${workspace.workspaceId}'`)
  },

  refuse_change: async ({ fails }) => {
    const error = await fails(`select tenon.refuse_change('{"version": 3, "bytes": 0}')`)
    expect([error.code, JSON.parse(error.detail ?? '')]).toEqual([
      'TN003',
      { current: { version: 3, bytes: 0 } },
    ])
  },

  // Its property test is canonical-texts.test.ts.
  canonical: async ({ run }) => {
    const text = (format: string, value: string) => `tenon.canonical('${format}', '${value}')`
    const day = '2026-02-28T23:59:60Z'
    const [row] = await run(`select ${text('uuid', 'A0000000-0000-0000-0000-00000000000F')} as uuid,
      ${text('date', '2026-02-29')} as no_day, ${text('date-time', '2026-03-01T01:00:00.50+01:00')} as zone,
      ${text('date-time', '2026-03-01T00:00:00.5Z')} as utc, ${text('date-time', day)} as leap`)
    const { zone, utc, ...others } = row as Record<string, string>
    expect(others).toMatchObject({ uuid: 'a0000000-0000-0000-0000-00000000000f', no_day: null })
    expect([zone === utc, others['leap']?.slice(-2)]).toEqual([true, '60'])
  },

  check_transition: async ({ run, fails }) => {
    await run(`${createTable}; insert into ${TABLE} (n) values (1);
      create trigger t after update on ${TABLE} for each row
        execute function tenon.check_transition('n > (select n from before)')`)
    await run(`update ${TABLE} set n = 2`)
    for (const n of [2, 1, 'null']) expect((await fails(`update ${TABLE} set n = ${n}`)).code).toBe('42501')
  },

  // Which tables it refuses is in test/isolation/rls-declarations.test.ts.
  require_isolation: async ({ run, fails }) => {
    await run(`insert into tenon.schemas (id, collection, store, schema, mode)
      values ('sch_01k5zzzzzzzzzzzzzzzzzzzzzz', 'c', 'relational', '{}', 'off')`)
    expect((await fails('set constraints all immediate')).message).toMatch(/not isolated/)
  },

  raise_quota_exceeded: async ({ run, fails, workspace }) => {
    await run(setQuota(workspace, 'flows', 5, "'2026-01-01T00:00:00Z'"))
    const row = `(select q from tenon.quotas q where workspace_id = '${workspace.workspaceId}' and name = 'flows')`
    const error = await fails(`select tenon.raise_quota_exceeded(${row}, 7)`)
    const members = { quota: 'flows', limit: 5, used: 7, resets_at: '2026-01-01T00:00:00.000Z' }
    expect([error.code, JSON.parse(error.detail ?? '')]).toEqual(['TQ001', members])
  },

  use_quota: async ({ run, fails, used, workspace }) => {
    const use = (n: number, quota = 'flows') =>
      `select tenon.use_quota(${ofSession(workspace)}, '${quota}', ${n})`
    await run(use(9))
    await run(`${setQuota(workspace, 'flows', 3)}; ${use(2)}`)
    expect((await fails(use(2))).code).toBe('TQ001')
    await run(`${use(1)}; ${use(-2)}`)
    expect(await used('flows')).toBe(1)
    // A window that is over starts again.
    await run(
      `${setQuota(workspace, 'events_per_day', 3, "now() - interval '1 s'")}; ${use(2, 'events_per_day')}`,
    )
    await run(use(1, 'events_per_day'))
    expect(await used('events_per_day')).toBe(3)
  },

  count_rows: async ({ run, fails, used, workspace }) => {
    await run(`${createTable}; ${setQuota(workspace, 'flows', 3)};
      call tenon.add_row_quota('flows', '${TABLE}', 'ended_at')`)
    await run(
      `insert into ${TABLE} (n) values (1), (2), (3); update ${TABLE} set ended_at = now() where n = 1`,
    )
    expect(await used('flows')).toBe(2)
    await run(`delete from ${TABLE} where n < 3`)
    expect(await used('flows')).toBe(1)
    expect((await fails(`insert into ${TABLE} (n) values (4), (5), (6)`)).code).toBe('TQ001')
  },

  add_row_quota: async ({ run }) => {
    await run(`${createTable}; call tenon.add_row_quota('flows', '${TABLE}')`)
    const names = await run<{ tgname: string }>(
      `select tgname from pg_trigger where tgrelid = '${TABLE}'::regclass order by 1`,
    )
    expect(names.map(({ tgname }) => tgname)).toEqual(['count_added', 'count_removed'])
    expect(
      await run(`select quota, until from tenon.quota_sources where relation = '${TABLE}'::regclass`),
    ).toEqual([{ quota: 'flows', until: null }])
  },

  act_for_workspace: async ({ run, workspace }) => {
    const [row] = await run<{ before: string[]; at: string }>(
      `select tenon.act_for_workspace('t', 'w') as before, tenon.tenant() || '/' || tenon.workspace() as at`,
    )
    expect(row).toEqual({ before: [workspace.tenantId, workspace.workspaceId], at: 't/w' })
  },

  // For whom it counts is in test/isolation/security-definers.test.ts.
  quota_count: async ({ run, workspace }) => {
    await run(`insert into tenon.documents (collection, id, data) values ('c', gen_random_uuid(), '{}')`)
    const count = (quota: string) => `tenon.quota_count(${ofSession(workspace)}, '${quota}')::int`
    expect(
      await run(`select ${count('documents')} as n, ${count('document_bytes')} > 1 as has_bytes`),
    ).toEqual([{ n: 1, has_bytes: true }])
  },

  is_limited: async ({ run, workspace }) => {
    const limited = `select tenon.is_limited('flows') as yes`
    expect(await run(limited)).toEqual([{ yes: false }])
    expect(await run(`${setQuota(workspace, 'flows', 3)}; ${limited}`)).toEqual([{ yes: true }])
  },

  consume_quota: async ({ run, fails, used, workspace }) => {
    await run(`${setQuota(workspace, 'events_per_day', 1, "now() + interval '1 h'")};
      select tenon.consume_quota('events_per_day')`)
    expect(await used('events_per_day')).toBe(1)
    expect((await fails(`select tenon.consume_quota('events_per_day')`)).code).toBe('TQ001')
    expect((await fails(`select tenon.consume_quota('documents')`)).message).toMatch(/no such window/)
  },

  count_bytes: async ({ run, used, workspace }) => {
    await run(setQuota(workspace, 'document_bytes', 1_000))
    const bytes = () => used('document_bytes')
    await run(
      `insert into tenon.documents (collection, id, data) values ('c', gen_random_uuid(), '{"a": "12345"}')`,
    )
    const first = Number(await bytes())
    expect(first).toBeGreaterThan(10)
    await run(
      `update tenon.documents set data = '{"a": "1234567"}' where collection = 'c' and workspace_id = tenon.workspace()`,
    )
    expect(await bytes()).toBe(first + 2)
    await run(`delete from tenon.documents where collection = 'c' and workspace_id = tenon.workspace()`)
    expect(await bytes()).toBe(0)
  },

  count_sizes: async ({ run, used, workspace }) => {
    await run(setQuota(workspace, 'object_bytes', 1_000))
    const upload = (bytes: number) =>
      `insert into tenon.object_uploads (id, bytes, expires_at) values (gen_random_uuid(), ${bytes}, now())`
    await run(`${addBucket}; ${upload(300)}; ${upload(200)}`)
    expect(await used('object_bytes')).toBe(500)
    await run(
      `update tenon.object_uploads set bytes = 250 where bytes = 200 and workspace_id = tenon.workspace()`,
    )
    expect(await used('object_bytes')).toBe(550)
    await run('delete from tenon.object_uploads where bytes = 300 and workspace_id = tenon.workspace()')
    expect(await used('object_bytes')).toBe(250)
  },

  add_size_quota: async ({ run }) => {
    await run(`${createTable}; alter table ${TABLE} add size bigint;
      call tenon.add_size_quota('object_bytes', '${TABLE}', 'size')`)
    const names = await run<{ tgname: string }>(
      `select tgname from pg_trigger where tgrelid = '${TABLE}'::regclass order by 1`,
    )
    expect(names.map(({ tgname }) => tgname)).toEqual(['sizes_added', 'sizes_changed', 'sizes_removed'])
  },

  refuse_object_change: async ({ fails }) => {
    expect((await fails(`select tenon.refuse_object_change('upload')`)).code).toBe('TN004')
  },

  require_upload_room: async ({ run, fails }) => {
    expect(await fails('select tenon.require_upload_room(0, 9)')).toMatchObject({
      code: 'TN005',
      detail: '0',
    })
    await run('select tenon.require_upload_room(1, 0)')
    await run(`select set_config('tenon.user', '{"id": "mia"}', true)`)
    expect(await fails('select tenon.require_upload_room(9, 0)')).toMatchObject({
      code: 'TN005',
      detail: '0',
    })
  },
  allow_purge: async ({ run }) => {
    await run(`create table tenon.later (tenant_id text, workspace_id text); call tenon.allow_purge()`)
    const found = await run<{ cmd: string; granted: boolean }>(
      `select cmd, has_table_privilege('tenon_purger', 'tenon.later', 'delete') as granted
       from pg_policies where tablename = 'later' and policyname = 'purger'`,
    )
    expect(found).toEqual([{ cmd: 'ALL', granted: true }])
    await run('call tenon.allow_purge()')
  },
  add_byte_quota: async ({ run }) => {
    await run(`${createTable}; call tenon.add_byte_quota('${TABLE}')`)
    const names = await run<{ tgname: string }>(
      `select tgname from pg_trigger where tgrelid = '${TABLE}'::regclass order by 1`,
    )
    expect(names.map(({ tgname }) => tgname)).toEqual(['bytes_added', 'bytes_changed', 'bytes_removed'])
  },

  total_bytes: async ({ run, workspace }) => {
    const total = `select tenon.total_bytes(${ofSession(workspace)}, 'tenon.documents')::int as bytes`
    expect(await run(total)).toEqual([{ bytes: 0 }])
    const [row] = await run<{ bytes: number }>(
      `insert into tenon.documents (collection, id, data) values ('c', gen_random_uuid(), '{"a": 1}'); ${total}`,
    )
    expect(row?.bytes).toBe('{"data": {"a": 1}, "owner": null}'.length)
  },

  switch_counting: async ({ run }) => {
    await run(
      `${createTable}; call tenon.add_byte_quota('${TABLE}'); call tenon.add_row_quota('documents', '${TABLE}')`,
    )
    const enabled = () =>
      run(
        `select string_agg(tgenabled::text, '' order by tgname) as states from pg_trigger where tgrelid = '${TABLE}'::regclass`,
      )
    await run(`call tenon.switch_counting('${TABLE}', 'document_bytes', 'disable')`)
    expect(await enabled()).toEqual([{ states: 'DDDOO' }])
    await run(`call tenon.switch_counting('${TABLE}', 'documents', 'disable');
      call tenon.switch_counting('${TABLE}', 'document_bytes', 'enable')`)
    expect(await enabled()).toEqual([{ states: 'OOODD' }])
  },

  enable_counting: async ({ run, workspace }) => {
    const schema = { workspace_id: workspace.workspaceId, collection: 'c', store: 'relational', schema: {} }
    const { body } = await call('POST', '/v1/schemas', { as: workspace.operator, body: schema })
    const disabled = `select count(*)::int as n from pg_trigger
      where tgrelid = 'tenon_data."${body.id}"'::regclass and tgenabled = 'D'`
    expect(await run(disabled)).toEqual([{ n: 5 }])
    await run(`select tenon.enable_counting(${ofSession(workspace)}, 'documents')`)
    expect(await run(disabled)).toEqual([{ n: 3 }])
  },

  keep_allotment: async ({ run, fails, workspace }) => {
    const own = (max: number) => `insert into tenon.quotas (tenant_id, workspace_id, name, max, used)
      values ('${workspace.tenantId}', '', 'flows', ${max}, 0)
      on conflict (tenant_id, workspace_id, name) do update set max = excluded.max`
    await run('set local role tenon_operator')
    expect(JSON.parse((await fails(own(9))).detail ?? '')).toMatchObject({
      ...{ quota: 'flows', limit: 9, allotted: 0, without_limit: [workspace.workspaceId] },
    })
    await run(setQuota(workspace, 'flows', 3))
    expect((await fails(own(2))).code).toBe('TQ003')
    await run(own(3))
    expect((await fails(setQuota(workspace, 'flows', 4))).code).toBe('TQ003')
    const removal = `delete from tenon.quotas where workspace_id = '${workspace.workspaceId}' and name = 'flows'`
    expect((await fails(removal)).code).toBe('TQ003')
  },

  count_workspaces: async ({ run, workspace: { tenantId, workspaceId } }) => {
    await run(
      `insert into tenon.quotas (tenant_id, workspace_id, name, max, used) values ('${tenantId}', '', 'workspaces', 9, 1)`,
    )
    await run(`update tenon.workspaces set state = 'deleted' where id = '${workspaceId}'`)
    expect(
      await run(`select used::int from tenon.quotas where tenant_id = '${tenantId}' and name = 'workspaces'`),
    ).toEqual([{ used: 0 }])
  },

  set_initial_quotas: async ({ run, workspace }) => {
    expect(
      await run(
        `select name, max::int from tenon.quotas where workspace_id = '${workspace.workspaceId}' order by 1`,
      ),
    ).toEqual([
      { name: 'mcp_servers', max: 1 },
      { name: 'users', max: 10_000 },
    ])
  },
}

test.each(Object.entries(CASES))(
  'database function %s: called: does what its comment says',
  async (_name, work) => {
    await inTransaction(work)
  },
)

test('database functions in PL/pgSQL: listed: each has a test', async () => {
  const texts = await Promise.all(FILES.map((name) => readFile(`src/${name}`, 'utf8')))
  const names = texts.flatMap((text) =>
    [
      ...text.matchAll(
        /^create (?:function|procedure) tenon\.([a-z_]+)(?:(?!^create )[\s\S])*?language (\w+)/gm,
      ),
    ]
      .filter(([, , language]) => language === 'plpgsql')
      .map(([, name]) => name),
  )
  expect(names.sort()).toEqual(Object.keys(CASES).sort())
})
