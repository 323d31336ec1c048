/** Encodes JSON documents for MongoDB: storable names and arrays, and sortable keys to query by. */

import { createHash } from 'node:crypto'
import { LIMITS } from '../../../core/limits.ts'
import type { Json } from '../../../core/work.ts'
import type { Fields } from '../document.ts'
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
 * A value as a text that sorts as JSON values do: by type, then by value. Arrays and objects are equal if their texts
 * are; their order has no meaning.
 */
export function keyOf(value: Exclude<Json, null>): string {
  if (typeof value === 'string') return TYPES.string + value
  if (typeof value === 'number') return TYPES.number + sortable(value)
  if (typeof value === 'boolean') return TYPES.boolean + Number(value)
  const digest = createHash('sha256').update(canonical(value)).digest('base64url')
  return (Array.isArray(value) ? TYPES.array : TYPES.object) + digest
}

/** The bits of a double as hexadecimal digits that sort as the numbers do. */
function sortable(value: number): string {
  const bits = new DataView(new ArrayBuffer(8))
  bits.setFloat64(0, value === 0 ? 0 : value)
  const raw = bits.getBigUint64(0)
  const flipped = value < 0 ? ~raw : raw | (1n << 63n)
  return BigInt.asUintN(64, flipped).toString(16).padStart(16, '0')
}

/** JSON with the members of objects in order of their names, and -0 as 0. */
function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const names = Object.keys(value).sort()
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name] ?? null)}`).join()}}`
}

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
    if (typeof value !== 'object' || Array.isArray(value) || path.length >= LIMITS.pathDepthMax) return
    for (const [name, member] of Object.entries(value)) {
      if (name !== '' && Buffer.byteLength(name) <= LIMITS.fieldNameBytesMax) visit(member, [...path, name])
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
