/** Documents that are written back, batch fields and orders that other products spell otherwise: applied as meant, or refused with the spelling. */

import { afterEach, beforeAll, expect, test } from 'vitest'
import { closeSubscriptions, receivedAtLeast, subscribeToEvents } from '../../support/clients/sse.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'

const DOCUMENTS = '/v1/collections/notes/documents'
let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

afterEach(closeSubscriptions)

const send = (method: string, path: string, body?: unknown) =>
  call(method, path, { as: workspace.service, ...(body !== undefined && { body }) })
const create = async (fields: object) => (await send('POST', DOCUMENTS, fields)).body
const batch = (op: object) => send('POST', '/v1/collections/notes/batch', { ops: [op] })

test('PUT: of what GET returned, with a changed field: 200; with the version of an earlier read: 412', async () => {
  const read = await create({ n: 1, big: 1e21 })
  const first = await send('PUT', `${DOCUMENTS}/${read.id}`, { ...read, n: 2 })
  expect([first.status, first.body.n, first.body.big, first.body._version]).toEqual([200, 2, 1e21, 2])
  const second = await send('PUT', `${DOCUMENTS}/${read.id}`, { ...read, n: 3 })
  expect([second.status, second.body.code]).toEqual([412, 'precondition_failed'])
  expect((await send('PUT', `${DOCUMENTS}/${read.id}`, { _version: 'v1' })).status).toBe(400)
})

test('PATCH, increment by 0: without a change: no version', async () => {
  const { id } = await create({ n: 1, o: { x: 1, y: 2 } })
  for (const patch of [{ n: 1 }, { o: { y: 2, x: 1 } }, { absent: null }, {}])
    expect((await send('PATCH', `${DOCUMENTS}/${id}`, patch)).body._version).toBe(1)
  const [result] = (await batch({ op: 'increment', id, field: 'n', by: 0 })).body.results
  expect(result.version).toBe(1)
  expect((await send('PATCH', `${DOCUMENTS}/${id}`, { o: { x: 2 } })).body._version).toBe(2)
})

const SCHEMA = {
  type: 'object',
  properties: {
    n: { type: 'integer' },
    s: { type: 'string' },
    at: { type: 'string', format: 'date-time' },
    l: {},
  },
}

test.each(['undeclared', 'relational'])(
  'writes of equal values: collection %s: no version, no change event',
  async (kind) => {
    const collection = unique(kind)
    if (kind !== 'undeclared') {
      const body = {
        workspace_id: workspace.workspaceId,
        collection,
        store: kind,
        schema: SCHEMA,
        mode: 'enforce',
      }
      expect((await call('POST', '/v1/schemas', { as: workspace.operator, body })).status).toBe(201)
    }
    const events = await subscribeToEvents(workspace.service, `topic=collections.${collection}.*`)
    const documents = `/v1/collections/${collection}/documents`
    const fields = {
      n: 1,
      s: 'é',
      at: '2026-01-01T00:00:00Z',
      l: [1, { x: null }],
      o: { a: 1, b: [] },
      z: null,
    }
    const { id } = (await send('POST', documents, fields)).body
    const turned = { z: null, o: { b: [], a: 1 }, l: [1, { x: null }] }
    const at = `${documents}/${id}`
    const written = [
      await send('PUT', at, { n: 1 }),
      await send('PUT', at, turned),
      await send('PUT', `${at}?unset=absent`, { s: 'é' }),
      await send('PUT', `${at}?replace=true`, { ...turned, ...fields }),
      await send('PATCH', at, { o: { a: 1 } }),
    ]
    expect(written.map(({ status, body }) => [status, body._version])).toEqual(written.map(() => [200, 1]))
    const ops = [
      { op: 'update', id, data: { n: 1 }, if_version: 1 },
      { op: 'replace', id, data: fields },
      { op: 'patch', id, data: { absent: null } },
      { op: 'update', id, data: { n: 2 } },
      { op: 'update', id, data: { n: 2 } },
      { op: 'replace', id, data: fields },
    ]
    const { status, body } = await send('POST', `/v1/collections/${collection}/batch`, { ops })
    expect([status, body.results?.map((result: { version: number }) => result.version)]).toEqual([
      200,
      [1, 1, 1, 2, 2, 3],
    ])
    // Equal writes of many callers share a statement.
    const many = await Promise.all(Array.from({ length: 20 }, () => send('PUT', at, { n: 1 })))
    expect(new Set(many.map((reply) => reply.body._version))).toEqual(new Set([3]))
    expect((await send('PUT', at, { n: 3 })).body._version).toBe(4)
    const seen = (await receivedAtLeast(events, 4)).map(({ data }) => data.data.version)
    expect(seen).toEqual([1, 2, 3, 4])
  },
)

test('batch: increment and unset of a path: the member of the object', async () => {
  const { id } = await create({ o: { x: 1, y: 2 }, 'o.x': 7 })
  for (const op of [
    { op: 'increment', id, field: 'o.x' },
    { op: 'update', id, data: {}, unset: ['o.y'] },
    { op: 'update', id, unset: ['"o.x"'] },
  ])
    expect((await batch(op)).body.committed).toBe(true)
  const { body } = await send('GET', `${DOCUMENTS}/${id}`)
  expect([body.o, body['o.x'], body._version]).toEqual([{ x: 2 }, undefined, 4])
})

test('batch: increment beyond 2^53: number_unsafe', async () => {
  const { id } = await create({ n: Number.MAX_SAFE_INTEGER })
  expect((await batch({ op: 'increment', id, field: 'n' })).body.code).toBe('number_unsafe')
})

test.each([
  ['order=-n', 'n.desc'],
  ['order=n desc', 'n.desc'],
  ['order=n:DESC', 'n.desc'],
  ['order=n,n', 'Name each field once'],
  ['select=x:v', 'select=v'],
  ['select=*,courts(name)', 'expand=courts(name)'],
  ['select=courts(name)', 'expand=courts(name)'],
  ['select=total.sum()', 'select=total.sum'],
  ['select=*,bogus', 'Leave select out'],
  ['oder=n.desc', 'Did you mean order?'],
  ['sort=-n', 'Did you mean order=a.desc?'],
  ['page_size=3', 'Did you mean page[size]=20?'],
  ['include=court', 'Did you mean expand=customer(name)?'],
])('list: %s: 400, the hint has %s', async (query, hint) => {
  const { status, body } = await send('GET', `${DOCUMENTS}?${query.replaceAll(' ', '%20')}`)
  expect([status, body.hint]).toEqual([400, expect.stringContaining(hint)])
})

test('list: order and selection of quoted names: accepted', async () => {
  for (const query of [
    'order="-n"',
    'select="x:v"',
    'select=*',
    'sort=eq.1',
    '"expand"=not.is.null',
    'or=(page.eq.1)',
  ])
    expect((await send('GET', `${DOCUMENTS}?${query}`)).status).toBe(200)
})
