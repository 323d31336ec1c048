/** Checks the constant `tool` that a function's module exports: what a tool over the function says of itself. */

import Type, { type Static } from 'typebox'
import { CompileContext } from '../../../flows-dsl/compile/compile-context.ts'
import { type MapNode, type SourceNode, valueAt } from '../../../flows-dsl/compile/source-nodes.ts'
import { type Diagnostic, nearest } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import { fieldOf, isObject, type JsonObject, omitUndefined, unescaped } from '../../../flows-dsl/json.ts'
import { checkSchema } from '../../../flows-dsl/json-schema/check-schema.ts'
import { LIMITS } from '../../core/limits.ts'
import { exportedLiteral, originalLocations } from './module-literal.ts'
import type { Fault } from './sandbox/compile.ts'

const Schema = Type.Record(Type.String(), Type.Unknown(), { description: 'JSON Schema 2020-12.' })
/** Description, schemas and effect of the tools over a function. */
export const FunctionTool = Type.Object(
  {
    description: Type.Optional(Type.String()),
    input_schema: Type.Optional(Schema),
    output_schema: Type.Optional(Schema),
    read_only: Type.Optional(Type.Boolean()),
  },
  {
    description: 'What the module exports as `tool`, for tools over the function; absent if it exports none.',
  },
)
export type FunctionTool = Static<typeof FunctionTool>

const NAME = 'tool'
const MEMBERS = ['description', 'input', 'output', 'readOnly']

interface ExportedTool {
  /** Undefined if the module exports none, or one with faults. */
  readonly tool?: FunctionTool
  readonly faults: readonly Fault[]
}

/**
 * Reads the exported constant `tool` of a module and checks it. Runs none of the module's code. Takes CPU time and stack
 * that grow with the module, so it belongs in a worker thread.
 * @param code as `compileFunction` returns it
 */
export function exportedTool(code: string): ExportedTool {
  const context = new CompileContext({})
  const given = exportedLiteral(code, NAME, context)
  const tool = given && compileTool(given, context)
  if (context.diagnostics.length === 0) return { faults: [], ...(tool && { tool }) }
  const locate = originalLocations(code)
  const faults = context.diagnostics.map((one) => ({ message: messageOf(one), ...locate(one.column) }))
  faults.sort((a, b) => a.line - b.line || a.column - b.column)
  return { faults: faults.slice(0, LIMITS.faultsShownMax) }
}

function messageOf({ pointer, message, hint = '' }: Diagnostic): string {
  return `\`${pathOf(pointer)}\`: ${message} ${hint}`.trim().slice(0, LIMITS.functionMessageCharsMax)
}

/** A pointer as JavaScript: `tool.input.properties["unit-price"]`. */
function pathOf(pointer: string): string {
  const steps = pointer.split('/').slice(1).map(unescaped)
  const path = steps.map((step) => {
    if (/^[A-Za-z_$][\w$]*$/.test(step)) return `.${step}`
    return /^\d+$/.test(step) ? `[${step}]` : `[${JSON.stringify(step)}]`
  })
  const text = `${NAME}${path.join('')}`
  return text.length > LIMITS.nameCharsMax ? `${text.slice(0, LIMITS.nameCharsMax)}…` : text
}

function compileTool(given: SourceNode, context: CompileContext): FunctionTool | undefined {
  if (given.kind !== 'map') return context.report('wrong_type', given, 'It must be an object.')
  rejectUnknown(given, context)
  return omitUndefined({
    description: compileDescription(given, context),
    input_schema: compileSchema(given, 'input', context),
    output_schema: compileSchema(given, 'output', context),
    read_only: compileReadOnly(given, context),
  })
}

function rejectUnknown({ entries }: MapNode, context: CompileContext): void {
  const known = `It takes ${MEMBERS.join(', ')}.`
  for (const { key, at } of entries) {
    if (MEMBERS.includes(key)) continue
    const near = nearest(key, MEMBERS)
    const hint = near === undefined ? known : `Did you mean \`${near}\`? ${known}`
    context.report('unknown_key', at, `The export \`${NAME}\` has no such member.`, hint)
  }
}

function compileDescription(map: MapNode, context: CompileContext): string | undefined {
  const given = valueAt(map, 'description')
  const text = given && context.text(given, '`description`')
  if (given === undefined || text === undefined) return undefined
  const max = LIMITS.mcpDescriptionCharsMax
  if (text.trim() === '') return context.report('value_invalid', given, '`description` must not be empty.')
  if (text.length <= max) return text
  return context.report('value_invalid', given, `\`description\` must have at most ${max} characters.`)
}

function compileReadOnly(map: MapNode, context: CompileContext): boolean | undefined {
  const given = valueAt(map, 'readOnly')
  if (given === undefined || (given.kind === 'scalar' && typeof given.value === 'boolean'))
    return given && Boolean(given.value)
  return context.report('wrong_type', given, '`readOnly` must be true or false.')
}

/** The schema of a member. That of an object gets its `type`, which MCP requires; the input must be an object. */
function compileSchema(
  map: MapNode,
  member: 'input' | 'output',
  context: CompileContext,
): JsonObject | undefined {
  const given = valueAt(map, member)
  const schema = given && checkSchema(given, context)
  if (given === undefined || schema === undefined) return undefined
  if (!isObject(schema)) return context.report('wrong_type', given, `\`${member}\` must be an object.`)
  const properties = fieldOf(schema, 'properties')
  const type = fieldOf(schema, 'type') ?? (properties && 'object')
  if (type !== 'object') {
    if (member === 'output') return schema
    const message = "`input` must be the schema of an object, whose members are the tool's arguments."
    return context.report('value_invalid', given, message, "Write `type: 'object'`, and `properties`.")
  }
  // Clients of MCP refuse a whole list of tools that has the schema `true` or `false` here.
  const [name] = Object.entries(properties ?? {}).find(([, value]) => typeof value === 'boolean') ?? []
  if (name === undefined) return { type, ...schema }
  const message = `\`${name}\` in \`properties\` must be an object, which clients of MCP require.`
  return context.report('value_invalid', given, message, 'Write {} for any value.')
}
