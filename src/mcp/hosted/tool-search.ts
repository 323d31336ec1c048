/** Finds the tool that a message calls. If a server has the search of tools on, `tool_call` stands for the tool that it names. */

import { isObject } from '../../core/json.ts'
import { withoutNulls } from '../../features/mcp-servers/calls/absent-arguments.ts'
import { argumentErrors } from '../../features/mcp-servers/calls/check-values.ts'
import { CALL_INPUT, TOOL_CALL, TOOL_SEARCH } from '../../features/mcp-servers/search/search-tool-list.ts'
import type { Message } from '../endpoint.ts'

export interface CalledTool {
  /** The name, not validated: it may be no string. */
  readonly tool: unknown
  readonly arguments: unknown
  /** It is `tool_search`, or a `tool_call` that names no tool. */
  readonly isSearch: boolean
  /** The tool is called by `tool_call`. Its result is text, since the search shows no output schemas. */
  readonly isWithinCall: boolean
}

/**
 * The scope, the challenge, the rate, the quota and the entry in the log are those of this tool.
 * @returns undefined if the message calls no tool
 */
export function calledTool({ method, params }: Message, hasSearch: boolean): CalledTool | undefined {
  if (method !== 'tools/call') return undefined
  const { name: tool, arguments: args } = params ?? {}
  const outer = { tool, arguments: args, isSearch: false, isWithinCall: false }
  if (!hasSearch) return outer
  if (tool === TOOL_SEARCH) return { ...outer, isSearch: true }
  if (tool !== TOOL_CALL) return outer
  const inner = withoutNulls(CALL_INPUT, args ?? {})
  const isInvalid = argumentErrors({ name: TOOL_CALL, input_schema: CALL_INPUT }, inner) !== undefined
  if (isInvalid || !isObject(inner)) return { ...outer, isSearch: true }
  return { tool: inner['name'], arguments: inner['arguments'], isSearch: false, isWithinCall: true }
}
