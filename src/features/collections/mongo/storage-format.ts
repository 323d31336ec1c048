/** Encodes JSON documents for MongoDB: storable names and arrays, and sortable keys to query by. */

import { createHash } from 'node:crypto'
import type { Json } from '../../../core/work.ts'
import type { Fields } from '../document.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { isIndex } from '../query/filter.ts'
import { canonicalOf, FORMATS, type Format } from '../schemas/canonical-text.ts'

/**
 * An array is stored as the only member of an object: MongoDB would otherwise test its elements implicitly, and now only
 * does so if a path names them.
 */
export const ARRAY = '[]'

/**
 * Percent-encodes the characters of a member's name that have a meaning to MongoDB or to us: dots separate, a dollar
 * begins an operator, a whole number may be an index.
 */
export function storedName(name: string): string {
  if (name === '') return '%'
  const escaped = name.replaceAll(/[%.$/[]/g, code)
  return isIndex(name) ? code(name[0] ?? '') + name.slice(1) : escaped
}

const code = (char: string) => `%${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`

function originalName(name: string): string {
  if (name === '%') return ''
  return name.replaceAll(/%([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}

type Members = Record<string, unknown>

export const toStored = (fields: Fields): Members => storedValue(fields) as Members
export const fromStored = (stored: object): Fields => originalValue(stored) as Fields

/** Entries become own members, `__proto__` too. */
export function storedValue(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return { [ARRAY]: value.map(storedValue) }
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [storedName(name), storedValue(member)]),
  )
}

function originalValue(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const elements = (value as Members)[ARRAY]
  if (Array.isArray(elements)) return elements.map(originalValue)
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [originalName(name), originalValue(member)]),
  )
}

/** 2: texts have keys of their canonical texts. */
export const FORM = 2

/** The name of the key of a path, or of its canonical text. No stored name has a bracket. */
export const keyName = (path: readonly string[], as?: Format): string =>
  path.map(storedName).join('/') + (as === undefined ? '' : `[${as}]`)

/** The first character of the keys of each type, in order. */
export const TYPES = { string: '1', number: '2', boolean: '3', array: '4', object: '5' } as const

/**
 * A value as a text that sorts by UTF-8 bytes as JSON values do in PostgreSQL: by type, then by value. Keys are equal if
 * the values are. Arrays and objects that agree in the first `KEY_CHARS_MAX` characters are ordered by digest.
 */
export function keyOf(value: Exclude<Json, null>): string {
  if (typeof value === 'string') return TYPES.string + value
  if (typeof value === 'number') return TYPES.number + sortable(value)
  if (typeof value === 'boolean') return TYPES.boolean + Number(value)
  const key = elementKey(value)
  if (key.length <= KEY_CHARS_MAX) return key
  const beginning = key.slice(0, KEY_CHARS_MAX).replace(/[\ud800-\udbff]$/, '')
  return beginning + createHash('sha256').update(key).digest('base64url')
}

/** A document repeats the members of an object in the key of each of up to ten objects around it. */
const KEY_CHARS_MAX = 500

/** The bits of a double as hexadecimal digits that sort as the numbers do. */
function sortable(value: number): string {
  const bits = new DataView(new ArrayBuffer(8))
  bits.setFloat64(0, value === 0 ? 0 : value)
  const raw = bits.getBigUint64(0)
  const flipped = value < 0 ? ~raw : raw | (1n << 63n)
  return BigInt.asUintN(64, flipped).toString(16).padStart(16, '0')
}

const END = '\u0001'
/** Behind `END` comes a type or nothing, which both sort before this. */
const ESCAPED_END = `${END}z`

/** The key of a value inside another one. None is the beginning of another, so keys can be joined. */
function elementKey(value: Json): string {
  if (value === null) return '0'
  if (typeof value === 'string') return TYPES.string + value.replaceAll(END, ESCAPED_END) + END
  if (typeof value === 'number') return TYPES.number + sortable(value).replace(/0+$/, '') + END
  if (typeof value === 'boolean') return TYPES.boolean + Number(value)
  if (Array.isArray(value)) return TYPES.array + sizeKey(value.length) + value.map(elementKey).join('')
  const names = Object.keys(value).sort(byLength)
  return TYPES.object + sizeKey(names.length) + names.map((name) => memberKey(name, value[name])).join('')
}

const memberKey = (name: string, value: Json = null): string => elementKey(name) + elementKey(value)

/** Fixed width; a document has fewer values than bytes. */
const sizeKey = (size: number): string => size.toString(36).padStart(4, '0')

/** PostgreSQL compares the members of objects in this order of their names. */
const byLength = (a: string, b: string): number =>
  Buffer.byteLength(a) - Buffer.byteLength(b) || Buffer.compare(Buffer.from(a), Buffer.from(b))

/**
 * The key of each value to which a path of member names leads. Null has none, nor have paths that no query can name, so
 * their number is bounded by the names in the document. Top-level texts also have keys of their canonical texts, since
 * a later declaration may give them a format.
 */
export function keysOf(fields: Fields): Record<string, string> {
  const keys: [string, string][] = []
  const visit = (value: unknown, path: readonly string[]): void => {
    if (value === null || value === undefined) return
    if (path.length > 0) keys.push([keyName(path), keyOf(value as Exclude<Json, null>)])
    if (path.length === 1 && typeof value === 'string') keys.push(...canonicalKeys(path, value))
    if (typeof value !== 'object' || Array.isArray(value) || path.length >= COLLECTION_LIMITS.pathDepthMax)
      return
    for (const [name, member] of Object.entries(value)) {
      if (name !== '' && Buffer.byteLength(name) <= COLLECTION_LIMITS.fieldNameBytesMax)
        visit(member, [...path, name])
    }
  }
  visit(fields, [])
  return Object.fromEntries(keys)
}

const canonicalKeys = (path: readonly string[], text: string): [string, string][] =>
  FORMATS.flatMap((format): [string, string][] => {
    const canonical = canonicalOf(format, text)
    return canonical === undefined ? [] : [[keyName(path, format), keyOf(canonical)]]
  })
