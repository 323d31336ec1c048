/** Only so many are remembered, and those that were set last. */

import { expect, test } from 'vitest'
import { Recent } from '../../src/platform/recent.ts'

test('one more than fits takes the place of who was set longest ago', () => {
  const recent = new Recent<number>(2).set('a', 1).set('b', 2).set('a', 3).set('c', 4)
  expect([...recent]).toEqual([
    ['a', 3],
    ['c', 4],
  ])
})

test('who is set again takes no place of others', () => {
  expect([...new Recent<number>(2).set('a', 1).set('b', 2).set('b', 3)]).toEqual([
    ['a', 1],
    ['b', 3],
  ])
})
