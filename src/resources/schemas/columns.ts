/** Which declared properties have a column of their own, and of which type. */

import { LIMITS } from '../../core/limits.ts'
import type { SchemaObject } from './language.ts'

export type Scalar = 'string' | 'integer' | 'number' | 'boolean'
/** `jsonb` takes a value of any type, and stands in no index. */
type ColumnType = 'text' | 'bigint' | 'double precision' | 'boolean' | 'jsonb'

export interface TableColumn {
  readonly property: string
  /** `c1`, `c2`, …: no text of a user is ever an identifier. */
  readonly column: string
  readonly type: ColumnType
}

/** Texts of every format stay texts: a point in time with an offset must read back as it was written. */
const TYPES: Readonly<Record<Scalar, ColumnType>> = {
  string: 'text',
  integer: 'bigint',
  number: 'double precision',
  boolean: 'boolean',
}

const propertiesOf = (schema: SchemaObject) => (schema['properties'] ?? {}) as SchemaObject

/** The declared scalar properties: name → type. A property that may also be null has the other type. */
export function scalarsOf(schema: SchemaObject): Map<string, Scalar> {
  const scalars = Object.entries(propertiesOf(schema)).flatMap(([name, property]) => {
    const type = scalarOf(property)
    return type === undefined ? [] : [[name, type] as const]
  })
  return new Map(scalars)
}

function scalarOf(property: unknown): Scalar | undefined {
  const { type } = Object(property) as { type?: unknown }
  const [only, ...more] = [type].flat().filter((name) => name !== 'null')
  return typeof only === 'string' && more.length === 0 && Object.hasOwn(TYPES, only)
    ? (only as Scalar)
    : undefined
}

/** What a table has before its columns change; nothing where it is new. */
export interface ColumnsBefore {
  readonly columns: readonly TableColumn[]
  /** The highest number that a column of it ever had. */
  readonly last: number
}

/**
 * A relational collection has a column for every declared property, a document collection for those of its indexes.
 * A column whose property and type stay is the same one.
 * @param indexed the fields of its indexes
 */
export function columnsOf(
  schema: SchemaObject,
  store: 'relational' | 'document',
  indexed: readonly string[],
  before: ColumnsBefore = { columns: [], last: 0 },
): TableColumn[] {
  const scalars = scalarsOf(schema)
  const declared = store === 'relational' ? Object.keys(propertiesOf(schema)) : []
  const names = [...new Set([...indexed, ...declared])].slice(0, LIMITS.tableColumnsMax)
  const wanted = new Map(names.map((property) => [property, typeOf(scalars.get(property))]))
  const kept = before.columns.filter(({ property, type }) => wanted.get(property) === type)
  for (const { property } of kept) wanted.delete(property)
  const added = [...wanted].map(([property, type], n) => ({
    property,
    column: `c${before.last + n + 1}`,
    type,
  }))
  return [...kept, ...added]
}

const typeOf = (scalar: Scalar | undefined): ColumnType => (scalar === undefined ? 'jsonb' : TYPES[scalar])
