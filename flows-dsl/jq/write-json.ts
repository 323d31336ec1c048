/** Writes values as JSON, with the number format of jq. */

import { type Budget, chargeNames, checkDepth, checkSize, spend } from '../budget.ts'
import { clip, type Json, utf8Length } from '../json.ts'

/** The name jq gives the type of a value. */
export function typeOf(value: Json): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

/** `tojson`. @throws FlowError (expression) if the value is too large or too deep */
export function writeJson(value: Json, budget: Budget): string {
  if (typeof value === 'string') {
    checkSize(budget, value.length + 2)
    spend(budget, value.length >> 4)
    return writeText(value)
  }
  const writer = new Writer(budget, false)
  writer.write(value, 1)
  return writer.text()
}

/** The most bytes of UTF-8 in messages (jq's ERRORMAX_LEN, less the end of a C string). */
const SHORT_MAX = 29

/** The beginning of a value's JSON, for messages. @param budget charged for it, unless the evaluation ends with it */
export function writeShort(value: Json, budget?: Budget): string {
  const writer = new Writer(budget, true)
  writer.write(typeof value === 'string' ? value.slice(0, SHORT_MAX + 1) : value, 1)
  const text = writer.text()
  const close =
    typeof value === 'string' ? '"' : Array.isArray(value) ? ']' : value instanceof Object ? '}' : ''
  if (utf8Length(text) <= SHORT_MAX) return text
  return `${clip(text, SHORT_MAX - 3 - close.length)}...${close}`
}

class Writer {
  readonly #budget: Budget | undefined
  /** Stop as soon as there is enough for a message. */
  readonly #isShort: boolean
  #text = ''

  constructor(budget: Budget | undefined, isShort: boolean) {
    this.#budget = budget
    this.#isShort = isShort
  }

  text(): string {
    return this.#text
  }

  write(value: Json, depth: number): void {
    if (this.#full()) return
    if (this.#budget !== undefined) {
      spend(this.#budget, 2)
      if (!this.#isShort) checkDepth(this.#budget, depth)
    }
    if (typeof value === 'string') this.#put(writeText(value))
    else if (typeof value === 'number') this.#put(writeNumber(value))
    else if (value === null || typeof value === 'boolean') this.#put(String(value))
    else if (Array.isArray(value)) this.#array(value, depth)
    else this.#object(value, depth)
  }

  #array(items: readonly Json[], depth: number): void {
    for (let i = 0; i < items.length && !this.#full(); i++) {
      this.#put(i === 0 ? '[' : ',')
      this.write(items[i] ?? null, depth + 1)
    }
    this.#put(items.length === 0 ? '[]' : ']')
  }

  #object(object: { readonly [key: string]: Json }, depth: number): void {
    let sign = '{'
    // The engine lists all names before it returns the first.
    if (this.#budget !== undefined) chargeNames(this.#budget, Object.keys(object).length)
    for (const key in object) {
      if (this.#full()) return
      if (this.#budget !== undefined) spend(this.#budget, 2)
      this.#put(`${sign}${writeText(key)}:`)
      this.write(object[key] ?? null, depth + 1)
      sign = ','
    }
    this.#put(sign === '{' ? '{}' : '}')
  }

  #full(): boolean {
    return this.#isShort && this.#text.length > SHORT_MAX
  }

  #put(text: string): void {
    this.#text += text
    if (this.#budget !== undefined && !this.#isShort) {
      checkSize(this.#budget, this.#text.length)
      if (text.length > 15) spend(this.#budget, text.length >> 4)
    }
  }
}

function writeText(text: string): string {
  const written = JSON.stringify(text)
  return written.includes('\u007f') ? written.replaceAll('\u007f', '\\u007f') : written
}

/**
 * A number as jq writes it: at most 17 digits, exponents of at least two digits, `null` for NaN, the largest double
 * for infinity.
 */
export function writeNumber(value: number): string {
  if (Number.isNaN(value)) return 'null'
  if (value === 0) return Object.is(value, -0) ? '-0' : '0'
  const plain = String(value)
  if (Number.isInteger(value) && plain.length < 16) return plain
  const finite = Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, value))
  const [mantissa = '', exponent = '0'] = Math.abs(finite).toExponential().split('e')
  return (value < 0 ? '-' : '') + placed(mantissa.replace('.', ''), Number(exponent))
}

/** @param exponent power of ten of the first digit */
function placed(digits: string, exponent: number): string {
  const count = digits.length
  if (exponent < -4 || exponent >= count + 15) {
    const sign = exponent < 0 ? '-' : '+'
    const power = String(Math.abs(exponent)).padStart(2, '0')
    return `${digits[0]}${count > 1 ? `.${digits.slice(1)}` : ''}e${sign}${power}`
  }
  if (exponent < 0) return `0.${'0'.repeat(-exponent - 1)}${digits}`
  if (count <= exponent + 1) return digits + '0'.repeat(exponent + 1 - count)
  return `${digits.slice(0, exponent + 1)}.${digits.slice(exponent + 1)}`
}
