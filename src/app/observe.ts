/** Reads the metrics of the parts of a platform when a scrape asks for them: pools, queues, slots, and what waits in the database. */

import project from '../../package.json' with { type: 'json' }
import type { Audit } from '../access/audit/audit.ts'
import { readWaitingWork } from '../features/analytics/installation.ts'
import type { TaskRunner } from '../features/background/task-runner.ts'
import type { Functions } from '../features/functions/sandbox/process-pool.ts'
import type { UserMails } from '../features/identity/pages/user-mails.ts'
import type { CallQueue } from '../features/mcp-servers/calls/call-log.ts'
import type { ConvertedImages } from '../features/objects/images/converted-images.ts'
import type { RunKind } from '../features/runs/run-kind.ts'
import type { StreamConsumers } from '../features/runs/triggers/stream-consumer.ts'
import { INFRA_LIMITS } from '../infra/limits.ts'
import type { Mailer } from '../infra/mail/mail.ts'
import type { Metrics, SetValue } from '../infra/metrics/metrics.ts'
import { observeProcess } from '../infra/metrics/process.ts'
import type { Database } from '../infra/postgres/database.ts'
import { SystemScope } from '../infra/postgres/system-scope.ts'
import type { ObjectClients } from '../infra/s3/clients.ts'
import type { Temporal } from '../infra/temporal/temporal.ts'
import type { Streams } from '../infra/valkey/streams.ts'
import type { Health } from './health.ts'

interface Parts {
  readonly database: Database
  readonly temporal: Temporal
  readonly streams: Streams
  readonly objectClients: ObjectClients
  readonly audit: Audit
  readonly callQueue: CallQueue
  readonly userMails: UserMails
  readonly convertedImages: ConvertedImages
  readonly runKinds: readonly RunKind[]
}

interface Work {
  readonly health: Health
  readonly functions: Functions
  readonly mailer: Mailer
  readonly taskRunner: TaskRunner
  readonly streamConsumers: StreamConsumers
}

/** @returns ends what measures between scrapes */
export function observePlatform(metrics: Metrics, parts: Parts, work: Work): () => void {
  if (!metrics.isExported) return () => {}
  metrics.observe('readiness', async (set) => {
    for (const { name, status } of (await work.health.read()).parts)
      set('tenon_part_up', status === 'pass' ? 1 : 0, { part: name })
  })
  metrics.observe('pools', (set) => observePools(set, parts))
  metrics.observe('queues', (set) => observeQueues(set, parts, work))
  metrics.observe('work', (set) => observeWork(set, work))
  metrics.observe('valkey', async (set) => {
    const { usedBytes, maxBytes, evictedKeys } = await parts.streams.memory()
    set('tenon_valkey_memory_bytes', usedBytes, {})
    set('tenon_valkey_memory_max_bytes', maxBytes, {})
    set('tenon_valkey_evicted_keys_total', evictedKeys, {})
  })
  metrics.observe('task_queues', async (set) => {
    for (const { queue, lastPollMs, backlog, backlogAgeMs } of await parts.temporal.taskQueues()) {
      const labels = { task_queue: queue }
      set('tenon_task_queue_backlog', backlog, labels)
      set('tenon_task_queue_backlog_age_seconds', backlogAgeMs / 1_000, labels)
      set('tenon_task_queue_has_worker', Date.now() - lastPollMs < INFRA_LIMITS.workerGoneMs ? 1 : 0, labels)
    }
  })
  const system = new SystemScope('metrics', parts.database)
  metrics.observe('installation', (set) => observeInstallation(set, system, parts.runKinds))
  return observeProcess(metrics, project.version)
}

function observePools(set: SetValue, parts: Parts): void {
  const { used, idle, max, waiting, waitingForShare, waits, waitedMs } = parts.database.use
  set('tenon_postgres_connections', used, { state: 'used' })
  set('tenon_postgres_connections', idle, { state: 'idle' })
  set('tenon_postgres_connections_max', max, {})
  set('tenon_postgres_waiting', waiting, { for: 'pool' })
  set('tenon_postgres_waiting', waitingForShare, { for: 'share' })
  set('tenon_postgres_waits_total', waits, {})
  set('tenon_postgres_wait_seconds_total', waitedMs / 1_000, {})
  set('tenon_valkey_commands_pending', parts.streams.pending, {})
  const { ok, failed, ms } = parts.temporal.calls
  set('tenon_temporal_requests_total', ok, { outcome: 'ok' })
  set('tenon_temporal_requests_total', failed, { outcome: 'failed' })
  set('tenon_temporal_request_seconds_total', ms / 1_000, {})
  const store = parts.objectClients.use
  set('tenon_s3_connections', store.used, { state: 'used' })
  set('tenon_s3_connections', store.idle, { state: 'idle' })
  set('tenon_s3_connections_max', INFRA_LIMITS.storeSocketsMax, {})
  set('tenon_s3_waiting', store.waiting, { for: 'pool' })
  set('tenon_s3_waiting', store.waitingForShare, { for: 'share' })
  const images = parts.convertedImages.use
  set('tenon_image_conversions', images.running, { state: 'running' })
  set('tenon_image_conversions', images.waiting, { state: 'waiting' })
}

function observeQueues(set: SetValue, parts: Parts, { mailer }: Work): void {
  const { audit, callQueue, userMails, streams } = parts
  set('tenon_event_listeners', streams.listeners, {})
  set('tenon_audit_queue', audit.pending, {})
  set('tenon_audit_lost_total', audit.lost, {})
  set('tenon_mcp_call_queue', callQueue.pending, {})
  set('tenon_user_mails_waiting', userMails.pending, {})
  for (const [outcome, count] of Object.entries(mailer.outcomes)) set('tenon_mails_total', count, { outcome })
}

function observeWork(set: SetValue, { functions, taskRunner, streamConsumers }: Work): void {
  const { used, max, waiting } = functions.use
  set('tenon_function_slots', used, { state: 'used' })
  // A run that waited for others gets its slot back at once, so that more than there are may be held.
  set('tenon_function_slots', Math.max(0, max - used), { state: 'free' })
  set('tenon_function_slots_waiting', waiting, {})
  set('tenon_event_consumer_lag_seconds', streamConsumers.lagMs / 1_000, {})
  for (const [task, { done, failed }] of taskRunner.served) {
    set('tenon_background_items_total', done, { task, outcome: 'done' })
    set('tenon_background_items_total', failed, { task, outcome: 'failed' })
  }
}

async function observeInstallation(
  set: SetValue,
  system: SystemScope,
  kinds: readonly RunKind[],
): Promise<void> {
  const { outbox, provisioning, queued, approvalMails } = await readWaitingWork(system, kinds)
  set('tenon_outbox_rows', outbox.rows, {})
  set('tenon_outbox_lag_seconds', outbox.lagSeconds, {})
  set('tenon_provisioning', provisioning.failed, { state: 'failed' })
  set('tenon_provisioning', provisioning.late, { state: 'late' })
  for (const [kind, count] of Object.entries(queued)) set('tenon_runs_queued', count, { kind })
  set('tenon_approval_mails_waiting', approvalMails, {})
}
