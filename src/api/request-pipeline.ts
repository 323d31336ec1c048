/** The request pipeline of an operation: credential, principal, scope, operation, reply. REST and the S3 API share it. */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { Compile } from 'typebox/compile'
import {
  type Authenticator,
  type AuthFailureLimiter,
  RejectedKey,
} from '../access/authentication/authenticator.ts'
import { type Credential, credentialsOf, type GatewayIdentity } from '../access/authentication/credentials.ts'
import { requireOrigin } from '../access/browser-origins.ts'
import { nestedScope } from '../access/derived-scopes.ts'
import type { Claim } from '../access/idempotency.ts'
import { Permission } from '../access/permission.ts'
import type { BucketState } from '../access/rate-limit/memory-buckets.ts'
import { CallerScope, WorkspaceScope } from '../access/scope.ts'
import type { Platform } from '../app/platform.ts'
import type { ByteReply, Feed } from '../core/bytes.ts'
import { readChainDepth } from '../core/execution.ts'
import { Serialized } from '../core/json.ts'
import { type AnyOperation, acceptsKey } from '../core/operation.ts'
import type { Principal } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import type { WorkspaceRef } from '../core/tenant.ts'
import { onClose } from '../infra/connections.ts'
import {
  auditRejectedKey,
  finishAuditRecord,
  recordLook,
  recordReplayedLook,
  startAuditRecord,
  writeAuditEntry,
} from './audit.ts'
import { bind, LINK, parseBound } from './bind.ts'
import { sendBytes, whenGone } from './body-streams.ts'
import { completeClaim, idempotencyRequest, REPLAYED, replay, runWithClaim } from './idempotency.ts'
import { sendEventStream, sendResponse } from './response.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Set before the body is read. */
    principal: Principal | undefined
    /** Set before the body is read, and again whenever the credential is checked again. */
    permission: Permission | undefined
    /** The identity in the headers of a gateway that sent its secret; any other credential takes precedence. */
    gateway: GatewayIdentity | undefined
    /** The token of the session in which the Temporal UI reads payloads. */
    pageToken: string | undefined
    /** State of the rate limits after this request was charged. */
    rateLimits: readonly BucketState[] | undefined
    /** Set when a scope of a workspace was opened; the request counts for it. */
    workspace: WorkspaceRef | undefined
  }
}

/** A request whose input was bound, with what its reply is made of. */
export interface Exchange {
  readonly operation: AnyOperation
  readonly input: Record<string, unknown>
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  /** Throws if the caller lost the right meanwhile; for bodies that are sent for minutes. */
  readonly recheck: () => Promise<void>
}

/** How requests of a protocol name their caller and their input, and how replies are written. */
export interface Protocol {
  /** The credentials of a request, by precedence. It is asked again to check whether they are still valid. */
  credentials(operation: AnyOperation, request: FastifyRequest): readonly Credential[]
  /** True if its requests take an `Idempotency-Key`. */
  readonly takesKeys: boolean
  bind(of: Omit<Exchange, 'input'>): Record<string, unknown> | Promise<Record<string, unknown>>
  send(output: unknown, of: Exchange): unknown
}

/** As openapi.json describes it. */
const REST: Protocol = {
  credentials: credentialsIn,
  takesKeys: true,
  bind: ({ operation, request, reply, recheck }) => bind(operation, request, reply, recheck),
  send: (output, { operation, input, request, reply, recheck }) =>
    operation.http.reply === 'bytes'
      ? sendBytes(output as ByteReply, request, reply, recheck)
      : sendResponse(operation, input, output, request, reply),
}

export interface OperationHandler {
  /** Authenticates, authorizes and charges the request before the body is read. */
  readonly authorize: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
  readonly execute: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>
  /** Stores the reply before it is sent; absent if the operation takes no Idempotency-Key. */
  readonly storeReply?: (request: FastifyRequest, reply: FastifyReply, body: unknown) => Promise<void>
}

/** Creates the hooks and the handler of an operation's route. */
export function createHandler(
  operation: AnyOperation,
  platform: Platform,
  auth: Authenticator,
  protocol: Protocol = REST,
): OperationHandler {
  const acceptsIdempotencyKey = protocol.takesKeys && acceptsKey(operation)
  const check = platform.config.TENON_VALIDATE_RESPONSES ? replyChecker(operation) : undefined
  const authenticate = async (request: FastifyRequest, failures?: AuthFailureLimiter): Promise<Principal> => {
    // All must be valid; the first one identifies the caller.
    const principals: Principal[] = []
    for (const credential of protocol.credentials(operation, request)) {
      principals.push(
        await auth
          .authenticate(credential, failures, request.servedWorkspace)
          .catch((error) => auditRejection(request, error)),
      )
    }
    const [principal] = principals
    if (principal === undefined) throw new Problem('credentials_missing')
    request.principal = principal
    return principal
  }
  return {
    authorize: async (request, reply) => {
      const principal = await authenticate(request, platform.limiter.authFailures(request.ip))
      await authorizeAndCharge(platform, operation, principal, request, reply)
    },
    ...(acceptsIdempotencyKey && {
      storeReply: (request, reply, body) => completeClaim(operation, request, reply, body),
    }),
    execute: async (request, reply) => {
      const { permission: permitted } = request
      if (permitted === undefined) throw new TypeError('the request was not authorized')
      const { principal } = permitted
      // Without a limiter of failures: those of other clients at the same address do not end streams of this one.
      const recheck = async () => {
        permitRequest(operation, await authenticate(request), request)
        if (request.look === 'right') request.permission?.confirmPayloads()
      }
      const input = await protocol.bind({ operation, request, reply, recheck })
      const exchange = { operation, input, request, reply, recheck }
      const { ws } = request.params as { ws?: string }
      const opened = nestedScope(
        await platform.access.open(permitted, ws, request.rateLimits),
        readChainDepth(request.headers),
      )
      if (opened instanceof WorkspaceScope) request.workspace = opened.ref
      const parsed = parseBound(operation, input)
      const confirm = () => (request.permission ?? permitted).confirm(parsed)
      confirm()
      let scope = opened
      const keyed = acceptsIdempotencyKey
        ? idempotencyRequest(operation, principal, request, input)
        : undefined
      let claim: Claim | undefined
      if (keyed !== undefined && !(opened instanceof CallerScope)) {
        const claimed = await platform.idempotency.claim(opened, keyed)
        if ('body' in claimed) {
          recordReplayedLook(request, permitted, opened, claimed, platform.audit)
          return replay(claimed, reply)
        }
        if ('output' in claimed)
          return protocol.send(claimed.output, { ...exchange, reply: reply.header(...REPLAYED) })
        claim = request.idempotencyClaim = claimed
        scope = platform.access.openSeeded(opened, principal, claimed)
        releaseWhenGone(operation, claimed, request, reply)
      }
      if (operation.http.reply === 'feed') await acquireStream(platform, permitted, request, reply)
      const auditContext = await startAuditRecord(operation, opened, parsed, platform.audit)
      request.auditContext = auditContext
      const output = await runWithClaim(claim, () => operation.run(scope, parsed))
      if (auditContext !== undefined) await finishAuditRecord(auditContext, operation, opened, parsed, output)
      recordLook(request, opened, output, platform.audit)
      if (operation.http.reply === 'feed') {
        request.workspace = undefined
        // A request that has ended before was counted at its end.
        if (scope instanceof WorkspaceScope && !reply.raw.destroyed)
          platform.meters.countStream(scope.ref, reply.elapsedTime)
        // A reply that is taken over passes no hook.
        await writeAuditEntry(platform.audit, request, reply)
        const recheckAll = async () => {
          await recheck()
          confirm()
        }
        return sendEventStream(output as Feed, reply, { recheck: recheckAll, drain: platform.drain })
      }
      if (operation.http.reply !== 'bytes') check?.(output instanceof Serialized ? output.parsed() : output)
      return protocol.send(output, exchange)
    },
  }
}

/**
 * Lets a repetition of a request that only waits take its claim over as soon as its client has gone. The request goes on, and stores its
 * reply unless that happens.
 */
function releaseWhenGone(
  { waits }: AnyOperation,
  claim: Claim,
  { log, id }: FastifyRequest,
  reply: FastifyReply,
): void {
  if (waits !== true) return
  whenGone(reply).addEventListener('abort', () => {
    claim.release().catch((err: unknown) => log.error({ err, request_id: id }, 'claim not released'))
  })
}

/** Forbidden requests are charged as well. @throws Problem `rate_limited`, else that of a missing right */
async function authorizeAndCharge(
  { limiter }: Platform,
  operation: AnyOperation,
  principal: Principal,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  let forbidden: unknown
  try {
    permitRequest(operation, principal, request)
  } catch (error) {
    forbidden = error
  }
  const { states, headers, refused } = await limiter.limitPrincipal(
    principal,
    operation.chargedWithoutStore === true ? undefined : request.permission?.role,
    request.ip,
    operation.rateClass,
  )
  request.rateLimits = states
  reply.headers(headers)
  const problem = refused ?? forbidden
  if (problem !== undefined) throw problem
}

/** @throws Problem 403 if the caller, or the page that it runs in, may not run the operation */
function permitRequest(operation: AnyOperation, principal: Principal, request: FastifyRequest): void {
  const { headers, protocol, host } = request
  if (headers.origin !== undefined) requireOrigin(principal, headers.origin, `${protocol}://${host}`)
  request.permission = Permission.require(operation, principal)
}

/** A browser sends credentials of its own with a link, such as those of a page that was open before: they are not read. */
function credentialsIn({ http }: AnyOperation, request: FastifyRequest): Credential[] {
  const { headers, gateway, pageToken, raw, method } = request
  const query = request.query as Record<string, unknown>
  if (http.linkInQuery === true && query[LINK] !== undefined) {
    const { bucket = '', '*': key = '' } = request.params as Record<string, string>
    return [{ kind: 'link', text: String(query[LINK]), request: { method, bucket, key } }]
  }
  return credentialsOf({ headers, rawHeaders: raw.rawHeaders, query, gateway, pageToken }, http)
}

/** Records the use of a rejected key in the audit log of its tenant. */
function auditRejection(request: FastifyRequest, error: unknown): never {
  if (error instanceof RejectedKey) request.auditContext = auditRejectedKey(error)
  throw error
}

/** Acquires a stream slot, which is released when the connection closes. */
async function acquireStream(
  { access, limiter }: Platform,
  { operation, principal, role }: Permission,
  { ip }: FastifyRequest,
  { raw }: FastifyReply,
): Promise<void> {
  if (role === undefined) throw new TypeError(`${operation.name}: a feed needs a role`)
  const max = await access.streamsMax(principal.tenantId)
  const release = await limiter.acquireStream(principal, role, ip, max)
  onClose(raw, release)
}

/** Checks replies against the output schema, in tests. */
function replyChecker(operation: AnyOperation): (output: unknown) => void {
  let compiled: ReturnType<typeof Compile> | undefined
  return (output) => {
    compiled ??= Compile(operation.output)
    if (compiled.Check(output)) return
    const [first] = compiled.Errors(output)
    const cause = new TypeError(
      `${operation.name}: reply${first?.instancePath ?? ''} ${first?.message ?? ''}`,
    )
    throw new Problem('internal', { cause })
  }
}
