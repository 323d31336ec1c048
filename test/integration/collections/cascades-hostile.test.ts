/** Deletions that references carry on, under rules, beside other writers, at their bounds, and beside other workspaces. */

import { randomUUID } from 'node:crypto'
import { v7 } from 'uuid'
import { beforeAll, describe, expect, test } from 'vitest'
import { COLLECTION_LIMITS } from '../../../src/features/collections/limits.ts'
import { Collections, ID_OR_NULL, pathOf } from '../../support/fixtures/references.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let here: Collections
beforeAll(async () => {
  workspace = await createTestWorkspace()
  here = new Collections(workspace)
})

const importLines = (there: Collections, name: string, lines: readonly object[]) =>
  call('POST', `/v1/collections/${name}/import?quiet=true`, {
    as: there.workspace.service,
    body: lines.map((line) => JSON.stringify(line)).join('\n'),
    headers: { 'content-type': 'application/x-ndjson' },
  })

const count = async (table: string): Promise<number> => {
  const [row] = await asSuperuser<{ n: number }>(`select count(*)::integer as n from tenon_data."${table}"`)
  return row?.n ?? -1
}

describe('bounds', () => {
  const MAX = COLLECTION_LIMITS.cascadeDocumentsMax

  test('chain of one document more than a deletion may take: 409, and nothing is changed; one less: all are deleted', async () => {
    const name = unique('chain')
    const { id: table } = await here.declare({
      collection: name,
      schema: { properties: { next_id: ID_OR_NULL } },
      references: [{ field: 'next_id', collection: name, on_delete: 'cascade' }],
    })
    const ids = Array.from({ length: MAX + 1 }, () => v7())
    const lines = ids.map((id, n) => ({ id, ...(n > 0 && { next_id: ids[n - 1] }) }))
    const imported = await importLines(here, name, lines)
    expect(imported.body).toMatchObject({ created: MAX + 1, failed: 0 })
    const refused = await here.delete(name, ids[0] ?? '')
    expect([refused.status, refused.body]).toMatchObject([409, { code: 'cascade_too_large' }])
    expect(await count(table)).toBe(MAX + 1)
    const deleted = await here.delete(name, ids[1] ?? '')
    expect([deleted.status, deleted.body]).toMatchObject([200, {}])
    expect(await here.idsOf(name)).toEqual([ids[0]])
  })

  test('documents that would lose their reference: count as well', async () => {
    const parents = await here.declare({ schema: {} })
    const notes = await here.referring(parents.name, 'set_null')
    const parent_id = await here.create(parents.name)
    await importLines(
      here,
      notes.name,
      Array.from({ length: MAX }, () => ({ parent_id })),
    )
    expect((await here.delete(parents.name, parent_id)).body.code).toBe('cascade_too_large')
    const [one] = await here.idsOf(notes.name)
    await here.delete(notes.name, one ?? '')
    const deleted = await here.delete(parents.name, parent_id)
    expect([deleted.status, deleted.body]).toMatchObject([200, {}])
    const [row] = await asSuperuser<{ n: number }>(
      `select count(*)::integer as n from tenon_data."${notes.id}" where version = 2 and extra = '{"parent_id": null}'`,
    )
    expect(row?.n).toBe(MAX - 1)
  })
})

describe('users under rules', () => {
  const OWN = { _owner: '$user.id' }
  const access = { user: { read: OWN, create: true, update: OWN, delete: OWN } }
  const shown = ({ status, body: { request_id: _, instance: _path, ...body } }: Reply) => [status, body]

  test('hidden documents go or change as declared, and the answer tells nothing of them', async () => {
    const parents = await here.declare({ schema: {}, access })
    const children = await here.referring(parents.name, 'cascade', { access })
    const notes = await here.referring(parents.name, 'set_null')
    const [ann, bob] = [await userToken(workspace, 'ann'), await userToken(workspace, 'bob')]
    const [lone, parent] = [
      await here.create(parents.name, {}, ann),
      await here.create(parents.name, {}, ann),
    ]
    const hidden = await here.create(children.name, { parent_id: parent })
    const note = await here.create(notes.name, { parent_id: parent })
    expect((await here.delete(parents.name, parent, bob)).status).toBe(404)
    expect(await here.idsOf(children.name)).toEqual([hidden])
    const replies = [await here.delete(parents.name, lone, ann), await here.delete(parents.name, parent, ann)]
    expect(replies.map(shown)).toEqual([lone, parent].map((id) => [200, { id, deleted: true }]))
    expect(await here.idsOf(children.name)).toEqual([])
    expect(await here.all(notes.name)).toMatchObject([{ id: note, parent_id: null, _version: 2 }])
  })

  test('hidden document in the way, by restrict, by its schema, or far behind: the same answer without its id', async () => {
    const parents = await here.declare({ schema: {}, access })
    const children = await here.referring(parents.name, 'cascade', { access })
    const bills = await here.referring(children.name, 'restrict', { access })
    const checks = [{ name: 'kept', check: { parent_id: { neq: null } } }]
    const notes = await here.referring(parents.name, 'set_null', { access, checks })
    const ann = await userToken(workspace, 'ann')
    const [far, near] = [await here.create(parents.name, {}, ann), await here.create(parents.name, {}, ann)]
    const child = await here.create(children.name, { parent_id: far })
    const bill = await here.create(bills.name, { parent_id: child })
    const note = await here.create(notes.name, { parent_id: near })
    const replies = [await here.delete(parents.name, far, ann), await here.delete(parents.name, near, ann)]
    expect(replies.map(({ status }) => status)).toEqual([409, 409])
    expect(shown(replies[0] as Reply)).toEqual(shown(replies[1] as Reply))
    for (const id of [bill, note, child]) expect(JSON.stringify(replies)).not.toContain(id)
    expect((await here.delete(parents.name, near)).body.referring).toEqual([
      { collection: notes.name, id: note },
    ])
  })

  test('anon key that may delete: takes along what it may not read', async () => {
    const open = { anon: { read: true, delete: true } }
    const parents = await here.declare({ schema: {}, access: open })
    const children = await here.referring(parents.name, 'cascade')
    const parent_id = await here.create(parents.name)
    await here.create(children.name, { parent_id })
    const deleted = await here.delete(parents.name, parent_id, workspace.anon)
    expect([deleted.status, deleted.body]).toMatchObject([200, { id: parent_id }])
    expect(await here.all(children.name)).toEqual([])
  })

  test('dry run: a service key learns how many go along, a user does not', async () => {
    const parents = await here.declare({ schema: {}, access })
    const children = await here.referring(parents.name, 'cascade', { access })
    const notes = await here.referring(children.name, 'set_null')
    const ann = await userToken(workspace, 'ann')
    const parent_id = await here.create(parents.name, {}, ann)
    const [child] = await here.createMany(children.name, [{ parent_id }, { parent_id }, {}])
    await here.createMany(notes.name, [{ parent_id: child }, {}])
    const preview = async (as = workspace.service) =>
      (
        await call('POST', `/v1/collections/${parents.name}/delete-many`, {
          ...{ as, body: { filter: {}, all: true, dry_run: true } },
        })
      ).body
    expect(await preview()).toEqual({ dry_run: true, matched: 1, cascades: 3, sample: [parent_id] })
    expect(await preview(ann)).toEqual({ dry_run: true, matched: 1, sample: [parent_id] })
    expect(await here.all(children.name)).toHaveLength(3)
  })
})

test('other workspace with the same collections and the same ids: stays as it is', async () => {
  const [parents, children, notes] = [unique('p'), unique('c'), unique('n')]
  const other = new Collections(await createTestWorkspace())
  const [id, child, note] = [randomUUID(), randomUUID(), randomUUID()]
  for (const there of [here, other]) {
    await there.declare({ collection: parents, schema: {} })
    await there.referring(parents, 'cascade', { collection: children })
    await there.referring(parents, 'set_null', { collection: notes })
    await importLines(there, parents, [{ id }])
    await importLines(there, children, [{ id: child, parent_id: id }])
    await importLines(there, notes, [{ id: note, parent_id: id }])
  }
  expect((await here.delete(parents, id)).status).toBe(200)
  expect(await here.idsOf(children)).toEqual([])
  expect(await other.idsOf(parents)).toEqual([id])
  expect(await other.all(children)).toMatchObject([{ id: child, parent_id: id, _version: 1 }])
  expect(await other.all(notes)).toMatchObject([{ id: note, parent_id: id, _version: 1 }])
})

describe('other writers at once', () => {
  test('children created while their parent is deleted: none is left without it, and no deletion is half made', async () => {
    const parents = await here.declare({ schema: {} })
    const children = await here.referring(parents.name, 'cascade')
    const notes = await here.referring(parents.name, 'set_null')
    let met = 0
    for (let round = 0; round < 12; round++) {
      const parent_id = await here.create(parents.name)
      await here.createMany(children.name, [{ parent_id }, { parent_id }])
      const creating = Array.from({ length: 24 }, (_, n) =>
        call('POST', pathOf(n % 2 ? children.name : notes.name), {
          as: workspace.service,
          body: { parent_id },
        }),
      )
      const [deleted, again, ...made] = await Promise.all([
        here.delete(parents.name, parent_id),
        here.delete(parents.name, parent_id),
        ...creating,
      ])
      expect([deleted.status, again.status].sort()).toEqual([200, 404])
      for (const { status, body } of made) {
        expect([201, 409]).toContain(status)
        if (status === 409) expect(body.code).toBe('reference_not_found')
      }
      met += new Set(made.map(({ status }) => status)).size - 1
    }
    const orphans = await asSuperuser(`select id from tenon_data."${children.id}"`)
    expect(orphans).toEqual([])
    expect((await here.all(notes.name)).filter(({ parent_id }) => parent_id !== null)).toEqual([])
    expect(met).toBeGreaterThan(0)
  })

  test('references changed while parents are deleted: each deletion follows the one or the other', async () => {
    const parents = await here.declare({ schema: {} })
    const children = await here.referring(parents.name, 'cascade')
    const ids = await here.createMany(parents.name, Array(40).fill({}))
    await here.createMany(
      children.name,
      ids.map((parent_id) => ({ parent_id })),
    )
    const changing = (async () => {
      const statuses = new Set<number>()
      for (let n = 0; n < 6; n++) {
        const on_delete = n % 2 ? 'cascade' : 'set_null'
        const references = [{ field: 'parent_id', collection: parents.name, on_delete }]
        statuses.add((await here.change(children.id, { references })).status)
      }
      return statuses
    })()
    const replies = await Promise.all(ids.map((id) => here.delete(parents.name, id)))
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]))
    expect(await changing).toEqual(new Set([200]))
    expect(await here.all(parents.name)).toEqual([])
    for (const { parent_id, _version } of await here.all(children.name))
      expect([parent_id, _version]).toEqual([null, 2])
  })

  test('deletions whose documents overlap, and changes of them: each is made or refused, and nothing refers to none', async () => {
    const name = unique('tree')
    const { id: table } = await here.declare({
      collection: name,
      schema: { properties: { parent_id: ID_OR_NULL, n: { type: 'integer' } } },
      references: [{ field: 'parent_id', collection: name, on_delete: 'cascade' }],
    })
    for (let round = 0; round < 6; round++) {
      const ids = await here.createMany(name, [{ n: 0 }, { n: 1 }, { n: 2 }])
      const level = await here.createMany(
        name,
        Array.from({ length: 12 }, (_, n) => ({ n, parent_id: ids[n % 3] })),
      )
      const leaves = await here.createMany(
        name,
        level.flatMap((parent_id) => [{ parent_id }, { parent_id }]),
      )
      const moved = level.map((id, n) =>
        call('PATCH', pathOf(name, id), { as: workspace.service, body: { parent_id: ids[(n + 1) % 3] } }),
      )
      const deleted = [...ids, ...level, ...leaves.slice(0, 6)].map((id) => here.delete(name, id))
      const replies = await Promise.all([...deleted, ...moved])
      const codes = new Set(replies.map(({ status, body }) => `${status} ${body.code ?? ''}`))
      for (const code of codes) expect(['200 ', '404 not_found', '409 reference_not_found']).toContain(code)
    }
    const left = await asSuperuser(
      `select id from tenon_data."${table}" t where extra ->> 'parent_id' is not null`,
    )
    expect(left).toEqual([])
    expect(await here.all(name)).toEqual([])
  })
})
