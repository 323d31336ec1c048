/** OAuth clients and accounts as resources: who may create them, and the tokens of machines. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import { bearer, claimsOf, inWorkspace, REDIRECT } from '../../support/clients/browser.ts'
import { post, simulateCrash } from '../../support/clients/idempotency.ts'
import { askToken, ok, publishMcpServer } from '../../support/clients/mcp.ts'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let other: TestWorkspace
let sibling: TestWorkspace
let callers: { operator: Caller; tenant: Caller; workspace: Caller }
beforeAll(async () => {
  ;[workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  sibling = await addTestWorkspace(workspace)
  const { tenantId: tenant_id, workspaceId: workspace_id } = workspace
  callers = {
    operator: workspace.operator,
    tenant: await tokenOf({ roles: ['tenant_admin'], tenant_id }),
    workspace: await tokenOf({ roles: ['workspace_admin'], tenant_id, workspace_id }),
  }
})

type CallerName = keyof typeof callers
const assignments = (): Record<string, object> => ({
  nowhere: {},
  tenant: { tenant_id: workspace.tenantId },
  workspace: inWorkspace(workspace),
  'workspace alone': { workspace_id: workspace.workspaceId },
  sibling: inWorkspace(sibling),
  'other tenant': { tenant_id: other.tenantId },
  'other workspace': inWorkspace(other),
  crossed: { tenant_id: other.tenantId, workspace_id: workspace.workspaceId },
})

/** Caller, role, assignment, and expected status. */
const TABLE: readonly (readonly [CallerName, string, string, number])[] = [
  ['operator', 'operator', 'nowhere', 201],
  ['operator', 'operator', 'tenant', 400],
  ['operator', 'tenant_admin', 'tenant', 201],
  ['operator', 'tenant_admin', 'nowhere', 400],
  ['operator', 'tenant_admin', 'workspace', 400],
  ['operator', 'workspace_admin', 'workspace', 201],
  ['operator', 'workspace_admin', 'tenant', 400],
  ['operator', 'service', 'workspace alone', 201],
  ['operator', 'service', 'crossed', 404],
  ['tenant', 'operator', 'nowhere', 403],
  ['tenant', 'tenant_admin', 'nowhere', 201],
  ['tenant', 'tenant_admin', 'tenant', 201],
  ['tenant', 'tenant_admin', 'other tenant', 404],
  ['tenant', 'workspace_admin', 'sibling', 201],
  ['tenant', 'service', 'other workspace', 404],
  ['tenant', 'service', 'crossed', 404],
  ['workspace', 'operator', 'nowhere', 403],
  ['workspace', 'tenant_admin', 'nowhere', 403],
  ['workspace', 'tenant_admin', 'tenant', 403],
  ['workspace', 'workspace_admin', 'workspace alone', 201],
  ['workspace', 'service', 'workspace', 201],
  ['workspace', 'service', 'sibling', 404],
  ['workspace', 'service', 'other workspace', 404],
]

describe.each(TABLE)('%s creates %s in %s: %i', (who, role, place, status) => {
  test.each([
    ['/v1/oauth-clients', () => ({ kind: 'machine', name: 'x' })],
    ['/v1/accounts', () => ({ email: `${unique('x')}@example.test` })],
  ])('creation: %s', async (path, more) => {
    const body = { ...more(), role, ...assignments()[place] }
    const reply = await call('POST', path, { as: callers[who], body })
    expect([reply.status, reply.body]).toEqual([status, expect.anything()])
  })
})

describe('machine', () => {
  const make = async (body: object, as: Caller = callers.operator) => {
    const made = await ok(
      call('POST', '/v1/oauth-clients', { as, body: { kind: 'machine', name: 'ci', ...body } }),
    )
    return { id: made.client_id as string, secret: made.client_secret as string }
  }

  test.each([
    ['operator', 'nowhere', '/v1/tenants'],
    ['tenant_admin', 'tenant', '/v1/workspaces'],
    ['workspace_admin', 'workspace', '/v1/workspaces'],
    ['service', 'workspace', '/v1/collections'],
  ])('machine: role %s: has that role and no more', async (role, place, path) => {
    const bound = assignments()[place] ?? {}
    const client = await make({ role, ...bound })
    const { body } = await askToken({}, client)
    const claims = claimsOf(body['access_token'])
    expect(claims).toMatchObject({ roles: [role], sub: client.id, ...bound })
    if (role === 'operator') expect(claims).not.toHaveProperty('tenant_id')
    const as = bearer(body['access_token'])
    const reply = await ok(call('GET', path, { as }))
    if (path === '/v1/workspaces') expect(JSON.stringify(reply)).not.toContain(other.workspaceId)
    if (role !== 'operator') expect((await call('POST', '/v1/tenants', { as, body: {} })).status).toBe(403)
  })

  test('machine: requests a code, another role or an MCP server: refused', async () => {
    const client = await make({ role: 'service', ...inWorkspace(workspace) })
    const mcpServer = await publishMcpServer(workspace, 'machines')
    expect((await askToken({ resource: mcpServer.url }, client)).body['error']).toBe('invalid_target')
    expect((await askToken({ grant_type: 'authorization_code', code: 'x' }, client)).status).toBe(400)
    const { body } = await askToken({ scope: 'operator', roles: 'operator' }, client)
    expect(claimsOf(body['access_token'])).toMatchObject({ roles: ['service'] })
    const page = `${inject('tenon').url}/auth/authorize?client_id=${client.id}&response_type=code`
    expect((await fetch(page, { redirect: 'manual' })).status).toBe(400)
  })

  test('machine: created: secret shown once; rotated: the new secret replaces it', async () => {
    const client = await make({ role: 'service', ...inWorkspace(workspace) })
    const seen = await ok(call('GET', `/v1/oauth-clients/${client.id}`, { as: callers.workspace }))
    const { data } = await ok(call('GET', '/v1/oauth-clients', { as: callers.workspace }))
    expect(JSON.stringify([seen, data])).not.toMatch(/secret/)
    expect(data.map((row: { client_id: string }) => row.client_id)).toContain(client.id)
    expect((await askToken({}, { ...client, secret: `${client.secret}x` })).status).toBe(401)
    const before = bearer((await askToken({}, client)).body['access_token'])
    await ok(call('GET', '/v1/collections', { as: before }))
    const rotated = await ok(
      call('POST', `/v1/oauth-clients/${client.id}/rotate-secret`, { as: callers.workspace, body: {} }),
    )
    // This process knows at once: the old secret and the tokens obtained with it are refused.
    expect((await askToken({}, client)).status).toBe(401)
    expect((await call('GET', '/v1/collections', { as: before })).body.code).toBe('token_invalid')
    const { body } = await askToken({}, { ...client, secret: rotated.client_secret })
    await ok(call('GET', '/v1/collections', { as: bearer(body['access_token']) }))
  })

  test('machine: deleted: no new tokens, existing tokens end', async () => {
    const client = await make({ role: 'service', ...inWorkspace(workspace) })
    const { body } = await askToken({}, client)
    const as = bearer(body['access_token'])
    expect((await call('GET', '/v1/collections', { as })).status).toBe(200)
    await ok(call('DELETE', `/v1/oauth-clients/${client.id}`, { as: callers.tenant }))
    const hasEnded = async () => {
      const { status } = await call('GET', '/v1/collections', { as })
      return status === 401 && (await askToken({}, client)).status === 401 ? true : undefined
    }
    await eventually(hasEnded, 6_000)
  })
})

test('machine: created repeatedly under one idempotency key: created once, secret of the last attempt is valid', async () => {
  const asks = [
    ['/v1/oauth-clients', { kind: 'machine', name: unique('n'), role: 'service', ...inWorkspace(workspace) }],
    ['/v1/accounts', { email: `${unique('k')}@example.test`, role: 'service', ...inWorkspace(workspace) }],
  ] as const
  for (const [path, body] of asks) {
    const key = unique('k')
    const first = await post(callers.operator, key, body, path)
    await simulateCrash(workspace, body)
    const again = await post(callers.operator, key, body, path)
    expect([again.status, again.body.id, again.body.client_id]).toEqual([
      201,
      first.body.id,
      first.body.client_id,
    ])
    if (path !== '/v1/oauth-clients') continue
    const client = { id: again.body.client_id, secret: again.body.client_secret }
    expect((await askToken({}, client)).status).toBe(200)
  }
})

describe('public client', () => {
  const make = (body: object, as: Caller = callers.operator) =>
    call('POST', '/v1/oauth-clients', {
      as,
      body: { kind: 'public', name: 'App', redirect_uris: [REDIRECT], ...body },
    })

  test.each([
    'http://app.test/callback',
    'https://app.test/callback#x',
    'https://user:x@app.test/',
    'https://app.test/a/../b',
    'HTTPS://APP.test/',
    'javascript:alert(1)',
    'data:text/html,x',
    '/callback',
    'https://*.app.test/',
    'http://127.0.0.1.evil.test/',
  ])('public client: redirect URI %s: refused', async (uri) => {
    const reply = await make({ redirect_uris: [uri] })
    expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed'])
  })

  test.each([
    ['with a role', { role: 'service' }],
    ['no redirect URI', { redirect_uris: [] }],
    ['same redirect URI twice', { redirect_uris: [REDIRECT, REDIRECT] }],
  ])('public client: %s: refused', async (_what, body) => {
    expect((await make(body)).status).toBe(400)
  })

  test('public client: no assignment given: that of its creator, except for operators', async () => {
    expect((await make({})).body).toMatchObject({ tenant_id: null, workspace_id: null, role: null })
    expect((await make({}, callers.tenant)).body).toMatchObject({ tenant_id: workspace.tenantId })
    expect((await make({}, callers.workspace)).status).toBe(400)
    const own = await make({ workspace_id: workspace.workspaceId }, callers.workspace)
    expect(own.body).toMatchObject(inWorkspace(workspace))
    expect(own.body).not.toHaveProperty('client_secret')
    expect((await make(inWorkspace(other), callers.tenant)).status).toBe(404)
    const as = callers.operator
    const rotate = await call('POST', `/v1/oauth-clients/${own.body.client_id}/rotate-secret`, {
      as,
      body: {},
    })
    expect(rotate.status).toBe(404)
  })

  test('public client: client credentials grant: refused', async () => {
    const { body } = await make({})
    const reply = await askToken({}, { id: body.client_id, secret: '' })
    expect(reply.status).toBeGreaterThanOrEqual(400)
    const plain = await fetch(`${inject('tenon').url}/auth/token`, {
      method: 'POST',
      body: new URLSearchParams({ grant_type: 'client_credentials', client_id: body.client_id }),
    })
    expect([plain.status, await plain.json()]).toMatchObject([400, { error: 'invalid_request' }])
  })
})
