/** MCP clients without configuration: they discover the issuer, register, send their user to sign in, and refresh tokens. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import { OAuthClients, Registration } from '../../../src/features/identity/clients/oauth-clients-store.ts'
import { Database } from '../../../src/infra/postgres/database.ts'
import {
  addAccount,
  agentOf,
  authorization,
  Browser,
  claimsOf,
  inWorkspace,
  REDIRECT,
  type TestAccount,
  tokensOf,
} from '../../support/clients/browser.ts'
import { type PublishedMcpServer, publishMcpServer, scopesOf } from '../../support/clients/mcp.ts'
import { connectLegacy, connectModern } from '../../support/clients/mcp-sdk.ts'
import { asSuperuser, call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let mcpServer: PublishedMcpServer
let person: TestAccount
beforeAll(async () => {
  workspace = await createTestWorkspace()
  mcpServer = await publishMcpServer(workspace, 'agents')
  person = await addAccount(workspace.operator, { role: 'service', ...inWorkspace(workspace) })
})

const register = (body: unknown) => call('POST', '/auth/register', { body })
const registerClient = async () =>
  (await register({ redirect_uris: [REDIRECT], client_name: 'Agent' })).body.client_id

test.each([
  ['2025', connectLegacy],
  ['2026', connectModern],
] as const)(
  'MCP client of %s: no configuration: registers, user signs in, calls a tool',
  async (_of, connect) => {
    const authProvider = agentOf(person)
    const { client } = await connect(mcpServer.url, { authProvider })
    expect(authProvider.requestedScopes).toHaveLength(1)
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('notes_get')
    await client.close()
  },
)

describe('registered client', () => {
  test('registered client: tokens: for hosted servers only, not for the REST API', async () => {
    const clientId = await registerClient()
    const scope = scopesOf(mcpServer, 'notes_list')
    const { body } = await tokensOf(clientId, person, { resource: mcpServer.url, scope })
    expect(claimsOf(body['access_token'])).toMatchObject({ aud: mcpServer.url, scope, client_id: clientId })
    for (const resource of [{}, { resource: `${inject('tenon').url}/v1` }]) {
      const end = await new Browser(REDIRECT).open(authorization(clientId, resource).url)
      expect(new URL(end.url).searchParams.get('error')).toBe('invalid_target')
    }
    const [row] = await asSuperuser(
      'select used_at is not null as used from tenon.oauth_clients where id = $1',
      [clientId],
    )
    expect(row).toEqual({ used: true })
  })

  test('registered client: consent page: says that the client registered itself', async () => {
    const browser = new Browser(REDIRECT)
    const login = await browser.open(authorization(await registerClient(), { resource: mcpServer.url }).url)
    // The requested MCP server already identifies the tenant.
    expect(login.html).not.toContain('name="tenant"')
    const { email, password } = person
    const consent = await browser.submit(login, { action: 'login', email, password })
    expect(consent.html).toContain('registered itself')
    expect(consent.html).toContain('mcp:agents:notes_get')
  })

  test('registered client: asks for another type, unknown members or scopes: public client, the rest is ignored', async () => {
    const reply = await register({
      redirect_uris: ['http://localhost:8090/callback', 'https://agent.test/callback'],
      token_endpoint_auth_method: 'client_secret_basic',
      scope: 'mcp:x:y offline_access',
      logo_uri: 'https://agent.test/logo.png',
      jwks_uri: 'http://169.254.169.254/',
    })
    expect([reply.status, reply.body]).toEqual([
      201,
      {
        client_id: expect.stringMatching(/^client_/),
        client_id_issued_at: expect.any(Number),
        client_name: 'A client without a name',
        redirect_uris: ['http://localhost:8090/callback', 'https://agent.test/callback'],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
      },
    ])
  })

  test.each([
    ['no redirect URI', {}, 'invalid_client_metadata'],
    ['redirect URI without TLS', { redirect_uris: ['http://agent.test/'] }, 'invalid_redirect_uri'],
    ['javascript redirect URI', { redirect_uris: ['javascript:alert(1)'] }, 'invalid_redirect_uri'],
    ['client_credentials grant', { grant_types: ['client_credentials'] }, 'invalid_client_metadata'],
    ['implicit grant', { response_types: ['token'] }, 'invalid_client_metadata'],
    ['name with a line break', { client_name: 'a\nb' }, 'invalid_client_metadata'],
  ])('client registration: %s: refused (T19)', async (_what, body, error) => {
    const registration =
      'redirect_uris' in body || Object.keys(body).length === 0 ? {} : { redirect_uris: [REDIRECT] }
    const reply = await register({ ...registration, ...body })
    expect([reply.status, reply.body.error]).toEqual([400, error])
  })

  test('registered client: read: by operators only', async () => {
    const clientId = await registerClient()
    let found: unknown
    for (let next: string | null = ''; found === undefined && next !== null; ) {
      const after: string = next === '' ? '' : `&page[after]=${next}`
      const path = `/v1/oauth-clients?page[size]=200${after}`
      const { body } = await call('GET', path, { as: workspace.operator })
      found = body.data.find((row: { client_id: string }) => row.client_id === clientId)
      next = body.page.next
    }
    expect(found).toMatchObject({
      registered: true,
      tenant_id: null,
    })
  })
})

test('client registration: limit of an address: refused; unused clients: removed (T19)', async () => {
  const database = Database.open(inject('tenon').env['DATABASE_APP_URL'] ?? '', () => {}, 2)
  try {
    const registration = new Registration(new OAuthClients(database), 30)
    const take = () => registration.register({ redirect_uris: [REDIRECT] }, '192.0.2.1')
    const made: unknown[] = []
    for (let n = 0; n < 30; n++) made.push((await take()).body['client_id'])
    expect((await take()).status).toBe(429)
    const [unused, idle, used] = made
    const age = (id: unknown, created: string, usedAt: string | null) =>
      asSuperuser(
        'update tenon.oauth_clients set created_at = now() - $2::interval, used_at = now() - $3::interval where id = $1',
        [id, created, usedAt],
      )
    await age(unused, '25 hours', null)
    await age(idle, '1 year', '91 days')
    await age(used, '1 year', '89 days')
    expect((await registration.register({ redirect_uris: [REDIRECT] }, '192.0.2.2')).status).toBe(201)
    const left = await asSuperuser<{ id: string }>('select id from tenon.oauth_clients where id = any($1)', [
      [unused, idle, used],
    ])
    expect(left).toEqual([{ id: used }])
  } finally {
    await database.close()
  }
})
