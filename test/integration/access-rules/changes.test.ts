/** Change events under rules: users and anon keys hear of the documents that they may read, live and replayed. */

import { afterEach, beforeAll, expect, test } from 'vitest'
import {
  closeSubscriptions,
  messages,
  receivedAtLeast,
  subscribeToEvents,
} from '../../support/clients/sse.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let mia: Caller
let ben: Caller
beforeAll(async () => {
  workspace = await createTestWorkspace()
  ;[mia, ben] = [await userToken(workspace, 'mia'), await userToken(workspace, 'ben')]
})
afterEach(closeSubscriptions)

async function declared(access: object, store = 'relational') {
  const collection = unique('c')
  const body = {
    ...{ workspace_id: workspace.workspaceId, collection, store, access },
    schema: { type: 'object', properties: { title: { type: 'string' }, open: { type: 'boolean' } } },
  }
  const reply = await call('POST', '/v1/schemas', { as: workspace.operator, body })
  expect(reply.status, JSON.stringify(reply.body)).toBe(201)
  return { collection, at: `/v1/collections/${collection}/documents`, schemaId: reply.body.id as string }
}

const OWN = { _owner: '$user.id' }

test.each(['relational', 'document'])(
  'changes in a %s collection – reach the owner alone, deletions included',
  async (store) => {
    const { collection, at } = await declared(
      { user: { read: OWN, create: true, update: OWN, delete: OWN } },
      store,
    )
    const [ofMia, ofBen, ofKey] = [
      await subscribeToEvents(mia, `topic=collections.${collection}.*`),
      await subscribeToEvents(ben, 'topic=collections.*'),
      await subscribeToEvents(workspace.service, `topic=collections.${collection}.*`),
    ]
    const { id } = (await call('POST', at, { as: mia, body: { title: 'a' } })).body
    await call('PATCH', `${at}/${id}`, { as: mia, body: { title: 'b' } })
    await call('POST', at, { as: ben, body: { title: 'of ben' } })
    await call('DELETE', `${at}/${id}`, { as: mia })
    await receivedAtLeast(ofKey, 4)
    await receivedAtLeast(ofMia, 3)
    await receivedAtLeast(ofBen, 1)
    const short = (received: typeof ofMia) =>
      messages(received).map(({ data }) => [
        data.topic.split('.').at(-1),
        data.data.owner,
        data.data.document?.title,
      ])
    expect(short(ofMia)).toEqual([
      ['created', 'mia', 'a'],
      ['updated', 'mia', 'b'],
      ['deleted', 'mia', undefined],
    ])
    expect(short(ofBen)).toEqual([['created', 'ben', 'of ben']])
    // Nobody receives the document that was kept for the rules.
    expect(JSON.stringify(messages(ofKey).at(-1))).not.toContain('"b"')
  },
)

test('a replay – by a user – shows own changes of the past, and none of a time when the collection was closed', async () => {
  const { collection, at, schemaId } = await declared({ anon: { read: true } })
  const cursor = messages(await subscribeToEvents(workspace.service, `topic=collections.${collection}.*`))
  expect(cursor).toEqual([])
  await call('POST', at, { as: workspace.service, body: { title: 'closed then', open: true } })
  const body = { access: { user: { read: { open: true } } } }
  expect((await call('PUT', `/v1/schemas/${schemaId}`, { as: workspace.operator, body })).status).toBe(200)
  await call('POST', at, { as: workspace.service, body: { title: 'seen', open: true } })
  await call('POST', at, { as: workspace.service, body: { title: 'hidden', open: false } })
  const replayed = await subscribeToEvents(mia, `topic=collections.${collection}.*`, {
    'last-event-id': '0-0',
  })
  await receivedAtLeast(replayed, 1)
  await call('POST', at, { as: workspace.service, body: { title: 'last', open: true } })
  await receivedAtLeast(replayed, 2)
  expect(messages(replayed).map(({ data }) => data.data.document.title)).toEqual(['seen', 'last'])
})

test('an anon key under a filter – hears of what it may read', async () => {
  const { collection, at } = await declared({ anon: { read: { open: true } } })
  const received = await subscribeToEvents(workspace.anon, `topic=collections.${collection}.*`)
  for (const open of [false, true]) await call('POST', at, { as: workspace.service, body: { open } })
  await receivedAtLeast(received, 1)
  expect(messages(received).map(({ data }) => data.data.document.open)).toEqual([true])
})

test('topics that are closed to a user – are refused', async () => {
  const { collection } = await declared({})
  for (const topic of [`collections.${collection}.created`, 'platform.*', 'orders.created']) {
    const reply = await call('GET', `/v1/events/subscribe?topic=${topic}`, { as: mia })
    expect([topic, reply.status, reply.body.code]).toEqual([topic, 403, 'forbidden'])
  }
})
