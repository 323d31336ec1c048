/** Rules on topics for users: what they publish and receive, and when their streams end. */

import { afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { addAccount } from '../../support/clients/browser.ts'
import {
  closeSubscriptions,
  endOf,
  messages,
  type ReceivedEvent,
  receivedAtLeast,
  subscribeToEvents,
} from '../../support/clients/sse.ts'
import { limit } from '../../support/fixtures/quotas.ts'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  tokenOf,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'
import { configure, tryConfigure } from '../../support/stack/workspace-settings.ts'
import { stopwatch } from '../../support/stopwatch.ts'

afterEach(closeSubscriptions)

const RULES = {
  subscribe: ['lobby', 'orders.{user.claims.region}.*', 'chat.{user.id}.*', 'inbox.{user.id}'],
  publish: ['chat.{user.id}.*', 'rooms.{user.claims.rooms}'],
}
const PAST = { 'last-event-id': '0-0' }

let workspace: TestWorkspace
let mia: Caller
let ben: Caller
beforeAll(async () => {
  workspace = await createTestWorkspace()
  mia = await userToken(workspace, 'mia', { region: 'eu', rooms: ['red', 'blue'] })
  ben = await userToken(workspace, 'ben', { region: 'us' })
  await configure(workspace, { topics: { user: RULES } })
})

const publish = (as: Caller, topic: string, data: unknown = 1): Promise<Reply> =>
  call('POST', '/v1/events/publish', { as, body: { topic, data } })
const subscribing = (as: Caller, topic: string) => call('GET', `/v1/events/subscribe?topic=${topic}`, { as })
const topicsOf = (frames: readonly ReceivedEvent[]) => messages(frames).map(({ data }) => data.topic)

function expectClosed({ status, body }: Reply, setting: string): void {
  expect([status, body.code], JSON.stringify(body)).toEqual([403, 'forbidden'])
  expect(body.detail).toContain(`topics.user.${setting}`)
  expect(body.hint).not.toContain('/v1/services/configure')
}

test('workspace without rules – is closed to users', async () => {
  const closed = await createTestWorkspace()
  const as = await userToken(closed, 'mia')
  expectClosed(await subscribing(as, 'lobby'), 'subscribe')
  expectClosed(await publish(as, 'lobby'), 'publish')
  // Settings of anon keys say nothing about users.
  expect((await subscribing(closed.anon, 'lobby')).status).toBe(200)
})

test.each([
  'platform.execution.*',
  'collections.*',
  'collections.todos.created',
  'a.*.b',
  '*',
  'a.{user.mail}',
])('rule %s – is refused for both rights', async (topic) => {
  for (const right of ['subscribe', 'publish']) {
    const { status, body } = await tryConfigure(workspace, { topics: { user: { [right]: ['ok', topic] } } })
    expect([status, body.errors?.[0]?.pointer]).toEqual([400, `/topics/user/${right}/1`])
  }
})

describe('subscription', () => {
  test.each([
    ['lobby', true],
    ['lobby.*', false],
    ['lobby.x', false],
    ['orders.eu.created', true],
    ['orders.eu.*', true],
    ['orders.eu.a.*', true],
    ['orders.eu', false],
    ['orders.*', false],
    ['orders.us.*', false],
    ['chat.mia.*', true],
    ['chat.ben.*', false],
    ['chat.*', false],
    ['inbox.mia', true],
    ['inbox.mia.*', false],
    ['inbox.ben', false],
    ['lobby,orders.eu.*,chat.mia.x', true],
    ['lobby,orders.us.*', false],
    ['lobby,platform.execution.*', false],
    ['platform.execution.completed', false],
    ['other', false],
  ])('%s – by mia – is open: %s', async (topic, isOpen) => {
    const { status, body } = await subscribing(mia, topic)
    expect([status, body.code]).toEqual(isOpen ? [200, undefined] : [403, 'forbidden'])
  })

  test('claim that no topic has – opens nothing', async () => {
    for (const region of ['', '*', 'eu.*', '.', 7, null, ['*', 'a.b']]) {
      const as = await userToken(workspace, 'zoe', { region })
      for (const topic of ['orders.*', 'orders.eu.*', 'orders.a.b', 'orders.7.x'])
        expect([region, topic, (await subscribing(as, topic)).status]).toEqual([region, topic, 403])
    }
  })

  test('events of the topics – are delivered live and replayed, and no others', async () => {
    const live = await subscribeToEvents(mia, 'topic=lobby,orders.eu.*')
    const all = await subscribeToEvents(workspace.service, 'topic=lobby,orders.*')
    for (const topic of ['orders.us.created', 'lobby', 'orders.eu.created', 'orders.eu.x.y'])
      expect((await publish(workspace.service, topic)).status).toBe(202)
    await receivedAtLeast(all, 4)
    await receivedAtLeast(live, 3)
    const past = await subscribeToEvents(mia, 'topic=lobby,orders.eu.*', PAST)
    await receivedAtLeast(past, 3)
    for (const frames of [live, past])
      expect(topicsOf(frames)).toEqual(['lobby', 'orders.eu.created', 'orders.eu.x.y'])
  })

  test('events of another workspace – never reach users, with or without workspace=self', async () => {
    const sibling = await addTestWorkspace(workspace)
    await configure(sibling, { topics: { user: RULES } })
    const streams = await Promise.all([
      subscribeToEvents(mia, 'topic=inbox.mia'),
      subscribeToEvents(mia, 'topic=inbox.mia&workspace=self'),
    ])
    const service = await subscribeToEvents(workspace.service, 'topic=inbox.*')
    await publish(sibling.service, 'inbox.mia', 'foreign')
    await publish(workspace.service, 'inbox.mia', 'own')
    await receivedAtLeast(service, 2)
    const past = await subscribeToEvents(mia, 'topic=inbox.mia', PAST)
    for (const frames of [...streams, past]) {
      await receivedAtLeast(frames, 1)
      expect(messages(frames).map(({ data }) => data.data)).toEqual(['own'])
    }
  })

  test('topics and changes of documents in one stream – are each decided by their own rules', async () => {
    const collection = unique('c')
    const body = {
      ...{ workspace_id: workspace.workspaceId, collection, store: 'relational' },
      ...{ schema: { properties: { n: { type: 'integer' } } } },
      access: { user: { read: { _owner: '$user.id' }, create: true } },
    }
    expect((await call('POST', '/v1/schemas', { as: workspace.operator, body })).status).toBe(201)
    const frames = await subscribeToEvents(mia, `topic=lobby,collections.${collection}.*`)
    for (const [as, n] of [
      [ben, 1],
      [mia, 2],
    ] as const)
      expect(
        (await call('POST', `/v1/collections/${collection}/documents`, { as, body: { n } })).status,
      ).toBe(201)
    await publish(workspace.service, 'lobby')
    await receivedAtLeast(frames, 2)
    const seen = messages(frames).map(({ data }) => data.data.document?.n ?? data.topic)
    expect(seen.toSorted()).toEqual([2, 'lobby'])
  })
})

describe('rules that change', () => {
  let ws: TestWorkspace
  let as: Caller
  let node: Node
  beforeAll(async () => {
    ;[ws, node] = await Promise.all([createTestWorkspace(), startInProcessNode()])
    as = await userToken(ws, 'mia')
    return () => node.close()
  })

  test('a topic that is closed – is delivered no more, and its streams end within 5 s on all nodes', async () => {
    await configure(ws, { topics: { user: { subscribe: ['news.*', 'lobby'] } } })
    const streams = await Promise.all([
      subscribeToEvents(as, 'topic=news.*,lobby'),
      subscribeToEvents(as, 'topic=news.*,lobby', {}, node.at),
    ])
    const other = await subscribeToEvents(as, 'topic=lobby')
    const service = await subscribeToEvents(ws.service, 'topic=news.*')
    await publish(ws.service, 'news.a')
    for (const frames of streams) await receivedAtLeast(frames, 1)
    const elapsedMs = stopwatch()
    await configure(ws, { topics: { user: { subscribe: ['lobby'] } } })
    for (const frames of streams) expect(await endOf(frames, 6_000)).toBe('forbidden')
    expect(elapsedMs()).toBeLessThan(5_500)
    await publish(ws.service, 'news.b')
    await receivedAtLeast(service, 2)
    for (const frames of streams) expect(topicsOf(frames)).toEqual(['news.a'])
    await publish(ws.service, 'lobby')
    await receivedAtLeast(other, 1)
    expect(other.find(({ event }) => event === 'end')).toBeUndefined()
    expectClosed(await subscribing(as, 'news.*'), 'subscribe')
  })
})

describe('publish', () => {
  test.each([
    ['chat.mia.new', 202],
    ['chat.mia', 403],
    ['chat.ben.new', 403],
    ['rooms.red', 202],
    ['rooms.blue', 202],
    ['rooms.red.x', 403],
    ['rooms.green', 403],
    ['lobby', 403],
    ['platform.execution.completed', 400],
    ['collections.todos.created', 400],
  ])('%s – by mia – %i', async (topic, status) => {
    const reply = await publish(mia, topic)
    expect([topic, reply.status]).toEqual([topic, status])
    if (status === 403) expectClosed(reply, 'publish')
  })

  test('claim with a reserved word – publishes nothing', async () => {
    const ws = await createTestWorkspace()
    await configure(ws, {
      topics: { user: { subscribe: ['{user.claims.a}.*'], publish: ['{user.claims.a}.*'] } },
    })
    for (const a of ['platform', 'collections']) {
      const as = await userToken(ws, 'mia', { a })
      expect((await publish(as, `${a}.x`)).status).toBe(400)
      expect((await subscribing(as, `${a}.todos.*`)).status).toBe(403)
    }
  })

  test('an event of a user – has the source of the workspace, and counts towards its quota', async () => {
    const ws = await createTestWorkspace()
    await configure(ws, { topics: { user: RULES } })
    const frames = await subscribeToEvents(ws.service, 'topic=chat.*')
    await limit(ws, { events_per_day: 1 })
    const as = await userToken(ws, 'mia')
    expect((await publish(as, 'chat.mia.new', { text: 'hi' })).status).toBe(202)
    const [event] = await receivedAtLeast(frames, 1)
    expect(event?.data).toMatchObject({ source: `/workspaces/${ws.workspaceId}`, data: { text: 'hi' } })
    const refused = await publish(as, 'chat.mia.new')
    expect([refused.status, refused.body.code]).toEqual([429, 'quota_exceeded'])
  })

  test('an anon key – publishes nothing', async () => {
    expect((await publish(workspace.anon, 'chat.mia.new')).status).toBe(403)
  })
})

describe('stream of a user ends within 5 s', () => {
  const token = (sub: string, more: Record<string, unknown> = {}) =>
    tokenOf({
      ...{
        sub,
        tenant_id: workspace.tenantId,
        workspace_id: workspace.workspaceId,
        role: 'user',
        roles: ['user'],
      },
      ...{ email: 'mia@example.com', email_verified: true, claims: {}, ...more },
    })

  async function expectEnd(frames: readonly ReceivedEvent[], code: string, end: () => Promise<unknown>) {
    const other = await subscribeToEvents(ben, 'topic=lobby')
    const elapsedMs = stopwatch()
    await end()
    expect(await endOf(frames, 6_000)).toBe(code)
    expect(elapsedMs()).toBeLessThan(5_000)
    await publish(workspace.service, 'lobby', 'after')
    await receivedAtLeast(other, 1)
    expect(messages(frames)).toEqual([])
  }

  test('when the token is revoked', async () => {
    const { clientId, clientSecret, url } = inject('tenon')
    const as = await token('mia', { jti: unique('token'), client_id: clientId })
    const frames = await subscribeToEvents(as, 'topic=lobby')
    await expectEnd(frames, 'token_invalid', async () => {
      const basic = Buffer.from(`${clientId}:${clientSecret}`).toString('base64')
      const body = new URLSearchParams({ token: as['authorization']?.replace('Bearer ', '') ?? '' })
      const headers = { authorization: `Basic ${basic}` }
      expect((await fetch(`${url}/auth/revoke`, { method: 'POST', body, headers })).status).toBe(200)
    })
  })

  test.each([
    ['disabled', 'PATCH', { disabled: true }],
    ['deleted', 'DELETE', undefined],
  ] as const)('when the account is %s', async (_name, method, body) => {
    const bound = { role: 'service', tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId }
    const { id } = await addAccount(workspace.operator, bound)
    const frames = await subscribeToEvents(await token(id), 'topic=lobby')
    await expectEnd(frames, 'token_invalid', async () => {
      const reply = await call(method, `/v1/accounts/${id}`, {
        as: workspace.operator,
        ...(body && { body }),
      })
      expect(reply.status, JSON.stringify(reply.body)).toBe(200)
    })
  })

  test('when the token expires', async () => {
    // Clock skew of 30 s is tolerated.
    const exp = Math.floor(Date.now() / 1_000) - 27
    const frames = await subscribeToEvents(await token('mia', { exp }), 'topic=lobby')
    await expectEnd(frames, 'token_expired', async () => {})
  })
})
