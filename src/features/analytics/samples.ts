/** Reads the values of a metric by step: from events, by the minute, or from the records of each hour. */

import type { Statements } from '../../infra/postgres/database.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { eventsBetween, type Metric, type MetricName } from './metrics.ts'
import type { TimeRange } from './time-range.ts'

/** The workspaces whose events are counted, and from when on. */
export interface Reach {
  /** A condition of `workspaces w`. */
  readonly workspaces: Sql
  /**
   * Expression of the type timestamptz, for a workspace `w`: from when on events are counted; before it, the records of hours. Null if
   * the reader sees records alone.
   */
  readonly eventsFrom: Sql | null
}

export interface Sample {
  /** Number of the step. */
  readonly step: number
  /** The label, or the workspace. */
  readonly group: string
  /** Null for a level that was not counted, in one of the workspaces at least. */
  readonly value: number | null
}

/** How the values of a metric are grouped into series. */
export type Grouping = 'label' | 'workspace' | 'none'

const timeOf = (ms: number): Sql => sql`${new Date(ms)}::timestamptz`

const stepOf = (at: Sql, { startMs, stepMs }: TimeRange): Sql =>
  sql`floor(extract(epoch from ${at} - ${timeOf(startMs)}) * 1000 / ${stepMs}::bigint)::integer`

const groupOf = (grouping: Grouping): Sql =>
  ({ label: sql`label`, workspace: sql`workspace_id`, none: sql`''` })[grouping]

/** The values of a count or level, of steps that have one. Of a level, the last one in the step. */
export function readSamples(
  reader: Statements,
  [name, metric]: readonly [MetricName, Metric],
  range: TimeRange,
  grouping: Grouping,
  reach: Reach,
): Promise<Sample[]> {
  const rows =
    metric.kind === 'level' || reach.eventsFrom === null
      ? recorded(name, range, reach)
      : sql`${recorded(name, range, reach)} union all ${counted(metric, range, reach.eventsFrom, reach.workspaces)}`
  const step = stepOf(sql`at`, range)
  if (metric.kind === 'count')
    return reader.rows<Sample>(sql`
      select ${step} as step, ${groupOf(grouping)} as group, sum(value)::bigint as value
      from (${rows}) counts group by 1, 2`)
  return reader.rows<Sample>(sql`
    select distinct on (step, "group") step, "group", value from (
      select ${step} as step, at, ${groupOf(grouping)} as group,
        case when bool_and(value is not null) then sum(value)::bigint end as value
      from (${rows}) levels group by 1, 2, 3) l
    order by step, "group", at desc`)
}

function recorded(name: MetricName, { startMs, endMs }: TimeRange, { workspaces, eventsFrom }: Reach): Sql {
  const until = eventsFrom === null ? timeOf(endMs) : sql`least(${timeOf(endMs)}, ${eventsFrom})`
  return sql`
    select u.workspace_id, u.hour as at, a.key as label, a.value::bigint as value
    from workspaces w join usage_records u on u.tenant_id = w.tenant_id and u.workspace_id = w.id
      cross join lateral jsonb_each_text(u.amounts -> ${name}::text) a
    where ${workspaces} and u.hour >= ${timeOf(startMs)} and u.hour < ${until}`
}

function counted(metric: Metric, { startMs, endMs }: TimeRange, eventsFrom: Sql, workspaces: Sql): Sql {
  const since = sql`greatest(${timeOf(startMs)}, ${eventsFrom})`
  const ofWorkspace = sql`tenant_id = w.tenant_id and workspace_id = w.id`
  return sql`
    select e.workspace_id, e.at, e.label, e.value
    from workspaces w cross join lateral (${eventsBetween(metric, since, timeOf(endMs), ofWorkspace)}) e
    where ${workspaces}`
}

interface Histogram {
  readonly step: number
  readonly buckets: readonly number[]
}

/** The durations of requests of each step that has some, by bucket. */
export function readHistograms(reader: Statements, range: TimeRange, workspaces: Sql): Promise<Histogram[]> {
  const { startMs, endMs } = range
  return reader.rows<Histogram>(sql`
    select step, jsonb_agg(total order by i) as buckets from (
      select ${stepOf(sql`at`, range)} as step, i, sum(count)::bigint as total
      from workspaces w join meters m on m.tenant_id = w.tenant_id and m.workspace_id = w.id
        cross join lateral unnest(buckets) with ordinality as b (count, i)
      where ${workspaces} and at >= ${timeOf(startMs)} and at < ${timeOf(endMs)} group by 1, 2) totals
    group by step`)
}

/** The upper bound of the bucket that contains the quantile, in ms; null without requests. */
export function quantile(buckets: readonly number[], share: number): number | null {
  const total = buckets.reduce((sum, count) => sum + count, 0)
  let seen = 0
  for (const [bucket, count] of buckets.entries()) {
    seen += count
    if (total > 0 && seen >= share * total) return Math.round(2 ** (bucket / 2) * 100) / 100
  }
  return null
}
