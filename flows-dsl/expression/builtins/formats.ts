/** Knows the formats behind `@`: how a value is written for something else to read. */

import type { Json } from '../../json.ts'
import { type Budget, charge, chargeItems, checkSize, spend } from '../budget.ts'
import { failure } from '../failure.ts'
import { writeJson, writeNumber } from '../write.ts'
import { decode32, decode64, decodeUri, encode32, encode64, encodeUri } from './encodings.ts'

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
  base64: (value, budget) => encode64(text(value, budget), budget),
  base64d: (value, budget) => decode64(text(value, budget), value, budget),
  base32: (value, budget) => encode32(text(value, budget), budget),
  base32d: (value, budget) => decode32(text(value, budget), value, budget),
} as const satisfies Record<string, Format>

/** The names of all formats, without `@`. */
export const FORMAT_NAMES: readonly string[] = Object.keys(FORMATS)

/** @param name of a format that there is @throws Failure where the value cannot be written so */
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
  if (!Array.isArray(value)) throw failure(`%v cannot be ${name}-formatted, only array`, value)
  chargeItems(budget, value.length)
  const cells = value.map((cell) => {
    if (typeof cell === 'number') return Number.isNaN(cell) ? '' : writeNumber(cell)
    if (typeof cell === 'boolean') return String(cell)
    if (cell === null) return ''
    if (typeof cell !== 'string') throw failure(`%v is not valid in a csv row`, cell)
    charge(budget, cell.length)
    return quote(cell)
  })
  return cells.join(between)
}

function shell(value: Json, budget: Budget): string {
  const words = Array.isArray(value) ? value : [value]
  charge(budget, words.length)
  const quoted = words.map((word) => {
    if (typeof word === 'object' && word !== null) throw failure('%v can not be escaped for shell', word)
    if (typeof word !== 'string') return writeJson(word, budget)
    charge(budget, word.length)
    return `'${word.replaceAll("'", "'\\''").replaceAll('\0', '\\0')}'`
  })
  return quoted.join(' ')
}
