/** Checks the series of API and worker after requests to every operation: how many there are, and that labels have listed values alone. */

import { beforeAll, expect, test } from 'vitest'
import { ACTIONS } from '../../../src/api/s3/actions.ts'
import { PROBLEMS } from '../../../src/core/problem-catalogue.ts'
import { QUEUES } from '../../../src/core/work.ts'
import { createBackgroundTasks } from '../../../src/features/background-tasks.ts'
import { OPERATIONS } from '../../../src/features/index.ts'
import { tagOf } from '../../../src/features/openapi/tags.ts'
import { RUN_KINDS } from '../../../src/features/run-kinds.ts'
import {
  exportedName,
  METRICS,
  type MetricName,
  SOURCES,
  specOf,
} from '../../../src/infra/metrics/catalogue.ts'
import { type Series, scrape } from '../../support/clients/metrics.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { FunctionRuns } from '../../support/fixtures/function-runs.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'

const SERIES_MAX = 2_000
const PROCESSES = ['api', 'worker'] as const

let workspace: TestWorkspace
const series: Partial<Record<(typeof PROCESSES)[number], readonly Series[]>> = {}
const names = { flow: unique('secretflow'), function: unique('secretfn') }
beforeAll(async () => {
  workspace = await createTestWorkspace()
  await Promise.all([requestAll(), runFlow(), runFunction()])
  for (const process of PROCESSES) series[process] = await scrape(process)
})

/** To each operation, with a path that names nothing: by a service key, by an operator for what reads, and without a credential. */
async function requestAll(): Promise<void> {
  const waiting = OPERATIONS.flatMap(({ http: { method, path }, reads }) => {
    const at = path.replaceAll(/\{[^}]+\}/g, workspace.workspaceId)
    const callers = [workspace.service, ...(reads ? [workspace.operator] : []), {}]
    return callers.map((as) => () => call(method, at, { as, ...(method !== 'GET' && { body: {} }) }))
  })
  waiting.push(...['/nowhere', '/docs', '/healthz', '/auth/nowhere'].map((path) => () => call('GET', path)))
  const lane = async () => {
    for (let send = waiting.pop(); send !== undefined; send = waiting.pop()) await send().catch(() => {})
  }
  await Promise.all([lane(), lane(), lane(), lane()])
}

async function runFlow(): Promise<void> {
  const executions = new Executions(workspace)
  const flow = await executions.publish('- one: { set: { n: 1 } }\n- two: { wait: { milliseconds: 1 } }', {
    name: names.flow,
  })
  await executions.ended(await executions.start(flow))
}

async function runFunction(): Promise<void> {
  const runs = new FunctionRuns(workspace)
  const id = await runs.deploy(names.function, 'export default () => 1')
  await runs.invoke(id)
}

const OTHERS = ['docs', 'health', 'issuer', 'mcp', 'page', 'none']
/** Names of routes that are no operations. */
const ROUTES = [
  ...['webhook.receive', 'webhook.challenge', 'callback.receive', 'mcp.message'],
  ...['approval.read_by_link', 'approval.decide_by_link', 'codec.admit_page'],
]
const OPERATION_NAMES = [
  ...OPERATIONS.map(({ name }) => name),
  ...ACTIONS.map(({ operation }) => operation.name),
  ...['object.get_public', 'object.unsupported'],
]
const CODES = Object.keys(PROBLEMS)
const SERVICES = { mailer: { isConfigured: true } } as unknown as Parameters<typeof createBackgroundTasks>[0]
const TASKS = createBackgroundTasks(SERVICES, () => expect.fail()).map(({ name }) => name)

/** The values of each label; of those that others choose, such as methods of Temporal, their form. */
const VALUES: Readonly<Record<string, readonly string[] | RegExp>> = {
  operation: /^/,
  area: [...new Set(OPERATION_NAMES.map((name) => tagOf(name) ?? '')), ...OTHERS],
  status: ['1xx', '2xx', '3xx', '4xx', '5xx'],
  code: CODES,
  part: /^[a-z_0-9]{1,20}$/,
  source: SOURCES,
  state: ['used', 'idle', 'free', 'failed', 'late', 'running', 'waiting'],
  for: ['pool', 'share'],
  outcome: [
    ...['ok', 'failed', 'done', 'sent', 'refused', 'completed', 'cancelled', 'faulted', 'other'],
    ...CODES,
  ],
  task_queue: Object.values(QUEUES),
  kind: RUN_KINDS.map(({ name }) => name),
  task: TASKS,
  version: /^\d+\.\d+\.\d+$/,
  quantile: ['0.5', '0.99', '1'],
  worker_type: /^(Workflow|Activity|LocalActivity|Nexus)Worker$/,
  poller_type: /^(sticky_)?(workflow|activity|nexus)_task$/,
  status_code: /^[A-Z_]+$/,
  failure_reason: /^[A-Za-z_]+$/,
  le: /^(\d+(\.\d+)?|\+Inf)$/,
}

/** `operation` is one of the platform for requests to it, and a method of Temporal for those of its SDK. */
const operationsOf = (name: string): readonly string[] | RegExp =>
  name.startsWith('temporal_') ? /^[A-Z][A-Za-z]+$/ : [...OPERATION_NAMES, ...ROUTES, ...OTHERS]

const METRIC_OF = new Map(
  (Object.keys(METRICS) as MetricName[]).flatMap((name) => {
    const exported = exportedName(name)
    const parts = METRICS[name].kind === 'histogram' ? ['_bucket', '_sum', '_count'] : ['']
    return parts.map((part) => [`${exported}${part}`, name] as const)
  }),
)

const isListed = (allowed: readonly string[] | RegExp | undefined, value: string) =>
  allowed instanceof RegExp ? allowed.test(value) : (allowed?.includes(value) ?? false)

test.each(PROCESSES)('series of the %s: after requests to all operations: at most 2,000', (process) => {
  const found = series[process] ?? []
  expect(found.length).toBeGreaterThan(100)
  // Each operation may still fail in a way in which it has not failed yet.
  const statuses = new Set(found.filter(({ name }) => name === 'tenon_http_requests_total'))
  const unseen = process === 'api' ? OPERATIONS.length * 4 - statuses.size : 0
  expect(found.length + unseen).toBeLessThanOrEqual(SERIES_MAX)
})

test.each(PROCESSES)(
  'labels of the %s: have the names of the catalogue, and values of closed lists',
  (process) => {
    const strange = (series[process] ?? []).flatMap(({ name, labels }) => {
      const metric = METRIC_OF.get(name)
      if (metric === undefined) return [name]
      const listed = Object.keys(specOf(metric)?.labels ?? {})
      return Object.entries(labels)
        .filter(([label, value]) => {
          const allowed = label === 'operation' ? operationsOf(name) : VALUES[label]
          return !(listed.includes(label) || label === 'le') || !isListed(allowed, value)
        })
        .map(([label, value]) => `${name} ${label}=${value}`)
    })
    expect(strange).toEqual([])
  },
)

test('sources: all of the catalogue are observed, and the catalogue names each', () => {
  const observed = PROCESSES.flatMap((process) => series[process] ?? [])
    .filter(({ name }) => name === 'tenon_observation_up')
    .map(({ labels }) => labels['source'] ?? '')
  expect([...new Set(observed)].toSorted()).toEqual([...SOURCES].toSorted())
  const named = METRICS.tenon_observation_up.labels.source.split(/, | or /)
  expect(named.toSorted()).toEqual([...SOURCES].toSorted())
})

test('labels: name no tenant, no workspace, no flow and no function', () => {
  const values = PROCESSES.flatMap((process) =>
    (series[process] ?? []).flatMap(({ labels }) => Object.values(labels)),
  )
  const { tenantId, workspaceId } = workspace
  const own = [tenantId, workspaceId, names.flow, names.function, 'ten_', 'ws_']
  expect(values.filter((value) => own.some((name) => value.includes(name)))).toEqual([])
})
