/** The life of an API key: rotated, disabled, ended, limited; what its admins are shown of it; who may touch it. */

import type { FastifyInstance } from 'fastify'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { buildApp } from '../../src/api/app.ts'
import { parseConfig } from '../../src/platform/config.ts'
import { openDoorkeeper } from '../../src/platform/identity/doorkeeper.ts'
import { openLog } from '../../src/platform/log.ts'
import { openPlatform, type Platform } from '../../src/platform/platform.ts'
import {
  aRoom,
  asSuperuser,
  aWorkspace,
  call,
  eventually,
  type Reply,
  type Room,
  tokenOf,
} from '../support/tenants.ts'

let platform: Platform
/** Another node, which hears of nothing that the first one does but through the database. */
let node: FastifyInstance
let room: Room
beforeAll(async () => {
  const config = parseConfig(inject('tenon').env)
  const opened = openPlatform(config, openLog('silent', 'test'))
  platform = opened.platform
  node = await buildApp(platform, openDoorkeeper(config, opened.parts))
  room = await aRoom()
})
afterAll(async () => {
  await node.close()
  await platform.close()
})

const KEYS = '/v1/api-keys'
const LIST = '/v1/collections/things/documents'
const admin = (method: string, path: string, body?: unknown, of: Room = room) =>
  call(method, path, { as: of.operator, ...(body !== undefined && { body }) })
const make = async (more: object = {}, of: Room = room): Promise<Reply['body']> => {
  const body = { workspace_id: of.workspaceId, kind: 'service', name: 'one', ...more }
  const made = await admin('POST', KEYS, body, of)
  expect(made.status).toBe(201)
  return made.body
}
const change = (id: string, body: unknown) => admin('PATCH', `${KEYS}/${id}`, body)
const rotate = (id: string, body: unknown = {}) => admin('POST', `${KEYS}/${id}/rotate`, body)
const get = async (id: string) => (await admin('GET', `${KEYS}/${id}`)).body
/** 200, or the code by which the key is refused. */
const here = async (key: string) => {
  const { status, body } = await call('GET', LIST, { as: { apikey: key } })
  return body.code ?? status
}
const there = async (key: string) => {
  const reply = await node.inject({ method: 'GET', url: LIST, headers: { apikey: key } })
  return reply.json().code ?? reply.statusCode
}
const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1_000).toISOString()
const passed = (id: string) =>
  asSuperuser("update tenon.api_keys set expires_at = now() - interval '1 second' where id = $1", [id])

test('what an admin is shown of a key', async () => {
  const { key, ...shown } = await make({
    name: 'ci',
    rate_limit: 90,
    scopes: ['events:write', 'collections:read'],
  })
  expect(key).toMatch(/^svc_service_[\w-]{43}[0-9a-f]{8}$/)
  expect(shown).toEqual({
    id: expect.stringMatching(/^key_/),
    tenant_id: room.tenantId,
    workspace_id: room.workspaceId,
    kind: 'service',
    name: 'ci',
    prefix: 'svc_service_',
    last4: key.slice(-4),
    scopes: ['collections:read', 'events:write'],
    rate_limit: 90,
    status: 'active',
    created_by: expect.any(String),
    created_at: expect.any(String),
    expires_at: null,
    revoked_at: null,
    last_used_at: null,
    rotated_from: null,
  })
  expect(await get(shown.id)).toEqual(shown)
})

describe('rotation', () => {
  test('the new key has the rights of the old one, which is good until the grace is over', async () => {
    const old = await make({ scopes: ['collections:read'], rate_limit: 7 })
    const { status, headers, body } = await rotate(old.id, { grace_seconds: 60 })
    expect([status, headers.get('location')]).toEqual([201, `${KEYS}/${body.id}`])
    const { kind, name, scopes, rate_limit, workspace_id, tenant_id } = old
    const same = { kind, name, scopes, rate_limit, workspace_id, tenant_id }
    expect(body).toMatchObject({ ...same, status: 'active', expires_at: null, rotated_from: old.id })
    expect(body.key).not.toBe(old.key)
    const replaced = await get(old.id)
    expect(replaced.status).toBe('expiring')
    expect(Date.parse(replaced.expires_at) - Date.now()).toBeGreaterThan(50_000)
    expect(Date.parse(replaced.expires_at) - Date.now()).toBeLessThan(61_000)
    expect(await Promise.all([here(old.key), here(body.key), there(old.key), there(body.key)])).toEqual([
      200, 200, 200, 200,
    ])
    await passed(old.id)
    expect((await get(old.id)).status).toBe('expired')
    const refused = async (at: typeof here) => ((await at(old.key)) === 'api_key_expired' ? true : undefined)
    await Promise.all([eventually(() => refused(here), 6_000), eventually(() => refused(there), 6_000)])
    expect(await here(body.key)).toBe(200)
  })
})
