/** Slots for invocations: shares of tenants, and who waits for one. */

import { expect, test } from 'vitest'
import { FairSlots } from '../../../src/features/functions/sandbox/fair-slots.ts'

const NEVER = new AbortController().signal
const acquire = (slots: FairSlots, tenant: string, waitingMax?: number) =>
  slots.acquire(tenant, 'busy', NEVER, waitingMax)

test('as many of a tenant wait as may: the next one is rejected at once, and another tenant gets a slot', async () => {
  const slots = new FairSlots(3, 2, 60_000)
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
