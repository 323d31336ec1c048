/** What a document looks like, as it is sent and as it is shown. */

import Type from 'typebox'
import type { Stored } from './store.ts'

export const CollectionName = Type.String({
  pattern: '^[A-Za-z_][A-Za-z0-9_-]{0,62}$',
  description: 'Letters, digits, `_` and `-`, not beginning with a digit, at most 63.',
})

/** The caller's members; their names are the caller's own. */
export const Fields = Type.Record(Type.String(), Type.Unknown(), { description: 'Fields of the document.' })
export type Fields = Record<string, unknown>

const OURS = {
  _created_at: Type.String({ format: 'date-time' }),
  _updated_at: Type.String({ format: 'date-time' }),
  _version: Type.Integer({ minimum: 1 }),
}
const id = Type.String({ format: 'uuid' })
const Others = Type.Record(Type.String(), Type.Unknown())

/** A document as it is returned: the caller's fields between ours, which begin with `_`. */
export const Document = Type.Intersect([
  Type.Object({
    id,
    ...OURS,
    _warnings: Type.Optional(
      Type.Array(Type.Object({ pointer: Type.String(), keyword: Type.String(), detail: Type.String() }), {
        description:
          "In the answer to a write: what of the collection's schema it does not fit, in mode `warn`.",
      }),
    ),
  }),
  Others,
])
export type Document = { id: string; _created_at: string; _updated_at: string; _version: number } & Fields

/** The selected part of a document. */
export const Shown = Type.Intersect([
  Type.Object({
    id,
    _created_at: Type.Optional(OURS._created_at),
    _updated_at: Type.Optional(OURS._updated_at),
    _version: Type.Optional(OURS._version),
  }),
  Others,
])
export type Shown = { id: string } & Fields

export function toDocument(stored: Stored): Document {
  const { id: own, fields, version, created_at, updated_at, warnings } = stored
  const ours = { _created_at: created_at, _updated_at: updated_at, _version: version }
  return { id: own, ...fields, ...ours, ...(warnings !== undefined && { _warnings: warnings }) }
}

/** The fields once some are set and others taken away. */
export function after(fields: Fields, set: Fields, unset: readonly string[]): Fields {
  const gone = new Set(unset)
  return Object.fromEntries(Object.entries({ ...fields, ...set }).filter(([name]) => !gone.has(name)))
}
