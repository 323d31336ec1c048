/** GET /v1/me: describes any valid credential. */

import { beforeAll, expect, inject, test } from 'vitest'
import { callTool } from '../../support/clients/mcp.ts'
import {
  type Caller,
  call,
  createTestWorkspaceWithStorage,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'
import { gatewayHeaders } from '../../support/stack/gateway.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
let bucket: string
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
})

const me = async (as: Caller) => {
  const { status, body } = await call('GET', '/v1/me', { as })
  expect(status).toBe(200)
  return body
}

test('me: API key: its properties, without its text', async () => {
  const made = await call('POST', '/v1/api-keys', {
    as: workspace.operator,
    body: {
      workspace_id: workspace.workspaceId,
      kind: 'anon',
      name: 'x',
      expires_at: '2099-01-01T00:00:00.000Z',
    },
  })
  const { id, last4, key } = made.body
  const seen = await me({ apikey: key })
  expect(seen).toEqual({
    subject: id,
    kind: 'api_key',
    roles: ['anon'],
    domains: ['data_access'],
    tenant_id: workspace.tenantId,
    workspace_id: workspace.workspaceId,
    bucket,
    s3_endpoint: `${inject('tenon').url}/s3`,
    key: { id, kind: 'anon', last4, expires_at: '2099-01-01T00:00:00.000Z' },
    user: null,
    sees_payloads: false,
    scopes: [],
  })
  expect(JSON.stringify(seen)).not.toContain(key)
})

test('me: operator: one domain; token of a workspace: both; token without a role: none', async () => {
  expect(await me(workspace.operator)).toEqual({
    subject: inject('tenon').clientId,
    kind: 'token',
    roles: ['operator'],
    domains: ['structural_admin'],
    tenant_id: null,
    workspace_id: null,
    bucket: null,
    s3_endpoint: null,
    key: null,
    user: null,
    sees_payloads: true,
    scopes: [],
  })
  const { tenantId: tenant_id, workspaceId: workspace_id } = workspace
  const both = await tokenOf({ sub: 'ann', roles: ['tenant_admin', 'service'], tenant_id, workspace_id })
  expect(await me(both)).toMatchObject({
    subject: 'ann',
    roles: ['tenant_admin', 'service'],
    domains: ['structural_admin', 'data_access'],
    tenant_id,
    workspace_id,
    bucket,
  })
  expect(await me(await tokenOf({ sub: 'bob' }))).toMatchObject({ roles: [], domains: [], tenant_id: null })
})

test('me: gateway caller: data domain only', async () => {
  expect(await me(gatewayHeaders(workspace, 'anon'))).toEqual({
    subject: 'carol',
    kind: 'gateway',
    roles: ['anon'],
    domains: ['data_access'],
    tenant_id: workspace.tenantId,
    workspace_id: workspace.workspaceId,
    bucket,
    s3_endpoint: `${inject('tenon').url}/s3`,
    key: null,
    user: null,
    sees_payloads: false,
    scopes: [],
  })
})

test('me: platform MCP server: available as a tool', async () => {
  const reply = await callTool('/v1/mcp/platform/mcp', workspace.operator, 'me_get')
  expect(JSON.parse(reply.body.result.content[0].text)).toEqual(await me(workspace.operator))
})

test('me: no credential: 401', async () => {
  expect((await call('GET', '/v1/me')).body.code).toBe('credentials_missing')
  expect((await call('GET', '/v1/me', { as: { apikey: 'svc_anon_x' } })).body.code).toBe('api_key_invalid')
})
