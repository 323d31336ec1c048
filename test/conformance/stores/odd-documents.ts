/** Fixed odd documents, and a naive reading of paths in them. */

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json }
export type Value = Json | undefined

const SCALARS: readonly (Json | undefined)[] = [
  undefined,
  null,
  true,
  false,
  0,
  -1,
  1,
  1.5,
  42,
  -1e-7,
  123456789012,
  '',
  'a',
  'A',
  'b',
  'ab',
  'a%b',
  'a_b',
  '10',
  '42',
  'true',
  'null',
  'é',
  'É',
  '😀',
  'a\nb',
  '\\',
  'a.b',
  '(x)',
  '"q"',
]
const LISTS: readonly (Json | undefined)[] = [
  undefined,
  null,
  [],
  [1],
  [1, 'a'],
  ['a', [2, 'a']],
  [{ x: 1, '0': 'z' }],
  { '0': 'a', x: 1 },
  'a',
  [[1]],
  [null, true],
  [{ x: [1] }, { x: 'a' }],
]

/** A fixed mixture: each field cycles through its values at a period of its own. */
export const DOCUMENTS: readonly Readonly<Record<string, Json>>[] = Array.from({ length: 90 }, (_, n) => {
  const pick = (from: readonly (Json | undefined)[], pace: number) => from[(n * pace + (n % 7)) % from.length]
  const inner = pick(SCALARS, 11)
  const fields: Record<string, Json | undefined> = {
    n,
    a: pick(SCALARS, 1),
    b: pick(SCALARS, 7),
    o: n % 9 === 0 ? 'no object' : n % 5 === 0 ? [{ x: 1 }] : { ...(inner !== undefined && { x: inner }) },
    l: pick(LISTS, 5),
    'd.t': pick(SCALARS, 13),
  }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Record<
    string,
    Json
  >
})

export type Doc = (typeof DOCUMENTS)[number]

export const FIELDS: Readonly<Record<string, (doc: Doc) => Value>> = {
  a: (doc) => doc['a'],
  b: (doc) => doc['b'],
  'o.x': (doc) => member(doc['o'], 'x'),
  '"d.t"': (doc) => doc['d.t'],
  l: (doc) => doc['l'],
  'l.0': (doc) => member(doc['l'], '0'),
  'l.0.x': (doc) => member(member(doc['l'], '0'), 'x'),
  'l.1.0': (doc) => member(member(doc['l'], '1'), '0'),
  'missing.x': () => undefined,
}

export function member(value: Json | undefined, name: string): Json | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if (Array.isArray(value)) return /^\d+$/.test(name) ? value[Number(name)] : undefined
  return Object.hasOwn(value, name) ? value[name] : undefined
}
