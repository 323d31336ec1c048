/** The audit log keeps no reads, keeps each denial with its tenant, and takes no changes. */

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
} from '../../support/fixtures/tenant-pair.ts'

const AUDIT = '/v1/audit'
const DOCUMENTS = '/v1/collections/notes/documents'

type Entry = Record<string, unknown>

let world: World

beforeAll(async () => {
  world = await createTenantPair()
})

const of = (party: Party, query = '') => world.admin.get(`${AUDIT}?tenant_id=${party.tenant}${query}`)

/** Entries of a request, which may follow shortly after its reply. */
async function entriesOf(reply: Reply, party = world.a): Promise<Entry[]> {
  const id = reply.headers.get('x-request-id')
  const found = async () => {
    const listed = await of(party, '&page[size]=200')
    expectStatus(listed, 200)
    return (list(listed) as Entry[]).filter((entry) => entry['request_id'] === id)
  }
  await expect.poll(async () => (await found()).length).toBeGreaterThan(0)
  return found()
}

/** Every entry of a tenant, oldest first. */
async function allEntries(party: Party): Promise<Entry[]> {
  const all: Entry[] = []
  for (let after = ''; ; ) {
    const page = await of(party, `&page[size]=200${after}`)
    expectStatus(page, 200)
    all.push(...(list(page) as Entry[]))
    if (get(page, 'page/next') === null) return all.reverse()
    after = `&page[after]=${encodeURIComponent(str(page, 'page/next'))}`
  }
}

test('audit entry: successful read: none', async () => {
  const read = await world.a.service.get(DOCUMENTS)
  const write = await world.a.service.post(DOCUMENTS, { mark: world.a.mark })
  await entriesOf(write)
  const all = await allEntries(world.a)
  expect(all.some((entry) => entry['request_id'] === read.headers.get('x-request-id'))).toBe(false)
})

describe('denials', () => {
  test('denial: revoked key: recorded for its tenant', async () => {
    const { a } = world
    const made = await a.admin.post('/v1/api-keys', { workspace_id: a.workspace, kind: 'service', name: 'r' })
    await a.admin.delete(`/v1/api-keys/${str(made, 'id')}`)
    const refused = await new Caller({ apikey: str(made, 'key') }).get(DOCUMENTS)
    expectProblem(refused, 401, 'api_key_revoked')
    expect(await entriesOf(refused)).toMatchObject([
      {
        ...{ workspace_id: a.workspace, outcome: 'denied', code: 'api_key_revoked' },
        actor: { kind: 'api_key', subject: str(made, 'id'), role: null },
      },
    ])
  })

  test("denial: write into another tenant: recorded for the caller's tenant, not for the other", async () => {
    const otherAdmin = await machine(world, world.b, 'tenant_admin')
    const made = await world.a.admin.post('/v1/api-keys', {
      workspace_id: world.a.workspace,
      kind: 'anon',
      name: 'x',
    })
    const refused = await otherAdmin.delete(`/v1/api-keys/${str(made, 'id')}`)
    expectProblem(refused, 404)
    const [entry] = await entriesOf(refused, world.b)
    expect(entry).toMatchObject({ tenant_id: world.b.tenant, status: 404 })
    const entriesOfA = await allEntries(world.a)
    expect(entriesOfA.some((one) => one['request_id'] === refused.headers.get('x-request-id'))).toBe(false)
  })
})

describe('readers', () => {
  test.each(['POST', 'PUT', 'PATCH', 'DELETE'])('audit log: %s: 405, append-only', async (method) => {
    const reply = await world.admin.send(method, AUDIT, method === 'DELETE' ? {} : { json: {} })
    expectProblem(reply, 405, 'method_not_allowed')
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
