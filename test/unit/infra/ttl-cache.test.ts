/** Caches of loaded values: which values they store, and how they count bytes. */

import { expect, test } from 'vitest'
import { INFRA_LIMITS } from '../../../src/infra/limits.ts'
import { openCache, TtlCache } from '../../../src/infra/ttl-cache.ts'

const sized = (bytes: number) => async () => ({ value: bytes, bytes })
const unexpected = () => Promise.reject(new Error('loaded again'))

test('cache: a large value is loaded again and again: its bytes count once, and the others stay', async () => {
  const memo = openCache()
  await memo.load('small', sized(1))
  for (let time = 0; time < 4; time++) {
    await memo.load('large', sized(INFRA_LIMITS.settingsCacheBytesMax / 2))
    memo.drop('large')
  }
  await expect(memo.load('small', unexpected)).resolves.toEqual({ value: 1, bytes: 1 })
})

test('cache: more bytes than the limit: the least recently used value is evicted', async () => {
  const memo = openCache()
  for (const name of ['first', 'second'])
    await memo.load(name, sized(INFRA_LIMITS.settingsCacheBytesMax / 2 - 1_000))
  await memo.load('first', unexpected)
  await memo.load('third', sized(INFRA_LIMITS.settingsCacheBytesMax / 4))
  await memo.load('first', unexpected)
  await memo.load('third', unexpected)
  expect(memo.get('second')).toBeUndefined()
})

test('cache: a value is null: is stored like any other', async () => {
  const cache = new TtlCache<string | null>()
  expect(await cache.load('none', async () => null)).toBeNull()
  expect(await cache.load('none', unexpected)).toBeNull()
})

test('cache: concurrent loads share one read; a load after an invalidation does not', async () => {
  const cache = new TtlCache<number>()
  const reads: PromiseWithResolvers<number>[] = []
  const read = () => {
    const started = Promise.withResolvers<number>()
    reads.push(started)
    return started.promise
  }
  const before = [cache.load('a', read), cache.load('a', read)]
  cache.drop('a')
  const after = [cache.load('a', read), cache.load('a', read)]
  expect(reads).toHaveLength(2)
  reads[1]?.resolve(2)
  reads[0]?.resolve(1)
  expect(await Promise.all([...before, ...after])).toEqual([1, 1, 2, 2])
  expect(await cache.load('a', unexpected)).toBe(2)
})

test('cache: a shared read fails: each of the others reads by itself', async () => {
  const cache = new TtlCache<number>()
  const first = cache.load('a', () => Promise.reject(new Error('not allowed')))
  const second = cache.load('a', async () => 2)
  await expect(first).rejects.toThrow('not allowed')
  expect(await second).toBe(2)
})

test('cache: undefined is not stored', async () => {
  const cache = new TtlCache<number | undefined>()
  expect(await cache.load('a', async () => undefined)).toBeUndefined()
  expect(await cache.load('a', async () => 1)).toBe(1)
})

test('cache: a value has expired: is loaded again', async () => {
  const cache = new TtlCache<number>({ max: 10, ttl: 20 })
  await cache.load('a', async () => 1)
  await new Promise((over) => setTimeout(over, 40))
  expect(await cache.load('a', async () => 2)).toBe(2)
})
