/** The table of the sweep: how each operation is called, and how a caller from another workspace is answered. */

import { call, type TestWorkspace, tokenOf, unique } from '../support/fixtures/tenants.ts'
import { DATA_ROWS, removeMany, uploadHeaders } from './sweep-rows-data.ts'
import { askApproval, createTrigger, FLOW_ROWS, HOOKED, PAYLOAD, SOURCE } from './sweep-rows-flows.ts'
import { createDeadLetter, type FailingFunction, FUNCTION_RUN_ROWS } from './sweep-rows-function-runs.ts'
import { MCP_ROWS, publishSweepServer } from './sweep-rows-mcp.ts'
import { SCHEMA_ROWS } from './sweep-rows-schemas.ts'
import { ACCOUNT_ROWS, inviteSweepUser, USER_ROWS } from './sweep-rows-users.ts'

/** How a caller from another workspace, with the right domain and role, is answered when it names our resources. */
type Foreign =
  /** As if it did not exist. */
  | 'not_found'
  /** A list of its own resources, without ours. */
  | 'own_list'
  /** It creates or reads its own resource; ours stays unchanged. */
  | 'own_thing'
  /** Refused by role. */
  | 'refused'
  /** The object store, not the API, refuses other workspaces: each has a session of its own. */
  | 'denied'

export interface Row {
  readonly path: (world: World) => string
  readonly body?: (world: World) => unknown
  /** Headers without which the request is not one of the operation. */
  readonly headers?: (world: World) => Readonly<Record<string, string>>
  readonly foreign: Foreign
}

export interface World {
  readonly workspace: TestWorkspace
  readonly keyId: string
  readonly accountId: string
  readonly clientId: string
  readonly userId: string
  readonly schemaId: string
  readonly operationId: string
  /** An export that has ended. */
  readonly exportId: string
  readonly documentId: string
  readonly flowId: string
  readonly executionId: string
  readonly approvalId: string
  readonly scheduleId: string
  readonly webhookId: string
  readonly eventTriggerId: string
  /** A client of the MCP server. */
  readonly agentId: string
  readonly bucket: string
  /** A host name that the workspace has claimed. */
  readonly host: string
  /** An upload of which no byte has come. */
  readonly uploadId: string
  /** A removal of objects that did not end within its request. */
  readonly removalId: string
  readonly bulkChangeId: string
  readonly functionId: string
  readonly failing: FailingFunction
}

/** A payload that claims to belong to the tenant. */
const encodedOf = (tenantId: string) => ({
  metadata: { encoding: btoa('binary/tenon-encrypted'), 'encryption-key-id': btoa(`${tenantId}.1`) },
  data: btoa('not what the key has made'),
})

export const ROWS: Readonly<Record<string, Row>> = {
  'me.get': { path: () => '/v1/me', foreign: 'own_thing' },
  // For accounts and users of the platform, which no caller of the sweep is.
  'me.list_sessions': { path: () => '/v1/me/sessions', foreign: 'refused' },
  'me.end_session': { path: () => '/v1/me/sessions/ses_1', foreign: 'refused' },
  'me.list_consents': { path: () => '/v1/me/consents', foreign: 'refused' },
  'me.end_consent': { path: () => '/v1/me/consents/x', foreign: 'refused' },
  'limits.get': { path: () => '/v1/limits', foreign: 'own_thing' },
  'status.get': { path: () => '/v1/status', foreign: 'own_thing' },
  'tenant.create': {
    path: () => '/v1/tenants',
    body: () => ({ name: 'X', slug: unique('x') }),
    foreign: 'refused',
  },
  'tenant.get': { path: ({ workspace }) => `/v1/tenants/${workspace.tenantId}`, foreign: 'not_found' },
  'tenant.drift': {
    path: ({ workspace }) => `/v1/tenants/${workspace.tenantId}/drift`,
    foreign: 'not_found',
  },
  'tenant.list': { path: () => '/v1/tenants', foreign: 'own_list' },
  'tenant.update': {
    path: ({ workspace }) => `/v1/tenants/${workspace.tenantId}`,
    body: () => ({ name: 'Y' }),
    foreign: 'refused',
  },
  'tenant.suspend': {
    path: ({ workspace }) => `/v1/tenants/${workspace.tenantId}/suspend`,
    foreign: 'refused',
  },
  'tenant.resume': {
    path: ({ workspace }) => `/v1/tenants/${workspace.tenantId}/resume`,
    foreign: 'refused',
  },
  'tenant.retry': { path: ({ workspace }) => `/v1/tenants/${workspace.tenantId}/retry`, foreign: 'refused' },
  'tenant.delete': { path: ({ workspace }) => `/v1/tenants/${workspace.tenantId}`, foreign: 'refused' },
  'tenant.restore': {
    path: ({ workspace }) => `/v1/tenants/${workspace.tenantId}/restore`,
    foreign: 'refused',
  },
  'workspace.create': {
    path: () => '/v1/workspaces',
    body: ({ workspace }) => ({ tenant_id: workspace.tenantId, name: 'X', slug: unique('x') }),
    foreign: 'not_found',
  },
  'workspace.get': {
    path: ({ workspace }) => `/v1/workspaces/${workspace.workspaceId}`,
    foreign: 'not_found',
  },
  'openapi.get': {
    path: ({ workspace }) => `/v1/workspaces/${workspace.workspaceId}/openapi.json`,
    foreign: 'not_found',
  },
  'workspace.list': {
    path: ({ workspace }) => `/v1/workspaces?tenant_id=${workspace.tenantId}`,
    foreign: 'own_list',
  },
  'workspace.update': {
    path: ({ workspace }) => `/v1/workspaces/${workspace.workspaceId}`,
    body: () => ({ name: 'Y' }),
    foreign: 'not_found',
  },
  'workspace.suspend': {
    path: ({ workspace }) => `/v1/workspaces/${workspace.workspaceId}/suspend`,
    foreign: 'not_found',
  },
  'workspace.resume': {
    path: ({ workspace }) => `/v1/workspaces/${workspace.workspaceId}/resume`,
    foreign: 'not_found',
  },
  'workspace.retry': {
    path: ({ workspace }) => `/v1/workspaces/${workspace.workspaceId}/retry`,
    foreign: 'not_found',
  },
  'workspace.delete': {
    path: ({ workspace }) => `/v1/workspaces/${workspace.workspaceId}`,
    foreign: 'not_found',
  },
  'workspace.restore': {
    path: ({ workspace }) => `/v1/workspaces/${workspace.workspaceId}/restore`,
    foreign: 'not_found',
  },
  'workspace.export': {
    path: ({ workspace }) => `/v1/workspaces/${workspace.workspaceId}/exports`,
    foreign: 'not_found',
  },
  'operation.get_archive': {
    path: ({ workspace, exportId }) => `/v1/tenants/${workspace.tenantId}/archives/${exportId}`,
    foreign: 'not_found',
  },
  'workspace.import': {
    path: ({ workspace }) => `/v1/tenants/${workspace.tenantId}/imports`,
    body: () => 'no archive',
    headers: () => ({ 'content-type': 'application/zstd' }),
    foreign: 'not_found',
  },
  'tenant.export': {
    path: ({ workspace }) => `/v1/tenants/${workspace.tenantId}/exports`,
    foreign: 'not_found',
  },
  'tenant.import': {
    path: () => '/v1/tenants/imports',
    body: () => 'no archive',
    headers: () => ({ 'content-type': 'application/zstd' }),
    foreign: 'refused',
  },
  'host.create': {
    path: ({ workspace }) => `/v1/workspaces/${workspace.workspaceId}/hosts`,
    body: () => ({ host: `${unique('x')}.example` }),
    foreign: 'not_found',
  },
  'host.list': {
    path: ({ workspace }) => `/v1/workspaces/${workspace.workspaceId}/hosts`,
    foreign: 'not_found',
  },
  'host.verify': {
    path: ({ workspace, host }) => `/v1/workspaces/${workspace.workspaceId}/hosts/${host}/verify`,
    body: () => ({}),
    foreign: 'not_found',
  },
  'host.delete': {
    path: ({ workspace, host }) => `/v1/workspaces/${workspace.workspaceId}/hosts/${host}`,
    foreign: 'not_found',
  },
  'data_token.create': {
    path: ({ workspace }) => `/v1/workspaces/${workspace.workspaceId}/data-token`,
    body: () => ({ scopes: ['collections:read'] }),
    foreign: 'not_found',
  },
  'api_key.create': {
    path: () => '/v1/api-keys',
    body: ({ workspace }) => ({ workspace_id: workspace.workspaceId, kind: 'anon', name: 'x' }),
    foreign: 'not_found',
  },
  'api_key.get': { path: ({ keyId }) => `/v1/api-keys/${keyId}`, foreign: 'not_found' },
  'api_key.list': {
    path: ({ workspace }) => `/v1/api-keys?workspace_id=${workspace.workspaceId}`,
    foreign: 'own_list',
  },
  'api_key.update': {
    path: ({ keyId }) => `/v1/api-keys/${keyId}`,
    body: () => ({ name: 'somebody' }),
    foreign: 'not_found',
  },
  'api_key.rotate': {
    path: ({ keyId }) => `/v1/api-keys/${keyId}/rotate`,
    body: () => ({}),
    foreign: 'not_found',
  },
  'api_key.revoke': { path: ({ keyId }) => `/v1/api-keys/${keyId}`, foreign: 'not_found' },
  ...ACCOUNT_ROWS,
  'oauth_client.create': {
    path: () => '/v1/oauth-clients',
    body: ({ workspace }) => ({
      workspace_id: workspace.workspaceId,
      kind: 'machine',
      role: 'service',
      name: 'x',
    }),
    foreign: 'not_found',
  },
  'oauth_client.get': { path: ({ clientId }) => `/v1/oauth-clients/${clientId}`, foreign: 'not_found' },
  'oauth_client.list': {
    path: ({ workspace }) => `/v1/oauth-clients?tenant_id=${workspace.tenantId}`,
    foreign: 'own_list',
  },
  'oauth_client.rotate_secret': {
    path: ({ clientId }) => `/v1/oauth-clients/${clientId}/rotate-secret`,
    body: () => ({}),
    foreign: 'not_found',
  },
  'oauth_client.delete': { path: ({ clientId }) => `/v1/oauth-clients/${clientId}`, foreign: 'not_found' },
  'issuer.rotate_keys': { path: () => '/v1/issuer/rotate-keys', body: () => ({}), foreign: 'refused' },
  'codec.decode': {
    path: () => '/v1/codec/decode',
    body: ({ workspace }) => ({ payloads: [encodedOf(workspace.tenantId)] }),
    foreign: 'own_list',
  },
  'codec.encode': {
    path: () => '/v1/codec/encode',
    body: ({ workspace }) => ({ payloads: [], tenant_id: workspace.tenantId }),
    foreign: 'not_found',
  },
  ...SCHEMA_ROWS,
  'operation.get': { path: ({ operationId }) => `/v1/operations/${operationId}`, foreign: 'not_found' },
  'operation.list': { path: () => '/v1/operations', foreign: 'own_list' },
  ...DATA_ROWS,
  'quota.set': {
    path: () => '/v1/quotas',
    body: ({ workspace }) => ({ workspace_id: workspace.workspaceId, limits: { documents: 0 } }),
    foreign: 'not_found',
  },
  'quota.get': {
    path: ({ workspace }) => `/v1/quotas?workspace_id=${workspace.workspaceId}`,
    foreign: 'not_found',
  },
  'service.configure': {
    path: () => '/v1/services/configure',
    body: ({ workspace }) => ({ workspace_id: workspace.workspaceId, experimental: ['mcp.flow_tools'] }),
    foreign: 'not_found',
  },
  'service.get': {
    path: ({ workspace }) => `/v1/services?workspace_id=${workspace.workspaceId}`,
    foreign: 'not_found',
  },
  // Refusals of other callers are logged with the ids that they sent.
  'audit.list': {
    path: ({ workspace }) => `/v1/audit?tenant_id=${workspace.tenantId}&outcome=done`,
    foreign: 'own_list',
  },
  'audit.verify': {
    path: ({ workspace }) => `/v1/audit/verify?tenant_id=${workspace.tenantId}`,
    foreign: 'not_found',
  },
  'analytics.metrics': { path: () => '/v1/analytics/metrics', foreign: 'own_thing' },
  'usage.list': {
    path: ({ workspace }) => `/v1/usage?tenant_id=${workspace.tenantId}`,
    foreign: 'own_list',
  },
  'usage.query': {
    path: ({ workspace }) => `/v1/usage/query?tenant_id=${workspace.tenantId}&metric=requests&window=5m`,
    foreign: 'own_list',
  },
  'analytics.query': { path: () => '/v1/analytics/query?metric=requests&window=5m', foreign: 'own_list' },
  'function.create': {
    path: () => '/v1/functions',
    body: ({ workspace }) => ({
      workspace_id: workspace.workspaceId,
      name: unique('x'),
      source: 'export default () => 1',
    }),
    foreign: 'not_found',
  },
  'function.get': { path: ({ functionId }) => `/v1/functions/${functionId}`, foreign: 'not_found' },
  'function.list': {
    path: ({ workspace }) => `/v1/functions?workspace_id=${workspace.workspaceId}`,
    foreign: 'own_list',
  },
  'function.configure': {
    path: ({ functionId }) => `/v1/functions/${functionId}/config`,
    body: () => ({ timeout: '5s' }),
    foreign: 'not_found',
  },
  'function_version.list': {
    path: ({ functionId }) => `/v1/functions/${functionId}/versions`,
    foreign: 'not_found',
  },
  'function_version.get': {
    path: ({ functionId }) => `/v1/functions/${functionId}/versions/1`,
    foreign: 'not_found',
  },
  'function_version.activate': {
    path: ({ functionId }) => `/v1/functions/${functionId}/versions/1/activate`,
    body: () => ({}),
    foreign: 'not_found',
  },
  'function_alias.list': {
    path: ({ functionId }) => `/v1/functions/${functionId}/aliases`,
    foreign: 'not_found',
  },
  'function_alias.get': {
    path: ({ functionId }) => `/v1/functions/${functionId}/aliases/production`,
    foreign: 'not_found',
  },
  'function_alias.set': {
    path: ({ functionId }) => `/v1/functions/${functionId}/aliases/production`,
    body: () => ({ version: 1 }),
    foreign: 'not_found',
  },
  'function_alias.delete': {
    path: ({ functionId }) => `/v1/functions/${functionId}/aliases/production`,
    foreign: 'not_found',
  },
  'function_trigger.list': {
    path: ({ functionId }) => `/v1/functions/${functionId}/triggers`,
    foreign: 'not_found',
  },
  'function.delete': { path: ({ functionId }) => `/v1/functions/${functionId}`, foreign: 'not_found' },
  'function.invoke': {
    path: ({ functionId }) => `/v1/functions/${functionId}/invoke`,
    body: () => ({}),
    foreign: 'not_found',
  },
  'function.fetch': { path: ({ functionId }) => `/v1/functions/${functionId}/http/`, foreign: 'not_found' },
  ...FUNCTION_RUN_ROWS,
  ...USER_ROWS,
  ...FLOW_ROWS,
  ...MCP_ROWS,
}

/** Creates one resource of each kind in a workspace. */
export async function createSweepResources(workspace: TestWorkspace): Promise<World> {
  const as = workspace.operator
  const key = await call('POST', '/v1/api-keys', {
    as,
    body: { workspace_id: workspace.workspaceId, kind: 'anon', name: 'x' },
  })
  const host = `${unique('ours')}.example`
  await call('POST', `/v1/workspaces/${workspace.workspaceId}/hosts`, { as, body: { host } })
  const schema = await call('POST', '/v1/schemas', {
    as,
    body: { workspace_id: workspace.workspaceId, collection: 'declared', store: 'relational', schema: {} },
  })
  const operations = await call('GET', '/v1/operations?page[size]=200', {
    as: await tokenOf({ roles: ['tenant_admin'], tenant_id: workspace.tenantId }),
  })
  const exported = await call('POST', `/v1/workspaces/${workspace.workspaceId}/exports`, {
    as,
    headers: { prefer: 'wait=20' },
  })
  const document = await call('POST', '/v1/collections/secrets/documents', {
    as: workspace.service,
    body: { by: 'us' },
  })
  for (const collection of ['dropped', 'truncated', 'renamed'])
    await call('POST', `/v1/collections/${collection}/documents`, { as: workspace.service, body: {} })
  const bulkChange = await call('POST', '/v1/collections/secrets/update-many', {
    as: workspace.service,
    body: { filter: { by: 'nobody' }, data: { by: 'us' } },
  })
  const flow = await call('POST', `${workspace.flows}/definitions`, {
    as,
    body: { source: SOURCE('secret-flow') },
  })
  await call('POST', `${workspace.flows}/definitions/${flow.body.id}/versions`, { as, body: {} })
  const alias = `${workspace.flows}/definitions/${flow.body.id}/aliases/production`
  await call('PUT', alias, { as, body: { version: 1 } })
  const execution = await call('POST', `${workspace.flows}/definitions/${flow.body.id}/executions`, {
    as,
    body: { input: { text: PAYLOAD } },
    headers: { prefer: 'wait=20' },
  })
  const schedules = await call('GET', `${workspace.flows}/schedules`, { as })
  await call('POST', `${workspace.flows}/definitions`, { as, body: { source: HOOKED } })
  const hooked = await call('POST', `${workspace.flows}/definitions/hooked/versions`, { as, body: {} })
  const agentId = await publishSweepServer(workspace)
  const { bucket } = (await call('GET', `/v1/workspaces/${workspace.workspaceId}`, { as })).body
  await call('PUT', `/v1/objects/${bucket}/secrets/plan`, {
    as: workspace.service,
    body: 'ours',
    headers: { 'content-type': 'text/plain' },
  })
  const begun = await call('POST', '/v1/uploads', {
    as: workspace.service,
    headers: uploadHeaders(bucket),
  })
  const deployed = await call('POST', '/v1/functions', {
    as,
    body: {
      workspace_id: workspace.workspaceId,
      name: 'secret-function',
      source: 'export default () => "ours"\nexport const fetch = () => new Response("ours")',
    },
  })
  await call('PUT', `/v1/functions/${deployed.body.id}/aliases/production`, { as, body: { version: 1 } })
  const bound = { tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId, role: 'service' }
  const account = await call('POST', '/v1/accounts', {
    as,
    body: { ...bound, email: `${unique('a')}@example.test` },
  })
  const client = await call('POST', '/v1/oauth-clients', {
    as,
    body: { ...bound, kind: 'machine', name: 'ours' },
  })
  return {
    workspace,
    bucket,
    uploadId: begun.headers.get('location')?.split('/').at(-1) ?? '',
    removalId: await removeMany(workspace, bucket),
    bulkChangeId: bulkChange.body.id,
    keyId: key.body.id,
    accountId: account.body.id,
    clientId: client.body.client_id,
    userId: await inviteSweepUser(workspace),
    schemaId: schema.body.id,
    operationId: operations.body.data[0].id,
    exportId: exported.body.id,
    documentId: document.body.id,
    flowId: flow.body.id,
    executionId: execution.body.id,
    approvalId: await askApproval(workspace),
    scheduleId: schedules.body.data[0].id,
    webhookId: hooked.body.webhooks[0].id,
    eventTriggerId: await createTrigger(workspace),
    agentId,
    functionId: deployed.body.id,
    host,
    failing: await createDeadLetter(workspace),
  }
}
