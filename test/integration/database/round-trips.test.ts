/** One round trip to PostgreSQL per simple request, counted on the wire as Sync and Query messages. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { type CountedApi, startCountedApi } from '../../support/stack/counted-api.ts'

let node: CountedApi
let workspace: TestWorkspace

beforeAll(async () => {
  node = await startCountedApi()
  workspace = await createTestWorkspace()
  const properties = { title: { type: 'string' }, n: { type: 'integer' } }
  const schema = { type: 'object', required: ['title'], properties, additionalProperties: false }
  const body = { workspace_id: workspace.workspaceId, collection: 'declared', store: 'relational', schema }
  expect((await call('POST', '/v1/schemas', { as: workspace.operator, body })).status).toBe(201)
})
afterAll(() => node?.close())

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

async function ask(method: Method, url: string, payload?: object) {
  const reply = await node.app.inject({
    method,
    url,
    headers: workspace.service,
    ...(payload && { payload }),
  })
  if (reply.statusCode >= 300) throw new Error(`${method} ${url} answered ${reply.body}`)
  return reply.json()
}

/** Round trips of the request once the key and the declaration are cached. */
async function tripsOf(method: Method, url: string, payload?: object): Promise<number> {
  await ask('GET', `${url.replace(/(\/documents|\/query|\?).*$/, '')}/documents`)
  // Background counters are written now, and not again for a while.
  await node.platform.meters.flush()
  const before = node.seen.trips
  await ask(method, url, payload)
  return node.seen.trips - before
}

test.each(['undeclared', 'declared'])('round trips: simple request, %s collection: one', async (name) => {
  const base = `/v1/collections/${name}`
  const documents = `${base}/documents`
  const { id } = await ask('POST', documents, { title: 'a', n: 1 })
  for (const n of [2, 3]) await ask('POST', documents, { title: 'b', n })
  const list = `${documents}?title=eq.b&order=n.desc&page[size]=1`
  const { page } = await ask('GET', list)
  const costs = {
    create: await tripsOf('POST', documents, { title: 'c', n: 4 }),
    get: await tripsOf('GET', `${documents}/${id}`),
    list: await tripsOf('GET', list),
    'list, next page': await tripsOf('GET', `${list}&page[after]=${page.next}`),
    'list, counted': await tripsOf('GET', `${list}&count=exact`),
    query: await tripsOf('POST', `${base}/query`, { filter: { n: { gte: 2 } }, sort: { n: -1 } }),
    update: await tripsOf('PUT', `${documents}/${id}`, { n: 5 }),
    delete: await tripsOf('DELETE', `${documents}/${id}`),
  }
  expect(costs).toEqual(Object.fromEntries(Object.keys(costs).map((what) => [what, 1])))
})

test('round trips: documents with others at the other end of references, two levels: one', async () => {
  const { operator: as, workspaceId: workspace_id } = workspace
  const declare = async (collection: string, body: object) => {
    const declared = { workspace_id, collection, store: 'relational', ...body }
    expect((await call('POST', '/v1/schemas', { as, body: declared })).status).toBe(201)
  }
  const [name, uuid] = [{ type: 'string' }, { type: 'string', format: 'uuid' }]
  await declare('authors', { schema: { properties: { name } } })
  await declare('books', {
    schema: { properties: { name, author_id: uuid } },
    references: [{ field: 'author_id', collection: 'authors', inverse: 'books' }],
  })
  const documents = '/v1/collections/authors/documents'
  const { id } = await ask('POST', documents, { name: 'a' })
  for (const title of ['b', 'c', 'd'])
    await ask('POST', '/v1/collections/books/documents', { name: title, author_id: id })
  const paths = [
    `${documents}?expand=books(author(books(count));size=2)`,
    `${documents}/${id}?expand=books(author())`,
    '/v1/collections/books/documents?select=name,author.name&order=name&page[size]=1&count=exact',
  ]
  for (const path of paths) {
    await ask('GET', path)
    // The declarations of both collections are cached for some seconds; one may have to be read again.
    const trips = [await tripsOf('GET', path), await tripsOf('GET', path)]
    expect([path, Math.min(...trips)]).toEqual([path, 1])
  }
  const { page } = await ask('GET', paths[2] ?? '')
  const next = await ask('GET', `${paths[2]}&page[after]=${page.next}`)
  expect(next.data).toMatchObject([{ name: 'c', _expand: { author: { name: 'a' } } }])
})

test('round trips: merge patch, which reads before it writes: two', async () => {
  const documents = '/v1/collections/undeclared/documents'
  const { id } = await ask('POST', documents, { n: 1 })
  expect(await tripsOf('PATCH', `${documents}/${id}`, { n: 2 })).toBe(2)
})

test('probes: a hundred at once: one check, not a hundred', async () => {
  await node.platform.meters.flush()
  const before = node.seen.trips
  await Promise.all(Array.from({ length: 100 }, (_, n) => ask('GET', n % 2 === 0 ? '/readyz' : '/startupz')))
  const trips = node.seen.trips - before
  // A slow machine needs a second check, or a connection of its own for the first.
  expect([trips > 0, trips < 10]).toEqual([true, true])
})
