/** The metrics: what each counts, in which unit, by which label, and the rows that it is read from. */

import { type Sql, sql } from '../../infra/postgres/sql.ts'

export interface Metric {
  readonly unit: string
  /** A sentence for clients about what it counts. */
  readonly help: string
  /** A count adds up over a step; a level is that at the end of the step; quantiles are of durations in the step. */
  readonly kind: 'count' | 'level' | 'quantiles'
  /** The label by which it is grouped by default, and all of its values. */
  readonly label?: { readonly name: string; readonly values: readonly string[] }
  /** Of a count: the table and columns of its events, by the time of each. */
  readonly events?: Events
  /** Of a level, which has the name of a quota: all of these are read to count it without one. By default, the rows are few. */
  readonly reads?: 'documents' | 'objects'
  /** Reason why a level may be null: a sentence for clients. */
  readonly uncounted?: string
  /** The period of retention that bounds how far back it can be read by the minute. */
  readonly period?: string
}

/** Rows of a table that has the columns tenant_id and workspace_id. */
interface Events {
  readonly table: Sql
  /** At most `lateSeconds` before the row is written, so that the usage of no hour that is recorded already changes. */
  readonly time: Sql
  readonly value: Sql
  /** A text; absent without a label. */
  readonly label?: Sql
  /** Rows that count; by default all. */
  readonly where?: Sql
}

const meter = (column: Sql): Pick<Metric, 'events' | 'period'> => ({
  events: { table: sql`meters`, time: sql`at`, value: column },
  period: 'meters',
})

const DOCUMENTS_UNCOUNTED =
  'Documents are not counted in an installation that stores some in MongoDB, or if counting them took too long.'

const STATUSES = ['completed', 'faulted', 'cancelled']

export const METRICS = {
  requests: {
    unit: 'requests',
    help: 'Requests to operations of the workspace, with any response, and accepted webhooks and callbacks. What is refused before the workspace is known to the operation (401, most 403, 429) does not count.',
    kind: 'count',
    ...meter(sql`requests`),
  },
  errors: {
    unit: 'requests',
    help: 'Requests that got an error, by the class of its status.',
    kind: 'count',
    label: { name: 'class', values: ['4xx', '5xx'] },
    events: {
      table: sql`meters cross join lateral (values ('4xx', client_errors), ('5xx', server_errors)) as c (class, n)`,
      time: sql`at`,
      value: sql`n`,
      label: sql`class`,
    },
    period: 'meters',
  },
  latency: {
    unit: 'ms',
    help: 'Duration of requests, to within 20 %: 50, 95 and 99 of 100 were no slower. Open event streams do not count.',
    kind: 'quantiles',
    label: { name: 'quantile', values: ['0.5', '0.95', '0.99'] },
    period: 'meters',
  },
  documents: {
    unit: 'documents',
    help: 'Documents that are stored. Not counted in an installation that stores some in MongoDB.',
    kind: 'level',
    reads: 'documents',
    uncounted: DOCUMENTS_UNCOUNTED,
  },
  document_bytes: {
    unit: 'bytes',
    help: 'Size of the stored documents, as the quota `document_bytes` counts it. Not counted in an installation that stores some in MongoDB.',
    kind: 'level',
    reads: 'documents',
    uncounted: DOCUMENTS_UNCOUNTED,
  },
  object_bytes: {
    unit: 'bytes',
    help: 'Size of the stored objects, and of uploads under way.',
    kind: 'level',
    reads: 'objects',
    uncounted: 'Objects are not counted if counting them took too long.',
  },
  users: {
    unit: 'users',
    help: 'End users of the workspace.',
    kind: 'level',
    uncounted: 'Users are not counted if counting them took too long.',
  },
  events: {
    unit: 'events',
    help: 'Events that the workspace published. Changes of documents do not count.',
    kind: 'count',
    ...meter(sql`events`),
  },
  streams: {
    unit: 'streams',
    help: 'Event streams that were opened.',
    kind: 'count',
    ...meter(sql`streams`),
  },
  deliveries: {
    unit: 'deliveries',
    help: 'Deliveries of webhooks that were accepted. Repeated ones count once.',
    kind: 'count',
    events: { table: sql`webhook_deliveries`, time: sql`received_at`, value: sql`1` },
    period: 'webhook_deliveries',
  },
  runs: {
    unit: 'runs',
    help: 'Runs of functions that ended, by status.',
    kind: 'count',
    label: { name: 'status', values: ['completed', 'failed'] },
    events: {
      table: sql`function_runs`,
      time: sql`ended_at`,
      value: sql`1`,
      label: sql`status`,
      // The two values let the index by workspace, letter and end serve.
      where: sql`ended_at is not null and is_dead_letter in (true, false)`,
    },
    period: 'function_runs',
  },
  run_ms: {
    unit: 'ms',
    help: 'Time for which code of functions ran, of runs that ended.',
    kind: 'count',
    events: {
      table: sql`function_runs`,
      time: sql`ended_at`,
      value: sql`coalesce(duration_ms, 0)`,
      where: sql`ended_at is not null and is_dead_letter in (true, false)`,
    },
    period: 'function_runs',
  },
  executions: {
    unit: 'executions',
    help: 'Executions of flows that ended, by status.',
    kind: 'count',
    label: { name: 'status', values: STATUSES },
    events: {
      table: sql`executions`,
      time: sql`coalesce(counted_at, ended_at)`,
      value: sql`1`,
      label: sql`status`,
      where: sql`ended_at is not null`,
    },
    period: 'executions',
  },
  mcp_calls: {
    unit: 'calls',
    help: 'Calls of the MCP servers of the workspace, by outcome; refused messages are calls, too.',
    kind: 'count',
    label: { name: 'outcome', values: ['ok', 'tool_error', 'rpc_error', 'denied'] },
    events: { table: sql`mcp_calls`, time: sql`logged_at`, value: sql`1`, label: sql`outcome` },
    period: 'mcp_calls',
  },
} as const satisfies Readonly<Record<string, Metric>>

export type MetricName = keyof typeof METRICS

export const METRIC_NAMES = Object.keys(METRICS) as MetricName[]

/** Metrics of a kind, by name. */
export const metricsOf = (kind: Metric['kind']): [MetricName, Metric][] =>
  (Object.entries(METRICS) as [MetricName, Metric][]).filter(([, metric]) => metric.kind === kind)

/** True if the counts by the minute are in `meters`, which admins of a tenant may read for all of its workspaces. */
export const isMetered = ({ period }: Metric): boolean => period === 'meters'

/**
 * A query of the columns `workspace_id, at, label, value`: the events of a count in a range of time.
 * @param since, until expressions of the type timestamptz @param rows a condition of the rows of its table
 */
export function eventsBetween({ events }: Metric, since: Sql, until: Sql, rows = sql`true`): Sql {
  if (events === undefined) throw new TypeError('the metric is no count')
  const { table, time, value, label = sql`''`, where = sql`true` } = events
  return sql`select workspace_id, ${time} as at, ${label}::text as label, (${value})::bigint as value from ${table}
    where ${rows} and ${time} >= ${since} and ${time} < ${until} and ${where}`
}
