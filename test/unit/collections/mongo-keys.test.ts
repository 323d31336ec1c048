/** Keys of documents in MongoDB sort by bytes as the values do. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { keyOf } from '../../../src/features/collections/query/sort-keys.ts'
import { byCodePoint } from '../../conformance/stores/conditions.ts'
import { anyJson, compareJson } from '../../conformance/stores/json-order.ts'

test('key of an array or object: beside that of another value: sorts as the values do', () => {
  const pair = fc.tuple(anyJson, fc.oneof(anyJson, fc.constantFrom('z', 1, true)))
  fc.assert(
    fc.property(pair, ([a, b]) => {
      expect(Math.sign(byCodePoint(keyOf(a), keyOf(b)))).toBe(Math.sign(compareJson(a, b)))
    }),
    { numRuns: 20_000, seed: 13 },
  )
})

test('key of a long array: is bounded, equal for equal values alone, and sorts by its beginning', () => {
  const long = (...last: unknown[]) => [...Array(9_000).fill('😀'), ...last] as string[]
  expect(keyOf(long('a')).length).toBeLessThan(600)
  expect(keyOf(long('a'))).toBe(keyOf(long('a')))
  expect(keyOf(long('a'))).not.toBe(keyOf(long('b')))
  expect(byCodePoint(keyOf(long('a')), keyOf(['b', ...long()]))).toBeGreaterThan(0)
  expect(byCodePoint(keyOf(long()), keyOf(long('a')))).toBeLessThan(0)
})
