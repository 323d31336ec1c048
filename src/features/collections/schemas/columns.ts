/** Derives typed columns, formats to compare by, and defaults from the declared properties. */

import Type from 'typebox'
import { escapePointer, isObject } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { type Format, isFormat } from './canonical-text.ts'
import type { SchemaObject } from './schema-language.ts'

export const CollectionName = Type.String({
  pattern: '^[A-Za-z_][A-Za-z0-9_-]{0,62}$',
  description: 'Name of the collection: at most 63 letters, digits, `_` and `-`, the first a letter or `_`.',
})

export type Scalar = 'string' | 'integer' | 'number' | 'boolean'
/** `jsonb` holds a value of any type and is never indexed. */
type ColumnType = 'text' | 'bigint' | 'double precision' | 'boolean' | 'jsonb'

export interface TableColumn {
  readonly property: string
  /** `c1`, `c2`, …: no text of a user is ever an identifier. */
  readonly column: string
  readonly type: ColumnType
  /** The column is generated: it holds the canonical texts of another column; of a reference, as ids with a foreign key. */
  readonly canonical?: { readonly format: Format; readonly of: string; readonly isReference?: true }
}

/**
 * Texts of every format stay texts: a timestamp with an offset must read back as it was written. Formats that are not
 * compared as texts have a second column.
 */
const TYPES: Readonly<Record<Scalar, ColumnType>> = {
  string: 'text',
  integer: 'bigint',
  number: 'double precision',
  boolean: 'boolean',
}

const propertiesOf = (schema: SchemaObject) => (schema['properties'] ?? {}) as SchemaObject

/** The declared scalar properties: name → type. `null` beside another type is ignored. */
export function scalarsOf(schema: SchemaObject): Map<string, Scalar> {
  const scalars = Object.entries(propertiesOf(schema)).flatMap(([name, property]) => {
    const type = scalarOf(property)
    return type === undefined ? [] : [[name, type] as const]
  })
  return new Map(scalars)
}

/** The names of the declared arrays. `null` beside the type is ignored. */
export function arraysOf(schema: SchemaObject): Set<string> {
  const isArray = (property: unknown) => {
    const { type } = Object(property) as { type?: unknown }
    const [only, ...more] = [type].flat().filter((name) => name !== 'null')
    return only === 'array' && more.length === 0
  }
  return new Set(Object.keys(propertiesOf(schema)).filter((name) => isArray(propertiesOf(schema)[name])))
}

function scalarOf(property: unknown): Scalar | undefined {
  const { type } = Object(property) as { type?: unknown }
  const [only, ...more] = [type].flat().filter((name) => name !== 'null')
  return typeof only === 'string' && more.length === 0 && Object.hasOwn(TYPES, only)
    ? (only as Scalar)
    : undefined
}

/** The declared texts that are compared by their format: name → format. */
export function formatsOf(schema: SchemaObject): Map<string, Format> {
  const formats = [...scalarsOf(schema)].flatMap(([name, scalar]) => {
    const { format } = Object(propertiesOf(schema)[name]) as { format?: unknown }
    return scalar === 'string' && isFormat(format) ? [[name, format] as const] : []
  })
  return new Map(formats)
}

/** The columns of a table before a change. `last_column`: the highest number in all previous declarations. */
export interface ColumnsBefore {
  readonly columns: readonly TableColumn[]
  readonly last_column: number
}

/** The highest number assigned so far: of previous declarations, and of names such as `c1` or `i1`. */
export const highestNumber = (last: number, names: readonly string[]): number =>
  Math.max(last, ...names.map((name) => Number(name.slice(1))))

/**
 * A relational collection has a column for every declared property, a document collection for those of its indexes.
 * A column whose property and type stay is kept.
 * @param indexed the fields of the indexes, those of the references among them
 * @throws Problem `state_conflict` if the table has had too many columns
 */
export function columnsOf(
  schema: SchemaObject,
  store: 'relational' | 'document',
  { indexed, referring }: { readonly indexed: readonly string[]; readonly referring: readonly string[] },
  before: ColumnsBefore = { columns: [], last_column: 0 },
): TableColumn[] {
  const declared = store === 'relational' ? Object.keys(propertiesOf(schema)) : []
  const required = requiredColumns(schema, { indexed, declared, referring })
  const columns = before.columns.filter((column) => required.delete(keyOf(column)))
  let last = highestNumber(
    before.last_column,
    before.columns.map(({ column }) => column),
  )
  for (const { property, type, format, isReference } of required.values()) {
    last += 1
    const of = columns.find((column) => column.property === property)?.column ?? ''
    const canonical = format && { canonical: { format, of, ...(isReference && { isReference }) } }
    columns.push({ property, column: `c${last}`, type, ...canonical })
  }
  if (last > COLLECTION_LIMITS.tableColumnsEverMax) throw columnsExhausted()
  return columns
}

const columnsExhausted = () =>
  new Problem('state_conflict', {
    detail: `The table of the collection has had ${COLLECTION_LIMITS.tableColumnsEverMax} columns, the maximum for its lifetime.`,
    hint: 'Declare another collection, and copy the documents.',
  })

interface RequiredColumn extends Pick<TableColumn, 'property' | 'type'> {
  readonly format?: Format
  readonly isReference?: true
}

/** The columns by identity, as many as a table may have; texts come before the columns generated from them. */
function requiredColumns(
  schema: SchemaObject,
  { indexed, declared, referring }: Readonly<Record<'indexed' | 'declared' | 'referring', readonly string[]>>,
): Map<string, RequiredColumn> {
  const [scalars, formats] = [scalarsOf(schema), formatsOf(schema)]
  const columnsFor = (names: readonly string[]): RequiredColumn[] => [
    ...names.map((property) => ({ property, type: typeOf(scalars.get(property)) })),
    ...names.flatMap((property) => {
      const format = formats.get(property)
      if (format === undefined) return []
      const reference = referring.includes(property) ? ({ isReference: true } as const) : {}
      return [{ property, type: 'text', format, ...reference } as const]
    }),
  ]
  const required = [
    ...columnsFor([...new Set(indexed)]),
    ...columnsFor(declared.filter((name) => !indexed.includes(name))),
  ]
  return new Map(required.slice(0, COLLECTION_LIMITS.tableColumnsMax).map((one) => [keyOf(one), one]))
}

const keyOf = ({
  property,
  type,
  canonical,
  format = canonical?.format,
  isReference = canonical?.isReference,
}: RequiredColumn & Pick<TableColumn, 'canonical'>) => JSON.stringify([property, type, format, isReference])

const typeOf = (scalar: Scalar | undefined): ColumnType => (scalar === undefined ? 'jsonb' : TYPES[scalar])

/** By property: its own default, and those of the members below it. */
export type Defaults = ReadonlyMap<string, { readonly own?: unknown; readonly below: Defaults }>

/** Defaults of properties; references and alternatives are not followed. */
export function defaultsOf(schema: SchemaObject): Defaults {
  const found = Object.entries(Object(schema['properties'])).flatMap(([name, property]) => {
    const declared = Object(property) as SchemaObject
    const below = defaultsOf(declared)
    const own = Object.hasOwn(declared, 'default') ? { own: declared['default'] } : {}
    return 'own' in own || below.size > 0 ? [[name, { ...own, below }] as const] : []
  })
  return new Map(found)
}

/**
 * Adds the defaults of absent members, also inside of existing objects.
 * @returns the same object if nothing is missing
 */
export function withDefaults(
  defaults: Defaults,
  fields: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const added = [...defaults].flatMap(([name, { own, below }]): [string, unknown][] => {
    const isPresent = Object.hasOwn(fields, name)
    if (!isPresent && own === undefined) return []
    const value = isPresent ? fields[name] : structuredClone(own)
    const filled = isObject(value) ? withDefaults(below, value) : value
    return isPresent && filled === value ? [] : [[name, filled]]
  })
  // Entries become own members, `__proto__` too.
  return added.length === 0 ? fields : Object.fromEntries([...Object.entries(fields), ...added])
}

/** Every property with a default, with its pointer in the schema. */
export function propertiesWithDefault(schema: SchemaObject, pointer = ''): [string, SchemaObject][] {
  return Object.entries(Object(schema['properties'])).flatMap(([name, property]) => {
    const declared = Object(property) as SchemaObject
    const at = `${pointer}/properties/${escapePointer(name)}`
    const own: [string, SchemaObject][] = Object.hasOwn(declared, 'default') ? [[at, declared]] : []
    return [...own, ...propertiesWithDefault(declared, at)]
  })
}
