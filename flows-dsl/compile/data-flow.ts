/** Compiles what flows and tasks share: `input`, `output`, `export`, `timeout` (OWS 1.0 "Data Flow", "Timeout"). */

import type { Input, Json, Output, TaskNode, Template, Timeout } from '../ir.ts'
import { omitUndefined } from '../json.ts'
import { checkSchema } from '../json-schema/check-schema.ts'
import { type CompileContext, isExpression, SCOPES } from './compile-context.ts'
import { durationIn } from './duration.ts'
import { entryOf, type MapEntry, type MapNode, type SourceNode, valueAt } from './source-nodes.ts'

const FORMATS = ['json', 'json:2020-12']

export function compileInput(
  map: MapNode,
  scope: readonly string[],
  context: CompileContext,
): Input | undefined {
  const { schema, filter: from } = compileDataFilter(map, 'input', 'from', scope, context) ?? {}
  return schema === undefined && from === undefined ? undefined : omitUndefined({ schema, from })
}

export function compileOutput(
  map: MapNode,
  scope: readonly string[],
  context: CompileContext,
): Output | undefined {
  const { schema, filter: as } = compileDataFilter(map, 'output', 'as', scope, context) ?? {}
  return schema === undefined && as === undefined ? undefined : omitUndefined({ as, schema })
}

/** A schema without `as` would have nothing to validate. */
export function compileExport(map: MapNode, context: CompileContext): TaskNode['export'] {
  const { schema, filter: as } = compileDataFilter(map, 'export', 'as', SCOPES.taskExport, context) ?? {}
  if (as !== undefined) return omitUndefined({ as, schema })
  const at = valueAt(map, 'export') ?? map
  if (schema === undefined) return undefined
  return context.report('missing_key', at, '`export` needs the key `as`.')
}

function compileDataFilter(
  map: MapNode,
  name: 'input' | 'output' | 'export',
  key: 'from' | 'as',
  scope: readonly string[],
  context: CompileContext,
): { readonly schema: Json | undefined; readonly filter: Template | undefined } | undefined {
  const inner = context.optionalMap(map, name)
  if (inner === undefined) return undefined
  context.keys(inner, `\`${name}\``, [key, 'schema'])
  const value = valueAt(inner, key)
  const filter = value && context.filter(value, scope)
  return { filter, schema: compileSchema(inner, context) }
}

/** `{format: json, document}`; the document becomes part of the compiled flow. */
function compileSchema(inner: MapNode, context: CompileContext): Json | undefined {
  const map = context.optionalMap(inner, 'schema')
  if (map === undefined) return undefined
  context.keys(map, '`schema`', ['format', 'document'], ['resource'])
  const given = valueAt(map, 'format')
  const format = context.optionalText(map, 'format')
  if (given !== undefined && format !== undefined && !FORMATS.includes(format)) {
    const message = `Schemas of the format \`${format}\` are not supported.`
    context.reportUnknown('value_invalid', given, message, format, FORMATS)
  }
  if (entryOf(map, 'resource') !== undefined) return undefined
  const document = context.required(map, '`schema`', 'document')
  return document && checkSchema(document, context)
}

/** The key `timeout`: the name of one under `use.timeouts`, or the timeout itself. */
export function compileTimeout(
  map: MapNode,
  scope: readonly string[],
  context: CompileContext,
): Timeout | undefined {
  const given = valueAt(map, 'timeout')
  if (given?.kind !== 'scalar' || typeof given.value !== 'string')
    return given && compileTimeoutPolicy(given, scope, context)
  const compile = ({ value }: MapEntry) => compileTimeoutPolicy(value, scope, context)
  return context.components.resolve('timeouts', given, compile, scope)
}

/** The timeout of a flow must be known before it runs. */
export function compileFlowTimeout(flow: MapNode, context: CompileContext): number | undefined {
  const timeout = compileTimeout(flow, SCOPES.flowInput, context)
  if (timeout === undefined || typeof timeout === 'number') return timeout
  const at = valueAt(flow, 'timeout') ?? flow
  return context.report('unsupported_feature', at, 'The timeout of a flow cannot be an expression.')
}

/** `{after: duration}`. @param scope the variables that an expression may refer to */
export function compileTimeoutPolicy(
  given: SourceNode,
  scope: readonly string[],
  context: CompileContext,
): Timeout | undefined {
  const map = context.map(given, 'A timeout')
  if (map === undefined) return undefined
  context.keys(map, 'a timeout', ['after'])
  const after = context.required(map, 'A timeout', 'after')
  if (after === undefined || !isExpression(after)) return after && durationIn(after, 'A timeout', 1, context)
  const template = context.template(after, scope)
  return template !== undefined && 'expression' in template ? template : undefined
}
