/** Counts requests, events and streams by workspace and minute in memory, and adds them to the database every few seconds. */

import { privilege } from '../../access/privileges.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import { MINUTE_MS } from '../../core/units.ts'
import type { Log } from '../../infra/log.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { SystemScope } from '../../infra/postgres/system-scope.ts'
import { ANALYTICS_LIMITS } from './limits.ts'

declare module '../../access/internals.ts' {
  interface PlatformServices {
    readonly meters: Meters
  }
}

const metersOf = privilege('analytics.meters')

/** Counts an event that the workspace has published. Does no I/O. */
export const countEvent = (scope: WorkspaceScope): void => metersOf(scope).countEvent(scope.ref)

interface Meter {
  readonly tenant_id: string
  readonly workspace_id: string
  readonly at: string
  requests: number
  client_errors: number
  server_errors: number
  events: number
  streams: number
  readonly buckets: number[]
}

export class Meters {
  readonly #system: SystemScope
  readonly #log: Log
  #meters = new Map<string, Meter>()
  #timer: NodeJS.Timeout | undefined
  #flushing: Promise<void> = Promise.resolve()

  constructor(database: Database, log: Log) {
    this.#system = new SystemScope('meters', database)
    this.#log = log
  }

  /** Counts an answered request. Does no I/O. */
  count(ref: WorkspaceRef, status: number, ms: number): void {
    const meter = this.#meterOf(ref)
    meter.requests += 1
    if (status >= 500) meter.server_errors += 1
    else if (status >= 400) meter.client_errors += 1
    const bucket = bucketOf(ms)
    meter.buckets[bucket] = (meter.buckets[bucket] ?? 0) + 1
  }

  countEvent(ref: WorkspaceRef): void {
    this.#meterOf(ref).events += 1
  }

  /** Counts an event stream as it opens, and its request: the duration of a stream is no latency. */
  countStream(ref: WorkspaceRef, ms: number): void {
    this.count(ref, 200, ms)
    this.#meterOf(ref).streams += 1
  }

  /** The current meter of a workspace, which the next flush stores. */
  #meterOf({ tenantId, workspaceId }: WorkspaceRef): Meter {
    this.#timer ??= setTimeout(() => void this.flush(), ANALYTICS_LIMITS.flushMs).unref()
    const minute = Math.floor(Date.now() / MINUTE_MS)
    const name = `${workspaceId}@${minute}`
    const known = this.#meters.get(name)
    if (known !== undefined) return known
    const at = new Date(minute * MINUTE_MS).toISOString()
    const buckets = Array<number>(ANALYTICS_LIMITS.durationBuckets).fill(0)
    const counts = { requests: 0, client_errors: 0, server_errors: 0, events: 0, streams: 0, buckets }
    const made = { tenant_id: tenantId, workspace_id: workspaceId, at, ...counts }
    this.#meters.set(name, made)
    return made
  }

  /** Adds the counts to the database. Counts that cannot be written are kept for the next flush. */
  flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#flushing = this.#flushing.then(() => this.#write())
    return this.#flushing
  }

  async #write(): Promise<void> {
    const flushedMeters = this.#meters
    if (flushedMeters.size === 0) return
    this.#meters = new Map()
    try {
      await this.#system.rows(addAll(countableNow(flushedMeters)))
    } catch (error) {
      this.#log.warn({ err: error }, 'meter write failed')
      this.#restore(flushedMeters)
    }
  }

  /** While the database is unavailable, the oldest minutes are dropped, so that memory stays bounded. */
  #restore(flushedMeters: Map<string, Meter>): void {
    for (const [name, meter] of flushedMeters) {
      const newer = this.#meters.get(name)
      if (newer === undefined) this.#meters.set(name, meter)
      else add(newer, meter)
    }
    for (const name of this.#meters.keys()) {
      if (this.#meters.size <= ANALYTICS_LIMITS.metersKeptMax) break
      this.#meters.delete(name)
    }
    this.#timer ??= setTimeout(() => void this.flush(), ANALYTICS_LIMITS.flushMs).unref()
  }
}

/**
 * The meters, with those of minutes so long ago that the usage of their hour may be recorded added to a later minute: else what was
 * counted while the database was away would be in no record.
 */
function countableNow(meters: ReadonlyMap<string, Meter>): Meter[] {
  const first = Math.floor((Date.now() - ANALYTICS_LIMITS.lateSeconds * 1_000) / MINUTE_MS) * MINUTE_MS
  const at = new Date(first).toISOString()
  const counted = new Map<string, Meter>()
  for (const meter of meters.values()) {
    const moved = { ...meter, buckets: [...meter.buckets], at: meter.at < at ? at : meter.at }
    const name = `${moved.workspace_id}@${moved.at}`
    const other = counted.get(name)
    if (other === undefined) counted.set(name, moved)
    else add(other, moved)
  }
  return [...counted.values()]
}

function add(to: Meter, from: Meter): void {
  to.requests += from.requests
  to.client_errors += from.client_errors
  to.server_errors += from.server_errors
  to.events += from.events
  to.streams += from.streams
  for (const [bucket, count] of from.buckets.entries()) to.buckets[bucket] = (to.buckets[bucket] ?? 0) + count
}

/** Bucket i counts requests of less than 2^(i/2) ms that do not belong to a lower bucket. */
function bucketOf(ms: number): number {
  const bucket = ms < 1 ? 0 : Math.floor(Math.log2(ms) * 2) + 1
  return Math.min(bucket, ANALYTICS_LIMITS.durationBuckets - 1)
}

/** Of a workspace whose purge has begun, nothing is written any more: a process that stood still may be late. */
const addAll = (meters: readonly Meter[]) => sql`
  insert into meters as m (tenant_id, workspace_id, at, requests, client_errors, server_errors, events, streams, buckets)
  select tenant_id, workspace_id, at, requests, client_errors, server_errors, events, streams,
    array(select jsonb_array_elements_text(buckets)::bigint)
  from jsonb_to_recordset(${JSON.stringify(meters)}::jsonb) as r (tenant_id text, workspace_id text,
    at timestamptz, requests bigint, client_errors bigint, server_errors bigint, events bigint, streams bigint, buckets jsonb)
  where exists (select from workspaces w join tenants t on t.id = w.tenant_id
    where w.id = r.workspace_id and coalesce(w.purged_from, t.purged_from) is null)
  order by tenant_id, workspace_id, at
  on conflict (tenant_id, workspace_id, at) do update set
    requests = m.requests + excluded.requests,
    client_errors = m.client_errors + excluded.client_errors,
    server_errors = m.server_errors + excluded.server_errors,
    events = m.events + excluded.events,
    streams = m.streams + excluded.streams,
    buckets = array(select a + b from unnest(m.buckets, excluded.buckets) as u (a, b))`
