/** Database round trips of authentication, counted on the wire: none for cached callers, few for unknown ones. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeKey } from '../../src/access/authentication/credentials.ts'
import {
  type Caller,
  createTestWorkspace,
  operator,
  type TestWorkspace,
  userToken,
} from '../support/fixtures/tenants.ts'
import { type CountedApi, startCountedApi } from '../support/stack/counted-api.ts'

const TRIES = 10

let node: CountedApi
let workspace: TestWorkspace
beforeAll(async () => {
  node = await startCountedApi({ TENON_RATE_AUTH_FAILURES: `6/min burst ${TRIES}` })
  workspace = await createTestWorkspace()
})
afterAll(() => node?.close())

const ask = (headers: Caller, remoteAddress = '127.0.0.1') =>
  node.app.inject({ method: 'GET', url: '/v1/limits', headers, remoteAddress })

const CALLERS: Readonly<Record<string, () => Promise<Caller>>> = {
  service: async () => workspace.service,
  anon: async () => workspace.anon,
  token: () => operator(),
  user: () => userToken(workspace, 'mia', { team: 'red' }),
}

test.each(Object.entries(CALLERS))(
  'a hundred requests of a cached %s: no round trip',
  async (_kind, caller) => {
    const as = await caller()
    expect((await ask(as)).statusCode).toBe(200)
    const trips: number[] = []
    // The key cache expires after five seconds and counters are written now and then: not in every attempt.
    for (let attempt = 0; attempt < 3; attempt++) {
      await node.platform.meters.flush()
      const before = node.seen.trips
      for (let n = 0; n < 100; n++) expect((await ask(as)).statusCode).toBe(200)
      trips.push(node.seen.trips - before)
    }
    expect(Math.min(...trips)).toBe(0)
    expect(Math.max(...trips)).toBeLessThan(5)
  },
)

test('five hundred unknown API keys: few round trips, the rest is rate limited', async () => {
  const before = node.seen.trips
  const codes = new Map<string, number>()
  for (let n = 0; n < 500; n++) {
    const { code } = (await ask({ apikey: makeKey('service') }, '203.0.113.50')).json()
    codes.set(code, (codes.get(code) ?? 0) + 1)
  }
  expect([...codes.keys()].sort()).toEqual(['api_key_invalid', 'rate_limited'])
  expect(codes.get('api_key_invalid')).toBeLessThanOrEqual(TRIES + 2)
  expect(node.seen.trips - before).toBe(codes.get('api_key_invalid'))
})
