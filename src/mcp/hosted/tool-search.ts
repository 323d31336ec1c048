/** The tool that a message calls: where a server has the search of tools on, `tool_call` stands for the tool that it names. */

import { isObject } from '../../core/json.ts'
import { argumentErrors } from '../../features/mcp-servers/calls/check-values.ts'
import { CALL_INPUT, TOOL_CALL, TOOL_SEARCH } from '../../features/mcp-servers/search/search-tool-list.ts'
import type { Message } from '../endpoint.ts'

export interface CalledTool {
  /** Not validated; no tool has a name that is no string. */
  readonly tool: unknown
  readonly arguments: unknown
  /** It is `tool_search`, or a `tool_call` that names no tool. */
  readonly isSearch: boolean
  /** The client has called `tool_call`, and was shown no schema of results. */
  readonly isWithinCall: boolean
}

/**
 * Everything about a call goes by this tool: scope, challenge, rate, quota, and its entry in the log.
 * @returns undefined if the message calls no tool
 */
export function calledTool({ method, params }: Message, hasSearch: boolean): CalledTool | undefined {
  if (method !== 'tools/call') return undefined
  const { name: tool, arguments: args } = params ?? {}
  const outer = { tool, arguments: args, isSearch: false, isWithinCall: false }
  if (!hasSearch) return outer
  if (tool === TOOL_SEARCH) return { ...outer, isSearch: true }
  if (tool !== TOOL_CALL) return outer
  const isInvalid = argumentErrors({ name: TOOL_CALL, input_schema: CALL_INPUT }, args ?? {}) !== undefined
  if (isInvalid || !isObject(args)) return { ...outer, isSearch: true }
  return { tool: args['name'], arguments: args['arguments'], isSearch: false, isWithinCall: true }
}
