/** The URL form that the client writes means the same to the server as the JSON form. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { toUrlFilter } from '../../../client/src/url-filter.ts'
import { readBodyFilter } from '../../../src/features/collections/query/body.ts'
import { readFilters } from '../../../src/features/collections/query/url.ts'

const texts = fc.oneof(
  fc.string(),
  fc.constantFrom('a"b', 'a\\', '(x,y)', '{a}', '42', 'true', 'null', '', ' '),
)
const names = fc.constantFrom(
  'status',
  'address.city',
  'eq',
  'not',
  'a.like',
  '"a.b"',
  'items.0.sku',
  'or',
  'select',
)
const scalars = fc.oneof(texts, fc.integer(), fc.boolean())
const tests: fc.Arbitrary<unknown> = fc.oneof(
  texts,
  fc.constant(null),
  fc.record({ eq: texts }),
  fc.record({ neq: fc.oneof(texts, fc.constant(null)) }),
  fc.record({ gte: fc.integer(), lt: fc.integer() }),
  fc.record({ in: fc.array(texts, { minLength: 1, maxLength: 3 }) }),
  fc.record({ like: fc.constantFrom('a%', '%"x"%', 'a,b_') }),
  fc.record({ 'like(any)': fc.array(fc.constantFrom('a%', 'b,%'), { minLength: 1, maxLength: 3 }) }),
  fc.record({ is: fc.constantFrom('null', 'not_null', true, false) }),
  fc.record({ exists: fc.boolean() }),
  fc.record({ cs: fc.array(scalars, { maxLength: 3 }) }),
  fc.record({ ov: fc.array(scalars, { maxLength: 3 }) }),
  fc.record({ cs: fc.dictionary(fc.constantFrom('city', 'a b'), scalars, { minKeys: 1 }) }),
  fc.record({ not: fc.record({ in: fc.array(texts, { minLength: 1, maxLength: 2 }) }) }),
  fc.record({ not: fc.record({ gt: fc.integer(), lt: fc.integer() }) }),
)
const { filter } = fc.letrec<{ filter: Record<string, unknown> }>((tie) => ({
  filter: fc.oneof(
    { depthSize: 'small' },
    fc.dictionary(names, tests, { minKeys: 1, maxKeys: 3 }),
    fc.record({ $or: fc.array(tie('filter'), { minLength: 1, maxLength: 3 }) }),
    fc.record({ $not: tie('filter') }),
    fc.record({ $and: fc.array(tie('filter'), { minLength: 1, maxLength: 2 }), status: tests }),
  ),
}))

/** Groups of one member and groups in groups of their kind mean their members; an untyped number of a URL is a text as well. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) {
    const [typed, text, ...more] = value
    return more.length === 0 && typeof typed !== 'string' && text === String(typed)
      ? [typed]
      : value.map(plain)
  }
  if (typeof value !== 'object' || value === null) return value
  const { kind, of } = value as { kind?: string; of?: readonly unknown[] }
  if (of === undefined) {
    const { isOwn: _, ...rest } = value as Record<string, unknown>
    return Object.fromEntries(Object.entries(rest).map(([name, member]) => [name, plain(member)]))
  }
  const members = of.map(plain).flatMap((one) => {
    const inner = one as { kind?: string; of?: unknown[] }
    return inner.kind === kind && inner.of !== undefined ? inner.of : [one]
  })
  return members.length === 1 ? members[0] : { kind, of: members }
}

test('a filter in the URL form is the filter of the JSON form', () => {
  fc.assert(
    fc.property(filter, (members) => {
      const text = toUrlFilter(members)
      const fromUrl = readFilters(text === undefined ? [] : [['and', text]])
      expect(plain(fromUrl), text).toEqual(plain(readBodyFilter(members)))
    }),
    { seed: 20_261_130, numRuns: 2_000 },
  )
})
