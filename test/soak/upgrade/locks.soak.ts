/**
 * Locks of migrations on a table of 10,000,000 rows: the steps that docs/contributing/migrations.md recommends are applied to a database of
 * release 0.1.0 while clients write; no lock that stops them is held for a second. `npm run test:upgrade` (`TENON_UPGRADE_ROWS=100000` for a try).
 */

import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'
import { expect, test } from 'vitest'
import { withAdminSession } from '../../../src/infra/postgres/admin-session.ts'
import { applyFile } from '../../../src/infra/postgres/migration-file.ts'
import { asSuperuser, eventually } from '../../support/fixtures/tenants.ts'
import { ownPlatform } from '../../support/stack/own-platform.ts'
import type { Running } from '../../support/stack/start.ts'
import { releaseSources, type Sources, sourcesWith, tenonOf } from './builds.ts'
import { LockSampler, Writer } from './lock-sampler.ts'

const ROWS = Number(process.env['TENON_UPGRADE_ROWS'] ?? 10_000_000)
const LOCKED_MS_MAX = 1_000
const TIMEOUT_MS = 3_600_000
const WRITERS = 2

const HEAD = '-- Serves builds from 0.1.0 on.\n'
const NO_TRANSACTION = '-- No transaction: can be repeated after it was cut off.\n'

/** Each row of the table "Locks" of the page. */
const STEPS = {
  'infra/postgres/migrations/9001-drill.sql': `${HEAD}alter table tenon.documents
  add column drill text not null default 'none',
  add column drill_kind text default 'none',
  add constraint documents_drill check (length(drill) < 100) not valid,
  add constraint documents_drill_key foreign key (tenant_id, workspace_id) references tenon.workspaces (tenant_id, id) not valid;
alter table tenon.documents add constraint documents_drill_kind not null drill_kind not valid;
`,
  'infra/postgres/migrations/9002-drill-index.sql': `${HEAD}${NO_TRANSACTION}drop index concurrently if exists tenon.documents_drill;
create index concurrently documents_drill on tenon.documents (tenant_id, drill);
`,
  'infra/postgres/migrations/9003-drill-validate.sql': `${HEAD}${NO_TRANSACTION}alter table tenon.documents validate constraint documents_drill;
alter table tenon.documents validate constraint documents_drill_kind;
`,
}

/** The key is built afterwards, which takes a third of the time. */
const FILLS = `set session_replication_role = replica;
  set maintenance_work_mem = '512MB';
  insert into tenon.tenants (id, name, slug, state) values ('ten_drill', 'drill', 'drill', 'active');
  insert into tenon.workspaces (id, tenant_id, name, slug, state) values ('wsp_drill', 'ten_drill', 'drill', 'drill', 'active');
  alter table tenon.documents drop constraint documents_pkey;
  insert into tenon.documents (tenant_id, workspace_id, collection, id, data)
    select 'ten_drill', 'wsp_drill', 'things', uuidv7(), '{"n": 1, "name": "a thing"}' from generate_series(1, ${ROWS});
  alter table tenon.documents add primary key (tenant_id, workspace_id, collection, id);
  set session_replication_role = origin`

/** A table of the release with its rows. */
async function fill(running: Running, release: Sources) {
  await asSuperuser('create database of_rows', [], running)
  const url = new URL('/of_rows', running.databaseUrl).href
  const env = { DATABASE_URL: url, TENON_MASTER_KEY: running.masterKey, TEMPORAL_ADDRESS: '' }
  await release.tenon(['migrate'], env)
  const client = new Client({ connectionString: url })
  // It is open when the servers end, if something failed.
  client.on('error', () => {})
  await client.connect()
  const beganMs = performance.now()
  await client.query(FILLS)
  const seconds = Math.round((performance.now() - beganMs) / 1_000)
  const { rows } = await client.query(
    "select pg_size_pretty(pg_total_relation_size('tenon.documents')) as size",
  )
  console.log(`${ROWS} rows, ${rows[0]?.size}, in ${seconds} s`)
  return { url, env, client }
}

/** The longest lock and the longest wait of a writer while a step ran. */
async function measure(url: string, name: string, work: () => Promise<unknown>) {
  const [sampler, ...writers] = await Promise.all([
    LockSampler.start(url),
    ...Array.from({ length: WRITERS }, () => Writer.start(url)),
  ])
  const beganMs = performance.now()
  try {
    await work()
  } finally {
    await Promise.all(writers.map((writer) => writer.end()))
    await sampler.end()
  }
  const seconds = ((performance.now() - beganMs) / 1_000).toFixed(1)
  const writes = writers.reduce((sum, writer) => sum + writer.writes, 0)
  const slowest = Math.max(...writers.map((writer) => writer.slowestMs))
  const found = {
    'what stops writers, ms': sampler.heldMs,
    'writers waited, ms': sampler.waitedMs,
    'slowest write, ms': Math.ceil(slowest),
  }
  console.table({ [name]: { seconds, ...found, on: sampler.longest, writes, samples: sampler.samples } })
  expect(writes).toBeGreaterThan(0)
  return found
}

async function measureMigrations(): Promise<void> {
  const [platform, release, next] = await Promise.all([
    ownPlatform({ lasting: true }),
    releaseSources(),
    sourcesWith(STEPS),
  ])
  const { running, stack } = platform.started
  try {
    await Promise.all([stack.supervisor.end('worker'), stack.supervisor.end('api')])
    const { url, env, client } = await fill(running, release)
    const environment = { ...running.env, ...env }
    const own = await measure(url, 'the migration of this build', () => tenonOf('.')(['migrate'], env))
    const checked = await measure(url, 'tenon migrate --check', async () => {
      const printed = await next.tenon(['migrate', '--check'], environment)
      console.log(printed)
      expect(printed).toMatch(/9001-drill\.sql: \d+ ms, locks tenon\.documents \(AccessExclusiveLock\), /)
      expect(printed).toMatch(
        /9002-drill-index\.sql: not rehearsed: it is no transaction, and lets requests go/,
      )
    })
    const migrated = await measure(url, 'tenon migrate', () => migrateBesideReader(client, next, env))
    for (const found of [own, checked, migrated]) {
      expect(found['what stops writers, ms']).toBeLessThan(LOCKED_MS_MAX)
      expect(found['writers waited, ms']).toBeLessThan(LOCKED_MS_MAX)
    }
    await printFiles(client)
    await measure(url, 'a file that would stop writers for longer', () => refused(url))
    await client.end()
  } finally {
    await platform.end()
    await Promise.all([next.remove(), release.remove()])
  }
}

/** A transaction holds the table until the migration has let go once: writers must not queue behind the two. */
async function migrateBesideReader(client: Client, next: Sources, env: Readonly<Record<string, string>>) {
  await client.query('begin; select from tenon.documents limit 1')
  const migrated = next.tenon(['migrate'], env)
  const waiting = async () => {
    const { rows } = await asked(client, TRY)
    return rows[0]?.at as string | undefined
  }
  const first = await eventually(waiting)
  await eventually(async () => {
    const at = await waiting()
    return at !== undefined && at !== first ? true : undefined
  })
  await client.query('rollback')
  await migrated
}

/** When the transaction began that waits for the lock. */
const TRY = `select xact_start::text as at from pg_stat_activity
  where application_name = 'tenon-migrate' and wait_event_type = 'Lock' and datname = current_database()`
/** Within a transaction, statistics stay as they were first read. */
async function asked(client: Client, text: string) {
  await client.query('select pg_stat_clear_snapshot()')
  return client.query(text)
}

async function printFiles(client: Client): Promise<void> {
  const { rows } = await client.query(
    `select name, round(extract(epoch from applied_at - lag(applied_at) over (order by applied_at)), 1)::text as seconds
     from public.tenon_migrations order by applied_at desc limit 3`,
  )
  console.table(rows)
}

async function refused(url: string): Promise<void> {
  await pause(1_000)
  const blocks = {
    name: 'blocks.sql',
    text: `${HEAD}create index blocks on tenon.documents (tenant_id, id);\nselect pg_sleep(60);`,
  }
  const applied = withAdminSession(url, 'tenon-migrate', (session) => applyFile(session, blocks))
  await expect(applied).rejects.toThrow('The file blocks.sql was cut off after 1000 ms')
}

test(
  'migrations of 10,000,000 rows under writes: no lock that stops writers is held for a second, and a file that would hold one is cut off',
  measureMigrations,
  TIMEOUT_MS,
)
