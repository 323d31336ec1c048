/** The lifecycle of API keys: rotation, disabling, expiry, limits, and what admins see. */

import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  expireKey,
  inSeconds,
  KEYS,
  type Keys,
  keyStatus,
  keysOf,
  waitForKeyStatus,
} from '../../support/fixtures/keys.ts'
import { asSuperuser, call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

let node: Node
let workspace: TestWorkspace
let keys: Keys
beforeAll(async () => {
  node = await startInProcessNode()
  workspace = await createTestWorkspace()
  keys = keysOf(workspace)
})
afterAll(() => node.close())

test('API key: read by an admin: all properties, never its text', async () => {
  const { key, ...fields } = await keys.make({
    name: 'ci',
    rate_limit: 90,
    scopes: ['events:write', 'collections:read'],
  })
  expect(key).toMatch(/^svc_service_[\w-]{43}[0-9a-f]{8}$/)
  expect(fields).toEqual({
    id: expect.stringMatching(/^key_/),
    tenant_id: workspace.tenantId,
    workspace_id: workspace.workspaceId,
    kind: 'service',
    name: 'ci',
    prefix: 'svc_service_',
    last4: key.slice(-4),
    scopes: ['collections:read', 'events:write'],
    actions: null,
    prefixes: null,
    rate_limit: 90,
    status: 'active',
    created_by: expect.any(String),
    created_at: expect.any(String),
    expires_at: null,
    revoked_at: null,
    last_used_at: null,
    rotated_from: null,
  })
  expect(await keys.get(fields.id)).toEqual(fields)
})

describe('rotation', () => {
  test('rotation: with grace: new key has the same rights, the old one is valid until the grace ends', async () => {
    const old = await keys.make({ scopes: ['collections:read'], rate_limit: 7 })
    const { status, headers, body } = await keys.rotate(old.id, { grace_seconds: 60 })
    expect([status, headers.get('location')]).toEqual([201, `${KEYS}/${body.id}`])
    const { kind, name, scopes, rate_limit, workspace_id, tenant_id } = old
    const same = { kind, name, scopes, rate_limit, workspace_id, tenant_id }
    expect(body).toMatchObject({ ...same, status: 'active', expires_at: null, rotated_from: old.id })
    expect(body.key).not.toBe(old.key)
    const replaced = await keys.get(old.id)
    expect(replaced.status).toBe('expiring')
    expect(Date.parse(replaced.expires_at) - Date.now()).toBeGreaterThan(50_000)
    expect(Date.parse(replaced.expires_at) - Date.now()).toBeLessThan(61_000)
    expect(
      await Promise.all([
        keyStatus(old.key),
        keyStatus(body.key),
        keyStatus(old.key, node.at),
        keyStatus(body.key, node.at),
      ]),
    ).toEqual([200, 200, 200, 200])
    await expireKey(old.id)
    expect((await keys.get(old.id)).status).toBe('expired')
    await Promise.all([
      waitForKeyStatus(old.key, 'api_key_expired'),
      waitForKeyStatus(old.key, 'api_key_expired', node.at),
    ])
    expect(await keyStatus(body.key)).toBe(200)
  })

  test('rotation: without grace: the old key ends at once here, within seconds on other nodes', async () => {
    const old = await keys.make()
    expect([await keyStatus(old.key), await keyStatus(old.key, node.at)]).toEqual([200, 200])
    expect((await keys.rotate(old.id, { grace_seconds: 0 })).status).toBe(201)
    expect(await keyStatus(old.key)).toBe('api_key_expired')
    await waitForKeyStatus(old.key, 'api_key_expired', node.at)
    expect((await keys.get(old.id)).status).toBe('expired')
  })

  test('rotation: ten at once over two nodes: one succeeds, one new key', async () => {
    const old = await keys.make()
    const url = `${KEYS}/${old.id}/rotate`
    const other = { at: node.at, as: workspace.operator, body: {} }
    const [statuses, others] = await Promise.all([
      Promise.all(Array.from({ length: 5 }, async () => (await keys.rotate(old.id)).status)),
      Promise.all(Array.from({ length: 5 }, async () => (await call('POST', url, other)).status)),
    ])
    expect([...statuses, ...others].sort()).toEqual([201, ...Array(9).fill(409)])
    const made = await asSuperuser('select id from tenon.api_keys where rotated_from = $1', [old.id])
    expect(made).toHaveLength(1)
  })

  test('rotation: key is not active: refused with its status', async () => {
    const made = await Promise.all(Array.from({ length: 4 }, () => keys.make({ expires_at: inSeconds(600) })))
    const [disabled, expiring, expired, revoked] = made.map(({ id }) => id as string) as [
      string,
      string,
      string,
      string,
    ]
    await keys.change(disabled, { status: 'disabled' })
    await keys.rotate(expiring)
    await expireKey(expired)
    await keys.revoke(revoked)
    for (const [id, state] of Object.entries({ disabled, expiring, expired, revoked }).map(
      ([a, b]) => [b, a] as const,
    )) {
      const { status, body } = await keys.rotate(id)
      expect([status, body.code, body.state]).toEqual([409, 'state_conflict', state])
    }
    expect((await keys.rotate('key_00000000000000000000000000')).status).toBe(404)
  })

  test('rotation: expiry: that of the old key, or as requested', async () => {
    const [one, two, three] = await Promise.all(
      [1, 2, 3].map(() => keys.make({ expires_at: inSeconds(3_600) })),
    )
    const { body: same } = await keys.rotate(one.id)
    expect(Date.parse(same.expires_at) - Date.parse(same.created_at)).toBeGreaterThan(3_590_000)
    expect(Date.parse(same.expires_at) - Date.parse(same.created_at)).toBeLessThan(3_610_000)
    const endless = '9999-12-31T23:59:59.999Z'
    const last = await keys.make({ expires_at: endless })
    expect((await keys.rotate(last.id)).body.expires_at).toBe(endless)
    // The grace of a day is longer than the remaining time of the old key.
    expect((await keys.get(one.id)).expires_at).toBe(one.expires_at)
    expect((await keys.rotate(two.id, { expires_at: null })).body.expires_at).toBeNull()
    const requested = inSeconds(60)
    expect((await keys.rotate(three.id, { expires_at: requested })).body.expires_at).toBe(requested)
  })

  test('rotation: repeated under an Idempotency-Key: same reply, with the text of the key', async () => {
    const { id } = await keys.make()
    const headers = { 'idempotency-key': randomUUID() }
    const send = () => call('POST', `${KEYS}/${id}/rotate`, { as: workspace.operator, headers, body: {} })
    const [first, again] = [await send(), await send()]
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect([again.status, again.body]).toEqual([201, first.body])
    const kept = await asSuperuser<{ reply: Buffer }>(
      'select reply from tenon.idempotency where reply is not null',
    )
    expect(kept.some(({ reply }) => reply.includes(first.body.key))).toBe(false)
  })

  test.each([
    { grace_seconds: -1 },
    { grace_seconds: 2_592_001 },
    { grace_seconds: 0.5 },
    { expires_at: '2020-01-01T00:00:00Z' },
    { expires_at: 'soon' },
    { kind: 'anon' },
  ])('rotation: %j: refused', async (body) => {
    const { id } = await keys.make()
    const reply = await keys.rotate(id, body)
    expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed'])
    expect((await keys.get(id)).status).toBe('active')
  })
})

describe('changes', () => {
  test('disabling: key: refused at once here, within seconds on other nodes, until enabled', async () => {
    const { id, key } = await keys.make()
    expect([await keyStatus(key), await keyStatus(key, node.at)]).toEqual([200, 200])
    expect((await keys.change(id, { status: 'disabled' })).body.status).toBe('disabled')
    expect(await keyStatus(key)).toBe('api_key_disabled')
    await waitForKeyStatus(key, 'api_key_disabled', node.at)
    expect((await keys.change(id, { status: 'active' })).body.status).toBe('active')
    expect(await keyStatus(key)).toBe(200)
    await waitForKeyStatus(key, 200, node.at)
  })

  test('change: member absent: unchanged; null: removes expiry or rate', async () => {
    const end = inSeconds(600)
    const { key: _key, ...made } = await keys.make({
      expires_at: end,
      rate_limit: 5,
      scopes: ['events:read'],
    })
    expect((await keys.change(made.id, {})).body).toEqual(made)
    expect((await keys.change(made.id, { name: 'two' })).body).toEqual({ ...made, name: 'two' })
    const { body } = await keys.change(made.id, { expires_at: null, rate_limit: null, scopes: [] })
    expect(body).toEqual({ ...made, name: 'two', expires_at: null, rate_limit: null, scopes: [] })
    const merge = { as: workspace.operator, headers: { 'content-type': 'application/merge-patch+json' } }
    const patched = await call('PATCH', `${KEYS}/${made.id}`, { ...merge, body: { rate_limit: 1_000_000 } })
    expect(patched.body.rate_limit).toBe(1_000_000)
  })

  test('change: replaced key: expiry can be moved but not removed, key can be disabled', async () => {
    const { id } = await keys.make()
    await keys.rotate(id)
    const conflict = await keys.change(id, { expires_at: null })
    expect([conflict.status, conflict.body.code]).toEqual([409, 'state_conflict'])
    const end = inSeconds(7_200)
    expect((await keys.change(id, { expires_at: end })).body).toMatchObject({
      status: 'expiring',
      expires_at: end,
    })
    expect((await keys.change(id, { status: 'disabled' })).body.status).toBe('disabled')
    expect((await keys.change(id, { status: 'active' })).body.status).toBe('expiring')
  })

  test('change: revoked or expired key: status is final', async () => {
    const [revoked, expired] = await Promise.all([keys.make(), keys.make({ expires_at: inSeconds(600) })])
    await keys.revoke(revoked.id)
    await expireKey(expired.id)
    for (const [{ id, key }, state] of [
      [revoked, 'revoked'],
      [expired, 'expired'],
    ] as const) {
      for (const body of [
        { status: 'active' },
        { name: 'x' },
        { expires_at: null },
        { expires_at: inSeconds(60) },
      ]) {
        const reply = await keys.change(id, body)
        expect([reply.status, reply.body.code, reply.body.state]).toEqual([409, 'state_conflict', state])
      }
      expect(await keyStatus(key)).toBe(`api_key_${state}`)
    }
    expect((await keys.revoke(revoked.id)).body.status).toBe('revoked')
  })

  test.each([
    { status: 'revoked' },
    { status: null },
    { name: null },
    { name: '' },
    { scopes: null },
    { rate_limit: 0 },
    { rate_limit: 1_000_001 },
    { rate_limit: 1.5 },
    { rate_limit: '60' },
    { expires_at: '2020-01-01T00:00:00Z' },
    { kind: 'anon' },
    { workspace_id: 'ws_x' },
  ])('change: %j: refused', async (body) => {
    const { key: _key, ...made } = await keys.make()
    const reply = await keys.change(made.id, body)
    expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed'])
    expect(await keys.get(made.id)).toEqual(made)
  })
})
