/** Exports a workspace and imports the archive: what comes out of the new workspace is what went into the old one. */

import { expect, test } from 'vitest'
import { exportArchive, importArchive, sendArchive } from '../../support/fixtures/archives.ts'
import { call, createTestWorkspaceWithStorage, type TestWorkspace } from '../../support/fixtures/tenants.ts'

/** All documents of a collection, as the API exports them. */
async function linesOf({ service: as }: Pick<TestWorkspace, 'service'>, collection: string): Promise<string> {
  return (await call('GET', `/v1/collections/${collection}/export`, { as })).body
}

test('workspace with documents and schemas: exported and imported: every document is the same, with id, version and times', async () => {
  const from = await createTestWorkspaceWithStorage()
  const { service: as, operator, workspaceId } = from
  await call('POST', '/v1/schemas', {
    as: operator,
    body: {
      ...{ workspace_id: workspaceId, collection: 'tasks', store: 'relational' },
      schema: { properties: { title: { type: 'string' }, rank: { type: 'integer', default: 3 } } },
      indexes: [{ fields: ['rank'] }],
      unique: [['title']],
    },
  })
  for (const n of [1, 2, 3])
    await call('POST', '/v1/collections/tasks/documents', {
      as,
      body: { title: `t${n}`, extra: { deep: [n, null] } },
    })
  const { body: note } = await call('POST', '/v1/collections/notes/documents', { as, body: { text: 'a' } })
  await call('PATCH', `/v1/collections/notes/documents/${note.id}`, { as, body: { text: 'ä\u2028' } })
  const archive = await exportArchive(from)
  const to = await importArchive(from, archive)
  for (const collection of ['tasks', 'notes'])
    expect(await linesOf(to, collection)).toBe(await linesOf(from, collection))
  expect((await linesOf(to, 'tasks')).trim().split('\n')).toHaveLength(3)
  const { body: schemas } = await call('GET', `/v1/schemas?workspace_id=${to.workspaceId}`, { as: operator })
  expect(
    schemas.data.map((one: { collection: string; indexes: object[] }) => [
      one.collection,
      one.indexes.length,
    ]),
  ).toEqual([['tasks', 2]])
  const twice = await call('POST', '/v1/collections/tasks/documents', {
    as: to.service,
    body: { title: 't1' },
  })
  expect(twice.body.code).toBe('unique_violation')
})

test('archive: sent with a slug that is taken: refused, and nothing is made', async () => {
  const from = await createTestWorkspaceWithStorage()
  const archive = await exportArchive(from)
  const { body: record } = await call('GET', `/v1/workspaces/${from.workspaceId}`, { as: from.operator })
  const refused = await sendArchive(from, archive, { slug: record.slug })
  expect([refused.status, refused.body.code]).toEqual([409, 'conflict'])
  const { body: workspaces } = await call('GET', `/v1/workspaces?tenant_id=${from.tenantId}`, {
    as: from.operator,
  })
  expect(workspaces.data).toHaveLength(1)
})
