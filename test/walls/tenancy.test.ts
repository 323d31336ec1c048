/** The sweep: every operation × every kind of caller. An operation that is not in the table fails it. */

import { beforeAll, describe, expect, test } from 'vitest'
import type { AnyOperation } from '../../src/core/operation.ts'
import { OPERATIONS } from '../../src/resources/index.ts'
import {
  aRoom,
  aWorkspace,
  type Caller,
  call,
  type Reply,
  type Room,
  tokenOf,
  unique,
} from '../support/tenants.ts'

/** How a caller from elsewhere, of the right domain and role, is answered when it names things of ours. */
type Foreign =
  /** As if it were not there. */
  | 'not_found'
  /** A list of its own things: none of ours is in it. */
  | 'own_list'
  /** It makes or reads something of its own; ours stays as it is. */
  | 'own_thing'
  /** The role alone refuses it. */
  | 'refused'

interface Row {
  readonly path: (world: World) => string
  readonly body?: (world: World) => unknown
  readonly foreign: Foreign
}

interface World {
  readonly room: Room
  readonly keyId: string
  readonly operationId: string
  readonly documentId: string
  readonly flowId: string
  readonly executionId: string
  readonly functionId: string
}

const SOURCE = (name: string) =>
  `document:\n  dsl: '1.0.3'\n  namespace: test\n  name: ${name}\n  version: '1.0.0'\ndo:\n  - hello:\n      set: { ok: true }\n`

const ROWS: Readonly<Record<string, Row>> = {
  'tenant.create': {
    path: () => '/v1/tenants',
    body: () => ({ name: 'X', slug: unique('x') }),
    foreign: 'refused',
  },
  'tenant.get': { path: ({ room }) => `/v1/tenants/${room.tenantId}`, foreign: 'not_found' },
  'tenant.list': { path: () => '/v1/tenants', foreign: 'own_list' },
  'workspace.create': {
    path: () => '/v1/workspaces',
    body: ({ room }) => ({ tenant_id: room.tenantId, name: 'X', slug: unique('x') }),
    foreign: 'not_found',
  },
  'workspace.get': { path: ({ room }) => `/v1/workspaces/${room.workspaceId}`, foreign: 'not_found' },
  'workspace.list': { path: ({ room }) => `/v1/workspaces?tenant_id=${room.tenantId}`, foreign: 'own_list' },
  'api_key.create': {
    path: () => '/v1/api-keys',
    body: ({ room }) => ({ workspace_id: room.workspaceId, kind: 'anon', name: 'x' }),
    foreign: 'not_found',
  },
  'api_key.get': { path: ({ keyId }) => `/v1/api-keys/${keyId}`, foreign: 'not_found' },
  'api_key.list': {
    path: ({ room }) => `/v1/api-keys?workspace_id=${room.workspaceId}`,
    foreign: 'own_list',
  },
  'api_key.revoke': { path: ({ keyId }) => `/v1/api-keys/${keyId}`, foreign: 'not_found' },
  'operation.get': { path: ({ operationId }) => `/v1/operations/${operationId}`, foreign: 'not_found' },
  'operation.list': { path: () => '/v1/operations', foreign: 'own_list' },
  'collection.create': {
    path: () => '/v1/collections/secrets/documents',
    body: () => ({ by: 'somebody' }),
    foreign: 'own_thing',
  },
  'collection.get': {
    path: ({ documentId }) => `/v1/collections/secrets/documents/${documentId}`,
    foreign: 'not_found',
  },
  'collection.list': { path: () => '/v1/collections/secrets/documents', foreign: 'own_list' },
  'collection.update': {
    path: ({ documentId }) => `/v1/collections/secrets/documents/${documentId}`,
    body: () => ({ by: 'somebody' }),
    foreign: 'not_found',
  },
  'collection.delete': {
    path: ({ documentId }) => `/v1/collections/secrets/documents/${documentId}`,
    foreign: 'not_found',
  },
  'event.publish': {
    path: () => '/v1/events/publish',
    body: () => ({ topic: 'sweep', data: 1 }),
    foreign: 'own_thing',
  },
  'event.subscribe': { path: () => '/v1/events/subscribe?topic=sweep', foreign: 'own_list' },
  'function.create': {
    path: () => '/v1/functions',
    body: ({ room }) => ({
      workspace_id: room.workspaceId,
      name: unique('x'),
      source: 'export default () => 1',
    }),
    foreign: 'not_found',
  },
  'function.get': { path: ({ functionId }) => `/v1/functions/${functionId}`, foreign: 'not_found' },
  'function.list': {
    path: ({ room }) => `/v1/functions?workspace_id=${room.workspaceId}`,
    foreign: 'own_list',
  },
  'function.configure': {
    path: ({ functionId }) => `/v1/functions/${functionId}/config`,
    body: () => ({ timeout_ms: 5 }),
    foreign: 'not_found',
  },
  'function.delete': { path: ({ functionId }) => `/v1/functions/${functionId}`, foreign: 'not_found' },
  'function.invoke': {
    path: ({ functionId }) => `/v1/functions/${functionId}/invoke`,
    body: () => ({}),
    foreign: 'not_found',
  },
  'flow.list': { path: ({ room }) => `${room.flows}/definitions`, foreign: 'not_found' },
  'flow.create': {
    path: ({ room }) => `${room.flows}/definitions`,
    body: () => ({ source: SOURCE(unique('f')) }),
    foreign: 'not_found',
  },
  'flow.get': { path: ({ room, flowId }) => `${room.flows}/definitions/${flowId}`, foreign: 'not_found' },
  'flow.update': {
    path: ({ room, flowId }) => `${room.flows}/definitions/${flowId}`,
    body: () => ({ source: SOURCE('changed') }),
    foreign: 'not_found',
  },
  'flow.delete': { path: ({ room, flowId }) => `${room.flows}/definitions/${flowId}`, foreign: 'not_found' },
  'flow.validate': {
    path: ({ room }) => `${room.flows}/validate`,
    body: () => ({ source: SOURCE('x') }),
    foreign: 'not_found',
  },
  'flow_version.create': {
    path: ({ room, flowId }) => `${room.flows}/definitions/${flowId}/versions`,
    body: () => ({}),
    foreign: 'not_found',
  },
  'flow_version.list': {
    path: ({ room, flowId }) => `${room.flows}/definitions/${flowId}/versions`,
    foreign: 'not_found',
  },
  'flow_version.get': {
    path: ({ room, flowId }) => `${room.flows}/definitions/${flowId}/versions/1`,
    foreign: 'not_found',
  },
  'execution.create': {
    path: ({ room, flowId }) => `${room.flows}/definitions/${flowId}/executions`,
    body: () => ({ input: {} }),
    foreign: 'not_found',
  },
  'execution.get': {
    path: ({ room, executionId }) => `${room.flows}/executions/${executionId}`,
    foreign: 'not_found',
  },
  'execution.list': { path: ({ room }) => `${room.flows}/executions`, foreign: 'not_found' },
  'flow_execution.list': {
    path: ({ room, flowId }) => `${room.flows}/definitions/${flowId}/executions`,
    foreign: 'not_found',
  },
}

let ours: World
let callers: {
  operator: Caller
  tenantAdmin: Caller
  workspaceAdmin: Caller
  otherTenantAdmin: Caller
  otherWorkspaceAdmin: Caller
  siblingWorkspaceAdmin: Caller
  service: Caller
  anon: Caller
  otherService: Caller
  siblingService: Caller
}

beforeAll(async () => {
  const [room, other] = await Promise.all([aRoom(), aRoom()])
  const sibling = await aWorkspace(room)
  ours = await furnish(room)
  const admin = (role: string, { tenantId, workspaceId }: Room) =>
    tokenOf({ roles: [role], tenant_id: tenantId, workspace_id: workspaceId })
  callers = {
    operator: room.operator,
    tenantAdmin: await admin('tenant_admin', room),
    workspaceAdmin: await admin('workspace_admin', room),
    otherTenantAdmin: await admin('tenant_admin', other),
    otherWorkspaceAdmin: await admin('workspace_admin', other),
    siblingWorkspaceAdmin: await admin('workspace_admin', sibling),
    service: room.service,
    anon: room.anon,
    otherService: other.service,
    siblingService: sibling.service,
  }
})

async function furnish(room: Room): Promise<World> {
  const as = room.operator
  const key = await call('POST', '/v1/api-keys', {
    as,
    body: { workspace_id: room.workspaceId, kind: 'anon', name: 'x' },
  })
  const operations = await call('GET', '/v1/operations?page[size]=200', {
    as: await tokenOf({ roles: ['tenant_admin'], tenant_id: room.tenantId }),
  })
  const document = await call('POST', '/v1/collections/secrets/documents', {
    as: room.service,
    body: { by: 'us' },
  })
  const flow = await call('POST', `${room.flows}/definitions`, {
    as,
    body: { source: SOURCE('secret-flow') },
  })
  await call('POST', `${room.flows}/definitions/${flow.body.id}/versions`, { as, body: {} })
  const execution = await call('POST', `${room.flows}/definitions/${flow.body.id}/executions`, {
    as,
    body: { input: {} },
    headers: { prefer: 'wait=20' },
  })
  const deployed = await call('POST', '/v1/functions', {
    as,
    body: { workspace_id: room.workspaceId, name: 'secret-function', source: 'export default () => "ours"' },
  })
  return {
    room,
    keyId: key.body.id,
    operationId: operations.body.data[0].id,
    documentId: document.body.id,
    flowId: flow.body.id,
    executionId: execution.body.id,
    functionId: deployed.body.id,
  }
}

function send(operation: AnyOperation, as: Caller): Promise<Reply> {
  const row = ROWS[operation.name]
  if (row === undefined) throw new Error(`${operation.name} is not in the sweep`)
  const body = row.body?.(ours)
  return call(operation.http.method, row.path(ours), { as, ...(body !== undefined && { body }) })
}

/** Ids of ours that no foreign caller may ever be shown, whether or not it sent them. */
function ids(): string[] {
  const { keyId, operationId, documentId, flowId, executionId, functionId, room } = ours
  return [keyId, operationId, documentId, flowId, executionId, functionId, room.tenantId]
}

test('every operation is in the sweep, and nothing else is', () => {
  expect(Object.keys(ROWS).sort()).toEqual(OPERATIONS.map(({ name }) => name).sort())
})

describe.each(OPERATIONS.map((operation) => [operation.name, operation] as const))(
  '%s',
  (name, operation) => {
    const data = operation.domain === 'data_access'

    test('no credential: 401', async () => {
      const { status, body, headers } = await send(operation, {})
      expect([status, body.code]).toEqual([401, 'credentials_missing'])
      expect(headers.get('www-authenticate')).toContain('Bearer')
    })

    test('a broken credential: 401, also beside a good one', async () => {
      const broken = 'svc_service_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA00000000'
      const garbage = { authorization: 'Bearer garbage' }
      expect((await send(operation, { apikey: broken })).body.code).toBe('api_key_invalid')
      expect((await send(operation, garbage)).body.code).toBe('token_invalid')
      const good = data
        ? { 'x-tenant-id': ours.room.tenantId }
        : { authorization: callers.operator['authorization'] ?? '' }
      expect((await send(operation, { ...good, apikey: broken })).status).toBe(401)
    })

    test('client-sent identity headers are nobody', async () => {
      const { tenantId, workspaceId } = ours.room
      const headers = {
        'x-tenant-id': tenantId,
        'x-workspace-id': workspaceId,
        'x-auth-subject': 'me',
        'x-pg-role': 'service',
      }
      expect((await send(operation, headers)).status).toBe(401)
    })

    test('the wrong domain: 403 that names the right one', async () => {
      const { status, body } = await send(operation, data ? callers.operator : callers.service)
      expect([status, body.code, body.domain]).toEqual([403, 'privilege_domain_mismatch', operation.domain])
    })

    test('a lower role: 403', async () => {
      const lower = {
        operator: callers.tenantAdmin,
        tenant_admin: callers.workspaceAdmin,
        service: callers.anon,
      }
      const least = operation.roles.at(-1) ?? ''
      const caller = Object.hasOwn(lower, least) ? lower[least as keyof typeof lower] : undefined
      if (caller === undefined) return expect(['workspace_admin', 'anon']).toContain(least)
      const { status, body } = await send(operation, caller)
      expect([status, body.code]).toEqual([403, 'forbidden'])
    })

    test('another tenant', async () => {
      const caller = data
        ? callers.otherService
        : operation.roles.includes('tenant_admin')
          ? callers.otherTenantAdmin
          : callers.otherWorkspaceAdmin
      await elsewhere(operation, caller)
    })

    test('another workspace of the same tenant', async () => {
      if (!data && !operation.roles.includes('workspace_admin')) return expect(operation.reach).toBe('admin')
      await elsewhere(operation, data ? callers.siblingService : callers.siblingWorkspaceAdmin)
    })

    async function elsewhere(swept: AnyOperation, caller: Caller): Promise<void> {
      const foreign = ROWS[name]?.foreign
      const reply = await send(swept, caller)
      if (foreign === 'refused') return expect(reply.status).toBe(403)
      if (foreign === 'not_found') {
        expect([reply.status, reply.body.code]).toEqual([404, 'not_found'])
        const { request_id: _id, instance: _path, ...rest } = reply.body
        return expect(Object.keys(rest).sort()).toEqual(['code', 'detail', 'hint', 'status', 'title', 'type'])
      }
      expect(reply.status).toBeLessThan(300)
      const text = JSON.stringify(reply.body)
      for (const id of ids().filter((mine) => !sameTenant(caller) || mine !== ours.room.tenantId)) {
        expect(text).not.toContain(id)
      }
    }
  },
)

const sameTenant = (caller: Caller) =>
  caller === callers.siblingService || caller === callers.siblingWorkspaceAdmin

test('after all of that, everything of ours is as it was', async () => {
  const { room, documentId, flowId, executionId, keyId, functionId } = ours
  const document = await call('GET', `/v1/collections/secrets/documents/${documentId}`, { as: room.service })
  expect(document.body).toMatchObject({ by: 'us', _version: 1 })
  const list = await call('GET', '/v1/collections/secrets/documents', { as: room.service })
  expect(list.body.data).toHaveLength(1)
  const as = room.operator
  expect((await call('GET', `${room.flows}/definitions/${flowId}`, { as })).body.name).toBe('secret-flow')
  expect((await call('GET', `${room.flows}/executions/${executionId}`, { as })).body.status).toBe('completed')
  expect((await call('GET', `/v1/api-keys/${keyId}`, { as })).body.status).toBe('active')
  const invoked = await call('POST', `/v1/functions/${functionId}/invoke`, { as: room.service, body: {} })
  expect(invoked.body).toBe('ours')
})
