/** The quick starts, the tutorial, the page of access rules and the examples, one after another in one workspace. */

import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runSetup } from '../../support/clients/example-app.ts'
import { call, createTestWorkspace, createTestWorkspaceWithStorage } from '../../support/fixtures/tenants.ts'

const PAGE = 'http://localhost:5173/'

/** Of config.json. */
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-examples-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Names of collections in requests of a page. */
const collectionsOf = (text: string) =>
  new Set([...text.matchAll(/\/v1\/collections\/([a-z_]+)\/documents/g)].map(([, name = '']) => name))

test('pages and examples in the order in which one reads them: each works after those before it', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  for (const page of ['README.md', 'docs/getting-started.md', 'docs/collections.md'])
    for (const name of collectionsOf(await readFile(page, 'utf8'))) {
      const body = { title: 'buy milk', done: false, prio: 2 }
      const at = `/v1/collections/${name}/documents`
      expect((await call('POST', at, { as: workspace.service, body })).status).toBe(201)
    }
  const [, tickets = ''] =
    /```json\n(\{\n {2}"collection": "tickets"[\s\S]*?)```/.exec(
      await readFile('docs/tutorial.md', 'utf8'),
    ) ?? []
  const [, lists = ''] = /"collection": "(\w+)"/.exec(await readFile('docs/access.md', 'utf8')) ?? []
  const schema = { type: 'object', properties: {} }
  const declarations = [JSON.parse(tickets), { collection: lists, store: 'relational', schema }]
  for (const body of declarations) {
    const declared = { ...body, workspace_id: workspace.workspaceId }
    expect((await call('POST', '/v1/schemas', { as: workspace.operator, body: declared })).status).toBe(201)
  }
  for (const _ of ['first run', 'second run']) {
    await runSetup('todo-web', workspace, [PAGE, folder])
    await runSetup('support-desk', workspace, [PAGE, 'mia@example.com', folder])
    await runSetup('court-booking', workspace, [PAGE, folder])
  }
  const own = `/v1/schemas?workspace_id=${workspace.workspaceId}`
  const { body } = await call('GET', own, { as: workspace.operator })
  const declared = body.data.map(({ collection }: { collection: string }) => collection)
  const examples = ['private_todos', 'desk_tickets', 'desk_answers', 'desk_refunds', 'booking_bookings']
  expect(declared).toEqual(expect.arrayContaining(['tickets', lists, ...examples]))
})

test('todo-web where its collection has other documents already: ends with the reason', async () => {
  const workspace = await createTestWorkspace()
  const body = { text: 'buy milk' }
  await call('POST', '/v1/collections/private_todos/documents', { as: workspace.service, body })
  const run = runSetup('todo-web', workspace, [PAGE, folder])
  await expect(run).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^POST \/v1\/schemas: schema_incompatible: .*\n {2}.*\n$/),
  })
})
