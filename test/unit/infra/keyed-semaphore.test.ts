/** The semaphore that keys share: bounds of a key and of all, the order in which callers are served, and how a wait ends. */

import { expect, test } from 'vitest'
import { KeyedSemaphore } from '../../../src/infra/keyed-semaphore.ts'
import { randomOf } from '../../support/random.ts'

const KEYS = ['a', 'b', 'c'] as const
type Key = (typeof KEYS)[number]
const OF_KEY = 2
const TOTAL = 4

interface Caller {
  readonly key: Key
  release?: () => void
}

/** Callers of a semaphore: those that hold a slot, and those that wait, in their order. */
class Callers {
  readonly semaphore: KeyedSemaphore
  readonly holding: Caller[] = []
  readonly waiting: Caller[] = []

  constructor(reserved: number) {
    this.semaphore = new KeyedSemaphore(OF_KEY, Number.POSITIVE_INFINITY, TOTAL, reserved)
  }

  async request(key: Key): Promise<void> {
    const caller: Caller = { key }
    this.waiting.push(caller)
    void this.semaphore.acquire(key, 'busy').then((release) => {
      caller.release = release
      this.waiting.splice(this.waiting.indexOf(caller), 1)
      this.holding.push(caller)
    })
    await settled()
  }

  async release(at: number): Promise<void> {
    const [caller] = this.holding.splice(at, 1)
    caller?.release?.()
    caller?.release?.()
    await settled()
  }

  held = (key: Key) => this.holding.filter((one) => one.key === key).length
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

test.each(Array.from({ length: 20 }, (_, seed) => [seed]))(
  'callers of three keys, seed %i: never more than the bounds, and none waits beside a free slot of its key',
  async (seed) => {
    const random = randomOf(seed)
    const reserved = seed % 2
    const callers = new Callers(reserved)
    const isOpen = (held: number, left: number) => held < OF_KEY && left > (held === 0 ? 0 : reserved)
    for (let step = 0; step < 200; step++) {
      if (random(2) === 0) await callers.request(KEYS[random(KEYS.length)] ?? 'a')
      else if (callers.holding.length > 0) {
        const before = Object.fromEntries(KEYS.map((key) => [key, callers.held(key)]))
        const first = new Map(callers.waiting.toReversed().map((one) => [one.key, one]))
        const at = random(callers.holding.length)
        const released = callers.holding[at]?.key ?? 'a'
        await callers.release(at)
        const served = callers.holding.find((one) => first.get(one.key) === one)
        before[released] = (before[released] ?? 0) - 1
        const left = TOTAL - Object.values(before).reduce((sum, held) => sum + held, 0)
        const open = [...first.keys()].filter((key) => isOpen(before[key] ?? 0, left))
        // The longest waiting caller of a key that holds the fewest, and may hold more.
        expect(served === undefined).toBe(open.length === 0)
        if (served !== undefined)
          expect(before[served.key]).toBe(Math.min(...open.map((key) => before[key] ?? 0)))
      }
      expect(Math.max(...KEYS.map(callers.held))).toBeLessThanOrEqual(OF_KEY)
      expect(callers.holding.length).toBeLessThanOrEqual(TOTAL)
      const left = TOTAL - callers.holding.length
      expect(callers.waiting.filter(({ key }) => isOpen(callers.held(key), left))).toEqual([])
    }
  },
)

test('wait that is aborted, or too long, or of too many: ends with the reason, and takes no slot', async () => {
  const semaphore = new KeyedSemaphore(1, 20)
  const release = await semaphore.acquire('a', 'busy')
  const controller = new AbortController()
  const aborted = semaphore.acquire('a', 'busy', { signal: controller.signal })
  const refused = semaphore.acquire('a', 'busy', { waitingMax: 1 })
  controller.abort(new Error('left'))
  await expect(aborted).rejects.toThrow('left')
  await expect(refused).rejects.toMatchObject({ code: 'overloaded' })
  await expect(semaphore.acquire('a', 'busy')).rejects.toMatchObject({ code: 'overloaded' })
  const gone = semaphore.acquire('b', 'busy', { signal: controller.signal })
  await expect(gone).rejects.toThrow('left')
  release()
  expect(semaphore.tryAcquire('a')).toEqual(expect.any(Function))
  expect(semaphore.tryAcquire('a')).toBeUndefined()
})

test('two keys that want all slots: a third that holds none gets one at once', async () => {
  const semaphore = new KeyedSemaphore(3, Number.POSITIVE_INFINITY, TOTAL, 1)
  const taken = ['a', 'b', 'a', 'b', 'a', 'b'].filter((key) => semaphore.tryAcquire(key) !== undefined)
  expect(taken).toEqual(['a', 'b', 'a'])
  expect(semaphore.tryAcquire('c')).toEqual(expect.any(Function))
})
