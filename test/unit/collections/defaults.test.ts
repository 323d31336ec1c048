/** Defaults: what is missing is there afterwards, and nothing else has changed. */

import { expect, test } from 'vitest'
import { defaultsOf, withDefaults } from '../../../src/features/collections/schemas/columns.ts'

const DEFAULTS = defaultsOf({
  properties: {
    state: { default: 'open' },
    tags: { default: [] },
    none: { default: null },
    address: { properties: { country: { default: 'DE' }, geo: { properties: { z: { default: 0 } } } } },
    box: { default: { a: 1 }, properties: { b: { default: 2 } } },
  },
})
const ALL = { state: 'open', tags: [], none: null, box: { a: 1, b: 2 } }

test.each([
  [{}, ALL],
  [
    { state: 'closed', tags: ['a'] },
    { ...ALL, state: 'closed', tags: ['a'] },
  ],
  [{ state: null }, { ...ALL, state: null }],
  [{ address: {} }, { ...ALL, address: { country: 'DE' } }],
  [{ address: { geo: {} } }, { ...ALL, address: { country: 'DE', geo: { z: 0 } } }],
  [
    { address: 'none', box: [] },
    { ...ALL, address: 'none', box: [] },
  ],
])('%j', (fields, filled) => {
  const before = structuredClone(fields)
  expect(withDefaults(DEFAULTS, fields)).toEqual(filled)
  expect(fields).toEqual(before)
})

test('two documents share nothing, and one that lacks nothing is itself', () => {
  const [one, other] = [withDefaults(DEFAULTS, {}), withDefaults(DEFAULTS, {})]
  ;(one['tags'] as string[]).push('mine')
  expect(other['tags']).toEqual([])
  expect(withDefaults(DEFAULTS, other)).toBe(other)
})

test('a default of a name that objects have anyway', () => {
  const defaults = defaultsOf(
    JSON.parse('{"properties":{"__proto__":{"default":1},"toString":{"default":2}}}'),
  )
  expect(Object.entries(withDefaults(defaults, {}))).toEqual([
    ['__proto__', 1],
    ['toString', 2],
  ])
})
