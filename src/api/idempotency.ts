/** Applies `Idempotency-Key` to HTTP requests (draft-ietf-httpapi-idempotency-key-header): which requests, what is stored. */

import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Claim, IdempotentRequest, StoredReply } from '../access/idempotency.ts'
import { canonical, exceedsDepth } from '../core/json.ts'
import { LIMITS } from '../core/limits.ts'
import type { AnyOperation } from '../core/operation.ts'
import type { Principal } from '../core/policy.ts'
import { isProblemCode, PROBLEMS, Problem } from '../core/problem.ts'
import { violated } from '../infra/postgres/errors.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Set while the request runs under a key; its reply ends it. */
    idempotencyClaim: Claim | undefined
  }
}

/** GET, PUT and DELETE may be sent again as they are (RFC 9110 §9.2.2); of streams nothing is known until they end. */
export function acceptsKey({ reads, http }: AnyOperation): boolean {
  return http.method === 'POST' && !reads && http.takes !== 'bytes' && http.reply === undefined
}

/**
 * Who asks under which key, and what; undefined where there is no key. Ids of the request and preferences for its reply
 * are no part of what is asked.
 * @throws Problem `header_invalid`; `validation_failed` where the input is deeper than any operation takes
 */
export function idempotencyRequest(
  operation: AnyOperation,
  principal: Principal,
  request: FastifyRequest,
  input: Readonly<Record<string, unknown>>,
): IdempotentRequest | undefined {
  if (request.headers['idempotency-key'] === undefined) return undefined
  const { kind, subject, tenantId = '', workspaceId = '' } = principal
  const who = [kind, subject, tenantId, workspaceId, operation.name, request.params, keyOf(request)]
  if (exceedsDepth(input, LIMITS.idempotencyInputDepthMax))
    throw new Problem('validation_failed', { detail: 'The input is nested too deeply.' })
  const { headers = {} } = operation.http
  const asked = Object.entries(input).filter(([field]) => !IGNORED_HEADERS.has(headers[field] ?? ''))
  return { id: sha256(canonical(who)), request: sha256(canonical(Object.fromEntries(asked))) }
}

const IGNORED_HEADERS = new Set(['x-request-id', 'prefer'])

const sha256 = (text: string) => createHash('sha256').update(text).digest()

/** As the draft has it, a string in quotes (RFC 8941 §3.3.3); as most clients send it, the bare text. */
function keyOf({ raw }: FastifyRequest): string {
  const [text = '', ...more] = raw.headersDistinct['idempotency-key'] ?? []
  const key = /^".*"$/.test(text) ? text.slice(1, -1) : text
  const max = LIMITS.idempotencyKeyCharsMax
  if (more.length === 0 && key.length <= max && /^[\x20-\x7e]+$/.test(key)) return key
  const detail = `Idempotency-Key is sent once, with 1 to ${max} characters of ASCII: a new UUID for each request.`
  throw new Problem('header_invalid', { detail })
}

/** Sends what was answered before. */
export function replay({ status, headers, body }: StoredReply, reply: FastifyReply): FastifyReply {
  return reply.code(status).headers(headers).header('idempotent-replayed', 'true').send(body)
}

/**
 * Runs the operation. A later attempt makes the same ids as the one that was cut off; where it finds them in the database,
 * what was asked is there. Operations that take their own row for made never come to that.
 */
export async function runWithClaim<T>(claim: Claim | undefined, run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (error) {
    if (claim === undefined || claim.attempt === 1 || !violated(error)?.endsWith('_pkey')) throw error
    const detail = 'An earlier attempt of this request was cut off after it had made it.'
    throw new Problem('conflict', { detail, cause: error })
  }
}

/** Ends the claim of a request whose reply is about to leave, so that who has read it finds it again. */
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
  const fate = dispositionOf(status, reply.getHeader('x-problem-code'))
  try {
    if (fate === 'keep')
      await claim.store({ status, headers: storedHeaders(operation, reply), body: String(body ?? '') })
    else await claim[fate]()
  } catch (error) {
    // What was done is done: its caller is told so, and the claim ends by itself.
    request.log.error({ err: error, reqId: request.id }, 'the reply could not be kept')
  }
}

/** What was refused touched nothing; what failed on our side may succeed now, unless somebody's code has run. */
function dispositionOf(status: number, code: unknown): 'keep' | 'release' | 'forget' {
  if (status === 400 || status === 403 || status === 404) return 'forget'
  if (status < 500 && status !== 429) return 'keep'
  return isProblemCode(code) && 'final' in PROBLEMS[code] ? 'keep' : 'release'
}

/** What says something of the reply; ids of the request, dates and lengths are those of each reply itself. */
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
