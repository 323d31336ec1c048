/** Compiles `call: mcp`: calls a tool of an MCP server of the workspace (OWS 1.0.3 "MCP Call", with `server` in place of `transport`). */

import type { CompileContext } from '../compile/compile-context.ts'
import { entryOf, type MapNode, valueAt } from '../compile/source-nodes.ts'
import { secretsOf } from '../components/components.ts'
import type { Json, Template } from '../ir.ts'
import { isObject } from '../json.ts'
import { compileInlineOption, literalField } from './task.ts'

/** The name of the function that a compiled call invokes, with the arguments `{server, tool, arguments}`. */
export const MCP = 'mcp'

const KEYS = ['server', 'tool', 'arguments']
/** Keys by which the standard names a server at an endpoint, or a method of it. */
const ENDPOINT_KEYS = ['transport', 'method', 'parameters', 'client', 'protocolVersion']
/** A slug or an id of a server; a name of a tool. */
export const MCP_NAME = '^[A-Za-z0-9_.-]{1,100}$'

export interface McpBody {
  readonly function: typeof MCP
  readonly arguments: Template
}

export function compileMcp(task: MapNode, context: CompileContext): McpBody | undefined {
  const withNode = context.requiredMap(task, '`call: mcp`', 'with')
  if (withNode === undefined) return undefined
  const endpoint = ENDPOINT_KEYS.map((key) => entryOf(withNode, key)).find((entry) => entry !== undefined)
  if (endpoint !== undefined && entryOf(withNode, 'server') === undefined) {
    const message =
      '`call: mcp` of a server at an endpoint is part of the language, but not supported in this release.'
    const hint =
      'Name a server of the workspace: with: { server: desk, tool: notes_list, arguments: { limit: 5 } }.'
    return context.report('unsupported_call', endpoint.at, message, hint)
  }
  context.keys(withNode, '`with`', KEYS)
  const [server, tool] = [nameAt(withNode, 'server', context), nameAt(withNode, 'tool', context)]
  const args = argumentsTemplate(withNode, context)
  // Reports `metadata.tenon.local: true`: a tool may change something, and a local call may be made twice.
  compileInlineOption(task, false, context)
  if (server === undefined || tool === undefined || args === undefined) return undefined
  const object = [
    ['server', { literal: server }],
    ['tool', { literal: tool }],
    ['arguments', args],
  ] as const
  return { function: MCP, arguments: { object } }
}

/** A literal name: the tools that a flow may call are known before it runs. */
function nameAt(withNode: MapNode, key: 'server' | 'tool', context: CompileContext): string | undefined {
  const name = context.requiredText(withNode, '`with`', key)
  if (name === undefined || new RegExp(MCP_NAME).test(name)) return name
  const message = `\`${key}\` must be a name: letters, digits, \`_\`, \`-\` and \`.\`, and no expression.`
  return context.report('value_invalid', valueAt(withNode, key) ?? withNode, message)
}

function argumentsTemplate(withNode: MapNode, context: CompileContext): Template | undefined {
  const value = valueAt(withNode, 'arguments')
  if (value === undefined) return { literal: {} }
  const template = context.mapTemplate(value, '`arguments`')
  context.yields(value, '`arguments`', template, ['object'])
  const [secret] = template === undefined ? [] : secretsOf(template)
  if (secret === undefined) return template
  const message = `The tool would receive the secret \`${secret}\`, and could store or return it.`
  const hint = 'Leave the secret out. Only calls of other servers and functions can receive secrets.'
  return context.report('secret_stored', value, message, hint)
}

/** The tool that a compiled call names, and the names of its arguments; undefined if an expression yields them. */
export function mcpCallOf({ arguments: template }: McpBody): {
  readonly server: string
  readonly tool: string
  readonly names: readonly string[] | undefined
} {
  const args = 'object' in template ? template.object.find(([key]) => key === 'arguments')?.[1] : undefined
  const [server, tool] = ['server', 'tool'].map((key) => String(literalField(template, key)))
  return { server: server ?? '', tool: tool ?? '', names: args && namesOf(args) }
}

function namesOf(args: Template): readonly string[] | undefined {
  if ('object' in args) return args.object.map(([name]) => name)
  return 'literal' in args && isObject(args.literal) ? Object.keys(args.literal) : undefined
}

/** `server/tool`, by which mocks and summaries name a tool. */
export const toolPath = ({ server, tool }: { readonly server?: Json; readonly tool?: Json }): string =>
  `${server}/${tool}`
