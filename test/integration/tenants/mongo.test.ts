/** Documents in MongoDB are exported, imported, purged and deleted with their owner as those in PostgreSQL are; those of a neighbour stay. */

import { MongoClient } from 'mongodb'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { importInto, lines } from '../../support/clients/ndjson.ts'
import { endOf, exportArchive, importArchive } from '../../support/fixtures/archives.ts'
import {
  addTestWorkspace,
  createTestWorkspace,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { type MongoServer, mongoUnavailableReason, startMongo } from '../../support/stack/ferretdb.ts'
import { type OwnPlatform, ownPlatform } from '../../support/stack/own-platform.ts'

const missing = await mongoUnavailableReason()
if (missing !== undefined) console.warn(`Documents in MongoDB are not tested: ${missing}.`)

/** `notes` is undeclared, and so in MongoDB; the others are where they are declared to be. */
const STORES = { orders: 'relational', letters: 'document' } as const
const COLLECTIONS = ['notes', ...Object.keys(STORES)]
const IN_MONGO = ['notes', 'letters']

describe.skipIf(missing !== undefined)('MongoDB', () => {
  let mongo: MongoServer
  let client: MongoClient
  let own: OwnPlatform
  /** A workspace of another tenant. */
  let neighbour: TestWorkspace
  let before: readonly string[]

  beforeAll(async () => {
    mongo = await startMongo()
    client = await new MongoClient(mongo.url).connect()
    own = await ownPlatform({ env: { MONGODB_URL: mongo.url } })
    neighbour = await createTestWorkspace(own.started.running)
    await fill(neighbour)
    before = await storedOf(neighbour)
  })
  afterAll(async () => {
    await own?.end()
    await client?.close()
    await mongo?.stop()
  })

  async function ok(sent: ReturnType<OwnPlatform['call']>) {
    const { status, body } = await sent
    if (status >= 300) throw new Error(JSON.stringify(body))
    return body
  }

  /** A user, and three documents in each collection; in declared ones two are of the user. @returns the id of the user */
  async function fill({ operator: as, service, workspaceId: workspace_id }: TestWorkspace): Promise<string> {
    for (const [collection, store] of Object.entries(STORES))
      await ok(own.call('POST', '/v1/schemas', { as, body: { workspace_id, collection, store, schema: {} } }))
    const settings = { workspace_id, auth: { sign_up: 'invite' } }
    await ok(own.call('POST', '/v1/services/configure', { as, body: settings }))
    const user = { workspace_id, email: `${unique('mia')}@example.com` }
    const { id } = await ok(own.call('POST', '/v1/users', { as, body: user }))
    const at = own.started.running
    for (const name of COLLECTIONS) {
      const of = name in STORES ? { _owner: id } : {}
      const documents = lines({ n: 1, ...of }, { n: 2, ...of }, { text: 'ä', deep: { n: [1.5, null] } })
      await ok(importInto(name, documents, { as: service, at }))
    }
    return id
  }

  /** What the server of MongoDB itself has of a workspace, sorted. */
  async function storedOf({ workspaceId }: Pick<TestWorkspace, 'workspaceId'>): Promise<string[]> {
    const all = await client.db('tenon').collection('documents').find({}).toArray()
    return all
      .map((document) => JSON.stringify(document))
      .filter((text) => text.includes(workspaceId))
      .sort()
  }

  /** Of each collection, as the API exports it. */
  async function contentOf({ service: as }: TestWorkspace): Promise<Record<string, string>> {
    const read = async (name: string) =>
      [name, (await own.call('GET', `/v1/collections/${name}/export`, { as })).body] as const
    return Object.fromEntries(await Promise.all(COLLECTIONS.map(read)))
  }

  test('workspace: exported, purged and imported again: every document is the same, and nothing was left in between', async () => {
    const at = own.started.running
    const workspace = await addTestWorkspace(own.workspace, at)
    const { operator: as, workspaceId } = workspace
    await fill(workspace)
    const content = await contentOf(workspace)
    expect(await storedOf(workspace)).toHaveLength(3 * IN_MONGO.length)
    const archive = await exportArchive(workspace, at)
    const deletion = await ok(own.call('DELETE', `/v1/workspaces/${workspaceId}?grace_days=0`, { as }))
    const { state, result } = await endOf(workspace, deletion.id, at)
    expect([state, result.before.mongodb_documents, result.after]).toEqual(['succeeded', 6, {}])
    expect(await storedOf(workspace)).toEqual([])
    const copy = await importArchive(workspace, archive, at)
    expect(await contentOf(copy)).toEqual(content)
    expect(copy.operation.result.counts.documents).toBe(9)
    expect(await storedOf(copy)).toHaveLength(6)
    expect(await storedOf(neighbour)).toEqual(before)
  })

  test('tenant: purged: its documents are gone, those of another tenant stay', async () => {
    const at = own.started.running
    const workspace = await createTestWorkspace(at)
    const sibling = await addTestWorkspace(workspace, at)
    for (const one of [workspace, sibling]) await fill(one)
    const { operator: as, tenantId } = workspace
    const deletion = await ok(own.call('DELETE', `/v1/tenants/${tenantId}?grace_days=0`, { as }))
    const { state, result } = await endOf(workspace, deletion.id, at)
    expect([state, result.before.mongodb_documents, result.after]).toEqual(['succeeded', 12, {}])
    expect([...(await storedOf(workspace)), ...(await storedOf(sibling))]).toEqual([])
    expect(await storedOf(neighbour)).toEqual(before)
  })

  test('user: deleted with the data: the documents of the user are gone from both stores, all others stay', async () => {
    const at = own.started.running
    const workspace = await addTestWorkspace(own.workspace, at)
    const id = await fill(workspace)
    const { operator: as } = workspace
    const counted = await ok(own.call('DELETE', `/v1/users/${id}?data=delete&dry_run=true`, { as }))
    expect(counted.documents).toEqual({ orders: 2, letters: 2 })
    const removal = await ok(own.call('DELETE', `/v1/users/${id}?data=delete`, { as }))
    expect((await endOf(workspace, removal.id, at)).state).toBe('succeeded')
    expect(await storedOf(workspace)).toHaveLength(4)
    for (const text of Object.values(await contentOf(workspace))) {
      expect(text).toContain('ä')
      expect(text).not.toContain(id)
    }
    expect(await storedOf(neighbour)).toEqual(before)
  })
})
