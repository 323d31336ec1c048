/** The one error that a call of the client throws. */

import type { ProblemCode } from './generated/problem-codes.ts'

/** A fault in one part of a request. */
export interface InputFault {
  readonly in: 'body' | 'query' | 'path' | 'header'
  readonly name: string
  /** JSON Pointer (RFC 6901) into the body. */
  readonly pointer: string
  readonly detail: string
  readonly [member: string]: unknown
}

/** Codes of errors that the client finds itself: no answer, a deadline, an answer that is not Tenon's, or no user who is signed in. */
export type ClientCode =
  | 'network_error'
  | 'deadline_exceeded'
  | 'invalid_response'
  | 'stream_silent'
  | 'sign_in_failed'
  | 'signed_out'

interface Facts {
  readonly code: string
  readonly status: number
  readonly title?: string | undefined
  readonly detail?: string | undefined
  readonly hint?: string | undefined
  readonly errors?: readonly InputFault[]
  readonly requestId?: string | undefined
  readonly retryAfter?: number | undefined
  readonly problem?: Readonly<Record<string, unknown>>
  readonly cause?: unknown
}

/**
 * A request that failed.
 * @example
 * try {
 *   await tenon.from('bookings').create({ court_id, starts_at })
 * } catch (error) {
 *   if (error instanceof TenonError && error.code === 'conflict') showTaken(error.detail)
 *   else throw error
 * }
 */
export class TenonError extends Error {
  /** Tells what went wrong; its meaning never changes (`/docs/problems/<code>` explains it). Servers newer than the client may have more. */
  readonly code: ProblemCode | ClientCode | (string & {})
  /** The HTTP status; 0 if no server has answered. */
  readonly status: number
  readonly detail: string | undefined
  /** The next step of the caller. */
  readonly hint: string | undefined
  /** The parts of the request that are wrong, if it is known. */
  readonly errors: readonly InputFault[]
  /** Finds the request in the logs of the installation: `tenon trace <id>`. */
  readonly requestId: string | undefined
  /** Seconds after which the request may be sent again, if the server has said it. */
  readonly retryAfter: number | undefined
  /** The whole problem document (RFC 9457), with the members that only some codes have. */
  readonly problem: Readonly<Record<string, unknown>>

  constructor(facts: Facts) {
    const { code, detail, title, hint, cause } = facts
    const text = [`${code}: ${detail ?? title ?? 'The request failed.'}`, hint].filter(Boolean).join('\n')
    super(text, cause === undefined ? undefined : { cause })
    this.name = 'TenonError'
    this.code = code
    this.status = facts.status
    this.detail = detail
    this.hint = hint
    this.errors = facts.errors ?? []
    this.requestId = facts.requestId
    this.retryAfter = facts.retryAfter
    this.problem = facts.problem ?? {}
  }
}

const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

/** Reads the problem document of a refused request, or of the frame `end` of a stream. */
export function toError(
  problem: Readonly<Record<string, unknown>>,
  { status, retryAfter }: { readonly status: number; readonly retryAfter?: number | undefined },
): TenonError {
  return new TenonError({
    code: text(problem['code']) ?? 'invalid_response',
    status,
    title: text(problem['title']),
    detail:
      text(problem['detail']) ??
      (problem['code'] === undefined
        ? `The server answered ${status}, without a problem document.`
        : undefined),
    hint: text(problem['hint']),
    errors: Array.isArray(problem['errors']) ? problem['errors'] : [],
    requestId: text(problem['request_id']),
    retryAfter,
    problem,
  })
}
