/** Roles below those of admins: what viewers and developers reach and change, of one workspace or of a whole tenant. */

import { expect, test } from 'vitest'
import { type Machine, post, tokenFor } from '../support/fixtures/admins.ts'
import { addTestWorkspace, type Caller, call, createTestWorkspace } from '../support/fixtures/tenants.ts'

const SOURCE = `document: { dsl: '1.0.3', namespace: n, name: notes, version: '1.0.0' }
do: [{ keep: { set: { kept: true } } }]`

/** A caller with a role that the API has assigned. */
const holder = async (as: Caller, role: string, place: object): Promise<Caller> =>
  tokenFor((await post(as, '/v1/oauth-clients', { kind: 'machine', name: role, role, ...place })) as Machine)

test('viewer of a workspace: reads its definitions, changes nothing, and sees no other workspace', async () => {
  const workspace = await createTestWorkspace()
  const sibling = await addTestWorkspace(workspace)
  for (const { flows } of [workspace, sibling])
    await post(workspace.operator, `${flows}/definitions`, { name: 'notes', source: SOURCE })
  const viewer = await holder(workspace.operator, 'viewer', { workspace_id: workspace.workspaceId })

  const read = await call('GET', `${workspace.flows}/definitions/notes`, { as: viewer })
  expect([read.status, read.body.source]).toEqual([200, SOURCE])
  const changed = await call('POST', `${workspace.flows}/definitions`, {
    as: viewer,
    body: { source: SOURCE },
  })
  expect([changed.status, changed.body.code]).toEqual([403, 'forbidden'])
  const other = await call('GET', `${sibling.flows}/definitions/notes`, { as: viewer })
  expect([other.status, other.body.code]).toEqual([404, 'not_found'])
})

test('developer of a tenant: deploys in each of its workspaces, and manages no people, keys or removal', async () => {
  const workspace = await createTestWorkspace()
  const sibling = await addTestWorkspace(workspace)
  const developer = await holder(workspace.operator, 'developer', { tenant_id: workspace.tenantId })

  for (const { flows, workspaceId } of [workspace, sibling]) {
    await post(developer, `${flows}/definitions`, { name: 'notes', source: SOURCE })
    expect((await post(developer, `${flows}/definitions/notes/versions`)).version).toBe(1)
    const schema = {
      workspace_id: workspaceId,
      collection: 'notes',
      store: 'document',
      schema: { type: 'object' },
    }
    expect((await post(developer, '/v1/schemas', schema)).collection).toBe('notes')
  }
  const place = { workspace_id: workspace.workspaceId }
  const email = 'eve@example.test'
  for (const [method, path, body] of [
    ['POST', '/v1/accounts', { role: 'viewer', email, ...place }],
    ['POST', '/v1/api-keys', { kind: 'service', name: 'k', ...place }],
    ['POST', '/v1/users', { email, ...place }],
    ['PUT', '/v1/quotas', { limits: { flows: 1 }, ...place }],
    ['POST', '/v1/services/configure', { anon: { collections: 'read' }, ...place }],
    ['DELETE', `${workspace.flows}/definitions/notes`, undefined],
    ['DELETE', `/v1/workspaces/${workspace.workspaceId}`, undefined],
  ] as const) {
    const { status, body: problem } = await call(method, path, { as: developer, body })
    expect([path, status, problem.code]).toEqual([path, 403, 'forbidden'])
  }
})
