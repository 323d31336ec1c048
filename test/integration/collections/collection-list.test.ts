/** The list of collections: pages, and only what the caller may read. */

import { expect, test } from 'vitest'
import {
  addTestWorkspace,
  call,
  createTestWorkspace,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'

const create = (workspace: TestWorkspace, collection: string) =>
  call('POST', `/v1/collections/${collection}/documents`, { as: workspace.service, body: { n: 1 } })
const declare = (workspace: TestWorkspace, collection: string, body: object) =>
  call('POST', '/v1/schemas', {
    as: workspace.operator,
    body: { workspace_id: workspace.workspaceId, collection, store: 'relational', schema: {}, ...body },
  })
const list = async (as: TestWorkspace['anon'], size = 50) => {
  const found = []
  for (let next: string | null = ''; next !== null; ) {
    const after = next === '' ? '' : `&page[after]=${next}`
    const { status, body } = await call('GET', `/v1/collections?page[size]=${size}${after}`, { as })
    expect(status).toBe(200)
    expect(body.page.size).toBe(size)
    found.push(...body.data)
    next = body.page.next
  }
  return found
}

test('collection list: declared and undeclared, with and without documents: sorted by name', async () => {
  const workspace = await createTestWorkspace()
  await openCollectionsToAnon(workspace)
  const [sibling, other] = await Promise.all([addTestWorkspace(workspace), createTestWorkspace()])
  for (const of of [sibling, other]) await create(of, 'foreign')
  for (const name of ['b', 'Z', 'z-1', 'b', 'A_2']) await create(workspace, name)
  const schema = { properties: { n: { type: 'integer' } } }
  const open = await declare(workspace, 'c', { schema, indexes: [{ fields: ['n'] }] })
  const closed = await declare(workspace, 'a', {
    access: { anon: { read: false } },
    store: 'document',
    mode: 'off',
  })
  await create(workspace, 'c')
  const undeclared = (name: string) => ({ name, store: 'document', declared: false })
  const all = [
    undeclared('A_2'),
    undeclared('Z'),
    { name: 'a', store: 'document', declared: true, mode: 'off', schema_id: closed.body.id, indexes: [] },
    undeclared('b'),
    {
      ...{ name: 'c', store: 'relational', declared: true, mode: 'enforce', schema_id: open.body.id },
      indexes: [{ name: 'i1', fields: ['n'], unique: false, state: 'ready' }],
    },
    undeclared('z-1'),
  ]
  for (const size of [1, 2, 5, 50]) {
    expect(await list(workspace.service, size)).toEqual(all)
    const names = all.flatMap(({ name }) => (name === 'a' ? [] : [{ name }]))
    expect(await list(workspace.anon, size)).toEqual(names)
  }
  expect(await list(sibling.service)).toEqual([undeclared('foreign')])
})

test('collection list: a collection without writes: not listed', async () => {
  const workspace = await createTestWorkspace()
  await openCollectionsToAnon(workspace)
  const lists = () => Promise.all([list(workspace.service), list(workspace.anon)])
  expect(await lists()).toEqual([[], []])
  const { body } = await create(workspace, 'once')
  expect(await lists()).toEqual([[expect.objectContaining({ name: 'once' })], [{ name: 'once' }]])
  await call('DELETE', `/v1/collections/once/documents/${body.id}`, { as: workspace.service })
  expect(await lists()).toEqual([[], []])
})
