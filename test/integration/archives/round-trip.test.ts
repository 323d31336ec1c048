/** Exports a workspace and imports the archive: what comes out of the new workspace is what went into the old one. */

import { createHash } from 'node:crypto'
import { afterEach, expect, inject, test } from 'vitest'
import { mailsTo } from '../../support/clients/mails.ts'
import { importInto, lines } from '../../support/clients/ndjson.ts'
import { closeSubscriptions } from '../../support/clients/sse.ts'
import {
  expectNothingFired,
  exportArchive,
  importArchive,
  sendArchive,
} from '../../support/fixtures/archives.ts'
import { publishScheduled } from '../../support/fixtures/schedules.ts'
import {
  asSuperuser,
  call,
  createTestWorkspaceWithStorage,
  eventually,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

afterEach(closeSubscriptions)

/** All documents of a collection, as the API exports them. */
async function linesOf({ service: as }: Pick<TestWorkspace, 'service'>, collection: string): Promise<string> {
  return (await call('GET', `/v1/collections/${collection}/export`, { as })).body
}

test('workspace with documents and schemas: exported and imported: every document is the same, with id, version and times', async () => {
  const from = await createTestWorkspaceWithStorage()
  const { service: as, operator, workspaceId } = from
  await call('POST', '/v1/schemas', {
    as: operator,
    body: {
      ...{ workspace_id: workspaceId, collection: 'tasks', store: 'relational' },
      schema: { properties: { title: { type: 'string' }, rank: { type: 'integer', default: 3 } } },
      indexes: [{ fields: ['rank'] }],
      unique: [['title']],
    },
  })
  for (const n of [1, 2, 3])
    await call('POST', '/v1/collections/tasks/documents', {
      as,
      body: { title: `t${n}`, extra: { deep: [n, null] } },
    })
  const { body: note } = await call('POST', '/v1/collections/notes/documents', { as, body: { text: 'a' } })
  await call('PATCH', `/v1/collections/notes/documents/${note.id}`, { as, body: { text: 'ä\u2028' } })
  const archive = await exportArchive(from)
  const to = await importArchive(from, archive)
  for (const collection of ['tasks', 'notes'])
    expect(await linesOf(to, collection)).toBe(await linesOf(from, collection))
  expect((await linesOf(to, 'tasks')).trim().split('\n')).toHaveLength(3)
  const { body: schemas } = await call('GET', `/v1/schemas?workspace_id=${to.workspaceId}`, { as: operator })
  expect(
    schemas.data.map((one: { collection: string; indexes: object[] }) => [
      one.collection,
      one.indexes.length,
    ]),
  ).toEqual([['tasks', 2]])
  const twice = await call('POST', '/v1/collections/tasks/documents', {
    as: to.service,
    body: { title: 't1' },
  })
  expect(twice.body.code).toBe('unique_violation')
})

test('references: hold in the imported workspace, whichever collection was declared first', async () => {
  const from = await createTestWorkspaceWithStorage()
  const { service: as, operator, workspaceId } = from
  const about = { properties: { about_id: { type: 'string', format: 'uuid' } } }
  const declare = (collection: string, references: object[]) => {
    const body = { workspace_id: workspaceId, collection, store: 'relational', schema: about, references }
    return call('POST', '/v1/schemas', { as: operator, body })
  }
  // Its reference is to a collection that is declared later.
  const first = await declare('first', [])
  await declare('second', [{ field: 'about_id', collection: 'first', inverse: 'seconds' }])
  const back = { references: [{ field: 'about_id', collection: 'second' }] }
  expect((await call('PUT', `/v1/schemas/${first.body.id}`, { as: operator, body: back })).status).toBe(200)
  const create = (of: Pick<TestWorkspace, 'service'>, collection: string, body: object) =>
    call('POST', `/v1/collections/${collection}/documents`, { as: of.service, body })
  await declare('third', [{ field: 'about_id', collection: 'second', on_delete: 'cascade' }])
  const { body: c } = await create(from, 'second', {})
  await create(from, 'third', { about_id: c.id })
  const { body: a } = await create(from, 'first', {})
  const { body: b } = await create(from, 'second', { about_id: a.id })
  const path = `/v1/collections/first/documents/${a.id}`
  expect((await call('PATCH', path, { as, body: { about_id: b.id } })).status).toBe(200)
  const to = await importArchive(from, await exportArchive(from))
  for (const name of ['first', 'second']) expect(await linesOf(to, name)).toBe(await linesOf(from, name))
  const refused = await create(to, 'second', { about_id: '01890a5d-ac96-774b-bcce-b302099a8057' })
  expect(refused.body.code).toBe('reference_not_found')
  expect((await call('DELETE', path, { as: to.service })).body.code).toBe('reference_in_use')
  const cascading = `/v1/collections/second/documents/${c.id}`
  expect((await call('DELETE', cascading, { as: to.service })).status).toBe(200)
  expect([await linesOf(to, 'third'), await linesOf(from, 'third')]).toEqual([
    '',
    expect.stringContaining(c.id),
  ])
  const shown = await call('GET', `${path}?expand=about(),seconds(count)`, { as: to.service })
  expect(shown.body._expand).toMatchObject({ about: { id: b.id }, seconds: { count: 1 } })
})

test('constraints: hold in the imported workspace; a document that is older than a check is there, too', async () => {
  const from = await createTestWorkspaceWithStorage()
  const { operator, workspaceId } = from
  const integer = { type: 'integer' }
  const exclude = [{ fields: ['kind'], range: ['start', 'end'] }]
  const ttl = { field: '_created_at', after: '365d' }
  const { body: schema } = await call('POST', '/v1/schemas', {
    as: operator,
    body: {
      ...{ workspace_id: workspaceId, collection: 'spans', store: 'relational', exclude, ttl },
      schema: { properties: { kind: { type: 'string' }, start: integer, end: integer } },
      unique: [{ fields: ['kind'], where: { start: { lt: 0 } } }],
    },
  })
  const create = (of: Pick<TestWorkspace, 'service'>, body: object) =>
    call('POST', '/v1/collections/spans/documents', { as: of.service, body })
  for (const span of [
    { start: 9, end: 8 },
    { start: 1, end: 3 },
    { start: -2, end: -1 },
  ])
    expect((await create(from, { kind: 'a', ...span })).status).toBe(201)
  const checks = [{ name: 'ordered', check: { start: { lte: { $field: 'end' } } } }]
  const changed = await call('PUT', `/v1/schemas/${schema.id}`, { as: operator, body: { checks } })
  expect([changed.status, changed.body.warnings]).toMatchObject([200, [{ pointer: '/checks/0' }]])
  const to = await importArchive(from, await exportArchive(from))
  expect(await linesOf(to, 'spans')).toBe(await linesOf(from, 'spans'))
  const { body } = await call('GET', `/v1/schemas?workspace_id=${to.workspaceId}`, { as: operator })
  expect(body.data).toMatchObject([{ checks, exclude, ttl, indexes: changed.body.indexes }])
  for (const workspace of [from, to]) {
    const codes = []
    for (const span of [
      { start: 5, end: 4 },
      { start: 2, end: 4 },
      { start: -5, end: -4 },
      { start: 3, end: 4 },
    ])
      codes.push((await create(workspace, { kind: 'a', ...span })).body.code)
    expect(codes).toEqual(['schema_violation', 'exclusion_violation', 'unique_violation', undefined])
  }
})

test('archive: its rest asked for: sent from that byte on, or whole if it is another one; gone when its time is over', async () => {
  const from = await createTestWorkspaceWithStorage()
  const { operator: as, workspaceId, tenantId } = from
  const { body: job } = await call('POST', `/v1/workspaces/${workspaceId}/exports`, {
    as,
    headers: { prefer: 'wait=20' },
  })
  const path = `/v1/tenants/${tenantId}/archives/${job.id}`
  const read = (headers: Record<string, string> = {}) =>
    fetch(`${inject('tenon').url}${path}`, { headers: { ...as, ...headers } })
  const whole = await read()
  const [etag = '', all] = [whole.headers.get('etag') ?? '', Buffer.from(await whole.arrayBuffer())]
  expect(etag).toBe(`"${createHash('sha256').update(all).digest('hex')}"`)
  const rest = await read({ range: 'bytes=100-', 'if-range': etag })
  expect([rest.status, Buffer.from(await rest.arrayBuffer()).equals(all.subarray(100))]).toEqual([206, true])
  const other = await read({ range: 'bytes=100-', 'if-range': '"other"' })
  expect([other.status, (await other.arrayBuffer()).byteLength]).toEqual([200, all.byteLength])
  expect((await read({ range: `bytes=${all.byteLength}-` })).status).toBe(416)
  await asSuperuser('update tenon.operations set expires_at = now() where id = $1', [job.id])
  expect((await read()).status).toBe(404)
  await eventually(async () => {
    const { body } = await call('GET', `/v1/operations/${job.id}`, { as })
    return body.result.archive === undefined ? true : undefined
  })
})

test('archive: sent with a slug that is taken: refused, and nothing is made', async () => {
  const from = await createTestWorkspaceWithStorage()
  const archive = await exportArchive(from)
  const { body: record } = await call('GET', `/v1/workspaces/${from.workspaceId}`, { as: from.operator })
  const refused = await sendArchive(from, archive, { slug: record.slug })
  expect([refused.status, refused.body.code]).toEqual([409, 'conflict'])
  const { body: workspaces } = await call('GET', `/v1/workspaces?tenant_id=${from.tenantId}`, {
    as: from.operator,
  })
  expect(workspaces.data).toHaveLength(1)
})

const KEY = 'a/ü b.txt'

/** The address of a user whom no other test has. */
const MIA = `${unique('mia')}@example.com`

/** A workspace with something of every noun, a schedule that is due every second, a webhook, and a flow and a function that each new note starts. */
async function fillWorkspace(): Promise<TestWorkspace> {
  const workspace = await createTestWorkspaceWithStorage()
  const { service: as, operator, workspaceId, flows } = workspace
  const settings = { workspace_id: workspaceId, auth: { sign_up: 'invite' }, anon: { events: 'none' } }
  await ok(call('POST', '/v1/services/configure', { as: operator, body: settings }))
  const user = { workspace_id: workspaceId, email: MIA, name: 'Mia', claims: { team: [1] } }
  const { id: owner } = await ok(call('POST', '/v1/users', { as: operator, body: user }))
  const schema = { workspace_id: workspaceId, collection: 'notes', store: 'relational', schema: {} }
  await ok(call('POST', '/v1/schemas', { as: operator, body: schema }))
  await ok(importInto('notes', lines({ text: 'mine', _owner: owner }, { text: 'nobody' }), { as }))
  const bucket = await bucketOf(workspace)
  const headers = { 'content-type': 'text/plain', 'x-meta-by': 'mia' }
  await ok(call('PUT', `/v1/objects/${bucket}/${encodeURIComponent(KEY)}`, { as, body: 'bytes', headers }))
  for (const n of [1, 2]) {
    const source = `export default () => ${n}`
    const config = { schedule: { cron: '* * * * *' }, triggers: [{ topics: ['collections.notes.created'] }] }
    const body = { workspace_id: workspaceId, name: 'count', source, config }
    await ok(call('POST', '/v1/functions', { as: operator, body }))
  }
  await ok(call('PUT', `${flows}/secrets/TOKEN`, { as: operator, body: { value: 'never written' } }))
  await publishScheduled(workspace, 'ticks', '{ every: { seconds: 1 } }')
  await publishScheduled(workspace, 'hears', '{ on: { one: { with: { type: collections.notes.created } } } }')
  await publishScheduled(workspace, 'hooked', '{ webhook: {} }')
  return workspace
}

async function ok(sent: Promise<Reply>) {
  const { status, body } = await sent
  if (status >= 300) throw new Error(JSON.stringify(body))
  return body
}

/** What can be compared of two workspaces, without ids that a copy may have of its own. */
async function contentOf(workspace: TestWorkspace) {
  const { service, operator: as, workspaceId, flows } = workspace
  const list = async (path: string, caller = as) => (await ok(call('GET', path, { as: caller }))).data
  const bucket = await bucketOf(workspace)
  const object = `/v1/objects/${bucket}/${encodeURIComponent(KEY)}`
  const { body, headers } = await call('GET', object, { as: service })
  const [user] = await list(`/v1/users?workspace_id=${workspaceId}`)
  const [fn] = await list(`/v1/functions?workspace_id=${workspaceId}`)
  const versions = await list(`/v1/functions/${fn.id}/versions`)
  const published = ['ticks', 'hears'].map(
    async (flow) => (await list(`${flows}/definitions/${flow}/versions`))[0].sha256,
  )
  const notes = await linesOf(workspace, 'notes')
  const services = await ok(call('GET', `/v1/services?workspace_id=${workspaceId}`, { as }))
  return {
    user: [user.email, user.name, user.claims],
    notes: notes.replaceAll(user.id, 'mia'),
    object: [body, headers.get('etag'), headers.get('x-meta-by'), headers.get('last-modified')],
    objects: (await list(`/v1/objects/${bucket}`, service)).length,
    fn: [
      fn.name,
      fn.config.schedule,
      versions.map((one: { version: number; sha256: string }) => [one.version, one.sha256]),
    ],
    flows: await Promise.all(published),
    settings: [services.auth.sign_up, services.anon],
    ids: [user.id, fn.id],
  }
}

test('workspace with users, objects, functions, flows and settings: copied, purged, and imported again: all is equal, ids are kept where they are free, and no flow starts', async () => {
  const from = await fillWorkspace()
  const archive = await exportArchive(from)
  const before = await contentOf(from)
  const mailed = (await mailsTo(MIA, '')).length
  const copy = await importArchive(from, archive)
  const copied = await contentOf(copy)
  expect({ ...copied, ids: before.ids }).toEqual(before)
  expect(copied.ids.filter((id) => before.ids.includes(id))).toEqual([])
  expect(copy.operation.result.missing).toEqual(
    expect.arrayContaining([
      'secret TOKEN: set its value',
      'API key test (service): make a new one',
      'trigger cron of the function count: it is paused; resume it',
      expect.stringMatching(/^trigger every of the flow flow_/),
    ]),
  )
  const triggers = (await ok(call('GET', `${copy.flows}/triggers`, { as: copy.operator }))).data
  expect(triggers.map(({ paused }: { paused: boolean }) => paused)).toEqual([true, true, true])
  await ok(call('DELETE', `/v1/workspaces/${from.workspaceId}?grace_days=0`, { as: from.operator }))
  await eventually(
    async () =>
      (await call('GET', `/v1/workspaces/${from.workspaceId}`, { as: from.operator })).status === 404 ||
      undefined,
    90_000,
  )
  const again = await importArchive(from, archive)
  expect(await contentOf(again)).toEqual(before)
  for (const made of [copy, again]) await expectNothingFired(made)
  expect(await mailsTo(MIA, '')).toHaveLength(mailed)
  // What is resumed goes on as in any other workspace.
  const hears = (await ok(call('GET', `${again.flows}/triggers`, { as: again.operator }))).data.find(
    ({ kind }: { kind: string }) => kind === 'event',
  )
  await ok(call('POST', `${again.flows}/triggers/${hears.id}/resume`, { as: again.operator, body: {} }))
  await ok(call('POST', '/v1/collections/notes/documents', { as: again.service, body: { text: 'new' } }))
  await eventually(
    async () =>
      (await ok(call('GET', `${again.flows}/executions`, { as: again.operator }))).data.length > 0 ||
      undefined,
  )
})
