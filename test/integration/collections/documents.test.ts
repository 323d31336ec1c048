/** Documents through the API: reads return what was written, in order, with versions. */

import { beforeAll, expect, test } from 'vitest'
import { call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const at = (collection: string, id = '') => `/v1/collections/${collection}/documents${id && `/${id}`}`

test('document: created, read, changed, deleted: every reply has the current state', async () => {
  const as = workspace.service
  const fields = { title: 'buy milk', done: false, tags: ['a', { b: null }], note: 'Ünïcødé 😀 \u2028' }
  const made = await call('POST', at('todos'), { as, body: fields })
  expect(made.status).toBe(201)
  expect(made.headers.get('etag')).toBe('"v1"')
  expect(made.body).toMatchObject({ ...fields, _version: 1 })
  expect(made.body.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/)

  const read = await call('GET', at('todos', made.body.id), { as })
  expect(read.body).toEqual(made.body)

  const changed = await call('PUT', at('todos', made.body.id), { as, body: { done: true, tags: null } })
  expect(changed.body).toMatchObject({ title: 'buy milk', done: true, tags: null, _version: 2 })
  const same = await call('PUT', at('todos', made.body.id), { as, body: {} })
  expect(same.body).toEqual(changed.body)

  expect((await call('DELETE', at('todos', made.body.id), { as })).body).toEqual({
    id: made.body.id,
    deleted: true,
  })
  for (const method of ['GET', 'DELETE']) {
    expect((await call(method, at('todos', made.body.id), { as })).body.code).toBe('not_found')
  }
})

test('conditional write: two writers with the same If-Match: one succeeds', async () => {
  const as = workspace.service
  const { body } = await call('POST', at('races'), { as, body: { n: 0 } })
  const writes = await Promise.all(
    Array.from({ length: 8 }, (_, n) =>
      call('PUT', at('races', body.id), { as, body: { n: n + 1 }, headers: { 'if-match': '"v1"' } }),
    ),
  )
  expect(writes.map(({ status }) => status).sort()).toEqual([200, ...Array(7).fill(412)])
  const loser = writes.find(({ status }) => status === 412)
  expect(loser?.headers.get('etag')).toBe('"v2"')
  const weak = await call('PUT', at('races', body.id), {
    as,
    body: { n: 9 },
    headers: { 'if-match': 'W/"v2"' },
  })
  expect(weak.status).toBe(412)
})

test('pages: rows are added and deleted meanwhile: no gap, no repetition', async () => {
  const as = workspace.service
  const ids: string[] = []
  for (let n = 0; n < 25; n++) ids.push((await call('POST', at('pages'), { as, body: { n } })).body.id)
  const seen: number[] = []
  let after = ''
  do {
    const { body } = await call('GET', `${at('pages')}?page[size]=7${after && `&page[after]=${after}`}`, {
      as: workspace.service,
    })
    expect(body.data.length).toBeLessThanOrEqual(7)
    expect(body.page.has_more).toBe(body.page.next !== null)
    seen.push(...body.data.map(({ n }: { n: number }) => n))
    if (seen.length === 7) await call('DELETE', at('pages', ids[6] ?? ''), { as })
    after = body.page.next ?? ''
  } while (after !== '')
  expect(seen).toEqual(Array.from({ length: 25 }, (_, n) => n))
})

test('list: a collection without writes: empty page', async () => {
  const { status, body } = await call('GET', at('nothing'), { as: workspace.service })
  expect([status, body]).toEqual([200, { data: [], page: { size: 50, next: null, has_more: false } }])
})

test('anon key: undeclared collections open to it: reads: allowed; writes: 403', async () => {
  const own = await createTestWorkspace()
  await openCollectionsToAnon(own)
  const made = await call('POST', at('todos'), { as: own.service, body: { a: 1 } })
  const read = async () => (await call('GET', at('todos', made.body.id), { as: own.anon })).body
  expect(await read()).toEqual(made.body)
  for (const [method, id] of [
    ['POST', ''],
    ['PUT', made.body.id],
    ['DELETE', made.body.id],
  ] as const) {
    const reply = await call(method, at('todos', id), {
      as: own.anon,
      ...(method !== 'DELETE' && { body: { a: 2 } }),
    })
    expect([reply.status, reply.body.code]).toEqual([403, 'forbidden'])
  }
  expect(await read()).toEqual(made.body)
  expect((await call('GET', at('todos'), { as: own.anon })).body.data).toEqual([made.body])
})
