/** Replies of problems in the form of S3: an XML document with S3's own codes. */

import type { Problem } from '../../core/problem.ts'
import { PROBLEMS, type ProblemCode } from '../../core/problem-catalogue.ts'
import { errorDocument } from './xml.ts'

interface S3Error {
  readonly code: string
  readonly status: number
}

const denied = { code: 'AccessDenied', status: 403 }
const unknownKey = { code: 'InvalidAccessKeyId', status: 403 }
const suspended = { code: 'AccountProblem', status: 403 }
const slowDown = { code: 'SlowDown', status: 503 }
const invalid = { code: 'InvalidArgument', status: 400 }
const malformedUrl = { code: 'InvalidURI', status: 400 }
const unavailable = { code: 'ServiceUnavailable', status: 503 }

/** Problems that S3 has another code for. Those with a name of S3 keep it; clients repeat requests by code and status. */
const S3_ERRORS: Partial<Readonly<Record<ProblemCode, S3Error>>> = {
  credentials_missing: denied,
  forbidden: denied,
  insufficient_scope: denied,
  origin_refused: denied,
  api_key_invalid: unknownKey,
  api_key_expired: unknownKey,
  api_key_disabled: unknownKey,
  api_key_revoked: unknownKey,
  tenant_suspended: suspended,
  workspace_suspended: suspended,
  rate_limited: slowDown,
  overloaded: slowDown,
  // The routes of the S3 API take any path that can be decoded.
  route_not_found: malformedUrl,
  request_malformed: malformedUrl,
  quota_exceeded: { code: 'QuotaExceeded', status: 403 },
  validation_failed: invalid,
  value_invalid: invalid,
  header_invalid: { code: 'InvalidDigest', status: 400 },
  digest_mismatch: { code: 'BadDigest', status: 400 },
  body_incomplete: { code: 'IncompleteBody', status: 400 },
  body_too_large: { code: 'EntityTooLarge', status: 400 },
  EntityTooLarge: { code: 'EntityTooLarge', status: 400 },
  too_many_uploads: { code: 'InvalidRequest', status: 400 },
  upload_expired: { code: 'RequestTimeout', status: 400 },
  bucket_required: { code: 'NoSuchBucket', status: 404 },
  dependency_unavailable: unavailable,
  query_timeout: unavailable,
  internal: { code: 'InternalError', status: 500 },
}

/** Names of S3 are in capitals. */
const isOfS3 = (code: ProblemCode): boolean => /^[A-Z]/.test(code)

function errorOf({ code, status }: Problem): S3Error {
  const mapped = S3_ERRORS[code]
  if (mapped !== undefined) return mapped
  if (isOfS3(code)) return { code, status }
  if (status >= 500) return unavailable
  return { code: 'InvalidRequest', status }
}

interface S3Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** XML. */
  readonly body: string
}

/** @param request its id, and its path */
export function toS3Reply(problem: Problem, { id, path }: { id: string; path: string }): S3Reply {
  const { code, status } = errorOf(problem)
  const { retryAfterS } = PROBLEMS[problem.code] as { readonly retryAfterS?: number }
  return {
    status,
    headers: {
      'content-type': 'application/xml',
      'x-amz-request-id': id,
      ...(retryAfterS !== undefined && { 'retry-after': String(retryAfterS) }),
      ...problem.headers,
    },
    body: errorDocument([
      ['Code', code],
      ['Message', messageOf(problem)],
      ['Resource', path],
      ['RequestId', id],
    ]),
  }
}

/** The detail of a problem, and its next step. */
const messageOf = ({ row, detail, publicHint }: Problem): string =>
  [detail ?? `${row.title}.`, publicHint].filter((text) => text !== undefined).join(' ')

/** Code and message of one item of a request with many. */
export const itemError = (problem: Problem) => ({ code: errorOf(problem).code, message: messageOf(problem) })
