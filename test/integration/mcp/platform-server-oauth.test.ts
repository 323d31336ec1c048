/** OAuth of the platform server: clients find the issuer, an account signs in, and a writing tool asks for more. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import type { Principal } from '../../../src/core/policy.ts'
import { toolsFor } from '../../../src/mcp/platform/platform-tools.ts'
import {
  addAccount,
  agentOf,
  authorization,
  Browser,
  bearer,
  claimsOf,
  inWorkspace,
  REDIRECT,
  type TestAccount,
  tokensOf,
} from '../../support/clients/browser.ts'
import {
  askToken,
  callTool,
  ok,
  publishMcpServer,
  rpc,
  scopesOf,
  tokenFor,
} from '../../support/clients/mcp.ts'
import { connectLegacy, connectModern } from '../../support/clients/mcp-sdk.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'

const PATH = '/v1/mcp/platform/mcp'
const OPERATOR: Principal = { kind: 'token', seen: 'a token', subject: 'ada', roles: ['operator'] }
const READ = 'platform:read'
const BOTH = 'platform:read platform:write'
const SOURCE = [
  "document: { dsl: '1.0.3', namespace: oauth, name: stepped-up, version: '1.0.0' }",
  'do: [{ a: { set: { b: 1 } } }]',
].join('\n')

let resource: string
let challenge: string
let workspace: TestWorkspace
let person: TestAccount
beforeAll(async () => {
  const { url } = inject('tenon')
  resource = `${url}${PATH}`
  challenge = `resource_metadata="${url}/.well-known/oauth-protected-resource${PATH}"`
  workspace = await createTestWorkspace()
  person = await addAccount(workspace.operator, { role: 'workspace_admin', ...inWorkspace(workspace) })
})

const registerClient = async (): Promise<string> =>
  (await call('POST', '/auth/register', { body: { redirect_uris: [REDIRECT], client_name: 'Agent' } })).body
    .client_id

/** A token of the account, which has consented to these scopes. */
async function tokenWith(scope: string, account = person): Promise<Caller> {
  const { body } = await tokensOf(await registerClient(), account, { resource, scope })
  return bearer(body['access_token'])
}

const createFlow = (as: Caller) =>
  callTool(PATH, as, 'flow_create', { workspace_id: workspace.workspaceId, source: SOURCE })

describe('who has access', () => {
  /** Every tool about people and credentials, as the table of operations has them. */
  const people = toolsFor(OPERATOR).filter(({ scope }) => scope === 'platform:people')

  test('accounts, users and their data, keys and clients: with their own scope alone, whichever others a token has', async () => {
    const names = people.map(({ tool }) => tool.name)
    for (const name of ['account_list', 'user_export', 'user_list', 'api_key_list', 'oauth_client_list'])
      expect(names).toContain(name)
    const usable = names.filter((name) => /^(account|user|api_key)_(list|get|export)$/.test(name))
    for (const scope of [READ, 'platform:write', BOTH]) {
      const as = await tokenWith(scope)
      for (const name of usable) {
        const { status, headers } = await callTool(PATH, as, name, {})
        expect([scope, name, status]).toEqual([scope, name, 403])
        const scopes = scope.includes('write') ? `${BOTH} platform:people` : `${READ} platform:people`
        expect(headers.get('www-authenticate')).toContain(`scope="${scopes}"`)
      }
    }
    const as = await tokenWith(`${READ} platform:people`)
    const args = { workspace_id: workspace.workspaceId }
    expect((await callTool(PATH, as, 'api_key_list', args)).body.result.content[0].text).toContain(
      '"kind":"anon"',
    )
    expect((await createFlow(as)).status).toBe(403)
  })
})

describe('discovery', () => {
  test('metadata: names the issuer and the scope to begin with', async () => {
    const { body, headers } = await call('GET', `/.well-known/oauth-protected-resource${PATH}`)
    expect(body).toEqual({
      resource,
      authorization_servers: [`${inject('tenon').url}/auth`],
      scopes_supported: [READ],
      bearer_methods_supported: ['header'],
      resource_name: 'Tenon',
    })
    expect(headers.get('access-control-allow-origin')).toBe('*')
  })

  test('no token, an API key, a bad token: 401 whose challenge names the metadata', async () => {
    const challengeFor = async (as: Caller) => {
      const { status, headers } = await rpc(PATH, as, 'tools/list')
      expect([status, headers.get('cache-control')]).toEqual([401, 'no-store'])
      return headers.get('www-authenticate')
    }
    expect(await challengeFor({})).toBe(`Bearer ${challenge}, scope="${READ}"`)
    const bad = `Bearer error="invalid_token", ${challenge}, scope="${READ}"`
    expect(await challengeFor(workspace.service)).toBe(bad)
    expect(await challengeFor(bearer('abc.def.ghi'))).toBe(bad)
  })
})

describe('client without configuration', () => {
  test('of 2025: registers, its user signs in, it reads', async () => {
    const authProvider = agentOf(person)
    const { client } = await connectLegacy(resource, { authProvider })
    expect(authProvider.requestedScopes).toEqual([READ])
    const list = { name: 'flow_list', arguments: { workspace_id: workspace.workspaceId } }
    expect((await client.callTool(list)).isError).toBe(false)
    // It refreshes its token after a challenge, without the scope.
    const create = { name: 'flow_create', arguments: { workspace_id: workspace.workspaceId, source: SOURCE } }
    expect(await client.callTool(create)).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('needs the scope platform:write') }],
      _meta: { 'tenon/insufficient_scope': { required: ['platform:write'], granted: [READ] } },
    })
    await client.close()
  })

  test('of 2026: reads, and asks for the writing scope when a tool needs it', async () => {
    const authProvider = agentOf(person)
    const { client, finish } = await connectModern(resource, { authProvider })
    // A tool that writes is listed before its scope is granted: nothing else would lead to it.
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('flow_create')
    const ws = workspace.workspaceId
    expect((await client.callTool({ name: 'flow_list', arguments: { workspace_id: ws } })).isError).toBe(
      false,
    )
    const create = () =>
      client.callTool({ name: 'flow_create', arguments: { workspace_id: ws, source: SOURCE } })
    await expect(create()).rejects.toThrow(/unauthorized/i)
    expect(authProvider.requestedScopes.map((scopes) => scopes.split(' ').sort().join(' '))).toEqual([
      READ,
      BOTH,
    ])
    await finish()
    expect(await create()).toMatchObject({ isError: false })
    await client.close()
    await ok(call('DELETE', `${workspace.flows}/definitions/stepped-up`, { as: workspace.operator }))
  })
})

describe('token', () => {
  test('of an account: for this server alone, with the role of the account', async () => {
    const clientId = await registerClient()
    const { body } = await tokensOf(clientId, person, { resource })
    expect(claimsOf(body['access_token'])).toMatchObject({
      aud: resource,
      sub: person.id,
      client_id: clientId,
      scope: READ,
      roles: ['workspace_admin'],
      ...inWorkspace(workspace),
    })
    const as = bearer(body['access_token'])
    expect((await callTool(PATH, as, 'me_get')).body.result.content[0].text).toContain(person.id)
    for (const path of ['/v1/me', `${workspace.flows}/definitions`])
      expect([path, (await call('GET', path, { as })).status]).toEqual([path, 401])
  })

  test('with the reading scope: a tool that writes is 403 with the scopes that it needs', async () => {
    const { status, body, headers } = await createFlow(await tokenWith(READ))
    expect([status, body.code]).toEqual([403, 'insufficient_scope'])
    expect(headers.get('www-authenticate')).toBe(
      `Bearer error="insufficient_scope", ${challenge}, scope="${BOTH}", ` +
        'error_description="The token does not allow this tool."',
    )
    const { body: list } = await call('GET', `${workspace.flows}/definitions`, { as: workspace.operator })
    expect(list.data).toEqual([])
  })

  test('with the writing scope alone: reads as well', async () => {
    const as = await tokenWith('platform:write')
    const { status, body } = await callTool(PATH, as, 'flow_list', { workspace_id: workspace.workspaceId })
    expect([status, body.result.isError]).toEqual([200, false])
  })

  test('of the REST API: has both scopes', async () => {
    const as = await tokenOf({ roles: ['workspace_admin'], ...inWorkspace(workspace) })
    expect((await createFlow(as)).body.result.isError).toBe(false)
    await ok(call('DELETE', `${workspace.flows}/definitions/stepped-up`, { as: workspace.operator }))
  })

  test('forged or of another server: 401', async () => {
    const hosted = await publishMcpServer(workspace, 'other')
    const claims = { sub: person.id, client_id: 'tenon-operator', roles: ['operator'], scope: BOTH }
    const past = Math.floor(Date.now() / 1_000) - 9_999
    const wrong: Record<string, Caller> = {
      'of a hosted server': await tokenFor(hosted, scopesOf(hosted, 'notes_list')),
      'another issuer': await tokenOf(claims, { audience: resource, issuer: 'https://evil.test' }),
      'an ID token': await tokenOf(claims, { audience: resource, typ: 'JWT' }),
      expired: await tokenOf({ ...claims, exp: past }, { audience: resource }),
      'another path': await tokenOf(claims, { audience: `${resource}/` }),
      'no account of this id': await tokenOf(
        { ...claims, sub: `acct_${'0'.repeat(26)}` },
        { audience: resource },
      ),
    }
    for (const [what, as] of Object.entries(wrong))
      expect([what, (await rpc(PATH, as, 'tools/list')).status]).toEqual([what, 401])
  })

  test('of a deleted account: ends within 5 s', async () => {
    const account = await addAccount(workspace.operator, {
      role: 'workspace_admin',
      ...inWorkspace(workspace),
    })
    const as = await tokenWith(READ, account)
    expect((await rpc(PATH, as, 'tools/list')).status).toBe(200)
    await ok(call('DELETE', `/v1/accounts/${account.id}`, { as: workspace.operator }))
    await eventually(
      async () => ((await rpc(PATH, as, 'tools/list')).status === 401 ? true : undefined),
      5_500,
    )
  })

  test('for a machine: not given', async () => {
    expect((await askToken({ resource, scope: READ })).body['error']).toBe('invalid_target')
  })
})

test('consent page: says in words what each scope allows, and asks for the tenant', async () => {
  const pageFor = async (scope: string) => {
    const browser = new Browser(REDIRECT)
    const login = await browser.open(authorization(await registerClient(), { resource, scope }).url)
    expect(login.html).toContain('name="tenant"')
    const { tenant, email, password } = person
    return (await browser.submit(login, { action: 'login', tenant, email, password })).html
  }
  const reading = await pageFor(READ)
  expect(reading).toContain('registered itself')
  expect(reading).toContain('Read what your account may see')
  expect(reading).not.toMatch(/Change things in your name|Read who has access/)
  expect(await pageFor(`${READ} platform:people`)).toContain('Read who has access')
  expect(await pageFor(`${BOTH} api mcp:x:y`)).toContain('Change things in your name')
  expect(await pageFor(`${BOTH} api mcp:x:y`)).not.toMatch(/REST API|mcp:x:y/)
})
