/** Deletions that references carry on to the documents that refer: deleted or changed with their events, or all stays as it was. */

import { randomUUID } from 'node:crypto'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { closeSubscriptions, receivedAtLeast, subscribeToEvents } from '../../support/clients/sse.ts'
import { limit, quota } from '../../support/fixtures/quotas.ts'
import { Collections, ID_OR_NULL, pathOf } from '../../support/fixtures/references.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let here: Collections
beforeAll(async () => {
  workspace = await createTestWorkspace()
  here = new Collections(workspace)
})
afterEach(closeSubscriptions)

const batch = (ops: readonly object[], body: object = {}) =>
  call('POST', '/v1/batch', { as: workspace.service, body: { ops, ...body } })

test('cascade and set_null: children go with their parent, other documents lose their reference, each with its event', async () => {
  const parents = await here.declare({ schema: {} })
  const children = await here.referring(parents.name, 'cascade')
  const grandchildren = await here.referring(children.name, 'cascade')
  const notes = await here.referring(parents.name, 'set_null')
  const [parent, other] = [await here.create(parents.name), await here.create(parents.name)]
  const child = await here.create(children.name, { parent_id: parent })
  const kept = await here.create(children.name, { parent_id: other })
  const grandchild = await here.create(grandchildren.name, { parent_id: child })
  const note = await here.create(notes.name, { parent_id: parent, name: 'n' })
  const names = [parents, children, grandchildren, notes].map(({ name }) => name)
  const topics = names.map((name, n) => `collections.${name}.${n === 3 ? 'updated' : 'deleted'}`)
  const received = await subscribeToEvents(workspace.service, `topic=${topics.join()}`)
  const deleted = await here.delete(parents.name, parent)
  expect([deleted.status, deleted.body]).toMatchObject([200, { id: parent, deleted: true }])
  expect(await here.idsOf(parents.name)).toEqual([other])
  expect(await here.idsOf(children.name)).toEqual([kept])
  expect(await here.idsOf(grandchildren.name)).toEqual([])
  expect(await here.all(notes.name)).toMatchObject([{ id: note, parent_id: null, name: 'n', _version: 2 }])
  const events = await receivedAtLeast(received, 4)
  const shown = events.map(({ data }) => [data.topic, data.data.id, data.data.version]).sort()
  expect(shown).toEqual(
    [
      [topics[0], parent, 1],
      [topics[1], child, 1],
      [topics[2], grandchild, 1],
      [topics[3], note, 2],
    ].sort(),
  )
  const updated = events.find(({ data }) => data.topic.endsWith('updated'))
  expect(updated?.data.data.document).toEqual({ parent_id: null, name: 'n' })
})

test('restrict anywhere on the way: 409 that names what refers, and nothing is changed', async () => {
  const parents = await here.declare({ schema: {} })
  const children = await here.referring(parents.name, 'cascade')
  const notes = await here.referring(parents.name, 'set_null')
  const bills = await here.referring(children.name, 'restrict')
  const parent = await here.create(parents.name)
  const child = await here.create(children.name, { parent_id: parent })
  const note = await here.create(notes.name, { parent_id: parent })
  const bill = await here.create(bills.name, { parent_id: child })
  const refused = await here.delete(parents.name, parent)
  expect([refused.status, refused.body]).toMatchObject([
    409,
    { code: 'reference_in_use', referring: [{ collection: bills.name, id: bill }] },
  ])
  expect(await here.all(notes.name)).toMatchObject([{ id: note, parent_id: parent, _version: 1 }])
  expect(await here.idsOf(children.name)).toEqual([child])
  expect((await here.delete(bills.name, bill)).status).toBe(200)
  expect((await here.delete(parents.name, parent)).status).toBe(200)
})

describe('circles', () => {
  test('documents that refer to one another and to themselves by cascade: all are deleted', async () => {
    const name = unique('nodes')
    await here.declare({
      collection: name,
      schema: { properties: { next_id: ID_OR_NULL } },
      references: [{ field: 'next_id', collection: name, on_delete: 'cascade' }],
    })
    const ids = await here.createMany(name, [{}, {}, {}, {}])
    const [a = '', b = '', c = '', own = ''] = ids
    for (const [from, to] of [
      [a, b],
      [b, c],
      [c, a],
      [own, own],
    ] as const)
      await call('PATCH', pathOf(name, from), { as: workspace.service, body: { next_id: to } })
    expect((await here.delete(name, b)).status).toBe(200)
    expect(await here.idsOf(name)).toEqual([own])
    expect((await here.delete(name, own)).status).toBe(200)
    expect(await here.idsOf(name)).toEqual([])
  })

  test('two collections, one of which restricts: what is deleted restricts nothing', async () => {
    const [owners, accounts] = [unique('owners'), unique('accounts')]
    const { id } = await here.declare({ collection: owners, schema: {} })
    await here.referring(owners, 'cascade', { collection: accounts })
    const changed = await here.change(id, {
      schema: { properties: { main_id: ID_OR_NULL } },
      references: [{ field: 'main_id', collection: accounts }],
    })
    expect([changed.status, changed.body]).toMatchObject([200, {}])
    const owner = await here.create(owners)
    const account = await here.create(accounts, { parent_id: owner })
    await call('PATCH', pathOf(owners, owner), { as: workspace.service, body: { main_id: account } })
    expect((await here.delete(accounts, account)).body.code).toBe('reference_in_use')
    expect((await here.delete(owners, owner)).status).toBe(200)
    expect(await here.idsOf(accounts)).toEqual([])
  })

  test('set_null within one collection: children stay without their parent', async () => {
    const name = unique('nodes')
    await here.declare({
      collection: name,
      schema: { properties: { parent_id: ID_OR_NULL } },
      references: [{ field: 'parent_id', collection: name, on_delete: 'set_null' }],
    })
    const root = await here.create(name)
    const child = await here.create(name, { parent_id: root })
    expect((await here.delete(name, root)).status).toBe(200)
    expect(await here.all(name)).toMatchObject([{ id: child, parent_id: null, _version: 2 }])
  })
})

test('set_null that a check, a unique value or the schema does not admit: 409, and nothing is changed', async () => {
  const parents = await here.declare({ schema: {} })
  const checked = await here.referring(parents.name, 'set_null', {
    schema: { properties: { parent_id: ID_OR_NULL, kind: { type: 'string' } } },
    checks: [{ name: 'owned', check: { $or: [{ kind: { neq: 'owned' } }, { parent_id: { neq: null } }] } }],
  })
  const unlike = await here.referring(parents.name, 'set_null', {
    schema: { properties: { parent_id: ID_OR_NULL, kind: { type: 'string' } } },
    unique: [{ fields: ['kind'], where: { parent_id: null } }],
  })
  const entangled = await here.referring(parents.name, 'set_null', {
    schema: {
      properties: { parent_id: ID_OR_NULL, kind: { type: 'string' } },
      if: { properties: { kind: { const: 'owned' } }, required: ['kind'] },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { properties: { parent_id: { type: 'string' } } },
    },
  })
  for (const { name } of [checked, unlike, entangled]) {
    const parent = await here.create(parents.name)
    if (name === unlike.name) await here.create(name, { kind: 'owned' })
    const child = await here.create(name, { kind: 'owned', parent_id: parent })
    const free = await here.create(name, { kind: 'other', parent_id: parent })
    const refused = await here.delete(parents.name, parent)
    expect([refused.status, refused.body]).toMatchObject([409, { code: 'reference_in_use' }])
    expect(JSON.stringify(refused.body.referring)).toContain(child)
    const { body } = await call('GET', pathOf(name, free), { as: workspace.service })
    expect(body).toMatchObject({ parent_id: parent, _version: 1 })
    await here.delete(name, child)
    expect((await here.delete(parents.name, parent)).status).toBe(200)
  }
})

test('set_null at a field that may not be null: 400 that names the reference', async () => {
  const parents = await here.declare({ schema: {} })
  const references = [{ field: 'parent_id', collection: parents.name, on_delete: 'set_null' }]
  for (const type of ['string', ['string']]) {
    const schema = { properties: { parent_id: { type, format: 'uuid' } } }
    const refused = await here.request({ schema, references })
    expect([refused.status, refused.body]).toMatchObject([
      400,
      { code: 'validation_failed', errors: [{ pointer: '/references/0/on_delete' }] },
    ])
    expect(refused.body.detail).toContain('parent')
  }
  const { id } = await here.referring(parents.name, 'set_null')
  const narrowed = { schema: { properties: { parent_id: { type: 'string', format: 'uuid' } } } }
  expect((await here.change(id, narrowed)).body.errors).toMatchObject([
    { pointer: '/references/0/on_delete' },
  ])
})

test('batch: a deletion takes along, later operations find what is left; one that fails leaves all', async () => {
  const parents = await here.declare({ schema: {} })
  const children = await here.referring(parents.name, 'cascade')
  const family = async () => {
    const parent = await here.create(parents.name)
    return { parent, child: await here.create(children.name, { parent_id: parent }) }
  }
  const [one, two] = [await family(), await family()]
  const made = await batch([
    { op: 'create', collection: children.name, data: { name: 'new', parent_id: two.parent } },
    { op: 'delete', collection: parents.name, id: one.parent },
    { op: 'update', collection: children.name, id: two.child, data: { name: 'kept' } },
  ])
  expect([made.status, made.body]).toMatchObject([200, { committed: true }])
  expect((await here.all(children.name)).map(({ name }) => name).sort()).toEqual(['kept', 'new'])
  const refused = await batch([
    { op: 'create', collection: parents.name, data: {} },
    { op: 'delete', collection: parents.name, id: two.parent },
    { op: 'update', collection: children.name, id: two.child, data: { name: 'late' } },
  ])
  expect([refused.status, refused.body]).toMatchObject([404, { code: 'not_found', op_index: 2 }])
  const again = await batch([
    { op: 'delete', collection: parents.name, id: two.parent },
    { op: 'delete', collection: children.name, id: two.child },
  ])
  expect([again.status, again.body]).toMatchObject([404, { code: 'not_found', op_index: 1 }])
  expect(await here.idsOf(parents.name)).toEqual([two.parent])
  expect(await here.all(children.name)).toHaveLength(2)
})

test('quota of documents: what a deletion takes along is given back', async () => {
  const own = await createTestWorkspace()
  const there = new Collections(own)
  await limit(own, { documents: 100 })
  const parents = await there.declare({ schema: {} })
  const children = await there.referring(parents.name, 'cascade')
  const parent = await there.create(parents.name)
  await there.createMany(
    children.name,
    Array.from({ length: 20 }, () => ({ parent_id: parent })),
  )
  expect((await quota(own, 'documents')).used).toBe(21)
  expect((await there.delete(parents.name, parent)).status).toBe(200)
  expect((await quota(own, 'documents')).used).toBe(0)
})

test('deletion with a version, and batch with an idempotency key: compared, and made once', async () => {
  const parents = await here.declare({ schema: {} })
  const children = await here.referring(parents.name, 'cascade')
  const parent = await here.create(parents.name)
  await here.create(children.name, { parent_id: parent })
  const remove = (headers: Record<string, string>) =>
    call('DELETE', pathOf(parents.name, parent), { as: workspace.service, headers })
  expect((await remove({ 'if-match': '"v7"' })).status).toBe(412)
  expect(await here.all(children.name)).toHaveLength(1)
  const headers = { 'idempotency-key': randomUUID() }
  const body = { ops: [{ op: 'delete', collection: parents.name, id: parent }] }
  const keyed = () => call('POST', '/v1/batch', { as: workspace.service, body, headers })
  const [first, second] = [await keyed(), await keyed()]
  expect([first.status, second.status]).toEqual([200, 200])
  expect(second.body).toEqual(first.body)
  expect(await here.all(children.name)).toEqual([])
  expect((await remove({})).status).toBe(404)
})

test('declaration: on_delete is shown, and changed without touching documents', async () => {
  const parents = await here.declare({ schema: {} })
  const children = await here.referring(parents.name, 'restrict')
  const parent = await here.create(parents.name)
  await here.create(children.name, { parent_id: parent })
  expect((await here.delete(parents.name, parent)).body.code).toBe('reference_in_use')
  const references = [{ field: 'parent_id', collection: parents.name, on_delete: 'cascade' }]
  const changed = await here.change(children.id, { references })
  expect([changed.status, changed.body]).toMatchObject([200, { references }])
  expect(await here.all(children.name)).toMatchObject([{ _version: 1 }])
  expect((await here.delete(parents.name, parent)).status).toBe(200)
  expect(await here.all(children.name)).toEqual([])
})
