/** Token issuer for hosted MCP servers: which tokens it issues, to which clients, and its metadata. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import {
  askToken,
  callTool,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  rpc,
  scopesOf,
  tokenFor,
} from '../../support/clients/mcp.ts'
import { addTestWorkspace, call, createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'

let ours: PublishedMcpServer
let theirs: PublishedMcpServer
let sibling: PublishedMcpServer
beforeAll(async () => {
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  ;[ours, theirs, sibling] = await Promise.all([
    publishMcpServer(workspace, 'notes'),
    publishMcpServer(other, 'notes'),
    publishMcpServer(await addTestWorkspace(workspace), 'notes'),
  ])
})

describe('issuer', () => {
  test('resource and scope given: token for that server, limited to scopes of the published version', async () => {
    const claims = (token = '') => JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
    const scope = `${scopesOf(ours, 'notes_get', 'nothing')} mcp:theirs:notes_get openid`
    const { body } = await askToken({ resource: ours.url, scope })
    expect(claims(body['access_token'])).toMatchObject({
      aud: ours.url,
      iss: `${inject('tenon').url}/auth`,
      sub: 'tenon-operator',
      client_id: 'tenon-operator',
      tenant_id: ours.workspace.tenantId,
      workspace_id: ours.workspace.workspaceId,
      mcp_server: ours.id,
      scope: scopesOf(ours, 'notes_get'),
    })
    expect(claims(body['access_token'])).not.toHaveProperty('roles')
    const plain = await askToken({ resource: ours.url })
    expect(claims(plain.body['access_token'])).not.toHaveProperty('scope')
    const none = await askToken({ resource: ours.url, scope: 'mcp:notes:nothing' })
    expect([none.status, none.body['error']]).toEqual([400, 'invalid_scope'])
  })

  test.each([
    ['another host', (url: string) => url.replace('127.0.0.1', 'evil.test')],
    ['an unknown server', (url: string) => url.replace('/notes/', '/nothing/')],
    ['a longer path', (url: string) => `${url}/x`],
    ['a query', (url: string) => `${url}?a=1`],
    ['a dotted path', (url: string) => url.replace('/servers/', '/./servers/')],
    ['not a URL', () => 'notes'],
  ])('resource is %s: invalid_target', async (_what, change) => {
    const { status, body } = await askToken({ resource: change(ours.url), scope: 'mcp:notes:notes_get' })
    expect([status, body['error']]).toEqual([400, 'invalid_target'])
  })

  test.each(['a\u0000b', 'x'.repeat(40_000), `agent_${'0'.repeat(26)}`, 'agent_\u0000'])(
    'unknown client (%#): invalid_client',
    async (client_id) => {
      const body = { grant_type: 'client_credentials', client_id, client_secret: 'x' }
      const reply = await fetch(`${inject('tenon').url}/auth/token`, {
        method: 'POST',
        body: new URLSearchParams(body),
      })
      expect([reply.status, await reply.json()]).toMatchObject([401, { error: 'invalid_client' }])
    },
  )

  test('server addressed by slug or id: each is a resource of its own', async () => {
    const byId = { ...ours, path: ours.path.replace('/notes/', `/${ours.id}/`) }
    const as = await tokenFor(
      { ...ours, url: ours.url.replace('/notes/', `/${ours.id}/`) },
      scopesOf(ours, 'notes_get'),
    )
    expect((await rpc(byId.path, as, 'tools/list')).status).toBe(200)
    expect((await rpc(ours.path, as, 'tools/list')).status).toBe(401)
  })

  test('address with a slash at its end: metadata and tokens are those of the server, which answers there', async () => {
    const [scope, claims] = [scopesOf(ours, 'notes_get'), { mcp_server: ours.id, aud: ours.url }]
    const metadata = `/.well-known/oauth-protected-resource${ours.path}`
    const described = await Promise.all([metadata, `${metadata}/`].map((path) => ok(call('GET', path))))
    expect(described.map(({ resource }) => resource)).toEqual([ours.url, ours.url])
    for (const resource of [ours.url, `${ours.url}/`]) {
      const { body } = await askToken({ resource, scope })
      const token = body['access_token'] ?? ''
      expect(JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())).toMatchObject(claims)
      for (const path of [ours.path, `${ours.path}/`]) {
        const as = { authorization: `Bearer ${token}` }
        expect((await rpc(path, as, 'tools/list')).body.result.tools).toMatchObject([{ name: 'notes_get' }])
        expect((await rpc(path.replace('/notes/', `/${ours.id}/`), as, 'tools/list')).status).toBe(401)
        const refused = await rpc(path, {}, 'tools/list')
        expect(refused.headers.get('www-authenticate')).toContain(`${inject('tenon').url}${metadata}"`)
      }
    }
    for (const resource of [
      `${ours.url}//`,
      `${ours.url}/x/`,
      `${inject('tenon').url}/v1/`,
      ours.url.replace(/mcp$/, ''),
    ])
      expect((await askToken({ resource, scope })).body['error']).toBe('invalid_target')
  })

  test('forged host headers: metadata shows the configured address', async () => {
    const { url } = inject('tenon')
    const hostile = {
      'x-forwarded-host': 'evil.test',
      'x-forwarded-proto': 'https',
      forwarded: 'host=evil.test',
    }
    const read = async (path: string) => ok(call('GET', path, { headers: hostile }))
    expect(await read(`/.well-known/oauth-protected-resource${ours.path}`)).toEqual({
      resource: ours.url,
      authorization_servers: [`${url}/auth`],
      scopes_supported: [`mcp:notes:notes_get`, 'mcp:notes:notes_list'],
      bearer_methods_supported: ['header'],
      resource_name: 'Server notes',
    })
    for (const path of [
      '/.well-known/oauth-authorization-server/auth',
      '/.well-known/oauth-authorization-server',
      '/.well-known/openid-configuration',
      '/.well-known/openid-configuration/auth',
      '/auth/.well-known/oauth-authorization-server',
      '/auth/.well-known/openid-configuration',
    ]) {
      const document = await read(path)
      expect(document).toMatchObject({
        issuer: `${url}/auth`,
        token_endpoint: `${url}/auth/token`,
        jwks_uri: `${url}/auth/jwks`,
        authorization_endpoint: `${url}/auth/authorize`,
        revocation_endpoint: `${url}/auth/revoke`,
        registration_endpoint: `${url}/auth/register`,
        grant_types_supported: ['authorization_code', 'refresh_token', 'client_credentials'],
        response_types_supported: ['code'],
        scopes_supported: ['openid'],
        authorization_response_iss_parameter_supported: true,
        token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'none'],
        code_challenge_methods_supported: ['S256'],
      })
      expect(JSON.stringify(document)).not.toContain('evil')
    }
  })

  test('client of an agent: its own server within its scopes, until it is deleted', async () => {
    const as = ours.workspace.operator
    const scopes = [scopesOf(ours, 'notes_list')]
    const made = await ok(call('POST', `${ours.base}/clients`, { as, body: { name: 'agent', scopes } }))
    const client = { id: made.client_id, secret: made.client_secret }
    const { body } = await askToken({}, client)
    const token = { authorization: `Bearer ${body['access_token']}` }
    expect((await callTool(ours.path, token, 'notes_list')).body.result.isError).toBe(false)
    expect((await callTool(ours.path, token, 'notes_get', { id: 'x' })).status).toBe(403)
    const more = await askToken({ resource: ours.url, scope: scopesOf(ours, 'notes_get') }, client)
    expect(more.body['error']).toBe('invalid_scope')
    for (const resource of [theirs.url, sibling.url, `${inject('tenon').url}/v1`]) {
      expect((await askToken({ resource }, client)).body['error']).toBe('invalid_target')
    }
    expect((await askToken({}, { ...client, secret: 'wrong' })).body['error']).toBe('invalid_client')
    const { data } = await ok(call('GET', `${ours.base}/clients`, { as }))
    expect(data).toMatchObject([{ client_id: client.id, name: 'agent', scopes }])
    expect(JSON.stringify(data)).not.toContain(client.secret)
    await ok(call('DELETE', `${ours.base}/clients/${client.id}`, { as }))
    await eventually(
      async () => ((await callTool(ours.path, token, 'notes_list')).status === 401 ? true : undefined),
      5_500,
    )
    expect((await askToken({}, client)).body['error']).toBe('invalid_client')
  })
})
