/** The shapes of documents in the API, and the bounds that are checked before a store is called. */

import Type from 'typebox'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../core/components/examples.ts'
import { canonical, isStorable, shortPointer } from '../../core/json.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { type InputError, Problem } from '../../core/problem.ts'
import type { ProblemCode } from '../../core/problem-catalogue.ts'
import { numberFault } from '../../core/strict-json.ts'
import { COLLECTION_LIMITS } from './limits.ts'
import type { Content, Stored } from './store.ts'

export { CollectionName } from './schemas/columns.ts'

/** The caller's members; their names are the caller's own. */
export const Fields = Type.Record(Type.String(), Type.Unknown(), { description: 'Fields of the document.' })
export type Fields = Record<string, unknown>

const SYSTEM_FIELDS = {
  _created_at: Type.String({ format: 'date-time' }),
  _updated_at: Type.String({ format: 'date-time' }),
  _version: Type.Integer({ minimum: 1 }),
}
const OWNER = Type.Optional(
  Type.String({ description: 'Id of the end user who created the document; absent if none did.' }),
)
const id = Type.String({ format: 'uuid' })
const Others = Type.Record(Type.String(), Type.Unknown())

/** A document as it is returned: the caller's fields, and ours, which begin with `_`. */
export const Document = component(
  'Document',
  Type.Intersect([
    Type.Object({
      id,
      ...SYSTEM_FIELDS,
      _owner: OWNER,
      _warnings: Type.Optional(
        Type.Array(Type.Object({ pointer: Type.String(), keyword: Type.String(), detail: Type.String() }), {
          description:
            'Mismatches with the schema of the collection, in the response to a write in mode `warn`.',
        }),
      ),
    }),
    Others,
  ]),
  {
    id: EXAMPLE_ID.booking,
    court_id: EXAMPLE_ID.court,
    starts_at: '2026-03-02T18:00:00Z',
    ends_at: '2026-03-02T19:00:00Z',
    _created_at: EXAMPLE_TIME.created,
    _updated_at: EXAMPLE_TIME.updated,
    _version: 2,
    _owner: EXAMPLE_ID.user,
  },
)
export type Document = { id: string; _created_at: string; _updated_at: string; _version: number } & Fields

/** The selected part of a document. */
export const SelectedDocument = component(
  'SelectedDocument',
  Type.Intersect([
    Type.Object({
      id,
      _created_at: Type.Optional(SYSTEM_FIELDS._created_at),
      _updated_at: Type.Optional(SYSTEM_FIELDS._updated_at),
      _version: Type.Optional(SYSTEM_FIELDS._version),
      _owner: OWNER,
      _similarity: Type.Optional(
        Type.Number({
          description: 'Similarity of a text of the document with the one of `near`: above 0, at most 1.',
        }),
      ),
      _distance: Type.Optional(
        Type.Number({
          minimum: 0,
          description: 'Metres from the place that the list is ordered by, along a great circle.',
        }),
      ),
      _score: Type.Optional(
        Type.Number({
          description: 'Score of the document for `_search`, by the weights of its fields: 0 to 1.',
        }),
      ),
      _highlight: Type.Optional(
        Type.Record(Type.String(), Type.String(), {
          description:
            'Parts of the texts of the document that `_search` has found, by field: HTML whose only tag is `<mark>`.',
        }),
      ),
      _expand: Type.Optional(
        Type.Record(Type.String(), Type.Unknown(), {
          description: 'Documents at the other end of references, by the names of `expand`.',
        }),
      ),
    }),
    Others,
  ]),
  {
    id: EXAMPLE_ID.booking,
    court_id: EXAMPLE_ID.court,
    starts_at: '2026-03-02T18:00:00Z',
    ends_at: '2026-03-02T19:00:00Z',
    _created_at: EXAMPLE_TIME.created,
    _updated_at: EXAMPLE_TIME.updated,
    _version: 2,
    _expand: { court: { id: EXAMPLE_ID.court, name: 'Centre court' } },
  },
)
export type SelectedDocument = { id: string } & Fields

export function toDocument(stored: Stored): Document {
  const {
    id: own,
    fields,
    version,
    created_at,
    updated_at,
    owner,
    similarity,
    distance,
    score,
    highlight,
    warnings,
  } = stored
  const ours = {
    ...{ _created_at: created_at, _updated_at: updated_at, _version: version },
    ...(owner !== null && { _owner: owner }),
    ...(similarity !== undefined && { _similarity: similarity }),
    ...(distance !== undefined && { _distance: distance }),
    ...(score !== undefined && { _score: score }),
    ...(highlight !== undefined && { _highlight: highlight }),
  }
  return { id: own, ...fields, ...ours, ...(warnings !== undefined && { _warnings: warnings }) }
}

/** The fields that a change would both set and remove: it is refused, since no order of the two is meant. */
export const namesInBoth = (set: Fields = {}, unset: readonly string[] = []): string[] =>
  unset.filter((name) => Object.hasOwn(set, name))

/** The fields after some are set and others removed. */
export function updatedFields(fields: Fields, set: Fields, unset: readonly string[]): Fields {
  const removed = new Set(unset)
  return Object.fromEntries(Object.entries({ ...fields, ...set }).filter(([name]) => !removed.has(name)))
}

/** True if both documents have the same values, in whatever order of members: then nothing is written. */
export const isSame = (a: Fields, b: Fields): boolean => canonical(a) === canonical(b)

/**
 * Rejects fields that could not be stored or read back unchanged: reserved names, NUL, excessive sizes.
 * @throws Problem with the first errors: `string_nul`, `number_unsafe` or `value_invalid` if all are of that kind, else
 *   `validation_failed`; or `body_too_large`
 */
export function checkFields(fields: Fields): Content {
  const text = textOf(fields)
  const check = new FieldsCheck()
  check.checkReserved(Object.keys(fields))
  check.checkValue(fields, 1)
  check.throwErrors()
  return { fields, text }
}

/** Serializes before each value is checked, which is far slower: a body of megabytes is rejected by its size. */
function textOf(fields: Fields): string {
  const text = serialized(fields)
  const bytes = Buffer.byteLength(text)
  if (bytes <= COLLECTION_LIMITS.documentBytesMax) return text
  const detail = `The document has ${bytes} bytes; at most ${COLLECTION_LIMITS.documentBytesMax} are stored.`
  throw new Problem('body_too_large', {
    detail,
    members: { limit_bytes: COLLECTION_LIMITS.documentBytesMax },
  })
}

/** Returns no text if the nesting exceeds the stack; `FieldsCheck`, whose depth is bounded, reports it. */
function serialized(fields: Fields): string {
  try {
    return JSON.stringify(fields)
  } catch (error) {
    if (error instanceof RangeError) return ''
    throw error
  }
}

class FieldsCheck {
  /** The names and indexes that lead to the current value. */
  readonly #path: (string | number)[] = []
  readonly #errors: InputError[] = []
  readonly #codes = new Set<ProblemCode>()
  #keys = 0

  checkReserved(names: readonly string[]): void {
    for (const name of names) {
      if (name === 'id') this.#report('is assigned by the server', { pointer: '/id' })
      else if (/^[_$]/.test(name))
        this.#report('is reserved: no name begins with _ or $', { pointer: `/${shortPointer(name)}` })
    }
  }

  /** Bounds the depth, and so its own recursion, and the number of keys, so that it ends soon. */
  checkValue(value: unknown, depth: number): void {
    if (typeof value === 'string') this.#checkText(value)
    if (typeof value === 'number') this.#checkNumber(value)
    if (typeof value !== 'object' || value === null || this.#keys > COLLECTION_LIMITS.documentKeysMax) return
    if (depth > CORE_LIMITS.documentDepthMax) {
      this.#report(`is nested deeper than ${CORE_LIMITS.documentDepthMax}`)
      return
    }
    const isArray = Array.isArray(value)
    for (const [name, member] of isArray ? value.entries() : Object.entries(value)) {
      if (!isArray) this.#checkName(String(name))
      this.#path.push(name)
      this.checkValue(member, depth + 1)
      this.#path.pop()
    }
  }

  throwErrors(): void {
    if (this.#keys > COLLECTION_LIMITS.documentKeysMax)
      this.#report(`has more than ${COLLECTION_LIMITS.documentKeysMax} keys`, { pointer: '' })
    if (this.#errors.length === 0) return
    const detail = this.#errors
      .map((error) => `${error.pointer || 'the document'} ${error.detail}`)
      .join('; ')
    const [code = 'validation_failed', ...others] = this.#codes
    throw new Problem(others.length === 0 ? code : 'validation_failed', { detail, errors: this.#errors })
  }

  /** Rejects names that a query could not express. */
  #checkName(name: string): void {
    this.#keys += 1
    if (name === '') this.#report('has a name that is empty')
    else if (!isStorable(name)) this.#reportUnstorable(name, 'has a name with')
    // A code unit is at most three bytes: most names need not be counted.
    else if (
      name.length * 3 > COLLECTION_LIMITS.fieldNameBytesMax &&
      Buffer.byteLength(name) > COLLECTION_LIMITS.fieldNameBytesMax
    ) {
      const pointer = `${this.#pointer()}/${shortPointer(name)}`
      this.#report(`is a name of more than ${COLLECTION_LIMITS.fieldNameBytesMax} bytes`, { pointer })
    }
  }

  /** PostgreSQL stores neither; MongoDB would replace half a surrogate pair. */
  #checkText(text: string): void {
    if (!isStorable(text)) this.#reportUnstorable(text, 'holds')
  }

  #reportUnstorable(text: string, what: string): void {
    if (text.includes('\u0000')) this.#report(`${what} a NUL character`, { code: 'string_nul' })
    else this.#report(`${what} half a surrogate pair`, { code: 'value_invalid' })
  }

  #checkNumber(value: number): void {
    const fault = numberFault(value)
    if (fault !== undefined) this.#report(fault, { code: 'number_unsafe' })
  }

  /** Keeps the first errors: a reply must not grow with the request. The pointer is built for errors alone. */
  #report(detail: string, { code = 'validation_failed', pointer = this.#pointer() }: Report = {}): void {
    if (this.#errors.length >= CORE_LIMITS.diagnosticsReturnedMax) return
    this.#codes.add(code)
    this.#errors.push({ in: 'body', name: pointer.split('/')[1] ?? '', pointer, detail })
  }

  #pointer(): string {
    return this.#path.map((name) => `/${shortPointer(String(name))}`).join('')
  }
}

interface Report {
  readonly code?: ProblemCode
  /** By default that of the current value. */
  readonly pointer?: string
}
