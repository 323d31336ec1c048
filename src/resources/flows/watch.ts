/** The live stream of an execution: what has happened in it, then what happens, until it has ended. */

import Type from 'typebox'
import { type Feed, type FeedSink, frame } from '../../core/bytes.ts'
import { ADMINS } from '../../core/policy.ts'
import { notFound } from '../../core/problem.ts'
import { watchRecord } from '../../platform/capabilities.ts'
import { sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { Input, inWorkspace, Ref } from '../kinds.ts'
import { FLOWS, Ws } from './definitions.ts'
import { eventOf, readEvents } from './happenings.ts'

export const watchExecution = inWorkspace({
  name: 'execution.watch',
  summary: 'Watch an execution as server-sent events (CloudEvents 1.0): what has happened, then what happens',
  roles: ADMINS,
  stability: 'preview',
  input: Input({
    ws: Ws,
    id: Ref('execution'),
    last_event_id: Type.Optional(Type.String({ pattern: '^[0-9]{1,9}$' })),
  }),
  output: Type.Unknown({ description: 'Frames: `ready`, events with `id`, `gap`, `end`.' }),
  http: {
    method: 'GET',
    path: `${FLOWS}/executions/{id}/events`,
    headers: { last_event_id: 'last-event-id' },
    reply: 'feed',
  },
  run: (scope, { id, last_event_id: after = '0' }) => watch(scope, id, Number(after)),
})

interface Found {
  readonly status: string
  readonly events: number
  readonly suspended: boolean
  readonly ended: boolean
}

/** @throws Problem `not_found` where the workspace has no such execution */
async function watch(scope: WorkspaceScope, id: string, after: number): Promise<Feed> {
  const found = await scope.row<Found>(sql`
    select status, events, held or paused as suspended, ended_at is not null as ended from executions where id = ${id}`)
  if (found === undefined) throw notFound('execution')
  const { status, ...seen } = found
  return {
    open: (sink) => {
      const { watched, stop } = watchRecord(scope, id)
      if (seen.events >= watched.sight.events) watched.see({ ...seen, gone: false })
      const viewing = new Viewing(scope, watched, sink, Math.min(after, seen.events))
      const now = seen.suspended && !seen.ended ? 'suspended' : status
      sink.send(
        `retry: 3000\n${frame({ event: 'ready', data: { execution: id, status: now, cursor: after } })}`,
      )
      // A number that no event has yet is of no stream of this execution.
      if (after > seen.events) sink.send(gap(seen.events))
      void viewing.send().catch((error: unknown) => {
        scope.report(error, 'an execution that is watched')
        sink.end('unavailable')
      })
      return () => {
        viewing.isOver = true
        stop()
      }
    },
  }
}

const gap = (after: number) => frame({ event: 'gap', data: { after } })

/** One who watches, and how far the stream has got. */
class Viewing {
  isOver = false
  readonly #scope: WorkspaceScope
  readonly #watched: Watched
  readonly #sink: FeedSink
  #last: number
  #toldSuspended: boolean

  constructor(scope: WorkspaceScope, watched: Watched, sink: FeedSink, after: number) {
    this.#scope = scope
    this.#watched = watched
    this.#sink = sink
    this.#last = after
    this.#toldSuspended = watched.sight.suspended
  }

  /** What is past and what comes, a page at a time and no faster than it is taken. Ends with the execution. */
  async send(): Promise<void> {
    while (!this.isOver) {
      // Asked for before anything is read: news that comes meanwhile is not missed.
      const news = this.#watched.news()
      await this.#catchUp()
      if (this.isOver) return
      const { ended, gone, events, suspended } = this.#watched.sight
      if (gone || (ended && this.#last >= events)) return this.#sink.end('ended')
      if (suspended !== this.#toldSuspended) this.#tell(suspended)
      await news
    }
  }

  async #catchUp(): Promise<void> {
    while (this.#last < this.#watched.sight.events && !this.isOver) {
      const after = this.#last
      const entries = await this.#watched.page(after, () => readEvents(this.#scope, this.#watched.id, after))
      const first = entries[0]?.seq ?? this.#watched.sight.events + 1
      if (first > after + 1) {
        this.#sink.send(gap(after))
        this.#last = first - 1
      }
      for (const entry of entries) {
        if (this.isOver) return
        this.#sink.send(entry.frame)
        this.#last = entry.seq
        await this.#sink.taken()
      }
    }
  }

  /** The run itself knows nothing of it, so this has no number: it is told when it changes, and `ready` says how it is. */
  #tell(suspended: boolean): void {
    this.#toldSuspended = suspended
    const what = suspended ? 'suspended' : 'resumed'
    const at = new Date().toISOString()
    const data = eventOf(this.#watched, { seq: `${this.#last}.${what}`, at, what })
    this.#sink.send(frame({ data }))
  }
}

type Watched = ReturnType<typeof watchRecord>['watched']
