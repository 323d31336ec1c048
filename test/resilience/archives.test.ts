/** Exports and imports whose worker is killed: another one begins the attempt anew, and nothing is missing or there twice. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { importInto, lines } from '../support/clients/ndjson.ts'
import { endOf, exportArchive, sendArchive, sendTenantArchive } from '../support/fixtures/archives.ts'
import {
  call,
  connectSuperuser,
  createTestWorkspaceWithStorage,
  eventually,
  withKeys,
} from '../support/fixtures/tenants.ts'
import { killServer, type SharedPlatform, sharedPlatform } from '../support/stack/own-platform.ts'

let own: SharedPlatform
beforeAll(async () => {
  own = await sharedPlatform(createTestWorkspaceWithStorage)
})
afterAll(() => own?.end())

const COUNT = 2_000

/** Begins an operation that waits for a table, does something meanwhile, and gives the table free. @returns the operation's id */
async function meanwhile<T extends { id: string }>(
  lock: string,
  begin: () => Promise<T>,
  step: string,
  act: (begun: T) => unknown,
): Promise<string> {
  const { workspace, started } = own
  const at = started.running
  const session = await connectSuperuser(at)
  await session.query('begin')
  await session.query(lock)
  const begun = await begin()
  const { id } = begun
  await eventually(async () => {
    const { body } = await call('GET', `/v1/operations/${id}`, { as: workspace.operator, at })
    return (
      body.steps.some(
        (one: { name: string; state: string }) => one.name === step && one.state === 'running',
      ) || undefined
    )
  })
  await eventually(async () => {
    const { rows } = await session.query('select 1 from pg_locks where not granted limit 1')
    return rows.length > 0 ? true : undefined
  })
  await act(begun)
  await session.query('rollback')
  await session.end()
  return id
}

async function killWhile(lock: string, begin: () => Promise<{ id: string }>, step: string) {
  const { workspace, started } = own
  const id = await meanwhile(lock, begin, step, () => killServer(started, 'worker'))
  return endOf(workspace, id, started.running)
}

test('worker killed while it exports, and while it imports: another goes on, and every document is there once', async () => {
  const { workspace, started } = own
  const at = started.running
  const { operator: as, service, tenantId, workspaceId } = workspace
  const documents = Array.from({ length: COUNT }, (_, n) => ({ n, text: 'x'.repeat(200) }))
  await importInto('notes', lines(...documents), { as: service, at })
  const exported = await killWhile(
    'lock table tenon.function_aliases in access exclusive mode',
    async () => (await call('POST', `/v1/workspaces/${workspaceId}/exports`, { as, at })).body,
    'write_archive',
  )
  expect([exported.state, exported.result.counts.documents]).toEqual(['succeeded', COUNT])
  const path = `/v1/tenants/${tenantId}/archives/${exported.id}`
  const archive = Buffer.from(await (await fetch(`${at.url}${path}`, { headers: as })).arrayBuffer())
  await own.forgetCrashes()
  const imported = await killWhile(
    'lock table tenon.documents in share row exclusive mode',
    async () => {
      const { body } = await sendArchive(workspace, archive, { at })
      // Until it is complete, nobody can use it.
      const key = { workspace_id: body.target, kind: 'service', name: 'early' }
      expect((await call('POST', '/v1/api-keys', { as, at, body: key })).status).toBe(409)
      return body
    },
    'restore_archive',
  )
  expect([imported.state, imported.result.counts.documents]).toEqual(['succeeded', COUNT])
  const copy = await withKeys(workspace, imported.target, at)
  const linesOf = async (caller: typeof service) =>
    (await call('GET', '/v1/collections/notes/export', { as: caller, at })).body
  expect(await linesOf(copy.service)).toBe(await linesOf(service))
})

test('workspace whose import is under way: deleted: nothing is left of it, and it is neither retried nor restored', async () => {
  const { workspace, started } = own
  const at = started.running
  const { operator: as, service, tenantId, workspaceId } = workspace
  const settings = { workspace_id: workspaceId, auth: { sign_up: 'invite' } }
  await call('POST', '/v1/services/configure', { as, at, body: settings })
  const user = { workspace_id: workspaceId, email: 'mia@example.com', name: 'Mia' }
  const { status, body } = await call('POST', '/v1/users', { as, at, body: user })
  expect([status, body]).toMatchObject([201, { email: user.email }])
  await importInto('drafts', lines({ n: 1 }), { as: service, at })
  const archive = await exportArchive(workspace, at)
  const statuses: number[] = []
  let made = ''
  await meanwhile(
    'lock table tenon.documents in share row exclusive mode',
    async () => (await sendArchive(workspace, archive, { at })).body,
    'restore_archive',
    async ({ target }: { id: string; target: string }) => {
      made = target
      const path = `/v1/workspaces/${target}`
      for (const [method, end] of [
        ['POST', '/retry'],
        ['DELETE', ''],
        ['POST', '/retry'],
        ['POST', '/restore'],
      ] as const)
        statuses.push((await call(method, `${path}${end}`, { as, at })).status)
    },
  )
  expect(statuses).toEqual([409, 202, 409, 409])
  const session = await connectSuperuser(at)
  const left = async () => {
    const { rows } = await session.query(
      `select (select state from tenon.workspaces where id = $2) as state,
        (select count(*)::int from tenon.users where tenant_id = $1) as users,
        (select count(*)::int from tenon.documents where workspace_id = $2) as documents`,
      [tenantId, made],
    )
    return rows[0]
  }
  await expect.poll(left).toEqual({ state: 'deleted', users: 1, documents: 0 })
  await session.end()
})

test('worker killed while it exports a tenant, and while it imports it: another goes on, and every document is there once', async () => {
  const { workspace, started } = own
  const at = started.running
  const { operator: as, service, tenantId } = workspace
  await importInto('tenant-notes', lines({ n: 1 }, { n: 2 }), { as: service, at })
  const { body: present } = await call('GET', `/v1/workspaces?tenant_id=${tenantId}`, { as, at })
  await own.forgetCrashes()
  const exported = await killWhile(
    'lock table tenon.function_aliases in access exclusive mode',
    async () => (await call('POST', `/v1/tenants/${tenantId}/exports`, { as, at })).body,
    'write_archive',
  )
  expect([exported.state, exported.result.counts.workspaces]).toEqual(['succeeded', present.data.length])
  const path = `/v1/tenants/${tenantId}/archives/${exported.id}`
  const archive = Buffer.from(await (await fetch(`${at.url}${path}`, { headers: as })).arrayBuffer())
  await own.forgetCrashes()
  const imported = await killWhile(
    'lock table tenon.documents in share row exclusive mode',
    async () => {
      const { body } = await sendTenantArchive(workspace, archive, { at })
      // Until it is complete, nobody can use it.
      expect((await call('POST', `/v1/tenants/${body.target}/exports`, { as, at })).status).toBe(409)
      return body
    },
    'restore_archive',
  )
  expect([imported.state, imported.result.counts]).toEqual(['succeeded', exported.result.counts])
  const made = await call('GET', `/v1/workspaces?tenant_id=${imported.target}`, { as, at })
  expect(made.body.data.map(({ slug }: { slug: string }) => slug).sort()).toEqual(
    present.data.map(({ slug }: { slug: string }) => slug).sort(),
  )
  const { slug } = (await call('GET', `/v1/workspaces/${workspace.workspaceId}`, { as, at })).body
  const { id } = made.body.data.find((one: { slug: string }) => one.slug === slug)
  const copy = await withKeys({ tenantId: imported.target, operator: as }, id, at)
  const linesOf = async (caller: typeof service) =>
    (await call('GET', '/v1/collections/tenant-notes/export', { as: caller, at })).body
  expect(await linesOf(copy.service)).toBe(await linesOf(service))
})
