/** Collections that are declared when they have documents: none is lost or changed, and what does not fit is told before anything moves. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

type Fields = Record<string, unknown>

const at = (collection: string, rest = '') => `/v1/collections/${collection}/documents${rest}`
const create = (collection: string, body: Fields, of = workspace) =>
  call('POST', at(collection), { as: of.service, body })
const list = async (collection: string, query = '', of = workspace): Promise<Fields[]> =>
  (await call('GET', at(collection, `?page[size]=200${query}`), { as: of.service })).body.data
const declare = (collection: string, body: object, of = workspace) =>
  call('POST', '/v1/schemas', {
    as: of.operator,
    body: { workspace_id: of.workspaceId, collection, store: 'relational', ...body },
    headers: { prefer: 'wait=30' },
  })

/** Documents of any shapes, one of them changed once. */
async function fill(collection: string): Promise<Fields[]> {
  for (let n = 0; n < 5; n++)
    expect((await create(collection, { n, name: `name ${n}`, tags: [n] })).status).toBe(201)
  const [first] = await list(collection)
  await call('PATCH', at(collection, `/${first?.['id']}`), {
    as: workspace.service,
    body: { n: 10, more: { a: null } },
  })
  return list(collection)
}

const SCHEMA = {
  properties: { n: { type: 'integer' }, name: { type: 'string' } },
}

describe.each(['relational', 'document'])('store %s', (store) => {
  test('declaration of a collection with documents: keeps ids, versions, times and values, and indexes them', async () => {
    const collection = unique('c')
    const before = await fill(collection)
    const { status, body } = await declare(collection, {
      ...{ store, schema: SCHEMA, indexes: [{ fields: ['n'] }], unique: [['name']] },
    })
    expect([status, body]).toMatchObject([201, { collection }])
    expect(await list(collection)).toEqual(before)
    const schemas = await call('GET', `/v1/schemas?workspace_id=${workspace.workspaceId}&page[size]=200`, {
      as: workspace.operator,
    })
    const declared = schemas.body.data.find((one: Fields) => one['collection'] === collection)
    expect(declared).toMatchObject({ mode: 'enforce', store })
    expect(declared.indexes.map(({ state }: Fields) => state)).toEqual(['ready', 'ready'])
    expect((await list(collection, '&n=gte.3')).map(({ n }) => n)).toEqual([10, 3, 4])
    expect((await create(collection, { n: 'x' })).body.code).toBe('schema_violation')
    expect((await create(collection, { n: 1, name: 'name 2' })).body.code).toBe('unique_violation')
    const left = 'select from tenon.documents where workspace_id = $1 and collection = $2'
    expect(await asSuperuser(left, [workspace.workspaceId, collection])).toEqual([])
  })

  test('documents that do not fit: 409 with their ids, and the collection is as it was; in mode warn they stay', async () => {
    const collection = unique('c')
    const before = await fill(collection)
    const schema = { properties: { n: { type: 'integer', maximum: 3 } } }
    const refused = await declare(collection, { store, schema })
    expect([refused.status, refused.body]).toMatchObject([
      409,
      { code: 'schema_incompatible', offending: [{ id: before[0]?.['id'] }, { id: before[4]?.['id'] }] },
    ])
    expect(await list(collection)).toEqual(before)
    expect((await create(collection, { n: 'any' })).status).toBe(201)
    const warned = await declare(collection, { store, schema, mode: 'warn' })
    expect([warned.status, warned.body]).toMatchObject([201, { mode: 'warn' }])
    expect((await list(collection)).slice(0, 5)).toEqual(before)
    expect((await create(collection, { n: 7 })).body._warnings).toHaveLength(1)
  })
})

test('writers all the while: each acknowledged write is there afterwards, with its value, and what was deleted is not', async () => {
  const collection = unique('c')
  const lines = Array.from({ length: 3_000 }, (_, n) => JSON.stringify({ n, text: 'x'.repeat(500) })).join(
    '\n',
  )
  await call('POST', `/v1/collections/${collection}/import`, {
    as: workspace.service,
    body: lines,
    headers: { 'content-type': 'application/x-ndjson' },
  })
  const acknowledged = new Map<string, unknown>()
  const refused = new Set<string>()
  let isOver = false
  let next = 10_000
  // Each lane has documents of its own, so the last answer is the last value.
  const lanes = Array.from({ length: 4 }, async () => {
    const own: string[] = []
    while (!isOver) {
      const n = next++
      const made = await create(collection, { n })
      if (made.status === 201) acknowledged.set(made.body.id, n)
      else refused.add(`${made.status} ${made.body.code}`)
      if (made.status === 201) own.push(made.body.id)
      const [id] = own.splice(n % own.length, 1)
      const isDeleted = n % 3 === 0
      const { status, body } = isDeleted
        ? await call('DELETE', at(collection, `/${id}`), { as: workspace.service })
        : await call('PUT', at(collection, `/${id}`), { as: workspace.service, body: { n: -n } })
      if (status !== 200) refused.add(`${status} ${body.code}`)
      else if (isDeleted) acknowledged.delete(id ?? '')
      else acknowledged.set(id ?? '', -n)
      if (!isDeleted) own.push(id ?? '')
    }
  })
  await eventually(async () => (next > 10_040 ? true : undefined))
  const declared = await declare(collection, { schema: SCHEMA })
  expect([declared.status, declared.body]).toMatchObject([201, { collection }])
  isOver = true
  await Promise.all(lanes)
  expect([...refused]).toEqual([])
  const found = new Map<string, unknown>()
  for (let after = ''; ; ) {
    const query = `?page[size]=200&select=n${after && `&page[after]=${after}`}`
    const { body } = await call('GET', at(collection, query), { as: workspace.service })
    for (const { id, n } of body.data) found.set(id, n)
    if (body.page.next === null) break
    after = body.page.next
  }
  expect(found.size).toBe(3_000 + acknowledged.size)
  for (const [id, n] of acknowledged) expect([id, found.get(id)]).toEqual([id, n])
})

test.each([
  [
    'a reference to a document that is not there',
    {
      schema: { properties: { n: { type: 'integer' }, parent_id: { type: 'string', format: 'uuid' } } },
      references: [{ field: 'parent_id', collection: 'parents' }],
    },
    { n: 1, parent_id: '01890a5d-ac96-774b-bcce-b302099a8057' },
    'schema_incompatible',
  ],
  [
    'ranges that overlap',
    {
      schema: { properties: { from: { type: 'integer' }, to: { type: 'integer' } } },
      exclude: [{ fields: [], range: ['from', 'to'] }],
    },
    { from: 1, to: 10 },
    'exclusion_violation',
  ],
])(
  'declaration that is refused for %s: the documents are as they were, undeclared',
  async (_what, body, extra, code) => {
    const collection = unique('c')
    await fill(collection)
    for (let n = 0; n < 2; n++) expect((await create(collection, extra)).status).toBe(201)
    const before = await list(collection)
    const parents = unique('parents')
    expect((await declare(parents, { schema: {} })).status).toBe(201)
    const wanted = JSON.parse(JSON.stringify(body).replace('"parents"', JSON.stringify(parents)))
    const refused = await declare(collection, wanted)
    expect([refused.status >= 400, refused.body.code]).toEqual([true, code])
    expect(await list(collection)).toEqual(before)
    expect((await create(collection, { n: 'any' })).status).toBe(201)
    const declared = await declare(collection, { schema: {}, mode: 'off' })
    expect(declared.status).toBe(201)
  },
)

test('developer who may not widen access: 403, and nothing is declared', async () => {
  const collection = unique('c')
  const before = await fill(collection)
  const developer = await tokenOf({
    roles: ['developer'],
    tenant_id: workspace.tenantId,
    workspace_id: workspace.workspaceId,
  })
  const { status } = await call('POST', '/v1/schemas', {
    as: developer,
    body: {
      ...{ workspace_id: workspace.workspaceId, collection, store: 'relational', schema: SCHEMA },
      access: { anon: { read: true } },
    },
  })
  expect(status).toBe(403)
  expect(await list(collection)).toEqual(before)
  expect((await create(collection, { n: 'any' })).status).toBe(201)
})

test('declaration sent again with its Idempotency-Key: the same declaration', async () => {
  const collection = unique('c')
  await fill(collection)
  const send = () =>
    call('POST', '/v1/schemas', {
      as: workspace.operator,
      body: { workspace_id: workspace.workspaceId, collection, store: 'relational', schema: SCHEMA },
      headers: { 'idempotency-key': collection },
    })
  const [first, second] = [await send(), await send()]
  expect([first.status, second.status, second.body.id]).toEqual([201, 201, first.body.id])
})

test('references, checks and quotas: hold for what was there', async () => {
  const of = await createTestWorkspace()
  const [parents, children] = [unique('parents'), unique('children')]
  const { body: parent } = await create(parents, { n: 1 }, of)
  await create(children, { parent_id: parent.id, n: 1 }, of)
  await create(children, { parent_id: parent.id, n: 9 }, of)
  const limits = { documents: 4, document_bytes: 10_000 }
  const set = await call('PUT', '/v1/quotas', {
    as: of.operator,
    body: { workspace_id: of.workspaceId, limits },
  })
  expect([set.status, set.body]).toMatchObject([200, {}])
  const used = async () => {
    const rows = await asSuperuser<{ name: string; used: string }>(
      'select name, used from tenon.quotas where workspace_id = $1 order by name',
      [of.workspaceId],
    )
    return rows.map(({ name, used: n }) => [name, Number(n)] as const)
  }
  expect((await used()).find(([name]) => name === 'documents')).toEqual(['documents', 3])
  expect((await declare(parents, { schema: SCHEMA }, of)).status).toBe(201)
  const { status, body } = await declare(
    children,
    {
      schema: { properties: { parent_id: { type: 'string', format: 'uuid' }, n: { type: 'integer' } } },
      references: [{ field: 'parent_id', collection: parents }],
      checks: [{ name: 'small', check: { n: { lt: 5 } } }],
    },
    of,
  )
  expect([status, body.warnings]).toMatchObject([201, [{ pointer: '/checks/0' }]])
  const kept = await call('DELETE', at(parents, `/${parent.id}`), { as: of.service })
  expect(kept.body.code).toBe('reference_in_use')
  expect((await used()).find(([name]) => name === 'documents')).toEqual(['documents', 3])
  const bytes = new Map(await used()).get('document_bytes') ?? 0
  expect(bytes).toBeGreaterThan(100)
  expect((await create(children, { n: 2 }, of)).status).toBe(201)
  expect((await create(children, { n: 2 }, of)).body.code).toBe('quota_exceeded')
})

test('another workspace with a collection of the same name: keeps its documents undeclared', async () => {
  const collection = unique('c')
  const [sibling, other] = [await addTestWorkspace(workspace), await createTestWorkspace()]
  await fill(collection)
  for (const of of [sibling, other]) await create(collection, { n: 'theirs' }, of)
  expect((await declare(collection, { schema: SCHEMA })).status).toBe(201)
  for (const of of [sibling, other]) {
    expect((await list(collection, '', of)).map(({ n }) => n)).toEqual(['theirs'])
    expect((await create(collection, { n: 'any' }, of)).status).toBe(201)
  }
  await eventually(async () => ((await list(collection)).length === 5 ? true : undefined))
})
