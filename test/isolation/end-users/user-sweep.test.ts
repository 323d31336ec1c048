/**
 * Sweeps the operations that are open to users, in both stores: with rules, a user reaches the documents that these admit, and
 * nothing of other users, other workspaces and other tenants; without rules, nothing at all.
 */

import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { OPERATIONS } from '../../../src/features/index.ts'
import { RPC } from '../../support/clients/mcp.ts'
import {
  closeSubscriptions,
  messages,
  receivedAtLeast,
  subscribeToEvents,
} from '../../support/clients/sse.ts'
import {
  addTestWorkspace,
  type Caller,
  call as callAt,
  createTestWorkspace,
  operator,
  type Reply,
  type TestWorkspace,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { mongoUnavailableReason } from '../../support/stack/ferretdb.ts'
import { startMongoApi } from '../../support/stack/mongo-api.ts'
import type { Running } from '../../support/stack/start.ts'
import { openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'
import { ROWS, type World } from '../sweep-rows.ts'
import { OPEN_TO_USERS } from './user-rows.ts'

const OWN = { _owner: '$user.id' }
const BY_OWNER = { user: { read: OWN, create: true, update: OWN, delete: OWN, aggregate: true } }
/** The collection of the sweep's rows. */
const SECRETS = '/v1/collections/secrets/documents'
const PLATFORM_MCP = '/v1/mcp/platform/mcp'

let ours: TestWorkspace
/** Workspaces whose collections anon keys can read and users cannot. The setting `anon.collections` opens the undeclared collection. */
let closed: Record<'declared for anon keys alone' | 'undeclared', TestWorkspace>
let mia: Caller
/** They have the same rights in their own workspaces, or the same workspace and other documents. */
let strangers: Record<'another user' | 'a user of a sibling workspace' | 'a user of another tenant', Caller>

/** The API process whose documents are in the store. */
let at: Running
let mongo: Awaited<ReturnType<typeof startMongoApi>> | undefined

const call = (method: string, path: string, options: Parameters<typeof callAt>[2]) =>
  callAt(method, path, { ...options, at })

async function open(store: string): Promise<void> {
  if (store === 'document') mongo = await startMongoApi()
  at = mongo?.running ?? inject('tenon')
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const sibling = await addTestWorkspace(workspace)
  closed = {
    'declared for anon keys alone': await addTestWorkspace(workspace),
    undeclared: await addTestWorkspace(workspace),
  }
  await openCollectionsToAnon(closed.undeclared)
  ours = workspace
  for (const each of [ours, sibling, other]) await declare(each, store, BY_OWNER)
  const everything = { read: true, create: true, update: true, delete: true, aggregate: true }
  await declare(closed['declared for anon keys alone'], store, { anon: everything })
  mia = await userToken(ours, 'mia', {}, at)
  strangers = {
    'another user': await userToken(ours, 'ben', {}, at),
    'a user of a sibling workspace': await userToken(sibling, 'mia', {}, at),
    'a user of another tenant': await userToken(other, 'mia', {}, at),
  }
}

async function declare({ workspaceId }: TestWorkspace, store: string, access: object): Promise<void> {
  const schema = { properties: { by: { type: 'string' }, n: { type: 'integer' } } }
  const body = { workspace_id: workspaceId, collection: 'secrets', store, schema, access }
  const reply = await call('POST', '/v1/schemas', { as: await operator(at), body })
  expect(reply.status, JSON.stringify(reply.body)).toBe(201)
}

/** Sends the row of an operation for one document. */
function send(name: string, as: Caller, documentId: string): Promise<Reply> {
  if (name === 'event.subscribe')
    return call('GET', '/v1/events/subscribe?topic=collections.secrets.*', { as })
  const [row, operation] = [ROWS[name], OPERATIONS.find((one) => one.name === name)]
  if (row === undefined || operation === undefined) throw new Error(`${name} is not in the sweep`)
  const world = { documentId } as World
  const body = row.body?.(world)
  return call(operation.http.method, row.path(world), { as, ...(body !== undefined && { body }) })
}

async function created(as: Caller): Promise<string> {
  const { status, body } = await call('POST', SECRETS, { as, body: { by: 'us' } })
  expect(status).toBe(201)
  return body.id
}

const stored = async ({ service: as }: TestWorkspace, id: string) =>
  (await call('GET', `${SECRETS}/${id}`, { as })).body

/** Expects the reply of the sweep's row to a caller who cannot see the document. */
function expectNothingOf(documentId: string, name: string, { status, body }: Reply): void {
  const isHidden = ROWS[name]?.foreign === 'not_found'
  if (isHidden) expect([status, body.code]).toEqual([404, 'not_found'])
  else expect(status).toBeLessThan(300)
  // The path of the request is in the reply.
  expect(JSON.stringify({ ...body, instance: '' })).not.toContain(documentId)
}

const ben = () => strangers['another user']

const missing = await mongoUnavailableReason()
if (missing !== undefined) console.warn(`Users over MongoDB are not tested: ${missing}.`)
/** Operations that answer `not_supported` there (test/conformance/stores/stores.test.ts). */
const NOT_IN_MONGODB = ['collection.list_groups', 'collection.aggregate', 'collection.subscribe']
const STORES = ['relational', ...(missing === undefined ? ['document'] : [])]

describe.each(STORES)('documents in the store %s', (store) => {
  beforeAll(() => open(store))
  afterAll(() => mongo?.stop())
  afterEach(closeSubscriptions)

  const here = OPEN_TO_USERS.rules.filter((name) => store === 'relational' || !NOT_IN_MONGODB.includes(name))
  describe.each(here)('%s', (name) => {
    test('by the owner under own rules – is admitted', async () => {
      const { status, body } = await send(name, mia, await created(mia))
      expect(status, JSON.stringify(body)).toBeLessThan(300)
    })

    test.each(['another user', 'a user of a sibling workspace', 'a user of another tenant'] as const)(
      'by %s under own rules – reaches nothing of the owner',
      async (who) => {
        const id = await created(mia)
        const before = await stored(ours, id)
        expectNothingOf(id, name, await send(name, strangers[who], id))
        expect(await stored(ours, id)).toEqual(before)
        // The same as for a document that does not exist.
        expectNothingOf(id, name, await send(name, strangers[who], randomUUID()))
      },
    )

    test.each(['declared for anon keys alone', 'undeclared'] as const)(
      'in a collection that is %s – is forbidden, whether or not the document exists',
      async (which) => {
        const workspace = closed[which]
        const id = await created(workspace.service)
        const user = await userToken(workspace, 'mia', {}, at)
        const replies = [await send(name, user, id), await send(name, user, randomUUID())]
        for (const { status, body } of replies) {
          if (name === 'collections.list') expect([status, body.data]).toEqual([200, []])
          else expect([status, body.code]).toEqual([403, 'forbidden'])
        }
        const [present, missing] = replies.map(({ body }) => ({ ...body, request_id: '', instance: '' }))
        expect(present).toEqual(missing)
        expect(await stored(workspace, id)).toMatchObject({ by: 'us', _version: 1 })
        expect((await call('GET', SECRETS, { as: workspace.anon })).status).toBe(200)
      },
    )
  })

  test.each(OPEN_TO_USERS.caller)('%s – by a user – shows the caller alone', async (name) => {
    const path = ROWS[name]?.path({} as World) ?? ''
    const [own, other] = [await call('GET', path, { as: mia }), await call('GET', path, { as: ben() })]
    expect([own.status, other.status]).toEqual([200, 200])
    if (name !== 'me.get') return expect(own.body.sizes).toEqual(other.body.sizes)
    expect(own.body).toMatchObject({ roles: ['user'], domains: ['data_access'], user: { id: 'mia' } })
    expect(JSON.stringify(other.body)).not.toContain('mia')
  })

  test('documents of a user – counted, filtered, ordered and paged by another – stay hidden', async () => {
    // One after the other: documents that are made at the same time come in any order.
    for (const as of [mia, mia]) await created(as)
    const first = await call('GET', `${SECRETS}?page[size]=1`, { as: mia })
    const cursor = encodeURIComponent(first.body.page.next)
    for (const as of Object.values(strangers)) {
      const mine = await created(as)
      for (const query of ['', '?count=exact', '?count=estimated', '?order=_owner.desc', '?_owner=eq.mia']) {
        const { body } = await call('GET', `${SECRETS}${query}`, { as })
        for (const document of body.data) expect(document._owner).not.toBe(as === ben() ? 'mia' : 'ben')
        expect(JSON.stringify(body)).not.toContain(first.body.data[0].id)
        if (query.startsWith('?count')) expect(body.page.total).toBe(body.data.length)
      }
      // The cursor of another caller shows no more than one's own.
      const after = await call('GET', `${SECRETS}?page[after]=${cursor}`, { as })
      expect(JSON.stringify(after.body)).not.toContain(first.body.data[0].id)
      if (after.status === 200)
        for (const { id } of after.body.data) expect((await stored(ours, id))._owner).not.toBe('mia')
      expect((await call('GET', `${SECRETS}/${mine}`, { as })).status).toBe(200)
    }
  })

  test('an idempotency key of a user – sent by another – returns no reply of the user', async () => {
    const headers = { 'idempotency-key': 'the same' }
    const body = { by: 'us' }
    const { body: own } = await call('POST', SECRETS, { as: mia, headers, body })
    for (const as of [...Object.values(strangers), ours.service]) {
      const reply = await call('POST', SECRETS, { as, headers, body })
      expect([reply.status, reply.headers.get('idempotent-replayed')]).toEqual([201, null])
      expect(reply.body.id).not.toBe(own.id)
    }
    const again = await call('POST', SECRETS, { as: mia, headers, body })
    expect([again.headers.get('idempotent-replayed'), again.body.id]).toEqual(['true', own.id])
  })

  // Documents in MongoDB have no change events.
  test.runIf(store === 'relational')(
    'changes of a user – subscribed by others, live and from the past – are not delivered',
    async () => {
      const past = { 'last-event-id': '0-0' }
      const topics = ['collections.*', 'collections.secrets.*', 'collections.secrets.created']
      const own = await subscribeToEvents(mia, 'topic=collections.secrets.*', {}, at)
      const id = await created(mia)
      const [event] = await receivedAtLeast(own, 1)
      const streams = await Promise.all(
        Object.values(strangers).flatMap((as) =>
          topics.flatMap((topic) =>
            [{}, past, { 'last-event-id': event?.id ?? '' }].map(async (headers) => ({
              as,
              frames: await subscribeToEvents(as, `topic=${topic}`, headers, at),
            })),
          ),
        ),
      )
      await created(mia)
      await receivedAtLeast(own, 2)
      const marks = new Map<Caller, string>()
      for (const as of Object.values(strangers)) marks.set(as, await created(as))
      for (const { as, frames } of streams) {
        // Their own change comes last, so nothing of ours is still on its way.
        const received = await receivedAtLeast(frames, 1)
        await expect.poll(() => JSON.stringify(messages(frames))).toContain(marks.get(as))
        expect(JSON.stringify(received)).not.toContain(id)
        if (as !== ben()) expect(JSON.stringify(messages(frames))).not.toContain(ours.workspaceId)
        else for (const { data } of messages(frames)) expect(data.data.owner).toBe('ben')
      }
    },
  )

  test('many users of one workspace – write at the same time – own what they created', async () => {
    const names = Array.from({ length: 40 }, (_, n) => `crowd-${n}`)
    const users = await Promise.all(names.map((name) => userToken(ours, name, {}, at)))
    const ids = await Promise.all([...users, ...users, ...users].map(created))
    // One request: reads of a hundred at once may wait too long for a connection of a slow store.
    const query = { filter: { id: { in: ids } }, limit: ids.length }
    const path = '/v1/collections/secrets/query'
    const { data } = (await call('POST', path, { as: ours.service, body: query })).body
    const owners = new Map(data.map(({ id, _owner }: { id: string; _owner: string }) => [id, _owner]))
    expect(ids.map((id) => owners.get(id))).toEqual([...names, ...names, ...names])
    for (const [n, as] of users.entries()) {
      const { body } = await call('GET', SECRETS, { as })
      expect(body.data.map(({ _owner }: { _owner: string }) => _owner)).toEqual(Array(3).fill(names[n]))
    }
  })

  test('import – of lines that name an owner – keeps it for a service key, and refuses it to other users', async () => {
    const line = (_owner: string) => `${JSON.stringify({ id: randomUUID(), by: 'import', _owner })}\n`
    const upload = async (as: Caller, body: string) => {
      const headers = { 'content-type': 'application/x-ndjson' }
      const reply = await call('POST', '/v1/collections/secrets/import', { as, headers, body })
      return [reply.body.created, reply.body.failed]
    }
    const seen = async (as: Caller) => (await call('GET', `${SECRETS}?by=eq.import`, { as })).body.data.length
    expect(await upload(ben(), line('mia'))).toEqual([0, 1])
    expect(await upload(closed['declared for anon keys alone'].anon, line('mia'))).toEqual([0, 1])
    expect(await upload(ours.service, line('mia') + line('mia') + line('ben'))).toEqual([3, 0])
    expect([await seen(mia), await seen(ben())]).toEqual([2, 1])
  })

  test('platform MCP server – called by a user – has no way around roles and rules', async () => {
    const id = await created(mia)
    const as = ben()
    const ask = async (method: string, params: object) => {
      const message = { jsonrpc: '2.0', id: 1, method, params }
      return (await call('POST', PLATFORM_MCP, { as, headers: RPC, body: message })).body
    }
    const listed = await ask('tools/list', {})
    const open = Object.values(OPEN_TO_USERS).flatMap((names) =>
      names.map((name) => name.replaceAll('.', '_')),
    )
    const tools: string[] = listed.result.tools.map(({ name }: { name: string }) => name)
    const textOf = async (tool: string, args: object) => {
      const { result, error } = await ask('tools/call', { name: tool, arguments: args })
      return result?.content[0].text ?? error.message
    }
    expect(tools.filter((tool) => !open.includes(tool))).toEqual([])
    const closed = OPERATIONS.filter(
      ({ reads, domain, http }) => reads && domain === 'data_access' && http.reply !== 'feed',
    )
      .map(({ name }) => name.replaceAll('.', '_'))
      .filter((tool) => !open.includes(tool))
    expect(closed.length).toBeGreaterThan(5)
    for (const tool of closed) expect(await textOf(tool, {}), tool).toMatch(/^forbidden:/)
    // Tools that are not listed: of admins, and of operations that change something.
    for (const tool of ['tenant_list', 'audit_list', 'event_publish', 'collection_delete'])
      expect(await textOf(tool, { name: 'secrets', id }), tool).toContain('no such tool')
    expect(await textOf('collection_get', { name: 'secrets', id })).toMatch(/^not_found:/)
    expect(await textOf('collection_list', { name: 'secrets' })).not.toContain(id)
    expect(await stored(ours, id)).toMatchObject({ by: 'us', _version: 1 })
  })
})
