/** Rules on changes: of the present document and of its result. */

import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  createIn,
  declaredWithRules,
  declareWithRules,
  TICKET_PROPERTIES,
  TICKETS,
} from '../../support/fixtures/access-rules.ts'
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
let boss: Caller
beforeAll(async () => {
  workspace = await createTestWorkspace()
  mia = await userToken(workspace, 'mia', { team: 'red' })
  ben = await userToken(workspace, 'ben', { team: 'blue' })
  boss = await userToken(workspace, 'boss', { role: 'admin', team: ['not', 'a text'] })
})

const declare = (access: unknown, more: object = {}) => declareWithRules(workspace, access, more)
const declared = (access: object, more: object = {}) => declaredWithRules(workspace, access, more)
const patch = (at: string, as: Caller, id: string, body: object) =>
  call('PATCH', `${at}/documents/${id}`, { as, body })

describe('rules on changes', () => {
  let at: string
  let id: string
  beforeAll(async () => {
    at = (await declared(TICKETS)).at
    id = (await createIn(at, mia, { title: 'help', status: 'open', team: 'red' })).body.id
  })

  test.each([
    { status: 'closed', team: 'red' },
    { status: 'open', team: 'blue' },
    { status: 'open' },
    { team: 'red' },
  ])(
    'create – of a document that the rule does not admit, %o – 403, nothing is created',
    async (document) => {
      const before = (await call('GET', `${at}/documents?count=exact`, { as: workspace.service })).body.page
        .total
      const { status, body } = await createIn(at, mia, document)
      expect([status, body.code]).toEqual([403, 'forbidden'])
      expect(body.detail).toContain('access.user.create')
      const after = (await call('GET', `${at}/documents?count=exact`, { as: workspace.service })).body.page
        .total
      expect(after).toBe(before)
    },
  )

  test('create – with a claim of another type than the field – is not admitted', async () => {
    expect((await createIn(at, boss, { status: 'open', team: 'not' })).status).toBe(403)
  })

  test('update – whose result the rule does not admit – 403, unchanged', async () => {
    for (const change of [{ status: 'stolen' }, { status: null }]) {
      const { status, body } = await patch(at, mia, id, change)
      expect([status, body.code]).toEqual([403, 'forbidden'])
    }
    const put = await call('PUT', `${at}/documents/${id}`, { as: mia, body: { status: 'wrong' } })
    expect(put.status).toBe(403)
    const { body } = await call('GET', `${at}/documents/${id}`, { as: mia })
    expect([body.status, body._version]).toEqual(['open', 1])
  })

  test('update – of a document that the caller may read but not change – 403 that names the rule', async () => {
    const { status, body } = await patch(at, boss, id, { title: 'x' })
    expect([status, body.detail]).toEqual([403, expect.stringContaining('The rule access.user.update of')])
  })

  test('update – of a document that the caller may not read – 404; delete, which is closed to them – 403', async () => {
    expect((await patch(at, ben, id, { title: 'x' })).status).toBe(404)
    expect((await call('DELETE', `${at}/documents/${id}`, { as: ben })).status).toBe(403)
    expect((await call('DELETE', `${at}/documents/${randomUUID()}`, { as: ben })).status).toBe(403)
  })

  test('delete – by the owner, whom the rule does not admit – 403', async () => {
    expect((await call('DELETE', `${at}/documents/${id}`, { as: mia })).status).toBe(403)
  })

  test('update – that names another owner – is refused, also in a batch', async () => {
    expect((await patch(at, mia, id, { _owner: 'ben' })).status).toBe(400)
    const ops = [{ op: 'update', id, data: { _owner: 'ben' } }]
    expect((await call('POST', `${at}/batch`, { as: mia, body: { ops } })).status).toBe(400)
    expect((await call('GET', `${at}/documents/${id}`, { as: mia })).body._owner).toBe('mia')
  })

  test('update – by a service key – keeps the owner', async () => {
    const { body } = await patch(at, workspace.service, id, { title: 'by support' })
    expect([body.title, body._owner]).toEqual(['by support', 'mia'])
  })

  test('batch – in which one change is not admitted – changes nothing and names it', async () => {
    const ops = [
      { op: 'create', data: { status: 'open', team: 'red', title: 'new' } },
      { op: 'update', id, data: { status: 'stolen' } },
    ]
    const { status, body } = await call('POST', `${at}/batch`, { as: mia, body: { ops } })
    expect([status, body.op_index]).toEqual([403, 1])
    const found = await call('GET', `${at}/documents?title=eq.new`, { as: workspace.service })
    expect(found.body.data).toEqual([])
  })

  test('delete – by an admin of the application – deletes', async () => {
    expect((await call('DELETE', `${at}/documents/${id}`, { as: boss })).status).toBe(200)
  })
})

test('a user who may create but not read – gets what was sent, and finds nothing', async () => {
  const { at } = await declared({ user: { create: true } })
  const { status, body } = await createIn(at, mia, { title: 'feedback' })
  expect([status, body.title, body._owner]).toEqual([201, 'feedback', 'mia'])
  expect((await call('GET', `${at}/documents`, { as: mia })).status).toBe(403)
})

test('a user whose read rule does not admit what they create – gets what was sent, and does not find it', async () => {
  const { at } = await declared({ user: { create: true, read: { status: 'public' } } })
  const { status, body } = await createIn(at, mia, { title: 'draft', status: 'draft' })
  expect([status, body.title]).toEqual([201, 'draft'])
  expect((await call('GET', `${at}/documents/${body.id}`, { as: mia })).status).toBe(404)
  const several = await call('POST', `${at}/batch`, {
    as: mia,
    body: {
      ops: [
        { op: 'create', data: { status: 'public' } },
        { op: 'create', data: { status: 'draft' } },
      ],
    },
  })
  expect(several.status).toBe(200)
  expect((await call('GET', `${at}/documents`, { as: mia })).body.data.length).toBe(1)
})

test('anon keys – read what a filter admits, without the values of a user', async () => {
  const { at } = await declared({
    anon: { read: { publish_at: { lte: '$now' } }, create: { status: 'new' } },
  })
  for (const publish_at of ['2020-01-01T00:00:00Z', '2999-01-01T00:00:00Z'])
    await createIn(at, workspace.service, { title: publish_at.slice(0, 4), publish_at })
  const { body } = await call('GET', `${at}/documents`, { as: workspace.anon })
  expect(body.data.map(({ title }: { title: string }) => title)).toEqual(['2020'])
  expect((await createIn(at, workspace.anon, { status: 'old' })).status).toBe(403)
  expect((await createIn(at, workspace.anon, { status: 'new' })).status).toBe(201)
})

test('a change of the rules – takes effect at once on the node that made it, also for columns that are dropped', async () => {
  const { at, schemaId } = await declared({ user: { read: { team: '$user.claims.team' } } })
  await createIn(at, workspace.service, { title: 'a', team: 'red' })
  expect((await call('GET', `${at}/documents`, { as: mia })).body.data.length).toBe(1)
  const { team: _team, ...properties } = TICKET_PROPERTIES
  const body = {
    schema: { type: 'object', properties },
    access: { user: { read: { title: 'a' } } },
  }
  const changed = await call('PUT', `/v1/schemas/${schemaId}`, { as: workspace.operator, body })
  expect(changed.status, JSON.stringify(changed.body)).toBe(200)
  expect((await call('GET', `${at}/documents`, { as: ben })).body.data.length).toBe(1)
  const closed = { access: {} }
  await call('PUT', `/v1/schemas/${schemaId}`, { as: workspace.operator, body: closed })
  expect((await call('GET', `${at}/documents`, { as: ben })).status).toBe(403)
})

describe('an update rule with the document before', () => {
  const OWN = { _owner: '$user.id' }
  const access = {
    user: {
      read: OWN,
      create: true,
      update: {
        ...OWN,
        level: '$old.level',
        team: { neq: 'x' },
        $or: [
          { status: '$old.status' },
          { $and: [{ status: 'closed' }, { publish_at: { gte: '$old.publish_at' } }] },
        ],
      },
    },
  }
  const publish_at = '2026-01-01T00:00:00Z'

  test('fields that must stay, and a state that may only advance – are compared with what was', async () => {
    const { at } = await declared(access)
    const { id } = (await createIn(at, mia, { level: 1, status: 'open', team: 'red', publish_at })).body
    const status = async (body: object) => (await patch(at, mia, id, body)).status
    expect(await status({ title: 'new' })).toBe(200)
    expect(await status({ level: 2 })).toBe(403)
    expect(await status({ level: null })).toBe(403)
    expect(await status({ status: 'waiting' })).toBe(403)
    expect(await status({ status: 'closed', publish_at: '2025-01-01T00:00:00Z' })).toBe(403)
    expect(await status({ status: 'closed', publish_at: '2026-01-01T01:00:00+01:00' })).toBe(200)
    expect(await status({ status: 'open' })).toBe(403)
    const ops = [
      { op: 'update', id, data: { title: 'a' } },
      { op: 'update', id, data: { level: 9 } },
    ]
    expect((await call('POST', `${at}/batch`, { as: mia, body: { ops } })).body.op_index).toBe(1)
    const { body } = await call('GET', `${at}/documents/${id}`, { as: mia })
    expect([body.level, body.status, body.title]).toEqual([1, 'closed', 'new'])
  })

  test('a field that was absent – stays absent', async () => {
    const { at } = await declared(access)
    const { id } = (await createIn(at, mia, { status: 'open', team: 'red' })).body
    expect((await patch(at, mia, id, { title: 'x' })).status).toBe(200)
    expect((await patch(at, mia, id, { level: 1 })).status).toBe(403)
  })

  test('in another right, or of an unknown field – is refused', async () => {
    const read = await declare({ user: { read: { level: '$old.level' } } })
    expect([read.reply.status, read.reply.body.detail]).toEqual([400, expect.stringContaining('for update')])
    const unknown = await declare({ user: { read: true, update: { level: '$old.levle' } } })
    expect([unknown.reply.status, unknown.reply.body.detail]).toEqual([400, expect.stringContaining('level')])
  })
})

describe('an upsert whose unique value a document has that the caller may not read', () => {
  const access = { user: { read: { _owner: '$user.id' }, create: true, update: { _owner: '$user.id' } } }
  const upsert = (value: string) => ({ op: 'upsert', on: ['title'], data: { title: value } })
  const run = (at: string, ops: object[], atomic: boolean) =>
    call('POST', `${at}/batch`, { as: mia, body: { atomic, ops } })

  test('upsert: held by a document out of sight: 409 as a create, alone and as the last of 300', async () => {
    const { at } = await declared(access, { unique: [['title']] })
    await createIn(at, workspace.service, { title: 'taken' })
    const created = await createIn(at, mia, { title: 'taken' })
    expect([created.status, created.body.code]).toEqual([409, 'unique_violation'])
    const alone = await run(at, [upsert('taken')], true)
    expect([alone.status, alone.body.code, alone.body.op_index]).toEqual([409, 'unique_violation', 0])
    const each = await run(at, [upsert('free'), upsert('taken'), upsert('free')], false)
    expect(each.body.results.map(({ status }: { status: number }) => status)).toEqual([201, 409, 200])
    const many = Array.from({ length: 299 }, (_, index) => upsert(`value ${index}`))
    const last = await run(at, [...many, upsert('taken')], true)
    expect([last.status, last.body.op_index]).toEqual([409, 299])
    const { body } = await call('GET', `${at}/documents?count=exact`, { as: mia })
    expect(body.page.total).toBe(1)
  })
})
