/** Streams the events of an execution, past and live, as CloudEvents until it ends. */

import Type from 'typebox'
import { lifecycleType } from '../../../../flows-dsl/lifecycle-events.ts'
import { Input, Ref } from '../../../access/operation-builders.ts'
import { reasonToSee, revealing } from '../../../access/payload-access.ts'
import { FLOW_ERROR, withoutPayloads } from '../../../access/payload-schemas.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { type Feed, type FeedSink, frame, lastNumber } from '../../../core/bytes.ts'
import { component } from '../../../core/components/component.ts'
import { EXAMPLE_ID } from '../../../core/components/examples.ts'
import type { ExecutionEventUpdate } from '../../../core/execution.ts'
import { VIEWERS } from '../../../core/policy.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { CloudEvent, cloudEvent, sourceOf } from '../../events/events.ts'
import { findRow, previewOperation } from '../../operation-helpers.ts'
import { watchRun } from '../../runs/watcher.ts'
import { FLOWS, Ws } from '../definitions.ts'
import { FLOW_LIMITS } from '../limits.ts'
import { EXECUTION } from './concurrency.ts'

/** The events of a stream of an execution. */
const EXECUTION_EVENTS = {
  ready: component(
    'ExecutionStreamReady',
    Type.Object(
      {
        execution: Type.String(),
        status: Type.String({ description: 'Status of the execution at the start of the stream.' }),
        cursor: Type.Integer({ description: 'Number of the event that the stream follows.' }),
      },
      { description: 'First event of a stream of an execution.' },
    ),
    { execution: EXAMPLE_ID.execution, status: 'running', cursor: 0 },
  ),
  message: CloudEvent,
  gap: component(
    'ExecutionStreamGap',
    Type.Object(
      { after: Type.Integer({ description: 'Number of the last event before the gap.' }) },
      { description: 'Sign that events of the execution are missing: read the execution again.' },
    ),
    { after: 3 },
  ),
}

export const watchExecution = previewOperation({
  name: 'execution.watch',
  payloads: 'left out',
  roles: VIEWERS,
  summary: 'Stream the past and future events of an execution as server-sent events (CloudEvents 1.0)',
  input: Input({
    ws: Ws,
    id: Ref('execution'),
    last_event_id: Type.Optional(Type.String()),
  }),
  output: Type.Unknown({ description: 'Server-sent events.' }),
  http: {
    method: 'GET',
    path: `${FLOWS}/executions/{id}/events`,
    headers: { last_event_id: 'last-event-id' },
    reply: 'feed',
    events: EXECUTION_EVENTS,
  },
  run: (scope, { id, last_event_id: after }) => watch(scope, id, lastNumber(after)),
})

interface Found {
  readonly status: string
  readonly started_by: string
  readonly rerun_of: string | null
  readonly version: number
  readonly suspended: boolean
  readonly ended: boolean
}

/** @throws Problem `not_found` */
async function watch(scope: WorkspaceScope, id: string, after: number): Promise<Feed> {
  const { status, started_by, rerun_of, ...seen } = await findRow<Found>(
    scope,
    'execution',
    sql`
    select status, started_by, rerun_of, events as version, suspended or paused as suspended, ended_at is not null as ended from executions where id = ${id}`,
  )
  const reason = reasonToSee(scope.actor, { started_by, rerun_of })
  const feed: Feed = {
    open: (sink) => {
      const { watched, stop } = watchRun(scope, EXECUTION, id)
      watched.seed({ ...seen, gone: false })
      const stream = new EventStream(scope, watched, {
        ...{ sink, after: Math.min(after, seen.version), seesPayloads: reason !== undefined },
      })
      const now = watched.snapshot.suspended && !seen.ended ? 'suspended' : status
      // A number above the newest event cannot come from a stream of this execution.
      const isForeign = after > seen.version
      const start = isForeign ? seen.version : after
      const data = { execution: id, status: now, cursor: start }
      const ready = frame<typeof EXECUTION_EVENTS>({ event: 'ready', id: String(start), data })
      sink.send(`retry: 3000\n${isForeign ? gap(start) : ''}${ready}`)
      void stream.send().catch((error: unknown) => {
        scope.logError(error, 'execution stream failed')
        sink.end('unavailable')
      })
      return () => {
        stream.isOver = true
        stop()
      }
    },
  }
  return reason === 'right' ? revealing(feed, scope.ref) : feed
}

const gap = (after: number) => frame<typeof EXECUTION_EVENTS>({ event: 'gap', data: { after } })

interface Reader {
  readonly sink: FeedSink
  /** The number of the last event that it has. */
  readonly after: number
  readonly seesPayloads: boolean
}

/** The event stream of one client. */
class EventStream {
  isOver = false
  readonly #scope: WorkspaceScope
  readonly #watched: Watched
  readonly #sink: FeedSink
  readonly #frame: 'frame' | 'bareFrame'
  #last: number
  #sentSuspended: boolean

  constructor(scope: WorkspaceScope, watched: Watched, { sink, after, seesPayloads }: Reader) {
    this.#scope = scope
    this.#watched = watched
    this.#sink = sink
    this.#frame = seesPayloads ? 'frame' : 'bareFrame'
    this.#last = after
    this.#sentSuspended = watched.snapshot.suspended
  }

  /** Sends past and new events, a page at a time and no faster than the client reads. Ends with the execution. */
  async send(): Promise<void> {
    while (!this.isOver) {
      // Subscribes before it reads, so that no change is missed.
      const change = this.#watched.nextChange()
      await this.#catchUp()
      if (this.isOver) return
      const { ended, gone, version, suspended } = this.#watched.snapshot
      if (gone || (ended && this.#last >= version)) return this.#sink.end('ended')
      if (suspended !== this.#sentSuspended) this.#sendSuspension(suspended)
      await change
    }
  }

  async #catchUp(): Promise<void> {
    while (this.#last < this.#watched.snapshot.version && !this.isOver) {
      const after = this.#last
      const entries = await this.#watched.page(after, () => readEvents(this.#scope, this.#watched.id, after))
      const first = entries[0]?.seq ?? this.#watched.snapshot.version + 1
      if (first > after + 1) {
        this.#sink.send(gap(after))
        this.#last = first - 1
      }
      for (const entry of entries) {
        if (this.isOver) return
        this.#sink.send(entry[this.#frame])
        this.#last = entry.seq
        await this.#sink.drained()
      }
    }
  }

  /** Sends an event without a number, since the workflow does not record suspensions. `ready` contains the initial state. */
  #sendSuspension(suspended: boolean): void {
    this.#sentSuspended = suspended
    const what = suspended ? 'suspended' : 'resumed'
    const at = new Date().toISOString()
    const data = eventOf(this.#watched, { seq: `${this.#last}.${what}`, at, what })
    this.#sink.send(frame<typeof EXECUTION_EVENTS>({ event: 'message', data }))
  }
}

type Watched = ReturnType<typeof watchRun>['watched']

interface ExecutionEvent {
  /** The number of the event; for events without one, a string that is unique within the execution. */
  readonly seq: number | string
  readonly at: string
  readonly what: ExecutionEventUpdate['what']
  readonly detail?: object | null
  /** The constant fields of the step, for an event of a step. */
  readonly step?: object | null
}

/** A serialised event, shared by all watchers. */
interface Entry {
  readonly seq: number
  readonly frame: string
  /** Without payloads. */
  readonly bareFrame: string
}

/**
 * The next events after one, oldest first. Looks up the step of each event by a subquery: a join may be planned while the
 * tables are small, and would then scan all steps for each event.
 */
async function readEvents(scope: WorkspaceScope, id: string, after: number): Promise<Entry[]> {
  const rows = await scope.rows<ExecutionEvent & { seq: number }>(sql`
    select e.seq, e.at, e.what, e.detail, (
      select jsonb_build_object('task', s.pointer, 'iteration', s.iteration, 'seq', s.seq, 'name', s.name,
        'kind', s.kind, 'summary', s.summary)
      from execution_steps s where s.execution_id = e.execution_id and s.seq = e.step) as step
    from execution_events e
    where e.execution_id = ${id} and e.seq > ${after} order by e.seq limit ${FLOW_LIMITS.eventsReadMax}`)
  const of = { ref: scope.ref, id }
  return rows.map((row) => {
    const event = eventOf(of, row)
    const bare = { ...event, data: withoutPayloads(EVENT_DATA, event.data, () => false) }
    const frameOf = (data: CloudEvent) =>
      frame<typeof EXECUTION_EVENTS>({ event: 'message', id: String(row.seq), data })
    return { seq: row.seq, frame: frameOf(event), bareFrame: frameOf(bare) }
  })
}

/** What of the data of an event is a payload. */
const EVENT_DATA = Type.Object({ error: Type.Unknown(FLOW_ERROR) })

/** Events with a verb of their own in OWS; all others are a change of status. */
const VERBS = {
  run: new Set<string>(['started', 'suspended', 'resumed', 'completed', 'faulted', 'cancelled']),
  step: new Set<string>(['started', 'retried', 'completed', 'faulted', 'cancelled']),
}
/** Events after which the status is `running`. */
const RUNNING = new Set<string>(['started', 'retried', 'resumed'])

function eventOf(of: { ref: WorkspaceRef; id: string }, event: ExecutionEvent): CloudEvent {
  const { seq, at, what, detail, step } = event
  const subject = step ? 'step' : 'run'
  const verb = step && what === 'held' ? 'suspended' : VERBS[subject].has(what) ? what : 'status-changed'
  return cloudEvent({
    id: String(seq),
    source: `${sourceOf(of.ref.workspaceId)}/executions/${of.id}`,
    topic: lifecycleType(step ? 'task' : 'workflow', verb),
    time: at,
    data: { execution: of.id, status: RUNNING.has(what) ? 'running' : what, ...step, ...detail },
  })
}
