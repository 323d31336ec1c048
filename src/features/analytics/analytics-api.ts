/** Reports requests, errors and latency of a workspace over a window, from counters by the minute. */

import Type from 'typebox'
import { Input, workspaceOperation } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { WRITERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { ANALYTICS_LIMITS } from './limits.ts'
import { seriesOf, TimeSeries, Window, windowMsOf } from './time-series.ts'

interface Minute {
  readonly time: string
  readonly requests: number
  readonly client_errors: number
  readonly server_errors: number
  readonly buckets: readonly number[]
}

interface Metric {
  readonly unit: string
  readonly lines: readonly {
    readonly labels: Readonly<Record<string, string>>
    readonly value: (minute: Minute) => number | null
  }[]
}

/** The metrics: unit and lines of each. */
const METRICS: Readonly<Record<string, Metric>> = {
  requests: { unit: 'requests', lines: [{ labels: {}, value: ({ requests }) => requests }] },
  errors: {
    unit: 'requests',
    lines: [
      { labels: { class: '4xx' }, value: ({ client_errors }) => client_errors },
      { labels: { class: '5xx' }, value: ({ server_errors }) => server_errors },
    ],
  },
  latency: {
    unit: 'ms',
    lines: [0.5, 0.95, 0.99].map((share) => ({
      labels: { quantile: String(share) },
      value: ({ buckets }) => quantile(buckets, share),
    })),
  },
}

export const queryAnalytics = workspaceOperation({
  name: 'analytics.query',
  summary: 'Query the requests, errors or latency of the workspace over a window',
  roles: WRITERS,
  input: Input({
    metric: Type.String({
      maxLength: 100,
      description: `Name of the metric: ${Object.keys(METRICS).join(', ')}.`,
    }),
    window: Window,
  }),
  output: TimeSeries,
  http: { method: 'GET', path: '/v1/analytics/query' },
  run: async (scope, { metric: name, window }) => {
    const metric = Object.hasOwn(METRICS, name) ? METRICS[name] : undefined
    if (metric === undefined) {
      const known = Object.keys(METRICS).join(', ')
      throw new Problem('not_found', { detail: `The metric is not known. Use one of ${known}.` })
    }
    const minutes = Math.ceil(windowMsOf(window, 1_000) / 60_000)
    const step = Math.ceil(minutes / ANALYTICS_LIMITS.pointsMax)
    const rows = await readMinutes(scope, minutes, step)
    const series = metric.lines.map(({ labels, value }) => seriesOf(rows, labels, value))
    return { metric: name, unit: metric.unit, window, step: `${step}m`, series }
  },
})

/** A row per step, also without requests; the last one is incomplete. */
function readMinutes(scope: WorkspaceScope, minutes: number, step: number): Promise<Minute[]> {
  return scope.rows<Minute>(sql`
    with steps as (
      select date_bin(make_interval(mins => ${step}::integer), t, 'epoch') as time
      from generate_series(now() - make_interval(mins => ${minutes}::integer - ${step}::integer), now(),
        make_interval(mins => ${step}::integer)) as t
    ), sums as (
      select date_bin(make_interval(mins => ${step}::integer), at, 'epoch') as time, sum(requests) as requests,
        sum(client_errors) as client_errors, sum(server_errors) as server_errors, array_agg(to_jsonb(buckets)) as buckets
      from meters where at >= (select min(time) from steps) group by 1
    )
    select s.time, coalesce(m.requests, 0)::bigint as requests, coalesce(m.client_errors, 0)::bigint as client_errors,
      coalesce(m.server_errors, 0)::bigint as server_errors,
      coalesce((select jsonb_agg(total order by i) from (
        select i, sum(count::bigint) as total
        from unnest(m.buckets) as b, jsonb_array_elements_text(b) with ordinality as e (count, i) group by i) t),
        '[]') as buckets
    from steps s left join sums m using (time) order by s.time`)
}

/** The upper bound of the bucket that contains the quantile, in ms; null without requests. */
function quantile(buckets: readonly number[], share: number): number | null {
  const total = buckets.reduce((sum, count) => sum + count, 0)
  let seen = 0
  for (const [bucket, count] of buckets.entries()) {
    seen += count
    if (total > 0 && seen >= share * total) return Math.round(2 ** (bucket / 2) * 100) / 100
  }
  return null
}
