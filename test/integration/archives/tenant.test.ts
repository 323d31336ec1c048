/** Exports a tenant and imports the archive: all of its workspaces come out together, or nothing does. */

import { afterEach, expect, test } from 'vitest'
import { importInto, lines } from '../../support/clients/ndjson.ts'
import { closeSubscriptions } from '../../support/clients/sse.ts'
import { post, tokenFor } from '../../support/fixtures/admins.ts'
import {
  endOf,
  expectNothingFired,
  exportArchive,
  exportTenantArchive,
  importTenantArchive,
  membersOf,
  sendArchive,
  sendTenantArchive,
} from '../../support/fixtures/archives.ts'
import { ArchiveEditor, sealed } from '../../support/fixtures/made-up-archives.ts'
import { publishScheduled } from '../../support/fixtures/schedules.ts'
import {
  asSuperuser,
  call,
  createTestWorkspaceWithStorage,
  eventually,
  provisionWorkspace,
  type Reply,
  type TestWorkspace,
  withKeys,
} from '../../support/fixtures/tenants.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

afterEach(closeSubscriptions)

async function ok(sent: Promise<Reply>) {
  const { status, body } = await sent
  if (status >= 300) throw new Error(JSON.stringify(body))
  return body
}

/** Flows by name, each with what starts it. */
const TRIGGERED = {
  ticks: '{ every: { seconds: 1 } }',
  hears: '{ on: { one: { with: { type: collections.notes.created } } } }',
  hooked: '{ webhook: {} }',
}

/** A tenant with two workspaces, of which each has documents, an object and a function with two versions. */
async function fillTenant(): Promise<Record<'shop' | 'lab', TestWorkspace>> {
  const first = await createTestWorkspaceWithStorage()
  const second = await withKeys(first, await provisionWorkspace(first, undefined, true))
  const named = { shop: first, lab: second }
  for (const [slug, workspace] of Object.entries(named)) {
    const { service: as, operator, workspaceId } = workspace
    await ok(call('PATCH', `/v1/workspaces/${workspaceId}`, { as: operator, body: { slug } }))
    const declared = { workspace_id: workspaceId, collection: 'notes', store: 'relational', schema: {} }
    await ok(call('POST', '/v1/schemas', { as: operator, body: declared }))
    const settings = { workspace_id: workspaceId, auth: { sign_up: 'invite' } }
    await ok(call('POST', '/v1/services/configure', { as: operator, body: settings }))
    const user = { workspace_id: workspaceId, email: `mia@${slug}.example`, name: 'Mia' }
    const { id: owner } = await ok(call('POST', '/v1/users', { as: operator, body: user }))
    await ok(importInto('notes', lines({ at: slug, _owner: owner }, { at: 'both' }), { as }))
    const headers = { 'content-type': 'text/plain' }
    const object = { as, headers, body: `bytes of ${slug}` }
    await ok(call('PUT', `/v1/objects/${await bucketOf(workspace)}/a.txt`, object))
    for (const n of [1, 2]) {
      const body = { workspace_id: workspaceId, name: 'count', source: `export default () => '${slug} ${n}'` }
      await ok(call('POST', '/v1/functions', { as: operator, body }))
    }
    await ok(
      call('PUT', `/v1/flows/workspaces/${workspaceId}/secrets/TOKEN`, {
        ...{ as: operator, body: { value: 'never written' } },
      }),
    )
  }
  return named
}

/** Lets a schedule each second, a webhook, and each new note start flows, and the latter the function. */
async function addTriggers(workspace: TestWorkspace): Promise<void> {
  const { operator: as, workspaceId } = workspace
  for (const [name, schedule] of Object.entries(TRIGGERED)) await publishScheduled(workspace, name, schedule)
  const [{ id }] = (await ok(call('GET', `/v1/functions?workspace_id=${workspaceId}`, { as }))).data
  const config = { schedule: { cron: '* * * * *' }, triggers: [{ topics: ['collections.notes.created'] }] }
  await ok(call('PUT', `/v1/functions/${id}/config`, { as, body: config }))
}

/** What can be compared of two workspaces. */
async function contentOf(workspace: TestWorkspace) {
  const { service: as, operator, workspaceId } = workspace
  const list = async (path: string) => (await ok(call('GET', path, { as: operator }))).data
  const object = await call('GET', `/v1/objects/${await bucketOf(workspace)}/a.txt`, { as })
  const [fn] = await list(`/v1/functions?workspace_id=${workspaceId}`)
  const versions = await list(`/v1/functions/${fn.id}/versions`)
  return {
    notes: (await call('GET', '/v1/collections/notes/export', { as })).body,
    object: [object.body, object.headers.get('etag'), object.headers.get('last-modified')],
    users: (await list(`/v1/users?workspace_id=${workspaceId}`)).map(
      ({ id, email }: Record<string, string>) => [...[id, email]],
    ),
    versions: versions.map(({ function_id, version, sha256 }: Record<string, unknown>) => [
      ...[function_id, version, sha256],
    ]),
  }
}

test('tenant with two workspaces: exported, purged and imported: documents, objects, users and versions are equal, it is shown as a whole, and nothing starts', async () => {
  const { shop, lab } = await fillTenant()
  const { operator: as, tenantId } = shop
  for (const workspace of [shop, lab]) await addTriggers(workspace)
  const tenant = { retention: { audit: '400d' } }
  await ok(call('POST', '/v1/services/configure', { as, body: { workspace_id: shop.workspaceId, tenant } }))
  const before = { shop: await contentOf(shop), lab: await contentOf(lab) }
  const archive = await exportTenantArchive(shop)
  await ok(call('DELETE', `/v1/tenants/${tenantId}?grace_days=0`, { as }))
  await eventually(
    async () => (await call('GET', `/v1/tenants/${tenantId}`, { as })).status === 404 || undefined,
    120_000,
  )
  const { workspaces, operation } = await importTenantArchive(shop, archive)
  const { shop: newShop, lab: newLab } = workspaces as Record<'shop' | 'lab', TestWorkspace>
  expect({ shop: await contentOf(newShop), lab: await contentOf(newLab) }).toEqual(before)
  expect(operation.result.counts).toMatchObject({
    workspaces: 2,
    documents: 4,
    objects: 2,
    function_versions: 4,
  })
  const services = await ok(call('GET', `/v1/services?workspace_id=${newShop.workspaceId}`, { as }))
  expect(services.tenant).toEqual(tenant)
  for (const made of [newShop, newLab]) {
    const triggers = (await ok(call('GET', `${made.flows}/triggers`, { as }))).data
    expect(triggers.map(({ paused }: { paused: boolean }) => paused)).toEqual([true, true, true])
    await expectNothingFired(made)
  }
  expect(operation.result.missing).toEqual(
    expect.arrayContaining([
      'workspace lab: secret TOKEN: set its value',
      'workspace lab: trigger cron of the function count: it is paused; resume it',
      'workspace shop: API key test (service): make a new one',
    ]),
  )
})

test('archive of a tenant: asked for by an admin of another tenant: neither exported nor downloaded nor imported; an admin of the tenant gets it', async () => {
  const owner = await createTestWorkspaceWithStorage()
  const other = await createTestWorkspaceWithStorage()
  const { operator, tenantId } = owner
  const adminOf = async ({ tenantId: tenant_id }: TestWorkspace) => {
    const client = { kind: 'machine', role: 'tenant_admin', name: 'admin', tenant_id, sees_payloads: true }
    return tokenFor(await post(operator, '/v1/oauth-clients', client))
  }
  const [ownAdmin, stranger] = [await adminOf(owner), await adminOf(other)]
  const exports = `/v1/tenants/${tenantId}/exports`
  expect((await call('POST', exports, { as: stranger })).status).toBe(404)
  const begun = await call('POST', exports, { as: ownAdmin })
  expect(begun.status).toBe(202)
  const again = await call('POST', exports, { as: ownAdmin })
  expect([202, 409]).toContain(again.status)
  expect((await endOf({ operator }, begun.body.id)).state).toBe('succeeded')
  const path = `/v1/tenants/${tenantId}/archives/${begun.body.id}`
  expect((await call('GET', path, { as: stranger })).status).toBe(404)
  expect((await call('GET', path, { as: ownAdmin })).status).toBe(200)
  const archive = await exportTenantArchive(owner)
  for (const as of [stranger, ownAdmin])
    expect((await sendTenantArchive({ operator: as }, archive)).status).toBe(403)
})

test('tenant with a workspace that is suspended: not exported', async () => {
  const owner = await createTestWorkspaceWithStorage()
  const { operator: as, tenantId, workspaceId } = owner
  await ok(call('POST', `/v1/workspaces/${workspaceId}/suspend`, { as, body: {} }))
  const { status, body } = await call('POST', `/v1/tenants/${tenantId}/exports`, { as })
  expect([status, body.code, body.detail]).toEqual([
    409,
    'state_conflict',
    expect.stringContaining('is suspended'),
  ])
})

test('archive of a tenant: with a slug that is taken, or sent as that of a workspace, or of a workspace as that of a tenant: refused, and nothing is made', async () => {
  const owner = await createTestWorkspaceWithStorage()
  const { operator: as, tenantId } = owner
  const archive = await exportTenantArchive(owner)
  const { slug } = await ok(call('GET', `/v1/tenants/${tenantId}`, { as }))
  const taken = await sendTenantArchive(owner, archive, { slug })
  expect([taken.status, taken.body.code]).toEqual([409, 'conflict'])
  const asWorkspace = await sendArchive(owner, archive)
  expect([asWorkspace.body.code, asWorkspace.body.detail]).toEqual([
    'archive_invalid',
    expect.stringContaining('POST /v1/tenants/imports'),
  ])
  const asTenant = await sendTenantArchive(owner, await exportArchive(owner))
  expect([asTenant.body.code, asTenant.body.detail]).toEqual([
    'archive_invalid',
    expect.stringContaining('POST /v1/tenants/{id}/imports'),
  ])
})

/** Archives of a tenant by what is wrong with them, each with what the problem has to say. */
const BAD: Readonly<Record<string, readonly [make: (edit: ArchiveEditor) => Buffer, detail: RegExp]>> = {
  'whose second workspace has a document that cannot be stored': [
    (edit) =>
      sealed(
        edit.changed(/^workspaces\/shop\/documents/, (text) =>
          text.replace(/"_owner":"[^"]*"/, '"_owner":5'),
        ),
      ),
    /workspaces\/shop\/documents\/notes\/000001\.ndjson.*line 1.*_owner/,
  ],
  'with a member of a workspace in front of its head': [
    (edit) => sealed(edit.contents().filter(({ name }) => name !== 'workspaces/lab/workspace.json')),
    /workspaces\/lab\/settings\.json.* comes before/,
  ],
  'with the slug of another workspace': [
    (edit) => sealed(edit.changed(/^workspaces\/lab\/workspace/, (text) => text.replace('"lab"', '"shop"'))),
    /workspaces\/lab\/workspace\.json.* another slug/,
  ],
  'with a workspace that comes again': [
    (edit) =>
      sealed([
        ...edit.contents(),
        ...edit.contents().filter(({ name }) => name.startsWith('workspaces/lab')),
      ]),
    /workspaces\/lab\/workspace\.json.* comes again/,
  ],
  'with documents of the tenant itself': [
    (edit) =>
      sealed(
        edit.added(/^settings/, { name: 'documents/notes/000001.ndjson', content: Buffer.from('{}\n') }),
      ),
    /documents\/notes.* no member has here/,
  ],
  'with an id of a workspace twice in one list': [
    (edit) => sealed(edit.changed(/^workspaces\/lab\/users/, (text) => `${text.trim()}\n${text}`)),
    /workspaces\/lab\/users\/000001\.ndjson.* twice/,
  ],
}

test('archives of a tenant that are wrong: imported: refused with the reason, and nothing is left but tombstones', async () => {
  const { shop, lab } = await fillTenant()
  const edit = new ArchiveEditor(membersOf(await exportTenantArchive(shop)))
  const made: string[] = []
  for (const [what, [make, detail]] of Object.entries(BAD)) {
    const sent = await sendTenantArchive(shop, make(edit))
    expect([what, sent.status]).toEqual([what, 202])
    const { state, error, target } = await endOf(shop, sent.body.id)
    expect([what, state, error.code, error.detail]).toEqual([
      ...[what, 'failed', 'archive_invalid', expect.stringMatching(detail)],
    ])
    made.push(target)
  }
  const left = () =>
    asSuperuser(
      `select t.id from tenon.tenants t where t.id = any($1) and (t.state <> 'deleted'
        or exists (select from tenon.workspaces w where w.tenant_id = t.id and w.state <> 'deleted')
        or exists (select from tenon.users u where u.tenant_id = t.id)
        or exists (select from tenon.buckets b where b.tenant_id = t.id))`,
      [made],
    )
  await eventually(async () => ((await left()).length === 0 ? true : undefined), 150_000)
  expect((await contentOf(lab)).users).toHaveLength(1)
})
