/** Roles below those of admins: what viewers and developers reach and change, of one workspace or of a whole tenant. */

import { expect, test } from 'vitest'
import { servicesOf } from '../../src/access/internals.ts'
import { inRole, inWorkspace } from '../../src/access/openers.ts'
import { AdminScope } from '../../src/access/scope.ts'
import { randomIds } from '../../src/core/ids.ts'
import type { TenantId } from '../../src/core/tenant.ts'
import { sql } from '../../src/infra/postgres/sql.ts'
import {
  addAccount,
  addAccountByInvitation,
  addClient,
  bearer,
  tokensOf,
} from '../support/clients/browser.ts'
import { createMcpWorkspace, ok, publishMcpServer } from '../support/clients/mcp.ts'
import { type Machine, post, tokenFor } from '../support/fixtures/admins.ts'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  tokenOf,
} from '../support/fixtures/tenants.ts'
import { openInProcessPlatform, scopeOf } from '../support/stack/in-process-platform.ts'

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

test('statements of a viewer: the database refuses each change, which an admin may make', async () => {
  const workspace = await createTestWorkspace()
  await post(workspace.operator, `${workspace.flows}/definitions`, { name: 'notes', source: SOURCE })
  const platform = openInProcessPlatform()
  try {
    const change = sql`update flows set name = 'other' where name = 'notes' returning name`
    const viewer = scopeOf(platform, workspace, 'viewer')
    expect(await viewer.rows(sql`select name from flows`)).toEqual([{ name: 'notes' }])
    await expect(viewer.rows(change)).rejects.toMatchObject({ code: '25006' })
    for (const raised of [
      inRole(viewer, 'workspace_admin'),
      inRole(inRole(viewer, 'workspace_admin'), 'service'),
    ])
      await expect(raised.rows(change)).rejects.toMatchObject({ code: '25006' })
    const bounds = { tenantId: workspace.tenantId as TenantId }
    const actor = { subject: 'vera', role: 'viewer' } as const
    const admin = AdminScope.open(actor, bounds, servicesOf(platform.access), randomIds)
    const within = inWorkspace(admin, viewer.ref, 'workspace_admin')
    await expect(within.rows(change)).rejects.toMatchObject({ code: '25006' })
    expect(await scopeOf(platform, workspace).rows(change)).toEqual([{ name: 'other' }])
  } finally {
    await platform.close()
  }
})

test('right to see payloads: granted by another admin of the tenant, once the person has a password, and until a new link', async () => {
  const { operator, tenantId: tenant_id, workspaceId: workspace_id } = await createTestWorkspace()
  const person = await addAccount(operator, { role: 'developer', workspace_id })
  const clientId = await addClient(operator)
  const signIn = async () => bearer((await tokensOf(clientId, person, { scope: 'api' })).body['access_token'])
  const sees = async (as: Caller) => {
    const { status, body } = await call('GET', '/v1/me', { as })
    return status === 200 ? body.sees_payloads : status
  }
  const grant = (as: Caller, id: string, sees_payloads = true) =>
    call('PATCH', `/v1/accounts/${id}`, { as, body: { sees_payloads } })
  const place = { tenant_id, workspace_id }
  const own = await tokenOf({ sub: person.id, roles: ['tenant_admin'], tenant_id })
  const below = await tokenOf({ roles: ['workspace_admin'], ...place })
  for (const as of [own, below]) expect((await grant(as, person.id)).body.code).toBe('forbidden')
  const invited = await post(operator, '/v1/accounts', {
    role: 'viewer',
    email: 'vi@example.test',
    workspace_id,
  })
  expect((await grant(operator, invited.id)).body.code).toBe('state_conflict')

  expect(await sees(await signIn())).toBe(false)
  const admin = await tokenOf({ sub: 'ann', roles: ['tenant_admin'], tenant_id })
  expect((await grant(admin, person.id)).body.sees_payloads).toBe(true)
  const granted = await signIn()
  expect(await sees(granted)).toBe(true)
  await grant(admin, person.id, false)
  await eventually(async () => ((await sees(granted)) === 401 ? true : undefined))
  await grant(admin, person.id)
  expect((await post(admin, `/v1/accounts/${person.id}/reset`)).sees_payloads).toBe(false)
})

test('credentials that see payloads: made, changed and rotated only by those who see them', async () => {
  const { operator, tenantId: tenant_id, workspaceId: workspace_id } = await createTestWorkspace()
  const admin = await tokenOf({ sub: 'ann', roles: ['tenant_admin'], tenant_id })
  const reader = await tokenOf({ sub: 'rita', roles: ['tenant_admin', 'payload_reader'], tenant_id })
  const key = { workspace_id, kind: 'service', name: 'k', scopes: ['flows:read', 'payloads:read'] }
  const machine = { workspace_id, kind: 'machine', name: 'm', role: 'viewer', sees_payloads: true }
  for (const [path, body] of [
    ['/v1/api-keys', key],
    ['/v1/oauth-clients', machine],
  ] as const)
    expect((await call('POST', path, { as: admin, body })).body.code).toBe('forbidden')
  const made = await post(reader, '/v1/api-keys', key)
  const client = (await post(reader, '/v1/oauth-clients', machine)) as Machine
  for (const path of [
    `/v1/api-keys/${made.id}/rotate`,
    `/v1/oauth-clients/${client.client_id}/rotate-secret`,
  ])
    expect((await call('POST', path, { as: admin, body: {} })).body.code).toBe('forbidden')
  // What was refused has changed nothing: the secret still is the secret.
  await tokenFor(client)
  const plain = await post(operator, '/v1/api-keys', { ...key, scopes: ['flows:read'] })
  const widened = await call('PATCH', `/v1/api-keys/${plain.id}`, { as: admin, body: { scopes: key.scopes } })
  expect(widened.body.code).toBe('forbidden')
})

test('what anon keys and users may do: a developer declares it as it was or narrower, and only an admin wider', async () => {
  const { operator, tenantId, workspaceId: workspace_id } = await createTestWorkspace()
  const developer = await tokenOf({ sub: 'dora', roles: ['developer'], tenant_id: tenantId, workspace_id })
  const refused = async (method: string, path: string, body: object) => {
    const reply = await call(method, path, { as: developer, body })
    expect([path, reply.status, reply.body.code]).toEqual([path, 403, 'forbidden'])
    return reply.body.detail as string
  }
  const declaration = (collection: string, access?: object) => ({
    ...{ workspace_id, collection, store: 'document', ...(access && { access }) },
    schema: { type: 'object', properties: { owner: { type: 'string' }, team: { type: 'string' } } },
  })
  const rule = { owner: '$user.id' }
  const access = { user: { read: true, update: rule } }
  expect(await refused('POST', '/v1/schemas', declaration('wide', access))).toContain(
    'user.read, user.update',
  )
  const { id } = await post(operator, '/v1/schemas', declaration('wide', access))
  const path = `/v1/schemas/${id}`
  for (const wider of [
    {},
    { ...access, anon: { read: true } },
    { user: { ...access.user, update: true } },
    { user: { ...access.user, update: { team: '$user.claims.team' } } },
    { user: { ...access.user, create: true } },
  ])
    await refused('PUT', path, { access: wider })
  for (const same of [access, { user: { read: true } }, { user: { read: rule } }])
    await ok(call('PUT', path, { as: developer, body: { access: same } }))
  await post(developer, '/v1/schemas', declaration('closed', { user: { read: false } }))

  const source = 'export const config = { anon: true }\nexport default () => 1'
  const deployment = { workspace_id, name: 'open', source: 'export default () => 1' }
  await refused('POST', '/v1/functions', { ...deployment, source })
  await refused('POST', '/v1/functions', { ...deployment, config: { user: true } })
  const deployed = await post(developer, '/v1/functions', deployment)
  const config = `/v1/functions/${deployed.id}/config`
  await refused('PUT', config, { anon: true })
  await ok(call('PUT', config, { as: operator, body: { anon: true } }))
  await ok(call('PUT', config, { as: developer, body: { anon: true, timeout: '5s' } }))
  await ok(call('PUT', config, { as: developer, body: { anon: false } }))
})

test('right to see payloads: not granted by the admin who was shown the link of the account', async () => {
  const { tenantId: tenant_id, workspaceId: workspace_id } = await createTestWorkspace()
  const admin = (sub: string) => tokenOf({ sub, roles: ['tenant_admin'], tenant_id })
  const [ann, bob] = [await admin('ann'), await admin('bob')]
  const puppet = await addAccountByInvitation(ann, { role: 'developer', workspace_id })
  const grant = (as: Caller) =>
    call('PATCH', `/v1/accounts/${puppet.id}`, { as, body: { sees_payloads: true } })
  const refused = await grant(ann)
  expect([refused.status, refused.body.code]).toEqual([403, 'forbidden'])
  expect((await grant(bob)).body.sees_payloads).toBe(true)
})

test('MCP server with tools on data: a developer publishes it for approval, an admin at once', async () => {
  const workspace = await createMcpWorkspace()
  const { operator, tenantId: tenant_id, workspaceId: workspace_id } = workspace
  const developer = await tokenOf({ sub: 'dora', roles: ['developer'], tenant_id, workspace_id })
  const { base } = await publishMcpServer(workspace, 'tools', { 'collections:notes:list': { enabled: true } })
  const published = async (as: Caller, verb: string) => {
    const tools = { [`collections:notes:${verb}`]: { enabled: true } }
    await ok(call('PUT', `${base}/curation`, { as, body: { tools } }))
    return ok(call('POST', `${base}/publish`, { as, body: { accept: ['breaking'] } }))
  }
  const { version, state } = await published(developer, 'list')
  expect(state).toBe('needs_approval')
  const activated = await call('POST', `${base}/versions/${version}/activate`, { as: developer, body: {} })
  expect([activated.status, activated.body.code]).toEqual([409, 'state_conflict'])
  const approved = await post(operator, `${base}/versions/${version}/approve`)
  expect(approved).toMatchObject({ active: true, state: 'published' })
  expect((await published(operator, 'list')).state).toBe('active')
})
