/** Rate limits of webhook senders: few database round trips for unknown webhooks, one limit per address and webhook. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { sign } from '../../src/features/runs/triggers/standard-webhooks.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../support/fixtures/tenants.ts'
import { type CountedApi, startCountedApi } from '../support/stack/counted-api.ts'

const [TRIES, BURST] = [10, 40]

let node: CountedApi
let base: string
let workspace: TestWorkspace
beforeAll(async () => {
  node = await startCountedApi({
    TENON_RATE_AUTH_FAILURES: `6/min burst ${TRIES}`,
    TENON_RATE_WEBHOOK: `6/min burst ${BURST}`,
    TENON_TRUSTED_PROXIES: 'loopback',
  })
  base = await node.app.listen({ host: '127.0.0.1', port: 0 })
  workspace = await createTestWorkspace()
})
afterAll(() => node?.close())

interface Hook {
  readonly path: string
  readonly secret: string
}

async function createWebhook(): Promise<Hook> {
  const name = unique('hook')
  const source = `document: { dsl: '1.0.3', namespace: n, name: ${name}, version: '1.0.0' }\nschedule: { webhook: {} }\ndo: [{ a: { set: {} } }]`
  await call('POST', `${workspace.flows}/definitions`, { as: workspace.operator, body: { source } })
  const { body } = await call('POST', `${workspace.flows}/definitions/${name}/versions`, {
    as: workspace.operator,
    body: {},
  })
  const [{ url, secret }] = body.webhooks
  return { path: new URL(url).pathname, secret }
}

/** Sends a delivery. @returns the problem code, or the status */
async function send({ path, secret }: Hook, address: string): Promise<string | number> {
  const seconds = Math.floor(Date.now() / 1_000)
  const id = unique('msg')
  const headers = {
    'webhook-id': id,
    'webhook-timestamp': String(seconds),
    'webhook-signature': sign(secret, id, seconds, Buffer.from('{}')),
  }
  const reply = await fetch(`${base}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-forwarded-for': address, ...headers },
    body: '{}',
  })
  return reply.status === 202 ? 202 : (JSON.parse(await reply.text()) as { code: string }).code
}

test('unknown webhooks: few round trips, then rate limited; a known sender from the same address continues', async () => {
  const [known, late] = [await createWebhook(), await createWebhook()]
  expect(await send(known, '203.0.113.60')).toBe(202)
  const before = node.seen.trips
  const codes = new Set<string | number>()
  for (let n = 0; n < 100; n++) {
    const path = known.path.replace(/trg_.*/, `trg_${String(n).padStart(26, '0')}`)
    codes.add(await send({ ...known, path }, '203.0.113.60'))
  }
  expect([...codes].sort()).toEqual(['rate_limited', 'signature_invalid'])
  expect(node.seen.trips - before).toBeLessThanOrEqual(TRIES + 4)
  // Cached webhooks still work at that address, uncached ones are limited there; other addresses are unaffected.
  expect(await send(known, '203.0.113.60')).toBe(202)
  expect(await send(late, '203.0.113.60')).toBe('rate_limited')
  expect(await send(late, '203.0.113.61')).toBe(202)
})

test('webhook flooded from one address: limited for that webhook and address only', async () => {
  const [flooded, other] = [await createWebhook(), await createWebhook()]
  // If Valkey is slow, the node counts locally and up to twice the burst passes.
  const all = Array.from({ length: 2 * BURST + 30 }, () => send(flooded, '203.0.113.70'))
  const codes = await Promise.all(all)
  expect(codes.filter((code) => code === 'rate_limited').length).toBeGreaterThanOrEqual(15)
  expect(await send(other, '203.0.113.70')).toBe(202)
  expect(await send(flooded, '203.0.113.71')).toBe(202)
})
