/** The shapes of documents in the API, and the bounds that are checked before a store is called. */

import Type from 'typebox'
import { shortPointer } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { type InputError, Problem, type ProblemCode } from '../../core/problem.ts'
import type { Content, Stored } from './store.ts'

export { CollectionName } from './schemas/columns.ts'

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

/** A document as it is returned: the caller's fields, and ours, which begin with `_`. */
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

/** The fields after some are set and others removed. */
export function after(fields: Fields, set: Fields, unset: readonly string[]): Fields {
  const gone = new Set(unset)
  return Object.fromEntries(Object.entries({ ...fields, ...set }).filter(([name]) => !gone.has(name)))
}

/** A violation, and the problem code if all violations have the same. */
interface Violation {
  readonly code: ProblemCode
  readonly error: InputError
}

interface Measure {
  keys: number
  /** The names and indexes of the value being checked. */
  readonly path: (string | number)[]
  readonly violations: Violation[]
}

/**
 * Rejects fields that could not be stored or read back unchanged: reserved names, NUL, excessive sizes.
 * @throws Problem with every violation: `string_nul`, `number_unsafe` or `value_invalid` if all are of that kind, else
 *   `validation_failed`; or `body_too_large`
 */
export function checkFields(fields: Fields): Content {
  const text = textOf(fields)
  const measure: Measure = { keys: 0, path: [], violations: [] }
  for (const name of Object.keys(fields)) record(measure, reservedName(name))
  inspect(fields, 1, measure)
  if (measure.keys > LIMITS.documentKeysMax)
    measure.violations.push(violation('', `has more than ${LIMITS.documentKeysMax} keys`))
  throwAny(measure.violations)
  return { fields, text }
}

/** Serializes before the walk, which is far slower: a body of megabytes is rejected by its size. */
function textOf(fields: Fields): string {
  const text = serialized(fields)
  const bytes = Buffer.byteLength(text)
  if (bytes <= LIMITS.documentBytesMax) return text
  const detail = `The document has ${bytes} bytes; at most ${LIMITS.documentBytesMax} are stored.`
  throw new Problem('body_too_large', { detail, members: { limit_bytes: LIMITS.documentBytesMax } })
}

/** Returns no text if the nesting exceeds the stack; the walk, whose depth is bounded, reports it. */
function serialized(fields: Fields): string {
  try {
    return JSON.stringify(fields)
  } catch (error) {
    if (error instanceof RangeError) return ''
    throw error
  }
}

function throwAny(violations: readonly Violation[]): void {
  const [first] = violations
  if (first === undefined) return
  const errors = violations.map(({ error }) => error)
  const detail = errors.map((error) => `${error.pointer || 'the document'} ${error.detail}`).join('; ')
  const code = violations.every((other) => other.code === first.code) ? first.code : 'validation_failed'
  throw new Problem(code, { detail, errors })
}

function reservedName(name: string): Violation | undefined {
  if (name === 'id') return violation('/id', 'is assigned by the server')
  if (!/^[_$]/.test(name)) return undefined
  return violation(`/${shortPointer(name)}`, 'is reserved: no name begins with _ or $')
}

/** Keeps the first violations: a reply must not grow with the request. */
function record(measure: Measure, found: Violation | undefined): void {
  if (found !== undefined && measure.violations.length < LIMITS.faultsShownMax) measure.violations.push(found)
}

const LONE_SURROGATE = /\p{Surrogate}/u

/** Bounds the depth, and so its own recursion, and the number of keys, so that it ends soon. */
function inspect(value: unknown, depth: number, measure: Measure): void {
  record(measure, valueViolation(value, measure))
  if (typeof value !== 'object' || value === null || measure.keys > LIMITS.documentKeysMax) return
  if (depth > LIMITS.documentDepthMax) {
    record(measure, violation(pointerOf(measure), `is nested deeper than ${LIMITS.documentDepthMax}`))
    return
  }
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) below(item, index, depth, measure)
    return
  }
  for (const [name, member] of Object.entries(value)) {
    measure.keys += 1
    record(measure, nameViolation(name, measure))
    below(member, name, depth, measure)
  }
}

function below(value: unknown, name: string | number, depth: number, measure: Measure): void {
  measure.path.push(name)
  inspect(value, depth + 1, measure)
  measure.path.pop()
}

/** Rejects names that a query could not express. */
function nameViolation(name: string, measure: Measure): Violation | undefined {
  if (name === '') return violation(pointerOf(measure), 'has a name that is empty')
  if (name.includes('\u0000'))
    return violation(pointerOf(measure), 'has a name with a NUL character', 'string_nul')
  if (LONE_SURROGATE.test(name))
    return violation(pointerOf(measure), 'has a name with half a surrogate pair', 'value_invalid')
  // A code unit is at most three bytes: most names need not be counted.
  if (name.length * 3 <= LIMITS.fieldNameBytesMax || Buffer.byteLength(name) <= LIMITS.fieldNameBytesMax)
    return undefined
  return violation(
    `${pointerOf(measure)}/${shortPointer(name)}`,
    `is a name of more than ${LIMITS.fieldNameBytesMax} bytes`,
  )
}

/** Finds a value that would not read back the same. */
function valueViolation(value: unknown, measure: Measure): Violation | undefined {
  if (typeof value === 'string') return textViolation(value, measure)
  if (typeof value !== 'number') return undefined
  if (!Number.isFinite(value))
    return violation(pointerOf(measure), 'is a number too large to be kept', 'number_unsafe')
  if (!Number.isInteger(value) || Number.isSafeInteger(value)) return undefined
  return violation(
    pointerOf(measure),
    'is an integer beyond 2^53 and would not read back the same',
    'number_unsafe',
  )
}

/** PostgreSQL stores neither; MongoDB would replace half a surrogate pair. */
function textViolation(text: string, measure: Measure): Violation | undefined {
  if (text.includes('\u0000')) return violation(pointerOf(measure), 'holds a NUL character', 'string_nul')
  return LONE_SURROGATE.test(text)
    ? violation(pointerOf(measure), 'holds half a surrogate pair', 'value_invalid')
    : undefined
}

/** Built only for a violation: most values have none. */
const pointerOf = ({ path }: Measure) => path.map((name) => `/${shortPointer(String(name))}`).join('')

function violation(pointer: string, detail: string, code: ProblemCode = 'validation_failed'): Violation {
  return { code, error: { in: 'body', name: pointer.split('/')[1] ?? '', pointer, detail } }
}
