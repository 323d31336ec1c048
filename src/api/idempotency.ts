/** Applies `Idempotency-Key` to HTTP requests (draft-ietf-httpapi-idempotency-key-header): which requests, what is stored. */

import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Claim, IdempotentRequest, StoredReply } from '../access/idempotency.ts'
import { ACCESS_LIMITS } from '../access/limits.ts'
import { canonical, exceedsDepth } from '../core/json.ts'
import type { AnyOperation } from '../core/operation.ts'
import type { Principal } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import { isProblemCode, PROBLEMS } from '../core/problem-catalogue.ts'
import { violated } from '../infra/postgres/errors.ts'
import { API_LIMITS } from './limits.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Set while the request runs with an Idempotency-Key; its reply completes the claim. */
    idempotencyClaim: Claim | undefined
  }
}

/**
 * Identifies the caller with its key, and the request; undefined without a key. The request id and preferences for the
 * reply may differ between two sends of one request.
 * @throws Problem `header_invalid`; `validation_failed` if the input is nested deeper than any operation allows
 */
export function idempotencyRequest(
  operation: AnyOperation,
  principal: Principal,
  request: FastifyRequest,
  input: Readonly<Record<string, unknown>>,
): IdempotentRequest | undefined {
  if (request.headers['idempotency-key'] === undefined) return undefined
  const { kind, subject, tenantId = '', workspaceId = '' } = principal
  const caller = [kind, subject, tenantId, workspaceId, operation.name, request.params, keyOf(request)]
  if (exceedsDepth(input, API_LIMITS.idempotencyInputDepthMax))
    throw new Problem('validation_failed', { detail: 'The input is nested too deeply.' })
  const { headers = {} } = operation.http
  const compared = Object.entries(input).filter(([field]) => !IGNORED_HEADERS.has(headers[field] ?? ''))
  return { id: sha256(canonical(caller)), request: sha256(canonical(Object.fromEntries(compared))) }
}

const IGNORED_HEADERS = new Set(['x-request-id', 'prefer'])

const sha256 = (text: string) => createHash('sha256').update(text).digest()

/** The key: a string in quotes, as in the draft (RFC 8941 §3.3.3), or the bare text that most clients send. */
function keyOf({ raw }: FastifyRequest): string {
  const [text = '', ...more] = raw.headersDistinct['idempotency-key'] ?? []
  const key = /^".*"$/.test(text) ? text.slice(1, -1) : text
  const max = ACCESS_LIMITS.idempotencyKeyCharsMax
  if (more.length === 0 && key.length <= max && /^[\x20-\x7e]+$/.test(key)) return key
  const detail = `Send Idempotency-Key once, with 1 to ${max} characters of ASCII: a new UUID for each request.`
  throw new Problem('header_invalid', { detail })
}

/** The header of a reply that is sent again. */
export const REPLAYED = ['idempotent-replayed', 'true'] as const

/** Sends the stored reply again. */
export function replay({ status, headers, body }: StoredReply, reply: FastifyReply): FastifyReply {
  return reply
    .code(status)
    .headers(headers)
    .header(...REPLAYED)
    .send(body)
}

/**
 * Runs the operation. A later attempt generates the ids of an earlier one that was interrupted: a violated primary key
 * means that the earlier one created the row.
 */
export async function runWithClaim<T>(claim: Claim | undefined, run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (error) {
    if (claim === undefined || claim.completion.attempt === 1 || !violated(error)?.endsWith('_pkey'))
      throw error
    const detail = 'An earlier attempt of this request was interrupted after it had made the change.'
    throw new Problem('conflict', { detail, cause: error })
  }
}

/** Completes the claim before the reply is sent, so that a client that has read the reply finds it again. */
export async function completeClaim(
  operation: AnyOperation,
  request: FastifyRequest,
  reply: FastifyReply,
  body: unknown,
): Promise<void> {
  const { idempotencyClaim: claim } = request
  if (claim === undefined) return
  request.idempotencyClaim = undefined
  const { statusCode: status } = reply
  const disposition = dispositionOf(status, reply.getHeader('x-problem-code'))
  try {
    if (disposition === 'store')
      await claim.store({
        ...{ status, headers: storedHeaders(operation, reply), body: String(body ?? '') },
        ...(request.look && { look: request.look }),
      })
    else await claim[disposition]()
  } catch (error) {
    // The effect is done, so the reply is sent; the lease of the claim expires.
    request.log.error({ err: error, request_id: request.id }, 'idempotent reply not stored')
  }
}

/** A rejected request had no effect; one that failed on the server may run again, unless the problem is final. */
function dispositionOf(status: number, code: unknown): 'store' | 'release' | 'forget' {
  if (status === 400 || status === 403 || status === 404) return 'forget'
  if (status < 500 && status !== 429) return 'store'
  return isProblemCode(code) && 'final' in PROBLEMS[code] ? 'store' : 'release'
}

/** Headers that are stored; request ids, dates and lengths belong to each reply. */
const HEADERS = ['content-type', 'cache-control', 'location', 'etag', 'x-stability', 'x-problem-code']

function storedHeaders(operation: AnyOperation, reply: FastifyReply): Record<string, string> {
  const names = [...HEADERS, ...Object.values(operation.http.replyHeaders ?? {})]
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = reply.getHeader(name)
      return value === undefined ? [] : [[name, String(value)]]
    }),
  )
}
