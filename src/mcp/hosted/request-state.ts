/** The state of an authenticated request to a hosted server, and what the call log says of the request. */

import type { ServerResponse } from 'node:http'
import type { FastifyRequest } from 'fastify'
import type { McpPrincipal } from '../../access/authentication/mcp-clients.ts'
import type { PublishedServer } from '../../access/authentication/mcp-server-registry.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import type { ProblemCode } from '../../core/problem-catalogue.ts'
import type { CalledTool } from './tool-search.ts'

export interface RequestState {
  readonly server: PublishedServer
  readonly client: McpPrincipal
  readonly scope: WorkspaceScope
  readonly startedMs: number
  readonly response: ServerResponse
  /** The full scope of the tool that is called, or the one that is missing. */
  toolScope?: string | undefined
  /** The tool that the message calls. */
  called?: CalledTool | undefined
  /** It has an entry in the call log of the server. */
  recorded: boolean
  /** Why the call was denied by a tool error. */
  deniedCode?: ProblemCode
}

/** Members of an entry in the log of calls that describe the request. */
export const callContext = (request: FastifyRequest, { id, version, versionHash }: PublishedServer) => ({
  channel: 'wire' as const,
  serverId: id,
  version,
  versionHash,
  address: request.ip,
  requestId: request.id,
})

/** Members of an entry in the log of calls that describe the authenticated caller. */
export const callerOf = ({ client, toolScope }: RequestState) => ({
  principal: client.subject,
  clientId: client.clientId,
  toolScope,
})
