/** Prepared statements: bounded per connection, correct when evicted, correct after a failed batch. */

import fc from 'fast-check'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { INFRA_LIMITS } from '../../../src/infra/limits.ts'
import { Database } from '../../../src/infra/postgres/database.ts'
import { Sql, sql, textArray } from '../../../src/infra/postgres/sql.ts'
import type { SessionContext } from '../../../src/infra/postgres/statement-batch.ts'

const CONTEXT: SessionContext = {
  role: 'tenon_service',
  tenant: 't',
  workspace: 'w',
  statementTimeoutMs: 5_000,
}
let database: Database

beforeAll(() => {
  database = Database.open(inject('tenon').env['DATABASE_APP_URL'] ?? '', () => {}, 1)
})
afterAll(() => database.close())

/** A statement with a unique text. */
const shape = (n: number) => Sql.of(Object.assign([`select ${n}::integer as n`], { raw: [] }), [])
const prepared = sql`select count(*)::integer as n from pg_prepared_statements`

async function ask(...statements: Sql[]) {
  return (await database.batch(CONTEXT, statements)).map(([row]) => row?.['n'])
}

test('prepared statements: unlimited query shapes: bounded number, correct results', async () => {
  for (let n = 0; n < INFRA_LIMITS.preparedStatementsMax * 2; n++) expect(await ask(shape(n))).toEqual([n])
  const [count] = await ask(prepared)
  expect(count).toBeLessThanOrEqual(INFRA_LIMITS.preparedStatementsMax + 1)
  // An evicted one, a cached one and a new one; some of them twice.
  expect(await ask(shape(0), shape(599), shape(1_000), shape(0), shape(599))).toEqual([0, 599, 1_000, 0, 599])
})

test('prepared statements: as many as a connection may have in its life: another one follows, whose results are right', async () => {
  const own = Database.open(inject('tenon').env['DATABASE_APP_URL'] ?? '', () => {}, 1)
  const process = async () => (await own.batch(CONTEXT, [sql`select pg_backend_pid() as n`]))[0]?.[0]?.['n']
  try {
    const first = await process()
    for (let n = 0; n < INFRA_LIMITS.connectionStatementsMax - 100; n++) await own.batch(CONTEXT, [shape(n)])
    expect(await process()).toBe(first)
    for (let n = 0; n < 100; n++) await own.batch(CONTEXT, [shape(-1 - n)])
    expect(await process()).not.toBe(first)
    expect(await own.batch(CONTEXT, [shape(0), shape(7)])).toEqual([[{ n: 0 }], [{ n: 7 }]])
  } finally {
    await own.close()
  }
})

test('prepared statements: batch fails in the middle: the next batch is correct', async () => {
  const broken = sql`select 1 / ${0}::integer as n`
  const oldest = INFRA_LIMITS.preparedStatementsMax
  for (let n = 0; n < oldest; n++) expect(await ask(shape(n))).toEqual([n])
  for (let n = 2_000; n < 2_050; n++) {
    // Statements after the error are evicted but never closed; they have to work again all the same.
    await expect(ask(broken, shape(n), shape(n + 500), shape(n + 600))).rejects.toThrow()
    expect(await ask(shape(n), shape(n + 500), shape(n))).toEqual([n, n + 500, n])
  }
  for (let n = 0; n < oldest; n++) expect(await ask(shape(n))).toEqual([n])
  const [count] = await ask(prepared)
  expect(count).toBeLessThanOrEqual(INFRA_LIMITS.preparedStatementsMax + 1)
})

test('parameters: shared value in several fragments: one number', async () => {
  const a = Sql.shared('a')
  const inner = sql`${a}::text || ${'b'}::text`
  const whole = sql`select ${inner} || ${a}::text || ${Sql.shared('a')}::text || ${'c'}::text as n`
  expect(whole.text).toBe('select $1::text || $2::text || $1::text || $3::text || $4::text as n')
  expect(whole.values).toEqual(['a', 'b', 'a', 'c'])
  expect(await ask(whole, sql`select ${a}::text as n`)).toEqual(['abaac', 'a'])
})

test('timestamps: any PostgreSQL format: RFC 3339 in UTC with milliseconds', async () => {
  const times = [
    '2026-01-02 03:04:05.678Z',
    '2026-01-02 03:04:05.6Z',
    '2026-01-02 03:04:05Z',
    '12026-01-02 03:04:05.67Z',
  ]
  const rows = await database.batch(
    CONTEXT,
    times.map((time) => sql`select ${time}::timestamptz(3) as at`),
  )
  expect(rows.map(([row]) => row?.['at'])).toEqual([
    '2026-01-02T03:04:05.678Z',
    '2026-01-02T03:04:05.600Z',
    '2026-01-02T03:04:05.000Z',
    '+012026-01-02T03:04:05.670Z',
  ])
})

test('text arrays: any text: read as written', async () => {
  const marks = fc.constantFrom('"', '\\', '\n', '\t', '\u007f', '\u2028', '{', ',', 'é', '😀', 'NULL', ' ')
  const text = fc.oneof(
    fc.array(marks).map((parts) => parts.join('')),
    fc.string({ unit: 'grapheme' }),
  )
  const texts = fc.sample(text, { numRuns: 3_000, seed: 3 }).filter((one) => !one.includes('\0'))
  expect(await ask(sql`select to_json(${textArray(texts)}::text[]) as n`)).toEqual([texts])
})

test('parameters: shared value in several places: one number, sent once', async () => {
  const a = Sql.shared(10)
  const added = sql`select ${a}::integer + ${a}::integer + ${'5'}::integer as n`
  expect([added.text, added.values]).toEqual([
    'select $1::integer + $1::integer + $2::integer as n',
    ['10', '5'],
  ])
  expect(await ask(added)).toEqual([25])
})
