/** Lists of entity tags: parsing, comparison and malformed lists. */

import { expect, test } from 'vitest'
import { matches, tagsOf } from '../../../src/core/etag.ts'
import { threadMs } from '../../support/thread-time.ts'

test.each([
  ['*', '*'],
  [' * ', '*'],
  ['"v1"', ['"v1"']],
  ['W/"v1"', ['W/"v1"']],
  ['"v1", "v2"', ['"v1"', '"v2"']],
  ['"v1","v2"', ['"v1"', '"v2"']],
  [', "v1" ,, W/"v2" ,', ['"v1"', 'W/"v2"']],
  ['"a,b", "c"', ['"a,b"', '"c"']],
  ['""', ['""']],
  ['"\u00e9"', ['"\u00e9"']],
  ['', []],
  [' , ', []],
])('entity tags %j: are parsed as %j', (list, tags) => {
  expect(tagsOf(list)).toEqual(tags)
})

test.each([
  'v1',
  '"v1',
  'v1"',
  '"v1" "v2"',
  '"v1"x',
  'w/"v1"',
  'W/ "v1"',
  '"a b"',
  '"a"b"',
  '"v1", *',
  '*, "v1"',
  "'v1'",
])('entity tags %j: are malformed and match nothing, not even a well-formed part', (list) => {
  expect(tagsOf(list)).toEqual([])
  for (const tag of ['"v1"', '"a"', list]) {
    expect(matches(list, tag, 'weak')).toBe(false)
    expect(matches(list, tag, 'strong')).toBe(false)
  }
})

// The table of RFC 9110 §8.8.3.2.
test.each([
  ['W/"1"', 'W/"1"', false, true],
  ['W/"1"', 'W/"2"', false, false],
  ['W/"1"', '"1"', false, true],
  ['"1"', 'W/"1"', false, true],
  ['"1"', '"1"', true, true],
  ['"0", W/"2", "1"', '"1"', true, true],
  ['"11"', '"1"', false, false],
  ['*', '"1"', true, true],
])('entity tags %s and %s: match strongly: %s, weakly: %s', (list, tag, strong, weak) => {
  expect(matches(list, tag, 'strong')).toBe(strong)
  expect(matches(list, tag, 'weak')).toBe(weak)
})

test('entity tags: a list as long as a header: is parsed quickly', () => {
  const begun = threadMs()
  for (const list of [
    ', '.repeat(8_000),
    `${'"a",'.repeat(4_000)}x`,
    `"${'a'.repeat(16_000)}`,
    'W/'.repeat(8_000),
  ])
    expect(tagsOf(list)).toEqual([])
  expect(threadMs() - begun).toBeLessThan(250)
})
