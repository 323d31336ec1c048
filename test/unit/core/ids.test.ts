/** Random ids: unique UUIDv7 values that sort by creation. */

import { expect, test, vi } from 'vitest'
import { isUuid, randomIds } from '../../../src/core/ids.ts'

test('ids: are unique and contain their time', () => {
  const before = Date.now()
  const ids = Array.from({ length: 2_000 }, randomIds.uuid)
  expect(new Set(ids.map((id) => id.slice(14))).size).toBe(ids.length)
  for (const id of ids) {
    expect([isUuid(id), id[14]]).toEqual([true, '7'])
    const ms = Number.parseInt(id.replace('-', '').slice(0, 12), 16)
    expect(ms).toBeGreaterThanOrEqual(before)
    expect(ms).toBeLessThanOrEqual(Date.now())
  }
})

test('record ids: sort by creation, even if the clock is set back', () => {
  const first = Date.now() + 60_000
  const clock = vi.spyOn(Date, 'now')
  try {
    const ids = [0, 0, 0, 5, 5, -3_000, -3_000, 4, 6].flatMap((ms) => {
      clock.mockReturnValue(first + ms)
      return Array.from({ length: 500 }, randomIds.uuid)
    })
    expect(ids.toSorted()).toEqual(ids)
    expect(new Set(ids.map((id) => id.slice(24))).size).toBe(ids.length)
  } finally {
    clock.mockRestore()
  }
})
