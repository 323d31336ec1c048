/** Search by similarity: finds texts with typos in them, by an index, within what the caller may read. */

import { beforeAll, expect, test } from 'vitest'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

type Fields = Record<string, unknown>
const DONE = { prefer: 'wait=30' }
const SCHEMA = { properties: { title: { type: 'string' }, n: { type: 'integer' } } }

const at = (collection: string, rest = '') => `/v1/collections/${collection}/${rest}`
async function declare(collection: string, body: object = {}, of = workspace) {
  const reply = await call('POST', '/v1/schemas', {
    as: of.operator,
    body: {
      ...{
        workspace_id: of.workspaceId,
        collection,
        store: 'relational',
        schema: SCHEMA,
        trigram: ['title'],
      },
      ...body,
    },
    headers: DONE,
  })
  return reply
}
async function fill(collection: string, titles: readonly string[], as: Caller = workspace.service) {
  const ops = titles.map((title, n) => ({ op: 'create', data: { title, n } }))
  expect((await call('POST', at(collection, 'batch'), { as, body: { ops } })).status).toBe(200)
}
const search = (collection: string, query: string, as: Caller = workspace.service) =>
  call('GET', at(collection, `documents?${query}`), { as })
const titles = ({ body }: { body: { data: Fields[] } }) => body.data.map(({ title }) => title)

const DRINKS = ['fresh milk, 1 litre', 'oat drink', 'Mineral water', 'Lemonade', 'café au lait', 'milkshake']

test('words with typos: the texts that are most like them come first, and those that are not like them at all are left out', async () => {
  const collection = unique('drinks')
  expect((await declare(collection)).status).toBe(201)
  await fill(collection, DRINKS)
  for (const [text, found] of [
    ['mlik', 'fresh milk, 1 litre'],
    ['minral wate', 'Mineral water'],
    ['lemonad', 'Lemonade'],
    ['OAT', 'oat drink'],
    ['cafe', 'café au lait'],
  ] as const) {
    const reply = await search(collection, `title=near.${encodeURIComponent(text)}`)
    expect([reply.status, titles(reply)[0]]).toEqual([200, found])
    const similarities = reply.body.data.map(({ _similarity }: Fields) => _similarity)
    expect(similarities).toEqual([...similarities].sort((a: number, b: number) => b - a))
    expect(similarities.every((one: number) => one > 0 && one <= 1)).toBe(true)
  }
  expect(titles(await search(collection, 'title=near.xyzzy'))).toEqual([])
  const filtered = await search(collection, 'title=near.milk&n=gt.0&page[size]=1&select=title')
  expect([titles(filtered), filtered.body.page]).toMatchObject([
    ['milkshake'],
    { has_more: false, next: null },
  ])
  const inJson = await call('POST', at(collection, 'query'), {
    as: workspace.service,
    body: { filter: { title: { near: 'milk' }, n: { gt: 0 } }, limit: 3 },
  })
  expect(titles(inJson)[0]).toBe('milkshake')
})

test('declared when there are documents: the index is built, and finds them', async () => {
  const collection = unique('drinks')
  await fill(collection, DRINKS)
  const { status, body } = await declare(collection)
  expect([status, body.indexes], JSON.stringify(body)).toMatchObject([
    201,
    [{ fields: ['title'], kind: 'trigram', state: 'ready' }],
  ])
  expect(titles(await search(collection, 'title=near.lemnade'))[0]).toBe('Lemonade')
  const dropped = await call('PUT', `/v1/schemas/${body.id}`, {
    as: workspace.operator,
    body: { trigram: [] },
  })
  expect([dropped.status, dropped.body.indexes]).toEqual([200, []])
  expect((await search(collection, 'title=near.lemnade')).body.code).toBe('not_supported')
})

test.each([
  ['an order', 'title=near.milk&order=n', 'filter_invalid'],
  ['a count', 'title=near.milk&count=exact', 'filter_invalid'],
  ['a second search', 'title=near.milk&title=near.water', 'filter_invalid'],
  ['an empty text', 'title=near.', 'filter_invalid'],
  ['a text of 201 characters', `title=near.${'a'.repeat(201)}`, 'filter_invalid'],
  ['a field without an index', 'n=near.3', 'not_supported'],
  ['a field that is not declared', 'other=near.milk', 'not_supported'],
  ['a negation', 'title=not.near.milk', 'filter_operator_unknown'],
  ['a group', 'or=(title.near.milk,n.eq.1)', 'filter_operator_missing'],
])('search with %s: refused', async (_what, query, code) => {
  const collection = unique('drinks')
  await declare(collection)
  const { status, body } = await search(collection, query)
  expect([status >= 400 && status < 500, body.code]).toEqual([true, code])
})

test.each([
  ['a number', { trigram: ['n'] }, 'validation_failed'],
  ['an unknown field', { trigram: ['other'] }, 'validation_failed'],
  ['five fields', { trigram: ['a', 'b', 'c', 'd', 'e'] }, 'validation_failed'],
  ['mode warn', { mode: 'warn' }, 'validation_failed'],
])('declaration with %s: refused', async (_what, body, code) => {
  const declared = await declare(unique('drinks'), body)
  expect([declared.status, declared.body.code]).toEqual([400, code])
})

test('users find what they may read; another workspace finds its own', async () => {
  const collection = unique('drinks')
  const own = { _owner: '$user.id' }
  await declare(collection, { access: { user: { read: own, create: true } } })
  const [mia, leo] = await Promise.all([userToken(workspace, 'mia'), userToken(workspace, 'leo')])
  await fill(collection, ['milk of mia', 'water of mia'], mia)
  await fill(collection, ['milk of leo'], leo)
  expect(titles(await search(collection, 'title=near.milk', mia))).toEqual(['milk of mia', 'water of mia'])
  expect(titles(await search(collection, 'title=near.milk', leo))).toEqual(['milk of leo'])
  expect((await search(collection, 'title=near.milk', workspace.anon)).status).toBe(403)
  const sibling = await addTestWorkspace(workspace)
  await declare(collection, {}, sibling)
  expect(titles(await search(collection, 'title=near.milk', sibling.service))).toEqual([])
})

test('field with the name of a parameter: in quotes; a selection keeps the similarity', async () => {
  const collection = unique('drinks')
  const properties = { order: { type: 'string' }, n: { type: 'integer' } }
  const { status } = await declare(collection, {
    schema: { properties, additionalProperties: false },
    trigram: ['order'],
  })
  expect(status).toBe(201)
  const made = await call('POST', at(collection, 'documents'), {
    as: workspace.service,
    body: { order: 'milk', n: 1 },
  })
  expect(made.status).toBe(201)
  const query = `${encodeURIComponent('"order"')}=near.milk&select=n`
  const { body } = await search(collection, query)
  expect(body.data, JSON.stringify(body)).toEqual([{ id: made.body.id, n: 1, _similarity: 1 }])
})

test('undeclared collection: not_supported, with what to declare', async () => {
  const collection = unique('drinks')
  await fill(collection, DRINKS)
  const { body } = await search(collection, 'title=near.milk')
  expect([body.code, body.hint]).toEqual(['not_supported', expect.stringContaining('"trigram": ["title"]')])
})
