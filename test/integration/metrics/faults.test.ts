/** Checks scrapes while servers are away, and the figures of pools and of the whole installation. */

import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { readWaitingWork } from '../../../src/features/analytics/installation.ts'
import { RUN_KINDS } from '../../../src/features/run-kinds.ts'
import { Database } from '../../../src/infra/postgres/database.ts'
import { sql } from '../../../src/infra/postgres/sql.ts'
import { SystemScope } from '../../../src/infra/postgres/system-scope.ts'
import { seriesOf, sumOf } from '../../support/clients/metrics.ts'
import {
  asSuperuser,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { startTcpProxy } from '../../support/servers/tcp-proxy.ts'
import { openInProcessPlatform } from '../../support/stack/in-process-platform.ts'

let workspace: TestWorkspace
let database: Database
beforeAll(async () => {
  workspace = await createTestWorkspace()
  database = Database.open(inject('tenon').env['DATABASE_APP_URL'] ?? '', () => {}, 1)
})
afterAll(() => database?.close())

/** The scrape of a platform with other settings. */
async function scrapeWith(settings: Readonly<Record<string, string>>) {
  const platform = openInProcessPlatform(settings)
  // The first checks of parts may take longer than a scrape waits.
  await platform.health.read()
  try {
    return seriesOf(await platform.metrics.scrape())
  } finally {
    await platform.close()
  }
}

test('scrape: Valkey is away: says so, lacks its metrics, and has all others', async () => {
  const series = await scrapeWith({ REDIS_URL: 'redis://127.0.0.1:1' })
  expect(sumOf(series, 'tenon_observation_up', { source: 'valkey' })).toBe(0)
  expect(sumOf(series, 'tenon_valkey_memory_bytes')).toBeUndefined()
  expect(sumOf(series, 'tenon_part_up', { part: 'valkey' })).toBe(0)
  expect(sumOf(series, 'tenon_part_up', { part: 'postgres' })).toBe(1)
  for (const source of ['installation', 'task_queues', 'process'])
    expect(sumOf(series, 'tenon_observation_up', { source }), source).toBe(1)
})

test('scrape: PostgreSQL is away: says so, and has all others', async () => {
  const series = await scrapeWith({ DATABASE_APP_URL: 'postgres://tenon_app@127.0.0.1:1/tenon' })
  expect(sumOf(series, 'tenon_observation_up', { source: 'installation' })).toBe(0)
  expect(sumOf(series, 'tenon_outbox_lag_seconds')).toBeUndefined()
  expect(sumOf(series, 'tenon_part_up', { part: 'postgres' })).toBe(0)
  expect(sumOf(series, 'tenon_valkey_memory_bytes')).toBeGreaterThan(0)
})

/** Servers whose figures a scrape reads, with a gauge of each. */
const READ_FROM = [
  ['postgres', 'DATABASE_APP_URL', 'tenon_outbox_lag_seconds'],
  ['valkey', 'REDIS_URL', 'tenon_valkey_memory_bytes'],
  ['temporal', 'TEMPORAL_ADDRESS', 'tenon_task_queue_backlog'],
] as const

test.each(READ_FROM)(
  'gauges: %s goes away between two scrapes: they disappear, and come back with it',
  async (part, setting, gauge) => {
    const given = inject('tenon').env[setting] ?? ''
    const url = new URL(given.includes('://') ? given : `http://${given}`)
    const proxy = await startTcpProxy(url)
    const target = new URL(url)
    target.port = String(proxy.port)
    const platform = openInProcessPlatform({ [setting]: given.includes('://') ? target.href : target.host })
    const read = async () => seriesOf(await platform.metrics.scrape())
    const isMissing = async () => {
      const series = await read()
      return sumOf(series, 'tenon_part_up', { part }) === 0 && sumOf(series, gauge) === undefined
    }
    try {
      expect(sumOf(await read(), gauge)).toBeGreaterThanOrEqual(0)
      proxy.close()
      await eventually(async () => ((await isMissing()) ? true : undefined))
      const again = await startTcpProxy(url, { port: proxy.port })
      await eventually(async () => (sumOf(await read(), gauge) === undefined ? undefined : true), 60_000)
      again.close()
    } finally {
      await platform.close()
    }
  },
)

test('metrics: no address for operators: nothing is kept', async () => {
  const platform = openInProcessPlatform({ TENON_OPS_LISTEN: '' })
  platform.metrics.record('tenon_queue_seconds', 1, { kind: 'execution' })
  expect([platform.metrics.isExported, await platform.metrics.scrape()]).toEqual([false, ''])
  await platform.close()
})

const CONTEXT = { role: 'tenon_anon', tenant: '', workspace: '', statementTimeoutMs: 10_000 } as const

test('pool: all connections are in use: waiting transactions are reported, and then counted as waits', async () => {
  const before = database.use
  const sleep = () => database.batch(CONTEXT, [sql`select pg_sleep(0.2)`])
  const first = sleep()
  const others = [sleep(), sleep()]
  await first
  expect(database.use).toMatchObject({ max: 1, used: 1, idle: 0 })
  await Promise.all(others)
  const { waits, waitedMs, waiting } = database.use
  expect([waits - before.waits, waiting]).toEqual([2, 0])
  expect(waitedMs - before.waitedMs).toBeGreaterThan(200)
})

/** In a transaction that is rolled back, so that no other process sees the rows. */
const ROLLED_BACK = new Error('rolled back')

test('installation: a change waits in the outbox: its age is the lag', async () => {
  const { tenantId: tenant, workspaceId } = workspace
  const writer = { ...CONTEXT, role: 'tenon_service', tenant, workspace: workspaceId } as const
  let figures: Awaited<ReturnType<typeof readWaitingWork>> | undefined
  const look = database.transaction(tenant, async (held) => {
    await held.batch(writer, [
      sql`insert into outbox (collection, verb, document_id, version, at)
        values ('measured', 'created', gen_random_uuid(), 1, now() - interval '1 hour')`,
    ])
    figures = await readWaitingWork(new SystemScope('metrics', held), RUN_KINDS)
    throw ROLLED_BACK
  })
  await expect(look).rejects.toBe(ROLLED_BACK)
  expect(figures?.outbox.rows).toBeGreaterThanOrEqual(1)
  expect(figures?.outbox.lagSeconds).toBeGreaterThan(3_500)
  expect(Object.keys(figures?.queued ?? {})).toEqual(RUN_KINDS.map(({ name }) => name))
})

test('installation: creations that have failed, or last for longer than two minutes: are counted', async () => {
  const read = () => readWaitingWork(new SystemScope('metrics', database), RUN_KINDS)
  const slug = unique('failed')
  await asSuperuser(
    `insert into tenon.tenants (id, name, slug, state) values ($1, 'Failed', $1, 'provisioning_failed')`,
    [slug],
  )
  await asSuperuser(
    `insert into tenon.operations (id, tenant_id, type, target, workflow_id, state, created_at)
      values ($1, $1, 'tenant.create', $1, $1, 'running', now() - interval '3 minutes')`,
    [slug],
  )
  try {
    const after = await read()
    expect(after.provisioning.failed).toBeGreaterThanOrEqual(1)
    expect(after.provisioning.late).toBeGreaterThanOrEqual(1)
  } finally {
    await asSuperuser('delete from tenon.operations where id = $1', [slug])
    await asSuperuser('delete from tenon.tenants where id = $1', [slug])
  }
})
