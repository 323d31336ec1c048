/** Stored data of API keys: lists, last use, quota, access. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sqlAsRole } from '../../support/clients/sql-as-role.ts'
import { expireKey, inSeconds, KEYS, type Keys, keyStatus, keysOf } from '../../support/fixtures/keys.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'
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

test('list: API keys: filtered by workspace and status', async () => {
  const own = await createTestWorkspace()
  const sibling = await addTestWorkspace(own)
  const made = await Promise.all(
    Array.from({ length: 4 }, () => keysOf(own).make({ expires_at: inSeconds(600) })),
  )
  const [disabled, expiring, expired, revoked] = made.map(({ id }) => id as string) as [
    string,
    string,
    string,
    string,
  ]
  await keys.change(disabled, { status: 'disabled' })
  const { body: active } = await keys.rotate(expiring)
  await expireKey(expired)
  await keys.revoke(revoked)
  const of = async (query: string) => {
    const { body } = await keys.admin('GET', `${KEYS}?workspace_id=${own.workspaceId}${query}`)
    return body.data.map(({ id }: { id: string }) => id)
  }
  for (const [status, id] of Object.entries({ disabled, expiring, expired, revoked }))
    expect(await of(`&status=${status}`)).toEqual([id])
  expect(await of('&status=active')).toHaveLength(3)
  expect(await of('&status=active')).toContain(active.id)
  expect(await of('')).toHaveLength(7)
  const { body } = await keys.admin('GET', `${KEYS}?workspace_id=${sibling.workspaceId}`)
  expect(body.data).toHaveLength(2)
  expect((await keys.admin('GET', `${KEYS}?status=good`)).status).toBe(400)
})

describe('last_used_at', () => {
  const setLastUsed = (id: string, seconds: number) =>
    asSuperuser(`update tenon.api_keys set last_used_at = now() - $2 * interval '1 second' where id = $1`, [
      id,
      seconds,
    ])
  /** The version of the row, which changes with each write. */
  const version = async (id: string) =>
    (await asSuperuser<{ xmin: string }>('select xmin from tenon.api_keys where id = $1', [id]))[0]?.xmin

  test('last_used_at: key in constant use, cached: advances', async () => {
    const { id, key } = await keys.make()
    await keyStatus(key)
    await eventually(async () => ((await keys.get(id)).last_used_at === null ? undefined : true))
    await setLastUsed(id, 61)
    const before = Date.now()
    // Half of the calls hit the cache; one of the others does the lookup.
    await eventually(async () => {
      expect(await keyStatus(key)).toBe(200)
      return Date.parse((await keys.get(id)).last_used_at) > before - 30_000 ? true : undefined
    }, 8_000)
  })

  test('last_used_at: second use within the minute, or refused key: not written', async () => {
    const { id, key } = await keys.make()
    await setLastUsed(id, 30)
    const fresh = await version(id)
    for (const at of [undefined, node.at, undefined]) expect(await keyStatus(key, at)).toBe(200)
    expect(await version(id)).toBe(fresh)
    // A change makes this node look the key up again.
    await keys.change(id, { status: 'disabled' })
    await setLastUsed(id, 300)
    const { last_used_at: last } = await keys.get(id)
    expect(await keyStatus(key)).toBe('api_key_disabled')
    expect((await keys.get(id)).last_used_at).toBe(last)
  })
})

describe('quota', () => {
  test('quota of API keys: rotation: both keys count; ended key: no longer counts', async () => {
    const own = await createTestWorkspace()
    const used = async () =>
      (await keys.admin('GET', `/v1/quotas?workspace_id=${own.workspaceId}`)).body.quotas.api_keys
    const third = await keysOf(own).make({ expires_at: inSeconds(600) })
    await keys.admin('PUT', '/v1/quotas', { workspace_id: own.workspaceId, limits: { api_keys: 3 } })
    const refused = await keys.rotate(third.id)
    expect([refused.status, refused.body.code, refused.body.quota]).toEqual([
      429,
      'quota_exceeded',
      'api_keys',
    ])
    expect((await keys.get(third.id)).status).toBe('active')
    const { body: fourth } = await keys.rotate(third.id, { grace_seconds: 0 })
    expect(await used()).toMatchObject({ limit: 3, used: 3 })
    await expireKey(fourth.id)
    const fifth = await keysOf(own).make({})
    expect(await used()).toMatchObject({ used: 3 })
    const body = { workspace_id: own.workspaceId, kind: 'anon', name: 'x' }
    expect((await keys.admin('POST', KEYS, body)).status).toBe(429)
    await keys.revoke(fifth.id)
    expect(await used()).toMatchObject({ used: 2 })
    expect((await keys.admin('POST', KEYS, body)).status).toBe(201)
    // Revoked long after it expired and stopped counting.
    await keys.revoke(fourth.id)
    expect(await used()).toMatchObject({ used: 3 })
  })
})

describe('access', () => {
  test('API key: admin of another workspace or tenant: 404', async () => {
    const [{ key: _key, ...made }, other, sibling] = await Promise.all([
      keys.make(),
      createTestWorkspace(),
      addTestWorkspace(workspace),
    ])
    const otherAdmins = [
      await tokenOf({
        roles: ['workspace_admin'],
        tenant_id: workspace.tenantId,
        workspace_id: sibling.workspaceId,
      }),
      await tokenOf({ roles: ['tenant_admin'], tenant_id: other.tenantId }),
    ]
    const ways = [
      ['GET', `${KEYS}/${made.id}`],
      ['PATCH', `${KEYS}/${made.id}`, { status: 'disabled' }],
      ['POST', `${KEYS}/${made.id}/rotate`, {}],
      ['DELETE', `${KEYS}/${made.id}`],
    ] as const
    for (const as of otherAdmins) {
      for (const [method, path, body] of ways) {
        const reply = await call(method, path, { as, ...(body && { body }) })
        expect([reply.status, reply.body.code]).toEqual([404, 'not_found'])
      }
    }
    expect(await keys.get(made.id)).toEqual(made)
    const own = {
      roles: ['workspace_admin'],
      tenant_id: workspace.tenantId,
      workspace_id: workspace.workspaceId,
    }
    const rotated = await call('POST', `${KEYS}/${made.id}/rotate`, { as: await tokenOf(own), body: {} })
    expect([rotated.status, rotated.body.created_by]).toEqual([201, 'user-1'])
  })

  test('database: data roles: cannot move, re-digest, retype or read a key', async () => {
    const { id } = await keys.make()
    const ref = [workspace.tenantId, workspace.workspaceId]
    for (const mask of ['tenon_admin', 'tenon_operator']) {
      for (const column of ['tenant_id', 'workspace_id', 'kind', 'hash', 'rotated_from', 'created_by'])
        await expect(
          sqlAsRole(mask, ref, `update tenon.api_keys set ${column} = ${column} where id = '${id}'`),
        ).rejects.toThrow(/permission denied/)
      expect(
        await sqlAsRole(
          mask,
          ref,
          `update tenon.api_keys set rate_limit = 3 where id = '${id}' returning rate_limit`,
        ),
      ).toEqual([{ rate_limit: 3 }])
      await expect(sqlAsRole(mask, ref, `delete from tenon.api_keys where id = '${id}'`)).rejects.toThrow(
        /permission denied/,
      )
    }
    for (const mask of ['tenon_service', 'tenon_anon'])
      await expect(sqlAsRole(mask, ref, 'select id from tenon.api_keys')).rejects.toThrow(/permission denied/)
    const otherTenant = await createTestWorkspace()
    const otherIds = [otherTenant.tenantId, otherTenant.workspaceId]
    const wide = `update tenon.api_keys set disabled_at = now() where id = '${id}' returning id`
    expect(await sqlAsRole('tenon_admin', otherIds, wide)).toEqual([])
  })
})
