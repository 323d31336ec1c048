/** How far back metrics are known, when a late record counts, and values that are not counted. */

import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest'
import type { Platform } from '../../../src/app/platform.ts'
import { queryAnalytics } from '../../../src/features/analytics/analytics-api.ts'
import { readLevels } from '../../../src/features/analytics/levels.ts'
import { Meters } from '../../../src/features/analytics/meters.ts'
import { recordUsage } from '../../../src/features/analytics/usage.ts'
import { inScanLine } from '../../../src/features/collections/scans.ts'
import { recordExecution } from '../../../src/features/flows/executions/record.ts'
import { openLog } from '../../../src/infra/log.ts'
import { Database } from '../../../src/infra/postgres/database.ts'
import { callChain } from '../../support/fixtures/chains.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { asSuperuser, call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { openInProcessPlatform, scopeOf } from '../../support/stack/in-process-platform.ts'

let platform: Platform
let database: Database
beforeAll(() => {
  platform = openInProcessPlatform()
  database = Database.open(inject('tenon').env['DATABASE_APP_URL'] ?? '', () => {})
})
afterAll(async () => {
  await platform.close()
  await database.close()
})

const HOUR_MS = 3_600_000
const agoOf = (hours: number) => new Date(Date.now() - hours * HOUR_MS)

type Points = readonly (readonly [string, number | null])[]

async function points({ operator, service }: TestWorkspace, query: string): Promise<Points> {
  const [path, as] = query.includes('workspace_id') ? ['usage', operator] : ['analytics', service]
  const { status, body } = await call('GET', `/v1/${path}/query?${query}`, { as })
  expect(status, JSON.stringify(body)).toBe(200)
  return body.series[0].points
}

const sum = (of: Points) => of.reduce((all, [, value]) => all + (value ?? 0), 0)

const addMinute = ({ tenantId, workspaceId }: TestWorkspace, at: Date, requests: number) =>
  asSuperuser(
    `insert into tenon.meters values ($1, $2, date_trunc('minute', $3::timestamptz), $4, 0, 0, 0, 0, '{}')`,
    [tenantId, workspaceId, at, requests],
  )

/** What retention leaves of an hour: its record. */
const addRecord = ({ tenantId, workspaceId }: TestWorkspace, at: Date, requests: number) =>
  asSuperuser(
    `insert into tenon.usage_records (tenant_id, workspace_id, hour, id, amounts) values ($1, $2,
      date_trunc('hour', $3::timestamptz, 'UTC'), 'usage_' || $2 || $4, jsonb_build_object('requests', jsonb_build_object('', $4::int)))`,
    [tenantId, workspaceId, at, requests],
  )

const keep = ({ workspaceId, operator: as }: TestWorkspace, retention: object) =>
  call('POST', '/v1/services/configure', { as, body: { workspace_id: workspaceId, retention } })

test('requests of a tenant: hours whose minutes are removed are read from their records, others are counted', async () => {
  const workspace = await createTestWorkspace()
  await addRecord(workspace, agoOf(5), 7)
  // Minutes of an hour that is recorded count once.
  await addMinute(workspace, agoOf(5), 7)
  await addRecord(workspace, agoOf(100 * 24), 9)
  await addMinute(workspace, agoOf(0), 3)
  const query = `metric=requests&workspace_id=${workspace.workspaceId}&step=1h`
  expect(sum(await points(workspace, `${query}&window=8h`))).toBe(10)
  const [from, to] = [agoOf(101 * 24), agoOf(99 * 24)].map((time) => time.toISOString())
  expect(sum(await points(workspace, `${query}&from=${from}&to=${to}`))).toBe(9)
})

test('times before both periods of retention: are null, and not 0; steps of minutes are refused', async () => {
  const workspace = await createTestWorkspace()
  expect((await keep(workspace, { meters: '3d', usage: '30d' })).status).toBe(200)
  const ofTenant = `&workspace_id=${workspace.workspaceId}`
  const [from, to] = [agoOf(31 * 24), agoOf(29 * 24)].map((time) => time.toISOString())
  for (const of of ['', ofTenant]) {
    const values = (await points(workspace, `metric=requests${of}&from=${from}&to=${to}&step=12h`)).map(
      ([, value]) => value,
    )
    expect([values.at(0), values.at(-1)]).toEqual([null, 0])
    const [path, as] = of === '' ? ['analytics', workspace.service] : ['usage', workspace.operator]
    for (const step of ['30m', '90m']) {
      const query = `metric=requests${of}&window=4d&step=${step}`
      const { status, body } = await call('GET', `/v1/${path}/query?${query}`, { as })
      expect([status, body.detail]).toEqual([
        400,
        'The metric is known by the hour in this range. Use whole hours: `step=1h`, `step=2h`, `step=3h`, `step=6h`, `step=12h`, `step=1d`.',
      ])
    }
  }
  // Events that are kept for longer than records are counted instead.
  expect((await keep(workspace, { meters: '60d', usage: '30d' })).status).toBe(200)
  await addMinute(workspace, agoOf(40 * 24), 5)
  const longer = await points(workspace, `metric=requests${ofTenant}&window=70d&step=1d`)
  // The requests of this test may be counted by now, too.
  expect([sum(longer.slice(0, -1)), longer[5]?.[1], longer.at(-20)?.[1]]).toEqual([5, null, 0])
})

test('events that are recorded hours after they happened: count at the time of the record, so no recorded hour misses them', async () => {
  const workspace = await createTestWorkspace()
  const ref = scopeOf(platform, workspace).ref
  const executions = new Executions(workspace)
  const id = await executions.start(await executions.publish('  - a: { set: { x: 1 } }'))
  await executions.ended(id)
  await asSuperuser(`set session_replication_role = replica;
    update tenon.executions set status = 'running', ended_at = null where id = '${id}'`)
  const ended = { status: 'completed', ended_at: agoOf(3).toISOString(), steps: [] } as const
  await recordExecution(scopeOf(platform, workspace), { execution_id: id, ...ended })
  await callChain(workspace).append({ days: 3 / 24, count: 2 })
  const meters = new Meters(database, openLog('silent', 'test'))
  for (const hours of [3, 2.5]) {
    vi.useFakeTimers({ toFake: ['Date'], now: agoOf(hours) })
    meters.countEvent(ref)
    vi.useRealTimers()
  }
  await meters.flush()
  for (const [metric, count] of [
    ['executions', 1],
    ['mcp_calls', 2],
    ['events', 2],
  ] as const) {
    expect(sum(await points(workspace, `metric=${metric}&window=10m&step=1m`)), metric).toBe(count)
    expect(sum(await points(workspace, `metric=${metric}&window=6h&step=1m`)), metric).toBe(count)
  }
})

test('documents of an installation that stores some in MongoDB: are null with the reason, and not 0', async () => {
  const workspace = await createTestWorkspace()
  const { workspaceId, operator: as } = workspace
  const reason =
    'Documents are not counted in an installation that stores some in MongoDB, or if counting them took too long.'
  const withMongo = openInProcessPlatform({ MONGODB_URL: 'mongodb://127.0.0.1:9/' })
  try {
    const query = { metric: 'documents', window: '2h' }
    const series = await queryAnalytics.run(scopeOf(withMongo, workspace, 'service'), query)
    expect([series.series[0]?.points.at(-1)?.[1], series.not_counted]).toEqual([null, reason])
    await addMinute(workspace, agoOf(3), 1)
    await asSuperuser(
      `update tenon.workspaces set usage_until = usage_until - interval '5 hours', retention_due_at = 'infinity' where id = $1`,
      [workspaceId],
    )
    await recordUsage(scopeOf(withMongo, workspace))
    // Nothing but levels makes no record of the last hour.
    const { body } = await call('GET', `/v1/usage?workspace_id=${workspaceId}`, { as })
    expect(body.data.map(({ amounts }: { amounts: unknown }) => amounts)).toEqual([
      [{ metric: 'requests', labels: {}, unit: 'requests', value: 1 }],
    ])
    await addMinute(workspace, new Date(Date.parse(body.data[0].to) + 2 * HOUR_MS - 1_000), 2)
    await asSuperuser('delete from tenon.usage_records where workspace_id = $1', [workspaceId])
    await asSuperuser(
      `update tenon.workspaces set usage_until = usage_until - interval '5 hours' where id = $1`,
      [workspaceId],
    )
    await recordUsage(scopeOf(withMongo, workspace))
    const again = await call('GET', `/v1/usage?workspace_id=${workspaceId}`, { as })
    expect(again.body.data.at(-1).amounts).toContainEqual({
      ...{ metric: 'documents', labels: {}, unit: 'documents', value: null, not_counted: reason },
    })
  } finally {
    await withMongo.close()
  }
})

test('documents without a quota: are counted when a query that reads whole collections may run; with one, at once', async () => {
  const workspace = await createTestWorkspace()
  const scope = scopeOf(platform, workspace)
  for (const data of [1, 2])
    await call('POST', '/v1/collections/notes/documents', { as: workspace.service, body: { data } })
  const release = Promise.withResolvers<void>()
  const scans = [1, 2].map(() => inScanLine(workspace.tenantId, () => release.promise))
  let hasCounted = false
  const counted = readLevels(scope, ['documents']).finally(() => {
    hasCounted = true
  })
  const body = { workspace_id: workspace.workspaceId, limits: { document_bytes: 1_000 } }
  expect((await call('PUT', '/v1/quotas', { as: workspace.operator, body })).status).toBe(200)
  // While the scans go on, a counter is read.
  expect((await readLevels(scope, ['document_bytes', 'users']))['document_bytes']).toBeGreaterThan(0)
  expect(hasCounted).toBe(false)
  release.resolve()
  await Promise.all(scans)
  expect(await counted).toEqual({ documents: 2 })
})
