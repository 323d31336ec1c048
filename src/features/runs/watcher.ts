/** Watches runs of any kind: one query for all that are watched in this process, on each notification and at intervals. */

import { setTimeout as pause } from 'node:timers/promises'
import { privilege } from '../../access/privileges.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import type { StatementExecutor } from '../../infra/postgres/database.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { SystemScope } from '../../infra/postgres/system-scope.ts'
import { Backoff } from '../../infra/retry.ts'
import type { Notifier } from '../../infra/valkey/notifier.ts'
import { RUN_LIMITS } from './limits.ts'
import { type RunKind, requireRunKind } from './run-kind.ts'

declare module '../../access/internals.ts' {
  interface PlatformServices {
    readonly runWatcher: RunWatcher
  }
}

const watcherOf = privilege('runs.watcher')

/** Watches a run of the workspace until it is stopped. */
export function watchRun(scope: WorkspaceScope, kindName: string, runId: string) {
  return watcherOf(scope).watch(requireRunKind(scope, kindName), scope.ref, runId)
}

/** Call after a write to the record of a run of the workspace, or to what belongs to it. Does not wait and never throws. */
export function notifyRunChanged(scope: WorkspaceScope, runId: string, hasEnded = false): void {
  watcherOf(scope).notify(scope.ref, runId, hasEnded)
}

/** The state of a run that watchers see. */
export interface RunSnapshot {
  /** The number of what was recorded last of it ({@link RunKind.version}). */
  readonly version: number
  /** Its workspace is suspended, or it is paused. */
  readonly suspended: boolean
  readonly ended: boolean
  /** It was deleted. */
  readonly gone: boolean
}

/** Before the first query. */
const UNKNOWN: RunSnapshot = { version: 0, suspended: false, ended: false, gone: false }

interface Row {
  readonly key: string
  readonly version: number | null
  readonly suspended: boolean | null
  readonly ended: boolean | null
}

/** A run that is watched, shared by all its watchers in this process. */
export class RunWatch {
  readonly kind: RunKind
  readonly ref: WorkspaceRef
  readonly id: string
  watchers = 0
  #snapshot = UNKNOWN
  #page: { readonly after: number; readonly loaded: Promise<unknown> } | undefined
  #waiting: (() => void)[] = []
  /** Callbacks of watchers that wait for the end alone and read the run themselves. */
  #ends = new Set<() => void>()

  constructor(kind: RunKind, ref: WorkspaceRef, id: string) {
    this.kind = kind
    this.ref = ref
    this.id = id
  }

  get snapshot(): RunSnapshot {
    return this.#snapshot
  }

  /** Stores what a new watcher has read, unless what is known may be newer: a suspension has no event of its own. */
  seed(snapshot: RunSnapshot): void {
    if (this.#snapshot === UNKNOWN || snapshot.version > this.#snapshot.version) this.update(snapshot)
  }

  /** Resolves at the next change, or after `maxMs`. Call it before the run is read, so that no change is missed. */
  async nextChange(maxMs?: number): Promise<void> {
    const changed = new Promise<void>((done) => this.#waiting.push(done))
    if (maxMs === undefined) return changed
    await Promise.race([changed, pause(Math.max(maxMs, 0), undefined, { ref: false })])
  }

  /** Calls once the run has ended. @returns removes the callback */
  onEnd(done: () => void): () => void {
    this.#ends.add(done)
    return () => this.#ends.delete(done)
  }

  /** @returns true if all watchers waited for the end alone */
  notifyEnd(): boolean {
    const all = this.#ends.size === this.watchers
    for (const done of this.#ends) done()
    return all
  }

  /** Reads the changes after a version, once for all watchers. */
  page<T>(after: number, load: () => Promise<T>): Promise<T> {
    if (this.#page?.after === after) return this.#page.loaded as Promise<T>
    const loaded = load()
    const page = { after, loaded }
    this.#page = page
    loaded.catch(() => {
      // A failed page is read again.
      if (this.#page === page) this.#page = undefined
    })
    return loaded
  }

  /** Stores the snapshot and wakes watchers. */
  update(snapshot: RunSnapshot): void {
    this.#snapshot = snapshot
    this.#page = undefined
    if (snapshot.ended && !snapshot.gone) this.notifyEnd()
    this.wake()
  }

  wake(): void {
    for (const done of this.#waiting.splice(0)) done()
  }
}

/** The channel of ids of runs, and nothing of their content. A missed message is found by the next poll. */
export const RUNS_CHANNEL = 'tenon:runs'

export class RunWatcher {
  readonly #system: SystemScope
  readonly #onError: (error: unknown) => void
  readonly #notifier: Notifier
  readonly #watched = new Map<string, RunWatch>()
  readonly #closed = new AbortController()
  /** The runs of the next query. */
  #pending = new Map<string, RunWatch>()
  #querying: Promise<void> | undefined
  #polling: Promise<void> | undefined

  constructor(database: StatementExecutor, notifier: Notifier, onError: (error: unknown) => void) {
    this.#system = new SystemScope('watcher', database)
    this.#notifier = notifier
    this.#onError = onError
  }

  /** Notifies the watchers in all processes that a run was written, perhaps its end. */
  notify(ref: WorkspaceRef, id: string, hasEnded: boolean): void {
    this.#notifier.publish(`${keyOf(ref, id)}${hasEnded ? ENDED : ''}`)
  }

  /** @returns the watch; it ends with `stop` */
  watch(kind: RunKind, ref: WorkspaceRef, id: string): { watched: RunWatch; stop: () => void } {
    const key = keyOf(ref, id)
    this.#notifier.subscribe((name) => this.#onNotification(name))
    const watched = this.#watched.get(key) ?? new RunWatch(kind, ref, id)
    this.#watched.set(key, watched)
    watched.watchers += 1
    this.#polling ??= this.#poll()
    let stopped = false
    const stop = () => {
      if (stopped) return
      stopped = true
      watched.watchers -= 1
      watched.wake()
      if (watched.watchers === 0) this.#watched.delete(key)
    }
    return { watched, stop }
  }

  async close(): Promise<void> {
    this.#closed.abort()
    this.#notifier.close()
    await Promise.allSettled([this.#polling, this.#querying])
  }

  #onNotification(name: string): void {
    const hasEnded = name.endsWith(ENDED)
    const key = hasEnded ? name.slice(0, -ENDED.length) : name
    const watched = this.#watched.get(key)
    if (watched === undefined || (hasEnded && watched.notifyEnd())) return
    // The change may be no part of the snapshot, such as one of the slot.
    watched.wake()
    // If it fails, the next poll reports it.
    this.#query([[key, watched]]).catch(() => {})
  }

  /** One query at a time, so that no result is older than the one before; requests during a query are part of the next. */
  #query(watches: Iterable<[string, RunWatch]>): Promise<void> {
    for (const [key, watched] of watches) this.#pending.set(key, watched)
    this.#querying ??= this.#queryPending().finally(() => {
      this.#querying = undefined
    })
    return this.#querying
  }

  async #queryPending(): Promise<void> {
    while (this.#pending.size > 0) {
      const asked = [...this.#pending]
      this.#pending = new Map()
      await this.#refresh(asked)
    }
  }

  /** Polls while anything is watched. Never rejects. */
  async #poll(): Promise<void> {
    const backoff = new Backoff(RUN_LIMITS.watchPollMs)
    while (this.#watched.size > 0 && !this.#closed.signal.aborted) {
      await pause(backoff.next(), undefined, { signal: this.#closed.signal }).catch(() => {})
      await this.#query(this.#watched).then(() => backoff.reset(), this.#onError)
    }
    this.#polling = undefined
  }

  async #refresh(asked: readonly (readonly [string, RunWatch])[]): Promise<void> {
    for (const kind of new Set(asked.map(([, watched]) => watched.kind))) {
      const ofKind = asked.filter(([, watched]) => watched.kind === kind)
      for (const { key, version, suspended, ended } of await this.#system.rows<Row>(changed(kind, ofKind))) {
        this.#watched.get(key)?.update({
          version: version ?? 0,
          suspended: suspended ?? false,
          ended: ended ?? true,
          gone: version === null,
        })
      }
    }
  }
}

/** Suffix of a notification: the run has ended. */
const ENDED = '!'

const keyOf = ({ tenantId, workspaceId }: WorkspaceRef, id: string) => `${tenantId}:${workspaceId}:${id}`

/** Reads the watched runs of a kind whose snapshot has changed. */
function changed(
  { table, version, isSuspended }: RunKind,
  asked: readonly (readonly [string, RunWatch])[],
): Sql {
  const known = asked.map(([key, { ref, id, snapshot }]) => ({
    key,
    tenant: ref.tenantId,
    workspace: ref.workspaceId,
    id,
    ...snapshot,
  }))
  return sql`
    select * from (
      select w.key, case when r.id is not null then ${version} end as version, ${isSuspended} as suspended,
        r.ended_at is not null as ended, w.version as known_version, w.suspended as was_suspended, w.ended as had_ended, w.gone
      from jsonb_to_recordset(${JSON.stringify(known)}::jsonb) as w (
        key text, tenant text, workspace text, id text, version integer, suspended boolean, ended boolean, gone boolean)
      left join ${table} r on r.tenant_id = w.tenant and r.workspace_id = w.workspace and r.id = w.id) as state
    where (known_version, was_suspended, had_ended, gone) is distinct from
      (coalesce(version, 0), coalesce(suspended, false), version is null or ended, version is null)`
}
