/** Slots of running invocations: shares of tenants, waiting for one, and yielding while the holder waits for other runs. */

import { expect, test } from 'vitest'
import { FairSlots, type HeldSlot } from '../../../src/features/functions/sandbox/fair-slots.ts'

async function held(slots: FairSlots, tenant = 'ten_a'): Promise<HeldSlot> {
  return { tenant, release: await slots.acquire(tenant, 'busy'), yields: 0, isGivenUp: false }
}

test('parents that wait for children: the children get their slots, at any depth', async () => {
  const slots = new FairSlots(3, 2, 1_000)
  const call = async (depth: number): Promise<number> => {
    const slot = await held(slots)
    const result = depth === 0 ? 0 : await slots.yieldWhile(slot, () => call(depth - 1))
    slot.isGivenUp = true
    slot.release()
    return result + 1
  }
  expect(await Promise.all([call(1), call(1), call(1), call(1)])).toEqual([2, 2, 2, 2])
  expect([slots.tryAcquire('ten_a'), slots.tryAcquire('ten_a'), slots.tryAcquire('ten_a')]).toEqual([
    expect.any(Function),
    expect.any(Function),
    undefined,
  ])
})

test('a slot that is given up while it is yielded, or yielded twice at once: no slot is lost', async () => {
  const slots = new FairSlots(1, 1, 1_000)
  const slot = await held(slots)
  const child = Promise.withResolvers<void>()
  const yielded = [slots.yieldWhile(slot, () => child.promise), slots.yieldWhile(slot, () => child.promise)]
  expect(slots.tryAcquire('ten_b')).toEqual(expect.any(Function))
  const other = await held(new FairSlots(1, 1, 1_000))
  slot.isGivenUp = true
  slot.release()
  child.resolve()
  await Promise.all(yielded)
  expect(other.yields).toBe(0)
  expect(slots.tryAcquire('ten_a')).toBeUndefined()
})

test('a tenant that waits with as many as there may wait: the next one is refused at once', async () => {
  const slots = new FairSlots(1, 1, 1_000)
  await held(slots)
  const waiting = slots.acquire('ten_a', 'busy', { waitingMax: 1 })
  await expect(slots.acquire('ten_a', 'busy', { waitingMax: 1 })).rejects.toMatchObject({
    code: 'overloaded',
  })
  await expect(waiting).rejects.toMatchObject({ code: 'overloaded' })
})

const acquire = (slots: FairSlots, tenant: string, waitingMax = Number.POSITIVE_INFINITY) =>
  slots.acquire(tenant, 'busy', { waitingMax })

test('as many of a tenant wait as may: the next one is rejected at once, and another tenant gets a slot', async () => {
  const slots = new FairSlots(4, 2, 60_000)
  const held = [await acquire(slots, 'a', 1), await acquire(slots, 'a', 1)]
  const waits = acquire(slots, 'a', 1)
  await expect(acquire(slots, 'a', 1)).rejects.toMatchObject({ code: 'overloaded' })
  const release = await acquire(slots, 'b', 1)
  held[0]?.()
  ;(await waits)()
  held[1]?.()
  release()
})

test('without a bound: all wait, and get a slot in their order', async () => {
  const slots = new FairSlots(1, 1, 60_000)
  const first = await acquire(slots, 'a')
  const order: number[] = []
  const waiting = [1, 2, 3].map(async (n) => {
    const release = await acquire(slots, 'a')
    order.push(n)
    release()
  })
  first()
  await Promise.all(waiting)
  expect(order).toEqual([1, 2, 3])
})
