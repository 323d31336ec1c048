/** Ids whose random bytes are drawn for many at once: no two alike, each a UUIDv7 of its time. */

import { expect, test } from 'vitest'
import { isUuid, unorderedUuid } from '../../src/core/ids.ts'

test('ids differ across what is drawn at once, and carry their time', () => {
  const before = Date.now()
  const ids = Array.from({ length: 2_000 }, unorderedUuid)
  expect(new Set(ids.map((id) => id.slice(14))).size).toBe(ids.length)
  for (const id of ids) {
    expect([isUuid(id), id[14]]).toEqual([true, '7'])
    const ms = Number.parseInt(id.replace('-', '').slice(0, 12), 16)
    expect(ms).toBeGreaterThanOrEqual(before)
    expect(ms).toBeLessThanOrEqual(Date.now())
  }
})
