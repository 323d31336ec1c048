/**
 * Canonical texts of formats, against JavaScript's reading of timestamps and the formats of the validator.
 */

import fc from 'fast-check'
import Format from 'typebox/format'
import { describe, expect, test } from 'vitest'
import { canonicalLiteral, canonicalOf } from '../../../src/features/collections/schemas/canonical-text.ts'
import { decimals, numberTexts } from '../../support/fixtures/number-spellings.ts'
import { instants, points, uuids } from '../../support/fixtures/timestamp-spellings.ts'
import { repeated } from '../../support/stack/soak.ts'

/** A timestamp as an integer of a sufficiently small fraction of a second, as JavaScript reads it. */
function oracle(text: string): bigint {
  const [, head = '', fraction = '', offset = ''] = /^(.{19})(?:\.(\d+))?(.*)$/.exec(text) ?? []
  const seconds = BigInt(Date.parse(`${head}${offset}`.toUpperCase())) / 1000n
  return seconds * 10n ** 20n + BigInt(fraction.padEnd(20, '0'))
}
const order = <T extends string | bigint>(a: T, b: T) => (a < b ? -1 : a > b ? 1 : 0)

describe('date-time', () => {
  const right = instants.filter((text) => Format.Test('date-time', text))

  test('canonical texts: sort as their times do, and are equal for equal times', () => {
    const seen = { less: 0, same: 0 }
    fc.assert(
      fc.property(right, right, fc.boolean(), (a, other, shifted) => {
        const b = shifted ? elsewhere(a) : other
        const [x, y] = [canonicalOf('date-time', a), canonicalOf('date-time', b)]
        const expected = order(oracle(a), oracle(b))
        seen[expected === 0 ? 'same' : 'less'] += 1
        expect(order(x ?? '', y ?? ''), `${a} ${b}`).toBe(expected)
      }),
      { numRuns: repeated(5_000, 20_000), seed: 20_261_121 },
    )
    expect(Math.min(seen.less, seen.same)).toBeGreaterThan(repeated(1_200, 5_000))
  })

  test.each([
    ['1990-12-31T23:59:59.999999Z', '1990-12-31T23:59:60Z', -1],
    ['1990-12-31T15:59:60-08:00', '1990-12-31T23:59:60Z', 0],
    ['1990-12-31T23:59:60.9Z', '1991-01-01T00:00:00Z', -1],
    ['0000-01-01T00:00:00+23:59', '0000-01-01T00:00:00Z', -1],
    ['9999-12-31T23:59:59-23:59', '9999-12-31T23:59:59Z', 1],
    ['2026-01-01T00:00:00.1Z', '2026-01-01T00:00:00.10000000000000000000Z', 0],
    ['2026-01-01T00:00:00.1Z', '2026-01-01T00:00:00.10000000000000000000001Z', -1],
    ['2026-01-01T00:00:00+01:00[Europe/Paris]', '2025-12-31T23:00:00Z', 0],
  ])('%s and %s: have the same canonical text', (a, b, expected) => {
    expect(order(canonicalOf('date-time', a) ?? '', canonicalOf('date-time', b) ?? '')).toBe(expected)
  })

  test.each([
    ['2026-01-01', '2026-01-01T00:00:00Z'],
    ['2026-01-01T10:30', '2026-01-01T10:30:00Z'],
    ['2026-01-01 10:30:01.5', '2026-01-01T10:30:01.5Z'],
    ['2026-01-01 10:30+02:00', '2026-01-01T08:30:00Z'],
  ])('%s for %s: is valid in a query and invalid in a document', (short, full) => {
    expect(canonicalLiteral('date-time', short)).toBe(canonicalOf('date-time', full))
    expect(canonicalOf('date-time', short)).toBeUndefined()
  })

  test.each([
    'yesterday',
    '2026',
    '',
    '2026-01-01T00:00:00 02:00',
    '2026-02-29',
    '2026-01-01T24:00',
    '2026-01-01Z',
  ])('%s: is invalid in a query', (text) => expect(canonicalLiteral('date-time', text)).toBeUndefined())
})

/** The same time in another time zone, if the year has four digits there. */
function elsewhere(text: string): string {
  const [, fraction = ''] = /(\.\d+)/.exec(text) ?? []
  const time = Date.parse(text.toUpperCase().replace(fraction, ''))
  const there = new Date(time + 90 * 60_000)
  const year = there.getUTCFullYear()
  if (year < 0 || year > 9999) return text
  return `${there.toISOString().slice(0, 19)}${fraction === '' ? '.000' : `${fraction}0`}+01:30`
}

test('uuid: differs in case only: is equal', () => {
  expect(canonicalOf('uuid', '01890A5D-AC96-774B-bcce-b302099a8057')).toBe(
    '01890a5d-ac96-774b-bcce-b302099a8057',
  )
})

test.each(['date-time', 'date', 'uuid'] as const)(
  '%s: exactly the texts that the validator accepts have a canonical text, odd suffixes aside',
  (format) => {
    const seen = { right: 0, wrong: 0 }
    fc.assert(
      fc.property(fc.oneof(points, uuids), (text) => {
        const right = Format.Test(format, text)
        seen[right ? 'right' : 'wrong'] += 1
        if (right || !text.includes('[')) expect(canonicalOf(format, text) !== undefined, text).toBe(right)
      }),
      { numRuns: repeated(5_000, 20_000), seed: 20_261_121 },
    )
    expect(Math.min(seen.right, seen.wrong)).toBeGreaterThan(repeated(120, 500))
  },
)

describe('decimal, int64', () => {
  /** The number times 10^120. */
  const scaled = (text: string): bigint => {
    const [whole = '', fraction = ''] = text.split('.')
    return BigInt(`${whole}${fraction.padEnd(120, '0')}`)
  }
  const close = fc.oneof(
    decimals.filter((text) => text.length <= 100),
    fc.integer({ min: -12, max: 12 }).map((n) => (n / 10).toFixed(n % 3 === 0 ? 1 : 2)),
  )

  test('canonical texts: sort as their numbers do, and are equal for equal numbers', () => {
    const seen = { less: 0, same: 0 }
    fc.assert(
      fc.property(close, close, (a, b) => {
        const expected = order(scaled(a), scaled(b))
        seen[expected === 0 ? 'same' : 'less'] += 1
        expect(order(canonicalOf('decimal', a) ?? '', canonicalOf('decimal', b) ?? ''), `${a} ${b}`).toBe(
          expected,
        )
      }),
      { numRuns: repeated(5_000, 20_000), seed: 20_261_130 },
    )
    expect(Math.min(seen.less, seen.same)).toBeGreaterThan(repeated(40, 160))
  })

  test('texts of numbers: those that a decimal, a 64-bit integer may be written as have a canonical text, no others', () => {
    const seen = { decimal: 0, int64: 0, neither: 0 }
    fc.assert(
      fc.property(numberTexts, (text) => {
        const isDecimal = text.length <= 100 && /^-?\d+(\.\d+)?$/.test(text) && !/^-?0\d/.test(text)
        const isInt64 = isDecimal && !text.includes('.') && BigInt(text) === BigInt.asIntN(64, BigInt(text))
        seen[isInt64 ? 'int64' : isDecimal ? 'decimal' : 'neither'] += 1
        expect([text, canonicalOf('decimal', text) !== undefined]).toEqual([text, isDecimal])
        expect([text, canonicalOf('int64', text)]).toEqual([
          text,
          isInt64 ? canonicalOf('decimal', text) : undefined,
        ])
      }),
      { numRuns: repeated(5_000, 20_000), seed: 20_261_130 },
    )
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(repeated(500, 2_000))
  })
})
