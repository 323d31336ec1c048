/** Settings of a workspace: each value with its source, changes tried without effect, conditions, and what the audit log keeps. */

import { beforeEach, expect, test } from 'vitest'
import { servicesOf } from '../../../src/access/internals.ts'
import { AdminScope } from '../../../src/access/scope.ts'
import { randomIds } from '../../../src/core/ids.ts'
import type { TenantId } from '../../../src/core/tenant.ts'
import { readSettings, writeSettings } from '../../../src/features/tenants/settings-store.ts'
import { configureServices } from '../../../src/features/tenants/workspace-settings.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'
import { openInProcessPlatform } from '../../support/stack/in-process-platform.ts'

let workspace: TestWorkspace
beforeEach(async () => {
  workspace = await createTestWorkspace()
})

interface Effective {
  readonly pointer: string
  readonly value: unknown
  readonly source: string
}

const configure = (body: object, headers = {}, of = workspace) =>
  call('POST', '/v1/services/configure', {
    ...{ as: of.operator, headers, body: { workspace_id: of.workspaceId, ...body } },
  })
const read = (of = workspace) =>
  call('GET', `/v1/services?workspace_id=${of.workspaceId}`, { as: of.operator })
const settingOf = (body: { effective: Effective[] }, pointer: string) =>
  body.effective.find((setting) => setting.pointer === pointer)

test('settings of a new workspace: all have their default, and each is listed', async () => {
  const { body, headers } = await read()
  expect(headers.get('etag')).toMatch(/^"[\w-]{22}"$/)
  expect(new Set(body.effective.map(({ source }: Effective) => source))).toEqual(new Set(['default']))
  expect(settingOf(body, '/anon/collections')).toEqual({
    ...{ pointer: '/anon/collections', value: 'none', source: 'default' },
  })
  expect(settingOf(body, '/retention/executions')?.value).toBeNull()
  expect(settingOf(body, '/tenant/retention/audit')?.value).toMatch(/d$/)
})

/** Members of the request that are no settings. */
const ARGUMENTS = ['/workspace_id', '/dry_run', '/if_match']
/** These are set, and shown, as a whole. */
const WHOLE = ['/auth/branding', '/retention/archive']

interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>
  readonly anyOf?: readonly Shape[]
}

/** The pointers of all members of a schema that have no members themselves. */
function leavesOf(schema: Shape, pointer = ''): string[] {
  const { properties } = [schema, ...(schema.anyOf ?? [])].find((one) => one.properties !== undefined) ?? {}
  if (properties === undefined || WHOLE.includes(pointer)) return [pointer]
  return Object.entries(properties).flatMap(([name, member]) => leavesOf(member, `${pointer}/${name}`))
}

test('settings one by one: exactly those that the schema of the request can set', async () => {
  const settable = leavesOf(configureServices.input as Shape).filter((one) => !ARGUMENTS.includes(one))
  expect(settable.length).toBeGreaterThan(20)
  expect((await read()).body.effective.map(({ pointer }: Effective) => pointer).toSorted()).toEqual(
    settable.toSorted(),
  )
})

test('changed settings: their source is the workspace or the tenant, of which a sibling has those of the tenant', async () => {
  const sibling = await addTestWorkspace(workspace)
  await configure({
    ...{ anon: { events: 'none' }, retention: { executions: '40d' } },
    tenant: { retention: { audit: '400d' } },
  })
  const own = (await read()).body
  const other = (await read(sibling)).body
  expect(settingOf(own, '/anon/events')).toMatchObject({ value: 'none', source: 'workspace' })
  expect(settingOf(own, '/anon/objects')).toMatchObject({ value: 'none', source: 'default' })
  expect(settingOf(own, '/retention/executions')).toMatchObject({ value: '40d', source: 'workspace' })
  expect(settingOf(other, '/tenant/retention/audit')).toMatchObject({ value: '400d', source: 'tenant' })
  expect(settingOf(other, '/retention/executions')).toMatchObject({ value: null, source: 'default' })
})

test('dry_run: says what would change with all warnings, and changes nothing', async () => {
  const before = await read()
  const tried = await configure({ anon: { collections: 'read' }, cors: { origins: [] }, dry_run: true })
  expect([tried.status, tried.body.dry_run]).toEqual([200, true])
  expect(tried.body.changes).toEqual([
    { pointer: '/anon/collections', before: 'none', after: 'read' },
    { pointer: '/cors/origins', before: ['*'], after: [] },
  ])
  expect(tried.body.anon.collections).toBe('read')
  expect(tried.body.warnings).toHaveLength(1)
  expect(await read()).toMatchObject({ body: before.body })
  const refused = await configure({ retention: { executions: '1s' }, dry_run: true })
  expect(refused.status).toBe(400)
})

test('If-Match: changes the settings that were read, and no others', async () => {
  const tag = (await read()).headers.get('etag') ?? ''
  const first = await configure({ anon: { events: 'none' } }, { 'if-match': tag })
  expect([first.status, first.body.changes]).toEqual([
    200,
    [{ pointer: '/anon/events', before: 'workspace', after: 'none' }],
  ])
  expect(first.headers.get('etag')).toBe((await read()).headers.get('etag'))
  const second = await configure({ anon: { events: 'workspace' } }, { 'if-match': tag })
  expect([second.status, second.body.code]).toEqual([412, 'precondition_failed'])
  expect((await read()).body.anon.events).toBe('none')
})

test('changes at the same time: none is lost', async () => {
  const pages = Array.from({ length: 10 }, (_, n) =>
    configure({ experimental: n % 2 === 0 ? ['mcp.images'] : ['mcp.flow_tools'] }),
  )
  const rules = (['read', 'write', 'delete'] as const).map((right) =>
    configure({ objects: { user: { [right]: [`${right}/`] } } }),
  )
  const replies = await Promise.all([...pages, ...rules])
  expect(replies.map(({ status }) => status)).toEqual(Array(replies.length).fill(200))
  const { user } = (await read()).body.objects
  expect(user).toEqual({ read: ['read/'], write: ['write/'], delete: ['delete/'] })
})

test('audit log: has the values before and after, without secrets; of a dry run, that it was one', async () => {
  await configure({ anon: { events: 'none' } })
  await configure({ anon: { events: 'workspace' }, dry_run: true })
  const admin = await tokenOf({ roles: ['tenant_admin'], tenant_id: workspace.tenantId })
  const { body } = await call('GET', '/v1/audit', { as: admin })
  const own = body.data.filter(({ operation }: { operation: string }) => operation === 'service.configure')
  expect(own.map(({ detail }: { detail: object }) => detail)).toEqual(
    expect.arrayContaining([{ '/anon/events': '"workspace" → "none"' }, { dry_run: 'true' }]),
  )
})

test('periods of the tenant, set at the same time by way of two workspaces: the second sees the first', async () => {
  const sibling = await addTestWorkspace(workspace)
  const tag = (await read(sibling)).headers.get('etag') ?? ''
  await configure({ tenant: { retention: { audit: '400d' } } })
  const late = await configure({ tenant: { retention: { operations: '90d' } } }, { 'if-match': tag }, sibling)
  expect([late.status, late.body.code]).toEqual([412, 'precondition_failed'])
  expect((await read(sibling)).body.tenant.retention).toEqual({ audit: '400d' })
})

test('settings of sign-in that a rotation of the master key has encrypted again meanwhile: are not written as they were read', async () => {
  const platform = openInProcessPlatform()
  try {
    const { tenantId, workspaceId } = workspace as { tenantId: TenantId; workspaceId: string }
    const actor = { subject: 'test', role: 'operator' } as const
    const scope = AdminScope.open(actor, { tenantId }, servicesOf(platform.access), randomIds)
    await configure({ auth: { sign_up: 'open' } })
    const read = await readSettings(scope, workspaceId)
    // As a rotation does, which raises no version.
    await asSuperuser(
      `update tenon.services set auth = auth || '{"resealed": true}' where workspace_id = $1`,
      [workspaceId],
    )
    expect(await writeSettings(scope, read, { auth: read.stored.auth })).toBe(false)
    expect(await writeSettings(scope, read, { cors_origins: ['https://example.test'] })).toBe(true)
  } finally {
    await platform.close()
  }
})
