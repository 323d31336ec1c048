/**
 * Measures authentication and rate limiting: requests that reach no store, against one that needs no
 * credential.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { type Running, startPlatform } from '../test/support/stack/start.ts'
import { createTestWorkspace } from './fixture.ts'
import { sender } from './http.ts'
import { contest, interleaved, print, warmUp } from './measure.ts'

const ROUNDS = 4_000
const LANES = 16

/** Prints all results; takes about a minute. */
export async function auth(): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  const { running, stop } = await startPlatform(dir, { lasting: true, checkReplies: false })
  try {
    await measure(running)
  } finally {
    await stop()
    await rm(dir, { recursive: true, force: true })
  }
}

async function measure(running: Running): Promise<void> {
  const { apikey, admin, workspaceId: workspace_id } = await createTestWorkspace(running)
  const { key } = await admin.post<{ key: string }>('/v1/api-keys', { workspace_id, kind: 'anon', name: 'b' })
  const redis = new Redis(running.env['REDIS_URL'] ?? '')
  const [stranger, service, anon] = [{}, { apikey }, { apikey: key }].map((headers) =>
    sender(running.url, headers as Record<string, string>, LANES),
  )
  if (stranger === undefined || service === undefined || anon === undefined) throw new TypeError('no sender')
  const works = {
    'PING at Valkey, no HTTP': () => redis.ping(),
    'GET /healthz, no authentication': () => stranger('GET', '/healthz'),
    'GET /v1/me, service key': () => service('GET', '/v1/me'),
    'GET /v1/me, anon key': () => anon('GET', '/v1/me'),
  }
  const figures = await interleaved(ROUNDS, works)
  const base = figures['GET /healthz, no authentication'].p50Ms
  print('request, one at a time', 'p50 ms', 'p99 ms', '+ ms', '× healthz')
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures))
    print(name, p50Ms, p99Ms, p50Ms - base, p50Ms / base)
  const { 'PING at Valkey, no HTTP': _ping, ...requests } = works
  await warmUp(LANES, requests)
  const rates = await contest({ rounds: 3, lanes: LANES, ms: 2_000 }, requests)
  print(`\nrequest, ${LANES} at once`, 'per s', '× healthz')
  const health = rates['GET /healthz, no authentication'].perS
  for (const [name, { perS }] of Object.entries(rates)) print(name, perS, perS / health)
  redis.disconnect()
}
