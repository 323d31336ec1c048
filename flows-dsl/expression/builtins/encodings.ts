/** Knows how texts are written as bytes in other letters: base64, base32, percent signs. */

import type { Json } from '../../json.ts'
import { type Budget, charge, spend } from '../budget.ts'
import { failure } from '../failure.ts'

const LETTERS_64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
const LETTERS_32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
const REPLACEMENT = 0xfffd

export function encode64(text: string, budget: Budget): string {
  return encode(text, LETTERS_64, 6, 4, budget)
}

export function encode32(text: string, budget: Budget): string {
  return encode(text, LETTERS_32, 5, 8, budget)
}

/** @throws Failure where it is no base64 */
export function decode64(text: string, value: Json, budget: Budget): string {
  const letters = unpadded(text, budget)
  if (letters === '' && text.length > 0) return ''
  if (!/^[A-Za-z0-9+/]*$/.test(letters)) throw failure('%v is not valid base64 data', value)
  if (letters.length % 4 === 1) throw failure('%v trailing base64 byte found', value)
  return decode(letters, LETTERS_64, 6, budget)
}

/** @throws Failure where it is no base32 */
export function decode32(text: string, value: Json, budget: Budget): string {
  const letters = unpadded(text, budget)
  if (!/^[A-Z2-7]*$/.test(letters)) throw failure('%v is not valid base32 data', value)
  return decode(letters, LETTERS_32, 5, budget)
}

/** Without the `=` at its end. An expression that looks for them would begin again at each. */
function unpadded(text: string, budget: Budget): string {
  spend(budget, text.length >> 4)
  let end = text.length
  while (text[end - 1] === '=') end--
  return text.slice(0, end)
}

/** @param bits of each letter @param group letters that are filled up with `=` */
function encode(text: string, letters: string, bits: number, group: number, budget: Budget): string {
  charge(budget, text.length * 4)
  spend(budget, text.length)
  let [written, buffer, filled] = ['', 0, 0]
  for (const byte of utf8Of(text)) {
    buffer = (buffer << 8) | byte
    for (filled += 8; filled >= bits; filled -= bits)
      written += letters[(buffer >> (filled - bits)) & (2 ** bits - 1)]
    buffer &= 2 ** filled - 1
  }
  if (filled > 0) written += letters[(buffer << (bits - filled)) & (2 ** bits - 1)]
  return written.padEnd(Math.ceil(written.length / group) * group, '=')
}

function decode(text: string, letters: string, bits: number, budget: Budget): string {
  charge(budget, text.length * 4)
  spend(budget, text.length)
  const bytes: number[] = []
  let [buffer, filled] = [0, 0]
  for (const letter of text) {
    buffer = (buffer << bits) | letters.indexOf(letter)
    filled += bits
    if (filled >= 8) {
      filled -= 8
      bytes.push((buffer >> filled) & 0xff)
      buffer &= 2 ** filled - 1
    }
  }
  return textOf(bytes) ?? ''
}

export function encodeUri(text: string, budget: Budget): string {
  charge(budget, text.length * 3)
  spend(budget, text.length)
  let written = ''
  for (const byte of utf8Of(text)) {
    const sign = String.fromCharCode(byte)
    written += /[A-Za-z0-9_.~-]/.test(sign) ? sign : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return written
}

/** @throws Failure where a `%` is not followed by two hex digits, or the bytes are no UTF-8 */
export function decodeUri(text: string, value: Json, budget: Budget): string {
  charge(budget, text.length * 4)
  return text.replace(/(?:%[0-9a-fA-F]{2})+|%/g, (coded) => {
    const bytes = coded
      .split('%')
      .slice(1)
      .map((hex) => (hex === '' ? -1 : Number.parseInt(hex, 16)))
    const decoded = bytes.includes(-1) ? undefined : textOf(bytes, true)
    if (decoded === undefined) throw failure('%v is not a valid uri encoding', value)
    return decoded
  })
}

function utf8Of(text: string): number[] {
  const bytes: number[] = []
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0
    const point = code >= 0xd800 && code <= 0xdfff ? REPLACEMENT : code
    if (point < 0x80) bytes.push(point)
    else if (point < 0x800) bytes.push(0xc0 | (point >> 6), 0x80 | (point & 63))
    else if (point < 0x10000)
      bytes.push(0xe0 | (point >> 12), 0x80 | ((point >> 6) & 63), 0x80 | (point & 63))
    else {
      bytes.push(0xf0 | (point >> 18), 0x80 | ((point >> 12) & 63))
      bytes.push(0x80 | ((point >> 6) & 63), 0x80 | (point & 63))
    }
  }
  return bytes
}

/** Bytes of UTF-8 as a text; what is none becomes U+FFFD, or nothing at all where it is strict. */
function textOf(bytes: readonly number[], strict = false): string | undefined {
  let text = ''
  for (let i = 0; i < bytes.length; ) {
    const { point, length } = pointAt(bytes, i)
    if (point === undefined && strict) return undefined
    text += String.fromCodePoint(point ?? REPLACEMENT)
    i += length
  }
  return text
}

/** The code point at a byte, and how many bytes it takes; of what is none, the bytes that belong together. */
function pointAt(bytes: readonly number[], i: number): { readonly point?: number; readonly length: number } {
  const first = bytes[i] ?? 0
  if (first < 0x80) return { point: first, length: 1 }
  const length =
    first >= 0xf0 && first < 0xf5
      ? 4
      : first >= 0xe0 && first < 0xf0
        ? 3
        : first >= 0xc2 && first < 0xe0
          ? 2
          : 0
  if (length === 0) return { length: 1 }
  let point = first & (0x7f >> length)
  for (let offset = 1; offset < length; offset++) {
    const byte = bytes[i + offset]
    if (byte === undefined || (byte & 0xc0) !== 0x80) return { length: offset }
    point = (point << 6) | (byte & 63)
  }
  const least = length === 2 ? 0x80 : length === 3 ? 0x800 : 0x10000
  const valid = point >= least && point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff)
  return valid ? { point, length } : { length }
}
