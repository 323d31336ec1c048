/** Generates queries over fixed odd documents, each with the results of a naive reading of the grammar. */

import fc from 'fast-check'
import { repeated } from '../../support/stack/soak.ts'
import { condition, there } from './conditions.ts'
import { compareJson } from './json-order.ts'
import { DOCUMENTS, type Doc, FIELDS, type Value } from './odd-documents.ts'

export interface Query {
  /** The query string. */
  readonly text: string
  /** `n` of the results, in order. */
  readonly found: number[]
  /** FerretDB 1 cannot express it. */
  readonly elementwise: boolean
}

/** A filter on whole documents; `pair` is its parameter, `term` its notation in a group. */
export interface Filter {
  readonly pair: readonly [string, string]
  readonly term: string
  readonly holds: (doc: Doc) => boolean
  readonly fails: (doc: Doc) => boolean
  readonly elementwise: boolean
}

/** Values with commas, parentheses or quotes are quoted, which makes them texts; these are texts. */
const inGroup = (text: string): string => {
  const [, head = '', value = ''] = /^((?:not\.)?[a-z]+\.)(.*)$/s.exec(text) ?? []
  const bare = /^(not\.)?(n?eq|gte?|lte?|i?like|isdistinct)\.$/.test(head) && !value.startsWith('"')
  return bare && /[,)]/.test(value) ? head + JSON.stringify(value) : text
}

const single: fc.Arbitrary<Filter> = fc
  .tuple(fc.constantFrom(...Object.keys(FIELDS)), condition)
  .map(([field, { text, holds, fails, elementwise = false }]) => ({
    pair: [field, text],
    term: `${field}.${inGroup(text)}`,
    holds: (doc) => holds(FIELDS[field]?.(doc)),
    fails: (doc) => fails(FIELDS[field]?.(doc)),
    elementwise,
  }))

const groupOf = (of: fc.Arbitrary<Filter>, maxLength = 3): fc.Arbitrary<Filter> =>
  fc
    .tuple(fc.boolean(), fc.constantFrom('or', 'and'), fc.array(of, { minLength: 1, maxLength }))
    .map(([not, kind, members]) => {
      const all = (how: 'holds' | 'fails') => (doc: Doc) => members.every((one) => one[how](doc))
      const any = (how: 'holds' | 'fails') => (doc: Doc) => members.some((one) => one[how](doc))
      const [holds, fails] = kind === 'or' ? [any('holds'), all('fails')] : [all('holds'), any('fails')]
      const name = not ? `not.${kind}` : kind
      const inside = `(${members.map(({ term }) => term).join(', ')})`
      return {
        pair: [name, inside],
        term: name + inside,
        ...(not ? { holds: fails, fails: holds } : { holds, fails }),
        elementwise: members.some(({ elementwise }) => elementwise),
      }
    })
const filter = fc.oneof(
  { weight: 3, arbitrary: single },
  { weight: 1, arbitrary: groupOf(single) },
  { weight: 1, arbitrary: groupOf(fc.oneof(single, groupOf(single, 2)), 2) },
)

const SORTABLE = ['a', 'b', 'l', 'o', 'o.x', '"d.t"', 'missing.x', '_version', 'id']
interface Key {
  readonly field: string
  readonly descending: boolean
  readonly nulls: string
}
const key: fc.Arbitrary<Key> = fc.record({
  field: fc.constantFrom(...SORTABLE),
  descending: fc.boolean(),
  nulls: fc.constantFrom('', '', '.nullsfirst', '.nullslast'),
})

function order(a: Value, b: Value, { descending, nulls }: Key): number {
  const nullsFirst = nulls === '' ? descending : nulls === '.nullsfirst'
  if (!there(a) || !there(b)) return there(a) === there(b) ? 0 : there(a) === nullsFirst ? 1 : -1
  return compareJson(a, b) * (descending ? -1 : 1)
}

function valueFor(doc: Doc, field: string): Value {
  if (field === '_version') return 1
  if (field === 'o') return doc['o']
  return field === 'id' ? doc['n'] : FIELDS[field]?.(doc)
}

function sorted(docs: readonly Doc[], keys: readonly Key[]): Doc[] {
  const last: Key = { field: 'id', descending: keys.at(-1)?.descending ?? false, nulls: '' }
  return [...docs].sort((a, b) => {
    for (const one of [...keys, last]) {
      const found = order(valueFor(a, one.field), valueFor(b, one.field), one)
      if (found !== 0) return found
    }
    return 0
  })
}

/** Up to three filters, all of which hold. */
export const filters: fc.Arbitrary<readonly Filter[]> = fc.array(filter, { maxLength: 3 })

/** Up to three filters, three keys and any page size. */
export const queries: fc.Arbitrary<Query> = fc
  .tuple(
    filters,
    fc.uniqueArray(key, { maxLength: 3, selector: ({ field }) => field }),
    fc.constantFrom(1, 3, 7, 40, 200),
  )
  .map(([chosen, keys, size]) => {
    const found = DOCUMENTS.filter((doc) => chosen.every(({ holds }) => holds(doc)))
    const parameters: (readonly [string, string])[] = chosen.map(({ pair }) => pair)
    if (keys.length > 0) {
      const written = keys.map(
        ({ field, descending, nulls }) => `${field}.${descending ? 'desc' : 'asc'}${nulls}`,
      )
      parameters.push(['order', written.join()])
    }
    parameters.push(['page[size]', String(found.length / size > 12 ? 40 : size)])
    const text = parameters.map((pair) => pair.map(encodeURIComponent).join('=')).join('&')
    return {
      text,
      found: sorted(found, keys).map((doc) => doc['n'] as number),
      elementwise: chosen.some(({ elementwise }) => elementwise),
    }
  })

/**
 * Number of queries, in the suite and in a soak. The stand-in for MongoDB takes a second for a page, so the suite sends it
 * fewer.
 */
export function runs(store: 'PostgreSQL' | 'MongoDB', count: number): { numRuns: number; seed: number } {
  const share = store === 'MongoDB' ? 8 : 2
  return { numRuns: repeated(Math.ceil(count / share), count), seed: 20_261_121 }
}
