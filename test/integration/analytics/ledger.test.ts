/** Metrics, and the records of usage, compared with a ledger of what workspaces really did. */

import { beforeAll, expect, test } from 'vitest'
import { sign } from '../../../src/features/runs/triggers/standard-webhooks.ts'
import { callTool, publishMcpServer } from '../../support/clients/mcp.ts'
import { Executions, makeRetentionDue } from '../../support/fixtures/executions.ts'
import { publishScheduled } from '../../support/fixtures/schedules.ts'
import {
  addTestWorkspace,
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../../support/fixtures/tenants.ts'

/** Sums by metric, and by label if the metric has one: `errors 4xx`. Absent ones are 0. */
type Ledger = Readonly<Record<string, number>>

/** Two workspaces of a tenant, and one of another. */
let [traffic, work, foreign]: TestWorkspace[] = []
const at = (workspace: TestWorkspace | undefined): TestWorkspace => {
  if (workspace === undefined) throw new Error('no workspace')
  return workspace
}
let ledgers: { traffic: Ledger; work: Ledger }

beforeAll(async () => {
  traffic = await createTestWorkspace()
  work = await addTestWorkspace(traffic)
  foreign = await createTestWorkspace()
  const [ofTraffic, ofWork] = await Promise.all([send(traffic), doWork(work), publishEvents(foreign, 7)])
  ledgers = { traffic: ofTraffic, work: ofWork }
})

async function publishEvents({ service: as }: TestWorkspace, count: number): Promise<void> {
  for (let n = 0; n < count; n += 1)
    expect((await call('POST', '/v1/events/publish', { as, body: { topic: 'a.b', data: n } })).status).toBe(
      202,
    )
}

async function send(of: TestWorkspace): Promise<Ledger> {
  const { service: as } = of
  const bodies = [{ a: 1 }, { a: 22 }, { a: 333 }]
  for (const body of bodies)
    expect((await call('POST', '/v1/collections/notes/documents', { as, body })).status).toBe(201)
  for (let n = 0; n < 4; n += 1)
    expect((await call('GET', '/v1/collections/notes/documents/no', { as })).status).toBeGreaterThanOrEqual(
      400,
    )
  await publishEvents(of, 3)
  const { body } = await call('GET', `/v1/quotas?workspace_id=${of.workspaceId}`, { as: of.operator })
  return {
    requests: 10,
    'errors 4xx': 4,
    events: 3,
    documents: 3,
    document_bytes: body.quotas.document_bytes.used,
  }
}

async function doWork(of: TestWorkspace): Promise<Ledger> {
  const { service, operator: as, workspaceId: workspace_id } = of
  const source = 'export default (input) => { if (input.fails) throw new Error("no"); return 1 }'
  const made = await call('POST', '/v1/functions', { as, body: { workspace_id, name: 'f', source } })
  expect(made.status, JSON.stringify(made.body)).toBe(201)
  for (const fails of [false, false, true])
    await call('POST', '/v1/functions/f/invoke', { as: service, body: { fails } })
  const executions = new Executions(of)
  const [done, faulty] = await Promise.all([
    executions.publish('  - a: { set: { x: 1 } }'),
    executions.publish(
      "  - a: { raise: { error: { type: 'https://example.test/no', status: 400, title: no } } }",
    ),
  ])
  const ids = await Promise.all([done, done, faulty].map((flow) => executions.start(flow)))
  await Promise.all([...ids, ...(await deliver(of))].map((id) => executions.ended(id)))
  await callTools(of)
  const settings = { workspace_id, auth: { sign_up: 'invite' } }
  await call('POST', '/v1/services/configure', { as, body: settings })
  const body = { workspace_id, email: `${unique('u')}@example.test` }
  expect((await call('POST', '/v1/users', { as, body })).status).toBe(201)
  const [run] = await asSuperuser<{ ms: number }>(
    'select sum(duration_ms)::int as ms from tenon.function_runs where workspace_id = $1',
    [workspace_id],
  )
  return {
    'runs completed': 2,
    'runs failed': 1,
    run_ms: run?.ms ?? 0,
    'executions completed': 4,
    'executions faulted': 1,
    deliveries: 2,
    'mcp_calls ok': 2,
    'mcp_calls denied': 1,
    users: 1,
  }
}

/** Three deliveries, one of them repeated. @returns the ids of the executions that they started */
async function deliver(of: TestWorkspace): Promise<string[]> {
  const { body } = await publishScheduled(of, unique('hook'), '{ webhook: {} }')
  const [hook] = body.webhooks
  const replies = []
  for (const id of ['msg_1', 'msg_2', 'msg_1']) {
    const seconds = Math.floor(Date.now() / 1_000)
    const signature = sign(hook.secret, id, seconds, Buffer.from('{}'))
    const headers = { 'webhook-id': id, 'webhook-timestamp': `${seconds}`, 'webhook-signature': signature }
    replies.push(await call('POST', new URL(hook.url).pathname, { body: '{}', headers }))
  }
  expect(replies.map(({ status }) => status)).toEqual([202, 202, 202])
  return [...new Set(replies.map((reply) => reply.body.execution_id as string))]
}

async function callTools(of: TestWorkspace): Promise<void> {
  const server = await publishMcpServer(of, unique('mcp'))
  const body = { tool: 'notes_list', arguments: {} }
  for (let n = 0; n < 2; n += 1)
    expect((await call('POST', `${server.base}/call`, { as: of.operator, body })).body.is_error).toBe(false)
  await callTool(server.path, {}, 'notes_list')
}

const METRICS = [
  'errors',
  'events',
  'documents',
  'document_bytes',
  'users',
  'runs',
  'run_ms',
  'executions',
  'deliveries',
  'mcp_calls',
]

const isLevel = (metric: string) => /^(documents|document_bytes|object_bytes|users)$/.test(metric)

/** The metrics of a workspace as its key reads them. @param step of counts; levels are known by the hour */
async function measured({ service: as }: TestWorkspace, window: string, step: string): Promise<Ledger> {
  const replies = await Promise.all(
    METRICS.map((metric) => {
      const steps = isLevel(metric) ? '' : `&step=${step}`
      return call('GET', `/v1/analytics/query?metric=${metric}&window=${window}${steps}`, { as })
    }),
  )
  return Object.assign(
    {},
    ...replies.map(({ status, body }) => {
      expect(status, JSON.stringify(body)).toBe(200)
      return sumsOf(body)
    }),
  )
}

/** As an admin reads them: a query with the key of the workspace is a request, too. */
async function requestsOf(of: TestWorkspace): Promise<number> {
  const path = `/v1/usage/query?metric=requests&workspace_id=${of.workspaceId}&window=1h&step=1m`
  return sumsOf((await call('GET', path, { as: of.operator })).body)['requests'] ?? 0
}

interface Series {
  readonly labels: Readonly<Record<string, string>>
  readonly points: readonly (readonly [string, number | null])[]
}

/** Counts are added up; of a level, the last value counts. Zeros are left out. */
function sumsOf({ metric, series }: { metric: string; series: readonly Series[] }): Ledger {
  const sums = series.map(({ labels, points }) => {
    const values = points.map(([, value]) => value).filter((value) => value !== null)
    const sum = isLevel(metric) ? (values.at(-1) ?? 0) : values.reduce((all, value) => all + value, 0)
    return [[metric, ...Object.values(labels)].join(' '), sum] as const
  })
  return Object.fromEntries(sums.filter(([, sum]) => sum > 0))
}

test('requests and what the key of the workspace did by the minute: as the ledger has them', async () => {
  const of = at(traffic)
  const { requests, ...expected } = ledgers.traffic
  // Counts are stored every two seconds.
  await eventually(async () => ((await requestsOf(of)) === requests ? true : undefined))
  expect(await measured(of, '1h', '1m')).toEqual(expected)
})

test('work of the workspace by the minute: as the ledger has it', async () => {
  const found = await measured(at(work), '1h', '1m')
  const made = ['documents', 'document_bytes', 'errors 4xx', 'errors 5xx']
  const counted = Object.fromEntries(Object.entries(found).filter(([name]) => !made.includes(name)))
  expect(counted).toEqual(ledgers.work)
})

/** Moves everything that was counted some hours back, as if it had happened then, and lets the worker record the hours. */
async function moveBack({ workspaceId }: TestWorkspace, hours: number): Promise<void> {
  const moved = [
    ['meters', 'at'],
    ['function_runs', 'ended_at'],
    ['executions', 'ended_at'],
    ['webhook_deliveries', 'received_at'],
    ['mcp_calls', 'logged_at'],
  ].map(
    ([table, column]) =>
      `update tenon.${table} set ${column} = ${column} - interval '${hours} hours' where workspace_id = '${workspaceId}';`,
  )
  await asSuperuser(`set session_replication_role = replica; ${moved.join(' ')}
    update tenon.workspaces set usage_until = date_trunc('hour', now(), 'UTC') - interval '${hours + 2} hours' where id = '${workspaceId}'`)
}

async function recorded(of: TestWorkspace): Promise<void> {
  await makeRetentionDue(of)
  await eventually(async () => {
    const open = await asSuperuser(
      "select from tenon.workspaces where id = $1 and usage_until < now() - interval '70 minutes'",
      [of.workspaceId],
    )
    return open.length === 0 ? true : undefined
  })
}

interface Hour {
  readonly id: string
  readonly workspace_id: string
  readonly from: string
  readonly amounts: readonly { metric: string; labels: object; value: number | null; not_counted?: string }[]
}

async function usageOf(as: Caller, query: string): Promise<Hour[]> {
  const records: Hour[] = []
  for (let next = ''; ; ) {
    const { status, body } = await call('GET', `/v1/usage?page[size]=2&${query}${next}`, { as })
    expect(status, JSON.stringify(body)).toBe(200)
    records.push(...body.data)
    if (!body.page.has_more) return records
    next = `&page[after]=${body.page.next}`
  }
}

function sumOf(records: readonly Hour[]): Ledger {
  const sums: { [name: string]: number } = {}
  for (const { amounts } of records)
    for (const { metric, labels, value } of amounts) {
      const name = [metric, ...Object.values(labels)].join(' ')
      if (value === null) continue
      sums[name] = isLevel(metric) ? value : (sums[name] ?? 0) + value
    }
  return sums
}

test('hours that have ended: recorded once, as the ledger has them; read twice they are the same; events may go then', async () => {
  const [a, b] = [at(traffic), at(work)]
  await Promise.all([a, b].map((of) => moveBack(of, 3)))
  await Promise.all([a, b].map(recorded))
  const as = await tokenOf({ tenant_id: a.tenantId, roles: ['tenant_admin'] })
  const records = await usageOf(as, '')
  expect(await usageOf(as, '')).toEqual(records)
  expect(new Set(records.map(({ id }) => id)).size).toBe(records.length)
  const of = (one: TestWorkspace) => records.filter(({ workspace_id }) => workspace_id === one.workspaceId)
  const { requests: _requests, ...sent } = ledgers.traffic
  expect(sumOf(of(a))).toMatchObject(sent)
  expect(sumOf(of(b))).toMatchObject(ledgers.work)
  // Recording again changes nothing, even from the beginning.
  await asSuperuser(
    "update tenon.workspaces set usage_until = usage_until - interval '5 hours' where id = $1",
    [a.workspaceId],
  )
  await recorded(a)
  expect(await usageOf(as, '')).toEqual(records)
  // What was counted is no longer needed.
  await asSuperuser('delete from tenon.meters where workspace_id = $1', [a.workspaceId])
  await asSuperuser('delete from tenon.function_runs where workspace_id = $1', [b.workspaceId])
  const hourly = await measured(b, '6h', '1h')
  expect(hourly).toMatchObject(ledgers.work)
  const [from, to] = [records[0]?.from, new Date().toISOString()]
  expect(await usageOf(as, `from=${from}&to=${to}`)).toEqual(records)
  expect(await usageOf(as, `to=${from}`)).toEqual([])
})

test('metrics of a tenant: for its admins, by workspace; nothing of other tenants, whoever names them', async () => {
  const [a, b, other] = [at(traffic), at(work), at(foreign)]
  const admin = await tokenOf({ tenant_id: a.tenantId, roles: ['tenant_admin'] })
  const ask = async (as: Caller, query: string) =>
    (await call('GET', `/v1/usage/query?window=1d&${query}`, { as })).body
  const runs = await ask(admin, 'metric=executions&group_by=workspace')
  expect(runs).toMatchObject({ metric: 'executions', unit: 'executions', window: '1d', step: '1h' })
  expect(runs.series.map(({ labels }: Series) => labels)).toEqual([{ workspace: b.workspaceId }])
  expect(sumsOf(await ask(admin, 'metric=executions'))).toMatchObject({ 'executions completed': 4 })
  expect(sumsOf(await ask(admin, 'metric=executions&group_by=none'))).toEqual({ executions: 5 })
  expect(sumsOf(await ask(admin, 'metric=documents&group_by=none'))['documents']).toBeGreaterThanOrEqual(3)
  const bound = { tenant_id: a.tenantId, workspace_id: a.workspaceId, roles: ['workspace_admin'] }
  expect(sumsOf(await ask(await tokenOf(bound), 'metric=executions'))).toEqual({})
  const foreigner = await tokenOf({ tenant_id: other.tenantId, roles: ['tenant_admin'] })
  for (const named of ['', `&tenant_id=${a.tenantId}`, `&workspace_id=${b.workspaceId}`])
    expect(sumsOf(await ask(foreigner, `metric=executions${named}`))).toEqual({})
  expect(await usageOf(foreigner, `tenant_id=${a.tenantId}`)).toEqual([])
  expect(sumsOf(await ask(a.operator, `metric=executions&tenant_id=${a.tenantId}`))).toMatchObject({
    'executions faulted': 1,
  })
})

const HELP = [
  ['', 'window', 'Send `window`, such as `window=24h`, or `from` and `to`.'],
  ['window=1h&from=2026-01-01T00:00:00.000Z', 'window', 'Send either `window`, or `from` and `to`.'],
  [
    'from=2026-02-01T00:00:00.000Z&to=2026-01-01T00:00:00.000Z',
    'from',
    'from=2026-02-01T00:00:00.000Z is not before to=2026-01-01T00:00:00.000Z.',
  ],
  ['window=1h&step=90s', 'step', 'step is a number of whole minutes, such as `step=1m`.'],
  ['window=1h&step=2h', 'step', 'step=2h is longer than the range of 1h. Use `step=1m`.'],
  ['window=30d&step=1m', 'step', 'step=1m makes 43200 points, and at most 1000 are returned. Use `step=1h`.'],
  ['window=1h&group_by=status', 'group_by', 'requests cannot be grouped by status. Use `group_by=none`.'],
  [
    'window=1h&group_by=workspace',
    'group_by',
    'requests cannot be grouped by workspace. Use `group_by=none`.',
  ],
  [
    'metric=errors&window=1h&group_by=status',
    'group_by',
    'errors cannot be grouped by status. Use `group_by=class` or `group_by=none`.',
  ],
  [
    'metric=latency&window=1h&group_by=none',
    'group_by',
    'latency cannot be grouped by none. Use `group_by=quantile`.',
  ],
  [
    'metric=runs&window=30d&step=1m',
    'step',
    'The metric is known by the hour in this range. Use whole hours: `step=1h`, `step=2h`, `step=3h`, `step=6h`, `step=12h`, `step=1d`.',
  ],
  [
    'metric=runs&window=30d&step=90m',
    'step',
    'The metric is known by the hour in this range. Use whole hours: `step=1h`, `step=2h`, `step=3h`, `step=6h`, `step=12h`, `step=1d`.',
  ],
  [
    'metric=users&window=4h&step=90m',
    'step',
    'The metric is known by the hour in this range. Use whole hours: `step=1h`, `step=2h`, `step=3h`.',
  ],
] as const

test.each(HELP)('query %s: refused, with the right spelling', async (query, name, detail) => {
  const metric = query.startsWith('metric=') ? '' : 'metric=requests&'
  const { status, body } = await call('GET', `/v1/analytics/query?${metric}${query}`, {
    as: at(traffic).service,
  })
  expect([status, body.code, body.errors?.[0].name, body.detail]).toEqual([
    400,
    'validation_failed',
    name,
    detail,
  ])
})

test('range by from and to: its steps begin at multiples of the step; group none: one series', async () => {
  const as = at(traffic).service
  const day = new Date(Date.now() - 3 * 86_400_000).toISOString().slice(0, 10)
  const query = `metric=errors&group_by=none&from=${day}T10:07:00.000Z&to=${day}T10:31:00.000Z&step=10m`
  const { body } = await call('GET', `/v1/analytics/query?${query}`, { as })
  expect(body).toEqual({
    ...{ metric: 'errors', unit: 'requests', window: '1440s', step: '10m' },
    ...{ from: `${day}T10:00:00.000Z`, to: `${day}T10:31:00.000Z` },
    series: [
      { labels: {}, points: ['00', '10', '20', '30'].map((minute) => [`${day}T10:${minute}:00.000Z`, 0]) },
    ],
  })
})

test('list of metrics: has each with its unit, meaning and label', async () => {
  const { body } = await call('GET', '/v1/analytics/metrics', { as: at(traffic).anon })
  expect(body.data).toContainEqual({
    ...{ name: 'executions', unit: 'executions', kind: 'count', label: 'status' },
    ...{ help: 'Executions of flows that ended, by status.', values: ['completed', 'faulted', 'cancelled'] },
  })
  expect(body.data.map(({ name }: { name: string }) => name)).toEqual(expect.arrayContaining(METRICS))
})
