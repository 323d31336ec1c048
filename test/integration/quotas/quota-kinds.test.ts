/** Quotas of every kind: shown, set by operators, and never exceeded by parallel requests. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  Caller,
  expectProblem,
  expectStatus,
  get,
  list,
  type Reply,
  str,
} from '../../support/clients/rest-client.ts'
import { machine } from '../../support/fixtures/administrators.ts'
import {
  createTenantPair,
  expectIsolated,
  type Party,
  type World,
  word,
} from '../../support/fixtures/tenant-pair.ts'

const DOCUMENTS = '/v1/collections/notes/documents'

let world: World

beforeAll(async () => {
  world = await createTenantPair()
})

/** A workspace of A for one test, with limits of its own. */
async function createWorkspace(): Promise<Party> {
  const { a } = world
  const sent = { tenant_id: a.tenant, name: 'Q', slug: `q-${word()}`, bucket: null }
  const workspace = str(await a.admin.post('/v1/workspaces', sent, { prefer: 'wait=30' }), 'id')
  const made = await a.admin.post('/v1/api-keys', { workspace_id: workspace, kind: 'service', name: 'q' })
  const serviceKey = str(made, 'key')
  return { ...a, workspace, serviceKey, service: new Caller({ apikey: serviceKey }, a.transcript) }
}

const quotas = (of: Party) => world.admin.get(`/v1/quotas?workspace_id=${of.workspace}`)
const quota = async (of: Party, name: string) => get(await quotas(of), `quotas/${name}`)
const limit = (of: Party, limits: Record<string, unknown>) =>
  world.admin.put('/v1/quotas', { workspace_id: of.workspace, limits })
const many = (count: number, ask: (at: number) => Promise<Reply>) =>
  Promise.all(Array.from({ length: count }, (_, at) => ask(at)))

function expectExceeded(reply: Reply, name: string, most: number): void {
  expectProblem(reply, 429, 'quota_exceeded')
  expect(reply.body).toMatchObject({ quota: name, limit: most, used: most })
}

describe('GET /v1/quotas', () => {
  test('quota: any: limit, used and remaining', async () => {
    const reply = await quotas(await createWorkspace())
    expectStatus(reply, 200)
    const listed = Object.entries(get(reply, 'quotas') as Record<string, Record<string, unknown>>)
    expect(listed.length).toBeGreaterThanOrEqual(8)
    for (const [name, { limit: most, used, remaining }] of listed) {
      // Quotas without a limit are not counted if counting would slow down every request.
      expect(Number.isInteger(used) || (most === -1 && used === null), name).toBe(true)
      if (most === -1) expect(remaining, name).toBeNull()
      else expect(remaining, name).toBe(Math.max(0, Number(most) - Number(used)))
    }
  })

  test('quota: hosted MCP servers: one by default', async () => {
    expect(await quota(await createWorkspace(), 'mcp_servers')).toEqual({ limit: 1, used: 0, remaining: 1 })
  })
})

describe('PUT /v1/quotas', () => {
  test('quota: member absent: unchanged', async () => {
    const party = await createWorkspace()
    expectStatus(await limit(party, { documents: 7, flows: 3 }), 200)
    expectStatus(await limit(party, { documents: 8 }), 200)
    expect(await quota(party, 'documents')).toMatchObject({ limit: 8 })
    expect(await quota(party, 'flows')).toMatchObject({ limit: 3 })
  })

  test('quota: limit below current usage: nothing is deleted, nothing is accepted', async () => {
    const party = await createWorkspace()
    for (const n of [1, 2, 3]) expectStatus(await party.service.post(DOCUMENTS, { n }), 201)
    expectStatus(await limit(party, { documents: 1 }), 200)
    expect(list(await party.service.get(DOCUMENTS))).toHaveLength(3)
    expect(await quota(party, 'documents')).toEqual({ limit: 1, used: 3, remaining: 0 })
    const refused = await party.service.post(DOCUMENTS, { n: 4 })
    expectProblem(refused, 429, 'quota_exceeded')
    expect(refused.body).toMatchObject({ quota: 'documents', limit: 1, used: 3 })
    const id = str(list(await party.service.get(DOCUMENTS))[0], 'id')
    expectStatus(await party.service.put(`${DOCUMENTS}/${id}`, { n: 9 }), 200)
  })

  test('quota: set by anyone but operators: refused (policy.txt); tenant admin: reads its own', async () => {
    const admin = await machine(world, world.a, 'tenant_admin')
    const sent = { workspace_id: world.a.workspace, limits: { documents: 10 } }
    expectProblem(await admin.put('/v1/quotas', sent), 403)
    expectStatus(await admin.get(`/v1/quotas?workspace_id=${world.a.workspace}`), 200)
    expectProblem(await admin.get(`/v1/quotas?workspace_id=${world.b.workspace}`), 404, 'not_found')
  })

  test('quota: missing workspace: 404', async () => {
    const nowhere = { ...world.a, workspace: `${world.a.workspace.slice(0, -5)}zzzzz` }
    expectProblem(await limit(nowhere, { documents: 1 }), 404, 'not_found')
    expectProblem(await quotas(nowhere), 404, 'not_found')
  })
})

describe('200 parallel requests never exceed a quota', () => {
  test('quota: API keys: never exceeded', async () => {
    const party = await createWorkspace()
    await limit(party, { api_keys: 4 })
    const body = { workspace_id: party.workspace, kind: 'anon', name: 'n' }
    const replies = await many(60, () => world.admin.post('/v1/api-keys', body))
    expect(replies.filter(({ status }) => status === 201)).toHaveLength(3)
    for (const reply of replies) if (reply.status !== 201) expectExceeded(reply, 'api_keys', 4)
    const made = str(
      replies.find(({ status }) => status === 201),
      'id',
    )
    expectStatus(await world.admin.delete(`/v1/api-keys/${made}`), 200)
    expectStatus(await world.admin.post('/v1/api-keys', body), 201)
  })

  test('quota: collections: never exceeded', async () => {
    const party = await createWorkspace()
    await limit(party, { collections: 2 })
    const replies = await many(12, (at) => {
      const body = { workspace_id: party.workspace, collection: `c${at}`, store: 'document', schema: {} }
      return world.admin.post('/v1/schemas', body)
    })
    expect(replies.filter(({ status }) => status < 300)).toHaveLength(2)
    for (const reply of replies) if (reply.status >= 300) expectExceeded(reply, 'collections', 2)
  })

  test('quota: MCP servers: never exceeded', async () => {
    const party = await createWorkspace()
    const path = `/v1/mcp/workspaces/${party.workspace}/servers`
    const replies = await many(10, (at) => world.admin.post(path, { name: `S${at}`, slug: `s${at}` }))
    expect(replies.filter(({ status }) => status === 201)).toHaveLength(1)
    for (const reply of replies) if (reply.status !== 201) expectExceeded(reply, 'mcp_servers', 1)
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
