/** Converts thrown values to problem replies (RFC 9457). An unknown error becomes a 500 with the request id. */

import { Problem } from '../core/problem.ts'
import type { ProblemCode } from '../core/problem-catalogue.ts'

interface ProblemReply {
  readonly status: number
  readonly headers: Record<string, string>
  readonly body: Record<string, unknown>
}

export const PROBLEM_TYPE = 'application/problem+json'

/** Fastify's own errors, by their code. */
const FRAMEWORK: Readonly<Record<string, ProblemCode>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'media_type_unsupported',
  FST_ERR_CTP_EMPTY_TYPE: 'media_type_unsupported',
  FST_ERR_CTP_BODY_TOO_LARGE: 'body_too_large',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'request_malformed',
  FST_ERR_CTP_INVALID_JSON_BODY: 'body_invalid',
  FST_ERR_BAD_URL: 'route_not_found',
  FST_ERR_MAX_PARAM_LENGTH: 'route_not_found',
  FST_ERR_ROUTE_MISSING_CONTENT_TYPE: 'media_type_unsupported',
}

/**
 * Converts a thrown value to a Problem, with the value as its cause for the log.
 * @param bodyBytesMax the limit of the route
 */
export function toProblem(error: unknown, bodyBytesMax: number): Problem {
  if (error instanceof Problem) return error
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const known = FRAMEWORK[code]
  if (known !== undefined) return new Problem(known, { detail: detailOf(known, bodyBytesMax), cause: error })
  return new Problem('internal', { cause: error })
}

const UNREADABLE = 'The request could not be read.'

function detailOf(code: ProblemCode, bodyBytesMax: number): string {
  if (code === 'media_type_unsupported')
    return 'Send application/json, or one of the types that /docs lists here.'
  if (code === 'body_too_large') return `The body of this request has at most ${bodyBytesMax} bytes.`
  return UNREADABLE
}

interface ProblemRequest {
  readonly id: string
  readonly path: string
  /** True if the caller is known, and more than an anon key or a user, that is, than an application that anybody may open. */
  readonly showsAdminHint?: boolean
}

/** The reply of a problem. `type` is a page of this API that explains the code. */
export function toReply(problem: Problem, request: ProblemRequest): ProblemReply {
  const { row, code, detail, errors } = problem
  const retry: Record<string, string> =
    row.retryAfterS === undefined ? {} : { 'retry-after': String(row.retryAfterS) }
  return {
    status: row.status,
    headers: {
      ...(row.status === 401 && CHALLENGE),
      ...retry,
      ...problem.headers,
      'content-type': PROBLEM_TYPE,
    },
    body: {
      type: row.type ?? `/docs/problems/${code}`,
      title: row.title,
      status: row.status,
      ...(detail !== undefined && { detail }),
      instance: request.path,
      code,
      request_id: request.id,
      hint: request.showsAdminHint === true ? problem.fullHint : problem.publicHint,
      ...(errors.length > 0 && { errors }),
      ...problem.members,
    },
  }
}

/** A 401 names the accepted schemes (RFC 9110 §11.6.1). */
const CHALLENGE = { 'www-authenticate': 'Bearer realm="tenon", ApiKey realm="tenon"' }
