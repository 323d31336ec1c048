/** A case for each alert: series that fire it and the alert that they give, and series that are near it and do not. */

/** Values by the name of their series, one each 15 s, in the notation of `promtool test rules`: `1x40` repeats 1, `0+2x40` counts by 2. */
type SeriesValues = Readonly<Record<string, string>>

export interface AlertCase {
  readonly fires: SeriesValues
  /** Labels of the alert, besides its name and severity. */
  readonly labels: Readonly<Record<string, string>>
  readonly summary: string
  readonly silent: SeriesValues
}

const API = 'job="tenon-api",instance="a"'
const WORKER = 'job="tenon-worker",instance="w"'
const api = { job: 'tenon-api', instance: 'a' }
const worker = { job: 'tenon-worker', instance: 'w' }

/** Cumulative buckets of a histogram. @param le bounds of the buckets that grow, all alike */
const buckets = (name: string, labels: string, bounds: readonly string[], grow: readonly string[]) =>
  Object.fromEntries(
    bounds.map((le) => [`${name}_bucket{${labels},le="${le}"}`, grow.includes(le) ? '0+10x80' : '0x80']),
  )

const DURATION = 'tenon_http_request_duration_seconds'
const QUEUE = 'tenon_queue_seconds'

export const ALERT_CASES: Readonly<Record<string, AlertCase>> = {
  TenonProcessDown: {
    fires: { [`up{${API}}`]: '1x4 0x60' },
    labels: api,
    summary: 'tenon-api at a does not answer a scrape.',
    silent: { [`up{${API}}`]: '1x60', 'up{job="others",instance="a"}': '0x60' },
  },
  TenonPartDown: {
    fires: { [`tenon_part_up{${API},part="postgres"}`]: '1x4 0x60' },
    labels: { ...api, part: 'postgres' },
    summary: 'postgres does not answer a.',
    // A restart of half a minute.
    silent: { [`tenon_part_up{${API},part="postgres"}`]: '1x40 0 0 1x40' },
  },
  TenonServerErrors: {
    fires: {
      [`tenon_http_requests_total{${API},operation="object.get",status="5xx"}`]: '0+1x60',
      [`tenon_http_requests_total{${API},operation="object.get",status="2xx"}`]: '0+9x60',
    },
    labels: { operation: 'object.get' },
    summary: '10% of the requests of object.get fail with 5xx.',
    // A single one of few requests.
    silent: {
      [`tenon_http_requests_total{${API},operation="object.get",status="5xx"}`]: '0x20 1x60',
      [`tenon_http_requests_total{${API},operation="object.get",status="2xx"}`]: '0x10 5x60',
    },
  },
  TenonSlowRequests: {
    fires: buckets(DURATION, `${API},area="Collections"`, ['2.5', '10', '+Inf'], ['10', '+Inf']),
    labels: { area: 'Collections' },
    summary: '1 of 100 requests of Collections takes longer than 9.925s.',
    silent: {
      ...buckets(DURATION, `${API},area="Collections"`, ['2.5', '10', '+Inf'], ['2.5', '10', '+Inf']),
      ...buckets(DURATION, `${API},area="Functions"`, ['2.5', '10', '+Inf'], ['10', '+Inf']),
    },
  },
  TenonMetricsMissing: {
    fires: { [`tenon_observation_up{${API},source="valkey"}`]: '0x80' },
    labels: { ...api, source: 'valkey' },
    summary: 'a cannot read its metrics of valkey; alerts on them are silent.',
    silent: { [`tenon_observation_up{${API},source="valkey"}`]: '1x40 0x8 1x40' },
  },
  TenonEventLoopDelayed: {
    fires: { [`tenon_event_loop_delay_seconds{${API},quantile="0.99"}`]: '0.4x80' },
    labels: { ...api, quantile: '0.99' },
    summary: 'The thread of a is busy: work waits 400ms for it.',
    silent: {
      [`tenon_event_loop_delay_seconds{${API},quantile="0.99"}`]: '0.1x80',
      [`tenon_event_loop_delay_seconds{${API},quantile="1"}`]: '3x80',
    },
  },
  TenonDatabasePoolExhausted: {
    fires: { [`tenon_postgres_waiting{${API},for="pool"}`]: '7x80' },
    labels: { ...api, for: 'pool' },
    summary: 'Requests of a wait for connections to PostgreSQL.',
    // Short waits, and a tenant that uses its share.
    silent: {
      [`tenon_postgres_waiting{${API},for="pool"}`]: '0 5 0 0 0 5 0x70',
      [`tenon_postgres_waiting{${API},for="share"}`]: '50x80',
      [`tenon_postgres_wait_seconds_total{${API}}`]: '0+1x80',
    },
  },
  TenonStorePoolExhausted: {
    fires: { [`tenon_s3_waiting{${API},for="pool"}`]: '3x80' },
    labels: { ...api, for: 'pool' },
    summary: 'Requests of a wait for connections to the object store.',
    silent: {
      [`tenon_s3_waiting{${API},for="pool"}`]: '0 3 0 3 0x70',
      [`tenon_s3_waiting{${API},for="share"}`]: '9x80',
    },
  },
  TenonFunctionSlotsTaken: {
    fires: {
      [`tenon_function_slots_waiting{${WORKER}}`]: '12x80',
      [`tenon_function_slots{${WORKER},state="free"}`]: '0x80',
    },
    labels: worker,
    summary: '12 runs of functions wait for a slot of w.',
    // One tenant has its share, and slots are free for others.
    silent: {
      [`tenon_function_slots_waiting{${WORKER}}`]: '12x80',
      [`tenon_function_slots{${WORKER},state="free"}`]: '4x80',
    },
  },
  TenonNoWorker: {
    fires: {
      [`tenon_task_queue_has_worker{${API},task_queue="tenon-flows"}`]: '0x80',
      [`tenon_task_queue_has_worker{job="tenon-api",instance="b",task_queue="tenon-flows"}`]: '0x80',
    },
    labels: { task_queue: 'tenon-flows' },
    summary: 'No worker takes tasks of tenon-flows: its executions and runs stand still.',
    silent: { [`tenon_task_queue_has_worker{${API},task_queue="tenon-flows"}`]: '1x80' },
  },
  TenonTaskQueueBacklog: {
    fires: { [`tenon_task_queue_backlog_age_seconds{${API},task_queue="tenon-calls"}`]: '90x80' },
    labels: { task_queue: 'tenon-calls' },
    summary: 'Tasks wait in tenon-calls for 1m 30s.',
    silent: { [`tenon_task_queue_backlog_age_seconds{${API},task_queue="tenon-calls"}`]: '50x80' },
  },
  TenonStartsLate: {
    fires: buckets(QUEUE, `${WORKER},kind="execution"`, ['60', '300', '+Inf'], ['300', '+Inf']),
    labels: { kind: 'execution' },
    summary: '1 of 20 of kind execution waits for longer than 4m 48s before its first step.',
    silent: buckets(QUEUE, `${WORKER},kind="execution"`, ['60', '300', '+Inf'], ['60', '300', '+Inf']),
  },
  TenonOutboxLag: {
    fires: { [`tenon_outbox_lag_seconds{${API}}`]: '0+15x80' },
    labels: {},
    summary: 'Changes of documents reach their event streams 15m 0s late.',
    silent: { [`tenon_outbox_lag_seconds{${API}}`]: '20x80' },
  },
  TenonEventConsumersLag: {
    fires: {
      [`tenon_event_consumer_lag_seconds{${WORKER}}`]: '300x80',
      [`tenon_event_consumer_lag_seconds{job="tenon-worker",instance="v"}`]: '0x80',
    },
    labels: {},
    summary: 'Triggers handle events 5m 0s late.',
    silent: { [`tenon_event_consumer_lag_seconds{${WORKER}}`]: '60x80' },
  },
  TenonBackgroundTaskFails: {
    fires: {
      [`tenon_background_items_total{${WORKER},task="approval mails",outcome="failed"}`]: '0+2x80',
      [`tenon_background_items_total{${WORKER},task="approval mails",outcome="done"}`]: '0x80',
    },
    labels: { task: 'approval mails' },
    summary: 'The background task approval mails fails more often than it succeeds.',
    silent: {
      [`tenon_background_items_total{${WORKER},task="approval mails",outcome="failed"}`]: '0+2x80',
      [`tenon_background_items_total{${WORKER},task="approval mails",outcome="done"}`]: '0+9x80',
    },
  },
  TenonProvisioningFailed: {
    fires: { [`tenon_provisioning{${API},state="failed"}`]: '2x80' },
    labels: {},
    summary: 'The creation of 2 tenants or workspaces has failed.',
    silent: { [`tenon_provisioning{${API},state="failed"}`]: '0x80' },
  },
  TenonProvisioningLate: {
    fires: { [`tenon_provisioning{${API},state="late"}`]: '3x80' },
    labels: {},
    summary: '3 tenants or workspaces have been waiting for their creation for more than 2 minutes.',
    silent: { [`tenon_provisioning{${API},state="late"}`]: '0x20 1x8 0x60' },
  },
  TenonValkeyMemory: {
    fires: {
      [`tenon_valkey_memory_bytes{${API}}`]: '90x80',
      [`tenon_valkey_memory_max_bytes{${API}}`]: '100x80',
    },
    labels: {},
    summary: 'Valkey uses 90% of its memory; when it is full, events and administration are refused.',
    // Without a limit there is no share.
    silent: {
      [`tenon_valkey_memory_bytes{${API}}`]: '90x80',
      [`tenon_valkey_memory_max_bytes{${API}}`]: '0x80',
    },
  },
  TenonValkeyEvicts: {
    fires: { [`tenon_valkey_evicted_keys_total{${API}}`]: '0x20 10x60' },
    labels: {},
    summary: 'Valkey has dropped 10 keys for lack of memory: events and sessions are lost.',
    silent: { [`tenon_valkey_evicted_keys_total{${API}}`]: '10x80' },
  },
  TenonAuditQueue: {
    fires: { [`tenon_audit_queue{${API}}`]: '800x80' },
    labels: api,
    summary: 'Audit entries of a wait or are lost.',
    silent: { [`tenon_audit_queue{${API}}`]: '0 900 0 900 0x70', [`tenon_audit_lost_total{${API}}`]: '0x80' },
  },
  TenonMailsWaiting: {
    fires: { [`tenon_mails_total{${WORKER},outcome="failed"}`]: '0+1x80' },
    labels: { ...worker, outcome: 'failed' },
    summary: 'Mails to approvers or users are not sent.',
    silent: {
      [`tenon_mails_total{${WORKER},outcome="failed"}`]: '0 1 1 2x70',
      [`tenon_mails_total{${WORKER},outcome="refused"}`]: '0+9x80',
      [`tenon_approval_mails_waiting{${API}}`]: '20x80',
    },
  },
}
