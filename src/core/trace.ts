/** The ids by which work is followed through processes and servers: that of its request, and its place in a trace (W3C Trace Context). */

import { typeId } from './ids.ts'

/** Of a piece of work: the request that it goes back to, and the span that caused it. */
export interface Trace {
  readonly requestId: string
  /** `00-<trace id>-<span id>-<flags>`, all in lower-case hexadecimal. */
  readonly traceparent: string
}

export const TRACEPARENT = 'traceparent'

const NO_TRACE = '0'.repeat(32)
const NO_SPAN = '0'.repeat(16)
const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const SAMPLED = 1

/** The parts of a `traceparent`. */
export interface SpanContext {
  readonly traceId: string
  readonly spanId: string
  /** The caller may have recorded its span. */
  readonly isSampled: boolean
}

/**
 * Reads a `traceparent` (W3C Trace Context, Level 1, §3.2). One of a later version is read as far as this version goes (§3.2.4).
 * @param header undefined, or several values joined with a comma, if the request has none or several
 * @returns undefined if it is not valid: the trace then begins here (§4.2)
 */
export function readTraceparent(header: unknown): SpanContext | undefined {
  if (typeof header !== 'string') return undefined
  const [, version, traceId, spanId, flags, rest] = FORM.exec(header) ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined
  if (version === 'ff' || (version === '00' && rest !== undefined)) return undefined
  if (traceId === NO_TRACE || spanId === NO_SPAN) return undefined
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & SAMPLED) === SAMPLED }
}

/** Flags that this version does not define are not passed on (§3.2.2.5). */
export const traceparentOf = ({ traceId, spanId, isSampled }: SpanContext): string =>
  `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`

/** The trace id of a `traceparent` that is valid. */
export const traceIdOf = ({ traceparent }: Pick<Trace, 'traceparent'>): string => traceparent.slice(3, 35)

/** As one text, for columns, settings of the database and metadata of payloads. Ids of requests have no blank. */
export const traceText = ({ requestId, traceparent }: Trace): string => `${requestId} ${traceparent}`

/** The inverse of {@link traceText}; undefined for any other text. */
export function readTrace(text: string | null | undefined): Trace | undefined {
  const [requestId, traceparent] = text?.split(' ', 2) ?? []
  return requestId && readTraceparent(traceparent) && traceparent !== undefined
    ? { requestId, traceparent }
    : undefined
}

/**
 * The trace of work that no request has caused, such as the start by a schedule; the same one whenever it is derived from the same
 * UUID, whose last 62 bits are random.
 */
export function traceFrom(uuid: string): Trace {
  const traceId = uuid.replaceAll('-', '')
  return {
    requestId: typeId('req', uuid),
    traceparent: traceparentOf({ traceId, spanId: traceId.slice(16), isSampled: false }),
  }
}
