/** Implements the formats `@csv`, `@html`, `@base64` and so on. */

import { type Budget, charge, chargeItems, checkSize, spend } from '../../budget.ts'
import type { Json } from '../../json.ts'
import { jqError } from '../jq-error.ts'
import { writeJson, writeNumber } from '../write-json.ts'

type Format = (value: Json, budget: Budget) => string

const HTML: Readonly<Record<string, string>> = {
  '<': '&lt;',
  '>': '&gt;',
  '&': '&amp;',
  "'": '&apos;',
  '"': '&quot;',
}
const TSV: Readonly<Record<string, string>> = {
  '\t': '\\t',
  '\n': '\\n',
  '\r': '\\r',
  '\\': '\\\\',
  '\0': '\\0',
}

const FORMATS = {
  text,
  json: writeJson,
  html: (value, budget) => text(value, budget).replace(/[<>&'"]/g, (sign) => HTML[sign] ?? sign),
  uri: (value, budget) => encodeUri(text(value, budget), budget),
  urid: (value, budget) => decodeUri(text(value, budget), value, budget),
  csv: (value, budget) => row(value, 'csv', ',', budget, (cell) => `"${cell.replaceAll('"', '""')}"`),
  tsv: (value, budget) =>
    row(value, 'tsv', '\t', budget, (cell) => cell.replace(/[\t\n\r\\\0]/g, (sign) => TSV[sign] ?? sign)),
  sh: shell,
  base64: (value, budget) => encode(text(value, budget), LETTERS_64, 6, 4, budget),
  base64d: (value, budget) => decode64(text(value, budget), value, budget),
  base32: (value, budget) => encode(text(value, budget), LETTERS_32, 5, 8, budget),
  base32d: (value, budget) => decode32(text(value, budget), value, budget),
} as const satisfies Record<string, Format>

/** The names of all formats, without `@`. */
export const FORMAT_NAMES: readonly string[] = Object.keys(FORMATS)

/** @param name of an existing format @throws JqError if the value cannot be written in it */
export function formatValue(name: string, value: Json, budget: Budget): string {
  if (name === 'text') return text(value, budget)
  const format: Format = FORMATS[name as keyof typeof FORMATS]
  const written = format(value, budget)
  checkSize(budget, written.length)
  spend(budget, 1 + (written.length >> 2))
  return written
}

function text(value: Json, budget: Budget): string {
  return typeof value === 'string' ? value : writeJson(value, budget)
}

function row(
  value: Json,
  name: string,
  between: string,
  budget: Budget,
  quote: (cell: string) => string,
): string {
  if (!Array.isArray(value)) throw jqError(`%v cannot be ${name}-formatted, only array`, value)
  chargeItems(budget, value.length)
  const cells = value.map((cell) => {
    if (typeof cell === 'number') return Number.isNaN(cell) ? '' : writeNumber(cell)
    if (typeof cell === 'boolean') return String(cell)
    if (cell === null) return ''
    if (typeof cell !== 'string') throw jqError(`%v is not valid in a csv row`, cell)
    charge(budget, cell.length)
    return quote(cell)
  })
  return cells.join(between)
}

function shell(value: Json, budget: Budget): string {
  const words = Array.isArray(value) ? value : [value]
  charge(budget, words.length)
  const quoted = words.map((word) => {
    if (typeof word === 'object' && word !== null) throw jqError('%v can not be escaped for shell', word)
    if (typeof word !== 'string') return writeJson(word, budget)
    charge(budget, word.length)
    return `'${word.replaceAll("'", "'\\''").replaceAll('\0', '\\0')}'`
  })
  return quoted.join(' ')
}

const LETTERS_64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
const LETTERS_32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
const REPLACEMENT = 0xfffd
const UTF8 = new TextEncoder()

function decode64(text: string, value: Json, budget: Budget): string {
  const letters = unpadded(text, budget)
  if (letters === '' && text.length > 0) return ''
  if (!/^[A-Za-z0-9+/]*$/.test(letters)) throw jqError('%v is not valid base64 data', value)
  if (letters.length % 4 === 1) throw jqError('%v trailing base64 byte found', value)
  return decode(letters, LETTERS_64, 6, budget)
}

function decode32(text: string, value: Json, budget: Budget): string {
  const letters = unpadded(text, budget)
  if (!/^[A-Z2-7]*$/.test(letters)) throw jqError('%v is not valid base32 data', value)
  return decode(letters, LETTERS_32, 5, budget)
}

/** A text without trailing `=`. A regular expression would take quadratic time. */
function unpadded(text: string, budget: Budget): string {
  spend(budget, text.length >> 4)
  let end = text.length
  while (text[end - 1] === '=') end--
  return text.slice(0, end)
}

/** @param bits of each letter @param group number of letters to pad to with `=` */
function encode(text: string, letters: string, bits: number, group: number, budget: Budget): string {
  charge(budget, text.length * 4)
  spend(budget, text.length)
  let [written, buffer, filled] = ['', 0, 0]
  for (const byte of UTF8.encode(text)) {
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

function encodeUri(text: string, budget: Budget): string {
  charge(budget, text.length * 3)
  spend(budget, text.length)
  return encodeURIComponent(text.toWellFormed()).replace(
    /[!'()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

/** @throws JqError if a `%` is not followed by two hex digits, or the bytes are not UTF-8 */
function decodeUri(text: string, value: Json, budget: Budget): string {
  charge(budget, text.length * 4)
  return text.replace(/(?:%[0-9a-fA-F]{2})+|%/g, (coded) => {
    const bytes = coded
      .split('%')
      .slice(1)
      .map((hex) => (hex === '' ? -1 : Number.parseInt(hex, 16)))
    const decoded = bytes.includes(-1) ? undefined : textOf(bytes, true)
    if (decoded === undefined) throw jqError('%v is not a valid uri encoding', value)
    return decoded
  })
}

/** Decodes UTF-8 as jq does: an invalid sequence becomes one U+FFFD, or undefined if it is strict. */
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

/** The code point at a byte, and its length in bytes; of an invalid sequence only the length. */
function pointAt(bytes: readonly number[], i: number): { readonly point?: number; readonly length: number } {
  const first = bytes[i] ?? 0
  if (first < 0x80) return { point: first, length: 1 }
  if (first < 0xc2 || first > 0xf4) return { length: 1 }
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2
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
