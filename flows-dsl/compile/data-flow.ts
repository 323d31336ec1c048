/** Compiles the keys that flows and tasks share: `input`, `output`, `export`, `timeout` (OWS 1.0 "Data Flow", "Timeout"). */

import type { Duration, Input, Json, Output, TaskNode } from '../ir.ts'
import { omitUndefined } from '../json.ts'
import { checkSchema } from '../json-schema/check-schema.ts'
import { type CompileContext, SCOPES } from './compile-context.ts'
import { dynamicDuration } from './duration.ts'
import { entryOf, type MapEntry, type MapNode, type SourceNode, valueAt } from './source-nodes.ts'

const FORMATS = ['json', 'json:2020-12'] as const

export function compileInput(
  map: MapNode,
  scope: readonly string[],
  context: CompileContext,
): Input | undefined {
  return compileDataFilter(map, 'input', 'from', scope, context)
}

export function compileOutput(
  map: MapNode,
  scope: readonly string[],
  context: CompileContext,
): Output | undefined {
  return compileDataFilter(map, 'output', 'as', scope, context)
}

/** A schema without `as` would have nothing to validate. */
export function compileExport(map: MapNode, context: CompileContext): TaskNode['export'] {
  const { schema, as } = compileDataFilter(map, 'export', 'as', SCOPES.taskExport, context) ?? {}
  if (as !== undefined) return omitUndefined({ as, schema })
  if (schema === undefined) return undefined
  return context.report('missing_key', valueAt(map, 'export') ?? map, '`export` needs the key `as`.')
}

/** The filter at a key and the schema; undefined if there is neither. */
function compileDataFilter(
  map: MapNode,
  name: 'input' | 'output' | 'export',
  key: 'from' | 'as',
  scope: readonly string[],
  context: CompileContext,
): (Input & Output) | undefined {
  const inner = context.optionalMap(map, name, [key, 'schema'])
  if (inner === undefined) return undefined
  const value = valueAt(inner, key)
  const filter = value && context.filter(value, scope)
  const schema = compileSchema(inner, context)
  if (filter === undefined && schema === undefined) return undefined
  return omitUndefined({ ...(key === 'from' ? { from: filter } : { as: filter }), schema })
}

/** `{format: json, document}`; the document becomes part of the compiled flow. */
function compileSchema(inner: MapNode, context: CompileContext): Json | undefined {
  const map = context.optionalMap(inner, 'schema', ['format', 'document'], ['resource'])
  if (map === undefined) return undefined
  context.optionalChoice(map, 'format', FORMATS)
  if (entryOf(map, 'resource') !== undefined) return undefined
  const document = context.required(map, '`schema`', 'document')
  return document && checkSchema(document, context)
}

/** The key `timeout`: the name of one under `use.timeouts`, or the timeout itself. */
export function compileTimeout(
  map: MapNode,
  scope: readonly string[],
  context: CompileContext,
): Duration | undefined {
  const node = valueAt(map, 'timeout')
  if (node?.kind !== 'scalar' || typeof node.value !== 'string')
    return node && compileTimeoutPolicy(node, scope, context)
  const compile = ({ value }: MapEntry) => compileTimeoutPolicy(value, scope, context)
  return context.components.resolve('timeouts', node, compile, scope)
}

/** `{after: duration}`. @param scope the variables that an expression may refer to */
export function compileTimeoutPolicy(
  node: SourceNode,
  scope: readonly string[],
  context: CompileContext,
): Duration | undefined {
  const map = context.map(node, 'A timeout', ['after'])
  if (map === undefined) return undefined
  const after = context.required(map, 'A timeout', 'after')
  return after && dynamicDuration(after, 'A timeout', 1, scope, context)
}
