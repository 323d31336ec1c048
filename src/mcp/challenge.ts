/**
 * The answers of MCP servers to clients that lack a token or a scope: a challenge (HTTP 401, 403), which tells a client where
 * it gets a token, and with which scopes; or a tool error, which its model reads.
 */

import type { FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { documentHostOf } from '../access/authentication/client-ids.ts'
import type { PublishedServer } from '../access/authentication/mcp-server-registry.ts'
import { sentences } from '../core/text/sentences.ts'
import { MCP_LIMITS } from '../features/mcp-servers/limits.ts'
import type { ToolResult } from './protocol/mcp-server.ts'
import { speaks } from './protocol/transport.ts'

/** The value of `WWW-Authenticate` (RFC 9728 §5.1). @param metadata URL of the metadata of the server */
export function challengeOf(
  metadata: string,
  scopes: readonly string[],
  { error, error_description }: { error?: string | undefined; error_description?: string },
): string {
  const parameters = Object.entries({
    error,
    resource_metadata: metadata,
    scope: scopes.length > 0 ? scopes.join(' ') : undefined,
    error_description,
  })
  const present = parameters.filter(([, value]) => value !== undefined)
  return `Bearer ${present.map(([name, value]) => `${name}="${value}"`).join(', ')}`
}

/** The result of a call without the scope, for the model and for programs. */
export function missingScope(
  detail: string,
  required: readonly string[],
  granted: ReadonlySet<string>,
): ToolResult {
  const advice = 'Its user has to sign in again and allow it.'
  return {
    content: [{ type: 'text', text: sentences(`insufficient_scope: ${detail}`, advice) }],
    // Some clients check `structuredContent` of an error against the schema of results.
    _meta: { 'tenon/insufficient_scope': { required: [...required], granted: [...granted] } },
    isError: true,
  }
}

/** A client that lacks a scope. */
interface ChallengedClient {
  readonly server: Pick<PublishedServer, 'id' | 'challenge'>
  /** A person stands behind it. */
  readonly isPerson: boolean
  readonly clientId: string
  readonly subject: string
  readonly tokenId: string
  /** The grant under which the token was issued, if it names one. */
  readonly grantId?: string | undefined
}

/** True for clients that say that they are older than 2025-11-25, which introduced challenges for scopes. */
const knowsNoChallenge = (request: FastifyRequest) =>
  typeof request.headers['mcp-protocol-version'] === 'string' && !speaks(request, '2025-11-25')

/** Remembers challenges for a while, in this process. */
export class Challenges {
  /** By client, subject, server and scope: the token that was challenged. */
  readonly #sent = new LRUCache<string, string>({
    max: MCP_LIMITS.challengesCachedMax,
    ttl: MCP_LIMITS.challengeMs,
  })

  /**
   * True if the client gets a challenge, false if it gets a tool error. With `challenge: auto`, a challenge goes to
   * clients that know it. Some of them refresh their token instead of asking for consent, fail at a
   * second challenge, and hide it from the model: a client that comes back with a new token that lacks the scope gets a tool error.
   */
  admits(request: FastifyRequest, client: ChallengedClient, scope: string): boolean {
    const { server, clientId, subject, tokenId, grantId = '' } = client
    if (server.challenge !== 'auto') return server.challenge === 'http'
    if (knowsNoChallenge(request)) return false
    if (!client.isPerson) return true
    // All installations of a client that a document describes share its id.
    const installation = documentHostOf(clientId) === undefined ? '' : grantId
    const key = JSON.stringify([clientId, installation, subject, server.id, scope])
    const before = this.#sent.get(key)
    this.#sent.set(key, tokenId)
    return before === undefined || before === tokenId
  }
}
