/** Documents that have expired are in an archive as long as they are stored, since others may refer to them. */

import { expect, test } from 'vitest'
import { exportArchive, importArchive } from '../../support/fixtures/archives.ts'
import {
  asSuperuser,
  call,
  createTestWorkspaceWithStorage,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'

test('expired document that another refers to: both are in the imported workspace, the expired one hidden', async () => {
  const from = await createTestWorkspaceWithStorage()
  const { operator, workspaceId: workspace_id } = from
  const schema = {
    properties: {
      of_id: { type: 'string', format: 'uuid' },
      expires_at: { type: 'string', format: 'date-time' },
    },
  }
  const declare = async (collection: string, more: object) => {
    const body = { workspace_id, collection, store: 'relational', schema, ...more }
    return (await call('POST', '/v1/schemas', { as: operator, body })).body.id
  }
  const id = await declare('parents', { ttl: { field: 'expires_at' } })
  await asSuperuser(`update tenon.schemas set expiry_due_at = 'infinity' where id = $1`, [id])
  await declare('children', { references: [{ field: 'of_id', collection: 'parents' }] })
  const at = (collection: string, one = '') => `/v1/collections/${collection}/documents${one && `/${one}`}`
  const create = async (collection: string, body: object): Promise<string> =>
    (await call('POST', at(collection), { as: from.service, body })).body.id
  const parent = await create('parents', { expires_at: '2999-01-01T00:00:00Z' })
  const child = await create('children', { of_id: parent })
  const body = { expires_at: '2026-01-01T00:00:00Z' }
  expect((await call('PATCH', at('parents', parent), { as: from.service, body })).status).toBe(200)

  const to = await importArchive(from, await exportArchive(from))
  const get = async (of: Pick<TestWorkspace, 'service'>, path: string) =>
    (await call('GET', path, { as: of.service })).status
  expect([await get(to, at('children', child)), await get(to, at('parents', parent))]).toEqual([200, 404])
  const restored = await asSuperuser<{ id: string }>(
    `select id from tenon.schemas where workspace_id = $1 and collection = 'parents'`,
    [to.workspaceId],
  )
  const stored = await asSuperuser(`select from tenon_data."${restored[0]?.id}" where id = $1`, [parent])
  expect(stored).toHaveLength(1)
})
