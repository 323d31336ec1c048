/** Merges the metrics of Temporal's SDK into those of the process: the listed ones, with the listed labels alone. */

import type { MetricTags } from '@temporalio/common'
import { MetricsBuffer, type TelemetryOptions } from '@temporalio/worker'
import { QUEUES } from '../core/work.ts'
import { specOf } from '../infra/metrics/catalogue.ts'
import type { Metrics } from '../infra/metrics/metrics.ts'

/** Between two readings. Updates come by the hundred for each workflow task, and a full buffer drops them. */
const DRAIN_MS = 500
const BUFFERED_MAX = 100_000

const TASK_QUEUES: ReadonlySet<unknown> = new Set(Object.values(QUEUES))

/**
 * The SDK's own Prometheus endpoint would keep a series for each name of a flow or function, since the workflow type is one; here
 * the label is dropped before anything is kept.
 * @returns options of the runtime; undefined if nothing scrapes this process
 */
export function collectSdkMetrics(metrics: Metrics): TelemetryOptions | undefined {
  if (!metrics.isExported) return undefined
  const buffer = new MetricsBuffer({ maxBufferSize: BUFFERED_MAX, useSecondsForDurations: true })
  const drain = () => {
    for (const { metric, value, attributes } of buffer.retrieveUpdates()) {
      const listed = specOf(metric.name)?.labels
      if (listed !== undefined) metrics.pass(metric.name, value, labelsOf(listed, attributes))
    }
  }
  setInterval(drain, DRAIN_MS).unref()
  metrics.observe('temporal_sdk', drain)
  return { metrics: { buffer, attachServiceName: false } }
}

/** The listed labels of an update. Of task queues, those of the platform have their name. */
function labelsOf(listed: Readonly<Record<string, string>>, given: MetricTags): Record<string, string> {
  const labels: Record<string, string> = {}
  for (const name of Object.keys(listed)) {
    const value = String(given[name] ?? '')
    labels[name] = name !== 'task_queue' || TASK_QUEUES.has(value) ? value : 'other'
  }
  return labels
}
