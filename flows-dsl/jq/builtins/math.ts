/** Implements the mathematical builtins, which are those of C. */

import type { Json } from '../../json.ts'
import type { ValueBuiltins } from '../filter.ts'
import { jqError } from '../jq-error.ts'
import { double } from './type-conversion.ts'

const UNARY: Readonly<Record<string, (x: number) => number>> = {
  floor: Math.floor,
  ceil: Math.ceil,
  trunc: Math.trunc,
  round: (x) => Math.sign(x) * Math.round(Math.abs(x)),
  rint: toEven,
  nearbyint: toEven,
  sqrt: Math.sqrt,
  cbrt: Math.cbrt,
  exp: Math.exp,
  exp2: (x) => 2 ** x,
  exp10: (x) => 10 ** x,
  pow10: (x) => 10 ** x,
  expm1: Math.expm1,
  log: Math.log,
  log2: Math.log2,
  log10: Math.log10,
  log1p: Math.log1p,
  logb: (x) => (x === 0 ? Number.NEGATIVE_INFINITY : Number.isFinite(x) ? split(x)[1] - 1 : Math.abs(x)),
  sin: Math.sin,
  cos: Math.cos,
  tan: Math.tan,
  asin: Math.asin,
  acos: Math.acos,
  atan: Math.atan,
  sinh: Math.sinh,
  cosh: Math.cosh,
  tanh: Math.tanh,
  asinh: Math.asinh,
  acosh: Math.acosh,
  atanh: Math.atanh,
  fabs: Math.abs,
  significand: (x) => (x === 0 || !Number.isFinite(x) ? x : split(x)[0] * 2),
  gamma: logGamma,
  lgamma: logGamma,
  tgamma: gamma,
}

const BINARY: Readonly<Record<string, (x: number, y: number) => number>> = {
  pow: (x, y) => (x === 1 ? 1 : x === -1 && !Number.isFinite(y) && !Number.isNaN(y) ? 1 : x ** y),
  atan2: Math.atan2,
  hypot: Math.hypot,
  fmod: (x, y) => x % y,
  fmin: (x, y) => (Number.isNaN(x) ? y : Number.isNaN(y) ? x : Math.min(x, y)),
  fmax: (x, y) => (Number.isNaN(x) ? y : Number.isNaN(y) ? x : Math.max(x, y)),
  fdim: (x, y) => (x > y ? x - y : Number.isNaN(x) || Number.isNaN(y) ? Number.NaN : 0),
  copysign: (x, y) => (y < 0 || Object.is(y, -0) ? -Math.abs(x) : Math.abs(x)),
  drem: nearestRemainder,
  remainder: nearestRemainder,
  ldexp: scale,
  scalb: scale,
  scalbln: scale,
  nextafter: next,
  nexttoward: next,
}

export const MATH: ValueBuiltins = {
  ...Object.fromEntries(
    Object.entries(UNARY).map(([name, f]) => [
      `${name}/0`,
      (_context: unknown, input: Json) => f(double(input)),
    ]),
  ),
  ...Object.fromEntries(
    Object.entries(BINARY).map(([name, f]) => [
      `${name}/2`,
      (_context: unknown, _input: Json, x: Json, y: Json) => f(double(x), double(y)),
    ]),
  ),
  'fma/3': (_context, _input, x, y, z) => double(x) * double(y) + double(z),
  'abs/0': (_context, input) => {
    if (typeof input === 'number') return input < 0 ? -input : input === 0 ? 0 : input
    if (input === null || typeof input === 'boolean') throw jqError('%v cannot be negated', input)
    return input
  },
  'frexp/0': (_context, input) => split(double(input)),
  'modf/0': (_context, input) => {
    const x = double(input)
    return [Number.isFinite(x) ? x - Math.trunc(x) : 0, Math.trunc(x)]
  },
  'lgamma_r/0': (_context, input) => {
    const x = double(input)
    return [logGamma(x), gamma(x) < 0 ? -1 : 1]
  },
}

/** Rounds to the nearest integer, and ties to the even one. */
function toEven(x: number): number {
  const down = Math.floor(x)
  const rest = x - down
  if (rest !== 0.5) return Math.round(x)
  return down % 2 === 0 ? down : down + 1
}

/** A number as a fraction in [0.5, 1) and a power of two. */
function split(x: number): [fraction: number, exponent: number] {
  if (x === 0 || !Number.isFinite(x)) return [x, 0]
  let exponent = Math.max(-1_023, Math.floor(Math.log2(Math.abs(x))) + 1)
  let fraction = scale(x, -exponent)
  for (; Math.abs(fraction) < 0.5; exponent--) fraction *= 2
  for (; Math.abs(fraction) >= 1; exponent++) fraction /= 2
  return [fraction, exponent]
}

/** x times a power of two, in steps that do not overflow. */
function scale(x: number, power: number): number {
  const whole = Math.max(-2_200, Math.min(2_200, Math.trunc(power)))
  const half = Math.trunc(whole / 3)
  return x * 2 ** half * 2 ** half * 2 ** (whole - 2 * half)
}

function nearestRemainder(x: number, y: number): number {
  if (y === 0 || !Number.isFinite(x) || Number.isNaN(y)) return Number.NaN
  return Number.isFinite(y) ? x - toEven(x / y) * y : x
}

const BITS = new DataView(new ArrayBuffer(8))

/** The double next to x in the direction of y. */
function next(x: number, y: number): number {
  if (Number.isNaN(x) || Number.isNaN(y)) return Number.NaN
  if (x === y) return y
  if (x === 0) return Math.sign(y) * Number.MIN_VALUE
  BITS.setFloat64(0, x)
  const step = y > x === x > 0 ? 1n : -1n
  BITS.setBigInt64(0, BITS.getBigInt64(0) + step)
  return BITS.getFloat64(0)
}

const COEFFICIENTS = [
  0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
  12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
]
const WHOLE_MAX = 23

/** The gamma function (Lanczos approximation, g = 7, n = 9; about 15 digits). */
function gamma(x: number): number {
  if (Number.isInteger(x) && x > 0 && x <= WHOLE_MAX) {
    let product = 1
    for (let i = 2; i < x; i++) product *= i
    return product
  }
  if (x === 0) return 1 / x
  if (Number.isInteger(x) && x < 0) return Number.NaN
  if (x < 0.5) return Math.PI / (Math.sin(Math.PI * x) * gamma(1 - x))
  if (x > 171.7) return Number.POSITIVE_INFINITY
  const { sum, t } = series(x)
  const half = t ** ((x - 0.5) / 2)
  return Math.sqrt(2 * Math.PI) * half * Math.exp(-t) * half * sum
}

/** The logarithm of the absolute value of gamma. */
function logGamma(x: number): number {
  if (x === 1 || x === 2) return 0
  if (!Number.isFinite(x)) return Number.isNaN(x) ? x : Number.POSITIVE_INFINITY
  if (Number.isInteger(x) && x <= 0) return Number.POSITIVE_INFINITY
  if (x < 0.5) return Math.log(Math.PI / Math.abs(Math.sin(Math.PI * x))) - logGamma(1 - x)
  const { sum, t } = series(x)
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(sum)
}

function series(x: number): { readonly sum: number; readonly t: number } {
  const [first = 1, ...rest] = COEFFICIENTS
  const sum = rest.reduce((before, coefficient, i) => before + coefficient / (x + i), first)
  return { sum, t: x + 6.5 }
}
