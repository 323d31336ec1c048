/**
 * The pool of worker threads: a share for each tenant, termination at the CPU limit, and survival of errors.
 */

import { afterAll, expect, test } from 'vitest'
import { INFRA_LIMITS } from '../../../src/infra/limits.ts'
import { ThreadPool, type ThreadTask } from '../../../src/infra/thread-pool.ts'

const pool = new ThreadPool()
afterAll(() => pool.close())

const brief: ThreadTask = { name: 'validate', input: { schema: { type: 'object' }, fields: {} }, cpuMs: 200 }
/** Takes minutes unless it is terminated. */
const endless: ThreadTask = {
  name: 'validate',
  input: {
    schema: {
      properties: { s: { items: { anyOf: Array.from({ length: 4_000 }, (_, n) => ({ const: [n] })) } } },
    },
    fields: { s: Array.from({ length: 100_000 }, () => [-1]) },
  },
  cpuMs: 300,
}

test('task: completes: returns its value and its CPU time', async () => {
  const ran = await pool.run<unknown>('a', brief)
  expect(ran).toEqual({ value: [], cpuMs: expect.any(Number) })
})

test('task: exceeds its CPU time: is terminated, and the next one runs', async () => {
  const ran = await pool.run('a', endless)
  expect(ran).toEqual({ stopped: true, cpuMs: expect.any(Number) })
  expect(ran.cpuMs).toBeGreaterThan(endless.cpuMs)
  expect(await pool.run('a', brief)).toMatchObject({ value: [] })
})

test('task: fails: rejects, and its thread continues', async () => {
  await expect(pool.run('a', { ...brief, name: 'unknown' })).rejects.toThrow()
  expect(await pool.run('a', brief)).toMatchObject({ value: [] })
})

test('tenant: has many tasks: gets one thread, and another tenant runs in between', async () => {
  // Both threads are running from here on.
  await Promise.all([pool.run('a', brief), pool.run('b', brief)])
  const ended: string[] = []
  const run = async (holder: string, task: ThreadTask) => {
    await pool.run(holder, task)
    ended.push(holder)
  }
  const many = Array.from({ length: 2 }, () => run('many', endless))
  await run('other', brief)
  expect(ended).toEqual(['other'])
  await Promise.all(many)
})

test('task: has a low limit: runs before those with a higher one', async () => {
  const ended: number[] = []
  const run = async (cpuMs: number) => {
    await pool.run('a', { ...brief, cpuMs })
    ended.push(cpuMs)
  }
  await Promise.all([run(1_000), run(3_000), run(3_000), run(200)])
  expect(ended).toEqual([1_000, 200, 3_000, 3_000])
})

test('tenant: its queue is full: is rejected, and another is not', async () => {
  const waiting = Array.from({ length: INFRA_LIMITS.threads.tasksWaitingMax + 1 }, () =>
    pool.run('full', brief),
  )
  await expect(pool.run('full', brief)).rejects.toMatchObject({
    code: 'overloaded',
    headers: { 'retry-after': '1' },
  })
  expect(await pool.run('other', brief)).toMatchObject({ value: [] })
  await Promise.all(waiting)
})
