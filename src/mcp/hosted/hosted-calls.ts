/** Calls of the tools of a hosted server by one request, with the rights of its client, and their entries in the call log. */

import type { FastifyRequest } from 'fastify'
import { scopeOf } from '../../core/tool-access.ts'
import type { CallClient } from '../../features/mcp-servers/calls/call-client.ts'
import { recordCall } from '../../features/mcp-servers/calls/call-log.ts'
import { callTool } from '../../features/mcp-servers/calls/call-tool.ts'
import { keptResultTool } from '../../features/mcp-servers/calls/kept-results.ts'
import { AS_RESOURCE, formFor } from '../../features/mcp-servers/calls/result-form.ts'
import type { CallResult, ToolCall } from '../../features/mcp-servers/calls/tool-result.ts'
import { executionTools } from '../../features/mcp-servers/tool-providers/executions.ts'
import type { RequestEnd } from '../endpoint.ts'
import type { InputRequired, McpServer, McpTasks, Task, ToolResult } from '../protocol/mcp-server.ts'
import { callContext, callerOf, type RequestState } from './hosted-access.ts'
import type { ToolReader } from './hosted-content.ts'
import { taskOf, tasksOf } from './hosted-tasks.ts'
import { readsStructuredContent, type ToolListing, visibleTools } from './offered-tools.ts'

/** A request, with what its client is offered. */
export interface HostedRequest {
  readonly request: FastifyRequest
  readonly state: RequestState
  readonly offer: ToolListing
}

/** Calls the tool that the message names. @param denied the result, if the client may not call the tool */
export function messageCall(hosted: HostedRequest, denied: ToolResult | undefined): McpServer['call'] {
  const { state, offer } = hosted
  return async (_name, _args, client) => {
    if (denied !== undefined) return denied
    const { tool, arguments: args, isSearch = false } = state.called ?? {}
    const call = toolCall(hosted, {
      tool: String(tool),
      arguments: args,
      client,
      ...(isSearch && { visibleTools: () => visibleTools(state.client, offer.sets) }),
    })
    const result = await callTool(state.scope, offer.version, call)
    return result && toResponse(result, client)
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
      const read = { tool: tool.name, arguments: args, asResource: true, ...(via && { via }) }
      return callTool(scope, offer.version, toolCall(hosted, read))
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
    const tools = executionTools(state.scope, flows.filter(isGranted))
    const own = { ...version, manifest: { ...version.manifest, tools } }
    return callTool(state.scope, own, toolCall(hosted, { tool: `execution_${verb}`, arguments: args }))
  }, toToolResult)
}

/** A call by the client of a request, which is recorded by {@link callTool}. */
function toolCall(
  { request, state }: HostedRequest,
  call: Pick<ToolCall, 'tool' | 'arguments' | 'client' | 'asResource' | 'via' | 'visibleTools'>,
): ToolCall {
  state.recorded = true
  const isStructured = readsStructuredContent(request) && state.called?.isWithinCall !== true
  return {
    ...callContext(request, state.server),
    ...callerOf(state),
    form: call.asResource ? AS_RESOURCE : formFor(state.server.results, isStructured),
    ...call,
  }
}

/** Converts the result of a call to the response for its client: a result, an input request, or a task. */
function toResponse(result: CallResult, { takesTasks }: CallClient): ToolResult | InputRequired | Task {
  const { inputRequired, execution } = result
  if (inputRequired !== undefined) return { resultType: 'input_required', ...inputRequired }
  return (takesTasks ? taskOf(execution) : undefined) ?? toToolResult(result)
}

function toToolResult({ content, structured_content, is_error }: CallResult): ToolResult {
  return {
    content,
    ...(structured_content && { structuredContent: structured_content }),
    isError: is_error,
  }
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
