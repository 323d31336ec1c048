/** Knows the functions of numbers: those of C that jq has. */

import type { Json } from '../../json.ts'
import { failure } from '../failure.ts'
import type { ValueBuiltins } from './builtin.ts'
import { gamma, logGamma } from './gamma.ts'
import { double } from './kinds.ts'

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
    Object.entries(UNARY).map(([name, f]) => [`${name}/0`, (_run: unknown, input: Json) => f(double(input))]),
  ),
  ...Object.fromEntries(
    Object.entries(BINARY).map(([name, f]) => [
      `${name}/2`,
      (_run: unknown, _input: Json, x: Json, y: Json) => f(double(x), double(y)),
    ]),
  ),
  'fma/3': (_run, _input, x, y, z) => double(x) * double(y) + double(z),
  'abs/0': (_run, input) => {
    if (typeof input === 'number') return input < 0 ? -input : input === 0 ? 0 : input
    if (input === null || typeof input === 'boolean') throw failure('%v cannot be negated', input)
    return input
  },
  'frexp/0': (_run, input) => split(double(input)),
  'modf/0': (_run, input) => {
    const x = double(input)
    return [Number.isFinite(x) ? x - Math.trunc(x) : 0, Math.trunc(x)]
  },
  'lgamma_r/0': (_run, input) => {
    const x = double(input)
    return [logGamma(x), gamma(x) < 0 ? -1 : 1]
  },
}

/** To the nearest whole number; of two that are as near, the even one. */
function toEven(x: number): number {
  const down = Math.floor(x)
  const rest = x - down
  if (rest !== 0.5) return Math.round(x)
  return down % 2 === 0 ? down : down + 1
}

/** A number as a fraction from 0.5 and a power of two. */
function split(x: number): [fraction: number, exponent: number] {
  if (x === 0 || !Number.isFinite(x)) return [x, 0]
  let exponent = Math.max(-1_023, Math.floor(Math.log2(Math.abs(x))) + 1)
  let fraction = scale(x, -exponent)
  for (; Math.abs(fraction) < 0.5; exponent--) fraction *= 2
  for (; Math.abs(fraction) >= 1; exponent++) fraction /= 2
  return [fraction, exponent]
}

/** x times a power of two, in steps that are themselves numbers. */
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

/** The neighbour of x on the side of y. */
function next(x: number, y: number): number {
  if (Number.isNaN(x) || Number.isNaN(y)) return Number.NaN
  if (x === y) return y
  if (x === 0) return Math.sign(y) * Number.MIN_VALUE
  BITS.setFloat64(0, x)
  const step = y > x === x > 0 ? 1n : -1n
  BITS.setBigInt64(0, BITS.getBigInt64(0) + step)
  return BITS.getFloat64(0)
}
