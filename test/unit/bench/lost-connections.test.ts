/** Benchmarks whose connections are lost. */

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { LostConnection, sender } from '../../../bench/http.ts'
import { contest, lostConnections } from '../../../bench/measure.ts'

const SIXTEEN = { rounds: 1, lanes: 16, ms: 200 }

test('connections reset by the server: the benchmark goes on, counts them, and measures the other calls', async () => {
  let served = 0
  const server = createServer((request, response) => {
    served += 1
    if (served % 50 === 0 && served < 1_000) request.socket.resetAndDestroy()
    else response.end('{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const send = sender(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, {}, 4)
  const { get } = await contest(SIXTEEN, { get: () => send('GET', '/') })
  server.closeAllConnections()
  server.close()
  expect(lostConnections()).toBeGreaterThan(0)
  expect(get.perS).toBeGreaterThan(0)
})

test('server that is gone: the benchmark ends', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const send = sender(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, {}, 4)
  server.close()
  // Long enough on a slow machine; it ends as soon as too many are lost.
  const contested = contest({ ...SIXTEEN, ms: 30_000 }, { get: () => send('GET', '/') })
  await expect(contested).rejects.toThrow(LostConnection)
})
