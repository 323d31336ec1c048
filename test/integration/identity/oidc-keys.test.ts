/** Signing keys of external issuers: read rarely, updated when they change, cached during outages. */

import { type AddressInfo, createServer } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { ACCESS_LIMITS } from '../../../src/access/limits.ts'
import {
  type Caller,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { AUDIENCE, type FailureMode, PeerIssuer, type Realm } from '../../support/servers/peer-issuer.ts'
import {
  type ApiWithIssuers,
  DOCUMENTS,
  expectRefused,
  startApiWithIssuers,
} from '../../support/stack/api-with-issuers.ts'
import { repeated } from '../../support/stack/soak.ts'
import { stopwatch } from '../../support/stopwatch.ts'

let peer: PeerIssuer
let attacker: PeerIssuer
let workspace: TestWorkspace
let realm: Realm
let node: ApiWithIssuers
beforeAll(async () => {
  ;[peer, attacker, workspace] = await Promise.all([
    PeerIssuer.open(),
    PeerIssuer.open(),
    createTestWorkspace(),
  ])
})
beforeEach(async () => {
  peer.day = 'good'
  realm = await peer.realm('acme', 'ES256')
  node = await startApiWithIssuers([
    { issuer: realm.issuer, audience: AUDIENCE, tenants: '*', roles: { app: 'service' } },
  ])
  peer.requests.length = 0
})
afterEach(() => node.close())
afterAll(async () => Promise.all([peer?.close(), attacker?.close()]))

const good = (head: object = {}) =>
  realm.token(
    { tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId, realm_access: { roles: ['app'] } },
    { head: { ...head } },
  )
const statusOf = async (as: Caller) => (await node.ask(as)).status
/** Statuses of many concurrent requests, counted. */
async function flood(many: number, as: (n: number) => Promise<Caller>): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  const answers = Array.from({ length: many }, async (_, n) => node.ask(await as(n)))
  for (const { status, body } of await Promise.all(answers)) {
    const what = `${status} ${body.code ?? ''}`.trim()
    counts[what] = (counts[what] ?? 0) + 1
  }
  return counts
}
const MANY = repeated(100, 500)
const tokenWithUnknownKid = (n: number) => good({ kid: `unknown-${n}` })

test('external keys: before the first token: not read; after it: read once', async () => {
  expect(peer.requests).toEqual([])
  const good200 = await flood(50, () => good())
  expect(good200).toEqual({ '200': 50 })
  expect(peer.requests).toEqual(['/realms/acme/.well-known/openid-configuration', '/realms/acme/jwks'])
})

test('external keys: many tokens with unknown key ids: read at intervals, stores are not queried', async () => {
  expect(await statusOf(await good())).toBe(200)
  peer.requests.length = 0
  const spent = await node.cost(async () => {
    expect(await flood(MANY, tokenWithUnknownKid)).toEqual({ '401 token_invalid': MANY })
  })
  expect([spent, peer.requests]).toEqual([0, []])
  node.pass(ACCESS_LIMITS.jwks.cooldownMs)
  expect(await flood(MANY, tokenWithUnknownKid)).toEqual({ '401 token_invalid': MANY })
  expect(peer.keysRead).toBe(1)
  expect(await statusOf(await good())).toBe(200)
})

test('external keys: flood of tokens on start: read once', async () => {
  expect(await flood(MANY, tokenWithUnknownKid)).toEqual({ '401 token_invalid': MANY })
  expect(peer.keysRead).toBe(1)
})

test('external keys: rotated at the issuer: new key accepted after a pause, old one refused', async () => {
  const old = await good()
  expect(await statusOf(old)).toBe(200)
  await realm.rotate()
  const fresh = await good()
  await expectRefused(node, fresh)
  node.pass(ACCESS_LIMITS.jwks.cooldownMs - 1)
  await expectRefused(node, fresh)
  node.pass(1)
  expect(await statusOf(fresh)).toBe(200)
  await expectRefused(node, old)
  expect(peer.keysRead).toBe(2)
})

test('external keys: withdrawn: refused after ten minutes', async () => {
  const old = await good()
  expect(await statusOf(old)).toBe(200)
  await realm.rotate()
  node.pass(ACCESS_LIMITS.jwks.freshMs - 1)
  expect(await statusOf(old)).toBe(200)
  node.pass(1)
  await expectRefused(node, old)
})

test.each<FailureMode>(['away', 'moved', 'no json', 'no keys', 'huge'])(
  'external issuer: becomes %s: cached keys are valid for a day',
  async (day) => {
    const as = await good()
    expect(await statusOf(as)).toBe(200)
    peer.day = day
    node.pass(ACCESS_LIMITS.jwks.freshMs)
    expect(await flood(20, async () => as)).toEqual({ '200': 20 })
    expect(await flood(20, tokenWithUnknownKid)).toEqual({ '401 token_invalid': 20 })
    expect(peer.keysRead).toBe(2)
    expect(peer.requests).not.toContain('/stolen')
    node.pass(ACCESS_LIMITS.jwks.keptMs)
    expect(await flood(20, async () => as)).toEqual({ '503 dependency_unavailable': 20 })
    peer.day = 'good'
    node.pass(ACCESS_LIMITS.jwks.cooldownMs)
    expect(await statusOf(as)).toBe(200)
  },
)

test.each<FailureMode>(['away', 'moved', 'no json', 'no keys', 'huge'])(
  'external issuer: %s from the start: 503, contacted at intervals',
  async (day) => {
    peer.day = day
    const as = await good()
    const spent = await node.cost(async () => {
      expect(await flood(20, async () => as)).toEqual({ '503 dependency_unavailable': 20 })
    })
    expect([spent, peer.keysRead]).toEqual([0, 1])
    const { headers, body } = await node.ask(as, DOCUMENTS)
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
    expect(JSON.stringify(body)).not.toContain('realms')
    expect(node.lines.join()).toContain('issuer keys unavailable')
    // Requests with other credentials are unaffected.
    expect(await statusOf(workspace.service)).toBe(200)
    peer.day = 'good'
    node.pass(ACCESS_LIMITS.jwks.retryMs)
    expect(await statusOf(as)).toBe(200)
  },
)

test.each<FailureMode>(['hangs', 'half'])(
  'external issuer: %s: requests wait no longer than the timeout',
  async (day) => {
    const as = await good()
    peer.day = day
    const elapsedMs = stopwatch()
    expect(await flood(20, async () => as)).toEqual({ '503 dependency_unavailable': 20 })
    expect(elapsedMs()).toBeLessThan(ACCESS_LIMITS.jwks.timeoutMs + 10_000)
    expect(peer.keysRead).toBe(1)
    // The failure is cached for a while: later requests do not wait again.
    expect(await flood(20, async () => as)).toEqual({ '503 dependency_unavailable': 20 })
    expect(peer.keysRead).toBe(1)
  },
)

test('external issuer: hangs: one request waits, later ones do not', async () => {
  const as = await good()
  expect(await statusOf(as)).toBe(200)
  peer.day = 'hangs'
  node.pass(ACCESS_LIMITS.jwks.freshMs)
  expect(await statusOf(as)).toBe(200)
  await eventually(async () => (peer.held === 0 ? true : undefined))
  node.pass(ACCESS_LIMITS.jwks.cooldownMs)
  expect(await statusOf(as)).toBe(200)
  await eventually(async () => (peer.keysRead === 3 ? true : undefined))
  expect(peer.held).toBe(1)
})

test('discovery document: of another issuer, or with keys elsewhere: not followed', async () => {
  const attackerRealm = await attacker.realm('acme')
  const as = await good()
  let met = 0
  const inside = createServer((socket) => {
    met += 1
    socket.destroy()
  })
  await new Promise<void>((done) => inside.listen(0, '127.0.0.1', done))
  const { port } = inside.address() as AddressInfo
  for (const discovery of [
    { issuer: realm.issuer, jwks_uri: `https://127.0.0.1:${port}/keys` },
    { issuer: realm.issuer, jwks_uri: `https://localhost:${port}/keys` },
    { issuer: attackerRealm.issuer, jwks_uri: `${realm.issuer}/jwks` },
    { issuer: `${realm.issuer}/`, jwks_uri: `${realm.issuer}/jwks` },
    { issuer: realm.issuer, jwks_uri: `${attackerRealm.issuer}/jwks` },
    { issuer: realm.issuer, jwks_uri: 'https://169.254.169.254/keys' },
    { issuer: realm.issuer, jwks_uri: 'file:///etc/passwd' },
    { issuer: realm.issuer, jwks_uri: 7 },
    { issuer: realm.issuer },
  ]) {
    realm.discovery = discovery
    expect([discovery, await statusOf(as)]).toEqual([discovery, 503])
    node.pass(ACCESS_LIMITS.jwks.retryMs)
  }
  await new Promise((done) => inside.close(done))
  expect([attacker.requests, peer.keysRead, met]).toEqual([[], 0, 0])
})

test('external keys: too short, symmetric, private, broken: ignored; a valid one among them: used', async () => {
  const [key = {}] = realm.published
  const kid = key.kid
  const as = await good()
  for (const bad of [
    { kty: 'oct', k: 'c2VjcmV0', kid, alg: 'ES256' },
    { ...key, x: 'AAAA' },
    { ...key, crv: 'P-999' },
    { ...key, d: key.x },
    { kty: 'RSA', n: 'AQAB', e: 'AQAB', kid },
    { ...key, use: 'enc' },
    { ...key, alg: 'RS256' },
    { kty: 7 },
  ]) {
    realm.published = [bad as never]
    node.pass(ACCESS_LIMITS.jwks.freshMs)
    await expectRefused(node, as)
  }
  realm.published = [{ kty: 'oct', k: 'c2VjcmV0' } as never, key]
  node.pass(ACCESS_LIMITS.jwks.freshMs)
  expect(await statusOf(as)).toBe(200)
})
