/** Changes of documents in every store: result, conditions, change events. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { COLLECTION_LIMITS } from '../../../src/features/collections/limits.ts'
import { closeSubscriptions } from '../../support/clients/sse.ts'
import { publishedChanges } from '../../support/fixtures/outbox.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})
afterAll(closeSubscriptions)

const at = (collection: string, id = '') => `/v1/collections/${collection}/documents${id && `/${id}`}`

/** Declared stores have columns for some of the fields that the tests write, and `rest` for the others. */
const STORES: Readonly<Record<string, object | undefined>> = {
  undeclared: undefined,
  document: { store: 'document', schema: { properties: { a: {}, n: { type: ['integer', 'null'] } } } },
  relational: {
    store: 'relational',
    schema: { properties: { a: {}, title: { type: 'string' }, n: { type: ['integer', 'null'] } } },
  },
  unseparable: {
    store: 'relational',
    schema: {
      properties: { title: { type: 'string' }, n: { type: ['integer', 'null'] } },
      maxProperties: 50,
    },
  },
}

async function createCollection(declaration: object | undefined): Promise<string> {
  const collection = unique('c')
  if (declaration === undefined) return collection
  const body = { workspace_id: workspace.workspaceId, collection, ...declaration }
  expect((await call('POST', '/v1/schemas', { as: workspace.operator, body })).status).toBe(201)
  return collection
}

/** RFC 7396, Appendix A, for the cases in which both sides are objects. */
const MERGES: readonly [object, object, object][] = [
  [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
  [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
  [{ a: 'b' }, { a: null }, {}],
  [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
  [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
  [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
  [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
  [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
  [{ e: null }, { a: 1 }, { e: null, a: 1 }],
  [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
  [{ title: 'x', n: 1 }, { title: null }, { n: 1 }],
]

const fieldsOf = (body: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(body).filter(([name]) => name !== 'id' && !/^_[a-z]/.test(name)))

describe.each(Object.keys(STORES))('document changes, %s', (store) => {
  let collection: string
  beforeAll(async () => {
    collection = await createCollection(STORES[store])
  })

  const make = async (body: object) =>
    (await call('POST', at(collection), { as: workspace.service, body })).body as {
      id: string
      _version: number
    }

  test.each(MERGES)('merge patch: %j + %j: result as in RFC 7396', async (target, patch, wanted) => {
    const as = workspace.service
    const { id } = await make(target)
    const headers = { 'content-type': 'application/merge-patch+json' }
    const patched = await call('PATCH', at(collection, id), { as, body: patch, headers })
    expect([patched.status, fieldsOf(patched.body)]).toEqual([200, wanted])
    expect(patched.body._version).toBe(2)
    expect((await call('GET', at(collection, id), { as })).body).toEqual(patched.body)
  })

  test('update: set, unset, replace: applied; empty update: no new version', async () => {
    const as = workspace.service
    const { id } = await make({ title: 'x', n: 1, a: [1], other: { deep: true } })
    const put = (query: string, body: object) =>
      call('PUT', at(collection, id) + query, { as, body }).then(({ body }) => [
        body._version,
        fieldsOf(body),
      ])
    expect(await put('', {})).toEqual([1, { title: 'x', n: 1, a: [1], other: { deep: true } }])
    expect(await put('', { n: null, a: { b: 1 } })).toEqual([
      2,
      { title: 'x', n: null, a: { b: 1 }, other: { deep: true } },
    ])
    expect(await put('?unset=n,other', { title: 'y' })).toEqual([3, { title: 'y', a: { b: 1 } }])
    expect(await put('?unset=title', {})).toEqual([4, { a: { b: 1 } }])
    expect(await put('?replace=true', { id, n: 7, z: 'z' })).toEqual([5, { n: 7, z: 'z' }])
    expect(await put('?replace=true', {})).toEqual([6, {}])
  })

  test('conditional write: lists, stars and weak tags: as in RFC 9110', async () => {
    const as = workspace.service
    const { id } = await make({ n: 1 })
    const status = async (method: string, headers: Record<string, string>, body?: object) =>
      (await call(method, at(collection, id), { as, headers, ...(body && { body }) })).status
    expect(await status('PUT', { 'if-match': '"v9", "v1"' }, { n: 2 })).toBe(200)
    expect(await status('PUT', { 'if-match': '*' }, { n: 3 })).toBe(200)
    for (const method of ['PUT', 'PATCH', 'DELETE']) {
      const body = method === 'DELETE' ? undefined : { n: 4 }
      for (const tag of ['"v1"', 'W/"v3"', 'v3', '"v3', '', '"v3" "v3"'])
        expect(await status(method, { 'if-match': tag }, body), `${method} ${tag}`).toBe(412)
      expect(await status(method, { 'if-none-match': '*' }, body)).toBe(412)
    }
    const stale = await call('DELETE', at(collection, id), { as, headers: { 'if-match': '"v1"' } })
    expect([stale.body.code, stale.headers.get('etag')]).toEqual(['precondition_failed', '"v3"'])
    expect(await status('DELETE', { 'if-match': '"v3"' })).toBe(200)
    for (const method of ['PUT', 'PATCH', 'DELETE'])
      expect(await status(method, { 'if-match': '"v3"' }, method === 'DELETE' ? undefined : {})).toBe(404)
  })

  test('merge patch: concurrent patches: none is lost', async () => {
    const as = workspace.service
    const { id } = await make({})
    const names = Array.from({ length: 24 }, (_, n) => `f${n}`)
    const all = await Promise.all(
      names.map((name) => call('PATCH', at(collection, id), { as, body: { [name]: true } })),
    )
    expect(new Set(all.map(({ status }) => status))).toEqual(new Set([200]))
    const { body } = await call('GET', at(collection, id), { as })
    expect([body._version, Object.keys(fieldsOf(body)).sort()]).toEqual([25, [...names].sort()])
  })

  test('document: grown by changes of every kind: refused beyond its size limit', async () => {
    const as = workspace.service
    const { id } = await make({ title: 'x'.repeat(COLLECTION_LIMITS.documentBytesMax - 1_000) })
    for (const method of ['PUT', 'PATCH']) {
      const grown = await call(method, at(collection, id), { as, body: { more: 'y'.repeat(1_000) } })
      expect([method, grown.status, grown.body.code]).toEqual([method, 413, 'body_too_large'])
    }
    expect((await call('PUT', at(collection, id), { as, body: { title: 'short' } })).status).toBe(200)
    const { body } = await call('PUT', at(collection, id), { as, body: { more: 'y'.repeat(1_000) } })
    expect(body._version).toBe(3)
  })

  test('change event: per change: exactly one; refused change: none', async () => {
    const as = workspace.service
    const { id } = await make({ title: 'x', n: 1, a: { b: [null] }, o: null })
    await call('PUT', at(collection, id), { as, body: { n: 2 } })
    await call('PUT', at(collection, id), { as, body: {} })
    await call('PUT', at(collection, id), { as, body: { n: 3 }, headers: { 'if-match': '"v1"' } })
    await call('PATCH', at(collection, id), { as, body: { title: null } })
    await call('DELETE', at(collection, id), { as, headers: { 'content-type': 'application/json' } })
    await call('DELETE', at(collection, id), { as })
    const lines = (await publishedChanges(workspace, collection)).filter(({ data }) => data.id === id)
    const title = { title: 'x' }
    expect(lines.map(({ topic, data }) => [topic.split('.')[2], data])).toEqual([
      ['created', { id, version: 1, document: { ...title, n: 1, a: { b: [null] }, o: null } }],
      ['updated', { id, version: 2, document: { ...title, n: 2, a: { b: [null] }, o: null } }],
      ['updated', { id, version: 3, document: { n: 2, a: { b: [null] }, o: null } }],
      ['deleted', { id, version: 3 }],
    ])
  })
})

test('merge patch: content type on another method than PATCH: refused', async () => {
  const headers = { 'content-type': 'application/merge-patch+json' }
  const refused = await call('POST', at('any'), { as: workspace.service, body: {}, headers })
  expect([refused.status, refused.body.code]).toEqual([415, 'media_type_unsupported'])
})

test('merge patch: exceeds the bounds of documents: refused', async () => {
  const as = workspace.service
  const { body } = await call('POST', at('bounds'), { as, body: { a: 1 } })
  const deep = JSON.parse(`${'{"a":'.repeat(40)}1${'}'.repeat(40)}`)
  for (const patch of [deep, { _x: 1 }, { $x: null }, { id: 'other' }, { a: '\u0000' }]) {
    const refused = await call('PATCH', at('bounds', body.id), { as, body: patch })
    expect(refused.status).toBe(400)
  }
  for (const unset of ['a.b', 'id', '_version', '']) {
    const refused = await call('PUT', `${at('bounds', body.id)}?unset=${unset}`, { as, body: {} })
    expect([unset, refused.status]).toEqual([unset, 400])
  }
  expect((await call('GET', at('bounds', body.id), { as })).body).toEqual(body)
})

test('merge patch: empty: no change; selection of fields: tag of the whole document', async () => {
  const as = workspace.service
  const { body } = await call('POST', at('parts'), { as, body: { a: 1, b: { c: 2, d: 3 } } })
  const patched = await call('PATCH', at('parts', body.id), { as, body: {} })
  expect([patched.headers.get('etag'), patched.body]).toEqual(['"v1"', body])
  const part = await call('GET', `${at('parts', body.id)}?select=b.d`, { as })
  expect([part.headers.get('etag'), part.body]).toEqual(['"v1"', { id: body.id, b: { d: 3 } }])
})

test('HEAD: compared with GET: same headers, no body', async () => {
  const as = workspace.service
  const { body } = await call('POST', at('heads'), { as, body: { a: 1 } })
  const head = await call('HEAD', at('heads', body.id), { as })
  expect([head.status, head.headers.get('etag'), head.body]).toEqual([200, '"v1"', ''])
  expect((await call('HEAD', at('heads', workspace.workspaceId), { as })).status).toBe(404)
})

test('write – that takes longer than a statement may – 503 overloaded with Retry-After, nothing is changed', async () => {
  const body = {
    ...{ workspace_id: workspace.workspaceId, collection: unique('c'), store: 'relational' },
    ...{ schema: { properties: { n: { type: 'integer' } } }, access: { anon: { create: true } } },
  }
  const { body: declared } = await call('POST', '/v1/schemas', { as: workspace.operator, body })
  const path = `/v1/collections/${declared.collection}/documents`
  // The database is slow: a statement of an anon key may take 5 s.
  await asSuperuser(`
    create function public.slow_${declared.id}() returns trigger language plpgsql as
      'begin perform pg_catalog.pg_sleep(8); return new; end';
    create trigger slow before insert on tenon_data.${declared.id}
      for each row execute function public.slow_${declared.id}()`)
  try {
    const {
      status,
      headers,
      body: problem,
    } = await call('POST', path, { as: workspace.anon, body: { n: 1 } })
    expect([status, problem.code, headers.get('retry-after')]).toEqual([503, 'overloaded', '1'])
    expect((await call('GET', path, { as: workspace.service })).body.data).toEqual([])
  } finally {
    await asSuperuser(`drop function public.slow_${declared.id}() cascade`)
  }
})
