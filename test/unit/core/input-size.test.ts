/** CPU time that large request bodies take on the API's only thread. */

import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { beforeAll, expect, test } from 'vitest'
import type { Problem } from '../../../src/core/problem.ts'
import { batchDocuments } from '../../../src/features/collections/batch.ts'
import { checkFields } from '../../../src/features/collections/document.ts'
import { readBodyFilter } from '../../../src/features/collections/query/body.ts'
import { commas, sql } from '../../../src/infra/postgres/sql.ts'
import { threadMs } from '../../support/thread-time.ts'

/** Number of measurements; the least counts, as it contains the least foreign work. */
const TRIES = 3

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void
// That of other test files. A collection takes a second in a process with all modules, so there is one.
beforeAll(() => collectGarbage())

/** CPU time of a rejection, and its message. */
function costOf(work: () => unknown): { ms: number; problem: Problem } {
  let problem: unknown
  const ms = leastMs(() => {
    try {
      work()
    } catch (error) {
      problem = error
    }
  })
  if (problem === undefined) throw new Error('it should have been refused')
  return { ms, problem: problem as Problem }
}

/** Time of this machine to write and read a body of 300,000 members, as a measure of its speed. */
let referenceMs: number | undefined
const reference = () => {
  referenceMs ??= leastMs(() => JSON.parse(JSON.stringify(named(300_000))))
  return referenceMs
}

/** CPU time of this thread, so that other processes do not count. */
function leastMs(work: () => unknown): number {
  const tries = Array.from({ length: TRIES }, () => {
    const beforeMs = threadMs()
    work()
    return threadMs() - beforeMs
  })
  return Math.min(...tries)
}
const list = <T>(length: number, item: (n: number) => T) => Array.from({ length }, (_, n) => item(n))
const named = (length: number) => Object.fromEntries(list(length, (n) => [`k${n}`, 1]))

test('list of two million zeros: is rejected by its length, without reading each item', () => {
  const zeros = list(2_000_000, () => 0)
  const { ms, problem } = costOf(() => checkFields({ zeros }))
  expect(problem.code).toBe('body_too_large')
  expect(ms).toBeLessThan(0.7 * reference())
})

test('value deeper than the stack: is rejected by its depth', () => {
  const deep = list(50_000, () => 0).reduce<object>((inner) => ({ a: inner }), {})
  const { problem } = costOf(() => checkFields({ deep }))
  expect(problem.detail).toContain('nested deeper than 32')
})

test.each([
  ['a million operations', { ops: list(1_000_000, () => ({})) }, /^ops: must not have more than 500 items/],
  [
    '300,000 unknown members',
    { ops: [{ op: 'create', data: {} }], ...named(300_000) },
    /k0: is not a known field/,
  ],
  ['30 unknown members', { ops: [{ op: 'create', data: {} }], ...named(30) }, /k0: is not a known field/],
])('%s: are rejected by name, quickly', (_name, body, detail) => {
  const input = { name: 'a', ...body }
  const { ms, problem } = costOf(() => batchDocuments.parse(input))
  expect([problem.code, problem.errors.length > 0]).toEqual(['validation_failed', true])
  expect(problem.detail).toMatch(detail)
  expect(ms).toBeLessThan(0.7 * reference())
})

test.each<[string, Record<string, unknown>]>([
  ['a list of half a million', { a: { eq: list(500_000, () => 0) } }],
  ['an object of 100,000 members', { a: { cs: named(100_000) } }],
  ['100,000 fields', named(100_000)],
  ['a pattern of a megabyte', { a: { like: '\\a'.repeat(500_000) } }],
])('filter with %s: is rejected quickly', (_name, filter) => {
  const { ms, problem } = costOf(() => readBodyFilter(filter))
  expect(problem.code).toBe('filter_too_large')
  expect(ms).toBeLessThan(0.3 * reference())
})

test('filter of maximum size: is parsed', () => {
  const values = list(500, (n) => `value ${n}`)
  const filter = { $and: list(50, (n) => ({ [`f${n}`]: { not: { in: values } } })) }
  expect(readBodyFilter(filter)).toMatchObject({ kind: 'all' })
})

test('statement with 200 columns: is built in a fraction of a millisecond', () => {
  const columns = list(200, (n) => sql`${n}::text`)
  const ms = leastMs(() => {
    for (let n = 0; n < 1_000; n++) commas(columns)
  })
  expect(ms).toBeLessThan(0.3 * reference())
  expect(commas(columns.slice(0, 3)).text).toBe('$1::text, $2::text, $3::text')
  expect(commas([]).text).toBe('')
})
