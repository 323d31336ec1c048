/** Suspends tenants: state transitions, and refusal of every credential on every route in every process. */

import { v7 } from 'uuid'
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import type { TenantId } from '../../../src/core/tenant.ts'
import { QUEUES, type SuspensionInput } from '../../../src/core/work.ts'
import { count, deploy, post } from '../../support/clients/idempotency.ts'
import { closeSubscriptions, endOf, subscribeToEvents } from '../../support/clients/sse.ts'
import {
  publish,
  resume,
  resumeWorkspace,
  start,
  suspend,
  suspendWorkspace,
} from '../../support/fixtures/suspension.ts'
import {
  addTestWorkspace,
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type Reply,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'
import { gatewayHeaders } from '../../support/stack/gateway.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'
import { openTemporal } from '../../support/stack/temporal.ts'
import { openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'

let other: Node
beforeAll(async () => {
  other = await startInProcessNode()
})
afterAll(() => other?.close())
afterEach(closeSubscriptions)

const statusAndCode = ({ status, body }: Reply) => `${status} ${body.code ?? body.state ?? ''}`.trim()
const admin = ({ tenantId }: TestWorkspace) => tokenOf({ roles: ['tenant_admin'], tenant_id: tenantId })

describe('suspend and resume', () => {
  test('repeated: same response; shows reason, actor and time', async () => {
    const workspace = await createTestWorkspace()
    const first = await suspend(workspace, { reason: 'unpaid' })
    expect(statusAndCode(first)).toBe('200 suspended')
    expect(first.body).toMatchObject({ suspended_by: 'operator', suspended_reason: 'unpaid' })
    const again = await suspend(workspace, { reason: 'something else' })
    expect([again.status, again.body]).toEqual([200, first.body])
    const resumed = await resume(workspace)
    expect(resumed.body).toMatchObject({ state: 'active', suspended_at: null, suspended_reason: null })
    expect((await resume(workspace)).body).toEqual(resumed.body)
  })

  test('suspended by an admin, then by an operator: the operator holds it, and no admin ends that', async () => {
    const workspace = await createTestWorkspace()
    const as = await admin(workspace)
    const path = `/v1/workspaces/${workspace.workspaceId}`
    const suspendAs = (who: Caller, reason: string) =>
      call('POST', `${path}/suspend`, { as: who, body: { reason } })
    expect((await suspendAs(as, 'a pause')).body).toMatchObject({ suspended_by: 'tenant_admin' })
    const held = { state: 'suspended', suspended_by: 'operator', suspended_reason: 'unpaid' }
    expect((await suspendAs(workspace.operator, 'unpaid')).body).toMatchObject(held)
    // Of the same rank or below, nobody changes whose it is.
    expect((await suspendAs(as, 'a pause')).body).toMatchObject(held)
    expect(statusAndCode(await call('POST', `${path}/resume`, { as }))).toBe('403 forbidden')
    expect(statusAndCode(await call('DELETE', path, { as }))).toBe('403 forbidden')
    expect(statusAndCode(await call('POST', `${path}/resume`, { as: workspace.operator }))).toBe('200 active')
  })

  test('API node crashed after the request: the workflow makes the change; an outdated one makes none', async () => {
    const workspace = await createTestWorkspace()
    const { temporal, close } = openTemporal()
    const ref = { tenantId: workspace.tenantId as TenantId, workspaceId: '-' } as const
    const startSuspension = (after: number, to: SuspensionInput['to']) => {
      const input: SuspensionInput = { target: ref, to, after, by: 'operator', reason: null }
      const start = {
        definition: 'suspension',
        queue: QUEUES.provisioning,
        subject: 'suspension',
        uuid: v7(),
      }
      return temporal.workflowsOf(ref).start({ ...start, input, summary: 'test' })
    }
    const stateOf = async () =>
      (await call('GET', `/v1/tenants/${workspace.tenantId}`, { as: workspace.operator })).body.state
    try {
      await startSuspension(0, 'suspended')
      await eventually(async () => ((await stateOf()) === 'suspended' ? true : undefined))
      await resume(workspace)
      // Requested before the tenant was resumed.
      expect(await temporal.workflowsOf(ref).ended(await startSuspension(0, 'suspended'), 20_000)).toBe(true)
      expect(await stateOf()).toBe('active')
    } finally {
      await close()
    }
  })

  test.each(['provisioning', 'provisioning_failed', 'deleting', 'deleted'])(
    'tenant or workspace in state %s: refused',
    async (state) => {
      const workspace = await createTestWorkspace()
      for (const [table, id] of Object.entries({
        tenants: workspace.tenantId,
        workspaces: workspace.workspaceId,
      })) {
        await asSuperuser(`update tenon.${table} set state = $2 where id = $1`, [id, state])
        for (const verb of ['suspend', 'resume'])
          expect(
            statusAndCode(await call('POST', `/v1/${table}/${id}/${verb}`, { as: workspace.operator })),
          ).toBe(state === 'deleted' ? '404 not_found' : '409 state_conflict')
      }
    },
  )

  test('permissions: tenants by operators; workspaces also by tenant admins, unless suspended by an operator', async () => {
    const workspace = await createTestWorkspace()
    const as = await admin(workspace)
    expect(statusAndCode(await call('POST', `/v1/tenants/${workspace.tenantId}/suspend`, { as }))).toBe(
      '403 forbidden',
    )
    expect(statusAndCode(await suspendWorkspace(workspace, as))).toBe('200 suspended')
    expect(statusAndCode(await resumeWorkspace(workspace, as))).toBe('200 active')
    await suspendWorkspace(workspace, workspace.operator)
    expect(statusAndCode(await resumeWorkspace(workspace, as))).toBe('403 forbidden')
    expect(statusAndCode(await resumeWorkspace(workspace, workspace.operator))).toBe('200 active')
  })

  test('many concurrent requests: ends in the state requested last', async () => {
    const workspace = await createTestWorkspace()
    const sibling = await addTestWorkspace(workspace)
    await Promise.all(
      [workspace, sibling, workspace, sibling].flatMap((each) => [
        suspendWorkspace(each, workspace.operator),
        suspend(workspace),
        resumeWorkspace(each, workspace.operator),
        resume(workspace),
      ]),
    )
    const replies = [
      await resume(workspace),
      await resumeWorkspace(workspace, workspace.operator),
      await suspendWorkspace(sibling, workspace.operator),
    ]
    expect(replies.map(statusAndCode)).toEqual(['200 active', '200 active', '200 suspended'])
    expect((await call('GET', '/v1/collections', { as: workspace.service })).status).toBe(200)
    expect(statusAndCode(await call('GET', '/v1/collections', { as: sibling.service }))).toBe(
      '403 workspace_suspended',
    )
  })
})

/** Credentials of a tenant, each with routes of every class that it may use. */
async function credentialsWithRoutes(
  workspace: TestWorkspace,
): Promise<(readonly [string, Caller, readonly (readonly [string, string, unknown?])[]])[]> {
  const { tenantId: tenant_id, workspaceId: workspace_id } = workspace
  const data = [
    ['POST', '/v1/collections/things/documents', { n: 1 }],
    ['POST', '/v1/collections/things/query', {}],
    ['POST', '/v1/events/publish', { topic: 'a', data: 1 }],
    ['POST', '/v1/functions/one/invoke', {}],
    ['PUT', '/v1/objects/some-bucket/key', 'text'],
    ['GET', '/v1/objects/some-bucket'],
    ['GET', '/v1/collections/things/export'],
    ['POST', '/v1/collections/things/import', { n: 1 }],
  ] as const
  const reads = [
    ['GET', '/v1/collections/things/documents'],
    ['GET', '/v1/events/subscribe?topic=a'],
    ['GET', '/v1/analytics/query?metric=requests&window=1h'],
    ['GET', '/v1/me'],
  ] as const
  const inside = [
    ['GET', `${workspace.flows}/executions`],
    ['POST', `${workspace.flows}/definitions/sleeper/executions`, {}],
    ['GET', `/v1/mcp/workspaces/${workspace_id}/servers`],
    ['POST', '/v1/api-keys', { workspace_id, kind: 'anon', name: 'x' }],
    ['GET', `/v1/workspaces/${workspace_id}`],
  ] as const
  const tenants = [
    ['GET', `/v1/tenants/${tenant_id}`],
    ['POST', '/v1/workspaces', { name: 'X', slug: 'x', bucket: null }],
    ['GET', '/v1/operations'],
  ] as const
  const token = (roles: string[], bounds: object) => tokenOf({ roles, tenant_id, ...bounds })
  return [
    ['service key', workspace.service, [...data, ...reads]],
    ['anon key', workspace.anon, reads],
    ['service token', await token(['service'], { workspace_id }), [...data, ...reads]],
    ['gateway', gatewayHeaders({ tenantId: tenant_id, workspaceId: workspace_id }), [...data, ...reads]],
    ['token without roles', await token([], { workspace_id }), reads],
    ['workspace admin', await token(['workspace_admin'], { workspace_id }), inside],
    ['tenant admin', await token(['tenant_admin'], {}), [...tenants, ...inside]],
  ]
}

const sendTo = (
  as: Caller,
  [method, path, body]: readonly [string, string, unknown?],
  at = inject('tenon'),
) => call(method, path, { as, at, ...(body !== undefined && { body }) })

describe('suspended tenant', () => {
  test('every credential on every route: refused at once here, within 5 s by another process, accepted after resume', async () => {
    const workspace = await createTestWorkspace()
    await openCollectionsToAnon(workspace)
    await deploy(workspace, 'one', 'export default () => 1', { anon: true })
    await publish(workspace, 'sleeper', '  - sleep: { wait: { seconds: 1 } }\n')
    const callers = await credentialsWithRoutes(workspace)
    const neighbour = await createTestWorkspace()
    // Both processes cache the credentials.
    for (const [, as, [first]] of callers) if (first) await sendTo(as, first, other.at)
    for (const [, as, routes] of callers)
      for (const route of routes) expect((await sendTo(as, route)).body.code).not.toBe('tenant_suspended')
    await suspend(workspace)
    const here = async () => {
      for (const [name, as, routes] of callers)
        for (const route of routes)
          expect([name, route[1], statusAndCode(await sendTo(as, route))]).toEqual([
            name,
            route[1],
            '403 tenant_suspended',
          ])
    }
    const elsewhereRefused = eventually(async () => {
      const replies = await Promise.all(
        callers.map(async ([, as, [first]]) => first && sendTo(as, first, other.at)),
      )
      return replies.every((reply) => reply?.body.code === 'tenant_suspended') ? true : undefined
    }, 5_000)
    await Promise.all([here(), elsewhereRefused])
    for (const [name, as, routes] of callers)
      for (const route of routes)
        expect([name, statusAndCode(await sendTo(as, route, other.at))]).toEqual([
          name,
          '403 tenant_suspended',
        ])
    expect((await call('GET', '/v1/collections', { as: neighbour.service })).status).toBe(200)
    await resume(workspace)
    for (const [, as, routes] of callers)
      for (const route of routes) expect((await sendTo(as, route)).body.code).not.toBe('tenant_suspended')
    await eventually(async () => {
      const replies = await Promise.all(
        callers.map(async ([, as, [first]]) => first && sendTo(as, first, other.at)),
      )
      return replies.some((reply) => reply?.body.code === 'tenant_suspended') ? undefined : true
    }, 5_000)
  })

  test('operator: may read, may change nothing inside', async () => {
    const workspace = await createTestWorkspace()
    await publish(workspace, 'sleeper', '  - sleep: { wait: { seconds: 1 } }\n')
    await suspend(workspace)
    const as = workspace.operator
    const reads = [
      `${workspace.flows}/executions`,
      `${workspace.flows}/definitions/sleeper`,
      `/v1/tenants/${workspace.tenantId}`,
    ]
    for (const path of reads) expect((await call('GET', path, { as })).status).toBe(200)
    const path = `${workspace.flows}/definitions/sleeper/executions`
    expect(statusAndCode(await call('POST', path, { as, body: {} }))).toBe('403 tenant_suspended')
    const body = { tenant_id: workspace.tenantId, name: 'X', slug: 'x', bucket: null }
    expect(statusAndCode(await call('POST', '/v1/workspaces', { as, body }))).toBe('403 tenant_suspended')
    const inside = { workspace_id: workspace.workspaceId }
    const made = {
      '/v1/api-keys': { ...inside, kind: 'service', name: 'x' },
      '/v1/schemas': { ...inside, collection: 'c', store: 'document', schema: {} },
      '/v1/functions': { ...inside, name: 'f', source: 'export default () => 1' },
    }
    for (const [path, body] of Object.entries(made))
      expect([path, statusAndCode(await call('POST', path, { as, body }))]).toEqual([
        path,
        '403 tenant_suspended',
      ])
  })

  test('key revoked meanwhile: refused after resume', async () => {
    const workspace = await createTestWorkspace()
    const { workspaceId: workspace_id, operator: as } = workspace
    const made = await call('POST', '/v1/api-keys', {
      as,
      body: { workspace_id, kind: 'service', name: 'x' },
    })
    await suspend(workspace)
    expect((await call('DELETE', `/v1/api-keys/${made.body.id}`, { as })).status).toBe(200)
    await resume(workspace)
    const me = async () => statusAndCode(await call('GET', '/v1/me', { as: { apikey: made.body.key } }))
    await eventually(async () => ((await me()) === '401 api_key_revoked' ? true : undefined))
  })

  test('idempotent request: stored response withheld until resume', async () => {
    const workspace = await createTestWorkspace()
    const made = await post(workspace.service, 'k', { n: 1 })
    await suspend(workspace)
    expect(statusAndCode(await post(workspace.service, 'k', { n: 1 }))).toBe('403 tenant_suspended')
    await resume(workspace)
    const again = await post(workspace.service, 'k', { n: 1 })
    expect([again.status, again.body.id]).toEqual([201, made.body.id])
    expect(await count(workspace)).toBe(1)
  })

  test('event streams: end with the reason in both processes; those of other tenants and active siblings continue', async () => {
    const workspace = await createTestWorkspace()
    const [sibling, neighbour] = await Promise.all([addTestWorkspace(workspace), createTestWorkspace()])
    const token = await tokenOf({ tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId })
    const streams = await Promise.all([
      subscribeToEvents(workspace.service, 'topic=a'),
      subscribeToEvents(workspace.anon, 'topic=a', {}, other.at),
      subscribeToEvents(token, 'topic=a', {}, other.at),
    ])
    const [siblings, theirs] = await Promise.all([
      subscribeToEvents(sibling.service, 'topic=a', {}, other.at),
      subscribeToEvents(neighbour.service, 'topic=a', {}, other.at),
    ])
    await suspendWorkspace(workspace, workspace.operator)
    for (const stream of streams) expect(await endOf(stream, 5_000)).toBe('workspace_suspended')
    await suspend(workspace)
    expect(await endOf(siblings, 5_000)).toBe('tenant_suspended')
    const publish = { as: neighbour.service, body: { topic: 'a', data: 'still here' } }
    await call('POST', '/v1/events/publish', publish)
    await eventually(async () => theirs.find(({ data }) => data?.data === 'still here'))
    expect(theirs.some(({ event }) => event === 'end')).toBe(false)
  })
})

describe('suspended workspace', () => {
  test('own keys and tokens: refused; sibling works; tenant admin may read, not change', async () => {
    const workspace = await createTestWorkspace()
    const sibling = await addTestWorkspace(workspace)
    await publish(workspace, 'sleeper', '  - sleep: { wait: { seconds: 1 } }\n')
    const [as, token] = await Promise.all([
      admin(workspace),
      tokenOf({
        roles: ['workspace_admin'],
        tenant_id: workspace.tenantId,
        workspace_id: workspace.workspaceId,
      }),
    ])
    await suspendWorkspace(workspace, as)
    for (const caller of [workspace.service, workspace.anon])
      expect(statusAndCode(await call('GET', '/v1/collections/a/documents', { as: caller }))).toBe(
        '403 workspace_suspended',
      )
    expect(statusAndCode(await call('GET', `${workspace.flows}/executions`, { as: token }))).toBe(
      '403 workspace_suspended',
    )
    expect((await call('GET', `${workspace.flows}/executions`, { as })).status).toBe(200)
    const path = `${workspace.flows}/definitions/sleeper/executions`
    expect(statusAndCode(await call('POST', path, { as, body: {} }))).toBe('403 workspace_suspended')
    const body = { workspace_id: workspace.workspaceId, kind: 'anon', name: 'x' }
    expect(statusAndCode(await call('POST', '/v1/api-keys', { as, body }))).toBe('403 workspace_suspended')
    expect((await call('GET', '/v1/collections', { as: sibling.service })).status).toBe(200)
    await resumeWorkspace(workspace, as)
    expect((await call('GET', '/v1/collections', { as: workspace.service })).status).toBe(200)
    expect(await start(workspace, 'sleeper')).toMatch(/^run_/)
  })
})
