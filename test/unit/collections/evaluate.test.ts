/** Filters that are evaluated in the process: patterns agree with a regular expression, and no document holds the process up. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { COLLECTION_LIMITS } from '../../../src/features/collections/limits.ts'
import { evaluate } from '../../../src/features/collections/query/evaluate.ts'
import type { Filter, Pattern, PatternPart, Test } from '../../../src/features/collections/query/filter.ts'
import { stopwatch } from '../../support/stopwatch.ts'

const filterOf = (one: Test, not = false): Filter => ({ kind: 'test', path: ['a'], test: one, not })
const holds = (value: unknown, one: Test, not = false) => evaluate(filterOf(one, not), () => value)
const like = (pattern: Pattern, fold = false): Test => ({ op: 'like', pattern, fold })

const expressionOf = (pattern: Pattern, fold: boolean): RegExp => {
  const parts = pattern.map((part) => (part === 'any' ? '[^]*' : part === 'one' ? '[^]' : part.text))
  return new RegExp(`^${parts.join('')}$`, fold ? 'iu' : 'u')
}

test('like: any pattern and text: as a regular expression', () => {
  const letter = fc.constantFrom('a', 'b', 'B', '😀', 'ä')
  const letters = (maxLength: number) => fc.array(letter, { maxLength }).map((all) => all.join(''))
  const part = fc.oneof<fc.Arbitrary<PatternPart>[]>(
    fc.constant('any'),
    fc.constant('one'),
    letters(3)
      .filter((text) => text !== '')
      .map((text) => ({ text })),
  )
  fc.assert(
    fc.property(letters(12), fc.array(part, { maxLength: 8 }), fc.boolean(), (text, pattern, fold) => {
      expect(holds(text, like(pattern, fold))).toBe(expressionOf(pattern, fold).test(text))
    }),
    { numRuns: 3_000, seed: 20_261_126 },
  )
})

/** The largest texts and arrays that a document may have. */
const LONG = 'a'.repeat(COLLECTION_LIMITS.documentBytesMax - 100)
const MANY = Array.from({ length: COLLECTION_LIMITS.documentBytesMax / 2 - 100 }, () => 1)
const RUN: PatternPart[] = Array.from({ length: 3_900 }, (_, n) => (n % 2 === 0 ? { text: 'a' } : 'one'))
const WORST: Readonly<Record<string, readonly [unknown, Test]>> = {
  'text that nearly matches everywhere': [LONG, like(['any', { text: `${'a'.repeat(7_900)}b` }, 'any'])],
  'text that differs at its beginning': [LONG, like(['any', { text: `b${'a'.repeat(7_900)}` }, 'any'])],
  'text with many single wildcards': [LONG, like(['any', ...RUN, { text: 'b' }, 'any'])],
  'letters without their case': [LONG, like(['any', ...RUN, { text: 'B' }, 'any'], true)],
  'array and a long list': [MANY, { op: 'array', how: 'ov', values: MANY.slice(0, 600).map((n) => [n + 1]) }],
  'array of arrays': [
    MANY.slice(0, 60_000).map(() => [1, 1]),
    { op: 'array', how: 'cs', values: [[[2, 3]], [[1, 2]]] },
  ],
}

test.each(Object.entries(WORST))('%s, thirty times: is decided within a second', (_what, [value, one]) => {
  for (const not of [false, true]) {
    const filter: Filter = { kind: 'any', of: Array.from({ length: 30 }, () => filterOf(one, not)) }
    const elapsedMs = stopwatch()
    const result = evaluate(filter, () => value)
    expect(elapsedMs()).toBeLessThan(1_000)
    if (!not) expect(result).toBe(false)
  }
})

test('work beyond the limit: neither the test nor its negation holds', () => {
  const hard = like(['any', ...RUN, { text: 'b' }, 'any'])
  expect([holds(LONG, hard), holds(LONG, hard, true)]).toEqual([false, false])
  expect([holds('xaxb', like(['any', { text: 'a' }, 'one', { text: 'b' }])), holds('x', hard, true)]).toEqual(
    [true, true],
  )
})
