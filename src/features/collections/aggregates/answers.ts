/** Values of the answer of an aggregate, which are the same in every store: exact sums, and the beginnings of periods. */

import { Problem } from '../../../core/problem.ts'
import type { Json } from '../../../core/work.ts'

/** @param sum its decimal text @throws Problem `number_unsafe` for a sum that JSON would round */
export function sumOf(name: string, sum: string | null): Json {
  if (sum === null) return null
  const number = exactNumber(sum)
  if (number !== undefined) return number
  throw new Problem('number_unsafe', {
    detail: `The sum ${name.slice(0, 100)} of a group is ${sum.slice(0, 100)}, which a JSON number would round.`,
    hint: 'Restrict the filter, or form smaller groups.',
  })
}

/**
 * The number that a decimal text means; undefined for an integer that would not read back the same from its JSON. A fraction is the
 * nearest double, as in documents.
 */
function exactNumber(text: string): number | undefined {
  const number = Number(text)
  if (!Number.isFinite(number)) return undefined
  const [whole = '', fraction = ''] = text.split('.')
  if (Number.isSafeInteger(number) || /[1-9]/.test(fraction)) return number
  return BigInt(whole) === integerOf(String(number)) ? number : undefined
}

/** The integer that a number prints as: `1e+22`, `9007199254740992`. */
function integerOf(printed: string): bigint {
  const [, sign = '', first = '', digits = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e\+(\d+))?$/.exec(printed) ?? []
  return BigInt(`${sign}${first}${digits.padEnd(Number(exponent), '0')}`)
}

/** RFC 3339 in the offset of the zone; in UTC for an offset of the past that had seconds. */
export function instantText(seconds: number, offset: number): string {
  const ahead = offset % 60 === 0 ? offset : 0
  const local = new Date((seconds + ahead) * 1_000).toISOString().replace('.000Z', '')
  const minutes = Math.abs(ahead) / 60
  const pad = (value: number) => String(value).padStart(2, '0')
  if (ahead === 0) return `${local}Z`
  return `${local}${ahead < 0 ? '-' : '+'}${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}`
}

/** The date of such a text. */
export const dateText = (seconds: number): string => {
  const text = instantText(seconds, 0)
  return text.slice(0, text.indexOf('T'))
}

const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/

/** Digits behind the point of an average besides those of the sum: more than a double has. PostgreSQL divides with as many. */
const MORE_DIGITS = 40

/** Adds numbers as decimals, so that no digit is lost: in any order, the sum is the same. */
export class ExactSum {
  /** The sum is these digits, divided by ten to the power of the scale. */
  #digits = 0n
  #scale = 0
  #count = 0

  /** @param text of a number, as JSON has it or with zeros at its end, which count as digits */
  add(text: string): void {
    const [found, sign = '', whole = '', fraction = '', exponent = '0'] = NUMBER.exec(text) ?? []
    if (found === undefined) throw new TypeError(`${text} is not a number`)
    const scale = fraction.length - Number(exponent)
    const digits = BigInt(`${sign}${whole}${fraction}`)
    this.#count += 1
    if (scale > this.#scale) {
      this.#digits *= powerOfTen(scale - this.#scale)
      this.#scale = scale
    }
    this.#digits += digits * powerOfTen(this.#scale - scale)
  }

  /** Null if there is no number. */
  get text(): string | null {
    return this.#count === 0 ? null : decimalText(this.#digits, this.#scale)
  }

  /** The nearest double. */
  get average(): number | null {
    if (this.#count === 0) return null
    const [dividend, divisor] = [this.#digits * powerOfTen(MORE_DIGITS), BigInt(this.#count)]
    return Number(decimalText(dividend / divisor, this.#scale + MORE_DIGITS))
  }
}

const powerOfTen = (exponent: number): bigint => 10n ** BigInt(exponent)

function decimalText(digits: bigint, scale: number): string {
  const [sign, positive] = digits < 0n ? ['-', -digits] : ['', digits]
  const all = String(positive).padStart(scale + 1, '0')
  const at = all.length - scale
  return scale === 0 ? `${sign}${all}` : `${sign}${all.slice(0, at)}.${all.slice(at)}`
}
