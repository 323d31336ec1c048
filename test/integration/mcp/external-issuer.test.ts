/** Hosted servers whose tokens are those of an external issuer. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import {
  askToken,
  callsOf,
  createMcpWorkspace,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  RPC,
  scopesOf,
  tokenFor,
} from '../../support/clients/mcp.ts'
import { type Caller, call, type Reply, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { AUDIENCE, type Overrides, PeerIssuer, type Realm } from '../../support/servers/peer-issuer.ts'
import { type ApiWithIssuers, startApiWithIssuers } from '../../support/stack/api-with-issuers.ts'

let peer: PeerIssuer
let shared: Realm
let own: Realm
let elsewhere: Realm
let node: ApiWithIssuers
let a: TestWorkspace
let b: TestWorkspace
let server: PublishedMcpServer
let ofB: PublishedMcpServer
beforeAll(async () => {
  ;[peer, a, b] = await Promise.all([PeerIssuer.open(), createMcpWorkspace(), createMcpWorkspace()])
  ;[shared, own, elsewhere] = await Promise.all([
    peer.realm('shared'),
    peer.realm('own'),
    peer.realm('elsewhere'),
  ])
  node = await startApiWithIssuers([
    { issuer: shared.issuer, audience: AUDIENCE, tenants: '*' },
    { issuer: own.issuer, audience: AUDIENCE, tenants: [a.tenantId] },
    { issuer: elsewhere.issuer, audience: AUDIENCE, tenants: [b.tenantId] },
  ])
  server = await publishWith(a, 'ext', shared)
  ofB = await publishWith(b, 'ext', shared)
})
afterAll(async () => {
  await node?.close()
  await peer?.close()
})

const at = () => ({ at: node.at })

const configure = ({ base, workspace }: PublishedMcpServer, issuer: string | null): Promise<Reply> =>
  call('PATCH', base, { as: workspace.operator, body: { authorization_server: issuer }, ...at() })

async function publishWith(
  workspace: TestWorkspace,
  slug: string,
  { issuer }: Realm,
): Promise<PublishedMcpServer> {
  const published = await publishMcpServer(workspace, slug)
  await ok(configure(published, issuer))
  return published
}

const claimsFor = ({ workspace }: PublishedMcpServer, more: object = {}) => ({
  tenant_id: workspace.tenantId,
  workspace_id: workspace.workspaceId,
  azp: 'agent-app',
  scope: `openid ${scopesOf(server, 'notes_list')} mcp:other:notes_get`,
  ...more,
})
const tokenOf = (
  to: PublishedMcpServer,
  more: object = {},
  { realm = shared, ...overrides }: Overrides & { realm?: Realm } = {},
) => realm.token(claimsFor(to, more), { audience: to.url, ...overrides })

const send = (to: PublishedMcpServer, as: Caller, method: string, params: unknown = {}): Promise<Reply> =>
  call('POST', to.path, { as, body: { jsonrpc: '2.0', id: 1, method, params }, headers: RPC, ...at() })
const list = async (to: PublishedMcpServer, as: Caller): Promise<string[]> => {
  const { body } = await send(to, as, 'tools/list')
  return body.result.tools.map(({ name }: { name: string }) => name)
}

test('metadata and challenge: name the issuer of the server', async () => {
  const document = await ok(call('GET', `/.well-known/oauth-protected-resource${server.path}`, at()))
  expect(document).toMatchObject({
    resource: server.url,
    authorization_servers: [shared.issuer],
    scopes_supported: [scopesOf(server, 'notes_get'), scopesOf(server, 'notes_list')],
  })
  const { status, headers } = await send(server, {}, 'tools/list')
  expect([status, headers.get('www-authenticate')]).toEqual([
    401,
    expect.stringContaining('resource_metadata='),
  ])
})

test('token for this server alone: calls what its scopes allow; its subject and client name the issuer', async () => {
  for (const audience of [server.url, [server.url]]) {
    const as = await tokenOf(server, { sub: 'agent-app' }, { audience })
    expect(await list(server, as)).toEqual(['notes_list'])
  }
  const as = await tokenOf(server, { sub: 'ada', jti: 'one' })
  const called = await send(server, as, 'tools/call', { name: 'notes_list', arguments: {} })
  expect(called.body.result.structuredContent.data).toMatchObject([{ text: 'hello' }])
  const refused = await send(server, as, 'tools/call', { name: 'notes_delete', arguments: { id: 'x' } })
  expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([
    403,
    expect.stringContaining(`scope="${scopesOf(server, 'notes_delete')}"`),
  ])
  expect(await callsOf(server, '&tool=notes_list')).toMatchObject([
    { principal: `${shared.issuer}#ada`, client_id: `${shared.issuer}#agent-app`, outcome: 'ok' },
  ])
})

test('person: shown all tools; a service account of Keycloak: those that its token allows', async () => {
  expect((await list(server, await tokenOf(server))).length).toBe(5)
  const machine = await tokenOf(server, { clientAddress: '127.0.0.1' })
  expect(await list(server, machine)).toEqual(['notes_list'])
})

test('scope that stands for many at the embedded issuer: reaches no tool', async () => {
  const as = await tokenOf(server, { scope: `mcp:${server.slug}/read`, clientAddress: '127.0.0.1' })
  expect(await list(server, as)).toEqual([])
})

test('person of the whole tenant: admitted in each of its workspaces', async () => {
  expect((await send(server, await tokenOf(server, { workspace_id: undefined }), 'ping')).status).toBe(200)
})

describe('token', () => {
  const wrong: Record<string, () => Promise<Caller>> = {
    'of another tenant, from the issuer that both share': () => tokenOf(ofB, {}, { audience: server.url }),
    'of another tenant as a whole': () => tokenOf(ofB, { workspace_id: undefined }, { audience: server.url }),
    'of another tenant with this workspace': () => tokenOf(server, { tenant_id: b.tenantId }),
    'of no tenant': () => tokenOf(server, { tenant_id: undefined, workspace_id: undefined }),
    'of another workspace': () => tokenOf(server, { workspace_id: b.workspaceId }),
    'with two tenants': () => tokenOf(server, { tenant_id: [a.tenantId, b.tenantId] }),
    'for the server of another tenant': () => tokenOf(server, {}, { audience: ofB.url }),
    'for this and another resource': () => tokenOf(server, {}, { audience: [server.url, AUDIENCE] }),
    'for the REST API': () => tokenOf(server, {}, { audience: AUDIENCE }),
    'for another spelling': () => tokenOf(server, {}, { audience: `${server.url}/` }),
    'for the id instead of the slug': () =>
      tokenOf(server, {}, { audience: server.url.replace(`/${server.slug}/`, `/${server.id}/`) }),
    'for nothing': () => tokenOf(server, {}, { audience: null }),
    'of another trusted issuer': () => tokenOf(server, {}, { realm: own }),
    'of the embedded issuer': () => Promise.resolve(embedded),
    'signed by another realm': async () => tokenOf(server, {}, { key: await own.keyFor('RS256') }),
    'in the name of an unknown issuer': () => tokenOf(server, {}, { issuer: 'https://evil.test' }),
    expired: () => tokenOf(server, { exp: 1_000_000_000 }),
    'that is an identity token': () => tokenOf(server, { typ: 'ID' }),
    'of no client': () => tokenOf(server, { azp: undefined }),
    'of a user of the workspace': () => tokenOf(server, { realm_access: { roles: ['user'] } }),
  }
  let embedded: Caller
  beforeAll(async () => {
    const before = await publishMcpServer(a, 'before')
    embedded = await tokenFor(before, scopesOf(before, 'notes_list'))
  })

  test.each(Object.keys(wrong))('%s: 401 as for any other (T12, T13)', async (what) => {
    const { status, body, headers } = await send(
      server,
      await (wrong[what] as () => Promise<Caller>)(),
      'tools/list',
    )
    expect([status, body.code]).toEqual([401, what === 'expired' ? 'token_expired' : 'token_invalid'])
    expect(headers.get('www-authenticate')).toContain('error="invalid_token"')
  })

  test('of an issuer for one tenant, which names another: refused by the server of the other (T13)', async () => {
    const c = await publishWith(b, 'own', shared)
    await ok(configure(c, elsewhere.issuer))
    const claims = claimsFor(c)
    expect((await send(c, await elsewhere.token(claims, { audience: c.url }), 'ping')).status).toBe(200)
    const forged = await own.token(claims, { audience: c.url })
    expect((await send(c, forged, 'ping')).status).toBe(401)
    expect((await configure(c, own.issuer)).status).toBe(400)
  })

  test('for a hosted server: refused by the REST API and the platform server', async () => {
    const as = await tokenOf(server, { realm_access: { roles: ['tenant_admin'] } })
    for (const path of ['/v1/me', '/v1/collections/notes/documents'])
      expect([path, (await node.ask(as, path)).status]).toEqual([path, 401])
    const platform = { ...server, path: '/v1/mcp/platform/mcp' }
    expect((await send(platform, as, 'tools/list')).status).toBe(401)
  })
})

test('issuer that cannot be reached: 503, and the servers of others answer', async () => {
  const lone = await PeerIssuer.open()
  const realm = await lone.realm('lone')
  const other = await startApiWithIssuers([{ issuer: realm.issuer, audience: AUDIENCE, tenants: '*' }])
  try {
    lone.day = 'away'
    const as = await realm.token(claimsFor(server), { audience: server.url })
    const body = { jsonrpc: '2.0', id: 1, method: 'ping' }
    expect((await call('POST', server.path, { as, body, headers: RPC, at: other.at })).status).toBe(503)
  } finally {
    await other.close()
    await lone.close()
  }
})

test('setting: an issuer that is trusted for the tenant, or null', async () => {
  const known = `${shared.issuer}, ${own.issuer}`
  for (const issuer of [elsewhere.issuer, 'https://evil.test', `${shared.issuer}/`]) {
    const { status, body } = await configure(server, issuer)
    expect([status, body.errors?.[0].detail]).toEqual([
      400,
      expect.stringContaining(`The issuer may be ${known}`),
    ])
  }
  const at = {
    as: a.operator,
    body: { name: 'Refused', slug: 'refused', authorization_server: shared.issuer },
  }
  const { status, body } = await call('POST', `/v1/mcp/workspaces/${a.workspaceId}/servers`, at)
  expect([status, body.errors?.[0].detail]).toEqual([400, expect.stringContaining('configured no issuer')])
})

test('server that changes its issuer: earlier tokens end, and the platform gives none', async () => {
  const moved = await publishMcpServer(a, 'moved')
  const scope = scopesOf(moved, 'notes_list')
  const as = await tokenFor(moved, scope)
  expect((await send(moved, as, 'ping')).status).toBe(200)
  await ok(configure(moved, own.issuer))
  expect((await send(moved, as, 'ping')).status).toBe(401)
  expect((await askToken({ resource: moved.url, scope })).body['error']).toBe('invalid_target')
  const client = { as: a.operator, body: { name: 'agent' } }
  expect((await call('POST', `${moved.base}/clients`, client)).body).toMatchObject({
    code: 'state_conflict',
    detail: expect.stringContaining(own.issuer),
  })
  const external = await own.token(claimsFor(moved), { audience: moved.url })
  expect((await send(moved, external, 'ping')).status).toBe(200)
  await ok(configure(moved, null))
  expect((await send(moved, external, 'ping')).status).toBe(401)
  expect((await send(moved, await tokenFor(moved, scope), 'ping')).status).toBe(200)
  expect(inject('tenon').url).not.toBe(node.at.url)
})
