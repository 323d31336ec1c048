/** What a document may be: bounds that are checked before any store is asked. */

import Type from 'typebox'
import { LIMITS } from '../../core/limits.ts'
import { type InputError, Problem } from '../../core/problem.ts'
import type { Content, Stored } from './store.ts'

export const CollectionName = Type.String({
  pattern: '^[A-Za-z_][A-Za-z0-9_-]{0,62}$',
  description: 'Letters, digits, `_` and `-`, not beginning with a digit, at most 63.',
})

/** The caller's members; their names are the caller's own. */
export const Fields = Type.Record(Type.String(), Type.Unknown(), { description: 'Fields of the document.' })
export type Fields = Record<string, unknown>
export type { Content }

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

/**
 * Refuses what could not be stored or read back the same: reserved names, NUL, too much of anything.
 * @throws Problem `validation_failed` with every fault at once, or `body_too_large`
 */
export function checkFields(fields: Fields): Content {
  const measure: Measure = { keys: 0, halves: false, errors: [] }
  for (const name of Object.keys(fields)) note(measure, reserved(name))
  inspect(fields, '', 1, measure)
  const { errors } = measure
  if (measure.halves) throw new Problem('value_invalid', { detail: 'A text holds half a surrogate pair.' })
  if (measure.keys > LIMITS.documentKeysMax) {
    errors.push(fault('', `has more than ${LIMITS.documentKeysMax} keys`))
  }
  if (errors.length > 0) {
    const detail = errors.map((error) => `${error.pointer || 'the document'} ${error.detail}`).join('; ')
    throw new Problem('validation_failed', { detail, errors })
  }
  const text = JSON.stringify(fields)
  const bytes = Buffer.byteLength(text)
  if (bytes > LIMITS.documentBytesMax) {
    const detail = `The document has ${bytes} bytes; at most ${LIMITS.documentBytesMax} are stored.`
    throw new Problem('body_too_large', { detail, members: { limit_bytes: LIMITS.documentBytesMax } })
  }
  return { fields, text }
}

function reserved(name: string): InputError | undefined {
  if (name === 'id') return fault('/id', 'is assigned by the server')
  if (!/^[_$]/.test(name)) return undefined
  return fault(`/${token(name)}`, 'is reserved: no name begins with _ or $')
}

/** Keeps the first faults: a reply must not grow with what was sent. */
function note(measure: Measure, error: InputError | undefined): void {
  if (error !== undefined && measure.errors.length < LIMITS.faultsShownMax) measure.errors.push(error)
}

interface Measure {
  keys: number
  /** PostgreSQL refuses half a pair, MongoDB would store another character. */
  halves: boolean
  readonly errors: InputError[]
}

const HALF = /\p{Surrogate}/u

/** Depth is bounded first, so the walk itself is; keys are, so that it ends soon. */
function inspect(value: unknown, pointer: string, depth: number, measure: Measure): void {
  note(measure, faultOf(value, pointer))
  if (typeof value === 'string') measure.halves ||= HALF.test(value)
  if (typeof value !== 'object' || value === null || measure.keys > LIMITS.documentKeysMax) return
  if (depth > LIMITS.documentDepthMax) {
    note(measure, fault(pointer, `is nested deeper than ${LIMITS.documentDepthMax}`))
    return
  }
  for (const [name, member] of Object.entries(value)) {
    if (!Array.isArray(value)) measure.keys += 1
    measure.halves ||= HALF.test(name)
    if (name.includes('\u0000')) note(measure, fault(pointer, 'has a name with a NUL character'))
    inspect(member, `${pointer}/${token(name)}`, depth + 1, measure)
  }
}

/** What of a single value would not read back the same. */
function faultOf(value: unknown, pointer: string): InputError | undefined {
  if (typeof value === 'string' && value.includes('\u0000')) return fault(pointer, 'holds a NUL character')
  if (typeof value !== 'number') return undefined
  if (!Number.isFinite(value)) return fault(pointer, 'is a number too large to be kept')
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
    return fault(pointer, 'is an integer beyond 2^53 and would not read back the same')
  }
  return undefined
}

/** A member's name as a reference token (RFC 6901 §3); a very long one is cut. */
const token = (name: string) => name.slice(0, 100).replaceAll('~', '~0').replaceAll('/', '~1')

function fault(pointer: string, detail: string): InputError {
  return { in: 'body', name: pointer.split('/')[1] ?? '', pointer, detail }
}
