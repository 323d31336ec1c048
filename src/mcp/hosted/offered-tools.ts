/** The tools that a hosted server offers to a client. */

import type { FastifyRequest } from 'fastify'
import type { McpPrincipal } from '../../access/authentication/mcp-clients.ts'
import { isCovered, scopeOf } from '../../core/tool-access.ts'
import type { ResultsMode } from '../../features/mcp-servers/calls/result-form.ts'
import { findPublished, type PublishedVersion } from '../../features/mcp-servers/manifest.ts'
import { shownTool } from '../../features/mcp-servers/review/review.ts'
import { searchToolsFor, usesSearch } from '../../features/mcp-servers/search/search-tool-list.ts'
import type { VisibleTool } from '../../features/mcp-servers/search/search-tools.ts'
import type { Tool } from '../../features/mcp-servers/tool.ts'
import type { McpTool } from '../protocol/mcp-server.ts'
import { isModern } from '../protocol/transport.ts'
import type { RequestState } from './request-state.ts'

/** The tools of the active version, and of the version that was consented to. */
export interface ToolSets {
  readonly active: readonly Tool[]
  readonly consented: readonly Tool[]
}

/** The active version of a server, for one client. */
export interface ToolListing {
  readonly version: PublishedVersion
  readonly sets: ToolSets
  /** The search of tools replaces the list of those that are not pinned. */
  readonly hasSearch: boolean
  /** True if the client may call a tool. */
  readonly isGranted: (tool: Tool) => boolean
}

/** Reads the active version, and the one that the user of the client has consented to. */
export async function readToolListing({ scope, server, client }: RequestState): Promise<ToolListing> {
  const version = await findPublished(scope, server.id, server.version)
  const consented = await findPublished(scope, server.id, client.consentedVersion)
  const { tools } = version.manifest
  const sets = { active: tools, consented: consented.manifest.tools }
  return {
    version,
    sets,
    hasSearch: usesSearch(server.search, tools),
    isGranted: (tool) => isGranted(tool, client, sets),
  }
}

/** True if the token has the scope of a tool, and was issued for no lesser effect of it. */
function isGranted(tool: Tool, { server, scopes }: McpPrincipal, { consented }: ToolSets): boolean {
  return scopes.has(scopeOf(server.slug, tool)) && isCovered(tool, consented)
}

/**
 * The tools that a client is shown, in full or by search. People may give consent to any tool, so their clients are shown all by default; clients without
 * a person, those that they may call.
 */
export function visibleTools(client: McpPrincipal, sets: ToolSets): VisibleTool[] {
  const { list } = client.server
  const showsAll = list === 'grantable' || (list === 'auto' && client.isPerson)
  return sets.active
    .map((tool) => ({ tool, granted: isGranted(tool, client, sets) }))
    .filter(({ tool, granted }) => granted || (showsAll && isGrantable(tool, client)))
    .map(({ tool, granted }) => ({
      tool,
      missingScope: granted ? undefined : scopeOf(client.server.slug, tool),
    }))
}

/** The tools in `tools/list`. @param hasSearch lists the search of tools and the pinned ones alone */
export function offeredTools(client: McpPrincipal, sets: ToolSets, hasSearch: boolean): McpTool[] {
  const visible = visibleTools(client, sets)
  const describe = (one: VisibleTool) => describeTool(one, client.server.results)
  if (!hasSearch) return visible.map(describe)
  const pinned = visible.filter(({ tool }) => tool.pinned)
  return [...pinned.map(describe), ...searchToolsFor(sets.active)]
}

/** False if an admin has limited the client to other scopes. */
const isGrantable = (tool: Tool, { server, grantable }: McpPrincipal) =>
  grantable === null || grantable.includes(scopeOf(server.slug, tool))

function describeTool({ tool, missingScope }: VisibleTool, results: ResultsMode): McpTool {
  const shown = shownTool(tool, results)
  if (missingScope === undefined) return shown
  const needs = `Needs the scope ${missingScope}, which has not been granted yet: the first call asks for it.`
  return { ...shown, description: `${shown.description} ${needs}` }
}

/** True for clients of 2025-06-18 and later. Earlier ones do not send their version with each request. */
export const readsStructuredContent = (request: FastifyRequest) => speaks(request, '2025-06-18')

/** True for clients of this version of the protocol and later ones. */
export function speaks({ headers, body }: FastifyRequest, least: string): boolean {
  const version = headers['mcp-protocol-version']
  return isModern(body, version) || (typeof version === 'string' && version >= least)
}
