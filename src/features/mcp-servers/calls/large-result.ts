/** The answer to a call whose result exceeds its budget: the result is kept, and the answer has a link to it. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { isObject } from '../../../core/json.ts'
import { MCP_LIMITS } from '../limits.ts'
import { budgetOf, type Tool } from '../tool.ts'
import { resultError } from './check-values.ts'
import type { Content, ToolResult } from './content.ts'
import { keepResult, resultUri } from './kept-results.ts'
import { marked, type ResultForm } from './result-form.ts'
import { delimitUntrusted } from './untrusted-text.ts'

interface LargeResult {
  readonly output: unknown
  /** The output, if it is content of MCP. */
  readonly blocks: readonly Content[] | undefined
  /** Of its JSON. */
  readonly bytes: number
  readonly failed: boolean
}

interface LargeResultCall {
  readonly serverId: string
  readonly tool: Tool
  /** The tool of the version that reads kept results, by name. */
  readonly reader: string | undefined
  readonly form: ResultForm
  readonly asResource?: boolean
}

/**
 * Keeps a result. Clients that read structured content get the members of it that fit; if its schema requires more, the
 * answer is an error, since clients refuse other results of a tool with a schema.
 * @returns undefined if the result is too large to keep, or the workspace has no room for it
 */
export async function largeResult(
  scope: WorkspaceScope,
  { serverId, tool, reader, form, asResource = false }: LargeResultCall,
  { output, blocks, bytes, failed }: LargeResult,
): Promise<ToolResult | undefined> {
  const file = fileOf(output, blocks)
  if (file.content.length > MCP_LIMITS.keptResults.bytesMax) return undefined
  const handle = await keepResult(scope, { serverId, tool: tool.name, ...file })
  if (handle === undefined) return undefined
  const takesStructure = form.hasStructure && !asResource && tool.output_schema !== undefined
  const part = takesStructure ? partOf(tool, output) : undefined
  // A part of it would be taken for the whole resource.
  const isError = failed || asResource || (takesStructure && part === undefined)
  const link = {
    type: 'resource_link' as const,
    uri: resultUri(handle),
    name: `Result of ${tool.name}`,
    mimeType: file.mimeType,
    size: file.content.length,
  }
  const byTool = reader === undefined ? '' : `it with ${reader} and the handle ${handle}, or `
  const lines = [
    `${isError ? 'output_too_large: ' : ''}The result has ${bytes} bytes; at most ${budgetOf(tool)} are returned at once.`,
    part && `This answer lacks ${inWords(tool, part)}.`,
    isError && !failed && !tool.reads && 'The call itself was carried out: do not repeat it.',
    `All of it is kept for ${MCP_LIMITS.keptResults.seconds / 60} minutes: read ${byTool}the resource ${link.uri}.`,
    adviceFor(tool),
  ]
  const text = lines.filter(Boolean).join(' ')
  return {
    // Clients that do not read structured content do not know links to resources either.
    content: [
      { type: 'text', text },
      ...(part && form.hasText
        ? [{ type: 'text' as const, text: delimitUntrusted(JSON.stringify(part.value)) }]
        : []),
      ...(form.knowsLinks ? [link] : []),
    ],
    ...(part && { structured_content: form.isMarked ? marked(part.value) : part.value }),
    is_error: isError,
  }
}

/** How to ask for less. */
export function adviceFor({ input_schema }: Tool): string {
  const hasFields = Object.hasOwn(Object(input_schema['properties']), 'fields')
  return hasFields ? 'Name the `fields` that you need.' : ''
}

interface ResultFile {
  readonly mimeType: string
  readonly content: Buffer
}

/** The file that is stored: a single text, image or file as it is, every other result as JSON. */
function fileOf(output: unknown, blocks: readonly Content[] | undefined): ResultFile {
  if (typeof output === 'string') return { mimeType: 'text/plain', content: Buffer.from(output) }
  const [only, ...others] = blocks ?? []
  const file = only === undefined || others.length > 0 ? undefined : fileOfBlock(only)
  return file ?? { mimeType: 'application/json', content: Buffer.from(JSON.stringify(output) ?? 'null') }
}

function fileOfBlock(block: Content): ResultFile | undefined {
  if (block.type === 'text') return { mimeType: 'text/plain', content: Buffer.from(block.text) }
  if (block.type === 'resource_link') return undefined
  if (block.type !== 'resource')
    return { mimeType: block.mimeType, content: Buffer.from(block.data, 'base64') }
  const { mimeType, ...resource } = block.resource
  return 'text' in resource
    ? { mimeType: mimeType ?? 'text/plain', content: Buffer.from(resource.text) }
    : { mimeType: mimeType ?? 'application/octet-stream', content: Buffer.from(resource.blob, 'base64') }
}

interface ResultPart {
  readonly value: Record<string, unknown>
  /** Names of the members that are left out. */
  readonly without: readonly string[]
}

/** The output without its largest members, as many as its schema does not require; undefined if the rest is still too large. */
function partOf(tool: Tool, output: unknown): ResultPart | undefined {
  if (!isObject(output)) return undefined
  const required = new Set([tool.output_schema?.['required']].flat())
  const members = Object.entries(output)
    .map(([name, member]) => ({ name, bytes: bytesOf({ [name]: member }) }))
    .sort((a, b) => b.bytes - a.bytes)
  const without = new Set<string>()
  let bytes = members.reduce((sum, member) => sum + member.bytes, 0)
  for (const member of members) {
    if (bytes <= roomOf(tool)) break
    if (required.has(member.name)) continue
    without.add(member.name)
    bytes -= member.bytes
  }
  const value = Object.fromEntries(Object.entries(output).filter(([name]) => !without.has(name)))
  const fits = bytes <= roomOf(tool) && resultError(tool, value) === undefined
  return fits ? { value, without: [...without] } : undefined
}

const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value) ?? '')

/** The part of the budget that is not for the text and the link. */
const roomOf = (tool: Tool) => Math.max(budgetOf(tool) - 1_000, budgetOf(tool) / 4)

/** Members that a schema declares, by name: other names are data. */
function inWords({ output_schema }: Tool, { without }: ResultPart): string {
  const declared = Object(output_schema?.['properties'])
  const named = without.filter((name) => Object.hasOwn(declared, name)).slice(0, 20)
  const others = without.length - named.length
  return [...named, ...(others > 0 ? [`${others} other ${others === 1 ? 'member' : 'members'}`] : [])].join(
    ', ',
  )
}
