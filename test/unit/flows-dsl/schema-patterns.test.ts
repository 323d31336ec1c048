/** Patterns in schemas match as ECMA-262 specifies, and none takes long. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { newBudget } from '../../../flows-dsl/budget.ts'
import { matches, patternError } from '../../../flows-dsl/json-schema/pattern.ts'
import { repeated } from '../../support/stack/soak.ts'

const atom = fc.constantFrom(
  'a',
  'b',
  '.',
  '\\d',
  '\\D',
  '\\w',
  '\\W',
  '\\s',
  '[ab]',
  '[^a]',
  '[\\d_]',
  '[a-c.]',
  '[[]',
  '\\.',
  '\\n',
  '\\u0061',
  '\\u{1F600}',
  '\\p{Lu}',
  '\\/',
  '[\\w-]',
  '\\0',
  '-',
)
const count = fc.constantFrom('', '', '*', '+', '?', '{2}', '{1,2}', '{1,}', '*?', '+?')
const { pattern } = fc.letrec<{ pattern: string }>((tie) => ({
  pattern: fc.oneof(
    { maxDepth: 4, depthSize: 'small' },
    fc.tuple(atom, count).map(([a, b]) => a + b),
    fc.tuple(tie('pattern'), tie('pattern')).map(([a, b]) => a + b),
    fc.tuple(tie('pattern'), tie('pattern')).map(([a, b]) => `(?:${a}|${b})`),
    fc.tuple(tie('pattern'), count).map(([a, b]) => `(${a})${b}`),
    tie('pattern').map((a) => `(?=${a})`),
    tie('pattern').map((a) => `^${a}$`),
    tie('pattern').map((a) => `^${a}`),
    tie('pattern').map((a) => `${a}$`),
  ),
}))
const text = fc.string({
  unit: fc.constantFrom(
    'a',
    'b',
    'c',
    'A',
    '1',
    '_',
    '.',
    '-',
    '[',
    '\n',
    '\r',
    ' ',
    '😀',
    '/',
    '\0',
    '٣',
    'é',
  ),
  maxLength: 6,
})

test('pattern: matches the same texts as in JavaScript', () => {
  let matched = 0
  fc.assert(
    fc.property(pattern, fc.array(text, { minLength: 8, maxLength: 12 }), (one, texts) => {
      expect([one, patternError(one)]).toEqual([one, undefined])
      for (const text of texts) {
        const wanted = new RegExp(one, 'u').test(text)
        expect([one, text, matches(one, text, newBudget())]).toEqual([one, text, wanted])
        if (wanted) matched += 1
      }
    }),
    { numRuns: repeated(600, 2_000), seed: 3 },
  )
  expect(matched).toBeGreaterThan(repeated(1_000, 4_000))
})

test.each(['(a)\\1', '(?<n>a)\\k<n>', '[', '[]', '[^]', '[\\D]', 'a'.repeat(257), '(?:(?:a{99}){99}){99}'])(
  'pattern %s: is rejected',
  (one) => {
    expect(patternError(one)).toEqual(expect.any(String))
  },
)

test.each(['(a+)+$', '(a|a)*b$', '(.*)*x', '^(([a-z])+.)+[A-Z]([a-z])+$'])(
  'pattern %s: is accepted and ends soon',
  (one) => {
    expect(patternError(one)).toBeUndefined()
    const budget = newBudget()
    expect(matches(one, `${'a'.repeat(2_000)}!`, budget)).toBe(false)
    expect(newBudget().steps - budget.steps).toBeLessThan(200_000)
    expect(() => matches(one, 'a'.repeat(900_000), newBudget())).toThrow(/too many steps/)
  },
)
