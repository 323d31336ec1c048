/** The trace of the work in progress, which follows it through every `await`: logs, statements and outgoing requests read it. */

import { AsyncLocalStorage } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'
import { typeId } from '../core/ids.ts'
import {
  readTraceparent,
  type SpanContext,
  type Trace,
  traceIdOf,
  traceparentOf,
  traceText,
} from '../core/trace.ts'

const storage = new AsyncLocalStorage<Trace | undefined>()

/** Undefined outside a request, an activity or a trigger, such as in background tasks. */
export const currentTrace = (): Trace | undefined => storage.getStore()

/** As {@link traceText}; undefined outside a trace. */
export function currentTraceText(): string | undefined {
  const trace = currentTrace()
  return trace && traceText(trace)
}

/** Null outside a trace. */
export function currentTraceId(): string | null {
  const trace = currentTrace()
  return trace === undefined ? null : traceIdOf(trace)
}

/** Runs work, and all that it awaits, within a trace. */
export const inTrace = <T>(trace: Trace | undefined, work: () => T): T => storage.run(trace, work)

/**
 * A span below `parent`, or the first one of a new trace. Its ids are of one UUID, of which Node keeps a stock: asking the system for random
 * bytes takes longer than everything else here.
 */
export function spanBelow(parent: SpanContext | undefined): SpanContext {
  const id = randomUUID().replaceAll('-', '')
  // A trace that begins here is recorded by nobody, unless tracing is on (tracing.ts).
  return { traceId: parent?.traceId ?? id, spanId: id.slice(16), isSampled: parent?.isSampled ?? false }
}

/** An id of a request. It has no order, unlike ids of what is stored. */
export const newRequestId = (): string => typeId('req', randomUUID())

/** The trace of a request that continues that of its sender, if it names one. @param traceparent as it came */
export const traceOfRequest = (requestId: string, traceparent: unknown): Trace => ({
  requestId,
  traceparent: traceparentOf(spanBelow(readTraceparent(traceparent))),
})

/** The trace of what a trigger starts: it has a request id of its own, and continues the trace of what fired the trigger. */
export const triggeredTrace = (traceparent: unknown): Trace => traceOfRequest(newRequestId(), traceparent)

/** The trace of work of which only the ids are known. */
export const traceWithin = (requestId: string, traceId: string): Trace => ({
  requestId,
  traceparent: traceparentOf({ ...spanBelow(undefined), traceId }),
})

/** The members that name a trace in a line of a log. */
export const traceFields = (trace: Trace | undefined): Readonly<Record<string, string>> =>
  trace === undefined ? {} : { request_id: trace.requestId, trace_id: traceIdOf(trace) }
