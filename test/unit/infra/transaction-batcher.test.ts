/**
 * Group commit: which transactions share a commit, what each gets back, and how a failure of one affects the
 * others.
 */

import fc from 'fast-check'
import { DatabaseError } from 'pg'
import { expect, test } from 'vitest'
import { Problem } from '../../../src/core/problem.ts'
import { INFRA_LIMITS } from '../../../src/infra/limits.ts'
import { type Sql, type StatementKind, sql } from '../../../src/infra/postgres/sql.ts'
import type { BatchGroup, SessionContext } from '../../../src/infra/postgres/statement-batch.ts'
import { coalesce, TransactionBatcher } from '../../../src/infra/postgres/transaction-batcher.ts'

const contextOf = (tenant: string, more: Partial<SessionContext> = {}): SessionContext => ({
  ...{ role: 'tenon_service', tenant, workspace: `${tenant}-w`, statementTimeoutMs: 1_000 },
  ...more,
})

/** A statement whose only value identifies it. */
const statement = (text: string): Sql => sql`select ${text}`
const textOf = ({ values }: Sql): string => String(values[0])

interface Transaction {
  readonly context: SessionContext
  readonly texts: readonly string[]
  readonly lockTimeoutMs: number | undefined
}

/** A server that answers each statement one tick later with its text, and rejects those it is told to. */
function server(refuses: (texts: readonly string[]) => Error | undefined = () => undefined) {
  const seen: Transaction[] = []
  const batcher = new TransactionBatcher(async (context, statements, bounds) => {
    const texts = statements.map(textOf)
    seen.push({ context, texts, lockTimeoutMs: bounds?.lockTimeoutMs })
    await new Promise((soon) => setImmediate(soon))
    const error = refuses(texts)
    if (error !== undefined) throw error
    return texts.map((text) => [{ text }])
  })
  return { batcher, seen }
}

const refusedAt = (statement: number) =>
  Object.assign(new DatabaseError('refused', 1, 'error'), { code: '23505', statement })

test('transaction: gets its own results, and shares only with the same session settings and batch group', async () => {
  const statements = fc.record({
    tenant: fc.constantFrom('a', 'b'),
    role: fc.constantFrom('tenon_service' as const, 'tenon_anon' as const),
    chainDepth: fc.constantFrom(undefined, 1, 2),
    group: fc.constantFrom<BatchGroup>('reading', 'writing'),
    statements: fc.integer({ min: 1, max: 3 }),
    turns: fc.integer({ min: 0, max: 3 }),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(statements, { minLength: 1, maxLength: 60 }), async (all) => {
      const { batcher, seen } = server()
      await Promise.all(
        all.map(async ({ tenant, role, chainDepth, group, statements, turns }, n) => {
          for (let turn = 0; turn < turns; turn++) await new Promise((soon) => setImmediate(soon))
          const context = contextOf(tenant, { role, ...(chainDepth !== undefined && { chainDepth }) })
          const whose = `${group} ${tenant} ${role} ${chainDepth}`
          const texts = Array.from({ length: statements }, (_, part) => `${whose} ${n} ${part}`)
          const rows = await batcher.join(context, texts.map(statement), group)
          expect(rows).toEqual(texts.map((text) => [{ text }]))
        }),
      )
      for (const { context, texts } of seen) {
        const { tenant, role, chainDepth } = context
        for (const text of texts) expect(text).toMatch(new RegExp(`^\\w+ ${tenant} ${role} ${chainDepth} `))
        expect(new Set(texts.map((text) => text.split(' ')[0])).size).toBe(1)
      }
      expect(seen.flatMap(({ texts }) => texts)).toHaveLength(
        all.reduce((sum, one) => sum + one.statements, 0),
      )
    }),
    { seed: 49 },
  )
})

test('transactions: arrive while one is running: are one batch, up to the maximum size', async () => {
  const { batcher, seen } = server()
  const count = 2 * INFRA_LIMITS.transactionBatch.transactionsMax + 1
  const names = Array.from({ length: count }, (_, n) => `${n}`)
  await Promise.all(names.map((name) => batcher.join(contextOf('a'), [statement(name)], 'writing')))
  expect(seen.map(({ texts }) => texts.length)).toEqual([
    1,
    INFRA_LIMITS.transactionBatch.transactionsMax,
    INFRA_LIMITS.transactionBatch.transactionsMax,
  ])
  // Alone it waits for a lock for the full time; a batch does not.
  expect(seen.map(({ lockTimeoutMs }) => lockTimeoutMs)).toEqual([
    undefined,
    INFRA_LIMITS.transactionBatch.lockTimeoutMs,
    INFRA_LIMITS.transactionBatch.lockTimeoutMs,
  ])
})

test('batch: one transaction fails: each is retried by itself, only that one fails, and batching pauses', async () => {
  const bad = (texts: readonly string[]) =>
    texts.includes('bad') ? refusedAt(texts.indexOf('bad')) : undefined
  const { batcher, seen } = server(bad)
  const ask = (name: string) =>
    batcher.join(contextOf('a'), [statement(name)], 'writing').then(
      (rows) => rows[0]?.[0]?.['text'],
      (error: unknown) => Object(error).statement,
    )
  expect(await Promise.all(['first', 'x', 'bad', 'y'].map(ask))).toEqual(['first', 'x', 0, 'y'])
  expect(seen.map(({ texts }) => texts.join())).toEqual(['first', 'x,bad,y', 'x', 'bad', 'y'])
  seen.length = 0
  await Promise.all(['p', 'q', 'r'].map(ask))
  expect(seen.map(({ texts }) => texts.join())).toEqual(['p', 'q', 'r'])
  seen.length = 0
  await Promise.all(['p', 'q', 'r'].map((name) => batcher.join(contextOf('b'), [statement(name)], 'writing')))
  expect(seen).toHaveLength(2)
})

test('batch: the server is lost: nothing is retried, since the outcome of the first attempt is unknown', async () => {
  const { batcher, seen } = server((texts) =>
    texts.length > 1 ? new Problem('dependency_unavailable', { cause: refusedAt(0) }) : undefined,
  )
  const outcomes = await Promise.allSettled(
    ['first', 'x', 'y'].map((name) => batcher.join(contextOf('a'), [statement(name)], 'writing')),
  )
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected'])
  expect(seen).toHaveLength(2)
})

const merged = (texts: readonly string[]) => statement(`all of ${texts.join('+')}`)
const KIND: StatementKind = { merge: (items) => merged(items as string[]) }
const one = (key: string, kind = KIND) => statement(key).as({ kind, key, item: key })

test('statements of one kind: are combined unless two concern the same row, and each gets its own rows', () => {
  const other: StatementKind = { merge: (items) => statement(`others ${(items as string[]).join('+')}`) }
  const all = [
    one('a'),
    statement('alone'),
    one('b'),
    one('x', other),
    one('a'),
    one('c'),
    one('b'),
    one('y', other),
  ]
  const { statements, split } = coalesce(all)
  expect(statements.map(textOf)).toEqual(['all of a+b+c', 'alone', 'others x+y', 'all of a+b'])
  const rows = (...keys: string[]) => keys.map((item_id) => ({ item_id }))
  // The second `a` returns no row: it existed already.
  const dealt = split([rows('c', 'a', 'b'), [{ n: 1 }], rows('y', 'x'), rows('b')])
  expect(dealt).toEqual([rows('a'), [{ n: 1 }], rows('b'), rows('x'), [], rows('c'), rows('b'), rows('y')])
  expect(coalesce([one('a')]).statements.map(textOf)).toEqual(['a'])
})

test('slow transaction: does not delay others', async () => {
  let release = () => {}
  const held = new Promise<void>((done) => {
    release = done
  })
  const batcher = new TransactionBatcher(async (_context, statements) => {
    if (statements.some((statement) => textOf(statement) === 'slow')) await held
    return statements.map(() => [])
  })
  const slow = batcher.join(contextOf('a'), [statement('slow')], 'writing')
  // They end although the slow one never does before.
  await Promise.all(['x', 'y'].map((name) => batcher.join(contextOf('a'), [statement(name)], 'writing')))
  release()
  await slow
})
