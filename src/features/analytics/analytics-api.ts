/** Queries metrics: of a workspace by a key, by the minute; of a tenant by its admins, by the hour. */

import Type, { type Static } from 'typebox'
import {
  adminOperation,
  callerOperation,
  Input,
  Ref,
  workspaceOperation,
} from '../../access/operation-builders.ts'
import { privilege } from '../../access/privileges.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { ADMINS, EVERYBODY, WRITERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { durationMs } from '../../core/units.ts'
import type { Statements } from '../../infra/postgres/database.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { periodsOf, type WorkspaceRetention } from '../retention/retention-settings.ts'
import { isMetered, METRIC_NAMES, METRICS, type Metric, type MetricName } from './metrics.ts'
import { type Grouping, hasWholeHours, quantile, type Reach, readHistograms, readSamples } from './samples.ts'
import { RangeInput, rangeOf, type TimeRange, wrong } from './time-range.ts'
import { TimeSeries } from './time-series.ts'

/** Counts for a key what its workspace did; tables of executions and runs are not for keys. */
const asCounter = privilege('analytics.keys')

const QueryInput = {
  metric: Type.String({
    maxLength: 100,
    description: `Name of the metric: ${METRIC_NAMES.join(', ')}.`,
  }),
  ...RangeInput,
  group_by: Type.Optional(
    Type.String({
      maxLength: 100,
      description:
        'Grouping of the series: `none` for one series, the label of the metric, or, in queries of tenants, `workspace`. Default: the label, or `none` for a metric without one.',
    }),
  ),
}
const Query = Type.Object(QueryInput)
type Query = Static<typeof Query>

export const queryAnalytics = workspaceOperation({
  name: 'analytics.query',
  summary: 'Query a metric of the workspace over a range of time',
  roles: WRITERS,
  input: Input(QueryInput),
  output: TimeSeries,
  http: { method: 'GET', path: '/v1/analytics/query' },
  run: (scope, input) => queryWorkspace(asCounter(scope), input),
})

export const listMetrics = callerOperation({
  name: 'analytics.metrics',
  summary: 'List the metrics: name, unit, what each counts, and the values of its label',
  roles: EVERYBODY,
  input: Input({}),
  output: Type.Object({
    data: Type.Array(
      Type.Object({
        name: Type.String(),
        unit: Type.String(),
        help: Type.String(),
        kind: Type.Enum(['count', 'level', 'quantiles'], {
          description:
            'Kind of the values. `count`: the sum of a step; `level`: the value at the end of a step; `quantiles`: of the durations of a step.',
        }),
        label: Type.Union([Type.String(), Type.Null()], {
          description: 'Name of the label. `null`: the metric has none.',
        }),
        values: Type.Array(Type.String(), { description: 'Values of the label.' }),
      }),
    ),
  }),
  http: { method: 'GET', path: '/v1/analytics/metrics' },
  run: async () => ({
    data: (Object.entries(METRICS) as [MetricName, Metric][]).map(([name, { unit, help, kind, label }]) => ({
      ...{ name, unit, help, kind },
      label: label?.name ?? null,
      values: [...(label?.values ?? [])],
    })),
  }),
})

export const queryTenant = adminOperation({
  name: 'usage.query',
  summary: 'Query a metric of a tenant over a range of time, for all of its workspaces or by workspace',
  roles: ADMINS,
  input: Input({
    ...QueryInput,
    tenant_id: Type.Optional(Ref('tenant. Default: your own tenant; for operators, all tenants')),
    workspace_id: Type.Optional(Ref('workspace. Default: all workspaces that you may administer')),
  }),
  output: TimeSeries,
  http: { method: 'GET', path: '/v1/usage/query' },
  run: (scope, { tenant_id, workspace_id, ...query }) => {
    const [name, metric] = metricOf(query.metric)
    const grouping = groupingOf([name, metric], query.group_by, true)
    const isByMinute = isMetered(metric)
    const range = rangeOf(query, () => (isByMinute ? '1m' : '1h'))
    if (!isByMinute && !hasWholeHours(range))
      throw wrong('step', `${name} of a tenant is known by the hour. Use whole hours, such as \`step=1h\`.`)
    const rows = sql`${ifGiven(sql`tenant_id =`, tenant_id)} and ${ifGiven(sql`workspace_id =`, workspace_id)}`
    const reach = { rows, eventsFrom: isByMinute ? startOf(range) : null }
    return answer(scope, [name, metric], range, grouping, reach)
  },
})

const ifGiven = (condition: Sql, value: string | undefined): Sql =>
  value === undefined ? sql`true` : sql`${condition} ${value}`

const startOf = ({ startMs }: TimeRange): Sql => sql`${new Date(startMs)}::timestamptz`

/** @throws Problem `not_found`, with the names of all metrics */
function metricOf(name: string): [MetricName, Metric] {
  if (Object.hasOwn(METRICS, name)) return [name as MetricName, METRICS[name as MetricName]]
  throw new Problem('not_found', {
    detail: `The metric is not known. Use one of ${METRIC_NAMES.join(', ')}.`,
  })
}

/** @throws Problem `validation_failed`, with what the metric can be grouped by */
function groupingOf(
  [name, { kind, label }]: [MetricName, Metric],
  by: string | undefined,
  ofTenant: boolean,
): Grouping {
  if (by === undefined || by === label?.name) return label === undefined ? 'none' : 'label'
  if (kind !== 'quantiles' && (by === 'none' || (ofTenant && by === 'workspace'))) return by
  const possible =
    kind === 'quantiles' ? [label?.name] : [label?.name, 'none', ...(ofTenant ? ['workspace'] : [])]
  const names = possible.filter((one) => one !== undefined).map((one) => `\`group_by=${one}\``)
  throw wrong('group_by', `${name} cannot be grouped by ${by}. Use ${names.join(' or ')}.`)
}

interface WorkspaceRow {
  readonly retention: WorkspaceRetention
}

/** @param scope an admin's */
async function queryWorkspace(scope: WorkspaceScope, query: Query): Promise<Static<typeof TimeSeries>> {
  const [name, metric] = metricOf(query.metric)
  const grouping = groupingOf([name, metric], query.group_by, false)
  const settings = await scope.row<WorkspaceRow>(sql`select retention from services`)
  const period = periodsOf({ workspace: settings?.retention ?? {}, tenant: {} }).get(metric.period ?? '')
  // Older events may be removed, but their hours are recorded; levels are recorded alone.
  const keptMs =
    metric.kind === 'level' ? 0 : period === undefined ? Number.POSITIVE_INFINITY : durationMs(period)
  const isKept = (startMs: number) => Date.now() - startMs <= keptMs || metric.kind === 'quantiles'
  const range = rangeOf(query, (startMs) => (isKept(startMs) ? '1m' : '1h'))
  const eventsFrom = hasWholeHours(range)
    ? sql`(select usage_until from workspaces where id = tenon.workspace())`
    : startOf(range)
  return answer(
    scope,
    [name, metric],
    range,
    grouping,
    { rows: sql`true`, eventsFrom },
    await currentLevel(scope, metric, range),
  )
}

/** The level now, if the range ends with the step that goes on. */
async function currentLevel(
  scope: WorkspaceScope,
  { now }: Metric,
  { endMs, stepMs }: TimeRange,
): Promise<number | null> {
  if (now === undefined || Date.now() - endMs >= stepMs) return null
  const row = await scope.row<{ value: number | null }>(sql`select ${now} as value`)
  return row?.value ?? null
}

async function answer(
  reader: Statements,
  [name, metric]: [MetricName, Metric],
  range: TimeRange,
  grouping: Grouping,
  reach: Reach,
  current: number | null = null,
): Promise<Static<typeof TimeSeries>> {
  const series =
    metric.kind === 'quantiles'
      ? await quantileSeries(reader, metric, range, reach)
      : await valueSeries(reader, [name, metric], range, grouping, reach, current)
  const { window, step, startMs, endMs } = range
  return {
    ...{ metric: name, unit: metric.unit, window, step, series },
    ...{ from: new Date(startMs).toISOString(), to: new Date(endMs).toISOString() },
  }
}

type Series = Static<typeof TimeSeries>['series']

async function quantileSeries(
  reader: Statements,
  { label }: Metric,
  range: TimeRange,
  { rows }: Reach,
): Promise<Series> {
  const found = new Map(
    (await readHistograms(reader, range, rows)).map(({ step, buckets }) => [step, buckets]),
  )
  return (label?.values ?? []).map((share) => ({
    labels: { [label?.name ?? '']: share },
    points: range.times.map((time, step) => [time, quantile(found.get(step) ?? [], Number(share))]),
  }))
}

/** Steps without a value have 0, or of a level null; the last one of a level has the current value. */
async function valueSeries(
  reader: Statements,
  [name, metric]: [MetricName, Metric],
  range: TimeRange,
  grouping: Grouping,
  reach: Reach,
  current: number | null,
): Promise<Series> {
  const samples = await readSamples(reader, [name, metric], range, grouping, reach)
  const byGroup = Map.groupBy(samples, ({ group }) => group)
  const groups =
    grouping === 'none'
      ? ['']
      : grouping === 'label'
        ? (metric.label?.values ?? [''])
        : [...byGroup.keys()].sort()
  const labelName = grouping === 'label' ? metric.label?.name : grouping
  const missing = metric.kind === 'count' ? 0 : null
  return groups.map((group) => {
    const values = new Map(byGroup.get(group)?.map(({ step, value }) => [step, value]))
    if (current !== null) values.set(range.times.length - 1, current)
    return {
      labels: grouping === 'none' || labelName === undefined ? {} : { [labelName]: group },
      points: range.times.map((time, step): [string, number | null] => [time, values.get(step) ?? missing]),
    }
  })
}
