/** Sweeps every operation with every kind of caller. An operation missing from the table fails it. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import { FLOW_SCHEMA_PATH } from '../../src/api/docs.ts'
import type { AnyOperation } from '../../src/core/operation.ts'
import { isReadScope } from '../../src/core/policy.ts'
import { OPERATIONS } from '../../src/features/index.ts'
import { SCOPES } from '../../src/features/key-operations.ts'
import {
  addTestWorkspaceWithStorage as addTestWorkspace,
  type Caller,
  call,
  createTestWorkspaceWithStorage as createTestWorkspace,
  dataTokenOf,
  type Reply,
  type TestWorkspace,
  tokenOf,
  userToken,
} from '../support/fixtures/tenants.ts'
import { startCachingProxy } from '../support/servers/caching-proxy.ts'
import { gatewayHeaders, identityHeaders } from '../support/stack/gateway.ts'
import type { Running } from '../support/stack/start.ts'
import { openCollectionsToAnon } from '../support/stack/workspace-settings.ts'
import { refusalOfUsers, USER_ROWS } from './end-users/user-rows.ts'
import { createSweepResources, ROWS, type World } from './sweep-rows.ts'
import { PAYLOAD } from './sweep-rows-flows.ts'

let ours: World
/** A workspace of the tenant, and one of another tenant. */
let elsewhere: readonly { readonly workspace: TestWorkspace; readonly as: Caller }[]
let callers: {
  operator: Caller
  otherTenantAdmin: Caller
  otherWorkspaceAdmin: Caller
  siblingWorkspaceAdmin: Caller
  service: Caller
  anon: Caller
  otherService: Caller
  otherGateway: Caller
  /** Data tokens of admins with all scopes, and one of ours with all that read. */
  otherDataToken: Caller
  siblingDataToken: Caller
  readingDataToken: Caller
  siblingService: Caller
  user: Caller
  otherUser: Caller
  siblingUser: Caller
}

beforeAll(async () => {
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const sibling = await addTestWorkspace(workspace)
  // Anon keys read what they can be given: users get nothing from it, and no cache keeps it.
  await Promise.all([workspace, other, sibling].map(openCollectionsToAnon))
  ours = await createSweepResources(workspace)
  const admin = (role: string, { tenantId, workspaceId }: TestWorkspace) =>
    tokenOf({ roles: [role], tenant_id: tenantId, workspace_id: workspaceId })
  callers = {
    operator: workspace.operator,
    otherTenantAdmin: await admin('tenant_admin', other),
    otherWorkspaceAdmin: await admin('workspace_admin', other),
    siblingWorkspaceAdmin: await admin('workspace_admin', sibling),
    service: workspace.service,
    anon: workspace.anon,
    otherService: other.service,
    otherGateway: gatewayHeaders(other),
    otherDataToken: await dataTokenOf(other),
    siblingDataToken: await dataTokenOf(sibling),
    readingDataToken: await dataTokenOf(workspace, SCOPES.filter(isReadScope)),
    siblingService: sibling.service,
    user: await userToken(workspace, 'mia'),
    otherUser: await userToken(other, 'mia'),
    siblingUser: await userToken(sibling, 'mia'),
  }
  elsewhere = [
    { workspace: sibling, as: callers.siblingWorkspaceAdmin },
    { workspace: other, as: callers.otherWorkspaceAdmin },
  ]
})

/** Each role of the structure below operators, at each place where a credential may hold it. */
const STRUCTURAL = (['tenant_admin', 'workspace_admin', 'developer', 'viewer'] as const).flatMap((role) =>
  (['our workspace', 'a sibling workspace', 'another workspace', 'our tenant', 'another tenant'] as const)
    .filter((of) => (of.endsWith('tenant') ? role !== 'workspace_admin' : role !== 'tenant_admin'))
    .map((of) => ({ role, of })),
)
type StructuralCaller = (typeof STRUCTURAL)[number]

const structuralTokens = new Map<StructuralCaller, Promise<Caller>>()
/** The tenants of their tokens. */
const ofTenant = new Map<Caller, string>()

/** Each has a subject of its own, which is what rate limits count. */
function structuralCaller(who: StructuralCaller): Promise<Caller> {
  const known = structuralTokens.get(who)
  if (known !== undefined) return known
  const [sibling, other] = elsewhere
  const at = who.of.startsWith('our ')
    ? ours.workspace
    : (who.of.includes('sibling') ? sibling : other)?.workspace
  if (at === undefined) throw new Error('the places of the sweep are missing')
  const place = {
    tenant_id: at.tenantId,
    ...(!who.of.endsWith('tenant') && { workspace_id: at.workspaceId }),
  }
  // Those of others see payloads, so that nothing but the place keeps ours from them.
  const roles = who.of.startsWith('our ') ? [who.role] : [who.role, 'payload_reader']
  const made = tokenOf({ sub: `${who.role} of ${who.of}`, roles, ...place })
  structuralTokens.set(who, made)
  return made.then((caller) => {
    ofTenant.set(caller, at.tenantId)
    return caller
  })
}

async function send(
  operation: AnyOperation,
  as: Caller,
  { at = inject('tenon'), world = ours }: { at?: Running; world?: World } = {},
): Promise<Reply> {
  const row = ROWS[operation.name]
  if (row === undefined) throw new Error(`${operation.name} is not in the sweep`)
  const body = row.body?.(world)
  const headers = row.headers?.(world) ?? {}
  const options = { as, at, headers, ...(body !== undefined && { body }) }
  const reply = await call(operation.http.method, row.path(world), options)
  if (operation.http.method !== 'HEAD') return reply
  // A response to HEAD has no body; the code is in a header.
  return { ...reply, body: { code: reply.headers.get('x-problem-code'), domain: operation.domain } }
}

/** Ids that no caller of another tenant may be shown, whether or not it sent them. */
function ids(): string[] {
  return [
    ours.keyId,
    ours.accountId,
    ours.clientId,
    ours.userId,
    ours.schemaId,
    ours.operationId,
    ours.documentId,
    ours.flowId,
    ours.executionId,
    ours.approvalId,
    ours.scheduleId,
    ours.webhookId,
    ours.eventTriggerId,
    ours.agentId,
    ours.functionId,
    ours.failing.functionId,
    ours.failing.runId,
    ours.uploadId,
    ours.removalId,
    ours.bulkChangeId,
    ours.workspace.tenantId,
  ]
}

test('tables of the sweep: list every operation once and nothing else (T39)', () => {
  const names = OPERATIONS.map(({ name }) => name).sort()
  expect(Object.keys(ROWS).sort()).toEqual(names)
  expect([...USER_ROWS].sort()).toEqual(names)
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

    test('invalid credential: 401, even next to a valid one', async () => {
      const broken = 'svc_service_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA00000000'
      const garbage = { authorization: 'Bearer garbage' }
      expect((await send(operation, { apikey: broken })).body.code).toBe('api_key_invalid')
      expect((await send(operation, garbage)).body.code).toBe('token_invalid')
      const good = { ...callers.operator, ...gatewayHeaders(ours.workspace) }
      expect((await send(operation, { ...good, apikey: broken })).status).toBe(401)
    })

    test('identity headers without the gateway secret: ignored', async () => {
      for (const guess of ['', 'guess', `${gatewayHeaders(ours.workspace)['x-gateway-secret']}x`]) {
        const headers = { ...identityHeaders(ours.workspace), 'x-gateway-secret': guess }
        expect((await send(operation, headers)).body.code).toBe('credentials_missing')
      }
    })

    test('wrong privilege domain: 403 that names the right one', async () => {
      if (operation.domain === 'any') return expect(operation.reach).toBe('caller')
      const { status, body } = await send(operation, data ? callers.operator : callers.service)
      expect([status, body.code, body.domain]).toEqual([403, 'privilege_domain_mismatch', operation.domain])
      const needed = data ? 'an API key' : `a token with the role ${operation.roles.join(' or ')}`
      // The response to HEAD has no body.
      if (operation.http.method !== 'HEAD') expect(body.detail).toContain(`send ${needed} `)
    })

    test.each(data ? STRUCTURAL : [])('$role of $of: opens no data', async (who) => {
      const { status, body } = await send(operation, await structuralCaller(who))
      expect([status, body.code]).toEqual([403, 'privilege_domain_mismatch'])
    })

    // What a role of ours may do, the tests of the operation show.
    test.each(data ? [] : STRUCTURAL)(
      '$role of $of: no more than its role, and nothing of ours',
      async (who) => {
        const as = await structuralCaller(who)
        if (operation.roles.includes(who.role)) {
          if (!who.of.startsWith('our ')) await expectNothingOfOurs(operation, as)
          return
        }
        const { status, body } = await send(operation, as)
        expect([status, body.code]).toEqual([403, 'forbidden'])
      },
    )

    test('lower role on data: 403', async () => {
      const least = operation.roles.at(-1) ?? ''
      if (!data || least === 'anon') return
      const { status, body } = await send(operation, callers.anon)
      expect([status, body.code]).toEqual([403, 'forbidden'])
    })

    test('key of another tenant: reaches nothing of ours', async () => {
      if (data) await expectNothingOfOurs(operation, callers.otherService)
    })

    test('other tenant through a gateway: reaches nothing of ours, data operations only', async () => {
      if (operation.domain !== 'structural_admin') return expectNothingOfOurs(operation, callers.otherGateway)
      expect((await send(operation, callers.otherGateway)).body.code).toBe('privilege_domain_mismatch')
    })

    test.each(['otherDataToken', 'siblingDataToken'] as const)(
      '%s: reaches nothing of ours, data operations only',
      async (who) => {
        const approves = operation.requiredScope === 'flows:approve'
        if (operation.domain !== 'structural_admin' && !approves)
          return expectNothingOfOurs(operation, callers[who])
        const code = approves ? 'insufficient_scope' : 'privilege_domain_mismatch'
        expect((await send(operation, callers[who])).body.code).toBe(code)
      },
    )

    test('data token with scopes that read: changes nothing', async () => {
      if (operation.domain === 'any' || isReadOnly(operation)) return
      const { status, body } = await send(operation, callers.readingDataToken)
      expect([status, body.code]).toEqual([403, data ? 'insufficient_scope' : 'privilege_domain_mismatch'])
    })

    test('key of another workspace of the tenant: reaches nothing of ours', async () => {
      if (data) await expectNothingOfOurs(operation, callers.siblingService)
    })

    // No collection of the sweep has rules for users: end-users/user-sweep.test.ts has such collections.
    test.each(['user', 'siblingUser', 'otherUser'] as const)(
      '%s: refused with 403, unless it is about the caller',
      async (who) => {
        const { status, body } = await send(operation, callers[who])
        const refusal = refusalOfUsers(name)
        if (refusal !== undefined) return expect([status, body.code]).toEqual([403, refusal])
        expect(operation.roles).toContain('user')
        if (operation.reach === 'caller') return expect(status).toBe(200)
        if (['collections.list', 'bulk_change.list'].includes(name))
          return expect([status, body.data]).toEqual([200, []])
        // A function that users may not invoke does not exist for them, nor does a run, a removal, a bulk change or an upload that another has started.
        if (
          /^(function\.(invoke|fetch)|invocation\.get_operation|object\.get_removal|bulk_change\.(get|cancel)|upload\.(head|append|delete))$/.test(
            name,
          )
        )
          return expect([status, body.code]).toEqual([404, 'not_found'])
        expect([status, body.code]).toEqual([403, 'forbidden'])
      },
    )

    async function expectNothingOfOurs(swept: AnyOperation, caller: Caller): Promise<void> {
      const foreign = ROWS[name]?.foreign
      const reply = await send(swept, caller)
      if (foreign === 'refused') return expect(reply.status).toBe(403)
      if (foreign === 'denied') return expect([reply.status, reply.body.code]).toEqual([403, 'AccessDenied'])
      if (foreign === 'not_found') {
        expect([reply.status, reply.body.code]).toEqual([404, 'not_found'])
        if (swept.http.method === 'HEAD') return
        const { request_id: _id, instance: _path, op_index: _op, ...rest } = reply.body
        return expect(Object.keys(rest).sort()).toEqual(['code', 'detail', 'hint', 'status', 'title', 'type'])
      }
      expect(reply.status).toBeLessThan(300)
      const text = JSON.stringify(reply.body)
      for (const id of ids().filter((mine) => !sameTenant(caller) || mine !== ours.workspace.tenantId)) {
        expect(text).not.toContain(id)
      }
    }
  },
)

/** True if a scope that reads is enough. */
const isReadOnly = ({ requiredScope = '' }: AnyOperation) => isReadScope(requiredScope)

const sameTenant = (caller: Caller) =>
  caller === callers.siblingService ||
  caller === callers.siblingDataToken ||
  ofTenant.get(caller) === ours.workspace.tenantId

test('every read, sent by caller after caller through a shared cache: answered as by the API, no reply is kept', async () => {
  const { operator, service, otherService, otherTenantAdmin, anon, user } = callers
  const reads = OPERATIONS.filter(({ http }) => http.method === 'GET' && http.reply !== 'feed')
  expect(reads.length).toBeGreaterThan(50)
  const cache = await startCachingProxy(inject('tenon').url)
  const at = { ...inject('tenon'), url: cache.url }
  try {
    for (const operation of reads) {
      const [owner, stranger] =
        operation.domain === 'structural_admin' ? [operator, otherTenantAdmin] : [service, otherService]
      const direct = (await send(operation, owner)).status
      // The owner comes first and last: neither its reply nor the refusal of a stranger is served to the next.
      const statuses = []
      for (const as of [owner, stranger, anon, user, {}, owner])
        statuses.push((await send(operation, as, { at })).status)
      expect([operation.name, statuses.at(0), statuses.at(-1)]).toEqual([operation.name, direct, direct])
    }
    expect([cache.kept, cache.hits]).toEqual([[], []])
    // What is the same for all callers is kept, so the cache works.
    for (const as of [service, otherService]) await call('GET', FLOW_SCHEMA_PATH, { as, at })
    expect([cache.kept, cache.hits]).toEqual([[FLOW_SCHEMA_PATH], [FLOW_SCHEMA_PATH]])
  } finally {
    cache.close()
  }
})

test.each(['tenant_admin', 'workspace_admin', 'developer', 'viewer'])(
  'every read by a %s who has started nothing, and may not see payloads: shows none',
  async (role) => {
    const { tenantId, workspaceId } = ours.workspace
    const as = await tokenOf({
      sub: `reads as ${role}`,
      roles: [role],
      tenant_id: tenantId,
      workspace_id: workspaceId,
    })
    const shows = async (operation: AnyOperation, caller: Caller) =>
      JSON.stringify((await send(operation, caller)).body).includes(PAYLOAD)
    const reads = OPERATIONS.filter(
      ({ reads, domain, roles }) =>
        reads && domain === 'structural_admin' && roles.some((one) => one === role),
    )
    const shown: string[] = []
    for (const operation of reads) if (await shows(operation, as)) shown.push(operation.name)
    expect(shown).toEqual([])
    // The operator of the tests has the right.
    const seen: string[] = []
    for (const operation of reads) if (await shows(operation, callers.operator)) seen.push(operation.name)
    expect(seen).toEqual(
      expect.arrayContaining([
        'approval.get',
        'approval.list',
        'execution.get',
        'function_run.get',
        'function_run.list',
      ]),
    )
  },
)

test('our ids, below a workspace of the caller: not found', async () => {
  const found: unknown[] = []
  let sent = 0
  for (const operation of OPERATIONS) {
    const path = ROWS[operation.name]?.path(ours) ?? ''
    if (!path.includes(ours.workspace.workspaceId) || !ids().some((id) => path.includes(id))) continue
    for (const { workspace, as } of elsewhere) {
      const { status, body } = await send(operation, as, { world: { ...ours, workspace } })
      sent += 1
      if (status !== 404) found.push([operation.name, status, body])
    }
  }
  expect(found).toEqual([])
  expect(sent).toBeGreaterThan(60)
})

test('after the sweep: our resources are unchanged', async () => {
  const { workspace, documentId, flowId, executionId, keyId, schemaId, functionId, bucket } = ours
  const stored = await call('GET', `/v1/objects/${bucket}/secrets/plan`, { as: workspace.service })
  expect([stored.status, stored.body]).toEqual([200, 'ours'])
  const upload = await call('HEAD', `/v1/uploads/${ours.uploadId}`, { as: workspace.service })
  expect([upload.status, upload.headers.get('upload-offset')]).toEqual([200, '0'])
  const document = await call('GET', `/v1/collections/secrets/documents/${documentId}`, {
    as: workspace.service,
  })
  expect(document.body).toMatchObject({ by: 'us', _version: 1 })
  const list = await call('GET', '/v1/collections/secrets/documents', { as: workspace.service })
  expect(list.body.data).toHaveLength(1)
  const as = workspace.operator
  expect((await call('GET', `${workspace.flows}/definitions/${flowId}`, { as })).body.name).toBe(
    'secret-flow',
  )
  expect((await call('GET', `${workspace.flows}/executions/${executionId}`, { as })).body.status).toBe(
    'completed',
  )
  const schedule = await call('GET', `${workspace.flows}/schedules/${ours.scheduleId}`, { as })
  expect(schedule.body).toMatchObject({ paused: false, last_run: null })
  const triggers = await call('GET', `${workspace.flows}/triggers`, { as })
  const webhook = triggers.body.data.find((one: { id: string }) => one.id === ours.webhookId)
  expect(webhook).toMatchObject({ kind: 'webhook', paused: false })
  expect((await call('GET', `/v1/api-keys/${keyId}`, { as })).body.status).toBe('active')
  expect((await call('GET', `/v1/accounts/${ours.accountId}`, { as })).body.status).toBe('invited')
  const user = await call('GET', `/v1/users/${ours.userId}`, { as })
  expect(user.body).toMatchObject({ name: 'ours', status: 'invited' })
  const client = await call('GET', `/v1/oauth-clients/${ours.clientId}`, { as })
  expect(client.body).toMatchObject({ name: 'ours', rotated_at: null })
  expect((await call('GET', `/v1/schemas/${schemaId}`, { as })).body.collection).toBe('declared')
  const invoked = await call('POST', `/v1/functions/${functionId}/invoke`, {
    as: workspace.service,
    body: {},
  })
  expect(invoked.body).toBe('ours')
  const server = await call('GET', `/v1/mcp/workspaces/${workspace.workspaceId}/servers/sweep`, { as })
  expect(server.body).toMatchObject({ name: 'Server sweep', state: 'published', latest_version: 1 })
  const source = await call('GET', `/v1/mcp/workspaces/${workspace.workspaceId}/sources/sweep`, { as })
  expect(source.body).toMatchObject({ name: 'sweep', tools: 1, state: 'ready' })
})

// audit-sweep.test.ts sends the rows of operations that change something.
test('rows of reading operations, sent by the owner: found, so that each 404 above has hidden something', async () => {
  const missing: unknown[] = []
  for (const operation of OPERATIONS.filter(({ reads }) => reads)) {
    // Sessions and consents are those of accounts and users, whom no credential here is of.
    if (operation.reach === 'caller' && ROWS[operation.name]?.foreign === 'refused') continue
    const isOfData = operation.domain === 'data_access'
    const ofData = isReadOnly(operation) ? [callers.service, callers.readingDataToken] : [callers.service]
    const owners = isOfData ? ofData : [callers.operator]
    for (const owner of owners) {
      const { status, body } = await send(operation, owner)
      if (status !== 200) missing.push([operation.name, status, body])
    }
  }
  expect(missing).toEqual([])
})
