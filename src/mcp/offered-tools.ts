/**
 * The tools that a hosted server offers to a client, and its answer to a call without the scope: a challenge (HTTP 403),
 * after which a client asks its user for consent, or a tool error, which its model reads.
 */

import type { FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { PublishedServer } from '../access/authentication/mcp-server-registry.ts'
import type { McpPrincipal } from '../access/authentication/subject-status.ts'
import { LIMITS } from '../core/limits.ts'
import { isCovered, scopeOf } from '../core/tool-access.ts'
import { shownTool } from '../features/mcp-servers/review/review.ts'
import type { Tool } from '../features/mcp-servers/tool.ts'
import type { McpTool } from './mcp-server.ts'
import { isModern } from './transport.ts'

/** The tools of the active version, and of the version that was consented to. */
export interface ToolSets {
  readonly active: readonly Tool[]
  readonly consented: readonly Tool[]
}

/** True if the token has the scope of a tool, and was issued for no lesser effect of it. */
export function isGranted(tool: Tool, { server, scopes }: McpPrincipal, { consented }: ToolSets): boolean {
  return scopes.has(scopeOf(server.slug, tool)) && isCovered(tool, consented)
}

/**
 * The tools in `tools/list`. People may give consent to any tool, so their clients are shown all by default; clients without
 * a person, those that they may call.
 */
export function offeredTools(client: McpPrincipal, sets: ToolSets): McpTool[] {
  const { list } = client.server
  const showsAll = list === 'grantable' || (list === 'auto' && client.isPerson)
  return sets.active
    .map((tool) => ({ tool, granted: isGranted(tool, client, sets) }))
    .filter(({ tool, granted }) => granted || (showsAll && isGrantable(tool, client)))
    .map(({ tool, granted }) => describe(tool, client.server, granted))
}

/** False if an admin has limited the client to other scopes. */
const isGrantable = (tool: Tool, { server, grantable }: McpPrincipal) =>
  grantable === null || grantable.includes(scopeOf(server.slug, tool))

function describe(tool: Tool, { slug }: PublishedServer, granted: boolean): McpTool {
  const shown = shownTool(tool)
  const needs = `Needs the scope ${scopeOf(slug, tool)}, which has not been granted yet: the first call asks for it.`
  return granted ? shown : { ...shown, description: `${shown.description} ${needs}` }
}

/** True for clients of 2025-06-18 and later. Earlier ones do not send their version with each request. */
export const readsStructuredContent = (request: FastifyRequest) => speaks(request, '2025-06-18')

function speaks({ headers, body }: FastifyRequest, least: string): boolean {
  const version = headers['mcp-protocol-version']
  return isModern(body, version) || (typeof version === 'string' && version >= least)
}

/** True for clients that say that they are older than 2025-11-25, which introduced challenges for scopes. */
const knowsNoChallenge = (request: FastifyRequest) =>
  typeof request.headers['mcp-protocol-version'] === 'string' && !speaks(request, '2025-11-25')

/** Remembers challenges for a while, in this process. */
export class Challenges {
  /** By client, subject, and scope: the token that was challenged. */
  readonly #sent = new LRUCache<string, string>({ max: LIMITS.mcpChallengesKept, ttl: LIMITS.mcpChallengeMs })

  /**
   * True if the client gets a challenge, false if it gets a tool error. With `challenge: auto`, a challenge goes to
   * clients that know it. Some of them refresh their token instead of asking for consent, fail at a
   * second challenge, and hide it from the model: a client that comes back with a new token that lacks the scope gets a tool error.
   */
  admits(request: FastifyRequest, client: McpPrincipal, scope: string): boolean {
    const { server, clientId, subject, tokenId } = client
    if (server.challenge !== 'auto') return server.challenge === 'http'
    if (knowsNoChallenge(request)) return false
    if (!client.isPerson) return true
    const key = JSON.stringify([clientId, subject, server.id, scope])
    const before = this.#sent.get(key)
    this.#sent.set(key, tokenId)
    return before === undefined || before === tokenId
  }
}
