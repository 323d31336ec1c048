/** Serves a request for the host name of a workspace for that workspace alone: finds the workspace, and refuses all routes that are not of one. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { RateLimitDecision } from '../access/rate-limit/memory-buckets.ts'
import type { Platform } from '../app/platform.ts'
import { isProbe } from '../app/probes.ts'
import { type Role, TENANT_ADMINS } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import type { WorkspaceRef } from '../core/tenant.ts'
import { requestedHost } from '../infra/host-name.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** A route without a credential that checks {@link isServedFor}. */
    readonly isServedForHosts?: boolean
  }
  interface FastifyRequest {
    /** The workspace of the host name of the request; undefined for names of the platform and unknown ones, which serve everything. */
    servedWorkspace: WorkspaceRef | undefined
  }
}

export function serveHosts(app: FastifyInstance, { hostNames, limiter }: Platform): void {
  /** Names are guessed at the price of other requests without a credential; those of a name that a workspace has cost nothing. */
  const find = async ({ ip }: FastifyRequest, reply: FastifyReply, name: string) => {
    const require = ({ headers, refused }: RateLimitDecision) => {
      if (refused === undefined) return
      reply.headers(headers)
      throw refused
    }
    require(await limiter.peekAnonymous(ip))
    const found = await hostNames.find(name)
    if (found === null) require(await limiter.limitAnonymous(ip))
    return found
  }
  app.addHook('onRequest', (request, reply, done) => {
    if (isProbe(pathOf(request))) return done()
    const { name, isValid } = requestedHost(request.host ?? '')
    if (!isValid) return done(invalidHost())
    if (name === undefined || hostNames.isOwn(name)) return done()
    const known = hostNames.known(name)
    if (known !== undefined) return done(serve(request, known))
    find(request, reply, name).then((ref) => done(serve(request, ref)), done)
  })
}

/** What another server could read as another name. */
const invalidHost = (): Problem =>
  new Problem('header_invalid', {
    detail:
      'The header `Host`, or `X-Forwarded-Host` of a trusted proxy, must be a name or an address, with or without a port.',
  })

/** @returns why the request is refused, if it is */
function serve(request: FastifyRequest, ref: WorkspaceRef | null): Problem | undefined {
  if (ref === null) return undefined
  request.servedWorkspace = ref
  return isOfWorkspaces(request) ? undefined : new Problem('route_not_found')
}

/** True if the request is made for a name that serves this workspace. */
export const isServedFor = (
  { servedWorkspace }: FastifyRequest,
  ref: { readonly workspaceId: string } | undefined,
): boolean => servedWorkspace === undefined || servedWorkspace.workspaceId === ref?.workspaceId

/**
 * True for operations that some role of a workspace may run, whose credential is then checked, and routes that compare the workspace
 * themselves. All others, such as those of operators, the issuer and its pages, and MCP servers, are at the platform's own names.
 */
function isOfWorkspaces({ method, routeOptions: { config } }: FastifyRequest): boolean {
  // The answer to the preflight request of a page, which is the same for all workspaces.
  if (method === 'OPTIONS' || config.isServedForHosts === true) return true
  const roles: readonly Role[] = config.operation?.roles ?? []
  return roles.some((role) => !(TENANT_ADMINS as readonly Role[]).includes(role))
}

const pathOf = ({ url }: FastifyRequest): string => url.split('?', 1)[0] ?? ''
