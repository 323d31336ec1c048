/** The lines that a run printed: by pages, and as a stream that follows the run to its end. */

import Type, { type Static } from 'typebox'
import { Time } from '../../../access/operation-builders.ts'
import { payloadsOfRecord } from '../../../access/payload-access.ts'
import type { Scope, WorkspaceScope } from '../../../access/scope.ts'
import { type Feed, type FeedSink, frame, lastNumber } from '../../../core/bytes.ts'
import { component } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { PageInput, type PageRequest, pageBounds, pageFrom } from '../../../core/page.ts'
import { Problem } from '../../../core/problem.ts'
import type { FunctionTrigger } from '../../../core/work.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { findRow } from '../../operation-helpers.ts'
import { RequestId, TRACE_IDS, TraceId } from '../../runs/trace-ids.ts'
import { type RunWatch, watchRun } from '../../runs/watcher.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import { FUNCTION_RUN } from './record-run.ts'

export const RunLine = component(
  'FunctionLogLine',
  Type.Object({
    seq: Type.Integer({ description: 'Number of the line, ascending, with gaps between attempts.' }),
    at: Time,
    level: Type.Union(['debug', 'info', 'warn', 'error'].map((level) => Type.Literal(level))),
    text: Type.String(),
    request_id: RequestId,
    trace_id: TraceId,
  }),
  {
    seq: 4,
    at: EXAMPLE_TIME.created,
    level: 'info',
    text: 'price of 2 hours',
    request_id: EXAMPLE_ID.request,
    trace_id: EXAMPLE_ID.trace,
  },
)
type RunLine = Static<typeof RunLine>

export const LOG_FILTERS = PageInput
/** Headers of a stream of lines. */
export const LOG_STREAM = {
  last_event_id: Type.Optional(Type.String()),
}
const LOG_EVENTS = {
  ready: component(
    'LogStreamReady',
    Type.Object(
      {
        run: Type.String(),
        status: Type.String({ description: 'Status of the run at the start of the stream.' }),
        cursor: Type.Integer({ description: 'Number of the line that the stream follows.' }),
      },
      { description: 'First event of a stream of log lines.' },
    ),
    { run: EXAMPLE_ID.run, status: 'running', cursor: 0 },
  ),
  message: RunLine,
}
export const LOG_STREAM_HTTP = {
  method: 'GET',
  headers: { last_event_id: 'last-event-id' },
  reply: 'feed',
  events: LOG_EVENTS,
} as const
export const LogFrames = Type.Unknown({ description: 'Server-sent events; lines have their `seq` as `id`.' })

/** A run whose lines are read. */
interface LinesOf {
  readonly caller: Scope
  /** Of the workspace of the run, with the right to read records of runs. */
  readonly scope: WorkspaceScope
  readonly runId: string
  /** The function that it must be a run of. */
  readonly functionId?: string
}

/** @throws Problem `not_found`, `cursor_invalid`, `payloads_hidden` */
export async function linePage({ caller, scope, runId, functionId }: LinesOf, page: PageRequest) {
  const { after, limit } = pageBounds(page)
  if (!/^[0-9]{0,9}$/.test(after)) throw new Problem('cursor_invalid')
  const run = await findRun(scope, runId, functionId)
  return payloadsOfRecord(caller, run, scope.ref, async () =>
    pageFrom(page, await readLines(scope, runId, Number(after), limit), ({ seq }) => seq),
  )
}

/**
 * Streams the lines, past and future, until the run ends.
 * @param lastEventId the `seq` after which the stream begins @throws Problem `not_found`, `payloads_hidden`
 */
export async function followLines(
  { caller, scope, runId, functionId }: LinesOf,
  lastEventId: string | undefined,
): Promise<Feed> {
  const run = await findRun(scope, runId, functionId)
  return payloadsOfRecord(caller, run, scope.ref, async () =>
    lineFeed(scope, runId, run.status, lastNumber(lastEventId)),
  )
}

function lineFeed(scope: WorkspaceScope, runId: string, status: string, after: number): Feed {
  return {
    open: (sink) => {
      const { watched, stop } = watchRun(scope, FUNCTION_RUN, runId)
      const reader = { isOver: false }
      sink.send(
        `retry: 3000\n${frame<typeof LOG_EVENTS>({ event: 'ready', id: String(after), data: { run: runId, status, cursor: after } })}`,
      )
      void sendLines(scope, { after, watched, reader }, sink).catch((error: unknown) => {
        scope.logError(error, 'stream of function logs failed')
        sink.end('unavailable')
      })
      return () => {
        reader.isOver = true
        stop()
      }
    },
  }
}

interface LineReader {
  readonly watched: RunWatch
  /** The number of the last line that the client has. */
  readonly after: number
  /** The client has gone. */
  readonly reader: { isOver: boolean }
}

/** Sends pages of lines no faster than the client reads. A run that was deleted has ended. */
async function sendLines(
  scope: WorkspaceScope,
  { watched, reader, ...from }: LineReader,
  sink: FeedSink,
): Promise<void> {
  let { after } = from
  const atOnce = FUNCTION_LIMITS.logLinesReadMax
  while (!reader.isOver) {
    const change = watched.nextChange()
    // The state is read before the lines: those of an ended run are complete.
    const run = await scope.row<{ ended_at: string | null }>(
      sql`select ended_at from function_runs where id = ${watched.id}`,
    )
    const lines = await readLines(scope, watched.id, after, atOnce)
    for (const line of lines) {
      if (reader.isOver) return
      sink.send(frame<typeof LOG_EVENTS>({ event: 'message', id: String(line.seq), data: line }))
      after = line.seq
      await sink.drained()
    }
    if (lines.length === atOnce) continue
    if (run === undefined || run.ended_at !== null) return sink.end('ended')
    await change
  }
}

const findRun = (scope: WorkspaceScope, runId: string, functionId: string | undefined) =>
  findRow<{ status: string; started_by: string; trigger: FunctionTrigger }>(
    scope,
    'run',
    sql`select status, started_by, trigger from function_runs
      where id = ${runId} and (${functionId ?? null}::text is null or function_id = ${functionId ?? null})`,
  )

const readLines = (scope: WorkspaceScope, runId: string, after: number, limit: number) =>
  scope.rows<RunLine>(sql`select seq, at, level, text, ${TRACE_IDS}
    from function_run_logs join function_runs on id = run_id
    where run_id = ${runId} and seq > ${after} order by seq limit ${limit}`)
