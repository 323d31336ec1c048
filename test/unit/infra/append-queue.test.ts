/** The queue of log entries: batches in order, retries, its bound, rejected rows. */

import { expect, onTestFinished, test, vi } from 'vitest'
import { Problem } from '../../../src/core/problem.ts'
import { AppendQueue } from '../../../src/infra/append-queue.ts'
import { INFRA_LIMITS } from '../../../src/infra/limits.ts'

/** A queue over an array. @param failures errors of the first appends */
function createQueue(failures: readonly unknown[] = [], rowsMax = 1_000) {
  const stored: number[][] = []
  const left = [...failures]
  const pending: number[] = []
  const rejected: number[] = []
  const queue = new AppendQueue<number>({
    append: async (rows) => {
      const failure = left.shift()
      if (failure !== undefined) throw failure
      if (rows.includes(13)) throw new Error('unlucky')
      stored.push([...rows])
    },
    onFailure: (_error, count) => pending.push(count),
    onRejected: (row) => rejected.push(row),
    rowsMax,
  })
  return { queue, stored, pending, rejected }
}

const unavailable = () => new Problem('dependency_unavailable')

test('push: stored after the delay, in one batch', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const { queue, stored } = createQueue()
  for (const row of [1, 2, 3]) expect(queue.push(row)).toBe(true)
  await vi.advanceTimersByTimeAsync(INFRA_LIMITS.appendDelayMs - 1)
  expect(stored).toEqual([])
  await vi.advanceTimersByTimeAsync(1)
  await vi.waitFor(() => expect(stored).toEqual([[1, 2, 3]]))
  expect(queue.size).toBe(0)
})

test('flush: rows that are queued while a batch is appended follow in the next one', async () => {
  const { queue, stored } = createQueue()
  const many = Array.from({ length: INFRA_LIMITS.appendRowsMax + 1 }, (_, n) => 1_000 + n)
  for (const row of many) queue.push(row)
  const flushed = queue.flush()
  queue.push(2)
  await Promise.all([flushed, queue.flush()])
  expect(stored.flat()).toEqual([...many, 2])
  expect(stored[0]).toHaveLength(INFRA_LIMITS.appendRowsMax)
})

test('flush while the store is unavailable: rejects, keeps the rows, and a timer appends them', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const { queue, stored, pending } = createQueue([unavailable(), unavailable()])
  queue.push(1)
  await expect(queue.flush()).rejects.toMatchObject({ code: 'dependency_unavailable' })
  queue.push(2)
  await expect(queue.flush()).rejects.toMatchObject({ code: 'dependency_unavailable' })
  expect(pending).toEqual([1, 2])
  await vi.advanceTimersByTimeAsync(INFRA_LIMITS.appendRetryMs)
  await vi.waitFor(() => expect(stored).toEqual([[1, 2]]))
})

test('a full queue takes no row; close stores the rest, or counts it', async () => {
  const full = createQueue([], 2)
  expect([1, 2, 3].map((row) => full.queue.push(row))).toEqual([true, true, false])
  expect(await full.queue.close()).toBe(0)
  expect(full.stored).toEqual([[1, 2]])
  const down = createQueue([unavailable()])
  down.queue.push(1)
  expect(await down.queue.close()).toBe(1)
})

test('a row that the store rejects is dropped alone', async () => {
  const { queue, stored, rejected } = createQueue()
  for (const row of [12, 13, 14]) queue.push(row)
  await queue.flush()
  expect(stored).toEqual([[12], [14]])
  expect(rejected).toEqual([13])
})
