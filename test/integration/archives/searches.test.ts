/** Searches of a workspace are in its archive, and find the documents of the imported one. */

import { expect, test } from 'vitest'
import { exportArchive, importArchive } from '../../support/fixtures/archives.ts'
import { call, createTestWorkspaceWithStorage } from '../../support/fixtures/tenants.ts'

test('workspace with searches: imported, it declares and finds the same', async () => {
  const from = await createTestWorkspaceWithStorage()
  const wanted = {
    ...{ collection: 'recipes', store: 'relational' },
    schema: {
      properties: {
        title: { type: 'string' },
        body: { type: 'string' },
        tags: { type: 'array' },
        lat: { type: 'number' },
        lng: { type: 'number' },
      },
    },
    search: { fields: { title: 'A', body: 'C' }, language: 'german' },
    ...{ trigram: ['title'], arrays: ['tags'], geo: ['lat', 'lng'] },
  }
  const declared = await call('POST', '/v1/schemas', {
    as: from.operator,
    body: { workspace_id: from.workspaceId, ...wanted },
  })
  expect(declared.status).toBe(201)
  const made = await call('POST', '/v1/collections/recipes/documents', {
    as: from.service,
    body: { title: 'Milchreis', body: 'Reis kochen', tags: ['süß'], lat: 48, lng: 11 },
  })
  expect(made.status).toBe(201)
  const to = await importArchive(from, await exportArchive(from))
  const schemas = await call('GET', `/v1/schemas?workspace_id=${to.workspaceId}`, { as: from.operator })
  expect(schemas.body.data[0]?.indexes).toEqual(declared.body.indexes)
  for (const query of [
    '_search=wfts.koche',
    'tags=cs.{süß}',
    'title=near.Milhreis',
    'order=_distance(48,11)',
  ]) {
    const { status, body } = await call('GET', `/v1/collections/recipes/documents?${query}`, {
      as: to.service,
    })
    expect([query, status, body.data?.length]).toEqual([query, 200, 1])
  }
})
