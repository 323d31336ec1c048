/** Knows what shapes the data of a flow and its tasks: `input`, `output`, `export` (OWS 1.0 "Data Flow", "Schema"). */

import { type Checker, SCOPES } from './checker.ts'
import type { Input, Json, Output, TaskNode, Template } from './ir.ts'
import { entryOf, type LocatedMap } from './located.ts'
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
