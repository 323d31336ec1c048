/** Knows of executions that somebody watches whether there is news: one question for all of them, when it is told or by and by. */

import { setTimeout as pause } from 'node:timers/promises'
import { LIMITS } from '../../core/limits.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import type { StatementExecutor } from '../pg/database.ts'
import { type Sql, sql } from '../pg/sql.ts'
import { Backoff } from '../retry.ts'
import { SystemScope } from '../system.ts'
import type { News } from './news.ts'

/** How an execution stands, for those who watch it. */
export interface Sight {
  /** The number of its newest event. */
  readonly events: number
  /** Its workspace is suspended, or somebody has paused it. */
  readonly suspended: boolean
  readonly ended: boolean
  /** It was deleted. */
  readonly gone: boolean
}

/** Before anybody has looked. */
const UNSEEN: Sight = { events: 0, suspended: false, ended: false, gone: false }

interface Row {
  readonly key: string
  readonly events: number | null
  readonly suspended: boolean | null
  readonly ended: boolean | null
}

/** An execution that is watched, shared by all who watch it in this process. */
export class Watched {
  readonly ref: WorkspaceRef
  readonly id: string
  watchers = 0
  #sight = UNSEEN
  #page: { readonly after: number; readonly loaded: Promise<unknown> } | undefined
  #waiting: (() => void)[] = []
  /** Those who wait for its end alone, and look at it themselves. */
  #ends = new Set<() => void>()

  constructor(ref: WorkspaceRef, id: string) {
    this.ref = ref
    this.id = id
  }

  get sight(): Sight {
    return this.#sight
  }

  /** Resolves at the next news. */
  news(): Promise<void> {
    return new Promise((done) => this.#waiting.push(done))
  }

  /** Calls once it has ended, for who watches it for nothing else. @returns how to want that no more */
  onEnd(done: () => void): () => void {
    this.#ends.add(done)
    return () => this.#ends.delete(done)
  }

  /** @returns whether all who watch have waited for just that */
  tellEnd(): boolean {
    const all = this.#ends.size === this.watchers
    for (const done of this.#ends) done()
    return all
  }

  /** What comes after an event, read once for all who are there when there is news. */
  page<T>(after: number, load: () => Promise<T>): Promise<T> {
    if (this.#page?.after === after) return this.#page.loaded as Promise<T>
    const loaded = load()
    const page = { after, loaded }
    this.#page = page
    loaded.catch(() => {
      // What could not be read is asked for again.
      if (this.#page === page) this.#page = undefined
    })
    return loaded
  }

  /** How it stands now; who waits is told. */
  see(sight: Sight): void {
    this.#sight = sight
    this.#page = undefined
    if (sight.ended && !sight.gone) this.tellEnd()
    this.wake()
  }

  wake(): void {
    for (const done of this.#waiting.splice(0)) done()
  }
}

export class Lookout {
  readonly #system: SystemScope
  readonly #onError: (error: unknown) => void
  readonly #news: News
  readonly #watched = new Map<string, Watched>()
  readonly #closed = new AbortController()
  /** Those that the next question is about. */
  #asked = new Map<string, Watched>()
  #asking: Promise<void> | undefined
  #looking: Promise<void> | undefined

  constructor(database: StatementExecutor, news: News, onError: (error: unknown) => void) {
    this.#system = new SystemScope('lookout', database)
    this.#news = news
    this.#onError = onError
  }

  /** Something was written of an execution, perhaps its end: whoever watches it, in whatever process, looks. */
  tell(ref: WorkspaceRef, id: string, hasEnded: boolean): void {
    this.#news.tell(`${keyOf(ref, id)}${hasEnded ? ENDED : ''}`)
  }

  /** @returns the execution, for as long as it is not stopped */
  watch(ref: WorkspaceRef, id: string): { watched: Watched; stop: () => void } {
    const key = keyOf(ref, id)
    this.#news.listen((name) => this.#hear(name))
    const watched = this.#watched.get(key) ?? new Watched(ref, id)
    this.#watched.set(key, watched)
    watched.watchers += 1
    this.#looking ??= this.#look()
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
    this.#news.close()
    await Promise.allSettled([this.#looking, this.#asking])
  }

  #hear(news: string): void {
    const hasEnded = news.endsWith(ENDED)
    const key = hasEnded ? news.slice(0, -ENDED.length) : news
    const watched = this.#watched.get(key)
    if (watched === undefined || (hasEnded && watched.tellEnd())) return
    // Should it fail, whoever looks by and by says so.
    this.#lookAt([[key, watched]]).catch(() => {})
  }

  /** One question after the other, so that none tells what was before the last; what comes during one is part of the next. */
  #lookAt(those: Iterable<[string, Watched]>): Promise<void> {
    for (const [key, watched] of those) this.#asked.set(key, watched)
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined
    })
    return this.#asking
  }

  async #ask(): Promise<void> {
    while (this.#asked.size > 0) {
      const asked = [...this.#asked]
      this.#asked = new Map()
      await this.#see(asked)
    }
  }

  /** For as long as somebody watches. Never rejects. */
  async #look(): Promise<void> {
    const backoff = new Backoff(LIMITS.lookoutPollMs)
    while (this.#watched.size > 0 && !this.#closed.signal.aborted) {
      await this.#wait(backoff.next())
      await this.#lookAt(this.#watched).then(() => backoff.reset(), this.#onError)
    }
    this.#looking = undefined
  }

  async #see(asked: readonly (readonly [string, Watched])[]): Promise<void> {
    for (const { key, events, suspended, ended } of await this.#system.rows<Row>(changed(asked))) {
      const gone = events === null
      this.#watched.get(key)?.see({
        events: events ?? 0,
        suspended: suspended ?? false,
        ended: ended ?? true,
        gone,
      })
    }
  }

  async #wait(ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.#closed.signal }).catch(() => {})
  }
}

/** Behind a name: what was written is its end. */
const ENDED = '!'

const keyOf = ({ tenantId, workspaceId }: WorkspaceRef, id: string) => `${tenantId}:${workspaceId}:${id}`

/** Of those that are watched, the ones that do not stand as they were last seen. */
function changed(asked: readonly (readonly [string, Watched])[]): Sql {
  const known = asked.map(([key, { ref, id, sight }]) => ({
    key,
    tenant: ref.tenantId,
    workspace: ref.workspaceId,
    id,
    ...sight,
  }))
  return sql`
    select w.key, e.events, e.held or e.paused as suspended, e.ended_at is not null as ended
    from jsonb_to_recordset(${JSON.stringify(known)}::jsonb) as w (
      key text, tenant text, workspace text, id text, events integer, suspended boolean, ended boolean, gone boolean)
    left join executions e on e.tenant_id = w.tenant and e.workspace_id = w.workspace and e.id = w.id
    where (w.events, w.suspended, w.ended, w.gone)
      is distinct from (coalesce(e.events, 0), coalesce(e.held or e.paused, false),
        case when e.id is null then true else e.ended_at is not null end, e.id is null)`
}
