/** Deletes users so that what they have stored stays, and nothing in any store leads from it to them. */

import { Redis } from 'ioredis'
import { MongoClient } from 'mongodb'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { openAccount } from '../../support/clients/second-factors.ts'
import { addUser, createUserApp, newUser, type UserApp, userTokens } from '../../support/clients/users.ts'
import { emitAt, ended, type Published, publishOn } from '../../support/fixtures/event-triggers.ts'
import { deployed, invoke, runIdOf } from '../../support/fixtures/functions.ts'
import {
  asSuperuser,
  call as callAt,
  createTestWorkspaceWithStorage,
  eventually,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { type MongoServer, mongoUnavailableReason, startMongo } from '../../support/stack/ferretdb.ts'
import { type ProvisioningNode, startProvisioningNode } from '../../support/stack/provisioning-worker.ts'
import { bucketOf, configure } from '../../support/stack/workspace-settings.ts'

const missing = await mongoUnavailableReason()
if (missing !== undefined) console.warn(`Documents in MongoDB are not tested: ${missing}.`)

const OPEN = { user: { read: { _owner: '$user.id' }, create: true, update: { _owner: '$user.id' } } }
/** The second is in MongoDB, if there is one. */
const COLLECTIONS = { orders: 'relational', notes: 'document' } as const
const COUNT = 3
/** What proves itself by hashes cannot be changed: docs/privacy.md. */
const CHAINS = ['audit', 'mcp_calls']

let mongo: MongoServer | undefined
let node: ProvisioningNode
let redis: Redis
let workspace: TestWorkspace
let bucket: string
let app: UserApp
let flow: Published
let fn: string
beforeAll(async () => {
  redis = new Redis(inject('tenon').env['REDIS_URL'] ?? '')
  mongo = missing === undefined ? await startMongo() : undefined
  node = await startProvisioningNode(mongo === undefined ? {} : { MONGODB_URL: mongo.url })
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
  const { operator: as, workspaceId: workspace_id } = workspace
  for (const [collection, store] of Object.entries(COLLECTIONS)) {
    const body = { workspace_id, collection, store, schema: {}, access: OPEN }
    await ok(call('POST', '/v1/schemas', { as, body }))
  }
  app = await createUserApp(workspace, 'invite')
  const own = ['all/', 'own/{user.id}/']
  await configure(workspace, { objects: { user: { read: own, write: own } } })
  flow = await publishOn(workspace, '{ one: { with: { type: collections.orders.created } } }')
  fn = await deployed(workspace, "export default () => { throw new Error('no') }", { user: true })
})
afterAll(async () => {
  redis?.disconnect()
  await node?.close()
  await mongo?.stop()
})

const call: typeof callAt = (method, path, options) => callAt(method, path, { at: node.at, ...options })

async function ok(reply: Promise<Reply>) {
  const { status, body } = await reply
  expect(status, JSON.stringify(body)).toBeLessThan(300)
  return body
}

type Person = Awaited<ReturnType<typeof addPerson>>

/** A user with documents in each store, objects, an upload under way, and work that was started and caused. */
async function addPerson() {
  const name = unique('Wilhelmina')
  const user = await addUser(app, newUser())
  const { id } = user
  await ok(call('PATCH', `/v1/users/${id}`, { as: workspace.operator, body: { name } }))
  const as = { authorization: `Bearer ${(await userTokens(app, user)).body['access_token']}` }
  for (const collection of Object.keys(COLLECTIONS))
    for (let n = 0; n < COUNT; n++)
      await ok(call('POST', `/v1/collections/${collection}/documents`, { as, body: { n, label: 'mine' } }))
  await ok(call('PUT', `/v1/objects/${bucket}/all/${unique('photo')}`, { as, body: 'shared' }))
  await ok(
    call('PUT', `/v1/objects/${bucket}/own/${id}/photo`, {
      ...{ as: workspace.service, body: 'own', headers: { 'content-type': 'text/plain' } },
    }),
  )
  // The change by a key names the owner of the document, and no user as its cause.
  const [mine] = await documentsOf('orders', id)
  const path = `/v1/collections/orders/documents/${mine?.['id']}`
  await ok(call('PATCH', path, { as: workspace.service, body: { label: 'seen' } }))
  // The node has no worker for bulk changes.
  const many = { filter: { _owner: id, label: 'none' }, data: { label: 'x' } }
  const headers = { prefer: 'wait=30' }
  const changed = await ok(callAt('POST', '/v1/collections/orders/update-many', { as, body: many, headers }))
  expect(changed).toMatchObject({ status: 'completed', matched: 0 })
  const run = await invoke(as, fn, {}, { prefer: 'respond-async' })
  await eventually(async () => {
    const [row] = await asSuperuser<{ dead: boolean }>(
      'select is_dead_letter as dead from tenon.function_runs where id = $1',
      [runIdOf(run) || run.body.id],
    )
    return row?.dead || undefined
  })
  await ended(flow, 1)
  return { ...user, id, name, as }
}

async function documentsOf(collection: string, owner?: string): Promise<Record<string, unknown>[]> {
  const body = { limit: 200, ...(owner !== undefined && { filter: { _owner: owner } }) }
  return (await ok(call('POST', `/v1/collections/${collection}/query`, { as: workspace.service, body }))).data
}

/** The tables and streams of the tenant that have one of the texts anywhere. */
async function findTraces({ id, email, name }: Pick<Person, 'id' | 'email' | 'name'>): Promise<string[]> {
  const { tenantId } = workspace
  const texts = [id, email, name]
  const tables = await asSuperuser<{ name: string }>(`
    select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('tenon', 'tenon_data') and c.relkind = 'r'
      and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id')`)
  const found: string[] = []
  for (const { name: table } of tables) {
    const [row] = await asSuperuser<{ n: number }>(
      `select count(*)::integer as n from ${table} t
       where tenant_id = $1 and exists (select from unnest($2::text[]) one where position(one in t::text) > 0)`,
      [tenantId, texts],
    ).catch((error: { code?: string }) => {
      // Another file has dropped its collection since.
      if (error.code === '42P01' && table.startsWith('tenon_data.')) return []
      throw error
    })
    if ((row?.n ?? 0) > 0) found.push(table.replace(/^tenon_data\..*/, 'a collection').replace('tenon.', ''))
  }
  for (const key of await redis.keys(`*${tenantId}*`)) {
    const type = await redis.type(key)
    const content =
      type === 'stream' ? await redis.xrange(key, '-', '+') : type === 'hash' ? await redis.hgetall(key) : key
    if (texts.some((text) => JSON.stringify([key, content]).includes(text)))
      found.push(key.replace(/^.*\}:(\w+).*$/, 'valkey $1'))
  }
  if (mongo === undefined) return found.sort()
  const client = new MongoClient(mongo.url)
  const stored = await client.db('tenon').collection('documents').find({ tenant: tenantId }).toArray()
  await client.close()
  if (texts.some((text) => JSON.stringify(stored).includes(text))) found.push('mongodb')
  return found.sort()
}

/** All that others see: documents by their ids, objects, executions and runs. */
async function readAll() {
  const documents = (await Promise.all(Object.keys(COLLECTIONS).map((name) => documentsOf(name)))).flat()
  const objects = await ok(call('GET', `/v1/objects/${bucket}`, { as: workspace.service }))
  const rows = (text: string) => asSuperuser<Record<string, unknown>>(text, [workspace.tenantId])
  return {
    documents: new Map(documents.map((one) => [String(one['id']), one])),
    objects: objects.data as { key: string; size: number; etag: string }[],
    executions: await rows(
      'select id, started_by, caused_by from tenon.executions where tenant_id = $1 order by id',
    ),
    runs: await rows(
      'select id, status, started_by, caller from tenon.function_runs where tenant_id = $1 order by id',
    ),
  }
}

const anonymize = (id: string, query = '') =>
  call('DELETE', `/v1/users/${id}?data=anonymize${query}`, { as: workspace.operator })

const endOf = (operationId: string) =>
  eventually(async () => {
    const { body } = await call('GET', `/v1/operations/${operationId}`, { as: workspace.operator })
    return ['succeeded', 'failed'].includes(body.state) ? body : undefined
  }, 60_000)

test('user: made anonymous: nothing in any store leads to the user, and all else is as it was', async () => {
  const [person, other] = [await addPerson(), await addPerson()]
  expect(await findTraces(person)).toEqual(
    expect.arrayContaining([
      'a collection',
      'bulk_changes',
      'executions',
      'function_runs',
      'objects',
      'users',
      'valkey changes',
    ]),
  )
  const before = await readAll()
  const counted = await anonymize(person.id, '&dry_run=true')
  expect(counted.body).toMatchObject({
    documents: { orders: COUNT, notes: COUNT },
    objects: 2,
    runs: 1,
    bulk_changes: 1,
    approvals: 0,
  })
  expect(counted.body.executions).toBeGreaterThan(0)

  const { status, body } = await anonymize(person.id)
  expect([status, body.type]).toEqual([202, 'user.anonymize'])
  expect(await endOf(body.id)).toMatchObject({ state: 'succeeded', target: '-', result: null })

  expect((await findTraces(person)).filter((place) => !CHAINS.includes(place))).toEqual([])
  const after = await readAll()
  const pseudonyms = new Set<unknown>()
  const without = (was: unknown, is: unknown) => {
    pseudonyms.add(is)
    expect(was).toBe(person.id)
  }
  expect(after.documents.size).toBe(before.documents.size)
  for (const [id, { _owner: was, ...rest }] of before.documents) {
    const { _owner: is, ...now } = after.documents.get(id) ?? {}
    expect(now).toEqual(rest)
    if (is !== was) without(was, is)
  }
  for (const [at, { started_by: was }] of before.runs.entries())
    if (after.runs[at]?.['started_by'] !== was) without(was, after.runs[at]?.['started_by'])
  const owners = await asSuperuser<{ owner: string; key: string }>(
    'select owner, key from tenon.objects where tenant_id = $1 and owner is not null and owner <> $2',
    [workspace.tenantId, other.id],
  )
  for (const { owner } of owners) pseudonyms.add(owner)
  expect(owners.length).toBeGreaterThan(0)
  const [pseudonym, ...more] = [...pseudonyms].map(String)
  expect([more, pseudonym]).toEqual([[], expect.stringMatching(/^usr_[0-9a-z]{26}$/)])
  // The key has the pseudonym where the rule has put the id, and the bytes are the same.
  const moved = await call('GET', `/v1/objects/${bucket}/own/${pseudonym}/photo`, { as: workspace.service })
  expect([moved.status, String(moved.body)]).toEqual([200, 'own'])
  expect(
    after.objects.map(({ key, etag }) => [key.replace(pseudonym ?? '', person.id), etag]).sort(),
  ).toEqual(before.objects.map(({ key, etag }) => [key, etag]).sort())
  const named = JSON.stringify(before.executions).replaceAll(person.email, person.id)
  expect(JSON.stringify(after.executions).replaceAll(pseudonym ?? '', person.id)).toBe(named)
  expect((await documentsOf('orders', other.id)).length).toBe(COUNT)
  expect((await call('GET', '/v1/me', { as: other.as })).status).toBe(200)
})

test('each step: done twice, and cut off after its effect: the same end', async () => {
  const person = await addPerson()
  const seen = new Set<string>()
  node.wrap((run) => async (context, input, step) => {
    const result = await run(context, input, step)
    if (seen.has(step)) return (await run(context, input, step)) && result
    seen.add(step)
    throw new Error('the worker was killed')
  })
  const { body } = await anonymize(person.id)
  expect(await endOf(body.id)).toMatchObject({ state: 'succeeded', target: '-' })
  node.wrap((run) => run)
  expect(seen.size).toBe(6)
  expect((await findTraces(person)).filter((place) => !CHAINS.includes(place))).toEqual([])
})

test('work of the user: not ended: waited for by name, and no other fate of the data is taken meanwhile', async () => {
  const person = await addPerson()
  const [run] = await asSuperuser<{ id: string }>(
    `update tenon.executions set caused_by = array[$1] where id = (select max(id) from tenon.executions where tenant_id = $2)
     returning id`,
    [person.id, workspace.tenantId],
  )
  await asSuperuser(
    "set session_replication_role = replica; update tenon.executions set ended_at = null, due_at = 'infinity' where id = '" +
      run?.id +
      "'",
  )
  const { body } = await anonymize(person.id)
  const waiting = await eventually(async () => {
    const { body: job } = await call('GET', `/v1/operations/${body.id}`, { as: workspace.operator })
    return job.steps.find(({ state }: { state: string }) => state === 'waiting')
  }, 30_000)
  expect(waiting.detail).toContain(
    '1 executions, 0 runs of functions and 0 bulk changes that the user has started or caused have not ended',
  )
  for (const data of ['keep', 'delete']) {
    const refused = await call('DELETE', `/v1/users/${person.id}?data=${data}`, { as: workspace.operator })
    expect([refused.status, refused.body.code]).toEqual([409, 'state_conflict'])
  }
  expect((await documentsOf('orders', person.id)).length).toBe(COUNT)
  await asSuperuser(
    "set session_replication_role = replica; update tenon.executions set ended_at = now() where id = '" +
      run?.id +
      "'",
  )
  expect((await endOf(body.id)).state).toBe('succeeded')
})

test('events: a subscriber who was away: gets each at its position, without the user', async () => {
  const person = await addPerson()
  await emitAt(workspace, 'chat.said', { by: person.id })
  const before = await entries()
  const { body } = await anonymize(person.id)
  await endOf(body.id)
  const after = await entries()
  const idsOf = (all: typeof after) => all.map(([id]) => id)
  // The work of the person may have published more meanwhile.
  expect(idsOf(after)).toEqual(expect.arrayContaining(idsOf(before)))
  expect(idsOf(after)).toEqual([...new Set(idsOf(after))])
  expect(JSON.stringify(after)).not.toContain(person.id)
  await emitAt(workspace, 'chat.said', { next: true })
  expect(JSON.stringify(await entries())).toContain('\\"next\\":true')
})

const entries = async () => {
  const of = `tenon:{${workspace.tenantId}}`
  const found = [`${of}:events`, `${of}:changes:${workspace.workspaceId}`].map((key) =>
    redis.xrange(key, '-', '+'),
  )
  return (await Promise.all(found)).flat()
}

test('page of the own account: makes the data anonymous, with the password', async () => {
  const person = await addPerson()
  const { browser, page } = await openAccount(app, person)
  const done = await browser.submit(page, { action: 'delete', data: 'anonymize', current: person.password })
  expect(done.html).toContain('Your name is being removed from your data')
  await eventually(async () => {
    const { status } = await call('GET', `/v1/users/${person.id}`, { as: workspace.operator })
    return status === 404 || undefined
  }, 60_000)
  // This page is of the common platform, which has no MongoDB.
  expect(await documentsOf('orders', person.id)).toEqual([])
})
