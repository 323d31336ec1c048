/** Adds numbers as decimals, so that no digit is lost: in any order, the sum is the same. */

const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/

/** Digits behind the point of an average besides those of the sum: more than a double has. PostgreSQL divides with as many. */
const MORE_DIGITS = 40

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
