/**
 * Spans for a collector of OpenTelemetry, on the path that the ids of requests take anyway (trace-context.ts). Without an endpoint
 * nothing is loaded, and a span is nothing but its ids.
 */

import type { Attributes, Context, Span as RecordedSpan, Tracer } from '@opentelemetry/api'
import { readTraceparent, type SpanContext, type Trace, traceparentOf } from '../core/trace.ts'
import { MINUTE_MS } from '../core/units.ts'
import type { Log } from './log.ts'
import { currentTrace, inTrace, spanBelow } from './trace-context.ts'

type Otel = typeof import('@opentelemetry/api')

/** One for each process, as the trace of the work in progress is. */
let recording:
  | { readonly otel: Otel; readonly tracer: Tracer; readonly close: () => Promise<void> }
  | undefined

/** The subject of a span. */
export interface SpanDescription {
  readonly name: string
  /** `server` and `client` of HTTP; `consumer` of a task queue. */
  readonly kind: 'server' | 'client' | 'consumer'
  readonly attributes?: Attributes
}

/** A span in progress. */
export interface Span {
  /** The trace, below this span. */
  readonly trace: Trace
  /** @param error the code of a failure that is the platform's */
  end(attributes: Attributes, error?: string): void
}

/**
 * Sends the spans of this process to a collector, by OTLP over HTTP. Lost spans are logged once a minute.
 * @param endpoint undefined: there are no spans
 */
export async function startTracing(endpoint: string | undefined, service: string, log: Log): Promise<void> {
  if (endpoint === undefined) return
  const [otel, sdk, exporters, resources] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('@opentelemetry/resources'),
  ])
  otel.diag.setLogger({ ...SILENT, error: atMostOncePerMinute(log) }, otel.DiagLogLevel.ERROR)
  const exporter = new exporters.OTLPTraceExporter({ url: `${endpoint.replace(/\/$/, '')}/v1/traces` })
  const provider = new sdk.TracerProvider({
    resource: resources.resourceFromAttributes({ 'service.name': service }),
    // The sender that began a trace decides whether it is recorded; those that begin here are.
    sampler: new sdk.ParentBasedSampler({ root: new sdk.AlwaysOnSampler() }),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter })],
  })
  recording = { otel, tracer: provider.getTracer('tenon'), close: () => provider.shutdown() }
}

/** Sends what is left. */
export async function stopTracing(): Promise<void> {
  await recording?.close().catch(() => {})
  recording = undefined
}

const IGNORE = () => {}
const SILENT = { debug: IGNORE, error: IGNORE, info: IGNORE, verbose: IGNORE, warn: IGNORE }

function atMostOncePerMinute(log: Log): (message: string) => void {
  let loggedMs = Number.NEGATIVE_INFINITY
  return (message) => {
    const nowMs = performance.now()
    if (nowMs - loggedMs < MINUTE_MS) return
    loggedMs = nowMs
    log.warn({ cause: message.slice(0, 500) }, 'spans were lost')
  }
}

/** Begins the span of a request. @param parent the span of its sender, if it names one */
export function startSpan(
  requestId: string,
  parent: SpanContext | undefined,
  { name, kind, attributes = {} }: SpanDescription,
): Span {
  if (recording === undefined)
    return { trace: { requestId, traceparent: traceparentOf(spanBelow(parent)) }, end: IGNORE }
  const { otel, tracer } = recording
  const options = {
    kind: otel.SpanKind[KINDS[kind]],
    attributes: { ...attributes, 'tenon.request_id': requestId },
  }
  const span = tracer.startSpan(name, options, contextOf(otel, parent))
  return { trace: { requestId, traceparent: traceparentOfSpan(span) }, end: ending(otel, span) }
}

const KINDS = { server: 'SERVER', client: 'CLIENT', consumer: 'CONSUMER' } as const

function contextOf(otel: Otel, parent: SpanContext | undefined): Context {
  if (parent === undefined) return otel.ROOT_CONTEXT
  const { traceId, spanId, isSampled } = parent
  const traceFlags = isSampled ? otel.TraceFlags.SAMPLED : otel.TraceFlags.NONE
  return otel.trace.setSpanContext(otel.ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true })
}

function traceparentOfSpan(span: RecordedSpan): string {
  const { traceId, spanId, traceFlags } = span.spanContext()
  return traceparentOf({ traceId, spanId, isSampled: (traceFlags & 1) === 1 })
}

const ending =
  ({ SpanStatusCode }: Otel, span: RecordedSpan): Span['end'] =>
  (attributes, error) => {
    span.setAttributes(attributes)
    if (error !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: error })
    span.end()
  }

/**
 * Runs work within a span below the current one; without tracing or outside a trace, within the current one.
 * @param attributesOf the result
 */
export async function inSpan<T>(
  description: SpanDescription,
  work: () => Promise<T>,
  attributesOf: (result: T) => Attributes = () => ({}),
): Promise<T> {
  const trace = currentTrace()
  if (recording === undefined || trace === undefined) return work()
  const span = startSpan(trace.requestId, readTraceparent(trace.traceparent), description)
  try {
    const result = await inTrace(span.trace, work)
    span.end(attributesOf(result))
    return result
  } catch (error) {
    const { code, type, name } = Object(error) as { code?: string; type?: string; name?: string }
    span.end({}, String(code ?? type ?? name))
    throw error
  }
}

/** The `traceparent` of a request that the work in progress sends: of its own span, or of one that nobody records. */
export function outgoingTraceparent(): string | undefined {
  const trace = currentTrace()
  if (trace === undefined || recording !== undefined) return trace?.traceparent
  return traceparentOf(spanBelow(readTraceparent(trace.traceparent)))
}
