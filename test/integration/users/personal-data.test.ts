/** Deletes users with everything that they have stored, and nothing of others. */

import { v7 } from 'uuid'
import { beforeAll, expect, test } from 'vitest'
import { servicesOf } from '../../../src/access/internals.ts'
import { AdminScope } from '../../../src/access/scope.ts'
import { randomIds, typeId } from '../../../src/core/ids.ts'
import type { TenantId, WorkspaceId } from '../../../src/core/tenant.ts'
import { USER_REMOVAL_STEP } from '../../../src/features/people/removal-steps.ts'
import { openAccount } from '../../support/clients/second-factors.ts'
import {
  addUser,
  createUserApp,
  type TestUser,
  type UserApp,
  userTokens,
} from '../../support/clients/users.ts'
import { publish, start } from '../../support/fixtures/suspension.ts'
import {
  addTestWorkspace,
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'
import { openInProcessPlatform } from '../../support/stack/in-process-platform.ts'
import { bucketOf, configure } from '../../support/stack/workspace-settings.ts'

const OPEN = { user: { read: { _owner: '$user.id' }, create: true, update: { _owner: '$user.id' } } }
const COLLECTIONS = { orders: 'relational', notes: 'document' } as const

let workspace: TestWorkspace
let bucket: string
let app: UserApp
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
  const { operator: as, workspaceId: workspace_id } = workspace
  for (const [collection, store] of Object.entries(COLLECTIONS))
    await ok(
      call('POST', '/v1/schemas', {
        as,
        body: { workspace_id, collection, store, schema: {}, access: OPEN },
      }),
    )
  app = await createUserApp(workspace, 'invite')
  await configure(workspace, {
    objects: {
      user: {
        read: ['all/', 'own/{user.id}/'],
        write: ['all/', 'own/{user.id}/', 'team/{user.claims.team}/'],
      },
    },
  })
})

async function ok(reply: ReturnType<typeof call>) {
  const { status, body } = await reply
  expect(status, JSON.stringify(body)).toBeLessThan(300)
  return body
}

/** A user with 250 documents in each collection, an object in a shared place and one in a place of its own. */
async function addPerson(): Promise<TestUser & { id: string; as: Caller }> {
  const { service } = workspace
  const user = await addUser(app)
  const { id } = user
  const as = { authorization: `Bearer ${(await userTokens(app, user)).body['access_token']}` }
  for (const collection of Object.keys(COLLECTIONS))
    for (const size of [200, 50]) {
      const ops = Array.from({ length: size }, (_, n) => ({ op: 'create', data: { n } }))
      await ok(call('POST', `/v1/collections/${collection}/batch`, { as, body: { ops } }))
    }
  await ok(call('PUT', `/v1/objects/${bucket}/all/${id}`, { as, body: 'x' }))
  // A key stores it for the user, who is not its owner.
  await ok(call('PUT', `/v1/objects/${bucket}/own/${id}/photo`, { as: service, body: 'x' }))
  await ok(call('PUT', `/v1/objects/${bucket}/team/red/${id}`, { as: service, body: 'x' }))
  return { ...user, as }
}

const remove = (id: string, query = '') =>
  call('DELETE', `/v1/users/${id}${query}`, { as: workspace.operator, headers: { prefer: 'wait=30' } })

test('user: deleted with its data: documents in both stores and objects are gone, those of another stay', async () => {
  const [person, other] = await Promise.all([addPerson(), addPerson()])
  const expected = { dry_run: true, documents: { notes: 250, orders: 250 }, objects: 2 }
  const counted = await remove(person.id, '?data=delete&dry_run=true')
  expect([counted.status, counted.body]).toEqual([200, { id: person.id, ...expected }])
  const { status, body } = await remove(person.id, '?data=delete')
  expect([status, body.type, body.target]).toEqual([202, 'user.delete', person.id])
  await eventually(async () => ((await remove(person.id, '?dry_run=true')).status === 404 ? true : undefined))
  expect((await call('GET', `/v1/operations/${body.id}`, { as: workspace.operator })).body.state).toBe(
    'succeeded',
  )
  for (const collection of Object.keys(COLLECTIONS)) {
    const query = { filter: { _owner: person.id }, count: 'exact' }
    const left = await call('POST', `/v1/collections/${collection}/query`, {
      as: workspace.service,
      body: query,
    })
    expect([collection, left.body.data]).toEqual([collection, []])
  }
  const keys = (await ok(call('GET', `/v1/objects/${bucket}`, { as: workspace.service }))).data.map(
    ({ key }: { key: string }) => key,
  )
  expect(keys.filter((key: string) => key.includes(person.id))).toEqual([`team/red/${person.id}`])
  expect((await remove(other.id, '?dry_run=true')).body).toEqual({ id: other.id, ...expected })
})

test('user to whose documents others refer: all else is deleted, the removal says what is in the way, and ends once it is gone', async () => {
  const { operator, workspaceId: workspace_id, service } = workspace
  const [topics, replies] = ['topics', 'replies']
  const fields = { properties: { to_id: { type: 'string', format: 'uuid' } } }
  const declared = { workspace_id, store: 'relational', schema: fields, access: OPEN }
  await ok(call('POST', '/v1/schemas', { as: operator, body: { ...declared, collection: topics } }))
  const references = [{ field: 'to_id', collection: topics }]
  await ok(
    call('POST', '/v1/schemas', { as: operator, body: { ...declared, collection: replies, references } }),
  )
  const user = await addUser(app)
  const as = { authorization: `Bearer ${(await userTokens(app, user)).body['access_token']}` }
  const create = async (collection: string, by: Caller, body = {}): Promise<string> =>
    (await ok(call('POST', `/v1/collections/${collection}/documents`, { as: by, body }))).id
  const [kept, free] = [await create(topics, as), await create(topics, as)]
  await create(replies, as, { to_id: free })
  const inTheWay = await create(replies, service, { to_id: kept })
  const ended = async () => {
    const { body } = await remove(user.id, '?data=delete')
    return eventually(async () => {
      const job = (await call('GET', `/v1/operations/${body.id}`, { as: operator })).body
      return ['failed', 'succeeded'].includes(job.state) ? job : undefined
    })
  }
  const failed = await ended()
  expect([failed.state, failed.error.detail]).toEqual(['failed', expect.stringContaining(topics)])
  const { body: left } = await call('GET', `/v1/collections/${topics}/documents`, { as: service })
  expect(left.data.map(({ id }: { id: string }) => id)).toEqual([kept])
  await ok(call('DELETE', `/v1/collections/${replies}/documents/${inTheWay}`, { as: service }))
  expect((await ended()).state).toBe('succeeded')
  const { body: none } = await call('GET', `/v1/collections/${topics}/documents`, { as: service })
  expect(none.data).toEqual([])
})

const read = async (id: string, as: Caller) => {
  const { status, body } = await call('GET', `/v1/users/${id}/export`, { as })
  const lines = status === 200 ? String(body).trimEnd().split('\n') : []
  return { status, code: body.code, records: lines.map((line) => JSON.parse(line)) }
}

test('export: the user and a service key read profile, documents, objects and executions of the user; nobody reads those of another', async () => {
  const [person, other] = [await addPerson(), await addPerson()]
  await publish(workspace, 'asked', '  - say: { set: { said: true } }\n')
  await asSuperuser('update tenon.executions set started_by = $1 where id = $2', [
    person.id,
    await start(workspace, 'asked'),
  ])
  for (const as of [person.as, workspace.service]) {
    const { records } = await read(person.id, as)
    const counts: Record<string, number> = {}
    for (const { type } of records) counts[type] = (counts[type] ?? 0) + 1
    expect(counts).toEqual({ profile: 1, document: 500, object: 2, execution: 1, end: 1 })
    expect(records.at(-1)).toEqual({ type: 'end', records: 504 })
    expect(records[0].data).toMatchObject({ id: person.id, email: expect.stringContaining('@') })
    expect(JSON.stringify(records)).not.toContain(other.id)
    const links = records.filter(({ type }) => type === 'object').map(({ data }) => data.url)
    expect(await Promise.all(links.map(async (url) => (await fetch(url)).status))).toEqual([200, 200])
  }
  const admin = { ...workspace.operator }
  const refused = [
    await read(other.id, person.as),
    await read('usr_none', workspace.service),
    await read(person.id, workspace.anon),
  ]
  expect(refused.map(({ status }) => status)).toEqual([403, 404, 403])
  expect((await read(person.id, admin)).code).toBe('privilege_domain_mismatch')
})

test('export: executions and runs that the user has started, with their payloads, or caused, without them; as many as are counted', async () => {
  const person = await addPerson()
  const { operator: as, workspaceId: workspace_id, service } = workspace
  await publish(workspace, 'known', '  - say: { set: { said: true } }\n')
  const [started, caused] = [await start(workspace, 'known'), await start(workspace, 'known')]
  await asSuperuser('update tenon.executions set started_by = $1 where id = $2', [person.id, started])
  await asSuperuser('update tenon.executions set caused_by = array[$1] where id = $2', [person.id, caused])
  const source = 'export default (input) => ({ said: input.text })'
  await ok(call('POST', '/v1/functions', { as, body: { workspace_id, name: 'echo', source } }))
  const run = async (text: string, caller: Caller) => {
    const headers = { prefer: 'respond-async' }
    const begun = await ok(call('POST', '/v1/functions/echo/invoke', { as: caller, body: { text }, headers }))
    await ok(call('GET', `/v1/operations/${begun.id}`, { as: service, headers: { prefer: 'wait=30' } }))
    return begun.id
  }
  const filter = { said: 'by me' }
  const ask = { as: person.as, body: { filter, data: { n: 1 } } }
  const many = await ok(call('POST', '/v1/collections/orders/update-many', ask))
  const [own, behind] = [await run('by me', service), await run('by another', service)]
  await asSuperuser('update tenon.function_runs set started_by = $1 where id = $2', [person.id, own])
  await asSuperuser(
    `update tenon.function_runs set caller = json_build_object('by', $1::text) where id = $2`,
    [...[person.id, behind]],
  )
  const { records } = await read(person.id, person.as)
  const of = (type: string) => records.filter((one) => one.type === type).map(({ data }) => data)
  expect(of('execution')).toMatchObject([
    { id: started, relation: 'started', output: expect.anything() },
    { id: caused, relation: 'caused', payloads: 'hidden' },
  ])
  expect(of('run')).toMatchObject([
    { id: own, relation: 'started', input: { text: 'by me' }, result: { said: 'by me' } },
    { id: behind, relation: 'caused', payloads: 'hidden' },
  ])
  expect(of('bulk_change')).toMatchObject([{ id: many.id, relation: 'started', request: { filter } }])
  expect(JSON.stringify(records)).not.toContain('by another')
  const counted = (await remove(person.id, '?data=anonymize&dry_run=true')).body
  expect([counted.executions, counted.runs, counted.bulk_changes]).toEqual([2, 2, 1])
})

test('user: deleted without a word about data, or with an unknown one: data is kept', async () => {
  const person = await addPerson()
  expect((await remove(person.id, '?data=all')).status).toBe(400)
  expect((await remove(person.id)).body).toEqual({ id: person.id, deleted: true })
  const query = { filter: { _owner: person.id }, count: 'exact', limit: 1 }
  const { body } = await call('POST', '/v1/collections/orders/query', { as: workspace.service, body: query })
  expect(body.page.total).toBe(250)
})

test('admin of a workspace: deletes a user with all data, and reads the operation to its end; nobody of another workspace does', async () => {
  const person = await addPerson()
  const admin = ({ tenantId: tenant_id, workspaceId: workspace_id }: TestWorkspace) =>
    tokenOf({ roles: ['workspace_admin'], tenant_id, workspace_id })
  const as = await admin(workspace)
  const { body } = await call('DELETE', `/v1/users/${person.id}?data=delete`, { as })
  const read = (caller: Caller) => call('GET', `/v1/operations/${body.id}`, { as: caller })
  await eventually(async () => ((await read(as)).body.state === 'succeeded' ? true : undefined))
  expect((await read(await admin(await addTestWorkspace(workspace)))).status).toBe(404)
  expect((await read(await admin(await createTestWorkspace()))).status).toBe(404)
})

test('user who is being deleted: signed out at once', async () => {
  const person = await addPerson()
  await remove(person.id, '?data=delete')
  await eventually(async () => {
    const { status } = await call('GET', '/v1/collections/orders/documents', { as: person.as })
    return status === 401 ? true : undefined
  })
})

test('page of the own account: exports all that the user has stored, with the password, and deletes it with the account', async () => {
  const [person, other] = await Promise.all([addPerson(), addPerson()])
  const { browser, page } = await openAccount(app, person)
  const submit = (fields: Record<string, string>) =>
    browser.submit(page, { current: person.password, ...fields })
  expect((await submit({ action: 'export', current: 'a wrong password' })).status).toBe(401)
  const file = await submit({ action: 'export' })
  expect(file.headers.get('content-disposition')).toBe(`attachment; filename="${person.id}.ndjson"`)
  const records = file.html
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const countOf = (type: string) => records.filter((record) => record.type === type).length
  expect([countOf('document'), countOf('object')]).toEqual([500, 2])
  expect(records.at(-1)).toEqual({ type: 'end', records: records.length - 1 })
  for (const { type, data } of records)
    if (type === 'object') expect((await fetch(data.url)).status).toBe(200)
  const ended = await submit({ action: 'delete', data: 'delete' })
  expect(ended.html).toContain('Your data is being deleted')
  const as = workspace.operator
  await eventually(async () =>
    (await call('GET', `/v1/users/${person.id}`, { as })).status === 404 ? true : undefined,
  )
  const counted = async (id: string) => (await remove(id, '?data=delete&dry_run=true')).body.objects
  expect(await counted(other.id)).toBe(2)
  for (const collection of Object.keys(COLLECTIONS)) {
    const body = { filter: { _owner: person.id }, count: 'exact' }
    const left = await call('POST', `/v1/collections/${collection}/query`, { as: workspace.service, body })
    expect([collection, left.body.data]).toEqual([collection, []])
  }
})

test('workspace that is suspended meanwhile: nothing more is deleted of the user until it is resumed', async () => {
  const { tenantId, workspaceId, operator: as } = workspace
  const person = await addPerson()
  const operationId = typeId('op', v7())
  await asSuperuser(
    `insert into tenon.operations (id, tenant_id, type, target, workflow_id, state) values ($1, $2, 'user.delete', $3, 'none', 'running')`,
    [operationId, tenantId, person.id],
  )
  const platform = openInProcessPlatform()
  try {
    const actor = { subject: 'test', role: 'operator' } as const
    const scope = AdminScope.open(actor, {}, servicesOf(platform.access), randomIds)
    const ref = { tenantId: tenantId as TenantId, workspaceId: workspaceId as WorkspaceId }
    const removeDocuments = () => USER_REMOVAL_STEP.remove_documents_of_user(scope, ref, { operationId })
    const documents = async () => (await remove(person.id, '?data=delete&dry_run=true')).body.documents
    await call('POST', `/v1/workspaces/${workspaceId}/suspend`, { as, body: {} })
    await expect(removeDocuments()).rejects.toMatchObject({ code: 'dependency_unavailable' })
    await call('POST', `/v1/workspaces/${workspaceId}/resume`, { as })
    expect(await documents()).toEqual({ notes: 250, orders: 250 })
    while (await removeDocuments());
    expect(await documents()).toEqual({})
  } finally {
    await platform.close()
  }
})
