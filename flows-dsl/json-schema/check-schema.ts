/** Checks the JSON Schemas in a definition: known keywords, existing references, patterns of linear time. */

import type { CompileContext } from '../compile/compile-context.ts'
import { type MapEntry, type MapNode, nodeToJson, type SourceNode, valueAt } from '../compile/source-nodes.ts'
import { fieldOf, type Json } from '../json.ts'
import { patternError } from './pattern.ts'
import { DIALECT, KEYWORDS, LATER_KEYWORDS, referenceName, type Shape, TYPES } from './vocabulary.ts'

/** The state of checking one schema. */
interface SchemaContext {
  readonly context: CompileContext
  /** `$defs` of the root. */
  readonly definitions: MapNode | undefined
}

/**
 * Checks a schema (JSON Schema 2020-12); diagnostics go to `context`.
 * @returns the schema as data, or undefined if it has diagnostics
 */
export function checkSchema(node: SourceNode, context: CompileContext): Json | undefined {
  const before = context.diagnostics.length
  const definitions = node.kind === 'map' ? valueAt(node, '$defs') : undefined
  const schemaContext = { context, definitions: definitions?.kind === 'map' ? definitions : undefined }
  schema(node, schemaContext)
  if (schemaContext.definitions !== undefined) checkCycles(schemaContext.definitions, context)
  return context.diagnostics.length === before ? nodeToJson(node) : undefined
}

function schema(value: SourceNode, schemaContext: SchemaContext): void {
  if (value.kind === 'scalar' && typeof value.value === 'boolean') return
  const map = schemaContext.context.map(value, 'A schema', Object.keys(KEYWORDS), LATER_KEYWORDS)
  for (const entry of map?.entries ?? []) {
    const shape = fieldOf(KEYWORDS, entry.key)
    if (shape !== undefined) SHAPES[shape](entry, schemaContext)
  }
}

const SHAPES: Readonly<Record<Shape, (entry: MapEntry, schemaContext: SchemaContext) => void>> = {
  any: () => undefined,
  schema: ({ value }, schemaContext) => schema(value, schemaContext),
  schemas: (entry, schemaContext) => {
    for (const item of list(entry, schemaContext, 1)) schema(item, schemaContext)
  },
  schemaMap: (entry, schemaContext) => {
    for (const { value } of entriesOf(entry, schemaContext)) schema(value, schemaContext)
  },
  patternMap: (entry, schemaContext) => {
    for (const { key, at, value } of entriesOf(entry, schemaContext)) {
      const fault = patternError(key)
      if (fault !== undefined) schemaContext.context.report('pattern_refused', at, `The pattern ${fault}.`)
      schema(value, schemaContext)
    }
  },
  count: ({ key, value }, { context }) => void context.integer(value, `\`${key}\``, 0),
  number: (entry, schemaContext) => void number(entry, schemaContext),
  positive: (entry, schemaContext) => {
    const count = number(entry, schemaContext)
    if (count === undefined || count > 0) return
    schemaContext.context.report('value_invalid', entry.value, `\`${entry.key}\` must be above 0.`)
  },
  boolean: ({ key, value }, { context }) => {
    if (value.kind === 'scalar' && typeof value.value === 'boolean') return
    context.report('wrong_type', value, `\`${key}\` must be true or false.`)
  },
  text: ({ key, value }, { context }) => void context.text(value, `\`${key}\``),
  texts: (entry, schemaContext) => texts(entry, schemaContext),
  textsMap: (entry, schemaContext) => {
    for (const inner of entriesOf(entry, schemaContext)) texts(inner, schemaContext)
  },
  types: (entry, schemaContext) => {
    const items = entry.value.kind === 'list' ? list(entry, schemaContext, 1) : [entry.value]
    for (const item of items) type(item, schemaContext)
  },
  values: (entry, schemaContext) => void list(entry, schemaContext, entry.key === 'enum' ? 1 : 0),
  pattern: ({ key, value }, { context }) => {
    const pattern = context.text(value, `\`${key}\``)
    const fault = pattern === undefined ? undefined : patternError(pattern)
    if (fault !== undefined) context.report('pattern_refused', value, `The pattern ${fault}.`)
  },
  dialect: ({ value }, { context }) => {
    const uri = context.text(value, '`$schema`')
    if (uri === undefined || uri.replace(/#$/, '') === DIALECT) return
    context.report('value_invalid', value, `\`$schema\` must be ${DIALECT}.`)
  },
  reference: ({ value }, schemaContext) => reference(value, schemaContext),
}

function reference(value: SourceNode, { context, definitions }: SchemaContext): void {
  const text = context.text(value, '`$ref`')
  if (text === undefined) return
  const name = referenceName(text)
  if (name === undefined) {
    const message = 'A `$ref` must refer to a name under `$defs` of the same schema.'
    context.report('value_invalid', value, message, 'Write #/$defs/name.')
    return
  }
  const names = definitions?.entries.map(({ key }) => key) ?? []
  if (names.includes(name)) return
  const message = `\`${name}\` is not declared in \`$defs\`.`
  context.reportUnknown('unknown_reference', value, message, name, names)
}

function number({ key, value }: MapEntry, { context }: SchemaContext): number | undefined {
  if (value.kind === 'scalar' && typeof value.value === 'number') return value.value
  return context.report('wrong_type', value, `\`${key}\` must be a number.`)
}

function type(value: SourceNode, { context }: SchemaContext): void {
  const name = context.text(value, '`type`')
  if (name === undefined || TYPES.includes(name)) return
  context.reportUnknown('value_invalid', value, `There is no type \`${name}\`.`, name, TYPES)
}

function texts(entry: MapEntry, schemaContext: SchemaContext): void {
  for (const item of list(entry, schemaContext, 0))
    schemaContext.context.text(item, `An item of \`${entry.key}\``)
}

function list({ key, value }: MapEntry, { context }: SchemaContext, least: 0 | 1): readonly SourceNode[] {
  if (value.kind === 'list' && value.items.length >= least) return value.items
  context.report('wrong_type', value, `\`${key}\` must be a list${least === 1 ? ', not an empty one' : ''}.`)
  return []
}

function entriesOf({ key, value }: MapEntry, { context }: SchemaContext): readonly MapEntry[] {
  return context.map(value, `\`${key}\``)?.entries ?? []
}

/** Validation of a definition that refers to itself would never end. */
function checkCycles(definitions: MapNode, context: CompileContext): void {
  const leads = new Map(definitions.entries.map(({ key, value }) => [key, referencesIn(value)]))
  const sound = new Set<string>()
  for (const { key, at } of definitions.entries) {
    if (!isCyclic(key, leads, sound)) sound.add(key)
    else context.report('circular_reference', at, `\`${key}\` of \`$defs\` refers to itself.`)
  }
}

function isCyclic(
  start: string,
  leads: ReadonlyMap<string, readonly string[]>,
  sound: ReadonlySet<string>,
): boolean {
  const seen = new Set<string>()
  const open = [...(leads.get(start) ?? [])]
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (name === start) return true
    if (seen.has(name) || sound.has(name)) continue
    seen.add(name)
    open.push(...(leads.get(name) ?? []))
  }
  return false
}

function referencesIn(value: SourceNode): readonly string[] {
  if (value.kind === 'list') return value.items.flatMap(referencesIn)
  if (value.kind !== 'map') return []
  return value.entries.flatMap(({ key, value: inner }) => {
    const isReference = key === '$ref' && inner.kind === 'scalar' && typeof inner.value === 'string'
    const name = isReference ? referenceName(String(inner.value)) : undefined
    return name === undefined ? referencesIn(inner) : [name]
  })
}
