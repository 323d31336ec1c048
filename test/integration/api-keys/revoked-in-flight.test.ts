/** Requests that are in flight while their key is revoked do not bring it back. */

import { expect, test } from 'vitest'
import { keyStatus, keysOf } from '../../support/fixtures/keys.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'

const ROUNDS = 10
const REQUESTS = 30

test('key revoked during many requests: refused in all that are sent afterwards', async () => {
  const keys = keysOf(await createTestWorkspace())
  for (let round = 0; round < ROUNDS; round++) {
    const { id, key } = await keys.make()
    const inFlight = Array.from({ length: REQUESTS }, () => keyStatus(key))
    const [revoked] = await Promise.all([keys.revoke(id), ...inFlight])
    expect(revoked.status).toBeLessThan(300)
    const after = await Promise.all(Array.from({ length: 5 }, () => keyStatus(key)))
    expect(new Set(after)).toEqual(new Set(['api_key_revoked']))
  }
})
