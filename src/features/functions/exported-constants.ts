/** Checks what a function's module imports, and the constants `input`, `output`, `tool` and `config` that it exports. */

import Type, { type Static } from 'typebox'
import { Compile } from 'typebox/compile'
import { CompileContext } from '../../../flows-dsl/compile/compile-context.ts'
import {
  type MapNode,
  nodeAt,
  nodeToJson,
  type SourceNode,
  valueAt,
} from '../../../flows-dsl/compile/source-nodes.ts'
import { type Diagnostic as FlowDiagnostic, nearest } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import { fieldOf, isObject, type JsonObject, omitUndefined } from '../../../flows-dsl/json.ts'
import { checkSchema } from '../../../flows-dsl/json-schema/check-schema.ts'
import { unescapePointer } from '../../core/json.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { sentences } from '../../core/text/sentences.ts'
import { MCP_LIMITS } from '../mcp-servers/limits.ts'
import { ConfigChange, FunctionConfig } from './config.ts'
import { FUNCTION_LIMITS } from './limits.ts'
import { exportedLiteral } from './module-literal.ts'
import { type ModuleImport, type ModuleSyntax, parseModule } from './module-syntax.ts'
import type { Diagnostic, ExportName } from './sandbox/compile.ts'
import { inlineMap, originOf, type Position } from './source-map.ts'

/** Description and effect of the tools over a function. */
export const FunctionTool = Type.Object(
  {
    description: Type.Optional(Type.String()),
    read_only: Type.Optional(Type.Boolean()),
  },
  {
    description: 'Export `tool` of the module, for tools over the function; absent if the module has none.',
  },
)
export type FunctionTool = Static<typeof FunctionTool>

/** The constants that the module of a version exports. Members are absent if the module does not export them. */
export interface FunctionConstants {
  readonly tool?: FunctionTool
  readonly input_schema?: JsonObject
  readonly output_schema?: JsonObject
  readonly config?: ConfigChange
}

const MEMBERS = ['description', 'readOnly']
const PLATFORM = 'tenon'

/** A module as `compileFunction` returns it, and the source map of the bundle, if that has one. */
export interface CompiledModule {
  readonly code: string
  readonly exported: readonly ExportName[]
  readonly sourceMap?: string
}

export interface ReadModule {
  readonly constants: FunctionConstants
  /** At most `faultsShownMax`, in the order of the source. */
  readonly diagnostics: readonly Diagnostic[]
}

/**
 * Reads the exported constants of a module and checks them, and its imports. Runs none of the module's code. Takes CPU time
 * and stack that grow with the module, so it belongs in a worker thread.
 */
export function readModule({ code, exported, sourceMap }: CompiledModule): ReadModule {
  const syntax = parseModule(code)
  if ('reason' in syntax) {
    const message = `The module cannot be parsed: ${syntax.reason}.`
    return { constants: {}, diagnostics: located(code, sourceMap, [{ message, offset: syntax.offset }]) }
  }
  const read = exported.map((name) => readConstant(syntax, name))
  const found = [...importDiagnostics(syntax.imports), ...read.flatMap(({ diagnostics }) => diagnostics)]
  if (found.length > 0) return { constants: {}, diagnostics: located(code, sourceMap, found) }
  return { constants: Object.assign({}, ...read.map(({ constant }) => constant)), diagnostics: [] }
}

/** `offset` counts UTF-16 code units in the compiled code. */
interface OffsetDiagnostic {
  readonly message: string
  readonly offset: number
}

/** The diagnostics with their positions in the developer's files. */
function located(
  code: string,
  sourceMap: string | undefined,
  found: readonly OffsetDiagnostic[],
): Diagnostic[] {
  const maps = { compiled: inlineMap(code), bundle: sourceMap }
  const shown = [...found].sort((a, b) => a.offset - b.offset).slice(0, CORE_LIMITS.diagnosticsReturnedMax)
  const diagnostics = shown.map(({ message, offset }) => ({
    message,
    ...originOf(maps, positionOf(code, offset)),
  }))
  return diagnostics.sort(byPosition)
}

const byPosition = (a: Diagnostic, b: Diagnostic) =>
  (a.file ?? '').localeCompare(b.file ?? '') || a.line - b.line || a.column - b.column

function positionOf(code: string, offset: number): Position {
  const lines = code.slice(0, offset).split('\n')
  return { line: lines.length, column: (lines.at(-1) ?? '').length + 1 }
}

function importDiagnostics(imports: readonly ModuleImport[]): OffsetDiagnostic[] {
  return imports.flatMap(({ specifier, offset }) => {
    if (specifier === PLATFORM) return []
    const shown = JSON.stringify(specifier.slice(0, CORE_LIMITS.nameCharsMax))
    const message = `A function imports nothing but \`${PLATFORM}\`, and this imports ${shown}.`
    return [{ message: sentences(message, importHint(specifier)), offset }]
  })
}

function importHint(specifier: string): string {
  if (/^(node|https?|data|file|jsr|blob):/i.test(specifier))
    return 'Functions have neither Node modules nor remote code: use what browsers have, or an npm package.'
  const what = specifier.startsWith('.') ? 'its files' : 'npm packages'
  return `Deploy it with \`npx tenon fn deploy\`, which bundles ${what} into one module.`
}

function readConstant(
  { program }: ModuleSyntax,
  name: ExportName,
): { constant: FunctionConstants; diagnostics: OffsetDiagnostic[] } {
  const context = new CompileContext({})
  const given = exportedLiteral(program, name, context)
  const constant = given === undefined ? {} : compileConstant(given, name, context)
  const diagnostics = context.diagnostics.map((one) => ({
    message: messageOf(name, one),
    offset: one.column,
  }))
  return { constant, diagnostics }
}

function compileConstant(given: SourceNode, name: ExportName, context: CompileContext): FunctionConstants {
  if (name === 'tool') return omitUndefined({ tool: compileTool(given, context) })
  if (name === 'config') return omitUndefined({ config: compileConfig(given, context) })
  return omitUndefined({ [`${name}_schema`]: compileSchema(given, name, context) })
}

function messageOf(name: ExportName, { pointer, message, hint }: FlowDiagnostic): string {
  return sentences(`\`${pathOf(name, pointer)}\`: ${message}`, hint).slice(0, FUNCTION_LIMITS.messageCharsMax)
}

/** A pointer as JavaScript: `input.properties["unit-price"]`. */
function pathOf(name: ExportName, pointer: string): string {
  const steps = pointer.split('/').slice(1).map(unescapePointer)
  const path = steps.map((step) => {
    if (/^[A-Za-z_$][\w$]*$/.test(step)) return `.${step}`
    return /^\d+$/.test(step) ? `[${step}]` : `[${JSON.stringify(step)}]`
  })
  const text = `${name}${path.join('')}`
  return text.length > CORE_LIMITS.nameCharsMax ? `${text.slice(0, CORE_LIMITS.nameCharsMax)}…` : text
}

function compileTool(given: SourceNode, context: CompileContext): FunctionTool | undefined {
  if (given.kind !== 'map') return context.report('wrong_type', given, 'It must be an object.')
  rejectUnknown(given, context)
  return omitUndefined({
    description: compileDescription(given, context),
    read_only: compileReadOnly(given, context),
  })
}

function rejectUnknown({ entries }: MapNode, context: CompileContext): void {
  const known = `It takes ${MEMBERS.join(' and ')}.`
  for (const { key, at } of entries) {
    if (MEMBERS.includes(key)) continue
    const near = nearest(key, MEMBERS)
    const schema =
      key === 'input' || key === 'output' ? `Export the schema as \`${key}\` itself. ${known}` : known
    const hint = near === undefined ? schema : `Did you mean \`${near}\`? ${known}`
    context.report('unknown_key', at, 'The export `tool` has no such member.', hint)
  }
}

function compileDescription(map: MapNode, context: CompileContext): string | undefined {
  const given = valueAt(map, 'description')
  const text = given && context.text(given, '`description`')
  if (given === undefined || text === undefined) return undefined
  const max = MCP_LIMITS.descriptionCharsMax
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

/** Checks the form alone: `checkConfig` does the rest, for configurations from anywhere. */
function compileConfig(given: SourceNode, context: CompileContext): ConfigChange | undefined {
  if (given.kind !== 'map') return context.report('wrong_type', given, 'It must be an object.')
  const unknown = given.entries.filter(({ key }) => !Object.hasOwn(FunctionConfig.properties, key))
  for (const { key, at } of unknown) {
    const near = nearest(key, Object.keys(FunctionConfig.properties))
    const hint = near === undefined ? undefined : `Did you mean \`${near}\`?`
    context.report('unknown_key', at, 'The configuration of a function has no such member.', hint)
  }
  const value = nodeToJson(given)
  if (unknown.length > 0) return undefined
  for (const { instancePath, message } of CONFIG.Errors(value)) {
    const at = nodeAt(given, `${given.pointer}${instancePath}`)?.at ?? given
    return context.report('value_invalid', { ...at, pointer: instancePath }, `It ${message}.`)
  }
  return value as ConfigChange
}

const CONFIG = Compile(ConfigChange)

/** A schema. That of an object gets its `type`, which MCP requires; the input must be an object. */
function compileSchema(
  given: SourceNode,
  name: 'input' | 'output',
  context: CompileContext,
): JsonObject | undefined {
  const schema = checkSchema(given, context)
  if (schema === undefined) return undefined
  if (!isObject(schema)) return context.report('wrong_type', given, `\`${name}\` must be an object.`)
  const properties = fieldOf(schema, 'properties')
  const type = fieldOf(schema, 'type') ?? (properties && 'object')
  if (type !== 'object') {
    if (name === 'output') return schema
    const message = '`input` must be the schema of an object, whose members are the arguments of a tool.'
    return context.report('value_invalid', given, message, "Write `type: 'object'`, and `properties`.")
  }
  // Clients of MCP refuse a whole list of tools that has the schema `true` or `false` here.
  const [property] = Object.entries(properties ?? {}).find(([, value]) => typeof value === 'boolean') ?? []
  if (property === undefined) return { type, ...schema }
  const message = `\`${property}\` in \`properties\` must be an object, which clients of MCP require.`
  return context.report('value_invalid', given, message, 'Write {} for any value.')
}
