/** Lookups: rules that compare a field with values of another collection, such as the projects that a user is a member of. */

import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { exported, importInto, lines } from '../../support/clients/ndjson.ts'
import { sqlAsRole } from '../../support/clients/sql-as-role.ts'
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

test.each([[5], [{ collection: 'members' }], [TASKS.access.lookups.mine]])(
  'lookup of a name that no variable can have: 400 with the name: %j',
  async (lookup) => {
    const { status, body } = await declare('named', {
      ...TASKS,
      access: { lookups: { 'two words': lookup } },
    })
    expect([status, body.code]).toEqual([400, 'validation_failed'])
    expect(body.errors[0]).toMatchObject({ pointer: '/access/lookups/two words' })
  },
)

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
    const body = lines({ project: 'red', title: 'g' }, { project: 'blue', title: 'h' })
    const imported = await importInto('tasks', body, { as: mia })
    expect([imported.body.created, imported.body.failed]).toEqual([1, 1])
    const seen = JSON.stringify(await exported('tasks', { as: mia }))
    expect(seen).toContain('"g"')
    expect(seen).not.toContain('blue')
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
    'cannot use another lookup',
  ],
])('a lookup of %s – is refused with its place', async (_what, lookup, words) => {
  const reply = await declare('others', { ...TASKS, access: { lookups: { x: lookup } } })
  expect([reply.status, JSON.stringify(reply.body)]).toEqual([400, expect.stringContaining(words)])
  expect(JSON.stringify(reply.body.errors)).toContain('/access/lookups/x')
})

describe('a lookup below, at and above its limit', () => {
  const LIMIT = 500
  const NEGATED = { $not: { project: { in: '$lookups.blocked' } } }
  /** Rules, what they admit with the whole list, and what with a part of it. A test that needs the whole is warned of. */
  const FORMS: readonly { rule: object; whole: string[]; part: string[]; warns?: true }[] = [
    { rule: { project: { in: '$lookups.blocked' } }, whole: ['p0'], part: ['p0'] },
    { rule: NEGATED, whole: ['other'], part: [], warns: true },
    { rule: { $not: NEGATED }, whole: ['p0'], part: ['p0'] },
    { rule: { $not: { $and: [{ title: 'none' }, NEGATED] } }, whole: ['other', 'p0'], part: ['other', 'p0'] },
    {
      rule: { $not: { $or: [{ title: 'none' }, { $not: NEGATED }] } },
      whole: ['other'],
      part: [],
      warns: true,
    },
    {
      rule: { $or: [{ title: 'item' }, NEGATED] },
      whole: ['other', 'p0'],
      part: ['other', 'p0'],
      warns: true,
    },
    { rule: { project: { not: { in: '$lookups.blocked' } } }, whole: ['other'], part: [], warns: true },
    { rule: { tags: { ov: '$lookups.blocked' } }, whole: ['p0'], part: ['p0'] },
    { rule: { $not: { tags: { ov: '$lookups.blocked' } } }, whole: ['other'], part: [], warns: true },
    { rule: { $not: { tags: { cs: '$lookups.blocked' } } }, whole: ['other', 'p0'], part: ['other', 'p0'] },
    { rule: { '$lookups.blocked': { cs: ['p0'] } }, whole: ['other', 'p0'], part: ['other', 'p0'] },
    {
      ...{ rule: { $not: { '$lookups.blocked': { cs: ['absent'] } } }, warns: true },
      ...{ whole: ['other', 'p0'], part: [] },
    },
  ]
  const load = (collection: string, rows: object[]) =>
    importInto(collection, lines(...rows), { as: workspace.service })

  test('rules: positive, negated and nested, over lists of 499 to 501: what is not known to be listed or unlisted matches nothing', async () => {
    await declare('blocks', {
      schema: properties({ user: { type: 'string' }, project: { type: 'string' } }),
      access: {},
    })
    const users = [LIMIT - 1, LIMIT, LIMIT + 1].map((size) => ({ id: `u${size}`, size }))
    for (const { id, size } of users)
      await load(
        'blocks',
        Array.from({ length: size }, (_, index) => ({ user: id, project: `p${index}` })),
      )
    const lookups = { blocked: { collection: 'blocks', field: 'project', filter: { user: '$user.id' } } }
    const body = {
      schema: properties({
        project: { type: 'string' },
        title: { type: 'string' },
        tags: { type: 'array' },
      }),
      access: { lookups, user: { read: true } },
    }
    const { id } = (await declare('items', body)).body
    // Each list begins with p0; `other` stands for the value that a truncated list leaves out.
    await load('items', [
      { project: 'p0', title: 'item', tags: ['p0'] },
      { project: 'other', title: 'item', tags: ['other'] },
    ])
    for (const { rule, whole, part, warns = false } of FORMS) {
      const changed = await call('PUT', `/v1/schemas/${id}`, {
        as: workspace.operator,
        body: { access: { lookups, user: { read: rule } } },
      })
      const warnings = JSON.stringify(changed.body.warnings ?? [])
      expect(warnings.includes('needs the whole list'), JSON.stringify(rule)).toBe(warns)
      for (const user of users) {
        const as = await userToken(workspace, user.id)
        const found = await call('GET', '/v1/collections/items/documents', { as })
        const projects =
          found.status === 403 ? [] : found.body.data.map((one: { project: string }) => one.project)
        const wanted = user.size > LIMIT ? part : whole
        expect(projects.sort(), `${JSON.stringify(rule)} for ${user.size}`).toEqual(wanted)
        expect(await seenByPolicy(id, user), `policy of ${JSON.stringify(rule)} for ${user.size}`).toBe(
          wanted.length,
        )
      }
    }
  })

  /** How many documents a statement finds that has forgotten the rule. */
  async function seenByPolicy(id: string, user: { id: string; size: number }): Promise<number> {
    const blocked = Array.from({ length: Math.min(user.size, LIMIT) }, (_, index) => `p${index}`)
    const truncated = user.size > LIMIT ? { 'items/blocked': true } : {}
    const caller = { id: user.id, lookups: { 'items/blocked': blocked }, truncated }
    const ref = [workspace.tenantId, workspace.workspaceId, JSON.stringify(caller)]
    const relationOf = `select relation from tenon.schemas where id = '${id}'`
    const [schema] = await sqlAsRole<{ relation: string }>('tenon_user', ref, relationOf)
    return (await sqlAsRole('tenon_user', ref, `select id from tenon_data.${schema?.relation}`)).length
  }

  test('explain: a negated test of a truncated lookup: denied, with the lookup that is too long', async () => {
    const items = await call('GET', '/v1/collections/items/documents', { as: workspace.service })
    const access = {
      lookups: { blocked: { collection: 'blocks', field: 'project', filter: { user: '$user.id' } } },
      user: { read: NEGATED },
    }
    const schemas = await call('GET', `/v1/schemas?workspace_id=${workspace.workspaceId}`, {
      as: workspace.operator,
    })
    const { id } = schemas.body.data.find(({ collection }: { collection: string }) => collection === 'items')
    await call('PUT', `/v1/schemas/${id}`, { as: workspace.operator, body: { access } })
    const { body } = await call('POST', '/v1/collections/items/access/explain', {
      as: workspace.operator,
      body: {
        workspace_id: workspace.workspaceId,
        as: { id: 'u501' },
        op: 'read',
        id: items.body.data[0].id,
      },
    })
    expect(body).toMatchObject({ allowed: false, decision: 'denied' })
    expect(body.tests[0].unknown).toContain('The lookup blocked has more than 500 values')
  })
})
