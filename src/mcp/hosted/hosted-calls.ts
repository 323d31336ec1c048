/** Calls of the tools of a hosted server by one request, with the rights of its client, and their entries in the call log. */

import type { FastifyRequest } from 'fastify'
import { scopeOf } from '../../core/tool-access.ts'
import type { CallResult, ToolCall } from '../../features/mcp-servers/calls/call-end.ts'
import { recordCall } from '../../features/mcp-servers/calls/call-log.ts'
import { callTool } from '../../features/mcp-servers/calls/call-tool.ts'
import { keptResultTool } from '../../features/mcp-servers/calls/kept-results.ts'
import { AS_RESOURCE, formFor } from '../../features/mcp-servers/calls/result-form.ts'
import { runSearchTool } from '../../features/mcp-servers/search/search-tools.ts'
import { runTools } from '../../features/mcp-servers/tool-providers/runs.ts'
import type { RequestEnd } from '../endpoint.ts'
import type { McpServer, McpTasks, ToolResult } from '../protocol/mcp-server.ts'
import type { ToolReader } from './hosted-content.ts'
import { responseOf, shownResult } from './hosted-results.ts'
import { tasksOf } from './hosted-tasks.ts'
import { readsStructuredContent, type ToolListing, visibleTools } from './offered-tools.ts'
import { callContext, callerOf, type RequestState } from './request-state.ts'

/** A request, with what its client is offered. */
export interface HostedRequest {
  readonly request: FastifyRequest
  readonly state: RequestState
  readonly offer: ToolListing
}

/** Calls the tool that the message names. @param denied the result, if the client may not call the tool */
export function messageCall(hosted: HostedRequest, denied: ToolResult | undefined): McpServer['call'] {
  const { called } = hosted.state
  return async (_name, _args, client) => {
    if (denied !== undefined) return denied
    const result = await callAsClient(hosted, {
      tool: String(called?.tool),
      arguments: called?.arguments,
      client,
    })
    return result && responseOf(result, client)
  }
}

/** Reads resources by calls of tools. */
export function resourceReader(hosted: HostedRequest): ToolReader {
  const { state, offer } = hosted
  const { scope, server } = state
  return {
    isGranted: offer.isGranted,
    keptResultTool: (handle) => keptResultTool(scope, server.id, handle),
    call: (tool, args, via) => {
      state.toolScope = scopeOf(server.slug, tool)
      return callAsClient(hosted, {
        tool: tool.name,
        arguments: args,
        asResource: true,
        ...(via && { via }),
      })
    },
  }
}

/** Tasks over the flows that the client may start. Undefined if the version has no tools over flows. */
export function flowTasks(hosted: HostedRequest): McpTasks | undefined {
  const { state, offer } = hosted
  const { version, isGranted } = offer
  const flows = version.manifest.tools.filter(({ binding }) => binding.source === 'flows')
  if (flows.length === 0) return undefined
  return tasksOf((verb, args) => {
    const tools = runTools(state.scope, flows.filter(isGranted))
    const own = { ...version, manifest: { ...version.manifest, tools } }
    return callAsClient(hosted, { tool: `run_${verb}`, arguments: args }, own)
  }, shownResult)
}

async function callAsClient(
  { request, state, offer }: HostedRequest,
  call: Pick<ToolCall, 'tool' | 'arguments' | 'client' | 'asResource' | 'via'>,
  version = offer.version,
): Promise<CallResult | undefined> {
  state.recorded = true
  const { isSearch = false, isWithinCall = false } = state.called ?? {}
  const toolCall = {
    ...callContext(request, state.server),
    ...callerOf(state),
    form: call.asResource
      ? AS_RESOURCE
      : formFor(state.server.results, readsStructuredContent(request) && !isWithinCall),
    ...call,
  }
  return isSearch
    ? runSearchTool(state.scope, version, toolCall, () => visibleTools(state.client, offer.sets))
    : callTool(state.scope, version, toolCall)
}

/** Records refused messages, and calls that did not reach a tool; {@link callTool} records the others. */
export async function recordEnd(
  request: FastifyRequest,
  state: RequestState,
  { message, status, refused, ...end }: RequestEnd,
): Promise<void> {
  if (state.recorded) return
  const rpcCode = end.rpcCode()
  const isRefused = refused !== undefined || rpcCode !== undefined || status >= 400
  if (!isRefused && message.method !== 'tools/call') return
  state.recorded = true
  const { tool, arguments: args } = state.called ?? {
    tool: message.params?.name,
    arguments: message.params?.arguments,
  }
  const code = refused?.code ?? state.deniedCode
  await recordCall(state.scope, {
    ...callContext(request, state.server),
    ...callerOf(state),
    ...(typeof tool === 'string' && { tool }),
    arguments: args,
    outcome: code === 'insufficient_scope' || refused?.status === 403 ? 'denied' : 'rpc_error',
    transportStatus: status,
    rpcCode,
    ...(code !== undefined && { code }),
    durationMs: Math.round(performance.now() - state.startedMs),
  })
}
