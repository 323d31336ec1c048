/** The search of tools: `tool_search`, and the answer to a `tool_call` that names no tool. */

import { portableInput } from '../../../core/portable-schema.ts'
import { argumentErrors, withoutNulls } from '../calls/check-values.ts'
import { type CallEnd, endOf, type ToolCall, toolError } from '../calls/tool-result.ts'
import { MCP_LIMITS } from '../limits.ts'
import type { PublishedVersion } from '../manifest.ts'
import type { JsonSchema } from '../tool.ts'
import { CALL_INPUT, SEARCH_INPUT, TOOL_SEARCH, type VisibleTool } from './search-tool-list.ts'
import { rankTools } from './tool-index.ts'

/** Answers a call of `tool_search`, or of a `tool_call` that names no tool, by the tools that its client may be shown. */
export function searchTools(
  version: PublishedVersion,
  { tool, arguments: received, visibleTools = () => [] }: ToolCall,
): CallEnd {
  const schema = tool === TOOL_SEARCH ? SEARCH_INPUT : CALL_INPUT
  const args = withoutNulls(schema, received ?? {})
  const invalid = argumentErrors({ name: tool, input_schema: schema }, args)
  if (invalid !== undefined) return toolError('validation_failed', invalid)
  return search(version, args as SearchInput, visibleTools())
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
  const byName = new Map(visible.map((one) => [one.tool.name, one]))
  const found = rankTools(version, query).flatMap(({ name }) => byName.get(name) ?? [])
  if (found.length === 0)
    return endWithJson({
      tools: [],
      hint: 'No tool matches. Search with other words, or by one of these names.',
      names: [...byName.keys()],
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
