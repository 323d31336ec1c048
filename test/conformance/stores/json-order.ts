/** The order of JSON values, as docs/queries.md says it, and values that lie close together in it. */

import fc from 'fast-check'
import { byCodePoint } from './conditions.ts'
import type { Json } from './odd-documents.ts'

const TYPES = ['null', 'string', 'number', 'boolean', 'array', 'object']
const typeOf = (value: Json) =>
  TYPES.indexOf(Array.isArray(value) ? 'array' : value === null ? 'null' : typeof value)

/** By type; arrays by length, then element by element; objects by size, then member by member, short names first. */
export function compareJson(a: Json, b: Json): number {
  if (typeOf(a) !== typeOf(b)) return typeOf(a) - typeOf(b)
  if (typeof a === 'string') return byCodePoint(a, String(b))
  if (typeof a !== 'object' || a === null) return Number(a) - Number(b)
  const [ours, theirs] = [partsOf(a), partsOf(b as object)]
  if (ours.length !== theirs.length) return ours.length - theirs.length
  const differing = ours
    .map((part, index) => compareJson(part, theirs[index] ?? null))
    .find((sign) => sign !== 0)
  return differing ?? 0
}

/** Elements, or names and values. */
function partsOf(value: object): Json[] {
  if (Array.isArray(value)) return value
  const byLength = ([a]: [string, Json], [b]: [string, Json]) =>
    Buffer.byteLength(a) - Buffer.byteLength(b) || byCodePoint(a, b)
  return Object.entries(value).sort(byLength).flat() as Json[]
}

const text = fc.constantFrom(
  '',
  'a',
  'aa',
  'b',
  '\u0001',
  'a\u0001',
  'a\u0001b',
  'a\u0002',
  'z',
  'é',
  '😀',
  '0',
  '10',
  '9',
)
const number = fc.constantFrom(0, 1, -1, 2, 9, 10, 0.5, -0.5, 1e21, 1.5e-300, -1e300, 5e-324, 1.797e308)

/** Few scalars, so that values often agree in their beginning. */
export const anyJson: fc.Arbitrary<Exclude<Json, null>> = fc.letrec<{
  value: Json
  nested: Exclude<Json, null>
}>((tie) => ({
  value: fc.oneof(fc.constant(null), text, number, fc.boolean(), tie('nested')),
  nested: fc.oneof(
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(
      text.filter((name) => name !== ''),
      tie('value'),
      { maxKeys: 3 },
    ) as fc.Arbitrary<{ [name: string]: Json }>,
  ),
})).nested
