/** Callers who ask for too much: they are refused or served in parts, and nobody else notices. */

import { expect, test } from 'vitest'
import { aRoom, call } from '../support/tenants.ts'

test('a page of many large documents is refused; a smaller one is served', async () => {
  const room = await aRoom()
  const path = '/v1/collections/large/documents'
  const text = 'x'.repeat(260_000)
  for (let n = 0; n < 140; n += 10) {
    const written = Array.from({ length: 10 }, () => call('POST', path, { as: room.service, body: { text } }))
    for (const { status } of await Promise.all(written)) expect(status).toBe(201)
  }
  const query = (limit: number) =>
    call('POST', '/v1/collections/large/query', { as: room.anon, body: { limit } })
  const refused = await query(1_000)
  expect([refused.status, refused.body.code]).toEqual([413, 'output_too_large'])
  const served = await query(100)
  expect([served.status, served.body.data.length, served.body.page.has_more]).toEqual([200, 100, true])
})
