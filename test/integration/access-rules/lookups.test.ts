/** Lookups: rules that compare a field with values of another collection, such as the projects that a user is a member of. */

import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { closeSubscriptions, messages, subscribeToEvents } from '../../support/clients/sse.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  userToken,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let mia: Caller
let ben: Caller
beforeAll(async () => {
  workspace = await createTestWorkspace()
  ;[mia, ben] = [await userToken(workspace, 'mia'), await userToken(workspace, 'ben')]
  const members = await declare('members', {
    schema: properties({ user: { type: 'string' }, project: { type: 'string' }, role: { type: 'string' } }),
    indexes: [{ fields: ['user'] }],
    access: { anon: { read: false } },
  })
  expect(members.status).toBe(201)
  const tasks = await declare('tasks', TASKS)
  expect(tasks.status, JSON.stringify(tasks.body)).toBe(201)
})
afterEach(closeSubscriptions)

const properties = (of: object) => ({ type: 'object', properties: of, additionalProperties: false })
const TASKS = {
  schema: properties({ project: { type: 'string' }, title: { type: 'string' } }),
  indexes: [{ fields: ['project'] }],
  access: {
    lookups: {
      mine: { collection: 'members', field: 'project', filter: { user: '$user.id' } },
      led: { collection: 'members', field: 'project', filter: { user: '$user.id', role: 'lead' } },
    },
    user: {
      read: { project: { in: '$lookups.mine' } },
      create: { project: { in: '$lookups.mine' } },
      update: { project: { in: '$lookups.mine' } },
      delete: { project: { in: '$lookups.led' } },
    },
  },
}

const declare = (collection: string, more: object) =>
  call('POST', '/v1/schemas', {
    as: workspace.operator,
    body: { workspace_id: workspace.workspaceId, collection, store: 'relational', ...more },
  })
const TASKS_AT = '/v1/collections/tasks/documents'
const join = async (user: string, project: string, role = 'member') =>
  (
    await call('POST', '/v1/collections/members/documents', {
      as: workspace.service,
      body: { user, project, role },
    })
  ).body.id as string
const create = (as: Caller, project: string, title: string) =>
  call('POST', TASKS_AT, { as, body: { project, title } })
const titles = async (as: Caller) =>
  (await call('GET', TASKS_AT, { as })).body.data.map(({ title }: { title: string }) => title)

describe('a rule with a lookup', () => {
  let membership: string
  beforeAll(async () => {
    membership = await join('mia', 'red', 'lead')
    await join('ben', 'blue')
  })

  test('members – read and write in their projects alone, without reading who is a member', async () => {
    const { body } = await create(mia, 'red', 'a')
    expect((await create(ben, 'blue', 'b')).status).toBe(201)
    expect((await create(ben, 'red', 'stolen')).status).toBe(403)
    expect([await titles(mia), await titles(ben)]).toEqual([['a'], ['b']])
    expect((await call('GET', '/v1/collections/members/documents', { as: mia })).status).toBe(403)
    const moved = { as: mia, body: { project: 'blue' } }
    expect((await call('PATCH', `${TASKS_AT}/${body.id}`, moved)).status).toBe(403)
    expect((await call('DELETE', `${TASKS_AT}/${body.id}`, { as: ben })).status).toBe(404)
    expect((await call('DELETE', `${TASKS_AT}/${body.id}`, { as: mia })).status).toBe(200)
  })

  test('a membership that is added or removed – counts from the next request on', async () => {
    await create(mia, 'red', 'c')
    const id = await join('ben', 'red')
    expect(await titles(ben)).toEqual(['b', 'c'])
    await call('DELETE', `/v1/collections/members/documents/${id}`, { as: workspace.service })
    expect(await titles(ben)).toEqual(['b'])
  })

  test('change events – reach members', async () => {
    const [ofMia, ofBen] = [
      await subscribeToEvents(mia, 'topic=collections.tasks.*'),
      await subscribeToEvents(ben, 'topic=collections.tasks.*'),
    ]
    await create(mia, 'red', 'd')
    await create(ben, 'blue', 'e')
    // Changes of the tests before may arrive late.
    const found = (received: typeof ofMia) =>
      messages(received).flatMap(({ data }) => {
        const title = data.data.document?.title
        return title === 'd' || title === 'e' ? [title] : []
      })
    await expect.poll(() => [found(ofMia), found(ofBen)]).toEqual([['d'], ['e']])
  })

  test('batch, import, export and explain – use it as well', async () => {
    const ops = [
      { op: 'create', data: { project: 'red', title: 'f' } },
      { op: 'create', data: { project: 'blue' } },
    ]
    const batch = await call('POST', '/v1/collections/tasks/batch', { as: mia, body: { ops } })
    expect([batch.status, batch.body.op_index]).toEqual([403, 1])
    const body = '{"project":"red","title":"g"}\n{"project":"blue","title":"h"}\n'
    const headers = { 'content-type': 'application/x-ndjson' }
    const imported = await call('POST', '/v1/collections/tasks/import', { as: mia, body, headers })
    expect([imported.body.created, imported.body.failed]).toEqual([1, 1])
    const exported = await call('GET', '/v1/collections/tasks/export', { as: mia })
    expect(exported.body).toContain('"g"')
    expect(exported.body).not.toContain('blue')
    const question = { workspace_id: workspace.workspaceId, as: { id: 'mia' }, op: 'create' }
    const explained = await call('POST', '/v1/collections/tasks/access/explain', {
      as: workspace.operator,
      body: { ...question, document: { project: 'red' } },
    })
    expect(explained.body).toMatchObject({ allowed: true, decided_by: 'access.user.create' })
  })

  test('a user who is a member of nothing – finds nothing; one who was removed – too', async () => {
    expect(await titles(await userToken(workspace, 'eve'))).toEqual([])
    await call('DELETE', `/v1/collections/members/documents/${membership}`, { as: workspace.service })
    expect(await titles(mia)).toEqual([])
  })
})

test.each([
  ['of an unknown name', { user: { read: { project: { in: '$lookups.mien' } } } }, 'did you mean mine'],
  ['of another collection', { user: { read: { project: { in: '$lookups.tasks/mine' } } } }, 'no variable'],
  ['for anon keys', { anon: { read: { project: { in: '$lookups.mine' } } } }, 'no user'],
])('a rule with a lookup %s – is refused', async (_what, access, words) => {
  const reply = await declare('others', { ...TASKS, access: { lookups: TASKS.access.lookups, ...access } })
  expect([reply.status, JSON.stringify(reply.body)]).toEqual([400, expect.stringContaining(words)])
})

test.each([
  ['an undeclared collection', { collection: 'nothing', field: 'project', filter: {} }, 'not declared'],
  ['an unknown field', { collection: 'members', field: 'projects', filter: {} }, 'did you mean project'],
  [
    'an unknown field in its filter',
    { collection: 'members', field: 'project', filter: { usr: '$user.id' } },
    'user',
  ],
  [
    'another lookup',
    { collection: 'members', field: 'project', filter: { user: { in: '$lookups.x' } } },
    'no other lookup',
  ],
])('a lookup of %s – is refused with its place', async (_what, lookup, words) => {
  const reply = await declare('others', { ...TASKS, access: { lookups: { x: lookup } } })
  expect([reply.status, JSON.stringify(reply.body)]).toEqual([400, expect.stringContaining(words)])
  expect(JSON.stringify(reply.body.errors)).toContain('/access/lookups/x')
})
