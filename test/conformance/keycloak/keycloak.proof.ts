/** Checks with a real Keycloak that the configurations in docs/identity.md, docs/users.md and docs/mcp.md work. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { ACCESS_LIMITS } from '../../../src/access/limits.ts'
import { authorization, Browser, claimsOf, exchange, REDIRECT } from '../../support/clients/browser.ts'
import { ok, publishMcpServer, RPC, scopesOf } from '../../support/clients/mcp.ts'
import { createUserApp } from '../../support/clients/users.ts'
import { type Caller, call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import {
  type ApiWithIssuers,
  DOCUMENTS,
  expectRefused,
  startApiWithIssuers,
} from '../../support/stack/api-with-issuers.ts'
import { configure } from '../../support/stack/workspace-settings.ts'
import { type Keycloak, startKeycloak } from './keycloak.ts'

const AUDIENCE = 'https://api.acme.test'
const SECRET = 'a-secret-of-the-job'

let keycloak: Keycloak
let workspace: TestWorkspace
let other: TestWorkspace
let node: ApiWithIssuers
beforeAll(async () => {
  keycloak = await startKeycloak()
  ;[workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  for (const realm of ['acme', 'rival']) await configureRealm(realm)
  node = await startApiWithIssuers([
    {
      issuer: `${keycloak.base}/realms/acme`,
      audience: AUDIENCE,
      typ: 'JWT',
      algorithms: ['RS256'],
      tenants: [workspace.tenantId],
      roles: { app: 'service', boss: 'tenant_admin' },
    },
    // Both tenants have their agents in this realm.
    { issuer: `${keycloak.base}/realms/agents`, audience: AUDIENCE, typ: 'JWT', tenants: '*' },
  ])
})
afterAll(async () => {
  await node?.close()
  await keycloak?.stop()
})

const mapper = (name: string, protocolMapper: string, config: object) => ({
  name,
  protocol: 'openid-connect',
  protocolMapper,
  config: { 'access.token.claim': 'true', 'id.token.claim': 'true', ...config },
})
const audience = mapper('audience', 'oidc-audience-mapper', { 'included.custom.audience': AUDIENCE })
const fixed = (name: string, value: string) =>
  mapper(name, 'oidc-hardcoded-claim-mapper', {
    'claim.name': name,
    'claim.value': value,
    'jsonType.label': 'String',
  })
const ofUser = (name: string) =>
  mapper(name, 'oidc-usermodel-attribute-mapper', {
    'user.attribute': name,
    'claim.name': name,
    'jsonType.label': 'String',
  })

/**
 * Creates a realm with two roles, a machine client with fixed claims for each workspace, and a client for people with
 * their own claims.
 */
async function configureRealm(realm: string): Promise<void> {
  await keycloak.admin('POST', '', { realm, enabled: true })
  await keycloak.admin('PUT', `/${realm}/users/profile`, {
    ...(await keycloak.admin('GET', `/${realm}/users/profile`)),
    unmanagedAttributePolicy: 'ADMIN_EDIT',
  })
  for (const name of ['app', 'boss']) await keycloak.admin('POST', `/${realm}/roles`, { name })
  for (const [clientId, to] of [['job', workspace] as const, ['job-elsewhere', other] as const])
    await createMachine(realm, clientId, [
      fixed('tenant_id', to.tenantId),
      fixed('workspace_id', to.workspaceId),
    ])
  await keycloak.admin('POST', `/${realm}/clients`, {
    ...{ clientId: 'web', publicClient: true, directAccessGrantsEnabled: true },
    defaultClientScopes: ['basic', 'roles'],
    protocolMappers: [audience, ofUser('tenant_id'), ofUser('workspace_id')],
  })
  await keycloak.admin('POST', `/${realm}/users`, {
    ...{ username: 'ada', firstName: 'Ada', lastName: 'L', email: 'ada@acme.test', enabled: true },
    attributes: { tenant_id: [workspace.tenantId] },
    credentials: [{ type: 'password', value: 'correct horse', temporary: false }],
  })
  const [ada] = await keycloak.admin('GET', `/${realm}/users?username=ada`)
  await give(realm, ada.id, 'boss')
}

async function createMachine(realm: string, clientId: string, mappers: object[]): Promise<void> {
  await keycloak.admin('POST', `/${realm}/clients`, {
    ...{ clientId, secret: SECRET, serviceAccountsEnabled: true, standardFlowEnabled: false },
    defaultClientScopes: ['basic', 'roles'],
    protocolMappers: [audience, ...mappers],
  })
  const [{ id }] = await keycloak.admin('GET', `/${realm}/clients?clientId=${clientId}`)
  const account = await keycloak.admin('GET', `/${realm}/clients/${id}/service-account-user`)
  await give(realm, account.id, 'app')
}

async function give(realm: string, user: string, role: string): Promise<void> {
  const found = await keycloak.admin('GET', `/${realm}/roles/${role}`)
  await keycloak.admin('POST', `/${realm}/users/${user}/role-mappings/realm`, [found])
}

const bearer = (token = ''): Caller => ({ authorization: `Bearer ${token}` })
const machine = async (realm: string, clientId = 'job') => {
  const parameters = { grant_type: 'client_credentials', client_id: clientId, client_secret: SECRET }
  return bearer((await keycloak.tokens(realm, parameters))['access_token'])
}
const person = (realm: string) => {
  const credentials = { username: 'ada', password: 'correct horse' }
  return keycloak.tokens(realm, { grant_type: 'password', client_id: 'web', scope: 'openid', ...credentials })
}

test('machine client: reads and writes data of its workspace', async () => {
  const as = await machine('acme')
  const me = await node.ask(as, '/v1/me')
  expect([me.status, me.body]).toMatchObject([
    200,
    { kind: 'token', roles: ['service'], tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId },
  ])
  expect(me.body.subject).toMatch(`${keycloak.base}/realms/acme#`)
  const made = await call('POST', DOCUMENTS, { as, at: node.at, body: { from: 'keycloak' } })
  expect(made.status).toBe(201)
  expect((await node.ask(workspace.service, `${DOCUMENTS}/${made.body.id}`)).body.from).toBe('keycloak')
  expect((await node.ask(other.service, `${DOCUMENTS}/${made.body.id}`)).status).toBe(404)
  expect((await node.ask(as, '/v1/tenants')).status).toBe(403)
})

test('person with attributes of an admin: is admin of the tenant in them; an identity token is rejected', async () => {
  const { access_token: access, id_token: identity, refresh_token: refresh } = await person('acme')
  expect((await node.ask(bearer(access), '/v1/me')).body.roles).toEqual(['tenant_admin'])
  expect((await node.ask(bearer(access), `/v1/workspaces/${workspace.workspaceId}`)).status).toBe(200)
  expect((await node.ask(bearer(access), `/v1/workspaces/${other.workspaceId}`)).status).toBe(404)
  // It has the same audience, tenant and signature.
  await expectRefused(node, bearer(identity))
  await expectRefused(node, bearer(refresh))
})

test('another realm of the same server, or another tenant: is rejected', async () => {
  await node.ask(workspace.operator, '/v1/me')
  await expectRefused(node, await machine('rival'))
  await expectRefused(node, bearer((await person('rival'))['access_token']))
  await expectRefused(node, await machine('acme', 'job-elsewhere'))
})

test('new key of the realm: is loaded', async () => {
  const { id: parentId } = await keycloak.admin('GET', '/acme')
  const kid = (as: Caller) =>
    JSON.parse(Buffer.from(as['authorization']?.slice(7).split('.')[0] ?? '', 'base64url').toString()).kid
  const before = await machine('acme')
  await keycloak.admin('POST', '/acme/components', {
    ...{
      name: 'newer',
      providerId: 'rsa-generated',
      providerType: 'org.keycloak.keys.KeyProvider',
      parentId,
    },
    config: { priority: ['500'], enabled: ['true'], active: ['true'], algorithm: ['RS256'] },
  })
  const after = await machine('acme')
  expect(kid(after)).not.toBe(kid(before))
  await expectRefused(node, after)
  node.pass(ACCESS_LIMITS.jwks.cooldownMs)
  expect((await node.ask(after)).status).toBe(200)
  expect((await node.ask(before)).status).toBe(200)
})

test('person at the sign-in page of a workspace: continues with Keycloak, and becomes a user', async () => {
  await keycloak.admin('POST', '', { realm: 'people', enabled: true })
  const app = await createUserApp(workspace)
  const settings = {
    ...{ id: 'keycloak', name: 'Keycloak', issuer: `${keycloak.base}/realms/people` },
    ...{ client_id: 'shop', client_secret: SECRET },
  }
  const { auth } = await configure(workspace, {
    egress: { allow: [new URL(keycloak.base).host] },
    auth: { providers: [settings] },
  })
  await keycloak.admin('POST', '/people/clients', {
    ...{ clientId: 'shop', secret: SECRET, redirectUris: [auth.providers[0].redirect_uri] },
    attributes: { 'pkce.code.challenge.method': 'S256' },
  })
  const addPerson = (username: string, emailVerified: boolean) =>
    keycloak.admin('POST', '/people/users', {
      ...{ username, email: `${username}@acme.test`, emailVerified, enabled: true },
      ...{ firstName: 'Ida', lastName: 'L' },
      credentials: [{ type: 'password', value: 'correct horse', temporary: false }],
    })
  await addPerson('ida', true)
  await addPerson('eve', false)
  const signIn = async (username: string) => {
    const browser = new Browser(REDIRECT)
    const flow = authorization(app.clientId)
    const page = await browser.open(flow.url)
    const login = await browser.open(`${page.url}/providers/keycloak`)
    const [, action = ''] = /<form[^>]* action="([^"]+)"/.exec(login.html) ?? []
    const url = action.replaceAll('&amp;', '&')
    const end = await browser.submit({ ...login, url }, { username, password: 'correct horse' })
    return { flow, end }
  }
  const { flow, end } = await signIn('ida')
  expect(end.url, end.html).toContain(REDIRECT)
  const { access_token: token } = (await exchange(app.clientId, flow, new URL(end.url))).body
  expect(claimsOf(token)).toMatchObject({ role: 'user', email: 'ida@acme.test', email_verified: true })
  expect((await signIn('eve')).end).toMatchObject({ status: 403 })
})

test('hosted MCP server with Keycloak as its issuer: a token for its resource, with its scope and its tenant', async () => {
  await keycloak.admin('POST', '', { realm: 'agents', enabled: true })
  const issuer = `${keycloak.base}/realms/agents`
  const publishWithScope = async (owner: TestWorkspace, slug: string) => {
    const server = await publishMcpServer(owner, slug)
    const body = { authorization_server: issuer }
    await ok(call('PATCH', server.base, { as: owner.operator, at: node.at, body }))
    // The resource that a request may name, and the scope that gives tokens its audience.
    await keycloak.admin('POST', '/agents/clients', {
      ...{ clientId: server.url, bearerOnly: true, attributes: { resource_url: server.url } },
    })
    await keycloak.admin('POST', '/agents/client-scopes', {
      ...{ name: scopesOf(server, 'notes_list'), protocol: 'openid-connect' },
      attributes: { 'include.in.token.scope': 'true' },
      protocolMappers: [
        mapper('audience', 'oidc-audience-mapper', { 'included.client.audience': server.url }),
      ],
    })
    return server
  }
  const own = await publishWithScope(workspace, 'kc-own')
  const foreign = await publishWithScope(other, 'kc-other')
  const scopes = [own, foreign].map((server) => scopesOf(server, 'notes_list'))
  const tenantOf = ({ tenantId }: TestWorkspace) => ({
    ...{ defaultClientScopes: ['basic'], optionalClientScopes: scopes },
    protocolMappers: [fixed('tenant_id', tenantId)],
  })
  for (const [clientId, to] of [['agent', workspace] as const, ['agent-elsewhere', other] as const])
    await keycloak.admin('POST', '/agents/clients', {
      ...{
        clientId,
        secret: SECRET,
        serviceAccountsEnabled: true,
        standardFlowEnabled: false,
        ...tenantOf(to),
      },
    })
  await keycloak.admin('POST', '/agents/clients', {
    ...{ clientId: 'host', publicClient: true, directAccessGrantsEnabled: true, ...tenantOf(workspace) },
  })
  await keycloak.admin('POST', '/agents/users', {
    ...{ username: 'ada', firstName: 'Ada', lastName: 'L', email: 'ada@acme.test', enabled: true },
    credentials: [{ type: 'password', value: 'correct horse', temporary: false }],
  })
  // Keycloak 26.7.0 answers 500 to a machine that names a resource.
  const machineFor = async (client_id: string, scope: string | undefined) => {
    const parameters = {
      grant_type: 'client_credentials',
      client_id,
      client_secret: SECRET,
      scope: scope ?? '',
    }
    return (await keycloak.tokens('agents', parameters))['access_token']
  }
  const credentials = {
    grant_type: 'password',
    client_id: 'host',
    username: 'ada',
    password: 'correct horse',
  }
  const personFor = async ({ url: resource }: typeof own) =>
    (await keycloak.tokens('agents', { ...credentials, scope: scopes.join(' '), resource }))['access_token']
  const send = (server: typeof own, token: string | undefined, method: string, params: unknown = {}) => {
    const body = { jsonrpc: '2.0', id: 1, method, params }
    return call('POST', server.path, { as: bearer(token), at: node.at, body, headers: RPC })
  }
  const toolsFor = async (token: string | undefined) => {
    expect(claimsOf(token)).toMatchObject({ aud: own.url })
    const { body } = await send(own, token, 'tools/list')
    return body.result.tools.map(({ name }: { name: string }) => name)
  }
  const machineToken = await machineFor('agent', scopes[0])
  expect(await toolsFor(machineToken)).toEqual(['notes_list'])
  const personToken = await personFor(own)
  expect((await toolsFor(personToken)).length).toBe(5)
  for (const token of [machineToken, personToken]) {
    const called = await send(own, token, 'tools/call', { name: 'notes_list', arguments: {} })
    expect(called.body.result.isError).toBe(false)
    expect((await send(own, token, 'tools/call', { name: 'notes_get', arguments: { id: 'x' } })).status).toBe(
      403,
    )
  }
  for (const [what, wrong] of Object.entries({
    'of the other tenant': await machineFor('agent-elsewhere', scopes[0]),
    'for the other server': await machineFor('agent', scopes[1]),
    'of a person, for the other server': await personFor(foreign),
    'for both servers': await machineFor('agent', scopes.join(' ')),
  }))
    expect([what, (await send(own, wrong, 'tools/list')).status]).toEqual([what, 401])
})
