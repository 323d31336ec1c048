/** Keys: values of any type as texts, which sort by code point as PostgreSQL sorts the values. */

import { createHash } from 'node:crypto'
import type { Json } from '../../../core/work.ts'

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

/** The text of a key; undefined if it is of another value. */
export const textOf = (key: string | undefined): string | undefined =>
  key?.startsWith(TYPES.string) ? key.slice(TYPES.string.length) : undefined

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

/** The order of keys, which is that of their UTF-8 bytes. */
export const compareKeys = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))
