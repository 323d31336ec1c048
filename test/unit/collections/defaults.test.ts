/** Defaults of a schema: missing fields are filled, and nothing else changes. */

import { expect, test } from 'vitest'
import type { AdminScope } from '../../../src/access/scope.ts'
import { buildDeclaration } from '../../../src/features/collections/schemas/build-declaration.ts'
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
])('fields %j: missing ones are filled with their defaults', (fields, filled) => {
  const before = structuredClone(fields)
  expect(withDefaults(DEFAULTS, fields)).toEqual(filled)
  expect(fields).toEqual(before)
})

test('defaults: two documents share no value, and a complete document is returned unchanged', () => {
  const [one, other] = [withDefaults(DEFAULTS, {}), withDefaults(DEFAULTS, {})]
  ;(one['tags'] as string[]).push('mine')
  expect(other['tags']).toEqual([])
  expect(withDefaults(DEFAULTS, other)).toBe(other)
})

test('default: a name that every object inherits: is filled', () => {
  const defaults = defaultsOf(
    JSON.parse('{"properties":{"__proto__":{"default":1},"toString":{"default":2}}}'),
  )
  expect(Object.entries(withDefaults(defaults, {}))).toEqual([
    ['__proto__', 1],
    ['toString', 2],
  ])
})

test('defaults: hundreds that take long to validate: other requests get turns of the event loop in between', async () => {
  const property = { $ref: '#/$defs/slow', default: `${'ab'.repeat(8)}!` }
  const properties = Object.fromEntries(Array.from({ length: 900 }, (_, n) => [`p${n}`, property]))
  const schema = { properties, $defs: { slow: { type: 'string', pattern: '^(a|b|ab){0,60}$' } } }
  const request = {
    store: 'relational',
    mode: 'warn',
    access: {},
    indexes: [],
    unique: [],
    trigram: [],
    search: null,
    arrays: [],
    geo: null,
    references: [],
    checks: [],
    exclude: [],
    ttl: null,
    hasDocumentStore: false,
    ...{ workspaceId: 'ws', collection: 'c' },
  } as const
  let turns = 0
  const ticks = setInterval(() => turns++)
  const scope = {} as AdminScope
  await expect(buildDeclaration(scope, { ...request, schema })).rejects.toMatchObject({
    code: 'schema_invalid',
  })
  clearInterval(ticks)
  expect(turns).toBeGreaterThan(0)
})
