/** Measures events: latency from publish to delivery, and throughput, against the bare stream in Valkey. */

import { Redis } from 'ioredis'
import type { Running } from '../test/support/stack/start.ts'
import { createTestWorkspace } from './fixture.ts'
import { sender } from './http.ts'
import { interleaved, print } from './measure.ts'
import { listen } from './subscribers.ts'

const ROUNDS = 300
const SUBSCRIBERS = 100
const PUBLISHED = 300

export async function events(running: Running): Promise<void> {
  const { url, apikey } = await createTestWorkspace(running)
  const send = sender(url, { apikey }, 16)
  const redis = new Redis(running.env['REDIS_URL'] ?? '')
  const reader = new Redis(running.env['REDIS_URL'] ?? '')
  const subscribers = await listen(url, apikey, 'bench', 1)
  const body = JSON.stringify({ topic: 'bench', data: { n: 1 } })
  let last = '$'
  const figures = await interleaved(ROUNDS, {
    'bare XADD → blocked XREAD': async () => {
      const heard = reader.xread('BLOCK', 5_000, 'STREAMS', 'bench', last)
      last = (await redis.xadd('bench', '*', 'e', body)) ?? last
      await heard
    },
    'POST publish → SSE event': async () => {
      const heard = subscribers.next()
      await send('POST', '/v1/events/publish', body)
      await heard
    },
  })
  subscribers.stop()
  print('\nevent, from publish to heard', 'p50 ms', 'p99 ms', '× bare')
  const base = figures['bare XADD → blocked XREAD'].p50Ms
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures)) print(name, p50Ms, p99Ms, p50Ms / base)
  await fanOut(url, apikey, body)
  redis.disconnect()
  reader.disconnect()
}

async function fanOut(url: string, apikey: string, body: string): Promise<void> {
  const send = sender(url, { apikey }, 16)
  const subscribers = await listen(url, apikey, 'bench', SUBSCRIBERS)
  const startedMs = performance.now()
  for (let n = 0; n < PUBLISHED; n += 16) {
    await Promise.all(Array.from({ length: 16 }, () => send('POST', '/v1/events/publish', body)))
  }
  await subscribers.reached(Math.ceil(PUBLISHED / 16) * 16 * SUBSCRIBERS)
  const seconds = (performance.now() - startedMs) / 1_000
  subscribers.stop()
  print(`\n${SUBSCRIBERS} subscribers`, 'delivered/s')
  print(`${subscribers.count()} events heard`, (subscribers.count() / seconds).toFixed(0))
}
