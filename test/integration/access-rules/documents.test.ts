/** Rules on documents for users and anon keys, on every path to a document. */

import { beforeAll, describe, expect, test } from 'vitest'
import { createIn, declaredWithRules } from '../../support/fixtures/access-rules.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'

const OWN = { _owner: '$user.id' }

let workspace: TestWorkspace
let [mia, ben]: Caller[] = []
beforeAll(async () => {
  workspace = await createTestWorkspace()
  ;[mia, ben] = [await userToken(workspace, 'mia', { teams: ['red'] }), await userToken(workspace, 'ben')]
})

const declared = async (access: object, more: object = {}) =>
  (await declaredWithRules(workspace, access, more)).at

const create = (at: string, as: Caller | undefined, body: object) => createIn(at, as ?? {}, body)
const titles = async (at: string, as: Caller | undefined, query = '') => {
  const { body } = await call('GET', `${at}/documents${query}`, { as: as ?? {} })
  return (body.data as { title: string }[]).map(({ title }) => title)
}

describe('a collection whose documents belong to their creators', () => {
  let at: string
  let [ofMia, ofBen]: string[] = []
  beforeAll(async () => {
    at = await declared(
      { user: { read: OWN, create: true, update: OWN, delete: OWN } },
      { indexes: [{ fields: ['_owner'] }] },
    )
    ofMia = (await create(at, mia, { title: 'a' })).body.id
    ofBen = (await create(at, ben, { title: 'b' })).body.id
  })

  test('create – by a user – the server sets the owner', async () => {
    const { status, body } = await create(at, mia, { title: 'mine' })
    expect([status, body._owner]).toEqual([201, 'mia'])
    expect((await call('DELETE', `${at}/documents/${body.id}`, { as: mia ?? {} })).status).toBe(200)
  })

  test('create – that names an owner – is refused', async () => {
    const { status, body } = await create(at, mia, { title: 'x', _owner: 'ben' })
    expect([status, body.errors[0].pointer]).toEqual([400, '/_owner'])
  })

  test('list, query, count, get, export – by a user – show own documents alone', async () => {
    expect(await titles(at, mia)).toEqual(['a'])
    expect(await titles(at, ben)).toEqual(['b'])
    const query = { filter: {}, count: 'exact' }
    const { body } = await call('POST', `${at}/query`, { as: mia ?? {}, body: query })
    expect([body.data.length, body.page.total]).toEqual([1, 1])
    const estimated = await call('GET', `${at}/documents?count=estimated`, { as: mia ?? {} })
    expect(estimated.body.page.total).toBe(1)
    expect((await call('GET', `${at}/documents/${ofMia}`, { as: mia ?? {} })).body.title).toBe('a')
    expect((await call('GET', `${at}/documents/${ofBen}`, { as: mia ?? {} })).status).toBe(404)
    const lines = await call('GET', `${at}/export`, { as: ben ?? {} })
    expect(
      lines.body
        .trim()
        .split('\n')
        .map((line: string) => JSON.parse(line).title),
    ).toEqual(['b'])
  })

  test('a filter on documents of others – by a user – finds nothing', async () => {
    expect(await titles(at, mia, '?_owner=eq.ben')).toEqual([])
    expect(await titles(at, mia, '?or=(title.eq.b,title.eq.a)')).toEqual(['a'])
  })

  test.each(['PUT', 'PATCH', 'DELETE'])(
    '%s – on a document of another user – 404, unchanged',
    async (method) => {
      const body = method === 'DELETE' ? undefined : { title: 'stolen' }
      const reply = await call(method, `${at}/documents/${ofBen}`, { as: mia ?? {}, ...(body && { body }) })
      expect(reply.status).toBe(404)
      expect(await titles(at, ben)).toEqual(['b'])
    },
  )

  test('batch – with one document of another user – changes nothing', async () => {
    const ops = [
      { op: 'update', id: ofMia, data: { title: 'changed' } },
      { op: 'delete', id: ofBen },
    ]
    const reply = await call('POST', `${at}/batch`, { as: mia ?? {}, body: { ops } })
    expect([reply.status, reply.body.op_index]).toEqual([404, 1])
    expect(await titles(at, mia)).toEqual(['a'])
  })

  test('an anon key and a user of another workspace – find nothing', async () => {
    await openCollectionsToAnon(workspace)
    const stranger = await userToken(await createTestWorkspace(), 'mia')
    expect((await call('GET', `${at}/documents`, { as: stranger })).status).toBe(403)
    expect((await call('GET', `${at}/documents`, { as: workspace.anon })).status).toBe(403)
  })

  test('import – by a user – owns its lines, and takes no ids', async () => {
    const other = await declared({ user: { read: OWN, create: true } })
    const body = `{"title":"one"}\n{"id":"${ofBen}","title":"two"}\n`
    const reply = await call('POST', `${other}/import`, {
      ...{ as: mia ?? {}, body },
      headers: { 'content-type': 'application/x-ndjson' },
    })
    expect([reply.body.created, reply.body.failed]).toEqual([1, 1])
    expect(await titles(other, mia)).toEqual(['one'])
    expect(await titles(other, ben)).toEqual([])
  })
})

test('a collection without access.user, and an undeclared one – are closed to users, though anon keys read them', async () => {
  await openCollectionsToAnon(workspace)
  const at = await declared({})
  for (const [method, path] of [
    ['GET', `${at}/documents`],
    ['POST', `${at}/documents`],
    ['GET', '/v1/collections/nothing/documents'],
    ['POST', '/v1/collections/nothing/documents'],
  ] as const) {
    const reply = await call(method, path, { as: mia ?? {}, ...(method === 'POST' && { body: {} }) })
    expect([path, reply.status, reply.body.code]).toEqual([path, 403, 'forbidden'])
    if (method === 'GET') expect((await call(method, path, { as: workspace.anon })).status).toBe(200)
  }
})
