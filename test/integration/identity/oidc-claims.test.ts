/** Tokens of external issuers: claims are mapped by configuration and grant no more than it says. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { call, createTestWorkspace, type TestWorkspace, tokenOf } from '../../support/fixtures/tenants.ts'
import { AUDIENCE, PeerIssuer, type Realm } from '../../support/servers/peer-issuer.ts'
import {
  type ApiWithIssuers,
  DOCUMENTS,
  expectRefused,
  startApiWithIssuers,
} from '../../support/stack/api-with-issuers.ts'

let peer: PeerIssuer
let company: Realm
let tenants: Realm
let cloud: Realm
let odd: Realm
let workspace: TestWorkspace
let other: TestWorkspace
let node: ApiWithIssuers
beforeAll(async () => {
  ;[peer, workspace, other] = await Promise.all([
    PeerIssuer.open(),
    createTestWorkspace(),
    createTestWorkspace(),
  ])
  ;[company, tenants, cloud, odd] = await Promise.all([
    peer.realm('company'),
    peer.realm('of-a-tenant', 'ES256'),
    peer.realm('cloud', 'EdDSA'),
    peer.realm('odd'),
  ])
  node = await startApiWithIssuers([
    {
      issuer: company.issuer,
      audience: ['https://elsewhere.test', AUDIENCE],
      tenants: '*',
      claims: { roles: 'resource_access.tenon.roles' },
      roles: { root: 'operator', boss: 'tenant_admin', lead: 'workspace_admin', app: 'service' },
    },
    { issuer: tenants.issuer, audience: AUDIENCE, tenants: [workspace.tenantId] },
    {
      issuer: odd.issuer,
      audience: AUDIENCE,
      tenants: '*',
      claims: { tenant: 'constructor.name', workspace: 'toString', roles: '__proto__.constructor.name' },
    },
    {
      issuer: cloud.issuer,
      audience: AUDIENCE,
      jwks_uri: `${cloud.issuer}/jwks`,
      algorithms: ['EdDSA'],
      typ: 'JWT',
      tenants: '*',
      claims: {
        tenant: ['https://tenon.test/tenant'],
        workspace: ['https://tenon.test/place', 'workspace'],
        roles: 'groups',
        scope: 'scp',
      },
    },
  ])
})
afterAll(async () => {
  await node?.close()
  await peer?.close()
})

const ownClaims = () => ({ tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId })
const withRoles = (...roles: string[]) => ({ resource_access: { tenon: { roles } } })
const me = async (as: Record<string, string>) => {
  const { status, body } = await node.ask(as, '/v1/me')
  expect(status).toBe(200)
  return body
}

test('external token: each mapped role: opens its routes only', async () => {
  const status = async (roles: string[], path: string) =>
    (await node.ask(await company.token({ ...ownClaims(), ...withRoles(...roles) }), path)).status
  expect(await status(['app'], DOCUMENTS)).toBe(200)
  expect(await status(['app'], '/v1/tenants')).toBe(403)
  expect(await status(['boss'], `/v1/tenants/${workspace.tenantId}`)).toBe(200)
  expect(await status(['boss'], `/v1/tenants/${other.tenantId}`)).toBe(404)
  expect(await status(['lead'], `/v1/workspaces/${workspace.workspaceId}`)).toBe(200)
  expect(await status(['lead'], `/v1/workspaces/${other.workspaceId}`)).toBe(404)
  // The names of our roles are not mapped, nor are names of object prototypes.
  for (const role of ['operator', 'tenant_admin', 'service', 'constructor', '__proto__', 'ROOT', 'root '])
    expect([role, (await me(await company.token({ ...ownClaims(), ...withRoles(role) }))).roles]).toEqual([
      role,
      ['anon'],
    ])
})

test('external token: operator role: only from an issuer configured to have one', async () => {
  const as = await company.token(withRoles('root'))
  expect((await me(as)).roles).toEqual(['operator'])
  expect((await node.ask(as, '/v1/tenants')).status).toBe(200)
  expect((await node.ask(as, `/v1/tenants/${other.tenantId}`)).status).toBe(200)
})

test('external token: no role map: our role names, except operator', async () => {
  const roles = ['operator', 'tenant_admin', 'service', 'offline_access']
  const as = await tenants.token({ ...ownClaims(), realm_access: { roles } })
  expect((await me(as)).roles).toEqual(['tenant_admin', 'service'])
  expect((await node.ask(as, `/v1/tenants/${workspace.tenantId}`)).status).toBe(200)
  expect((await node.ask(as, `/v1/tenants/${other.tenantId}`)).status).toBe(404)
  const bare = await tenants.token({ realm_access: { roles: ['operator'] } })
  expect((await me(bare)).roles).toEqual([])
  expect((await node.ask(bare, '/v1/tenants')).status).toBe(403)
})

test('external token: tenant of another issuer: refused in any role', async () => {
  for (const role of ['operator', 'tenant_admin', 'workspace_admin', 'service'])
    for (const claims of [
      { tenant_id: other.tenantId },
      { tenant_id: other.tenantId, workspace_id: other.workspaceId },
      { tenant_id: other.tenantId, workspace_id: workspace.workspaceId },
      { workspace_id: workspace.workspaceId },
    ])
      await expectRefused(node, await tenants.token({ ...claims, realm_access: { roles: [role] } }))
  // A workspace of another tenant under the own tenant: the combination is checked, as with any token.
  const mixed = {
    tenant_id: workspace.tenantId,
    workspace_id: other.workspaceId,
    realm_access: { roles: ['service'] },
  }
  expect((await node.ask(await tenants.token(mixed))).body.code).toBe('token_invalid')
  const companyToken = await company.token({
    ...withRoles('app'),
    tenant_id: other.tenantId,
    workspace_id: other.workspaceId,
  })
  expect((await node.ask(companyToken)).status).toBe(200)
})

test('external token: dotted claim names, scopes, space-separated text: mapped', async () => {
  const claims = {
    'https://tenon.test/tenant': workspace.tenantId,
    'https://tenon.test/place': { workspace: workspace.workspaceId },
    groups: 'staff service',
    scp: ['openid', 'collections:read'],
  }
  const as = await cloud.token(claims, { head: { typ: 'JWT' } })
  expect(await me(as)).toEqual({
    subject: `${cloud.issuer}#ada`,
    kind: 'token',
    roles: ['service'],
    domains: ['data_access'],
    tenant_id: workspace.tenantId,
    workspace_id: workspace.workspaceId,
    key: null,
    user: null,
    sees_payloads: false,
    scopes: ['collections:read'],
    bucket: null,
    s3_endpoint: null,
  })
  expect((await node.ask(as)).status).toBe(200)
  const write = await call('POST', DOCUMENTS, { as, at: node.at, body: { n: 1 } })
  expect([write.status, write.body.code]).toEqual([403, 'insufficient_scope'])
})

test('external token: claim name of the object prototype: no claim', async () => {
  const { roles, tenant_id, workspace_id } = await me(await odd.token({}))
  expect([roles, tenant_id, workspace_id]).toEqual([[], null, null])
})

test('subjects: same subject of two issuers, or of ours: distinct', async () => {
  const claims = { ...ownClaims(), sub: 'tenon-operator' }
  const [one, two] = await Promise.all([company.token(claims), tenants.token(claims)])
  expect((await me(one)).subject).toBe(`${company.issuer}#tenon-operator`)
  expect((await me(two)).subject).toBe(`${tenants.issuer}#tenon-operator`)
  const made = async (as: Record<string, string>) => {
    const headers = { 'idempotency-key': 'once' }
    return call('POST', DOCUMENTS, { as, at: node.at, headers, body: { n: 1 } })
  }
  const serving = { ...claims, realm_access: { roles: ['service'] }, ...withRoles('app') }
  const first = await made(await company.token(serving))
  const second = await made(await tenants.token(serving))
  expect([first.status, second.status]).toEqual([201, 201])
  expect(second.body.id).not.toBe(first.body.id)
})

test('internal token: external issuers configured: accepted as before, ends with its account', async () => {
  expect((await me(await tokenOf({ ...ownClaims(), roles: ['service'] }))).subject).toBe('user-1')
  await node.ask(workspace.operator, '/v1/me')
  const deletedAccount = await tokenOf({
    ...ownClaims(),
    sub: 'acct_01h455vb4pex5vsknk084sn02q',
    roles: ['service'],
  })
  expect((await node.ask(deletedAccount)).body.code).toBe('token_invalid')
})
