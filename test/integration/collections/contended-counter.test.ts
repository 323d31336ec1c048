/** Clients that increment one number of one document at the same time lose no increment and get no server error. */

import { expect, test } from 'vitest'
import { call, createTestWorkspace } from '../../support/fixtures/tenants.ts'

const CLIENTS = 20
const INCREMENTS = 3

test('conditional updates of one document by many clients: each increment counts, conflicts are 412', async () => {
  const { service: as } = await createTestWorkspace()
  const documents = '/v1/collections/counters/documents'
  const made = await call('POST', documents, { as, body: { n: 0 } })
  const path = `${documents}/${made.body.id}`
  const statuses = new Set<number>()
  const increment = async () => {
    for (;;) {
      const { body, headers } = await call('GET', path, { as })
      const condition = { 'if-match': headers.get('etag') ?? '' }
      const { status } = await call('PATCH', path, { as, body: { n: body.n + 1 }, headers: condition })
      statuses.add(status)
      if (status !== 412) return
    }
  }
  const client = async () => {
    for (let n = 0; n < INCREMENTS; n++) await increment()
  }
  await Promise.all(Array.from({ length: CLIENTS }, client))
  expect([...statuses].sort()).toEqual([200, 412])
  expect((await call('GET', path, { as })).body.n).toBe(CLIENTS * INCREMENTS)
})
