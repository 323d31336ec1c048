/** Knows the gamma function (Lanczos' approximation, g = 7, n = 9; about 15 digits). */

const COEFFICIENTS = [
  0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
  12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
]
const WHOLE_MAX = 23

export function gamma(x: number): number {
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
export function logGamma(x: number): number {
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
