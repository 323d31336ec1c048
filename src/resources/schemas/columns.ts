/** Which declared properties have a column of their own, and of which type. */

import { LIMITS } from '../../core/limits.ts'
import type { SchemaObject } from './language.ts'

export type Scalar = 'string' | 'integer' | 'number' | 'boolean'
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

/** The declared scalar properties: name → type. A property that may also be null has the other type. */
export function scalarsOf(schema: SchemaObject): Map<string, Scalar> {
  const properties = (schema['properties'] ?? {}) as SchemaObject
  const scalars = Object.entries(properties).flatMap(([name, property]) => {
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

export function columnsOf(schema: SchemaObject): TableColumn[] {
  return [...scalarsOf(schema)]
    .slice(0, LIMITS.tableColumnsMax)
    .map(([property, scalar], index) => ({ property, column: `c${index + 1}`, type: TYPES[scalar] }))
}
