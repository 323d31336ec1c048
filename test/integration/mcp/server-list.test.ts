/** The list of hosted servers, as an admin of a tenant reads it: owner, last call and exposure. */

import { beforeAll, expect, test } from 'vitest'
import {
  callsOf,
  callTool,
  NOTES,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  rpc,
  scopesOf,
  serversOf,
  tokenFor,
} from '../../support/clients/mcp.ts'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'

const ADMIN = 'admin-of-all'
const UNUSED = { reads: 0, adds: 0, changes: 0, open_world: 0, clients: 0 }

let workspaces: readonly TestWorkspace[]
let admin: Caller
let ours: PublishedMcpServer

beforeAll(async () => {
  const first = await createTestWorkspace()
  const made = [first, await addTestWorkspace(first), await addTestWorkspace(first)]
  admin = await tokenOf({ sub: ADMIN, roles: ['tenant_admin'], tenant_id: first.tenantId })
  workspaces = made.map((workspace) => ({ ...workspace, operator: admin }))
  const [one, two, three] = workspaces as [TestWorkspace, TestWorkspace, TestWorkspace]
  const source = 'export default () => 1'
  const deployed = { workspace_id: one.workspaceId, name: 'reach', source }
  await ok(call('POST', '/v1/functions', { as: one.operator, body: deployed }))
  ours = await publishMcpServer(one, 'busy', { ...NOTES, 'functions:reach:invoke': { enabled: true } })
  await publishMcpServer(two, 'quiet', { 'collections:notes:get': { enabled: true } })
  await ok(call('POST', serversOf(three), { as: three.operator, body: { name: 'Draft', slug: 'draft' } }))
})

const listed = async (as: Caller, workspaceId: string) =>
  call('GET', `/v1/mcp/workspaces/${workspaceId}/servers`, { as })

/** All servers of all workspaces that a caller may list. */
async function serversOfTenant(as: Caller) {
  const { data } = await ok(call('GET', '/v1/workspaces?page[size]=200', { as }))
  const lists = await Promise.all(data.map(({ id }: { id: string }) => ok(listed(as, id))))
  return lists.flatMap((list) => list.data) as Record<string, unknown>[]
}

const busy = async () => (await ok(call('GET', ours.base, { as: admin }))) as Record<string, unknown>

test('an admin of the tenant sees owner, last call and exposure of every server of all its workspaces, and no others (T44)', async () => {
  const servers = (await serversOfTenant(admin)).map(({ slug, created_by, last_call_at, exposure }) => ({
    ...{ slug, created_by, last_call_at, exposure },
  }))
  expect(servers.sort((a, b) => String(a.slug).localeCompare(String(b.slug)))).toEqual([
    {
      ...{ slug: 'busy', created_by: ADMIN, last_call_at: null },
      exposure: { reads: 2, adds: 1, changes: 3, open_world: 1, clients: 0 },
    },
    { slug: 'draft', created_by: ADMIN, last_call_at: null, exposure: UNUSED },
    { slug: 'quiet', created_by: ADMIN, last_call_at: null, exposure: { ...UNUSED, reads: 1 } },
  ])
  const other = await createTestWorkspace()
  const stranger = await tokenOf({ sub: ADMIN, roles: ['tenant_admin'], tenant_id: other.tenantId })
  expect(await serversOfTenant(stranger)).toEqual([])
  for (const { workspaceId } of workspaces) expect((await listed(stranger, workspaceId)).status).toBe(404)
})

test('last call: that of the newest entry of the log, a refused one too; of this server alone', async () => {
  const reader = await tokenFor(ours, scopesOf(ours, 'notes_list'))
  await callTool(ours.path, reader, 'notes_list')
  const [called] = await callsOf(ours)
  expect((await busy())['last_call_at']).toBe(called?.['time'])
  await rpc(ours.path, {}, 'tools/list')
  const [denied] = await callsOf(ours)
  expect([denied?.['outcome'], (await busy())['last_call_at']]).toEqual(['denied', denied?.['time']])
  expect(denied?.['time']).not.toBe(called?.['time'])
  const others = (await serversOfTenant(admin)).filter(({ slug }) => slug !== 'busy')
  expect(others.map(({ last_call_at }) => last_call_at)).toEqual([null, null])
})

test('exposure: of the active version, not of the draft or of a version that waits; clients as they come and go', async () => {
  const before = (await busy())['exposure'] as object
  const tools = { 'collections:notes:get': { enabled: true } }
  const curated = await ok(call('PUT', `${ours.base}/curation`, { as: admin, body: { tools } }))
  expect(curated.exposure).toEqual(before)
  const { state } = await ok(call('POST', `${ours.base}/publish`, { as: admin, body: {} }))
  expect([state, (await busy())['exposure']]).toEqual(['needs_approval', before])
  const client = await ok(call('POST', `${ours.base}/clients`, { as: admin, body: { name: 'a' } }))
  expect((await busy())['exposure']).toEqual({ ...before, clients: 1 })
  await ok(call('POST', `${ours.base}/versions/2/approve`, { as: admin, body: {} }))
  const renamed = await ok(call('PATCH', ours.base, { as: admin, body: { description: 'Less' } }))
  expect(renamed.exposure).toEqual({ ...UNUSED, reads: 1, clients: 1 })
  await ok(call('DELETE', `${ours.base}/clients/${client.client_id}`, { as: admin }))
  expect((await busy())['exposure']).toEqual({ ...UNUSED, reads: 1 })
})
