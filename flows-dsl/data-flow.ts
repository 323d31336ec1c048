/** Compiles what flows and tasks share: `input`, `output`, `export` and `timeout` (OWS 1.0 "Data Flow", "Timeout"). */

import { type Checker, SCOPES } from './checker.ts'
import { durationIn } from './duration.ts'
import type { Input, Json, Output, TaskNode, Template, Timeout } from './ir.ts'
import { entryOf, type Located, type LocatedEntry, type LocatedMap, type LocatedScalar } from './located.ts'
import { checkSchema } from './schema/check.ts'

const FORMATS = ['json', 'json:2020-12']

export function compileInput(map: LocatedMap, scope: readonly string[], checker: Checker): Input | undefined {
  const shape = compileShape(map, 'input', 'from', scope, checker)
  if (shape === undefined) return undefined
  const { schema, filter } = shape
  return { ...(schema !== undefined && { schema }), ...(filter !== undefined && { from: filter }) }
}

export function compileOutput(
  map: LocatedMap,
  scope: readonly string[],
  checker: Checker,
): Output | undefined {
  const shape = compileShape(map, 'output', 'as', scope, checker)
  if (shape === undefined) return undefined
  const { schema, filter } = shape
  return { ...(filter !== undefined && { as: filter }), ...(schema !== undefined && { schema }) }
}

/** A schema of the context alone says nothing: only what is exported is asked. */
export function compileExport(map: LocatedMap, checker: Checker): TaskNode['export'] {
  const shape = compileShape(map, 'export', 'as', SCOPES.taskExport, checker)
  if (shape === undefined) return undefined
  const { schema, filter, at } = shape
  if (filter === undefined) return checker.fault('missing_key', at, '`export` needs the key `as`.')
  return { as: filter, ...(schema !== undefined && { schema }) }
}

interface Shape {
  readonly schema?: Json
  readonly filter?: Template
  readonly at: LocatedMap
}

/** Undefined where there is nothing in it. */
function compileShape(
  map: LocatedMap,
  name: 'input' | 'output' | 'export',
  key: 'from' | 'as',
  scope: readonly string[],
  checker: Checker,
): Shape | undefined {
  const given = entryOf(map, name)?.value
  const inner = given && checker.map(given, `\`${name}\``)
  if (inner === undefined) return undefined
  checker.keys(inner, `\`${name}\``, [key, 'schema'])
  const value = entryOf(inner, key)?.value
  const filter = value && checker.filter(value, scope)
  const schema = compileSchema(inner, checker)
  if (filter === undefined && schema === undefined) return undefined
  return { ...(schema !== undefined && { schema }), ...(filter !== undefined && { filter }), at: inner }
}

/** `{format: json, document}`; the schema is a part of the compiled flow. */
function compileSchema(inner: LocatedMap, checker: Checker): Json | undefined {
  const given = entryOf(inner, 'schema')?.value
  const map = given && checker.map(given, '`schema`')
  if (map === undefined) return undefined
  checker.keys(map, '`schema`', ['format', 'document'], ['resource'])
  const value = entryOf(map, 'format')?.value
  const format = value && checker.text(value, '`format`')
  if (value !== undefined && format !== undefined && !FORMATS.includes(format)) {
    checker.unknown(
      'value_invalid',
      value,
      `Schemas of the format \`${format}\` are not supported.`,
      format,
      FORMATS,
    )
  }
  if (entryOf(map, 'resource') !== undefined) return undefined
  const document = checker.required(map, '`schema`', 'document')
  return document && checkSchema(document, checker)
}

/** The key `timeout`: the name of one that `use.timeouts` declares, or the timeout itself. */
export function compileTimeout(
  map: LocatedMap,
  scope: readonly string[],
  checker: Checker,
): Timeout | undefined {
  const given = entryOf(map, 'timeout')?.value
  if (given === undefined) return undefined
  if (!isText(given)) return compileTimeoutPolicy(given, scope, checker)
  const compile = ({ value }: LocatedEntry) => compileTimeoutPolicy(value, scope, checker)
  return checker.declared.find('timeouts', given, compile, scope)
}

/** The limit of the flow as a whole, which is known before it runs. */
export function compileFlowTimeout(flow: LocatedMap, checker: Checker): number | undefined {
  const timeout = compileTimeout(flow, SCOPES.flowInput, checker)
  if (timeout === undefined || typeof timeout === 'number') return timeout
  const at = entryOf(flow, 'timeout')?.value ?? flow
  return checker.fault('unsupported_feature', at, 'The timeout of a flow cannot be an expression.')
}

/** `{after: duration}`. @param scope the variables that an expression may name */
export function compileTimeoutPolicy(
  given: Located,
  scope: readonly string[],
  checker: Checker,
): Timeout | undefined {
  const map = checker.map(given, 'A timeout')
  if (map === undefined) return undefined
  checker.keys(map, 'a timeout', ['after'])
  const after = checker.required(map, 'A timeout', 'after')
  if (after === undefined || !isText(after) || !after.value.includes('${')) {
    return after && durationIn(after, 'A timeout', 1, checker)
  }
  const template = checker.template(after, scope)
  return template !== undefined && 'expression' in template ? template : undefined
}

function isText(value: Located): value is LocatedScalar & { readonly value: string } {
  return value.kind === 'scalar' && typeof value.value === 'string'
}
