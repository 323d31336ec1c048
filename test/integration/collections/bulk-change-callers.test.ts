/** Bulk changes and those who ask for them: chains of runs, rights that a caller has lost, and how many one caller may have. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { CHAIN_DEPTH_HEADER } from '../../../src/core/execution.ts'
import { deleteMany as deleteManyDocuments } from '../../../src/features/collections/bulk/bulk-api.ts'
import { SHARED_LIMITS } from '../../../src/features/limits.ts'
import { type BulkNode, startBulkNode } from '../../support/fixtures/bulk-changes.ts'
import { completed, deployTriggered, onTopics } from '../../support/fixtures/function-triggers.ts'
import { deployed, resultOf } from '../../support/fixtures/functions.ts'
import { keysOf } from '../../support/fixtures/keys.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let node: BulkNode
beforeAll(async () => {
  workspace = await createTestWorkspace()
  node = await startBulkNode(workspace)
})
afterAll(() => node?.close())

const DONE = { prefer: 'wait=30' }
const path = (collection: string, rest: string) => `/v1/collections/${collection}/${rest}`

async function fill(collection: string, count: number): Promise<void> {
  const ops = Array.from({ length: count }, (_, n) => ({ op: 'create', data: { n } }))
  const { status } = await call('POST', path(collection, 'batch'), { as: workspace.service, body: { ops } })
  expect(status).toBe(200)
}

const updateMany = (collection: string, headers: Record<string, string> = {}) =>
  call('POST', path(collection, 'update-many'), {
    as: workspace.service,
    body: { filter: {}, all: true, data: { seen: unique('at') } },
    headers: { ...DONE, ...headers },
  })

test('asked for within a chain of runs: its changes are one deeper, and at the maximum it is refused', async () => {
  const collection = unique('orders')
  await fill(collection, 1)
  const heard = await deployTriggered(workspace, onTopics(`collections.${collection}.updated`))
  const made = await updateMany(collection, { [CHAIN_DEPTH_HEADER]: '3' })
  expect([made.status, made.body]).toMatchObject([202, { status: 'completed', changed: 1 }])
  const [run] = await completed(heard, 1)
  expect(run?.trigger).toMatchObject({ kind: 'event', chain_depth: 5 })
  const refused = await updateMany(collection, { [CHAIN_DEPTH_HEADER]: `${SHARED_LIMITS.chainDepthMax}` })
  expect([refused.status, refused.body]).toMatchObject([
    409,
    { code: 'state_conflict', detail: expect.stringContaining('have started one another') },
  ])
})

const WRITES = ['collections:read', 'collections:write']
const recordOf = async (collection: string, id: string) =>
  (await call('GET', path(collection, `bulk-changes/${id}`), { as: workspace.service })).body

test('key that loses its scope before the end: the bulk change ends, and changes nothing more', async () => {
  const collection = unique('orders')
  await fill(collection, 3)
  const key = await keysOf(workspace).make({ scopes: WRITES })
  const caller = { subject: key.id, role: 'service', scopes: WRITES }
  const request = { filter: {}, data: { seen: true } }
  const [before, after] = [
    await node.record({ collection, request, caller }),
    await node.record({ collection, request, caller }),
  ]
  expect(await node.make(before)).toBe('ended')
  expect((await keysOf(workspace).change(key.id, { scopes: ['collections:read'] })).status).toBe(200)
  await expect(node.make(after)).rejects.toMatchObject({ code: 'insufficient_scope' })
  expect(await recordOf(collection, before)).toMatchObject({ status: 'completed', changed: 3 })
  expect(await recordOf(collection, after)).toMatchObject({ matched: 0, changed: 0 })
})

test('function with scopes of its own, called by a key with fewer: its bulk change is made', async () => {
  const collection = unique('orders')
  await fill(collection, 3)
  const key = await keysOf(workspace).make({ scopes: ['functions:write'] })
  const source = `export default ({ name }, { tenon }) => tenon.collections.updateMany(name, {}, { all: true, data: { seen: true }, wait: 20 })`
  const id = await deployed(workspace, source, { scopes: WRITES })
  expect(await resultOf({ apikey: key.key }, id, { name: collection })).toMatchObject({
    status: 'completed',
    changed: 3,
  })
})

test('users with as many bulk changes as they may have: keep neither other users nor keys from theirs', async () => {
  const collection = unique('orders')
  const { workspaceId: workspace_id, operator: as } = workspace
  const access = { user: { read: true, update: true } }
  const schema = { workspace_id, collection, store: 'relational', schema: {}, access }
  const declared = await call('POST', '/v1/schemas', { as, body: schema })
  expect(declared.status, JSON.stringify(declared.body)).toBe(201)
  await fill(collection, 1)
  const [users, request] = [Array.from({ length: 4 }, () => unique('user')), { filter: {}, data: { n: 2 } }]
  for (const owner of users) for (let n = 0; n < 3; n++) await node.record({ collection, request, owner })
  const ask = async (who: Caller) => {
    const body = { filter: {}, all: true, data: { n: 3 } }
    const reply = await call('POST', path(collection, 'update-many'), { as: who, body, headers: DONE })
    return [reply.status, reply.body.code ?? reply.body.status]
  }
  expect(await ask(await userToken(workspace, users[0] ?? ''))).toEqual([409, 'state_conflict'])
  expect(await ask(await userToken(workspace, unique('user')))).toEqual([202, 'completed'])
  expect(await ask(workspace.service)).toEqual([202, 'completed'])
  for (let n = 0; n < 10; n++) await node.record({ collection, request })
  expect(await ask(workspace.service)).toEqual([409, 'state_conflict'])
  await asSuperuser(
    'update tenon.bulk_changes set ended_at = now() where workspace_id = $1 and ended_at is null',
    [workspace_id],
  )
})

test('Temporal does not answer: 202 with the bulk change that is recorded, which is made later', async () => {
  const collection = unique('orders')
  await fill(collection, 2)
  const away = await startBulkNode(workspace, { TEMPORAL_ADDRESS: '127.0.0.1:1' })
  try {
    const { status, body } = await call('POST', path(collection, 'update-many'), {
      ...{ as: workspace.service, at: away.at, body: { filter: {}, all: true, data: { n: 7 } } },
    })
    expect([status, body]).toMatchObject([202, { status: 'queued', matched: 0, ended_at: null }])
    const ended = await eventually(async () => {
      const now = await recordOf(collection, body.id)
      return now.ended_at === null ? undefined : now
    }, 120_000)
    expect(ended).toMatchObject({ status: 'completed', changed: 2 })
  } finally {
    await away.close()
  }
})

test('attempts at one request at once, and another after its end: one bulk change', async () => {
  const collection = unique('orders')
  await fill(collection, 4)
  const [seed, input] = [
    unique('seed'),
    { name: collection, filter: {}, all: true, max_documents: 4, wait: 20 },
  ]
  const attempt = async () => deleteManyDocuments.run(await node.attempt(seed), input)
  const made = await Promise.all([attempt(), attempt(), attempt(), attempt()])
  await fill(collection, 5)
  const ids = [...made, await attempt()].map((reply) => 'id' in reply && reply.id)
  expect(new Set(ids)).toEqual(new Set([expect.stringMatching(/^bulk_/)]))
  const { body } = await call('GET', path(collection, 'bulk-changes'), { as: workspace.service })
  expect(body.data).toMatchObject([{ id: ids[0], status: 'completed', changed: 4 }])
})
