/** Watches executions: one query for all that are watched in this process, on each notification and at intervals. */

import { setTimeout as pause } from 'node:timers/promises'
import { internalsOf } from '../../../access/internals.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import type { StatementExecutor } from '../../../infra/postgres/database.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { SystemScope } from '../../../infra/postgres/system-scope.ts'
import { Backoff } from '../../../infra/retry.ts'
import type { Notifier } from '../../../infra/valkey/notifier.ts'
import { FLOW_LIMITS } from '../limits.ts'

declare module '../../../access/internals.ts' {
  interface PlatformServices {
    readonly executionWatcher: ExecutionWatcher
  }
}

/** Watches an execution of the workspace until it is stopped. */
export function subscribeExecution(scope: WorkspaceScope, executionId: string) {
  return internalsOf(scope).services.executionWatcher.watch(scope.ref, executionId)
}

/** Call after a write to the record of an execution of the workspace. */
export function notifyExecutionChanged(scope: WorkspaceScope, executionId: string, hasEnded: boolean): void {
  internalsOf(scope).services.executionWatcher.notify(scope.ref, executionId, hasEnded)
}

/** The state of an execution that watchers see. */
export interface ExecutionSnapshot {
  /** The number of its newest event. */
  readonly events: number
  /** Its workspace is suspended, or it is paused. */
  readonly suspended: boolean
  readonly ended: boolean
  /** It was deleted. */
  readonly gone: boolean
}

/** Before the first query. */
const UNKNOWN: ExecutionSnapshot = { events: 0, suspended: false, ended: false, gone: false }

interface Row {
  readonly key: string
  readonly events: number | null
  readonly suspended: boolean | null
  readonly ended: boolean | null
}

/** An execution that is watched, shared by all its watchers in this process. */
export class ExecutionWatch {
  readonly ref: WorkspaceRef
  readonly id: string
  watchers = 0
  #snapshot = UNKNOWN
  #page: { readonly after: number; readonly loaded: Promise<unknown> } | undefined
  #waiting: (() => void)[] = []
  /** Callbacks of watchers that wait for the end alone and read the execution themselves. */
  #ends = new Set<() => void>()

  constructor(ref: WorkspaceRef, id: string) {
    this.ref = ref
    this.id = id
  }

  get snapshot(): ExecutionSnapshot {
    return this.#snapshot
  }

  /** Stores what a new watcher has read, unless what is known may be newer: a suspension has no event of its own. */
  seed(snapshot: ExecutionSnapshot): void {
    if (this.#snapshot === UNKNOWN || snapshot.events > this.#snapshot.events) this.update(snapshot)
  }

  /** Resolves at the next change. */
  nextChange(): Promise<void> {
    return new Promise((done) => this.#waiting.push(done))
  }

  /** Calls once the execution has ended. @returns removes the callback */
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

  /** The events after one, read once for all watchers. */
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
  update(snapshot: ExecutionSnapshot): void {
    this.#snapshot = snapshot
    this.#page = undefined
    if (snapshot.ended && !snapshot.gone) this.notifyEnd()
    this.wake()
  }

  wake(): void {
    for (const done of this.#waiting.splice(0)) done()
  }
}

/** The channel of ids of executions, and nothing of their content. A missed message is found by the next poll. */
export const EXECUTIONS_CHANNEL = 'tenon:executions'

export class ExecutionWatcher {
  readonly #system: SystemScope
  readonly #onError: (error: unknown) => void
  readonly #notifier: Notifier
  readonly #watched = new Map<string, ExecutionWatch>()
  readonly #closed = new AbortController()
  /** The executions of the next query. */
  #pending = new Map<string, ExecutionWatch>()
  #querying: Promise<void> | undefined
  #polling: Promise<void> | undefined

  constructor(database: StatementExecutor, notifier: Notifier, onError: (error: unknown) => void) {
    this.#system = new SystemScope('watcher', database)
    this.#notifier = notifier
    this.#onError = onError
  }

  /** Notifies the watchers in all processes that an execution was written, perhaps its end. */
  notify(ref: WorkspaceRef, id: string, hasEnded: boolean): void {
    this.#notifier.publish(`${keyOf(ref, id)}${hasEnded ? ENDED : ''}`)
  }

  /** @returns the watch; it ends with `stop` */
  watch(ref: WorkspaceRef, id: string): { watched: ExecutionWatch; stop: () => void } {
    const key = keyOf(ref, id)
    this.#notifier.subscribe((name) => this.#onNotification(name))
    const watched = this.#watched.get(key) ?? new ExecutionWatch(ref, id)
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
    // If it fails, the next poll reports it.
    this.#query([[key, watched]]).catch(() => {})
  }

  /** One query at a time, so that no result is older than the one before; requests during a query are part of the next. */
  #query(watches: Iterable<[string, ExecutionWatch]>): Promise<void> {
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
    const backoff = new Backoff(FLOW_LIMITS.watchPollMs)
    while (this.#watched.size > 0 && !this.#closed.signal.aborted) {
      await pause(backoff.next(), undefined, { signal: this.#closed.signal }).catch(() => {})
      await this.#query(this.#watched).then(() => backoff.reset(), this.#onError)
    }
    this.#polling = undefined
  }

  async #refresh(asked: readonly (readonly [string, ExecutionWatch])[]): Promise<void> {
    for (const { key, events, suspended, ended } of await this.#system.rows<Row>(changed(asked))) {
      this.#watched.get(key)?.update({
        events: events ?? 0,
        suspended: suspended ?? false,
        ended: ended ?? true,
        gone: events === null,
      })
    }
  }
}

/** Suffix of a notification: the execution has ended. */
const ENDED = '!'

const keyOf = ({ tenantId, workspaceId }: WorkspaceRef, id: string) => `${tenantId}:${workspaceId}:${id}`

/** Reads the watched executions whose snapshot has changed. */
function changed(asked: readonly (readonly [string, ExecutionWatch])[]): Sql {
  const known = asked.map(([key, { ref, id, snapshot }]) => ({
    key,
    tenant: ref.tenantId,
    workspace: ref.workspaceId,
    id,
    ...snapshot,
  }))
  return sql`
    select w.key, e.events, e.suspended or e.paused as suspended, e.ended_at is not null as ended
    from jsonb_to_recordset(${JSON.stringify(known)}::jsonb) as w (
      key text, tenant text, workspace text, id text, events integer, suspended boolean, ended boolean, gone boolean)
    left join executions e on e.tenant_id = w.tenant and e.workspace_id = w.workspace and e.id = w.id
    where (w.events, w.suspended, w.ended, w.gone)
      is distinct from (coalesce(e.events, 0), coalesce(e.suspended or e.paused, false),
        case when e.id is null then true else e.ended_at is not null end, e.id is null)`
}
