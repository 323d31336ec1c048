/** Reports how many executions of a flow started in a window, by status, and how long they took. */

import Type from 'typebox'
import { Input } from '../../access/operation-builders.ts'
import { VIEWERS } from '../../core/policy.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { ANALYTICS_LIMITS } from '../analytics/limits.ts'
import { seriesOf, TimeSeries, Window, windowMsOf } from '../analytics/time-series.ts'
import { previewOperation } from '../operation-helpers.ts'
import { FLOWS, FlowRef, findFlow, Ws } from './definitions.ts'

const STATUSES = ['completed', 'faulted', 'cancelled', 'open'] as const
const QUANTILES = ['0.5', '0.95'] as const

/** One step of the window; quantiles are null if none of its executions has ended. */
interface Bin {
  readonly time: string
  readonly counts: Readonly<Record<string, number>>
  readonly durations: readonly (number | null)[]
}

export const flowMetrics = previewOperation({
  name: 'flow.metrics',
  roles: VIEWERS,
  summary: 'Count the executions of a flow by status, or measure their durations, over a window',
  input: Input({
    ws: Ws,
    flow: FlowRef,
    metric: Type.Enum(['executions', 'duration'], {
      description:
        'Metric to return. `executions`: number of executions started, by current status. `duration`: duration of ended executions in milliseconds, by quantile.',
    }),
    window: Window,
  }),
  output: TimeSeries,
  http: { method: 'GET', path: `${FLOWS}/definitions/{flow}/metrics` },
  run: async (scope, { flow, metric, window }) => {
    const { id } = await findFlow(scope, flow)
    const windowMs = windowMsOf(window, 60_000)
    const stepMinutes = Math.ceil(windowMs / 60_000 / ANALYTICS_LIMITS.pointsMax)
    const bins = await scope.rows<Bin>(binsOf(id, windowMs, stepMinutes))
    const series =
      metric === 'executions'
        ? STATUSES.map((status) => seriesOf(bins, { status }, ({ counts }) => counts[status] ?? 0))
        : QUANTILES.map((quantile, n) =>
            seriesOf(bins, { quantile }, ({ durations }) => durations[n] ?? null),
          )
    const unit = metric === 'executions' ? 'executions' : 'ms'
    return { metric, unit, window, step: `${stepMinutes}m`, series }
  },
})

/** A row per step, also without executions. The index by flow and start bounds what is read. */
const binsOf = (flowId: string, windowMs: number, stepMinutes: number) => sql`
  with bounds as (
    select make_interval(mins => ${stepMinutes}::integer) as step, now() - ${windowMs} * interval '1 millisecond' as since
  ), steps as (
    select date_bin(step, t, 'epoch') as time from bounds, generate_series(since, now(), step) as t
  ), found as (
    select date_bin(step, started_at, 'epoch') as time, coalesce(outcome, 'open') as status,
      extract(epoch from ended_at - started_at) * 1000 as ms
    from bounds, executions where flow_id = ${flowId} and started_at >= since
  ), counted as (
    select time, jsonb_object_agg(status, n) as counts from (
      select time, status, count(*) as n from found group by time, status) c group by time
  ), measured as (
    select time, percentile_disc(array[0.5, 0.95]) within group (order by ms) as durations
    from found where ms is not null group by time
  )
  select s.time, coalesce(c.counts, '{}') as counts,
    (select coalesce(jsonb_agg(round(d)::bigint), '[]') from unnest(m.durations) as d) as durations
  from steps s left join counted c using (time) left join measured m using (time) order by s.time`
