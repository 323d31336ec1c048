/** Queries that no index narrows: which ones they are, and how they wait for one another while others go on. */

import { expect, test } from 'vitest'
import type { WorkspaceScope } from '../../../src/access/scope.ts'
import { COLLECTION_LIMITS } from '../../../src/features/collections/limits.ts'
import {
  ALL,
  BY_ID,
  type Filter,
  negated,
  type Test,
} from '../../../src/features/collections/query/filter.ts'
import { ALL_RIGHTS } from '../../../src/features/collections/rules/permissions.ts'
import { inLine, isNarrowed } from '../../../src/features/collections/scans.ts'
import type { Declaration } from '../../../src/features/collections/schemas/declaration-cache.ts'
import type { Collection } from '../../../src/features/collections/store.ts'

const is = (field: string, of: Test = { op: 'in', values: [['x']] }): Filter => ({
  ...{ kind: 'test', path: [field], test: of, not: false },
})
const all = (...of: Filter[]): Filter => ({ kind: 'all', of })
const any = (...of: Filter[]): Filter => ({ kind: 'any', of })
const like = (first: 'any' | { readonly text: string }, fold = false): Test => ({
  op: 'like',
  pattern: [first, 'any'],
  fold,
})
const by = (field: string, descending = false, nullsFirst = descending) => [
  { path: [field] as const, descending, nullsFirst },
]

const index = (state: 'ready' | 'building', ...fields: string[]) =>
  ({ state, fields }) as unknown as Declaration['indexes'][number]
const ofKind = (kind: string, field: string, leakproof = true) => ({
  ...index('ready', field),
  ...{ kind, ...(leakproof && { leakproof }) },
})
const declared = {
  indexes: [
    ...[index('ready', 'status', 'score'), index('ready', 'name'), index('building', 'late')],
    ...[ofKind('array', 'tags'), ofKind('array', 'slow', false), ofKind('trigram', 'title')],
    ...[ofKind('text', 'body'), ofKind('geo', 'lat')],
  ],
} as unknown as Declaration
const of = (filter: Filter, order = [...by('id')] as ReturnType<typeof by>) => ({ filter, order })

test.each([
  ['documents in the order of ids', of(ALL), true],
  ['in that of an index', of(ALL, by('status')), true],
  ['in that of an index, backwards', of(ALL, by('status', true)), true],
  ['in that of an index, but for nulls', of(ALL, by('status', true, false)), false],
  ['in that of the second field of an index', of(ALL, by('score')), false],
  ['in that of a field without one', of(ALL, by('other')), false],
  ['in that of an index that is being built', of(ALL, by('late')), false],
  ['an id', of(is('id'), by('other')), true],
  ['a leading field', of(is('status'), by('other')), true],
  ['a range of it', of(is('status', { op: 'gt', value: ['x'] })), true],
  ['it and another', of(all(is('other'), is('status'))), true],
  ['it or another', of(any(is('other'), is('status'))), false],
  ['it or another with an index', of(any(is('name'), is('status'))), true],
  ['the second field of an index', of(is('score')), false],
  ['not a leading field', of(negated(is('status'))), false],
  ['the beginning of a text', of(is('name', like({ text: 'a' }))), true],
  ['its end', of(is('name', like('any'))), false],
  ['its beginning in any case', of(is('name', like({ text: 'a' }, true))), false],
  ['elements', of(is('tags', { op: 'array', how: 'cs', values: [['a']] })), true],
  ['no elements', of(is('tags', { op: 'array', how: 'cs', values: [] })), false],
  ['no other elements', of(is('tags', { op: 'array', how: 'cd', values: [['a']] })), false],
  ['elements without an index', of(is('name', { op: 'array', how: 'cs', values: [['a']] })), false],
  [
    'elements with an index that is not used',
    of(is('slow', { op: 'array', how: 'ov', values: [['a']] })),
    false,
  ],
  ['three letters of a text', of(is('title', like({ text: 'abc' }, true))), true],
  ['two letters of a text', of(is('title', like({ text: 'ab' }, true))), false],
  ['a latitude', of(is('lat', { op: 'gt', value: [1] })), true],
  ['words', { ...of(ALL, by('other')), search: { kind: 'wfts', text: 'milk tea' } as const }, true],
  [
    'words that are absent',
    { ...of(ALL, by('other')), search: { kind: 'wfts', text: '-tea' } as const },
    false,
  ],
  ['nothing at all', of(any()), true],
])('query for %s: narrowed by an index: %s', (_, query, expected) => {
  expect(isNarrowed({ declared, permissions: ALL_RIGHTS }, query)).toBe(expected)
})

test('number of all documents, and of those that an index selects: only the latter is narrowed', () => {
  const at = { declared, permissions: ALL_RIGHTS }
  expect(isNarrowed(at, { ...of(ALL), count: 'exact' })).toBe(false)
  expect(isNarrowed(at, { ...of(is('status')), count: 'exact' })).toBe(true)
})

test('rule of the caller: narrows the query if its field has an index, and is a filter without one', () => {
  const under = (read: Filter) => ({ declared, permissions: { ...ALL_RIGHTS, read } })
  expect(isNarrowed(under(is('status')), of(ALL, by('other')))).toBe(true)
  expect(isNarrowed(under(is('other')), of(ALL))).toBe(false)
})

const { tenantMax, waitingMax } = COLLECTION_LIMITS.scans
const collection = (kind: 'postgresql' | 'mongodb') =>
  ({ store: { kind }, declared, permissions: ALL_RIGHTS }) as unknown as Collection
const scopeOf = (tenantId: string) => ({ ref: { tenantId } }) as unknown as WorkspaceScope
const QUERY = { limit: 10, order: BY_ID }

test('scans of a tenant: some run, others wait, more are refused with the index to declare; all others go on', async () => {
  const begun: string[] = []
  const gate = Promise.withResolvers<void>()
  const run = (tenant: string, filter: Filter, name: string, kind: 'postgresql' | 'mongodb' = 'postgresql') =>
    inLine(scopeOf(tenant), collection(kind), { ...QUERY, filter }, async () => {
      begun.push(name)
      await gate.promise
    })
  const scan = (tenant: string, name: string) => run(tenant, is('other'), name)
  const scans = Array.from({ length: tenantMax + waitingMax }, (_, n) => scan('ten_a', `a${n}`))
  await expect(scan('ten_a', 'refused')).rejects.toMatchObject({
    code: 'overloaded',
    adminHint: expect.stringContaining('an index on other'),
  })
  scans.push(
    run('ten_a', is('status'), 'indexed'),
    run('ten_a', is('other'), 'in MongoDB', 'mongodb'),
    scan('ten_b', 'of another tenant'),
  )
  await new Promise(setImmediate)
  const first = Array.from({ length: tenantMax }, (_, n) => `a${n}`)
  expect(begun).toEqual([...first, 'indexed', 'in MongoDB', 'of another tenant'])
  gate.resolve()
  await Promise.all(scans)
  expect(begun.filter((name) => /^a\d/.test(name))).toEqual(
    Array.from({ length: tenantMax + waitingMax }, (_, n) => `a${n}`),
  )
})
