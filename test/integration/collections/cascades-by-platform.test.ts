/** Deletions that references carry on where no request names the document: in bulk, by expiry, and of what a user has stored. */

import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { createTaskContexts } from '../../../src/activities/flow/background-work.ts'
import type { TenantId, WorkspaceId } from '../../../src/core/tenant.ts'
import { expiredDocuments } from '../../../src/features/collections/expiry/expired-documents.ts'
import { deleteSomeDocuments } from '../../../src/features/people/personal-data.ts'
import { closeSubscriptions, receivedAtLeast, subscribeToEvents } from '../../support/clients/sse.ts'
import { Collections, pathOf } from '../../support/fixtures/references.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

const PAST = '2026-01-01T00:00:00Z'
const TTL = {
  ttl: { field: 'expires_at' },
  schema: { properties: { expires_at: { type: ['string', 'null'], format: 'date-time' } } },
}

let workspace: TestWorkspace
let here: Collections
let node: Node
beforeAll(async () => {
  workspace = await createTestWorkspace()
  here = new Collections(workspace)
  node = await startInProcessNode()
})
afterEach(closeSubscriptions)
afterAll(() => node?.close())

const contextOf = () =>
  createTaskContexts(node.platform.access)({
    tenantId: workspace.tenantId as TenantId,
    workspaceId: workspace.workspaceId as WorkspaceId,
  })
const deleteMany = (name: string, filter: object, as = workspace.service) =>
  call('POST', `/v1/collections/${name}/delete-many`, {
    ...{ as, body: { filter, all: true }, headers: { prefer: 'wait=30' } },
  })
/** Also those that have expired. */
const stored = async (table: string): Promise<string[]> =>
  (await asSuperuser<{ id: string }>(`select id from tenon_data."${table}" order by id`)).map(({ id }) => id)

test('delete-many: parents and their children that match alike go together; one that is protected is listed', async () => {
  const name = unique('tree')
  const references = [{ field: 'parent_id', collection: name, on_delete: 'cascade' }]
  const schema = { properties: { parent_id: { type: 'string', format: 'uuid' } } }
  await here.declare({ collection: name, schema, references })
  const bills = await here.referring(name, 'restrict')
  const roots = await here.createMany(name, Array(60).fill({}))
  const children = await here.createMany(
    name,
    roots.flatMap((parent_id) => [{ parent_id }, { parent_id }]),
  )
  const bill = await here.create(bills.name, { parent_id: children[10] })
  const { body } = await deleteMany(name, {})
  expect(body).toMatchObject({ status: 'completed', failed: 2 })
  expect(body.failures.map(({ id, code }: { id: string; code: string }) => [id, code])).toEqual([
    [roots[5], 'reference_in_use'],
    [children[10], 'reference_in_use'],
  ])
  expect(await here.idsOf(name)).toEqual([roots[5], children[10]])
  await here.delete(bills.name, bill)
  expect((await deleteMany(name, {})).body).toMatchObject({ status: 'completed', changed: 2, failed: 0 })
  expect(await here.idsOf(name)).toEqual([])
})

test('delete-many of a user: takes along what rules hide', async () => {
  const own = { _owner: '$user.id' }
  const access = { user: { read: own, create: true, delete: own } }
  const parents = await here.declare({ schema: {}, access })
  const children = await here.referring(parents.name, 'cascade')
  const ann = await userToken(workspace, 'ann')
  const [mine, theirs] = [await here.create(parents.name, {}, ann), await here.create(parents.name)]
  await here.create(children.name, { parent_id: mine })
  const kept = await here.create(children.name, { parent_id: theirs })
  const { body } = await deleteMany(parents.name, {}, ann)
  expect(body).toMatchObject({ status: 'completed', matched: 1, changed: 1, failed: 0 })
  expect(await here.idsOf(children.name)).toEqual([kept])
})

test('expiry: takes along by cascade, and sets to null; what a reference protects stays and is counted', async () => {
  const parents = await here.declare(TTL)
  await asSuperuser(`update tenon.schemas set expiry_due_at = 'infinity' where id = $1`, [parents.id])
  const children = await here.referring(parents.name, 'cascade')
  const notes = await here.referring(parents.name, 'set_null')
  const bills = await here.referring(children.name, 'restrict')
  const [gone = '', kept = '', live = ''] = await here.createMany(parents.name, [{}, {}, {}])
  const [child = '', protectedChild = '', other = ''] = await here.createMany(
    children.name,
    [gone, kept, live].map((parent_id) => ({ parent_id })),
  )
  const note = await here.create(notes.name, { parent_id: gone })
  await here.create(bills.name, { parent_id: protectedChild })
  for (const id of [gone, kept])
    await call('PATCH', pathOf(parents.name, id), { as: workspace.service, body: { expires_at: PAST } })
  const received = await subscribeToEvents(
    workspace.service,
    `topic=collections.${parents.name}.deleted,collections.${children.name}.deleted,collections.${notes.name}.updated`,
  )
  await expiredDocuments().run(await contextOf(), parents.name)
  expect(await stored(parents.id)).toEqual([kept, live].sort())
  expect(await stored(children.id)).toEqual([protectedChild, other].sort())
  expect(await here.all(notes.name)).toMatchObject([{ id: note, parent_id: null }])
  const events = await receivedAtLeast(received, 3)
  expect(events.map(({ data }) => [data.data.id, data.data.reason]).sort()).toEqual(
    [
      [gone, 'expired'],
      [child, 'expired'],
      [note, undefined],
    ].sort(),
  )
  const shown = await call('GET', `/v1/schemas/${parents.id}`, { as: workspace.operator })
  expect(shown.body.expired_kept).toBe(1)
})

test('expired document that refers: goes with the one that it refers to', async () => {
  const parents = await here.declare({ schema: {} })
  const children = await here.referring(parents.name, 'cascade', {
    ttl: { field: 'expires_at' },
    schema: {
      properties: {
        parent_id: { type: ['string', 'null'], format: 'uuid' },
        expires_at: { type: 'string', format: 'date-time' },
      },
    },
  })
  await asSuperuser(`update tenon.schemas set expiry_due_at = 'infinity' where id = $1`, [children.id])
  const parent_id = await here.create(parents.name)
  await here.create(children.name, { parent_id, expires_at: PAST })
  expect((await here.delete(parents.name, parent_id)).status).toBe(200)
  expect(await stored(children.id)).toEqual([])
})

test('documents of a user who is removed: take along what refers to them, also those that have expired', async () => {
  const parents = await here.declare(TTL)
  await asSuperuser(`update tenon.schemas set expiry_due_at = 'infinity' where id = $1`, [parents.id])
  const children = await here.referring(parents.name, 'cascade')
  const userId = `usr-${randomUUID()}`
  const lines = [{ _owner: userId }, { _owner: userId, expires_at: PAST }, {}].map((line) => ({
    id: randomUUID(),
    ...line,
  }))
  const imported = await call('POST', `/v1/collections/${parents.name}/import`, {
    as: workspace.service,
    body: lines.map((line) => JSON.stringify(line)).join('\n'),
    headers: { 'content-type': 'application/x-ndjson' },
  })
  expect(imported.body).toMatchObject({ created: 3 })
  const [own, expired, other] = lines.map(({ id }) => id)
  await here.create(children.name, { parent_id: own })
  const kept = await here.create(children.name, { parent_id: other })
  await asSuperuser(`insert into tenon_data."${children.id}" (tenant_id, workspace_id, id, c1, extra)
    select tenant_id, workspace_id, gen_random_uuid(), '${expired}', '{}' from tenon_data."${children.id}" limit 1`)
  const { service } = await contextOf()
  while (await deleteSomeDocuments({ userId, service, prefixes: [] }));
  expect(await stored(parents.id)).toEqual([other])
  expect(await stored(children.id)).toEqual([kept])
})
