/** The tools that stand for all others where a server has many: `tool_search` finds tools, `tool_call` calls them. */

import { READS, strictestOf } from '../../../core/tool-annotations.ts'
import { MCP_LIMITS } from '../limits.ts'
import type { JsonSchema, Tool } from '../tool.ts'

export const TOOL_SEARCH = 'tool_search'
export const TOOL_CALL = 'tool_call'

/** Names that no other tool takes. */
export const SEARCH_TOOL_NAMES: readonly string[] = [TOOL_SEARCH, TOOL_CALL]

/** A tool that the client is shown, in full or by search. */
export interface VisibleTool {
  readonly tool: Tool
  /** The full scope that it needs and the token lacks. */
  readonly missingScope?: string | undefined
}

/** A server setting. `auto`: on if the active version has more than {@link MCP_LIMITS.toolsListedMax} tools. */
export type SearchMode = 'auto' | 'on' | 'off'

export const usesSearch = (mode: SearchMode, tools: readonly Tool[]): boolean =>
  mode === 'on' || (mode === 'auto' && tools.length > MCP_LIMITS.toolsListedMax)

export const SEARCH_INPUT: JsonSchema = {
  type: 'object',
  properties: {
    query: {
      type: 'string',
      minLength: 1,
      maxLength: MCP_LIMITS.searchQueryCharsMax,
      description: 'Words for the task, such as `refund order`.',
    },
    limit: {
      type: 'integer',
      minimum: 1,
      maximum: MCP_LIMITS.searchHitsMax,
      default: MCP_LIMITS.searchHitsDefault,
    },
  },
  required: ['query'],
  additionalProperties: false,
}

export const CALL_INPUT: JsonSchema = {
  type: 'object',
  properties: {
    name: { type: 'string', minLength: 1, maxLength: 200, description: 'As tool_search returned it.' },
    arguments: {
      type: 'object',
      description: 'As `inputSchema` of the tool says.',
      additionalProperties: true,
    },
  },
  required: ['name'],
  additionalProperties: false,
}

/**
 * Both tools as clients are shown them. `tool_call` looks no safer than any tool that it may call.
 * @param tools all tools of the version
 */
export const searchToolsFor = (tools: readonly Tool[]) => [
  {
    name: TOOL_SEARCH,
    title: 'Find tools',
    description:
      'Finds tools of this server by what they do; most of them are not in this list. Returns names, descriptions and input schemas, best match first. Search before you say that something cannot be done.',
    inputSchema: SEARCH_INPUT,
    annotations: READS,
  },
  {
    name: TOOL_CALL,
    title: 'Call a tool',
    description:
      'Calls a tool that tool_search has found. It is the same as calling the tool itself, with the same rights and limits.',
    inputSchema: CALL_INPUT,
    annotations: strictestOf(tools.map(({ annotations }) => annotations)),
  },
]
