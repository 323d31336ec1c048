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
import { component } from '../../core/components/component.ts'
import { EVERYBODY, VIEWERS, WRITERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { durationMs } from '../../core/units.ts'
import type { Statements } from '../../infra/postgres/database.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { periodsOf, type WorkspaceRetention } from '../retention/retention-settings.ts'
import { readLevels } from './levels.ts'
import { isMetered, METRIC_NAMES, METRICS, type Metric, type MetricName } from './metrics.ts'
import { type Grouping, quantile, type Reach, readHistograms, readSamples } from './samples.ts'
import { HOUR_MS, RangeInput, rangeOf, type TimeRange, wrong } from './time-range.ts'
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

const MetricDescription = component(
  'Metric',
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
  {
    name: 'executions',
    unit: 'executions',
    help: 'Executions of flows that have ended.',
    kind: 'count',
    label: 'status',
    values: ['completed', 'faulted', 'cancelled'],
  },
)

export const listMetrics = callerOperation({
  name: 'analytics.metrics',
  summary: 'List the metrics: name, unit, what each counts, and the values of its label',
  roles: EVERYBODY,
  input: Input({}),
  output: Type.Object({
    data: Type.Array(MetricDescription),
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
  roles: VIEWERS,
  input: Input({
    ...QueryInput,
    tenant_id: Type.Optional(Ref('tenant. Default: your own tenant; for operators, all tenants')),
    workspace_id: Type.Optional(Ref('workspace. Default: all workspaces that you may administer')),
  }),
  output: TimeSeries,
  http: { method: 'GET', path: '/v1/usage/query' },
  run: async (scope, { tenant_id, workspace_id, ...query }) => {
    const [name, metric] = metricOf(query.metric)
    const grouping = groupingOf([name, metric], query.group_by, true)
    const workspaces = sql`${ifGiven(sql`w.tenant_id =`, tenant_id)} and ${ifGiven(sql`w.id =`, workspace_id)}`
    const known = await knownPeriods(scope, metric, workspaces)
    // Admins see no executions, runs and calls, but the records of their hours.
    const ofTenant = isMetered(metric) ? known : { ...known, eventsMs: 0 }
    const range = rangeOf(query, finestOf(metric, ofTenant))
    const source = isMetered(metric) ? sourceOf(range, known) : { eventsFrom: null, knownMs: known.hoursMs }
    return answer(scope, [name, metric], { range, grouping, workspaces, ...source })
  },
})

const ifGiven = (condition: Sql, value: string | undefined): Sql =>
  value === undefined ? sql`true` : sql`${condition} ${value}`

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

/** How far back a metric is known, in ms. */
interface KnownPeriods {
  /** By the minute, from the events themselves: as long as they are kept. 0: not at all. */
  readonly eventsMs: number
  /** By the hour, from the records of usage. */
  readonly hoursMs: number
}

/** Of several workspaces, the shortest periods. */
async function knownPeriods(reader: Statements, metric: Metric, workspaces: Sql): Promise<KnownPeriods> {
  const rows = await reader.rows<{ retention: WorkspaceRetention | null }>(sql`
    select distinct s.retention from workspaces w
      left join services s on s.tenant_id = w.tenant_id and s.workspace_id = w.id where ${workspaces}`)
  const shortest = (name: string) =>
    Math.min(
      ...rows.map(({ retention }) => {
        const period = periodsOf({ workspace: retention ?? {}, tenant: {} }).get(name)
        return period === undefined ? Number.POSITIVE_INFINITY : durationMs(period)
      }),
    )
  return {
    eventsMs: metric.kind === 'level' ? 0 : shortest(metric.period ?? ''),
    hoursMs: shortest('usage'),
  }
}

const isKept = (startMs: number, periodMs: number) => Date.now() - startMs <= periodMs

/** Latencies are known by the minute alone. */
const finestOf =
  ({ kind }: Metric, { eventsMs }: KnownPeriods) =>
  (startMs: number) =>
    kind === 'quantiles' || isKept(startMs, eventsMs) ? ('1m' as const) : ('1h' as const)

/**
 * Of a range whose steps are whole hours, the hours that are recorded need no counting, unless events are kept for longer than their
 * records.
 */
function sourceOf({ startMs, stepMs }: TimeRange, { eventsMs, hoursMs }: KnownPeriods): Source {
  const hasRecords = stepMs % HOUR_MS === 0 && (hoursMs >= eventsMs || isKept(startMs, hoursMs))
  return hasRecords
    ? { eventsFrom: sql`w.usage_until`, knownMs: hoursMs }
    : { eventsFrom: sql`${new Date(startMs)}::timestamptz`, knownMs: eventsMs }
}

/** @param scope an admin's */
async function queryWorkspace(scope: WorkspaceScope, query: Query): Promise<Static<typeof TimeSeries>> {
  const [name, metric] = metricOf(query.metric)
  const grouping = groupingOf([name, metric], query.group_by, false)
  const workspaces = sql`w.id = tenon.workspace()`
  const known = await knownPeriods(scope, metric, workspaces)
  const range = rangeOf(query, finestOf(metric, known))
  const current = await currentLevel(scope, [name, metric], range)
  const source = sourceOf(range, known)
  return answer(scope, [name, metric], { range, grouping, workspaces, ...source, ...current })
}

/** The level now, if the range ends with the step that goes on. */
async function currentLevel(
  scope: WorkspaceScope,
  [name, { kind }]: [MetricName, Metric],
  { endMs, stepMs }: TimeRange,
): Promise<{ readonly current?: number | null }> {
  if (kind !== 'level' || Date.now() - endMs >= stepMs) return {}
  return { current: (await readLevels(scope, [name]))[name] ?? null }
}

interface Source extends Pick<Reach, 'eventsFrom'> {
  /** How far back its values are known, in ms. */
  readonly knownMs: number
}

interface Question extends Source, Reach {
  readonly range: TimeRange
  readonly grouping: Grouping
  /** The value of the last step, if it is known better than by records; null if it is not counted. */
  readonly current?: number | null
}

async function answer(
  reader: Statements,
  [name, metric]: [MetricName, Metric],
  question: Question,
): Promise<Static<typeof TimeSeries>> {
  const { window, step, startMs, endMs } = question.range
  const answered =
    metric.kind === 'quantiles'
      ? { series: await quantileSeries(reader, metric, question) }
      : await valueSeries(reader, [name, metric], question)
  return {
    ...{ metric: name, unit: metric.unit, window, step, ...answered },
    ...{ from: new Date(startMs).toISOString(), to: new Date(endMs).toISOString() },
  }
}

type Series = Static<typeof TimeSeries>['series']

async function quantileSeries(
  reader: Statements,
  { label }: Metric,
  { range, workspaces }: Question,
): Promise<Series> {
  const found = new Map(
    (await readHistograms(reader, range, workspaces)).map(({ step, buckets }) => [step, buckets]),
  )
  return (label?.values ?? []).map((share) => ({
    labels: { [label?.name ?? '']: share },
    points: range.times.map((time, step) => [time, quantile(found.get(step) ?? [], Number(share))]),
  }))
}

/** Steps without a value have 0, or null if they are no longer known, or of a level; the last one of a level has the current value. */
async function valueSeries(
  reader: Statements,
  [name, metric]: [MetricName, Metric],
  { range, grouping, current, knownMs, ...reach }: Question,
): Promise<{ series: Series; not_counted?: string }> {
  const samples = await readSamples(reader, [name, metric], range, grouping, reach)
  const byGroup = Map.groupBy(samples, ({ group }) => group)
  const labelName = grouping === 'label' ? metric.label?.name : grouping
  const series = groupsOf(metric, grouping, byGroup).map((group) => {
    const values = new Map(byGroup.get(group)?.map(({ step, value }) => [step, value]))
    if (current !== undefined) values.set(range.times.length - 1, current)
    const points = range.times.map((time, step): [string, number | null] => {
      if (!isKept(Date.parse(time), knownMs)) return [time, null]
      return [time, values.get(step) ?? (metric.kind === 'count' ? 0 : null)]
    })
    return { labels: grouping === 'none' || labelName === undefined ? {} : { [labelName]: group }, points }
  })
  const isUncounted = current === null || samples.some(({ value }) => value === null)
  return { series, ...(isUncounted && metric.uncounted !== undefined && { not_counted: metric.uncounted }) }
}

function groupsOf(
  { label }: Metric,
  grouping: Grouping,
  byGroup: ReadonlyMap<string, unknown>,
): readonly string[] {
  if (grouping === 'none') return ['']
  return grouping === 'label' ? (label?.values ?? ['']) : [...byGroup.keys()].sort()
}
