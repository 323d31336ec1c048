/** Retries with backoff: which errors they retry, for how long, and how far apart. */

import { expect, test } from 'vitest'
import { Problem } from '../../../src/core/problem.ts'
import { Backoff, retryTransient } from '../../../src/infra/retry.ts'
import { stopwatch } from '../../support/stopwatch.ts'

const away = () => new Problem('dependency_unavailable')
const FAST = { min: 1, max: 4 }

/** Work that fails with the errors one after the other, and then succeeds. */
function failing(...errors: readonly unknown[]) {
  let attempts = 0
  const work = async () => {
    const error = errors[attempts++]
    if (error !== undefined) throw error
    return attempts
  }
  return { work, attempts: () => attempts }
}

test('backoff: delays taken one after the other: each is twice the last, up to the longest', () => {
  const backoff = new Backoff({ min: 100, max: 500 })
  expect([1, 2, 3, 4, 5].map(() => backoff.next())).toEqual([100, 200, 400, 500, 500])
  backoff.reset()
  expect([backoff.next(), backoff.next()]).toEqual([100, 200])
})

test('retry: the server is back in time: the work is done again', async () => {
  const { work } = failing(away(), away())
  expect(await retryTransient(1_000, work, undefined, FAST)).toBe(3)
})

test('retry: an error that is not transient: is thrown at once', async () => {
  const { work, attempts } = failing(new Problem('not_found'))
  await expect(retryTransient(1_000, work, undefined, FAST)).rejects.toMatchObject({ code: 'not_found' })
  expect(attempts()).toBe(1)
})

test('retry: the budget is spent: the last error is thrown unchanged', async () => {
  const forever = { work: () => Promise.reject(away()) }
  const elapsedMs = stopwatch()
  await expect(retryTransient(50, forever.work, () => true, FAST)).rejects.toMatchObject({
    code: 'dependency_unavailable',
  })
  expect(elapsedMs()).toBeLessThan(1_000)
  await expect(
    retryTransient(0, forever.work, () => Promise.reject(new Error('asked')), FAST),
  ).rejects.toMatchObject({ code: 'dependency_unavailable' })
})
