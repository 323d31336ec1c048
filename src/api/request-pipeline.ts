/** The request pipeline of an operation: credential, principal, scope, operation, reply. */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { Compile } from 'typebox/compile'
import type { Access } from '../access/access.ts'
import {
  type Authenticator,
  type AuthFailureLimiter,
  RejectedKey,
} from '../access/authentication/authenticator.ts'
import { credentialsOf, type GatewayIdentity } from '../access/authentication/credentials.ts'
import type { BucketState } from '../access/rate-limit/memory-buckets.ts'
import { CallerScope, WorkspaceScope } from '../access/scope.ts'
import type { Platform } from '../app/platform.ts'
import type { ByteReply, Feed } from '../core/bytes.ts'
import { Serialized } from '../core/json.ts'
import type { AnyOperation } from '../core/operation.ts'
import type { Principal, Role } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import type { WorkspaceRef } from '../core/tenant.ts'
import { auditRejectedKey, finishAuditRecord, startAuditRecord } from './audit.ts'
import { bind } from './bind.ts'
import { acceptsKey, completeClaim, idempotencyRequest, replay, runWithClaim } from './idempotency.ts'
import { sendEventStream, sendResponse } from './response.ts'
import { sendBytes } from './streams.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Set before the body is read. */
    principal: Principal | undefined
    /** Who a gateway says it is, where its secret came with that; of no weight beside a credential. */
    gateway: GatewayIdentity | undefined
    /** Of who reads the Temporal UI, where it asks for payloads. */
    pageToken: string | undefined
    /** How it stands with its limits; set when it has been charged. */
    rateLimits: readonly BucketState[] | undefined
    /** Set when the request has come into a workspace: whose request it counts as. */
    workspace: WorkspaceRef | undefined
  }
}

export interface OperationHandler {
  /** Refuses before a byte of the body is read. */
  readonly authorize: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
  readonly execute: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>
  /** Keeps the reply before it leaves, where the operation takes an Idempotency-Key. */
  readonly storeReply?: (request: FastifyRequest, reply: FastifyReply, body: unknown) => Promise<void>
}

/** The two halves of an operation's route. */
export function createHandler(
  operation: AnyOperation,
  platform: Platform,
  auth: Authenticator,
): OperationHandler {
  const keyed = acceptsKey(operation)
  const check = platform.config.TENON_VALIDATE_RESPONSES ? replyChecker(operation) : undefined
  const authenticate = async (request: FastifyRequest, visitor?: AuthFailureLimiter): Promise<Principal> => {
    const { headers, gateway, pageToken, raw } = request
    const query = request.query as Record<string, unknown>
    const presented = { headers, rawHeaders: raw.rawHeaders, query, gateway, pageToken }
    // All must hold; the first says who it is: a bad one is 401, whatever else is sent (decisions §3).
    const principals: Principal[] = []
    for (const credential of credentialsOf(presented, operation.http)) {
      principals.push(
        await auth.authenticate(credential, visitor).catch((error) => auditRejection(request, error)),
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
      const right = authorize(platform.access, operation, principal)
      const passage = await platform.limiter.limitPrincipal(principal, right.role, request.ip)
      request.rateLimits = passage.states
      reply.headers(passage.headers)
      const refused = passage.refused ?? right.refused
      if (refused !== undefined) throw refused
    },
    ...(keyed && { storeReply: (request, reply, body) => completeClaim(operation, request, reply, body) }),
    execute: async (request, reply) => {
      const { principal } = request
      if (principal === undefined) throw new TypeError('a route without its door')
      // Who was let in has not guessed: what neighbours of his address guess ends no stream of his.
      const ask = async () => void platform.access.permit(operation, await authenticate(request))
      const input = bind(operation, request, ask)
      const workspace = workspaceNamed(request)
      const opened = await platform.access.open(operation, principal, workspace, request.rateLimits)
      if (opened instanceof WorkspaceScope) request.workspace = opened.ref
      const parsed = operation.parse(input)
      const permit = () => platform.access.permit(operation, request.principal ?? principal, parsed)
      permit()
      const asked = keyed ? idempotencyRequest(operation, principal, request, input) : undefined
      const bare = opened instanceof CallerScope
      const claim = bare ? undefined : asked && (await platform.idempotency.claim(opened, asked))
      if (claim !== undefined && 'body' in claim) return replay(claim, reply)
      request.idempotencyClaim = claim
      const scope =
        claim === undefined || bare ? opened : platform.access.openSeeded(opened, principal, claim)
      if (operation.http.reply === 'feed') await acquireStream(platform, operation, request, reply)
      const trace = await startAuditRecord(operation, opened, parsed, platform.audit)
      request.auditContext = trace
      const output = await runWithClaim(claim, () => operation.run(scope, parsed))
      if (trace !== undefined) await finishAuditRecord(trace, operation, opened, parsed, output)
      if (operation.http.reply === 'feed') {
        // Counted as it opens: how long it goes on is no latency.
        request.workspace = undefined
        if (scope instanceof WorkspaceScope) platform.meters.count(scope.ref, 200, reply.elapsedTime)
        const askAgain = async () => {
          await ask()
          permit()
        }
        return sendEventStream(output as Feed, reply, askAgain)
      }
      if (operation.http.reply === 'bytes') return sendBytes(output as ByteReply, request, reply, ask)
      check?.(output instanceof Serialized ? output.parsed() : output)
      return sendResponse(operation, input, output, request, reply)
    },
  }
}

/** Whoever has a key that is refused is told of it in the audit log. */
function auditRejection(request: FastifyRequest, error: unknown): never {
  if (error instanceof RejectedKey) request.auditContext = auditRejectedKey(error)
  throw error
}

/** In which role, or why in none: who is refused is charged all the same, or could ask without end. */
function authorize(
  access: Access,
  operation: AnyOperation,
  principal: Principal,
): { readonly role?: Role | undefined; readonly refused?: unknown } {
  try {
    return { role: access.permit(operation, principal) }
  } catch (refused) {
    return { refused }
  }
}

/** For as long as the connection lasts. */
async function acquireStream(
  { access, limiter }: Platform,
  operation: AnyOperation,
  { principal, ip }: FastifyRequest,
  { raw }: FastifyReply,
): Promise<void> {
  if (principal === undefined) throw new TypeError('a route without its door')
  const role = access.permit(operation, principal)
  if (role === undefined) throw new TypeError(`${operation.name}: a feed is for somebody in a role`)
  const max = await access.streamsMax(principal.tenantId)
  const release = await limiter.acquireStream(principal, role, ip, max)
  raw.once('close', release)
  // Who has gone meanwhile says so no more.
  if (raw.destroyed) release()
}

function workspaceNamed(request: FastifyRequest): string | undefined {
  return (request.params as { ws?: string }).ws
}

/** In tests each reply must fit its own schema: the OpenAPI document is then no promise but a fact. */
function replyChecker(operation: AnyOperation): (output: unknown) => void {
  const compiled = Compile(operation.output)
  return (output) => {
    if (compiled.Check(output)) return
    const [first] = compiled.Errors(output)
    const cause = new TypeError(
      `${operation.name}: reply${first?.instancePath ?? ''} ${first?.message ?? ''}`,
    )
    throw new Problem('internal', { cause })
  }
}
