/** Encodes JSON documents for MongoDB: storable names and arrays, and sortable keys to query by. */

import { createHash } from 'node:crypto'
import { LIMITS } from '../../../core/limits.ts'
import type { Json } from '../../../core/work.ts'
import type { Fields } from '../document.ts'
import { isIndex } from '../query/filter.ts'
import { canonicalOf, FORMATS, type Format } from '../schemas/canonical-text.ts'

/**
 * An array is kept as the only member of an object: MongoDB looks into the elements of an array on its own, and so
 * only where a path names them.
 */
export const ARRAY = '[]'

/**
 * A member's name without what MongoDB or we read in it: dots separate, a dollar begins an operator, a whole number
 * may be an index. Percent-encoded, so it can be taken back.
 */
export function storedName(name: string): string {
  if (name === '') return '%'
  const escaped = name.replaceAll(/[%.$/[]/g, code)
  return isIndex(name) ? code(name[0] ?? '') + name.slice(1) : escaped
}

const code = (char: string) => `%${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`

function givenName(name: string): string {
  if (name === '%') return ''
  return name.replaceAll(/%([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}

type Members = Record<string, unknown>

export const toStored = (fields: Fields): Members => storedValue(fields) as Members
export const fromStored = (stored: object): Fields => givenValue(stored) as Fields

/** Entries become own members whatever their name, `__proto__` too. */
export function storedValue(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return { [ARRAY]: value.map(storedValue) }
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [storedName(name), storedValue(member)]),
  )
}

function givenValue(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const elements = (value as Members)[ARRAY]
  if (Array.isArray(elements)) return elements.map(givenValue)
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [givenName(name), givenValue(member)]),
  )
}

/** 2: texts have keys of their canonical texts. */
export const FORM = 2

/** The name of a path among the keys, or of the canonical text of what is there. No name that is stored has a bracket. */
export const keyName = (path: readonly string[], as?: Format): string =>
  path.map(storedName).join('/') + (as === undefined ? '' : `[${as}]`)

/** Between the first keys of a type and those of the next. */
export const TYPES = { string: '1', number: '2', boolean: '3', array: '4', object: '5' } as const

/**
 * A value as a text that sorts as JSON values do: by type, then by value. Arrays and objects are equal where their
 * texts are, and stand in no order of use.
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
 * The key of each value that a path of member names leads to; null has none. What no query can name has none
 * either, so their number is bounded by the names in the document. Texts at the top, which may be declared as something
 * else one day, have their canonical texts beside them.
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
