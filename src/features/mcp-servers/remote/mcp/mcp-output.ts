/** The result of a tool of another MCP server as the output of a tool: the content that this platform passes on, and no more. */

import { exceedsDepth, isObject } from '../../../../core/json.ts'
import { Problem } from '../../../../core/problem.ts'
import { type Content, contentOf } from '../../calls/content.ts'
import { fencedContent } from '../../calls/untrusted-text.ts'
import { MCP_LIMITS } from '../../limits.ts'
import type { ToolOutput } from '../../tool.ts'
import type { UpstreamReply } from './mcp-client.ts'

/**
 * @param reply to `tools/call`
 * @param hasSchema the tool has an output schema, so that its result is the structured content
 * @throws Problem `upstream_invalid` for a result without structured content though its tool promises it, or too deep
 */
export function outputOf({ result = {}, error }: UpstreamReply, hasSchema: boolean): ToolOutput {
  if (error !== undefined) return contentOutput([text(`Error ${error.code}: ${error.message}`)], true)
  if (exceedsDepth(result, MCP_LIMITS.messageDepthMax))
    throw invalid(`is nested deeper than ${MCP_LIMITS.messageDepthMax}`)
  const { content, structuredContent, isError } = result
  const failed = isError === true
  const isStructured = structuredContent !== undefined && structuredContent !== null
  if (hasSchema && !failed) {
    if (!isStructured) throw invalid('has no structured content, though the tool has an output schema')
    return { output: structuredContent, failed }
  }
  const items = Array.isArray(content) ? contentItems(content) : []
  if (items.length > 0) return contentOutput(items, failed)
  return contentOutput([text(isStructured ? JSON.stringify(structuredContent) : '(no content)')], failed)
}

/** One text is an output like that of other sources, so that it is kept if it is large. */
function contentOutput(content: readonly unknown[], failed: boolean): ToolOutput {
  const { content: items } = contentOf({ content }) ?? { content: [] }
  const [only] = items
  if (items.length === 1 && only?.type === 'text') return { output: only.text, failed }
  return { output: null, failed, content: fencedContent(items) }
}

/** As many items as a result may have, and in the place of what is no content a text that says so. */
function contentItems(content: readonly unknown[]): unknown[] {
  const passed = content.slice(0, content.length > ITEMS_MAX ? ITEMS_MAX - 1 : ITEMS_MAX).map((item) => {
    const block = toContent(item)
    if (contentOf({ content: [block] }) !== undefined) return block
    return text(`(content of the type ${typeOf(item)} is not passed on)`)
  })
  const more = content.length - passed.length
  return more === 0 ? passed : [...passed, text(`(${more} more parts are not passed on)`)]
}

const ITEMS_MAX = 50
const typeOf = (item: unknown) => String(Object(item).type).slice(0, 50)

const text = (value: string): Content => ({ type: 'text', text: value })

/** One item with the members that are passed on; annotations and `_meta` are not. */
function toContent(item: unknown): unknown {
  if (!isObject(item)) return undefined
  const { type, text: words, data, mimeType, uri, name, description, resource } = item
  if (type === 'text') return { type, text: words }
  if (type === 'image' || type === 'audio') return { type, data, mimeType }
  if (type === 'resource_link') return defined({ type, uri, name, description, mimeType })
  if (type === 'resource' && isObject(resource)) {
    const { uri: at, mimeType: kind, text: body, blob } = resource
    return { type, resource: defined({ uri: at, mimeType: kind, text: body, blob }) }
  }
  return undefined
}

const defined = (members: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))

const invalid = (detail: string) =>
  new Problem('upstream_invalid', { detail: `The result of the MCP server ${detail}.` })
