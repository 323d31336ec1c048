/**
 * Every metric of the platform: kind, labels with their closed lists of values, meaning. No label names a tenant, a workspace or
 * anything of theirs. `npm run reference` writes docs/reference/metrics.md from it.
 */

/** The label of a metric → what its values are. */
type Labels = Readonly<Record<string, string>>

interface Spec {
  /**
   * `counter`, `histogram` and `gauge` are recorded when something happens; those with `observed` are read when a scrape asks, and
   * cost nothing in between.
   */
  readonly kind: 'counter' | 'histogram' | 'gauge' | 'observed counter' | 'observed gauge'
  readonly help: string
  readonly labels: Labels
  /** Upper bounds of the buckets of a histogram. */
  readonly buckets?: readonly number[]
}

/** Seconds, of requests and of calls of a store. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10]
/** Seconds, of what may wait for minutes. */
const WAITS = [0.01, 0.05, 0.25, 1, 5, 15, 60, 300, 1_800]

const QUEUE = { task_queue: 'a task queue of the platform' }
const WORKER = { ...QUEUE, worker_type: 'WorkflowWorker, ActivityWorker, LocalActivityWorker or NexusWorker' }

/** The sources of observed metrics: each is read by one function, and fails as a whole. */
export const SOURCES = [
  ...['installation', 'pools', 'process', 'queues', 'readiness', 'requests', 'task_queues'],
  ...['temporal_sdk', 'valkey', 'work'],
] as const

export type Source = (typeof SOURCES)[number]

const listed = (values: readonly string[]): string => `${values.slice(0, -1).join(', ')} or ${values.at(-1)}`

export const METRICS = {
  // Requests
  tenon_http_requests_total: {
    kind: 'observed counter',
    help: 'Requests that have ended.',
    labels: {
      operation:
        'an `operationId` of openapi.json; of other routes a name such as mcp.message or webhook.receive, or else docs, health, issuer, mcp, page or none (no such route)',
      status:
        '1xx, 2xx, 3xx, 4xx or 5xx; 4xx also if the connection closed before a response was sent (499 in the log)',
    },
  },
  tenon_http_request_seconds_total: {
    kind: 'observed counter',
    help: 'Seconds until these requests have ended, without event streams. Divided by their number: the mean.',
    labels: { operation: 'as of tenon_http_requests_total' },
  },
  tenon_http_request_duration_seconds: {
    kind: 'histogram',
    help: 'Seconds until a request has ended, without event streams.',
    labels: { area: 'a tag of openapi.json; of other routes docs, health, issuer, mcp, page or none' },
    buckets: SECONDS,
  },
  tenon_http_problems_total: {
    kind: 'counter',
    help: 'Requests that were answered with a problem.',
    labels: { code: 'a code of problems.md' },
  },
  tenon_http_requests_in_flight: {
    kind: 'observed gauge',
    help: 'Requests that have not ended, with open event streams.',
    labels: {},
  },
  tenon_event_listeners: {
    kind: 'observed gauge',
    help: 'Subscriptions of event streams and triggers that this process serves.',
    labels: {},
  },

  // Readiness
  tenon_part_up: {
    kind: 'observed gauge',
    help: '1 if the part answers this process, 0 if it does not.',
    labels: { part: 'a name of `checks` of `GET /readyz`' },
  },
  tenon_observation_up: {
    kind: 'observed gauge',
    help: '0 if the metrics of this source could not be read. Its gauges are then missing from the scrape, and its counters stand still.',
    labels: { source: listed(SOURCES) },
  },

  // PostgreSQL
  tenon_postgres_connections: {
    kind: 'observed gauge',
    help: 'Connections of the pool.',
    labels: { state: 'used or idle' },
  },
  tenon_postgres_connections_max: {
    kind: 'observed gauge',
    help: 'Connections that the pool may open.',
    labels: {},
  },
  tenon_postgres_waiting: {
    kind: 'observed gauge',
    help: 'Transactions that wait for a connection: of the pool, or of the share of their tenant.',
    labels: { for: 'pool or share' },
  },
  tenon_postgres_waits_total: {
    kind: 'observed counter',
    help: 'Transactions that have waited because no connection of the pool was free.',
    labels: {},
  },
  tenon_postgres_wait_seconds_total: {
    kind: 'observed counter',
    help: 'Seconds for which these transactions have waited.',
    labels: {},
  },

  // Valkey
  tenon_valkey_commands_pending: {
    kind: 'observed gauge',
    help: 'Commands of event streams that Valkey has not answered. A reader that waits for events is one.',
    labels: {},
  },
  tenon_valkey_memory_bytes: {
    kind: 'observed gauge',
    help: 'Memory that Valkey uses for data.',
    labels: {},
  },
  tenon_valkey_memory_max_bytes: {
    kind: 'observed gauge',
    help: 'Memory that Valkey may use (`maxmemory`). 0: all of its machine.',
    labels: {},
  },
  tenon_valkey_evicted_keys_total: {
    kind: 'observed counter',
    help: 'Keys that Valkey has dropped for lack of memory since its start. Each is lost data.',
    labels: {},
  },

  // Object store
  tenon_s3_connections: {
    kind: 'observed gauge',
    help: 'Connections of workspaces to the object store.',
    labels: { state: 'used or idle' },
  },
  tenon_s3_connections_max: {
    kind: 'observed gauge',
    help: 'Connections that may be open at once.',
    labels: {},
  },
  tenon_s3_waiting: {
    kind: 'observed gauge',
    help: 'Requests that wait for a connection: of the process, or of the share of their tenant.',
    labels: { for: 'pool or share' },
  },
  tenon_image_conversions: {
    kind: 'observed gauge',
    help: 'Images that are converted for their readers, and those that wait for their turn.',
    labels: { state: 'running or waiting' },
  },

  // Temporal
  tenon_temporal_requests_total: {
    kind: 'observed counter',
    help: 'Calls of Temporal by this process, without those of its workers and those that wait for a result.',
    labels: { outcome: 'ok or failed' },
  },
  tenon_temporal_request_seconds_total: {
    kind: 'observed counter',
    help: 'Seconds of these calls. Divided by their number: the mean.',
    labels: {},
  },
  tenon_task_queue_backlog: {
    kind: 'observed gauge',
    help: 'Tasks in the queue that no worker has taken, as Temporal estimates. The same for every process.',
    labels: QUEUE,
  },
  tenon_task_queue_backlog_age_seconds: {
    kind: 'observed gauge',
    help: 'Age of the oldest of these tasks. The same for every process.',
    labels: QUEUE,
  },
  tenon_task_queue_has_worker: {
    kind: 'observed gauge',
    help: '1 if a worker polls the queue, 0 if none has for 75 s. The same for every process.',
    labels: QUEUE,
  },

  // Executions and runs
  tenon_queue_seconds: {
    kind: 'histogram',
    help: 'Seconds from the request or event that starts an execution or a run of a function to its first step.',
    labels: { kind: 'execution or function_run' },
    buckets: WAITS,
  },
  tenon_runs_total: {
    kind: 'counter',
    help: 'Executions and attempts of runs of functions that have ended in this worker.',
    labels: {
      kind: 'execution or function_run',
      outcome: 'the status of an execution; of a function `completed`, a code of problems.md, or other',
    },
  },
  tenon_runs_queued: {
    kind: 'observed gauge',
    help: 'Executions and runs that wait for a concurrency slot of their flow or function; 10,001 for more. The same for every process.',
    labels: { kind: 'execution or function_run' },
  },
  tenon_function_slots: {
    kind: 'observed gauge',
    help: 'Slots for functions of this worker.',
    labels: { state: 'used or free' },
  },
  tenon_function_slots_waiting: {
    kind: 'observed gauge',
    help: 'Runs of functions that wait for a slot of this worker.',
    labels: {},
  },

  // Queues
  tenon_outbox_lag_seconds: {
    kind: 'observed gauge',
    help: 'Age of the oldest change that is not in its event stream yet; 0 if there is none. The same for every process.',
    labels: {},
  },
  tenon_outbox_rows: {
    kind: 'observed gauge',
    help: 'Changes that are not in their event stream yet; 10,001 for more. The same for every process.',
    labels: {},
  },
  tenon_event_consumer_lag_seconds: {
    kind: 'observed gauge',
    help: 'Age of the oldest event that its trigger or listening execution has not handled yet. 0 in all workers but the one that serves them.',
    labels: {},
  },
  tenon_provisioning: {
    kind: 'observed gauge',
    help: 'Tenants and workspaces whose creation has failed, or has not ended after 2 minutes. The same for every process.',
    labels: { state: 'failed or late' },
  },
  tenon_audit_queue: {
    kind: 'observed gauge',
    help: 'Audit entries that this process has not stored yet. Changes are refused at 5,000.',
    labels: {},
  },
  tenon_audit_lost_total: {
    kind: 'observed counter',
    help: 'Audit entries that this process could not keep.',
    labels: {},
  },
  tenon_mcp_call_queue: {
    kind: 'observed gauge',
    help: 'Entries about calls of MCP tools that this process has not stored yet.',
    labels: {},
  },
  tenon_approval_mails_waiting: {
    kind: 'observed gauge',
    help: 'Approvals whose approvers were to be mailed by now; 10,001 for more. The same for every process.',
    labels: {},
  },
  tenon_mails_total: {
    kind: 'observed counter',
    help: 'Mails that were handed to the mail server.',
    labels: { outcome: 'sent, refused (this recipient) or failed (the server)' },
  },
  tenon_user_mails_waiting: {
    kind: 'observed gauge',
    help: 'Mails to users that this process has not handed to the mail server yet.',
    labels: {},
  },
  tenon_background_items_total: {
    kind: 'observed counter',
    help: 'Items that background tasks have served: repairs of executions and runs, mails, removals.',
    labels: { task: 'a background task', outcome: 'done or failed' },
  },

  // The process
  tenon_build_info: { kind: 'observed gauge', help: 'Always 1.', labels: { version: 'of the platform' } },
  tenon_event_loop_delay_seconds: {
    kind: 'observed gauge',
    help: 'By how much timers were late since the scrape before: how long requests wait for the thread.',
    labels: { quantile: '0.5, 0.99 or 1' },
  },
  tenon_event_loop_active_seconds_total: {
    kind: 'observed counter',
    help: 'Seconds in which the thread was not idle. Its rate is the share of one core that is in use.',
    labels: {},
  },
  process_cpu_seconds_total: {
    kind: 'observed counter',
    help: 'Processor time of all threads.',
    labels: {},
  },
  process_resident_memory_bytes: { kind: 'observed gauge', help: 'Resident memory.', labels: {} },
  process_heap_bytes: { kind: 'observed gauge', help: 'Heap of JavaScript that is in use.', labels: {} },
  process_start_time_seconds: {
    kind: 'observed gauge',
    help: 'When the process was started, in seconds since 1970.',
    labels: {},
  },
  process_open_fds: { kind: 'observed gauge', help: 'Open file descriptors (Linux).', labels: {} },
  process_max_fds: { kind: 'observed gauge', help: 'File descriptors that may be open (Linux).', labels: {} },

  // Of Temporal's SDK, by its names (https://docs.temporal.io/references/sdk-metrics); workers only
  temporal_request: {
    kind: 'counter',
    help: 'Calls of Temporal.',
    labels: { operation: 'a method of Temporal' },
  },
  temporal_request_failure: {
    kind: 'counter',
    help: 'Calls of Temporal that failed.',
    labels: { operation: 'a method of Temporal', status_code: 'a status code of gRPC' },
  },
  temporal_long_request: {
    kind: 'counter',
    help: 'Polls of task queues.',
    labels: { operation: 'a method of Temporal' },
  },
  temporal_long_request_failure: {
    kind: 'counter',
    help: 'Polls of task queues that failed.',
    labels: { operation: 'a method of Temporal', status_code: 'a status code of gRPC' },
  },
  temporal_request_latency: {
    kind: 'histogram',
    help: 'Seconds of calls of Temporal.',
    labels: { operation: 'a method of Temporal' },
    buckets: SECONDS,
  },
  temporal_worker_task_slots_available: { kind: 'gauge', help: 'Free slots for tasks.', labels: WORKER },
  temporal_worker_task_slots_used: { kind: 'gauge', help: 'Slots for tasks in use.', labels: WORKER },
  temporal_num_pollers: {
    kind: 'gauge',
    help: 'Polls under way.',
    labels: { ...QUEUE, poller_type: 'workflow_task, sticky_workflow_task, activity_task or nexus_task' },
  },
  temporal_workflow_task_schedule_to_start_latency: {
    kind: 'histogram',
    help: 'Seconds for which workflow tasks were in their queue.',
    labels: QUEUE,
    buckets: WAITS,
  },
  temporal_workflow_task_execution_latency: {
    kind: 'histogram',
    help: 'Seconds for which workflow tasks ran.',
    labels: QUEUE,
    buckets: SECONDS,
  },
  temporal_workflow_task_replay_latency: {
    kind: 'histogram',
    help: 'Seconds for which workflows were replayed.',
    labels: QUEUE,
    buckets: SECONDS,
  },
  temporal_workflow_task_execution_failed: {
    kind: 'counter',
    help: 'Workflow tasks that failed.',
    labels: { ...QUEUE, failure_reason: 'NonDeterminismError or WorkflowError' },
  },
  temporal_activity_schedule_to_start_latency: {
    kind: 'histogram',
    help: 'Seconds for which activities were in their queue.',
    labels: QUEUE,
    buckets: WAITS,
  },
  temporal_activity_execution_latency: {
    kind: 'histogram',
    help: 'Seconds for which activities ran.',
    labels: QUEUE,
    buckets: WAITS,
  },
  temporal_activity_execution_failed: {
    kind: 'counter',
    help: 'Attempts of activities that failed.',
    labels: QUEUE,
  },
  temporal_local_activity_execution_latency: {
    kind: 'histogram',
    help: 'Seconds for which local activities ran.',
    labels: QUEUE,
    buckets: SECONDS,
  },
  temporal_local_activity_execution_failed: {
    kind: 'counter',
    help: 'Attempts of local activities that failed.',
    labels: QUEUE,
  },
  temporal_sticky_cache_hit: { kind: 'counter', help: 'Workflow tasks of cached workflows.', labels: QUEUE },
  temporal_sticky_cache_miss: {
    kind: 'counter',
    help: 'Workflow tasks whose workflow was not cached any more.',
    labels: QUEUE,
  },
  temporal_sticky_cache_size: { kind: 'gauge', help: 'Cached workflows.', labels: QUEUE },
  temporal_sticky_cache_total_forced_eviction: {
    kind: 'counter',
    help: 'Workflows that were evicted from the cache.',
    labels: QUEUE,
  },
} as const satisfies Readonly<Record<string, Spec>>

export type MetricName = keyof typeof METRICS

/** Names of metrics of a kind. */
export type NameOf<Kind extends Spec['kind']> = {
  [Name in MetricName]: (typeof METRICS)[Name]['kind'] extends Kind ? Name : never
}[MetricName]

/** The labels of a metric, all of them. */
export type LabelsOf<Name extends MetricName> = {
  readonly [Label in keyof (typeof METRICS)[Name]['labels']]: string
}

/** The catalogue, for code that finds a metric by a name of others. */
export const specOf = (name: string): Spec | undefined =>
  Object.hasOwn(METRICS, name) ? METRICS[name as MetricName] : undefined

/** The name under which Prometheus stores a metric: that of a counter ends with `_total`. */
export const exportedName = (name: MetricName): string =>
  METRICS[name].kind.endsWith('counter') && !name.endsWith('_total') ? `${name}_total` : name

/** The page docs/reference/metrics.md. */
export function metricsPage(): string {
  const rows = Object.entries<Spec>(METRICS).map(([name, { kind, help, labels }]) => {
    const values = Object.entries(labels).map(([label, list]) => `\`${label}\`: ${list}`)
    return `| \`${exportedName(name as MetricName)}\` | ${kind.replace('observed ', '')} | ${help} | ${values.join('<br>')} |`
  })
  return `# Metrics\n\n\`GET /metrics\` of API and worker, on the address of \`TENON_OPS_LISTEN\`. Labels have values of these lists alone, none of a tenant.\n\n| name | kind | meaning | labels |\n|---|---|---|---|\n${rows.join('\n')}\n`
}
