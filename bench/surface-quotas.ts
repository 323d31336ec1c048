/** Measures quotas and analytics: the cost of counting for a create, and of a window of metrics. */

import type { Running } from '../test/support/stack/start.ts'
import { createTestWorkspace } from './fixture.ts'
import { sender } from './http.ts'
import { interleaved, print, throughput } from './measure.ts'

const ROUNDS = 300
const LANES = 16
const LANE_MS = 2_000

export async function quotas(running: Running): Promise<void> {
  const [free, limited] = await Promise.all([createTestWorkspace(running), createTestWorkspace(running)])
  const limits = { documents: 1_000_000 }
  await limited.admin.call('PUT', '/v1/quotas', { workspace_id: limited.workspaceId, limits })
  const inFree = sender(running.url, { apikey: free.apikey }, LANES)
  const inLimited = sender(running.url, { apikey: limited.apikey }, LANES)
  const path = '/v1/collections/bench/documents'
  const works = {
    'GET /healthz': () => inFree('GET', '/healthz'),
    'create, no limit set': () => inFree('POST', path, '{"n":1}'),
    'create under a limit': () => inLimited('POST', path, '{"n":1}'),
    'analytics, one hour': () => inFree('GET', '/v1/analytics/query?metric=latency&window=1h'),
  }
  const figures = await interleaved(ROUNDS, works)
  print('\nquotas and analytics', 'p50 ms', 'p99 ms', '× healthz')
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures)) {
    print(name, p50Ms, p99Ms, p50Ms / figures['GET /healthz'].p50Ms)
  }
  const unlimited = await throughput(LANES, LANE_MS, works['create, no limit set'])
  const counted = await throughput(LANES, LANE_MS, works['create under a limit'])
  print(`creates, ${LANES} at once, one workspace`, 'per s', '× no limit')
  print('no limit set', unlimited, '1.00')
  print('under a limit', counted, counted / unlimited)
}
