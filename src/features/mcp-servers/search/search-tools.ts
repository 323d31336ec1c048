/** Runs `tool_search`, and answers calls of `tool_call` that name no tool. Both are recorded as calls are. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { portableInput } from '../../../core/portable-schema.ts'
import { withoutNulls } from '../calls/absent-arguments.ts'
import { type CallEnd, type CallResult, endOf, type ToolCall, toolError } from '../calls/call-end.ts'
import { recordedCall, withinLimits } from '../calls/call-tool.ts'
import { argumentErrors } from '../calls/check-values.ts'
import { MCP_LIMITS } from '../limits.ts'
import type { PublishedVersion } from '../manifest.ts'
import type { JsonSchema, Tool } from '../tool.ts'
import { CALL_INPUT, SEARCH_INPUT, TOOL_SEARCH } from './search-tool-list.ts'
import { rankTools } from './tool-index.ts'

/** A tool that the client is shown, in full or by search. */
export interface VisibleTool {
  readonly tool: Tool
  /** The full scope that it needs and the token lacks. */
  readonly missingScope?: string | undefined
}

/**
 * @param call of `tool_search`, or of `tool_call` without the name of a tool
 * @param visible the tools that the client may be shown
 */
export function runSearchTool(
  scope: WorkspaceScope,
  version: PublishedVersion,
  call: ToolCall,
  visible: () => readonly VisibleTool[],
): Promise<CallResult | undefined> {
  return recordedCall(scope, version, call, () =>
    withinLimits(scope, call, {}, async () => {
      const schema = call.tool === TOOL_SEARCH ? SEARCH_INPUT : CALL_INPUT
      const args = withoutNulls(schema, call.arguments ?? {})
      const invalid = argumentErrors({ name: call.tool, input_schema: schema }, args)
      if (invalid !== undefined) return toolError('validation_failed', invalid)
      return { ...search(version, args as SearchInput, visible()), changesNothing: true }
    }),
  )
}

interface SearchInput {
  readonly query: string
  readonly limit?: number
}

interface Hit {
  readonly name: string
  readonly title: string
  readonly description?: string
  readonly inputSchema?: JsonSchema
  /** Missing if the token allows the tool. */
  readonly needs_scope?: string
}

/** The hits as JSON text. Without a hit, the names of all tools, of which the model may know one. */
function search(
  version: PublishedVersion,
  { query, limit = MCP_LIMITS.searchHitsDefault }: SearchInput,
  visible: readonly VisibleTool[],
): CallEnd {
  const shown = new Map(visible.map((one) => [one.tool.name, one]))
  const found = rankTools(version, query).flatMap(({ name }) => shown.get(name) ?? [])
  if (found.length === 0)
    return endWithJson({
      tools: [],
      hint: 'No tool matches. Search with other words, or by one of these names.',
      names: [...shown.keys()],
    })
  const tools = withinBudget(found.slice(0, limit).map(hitOf))
  return endWithJson({ tools, more: Math.max(0, found.length - limit) })
}

const hitOf = ({ tool, missingScope }: VisibleTool): Hit => ({
  name: tool.name,
  title: tool.title,
  description: tool.description,
  inputSchema: portableInput(tool.input_schema),
  ...(missingScope !== undefined && { needs_scope: missingScope }),
})

/** Leaves descriptions and schemas out that do not fit into the budget of a result; a search for fewer tools returns them. */
function withinBudget(hits: readonly Hit[]): Hit[] {
  let left: number = MCP_LIMITS.resultBytesDefault
  return hits.map((hit) => {
    const bytes = Buffer.byteLength(JSON.stringify(hit))
    if (bytes <= left) {
      left -= bytes
      return hit
    }
    const { description: _description, inputSchema: _inputSchema, ...rest } = hit
    return rest
  })
}

const endWithJson = (output: object): CallEnd =>
  endOf({ content: [{ type: 'text', text: JSON.stringify(output) }], is_error: false })
