/** Documents that are written back, batch fields and orders that other products spell otherwise: applied as meant, or refused with the spelling. */

import { beforeAll, expect, test } from 'vitest'
import { call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

const DOCUMENTS = '/v1/collections/notes/documents'
let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

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

test('batch: increment and unset of a path: 400, nothing changed', async () => {
  const { id } = await create({ o: { x: 1 } })
  for (const op of [
    { op: 'increment', id, field: 'o.x' },
    { op: 'update', id, data: {}, unset: ['o.x'] },
    { op: 'update', id, data: {}, unset: ['o->x'] },
  ])
    expect((await batch(op)).body.code).toBe('validation_failed')
  expect((await send('GET', `${DOCUMENTS}/${id}`)).body).toMatchObject({ o: { x: 1 }, _version: 1 })
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
  ['select=*,courts(name)', 'Leave select out'],
  ['select=courts(name)', 'select=courts'],
  ['select=total.sum()', 'select=total.sum'],
  ['select=*,n', 'Leave select out'],
])('list: %s: 400, the hint has %s', async (query, hint) => {
  const { status, body } = await send('GET', `${DOCUMENTS}?${query.replaceAll(' ', '%20')}`)
  expect([status, body.hint]).toEqual([400, expect.stringContaining(hint)])
})

test('list: order and selection of quoted names: accepted', async () => {
  for (const query of ['order="-n"', 'select="x:v"', 'select=*'])
    expect((await send('GET', `${DOCUMENTS}?${query}`)).status).toBe(200)
})
