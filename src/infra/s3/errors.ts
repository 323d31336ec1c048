/** Maps errors of the object store to problems with S3's own names. */

import { S3ServiceException } from '@aws-sdk/client-s3'
import { Problem } from '../../core/problem.ts'
import type { ProblemCode } from '../../core/problem-catalogue.ts'
import { unavailable } from '../unavailable.ts'

/** Codes that mean the same here as there. */
const SAME = [
  'AccessDenied',
  'NoSuchBucket',
  'NoSuchKey',
  'PreconditionFailed',
  'InvalidRange',
  'EntityTooLarge',
  'KeyTooLongError',
  'InvalidBucketName',
] as const satisfies readonly ProblemCode[]

/** Replies to HEAD have no body, so no code. */
const BY_STATUS: Readonly<Record<number, ProblemCode>> = {
  403: 'AccessDenied',
  404: 'NoSuchKey',
  412: 'PreconditionFailed',
  416: 'InvalidRange',
}

/** The store refuses the session of the platform, which is no error of the caller. SeaweedFS calls an ended one an invalid key. */
const SESSION_REFUSED = ['ExpiredToken', 'InvalidAccessKeyId', 'InvalidToken', 'SignatureDoesNotMatch']

/** The store, or the account of the platform at it, has no room: some stores answer so with 4xx, which is no error of the caller. */
const FULL = /Quota|StorageFull|Insufficient/

export function isSessionRefused(error: unknown): boolean {
  return error instanceof S3ServiceException && SESSION_REFUSED.includes(error.name)
}

export function statusOf(error: unknown): number | undefined {
  return error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined
}

/** A header of the store's response, if there is one. */
function headerOf(error: unknown, name: string): string | undefined {
  return error instanceof S3ServiceException ? error.$response?.headers[name] : undefined
}

/** Any error of a call to the store as a Problem; texts of the store stay in the log. */
export function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error
  const cause = forLog(error)
  const status = statusOf(error) ?? 0
  const name = error instanceof Error ? error.name : ''
  const isOfPlatform = isSessionRefused(error) || FULL.test(name)
  const code = isOfPlatform ? undefined : (SAME.find((known) => known === name) ?? BY_STATUS[status])
  if (code !== undefined) return new Problem(code, { cause, headers: rangeHeader(code, error) })
  if (status >= 400 && status < 500 && !isOfPlatform) return new Problem('InvalidRequest', { cause })
  return unavailable('s3', cause)
}

/** The fields of an SDK error that may be logged; it contains the whole exchange with signatures and sockets. */
function forLog(error: unknown): unknown {
  if (!(error instanceof S3ServiceException)) return error
  return new Error(`${error.name} (${statusOf(error)}): ${error.message}`)
}

/** The length of the object, from a 416 response (RFC 9110 §15.5.17). */
function rangeHeader(code: ProblemCode, error: unknown): Record<string, string> {
  const range = headerOf(error, 'content-range')
  return code === 'InvalidRange' && range !== undefined ? { 'content-range': range } : {}
}
