/** Shared reads: concurrent callers share one, and nobody gets what was read before it asked. */

import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SharedReads } from '../../../src/infra/shared-reads.ts'

/** A store whose value changes; a read sees the value of its beginning and takes a few turns of the event loop. */
function store(turns: number) {
  const state = { value: 0, reads: 0 }
  const read = async () => {
    state.reads += 1
    const { value } = state
    for (let n = 0; n < turns; n++) await turn()
    return value
  }
  return { state, read }
}

test('callers of one turn: share one read; callers during it share the next one', async () => {
  const { state, read } = store(3)
  const reads = new SharedReads<number>()
  const first = [reads.load('a', read), reads.load('a', read)]
  await turn()
  await turn()
  expect(state.reads).toBe(1)
  state.value = 1
  const later = [reads.load('a', read), reads.load('a', read), reads.load('a', read)]
  expect(await Promise.all(first)).toEqual([0, 0])
  expect(await Promise.all(later)).toEqual([1, 1, 1])
  expect(state.reads).toBe(2)
})

test('a change before a call: is in what the call gets, whenever calls and changes come', async () => {
  const step = fc.record({ turns: fc.integer({ min: 0, max: 4 }), changes: fc.boolean() })
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 40 }),
      fc.integer({ min: 0, max: 5 }),
      async (steps, slowness) => {
        const { state, read } = store(slowness)
        const reads = new SharedReads<number>()
        const calls: Promise<void>[] = []
        for (const { turns, changes } of steps) {
          for (let n = 0; n < turns; n++) await turn()
          if (changes) state.value += 1
          const { value } = state
          calls.push(reads.load('a', read).then((got) => expect(got).toBeGreaterThanOrEqual(value)))
        }
        await Promise.all(calls)
      },
    ),
    { seed: 27, numRuns: 50 },
  )
})

test('a read that fails: fails for those who share it, and not for the next; other names share nothing', async () => {
  const reads = new SharedReads<string>()
  const fails = async () => {
    await turn()
    throw new Error('away')
  }
  const failing = [reads.load('a', fails), reads.load('a', fails)]
  const other = reads.load('b', async () => 'b')
  await turn()
  const next = reads.load('a', async () => 'a')
  expect((await Promise.allSettled(failing)).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  expect(await Promise.all([next, other])).toEqual(['a', 'b'])
})
