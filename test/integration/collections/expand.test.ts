/** `expand`: documents at the other end of references, as the caller may read them. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
const [customers, posts, comments] = [unique('customers'), unique('posts'), unique('comments')]
const ids = new Map<string, string>()
const idOf = (name: string) => ids.get(name) ?? ''

const uuid = { type: 'string', format: 'uuid' }
const text = { type: 'string' }
const anyone = { access: { user: { read: true }, anon: { read: true } } }
const at = (collection: string, id = '') => `/v1/collections/${collection}/documents${id && `/${id}`}`

async function declare(collection: string, body: object) {
  const reply = await call('POST', '/v1/schemas', {
    as: workspace.operator,
    body: { workspace_id: workspace.workspaceId, collection, store: 'relational', ...body },
  })
  expect([reply.status, reply.body]).toMatchObject([201, {}])
}
async function add(collection: string, name: string, body: object) {
  const { status, body: made } = await call('POST', at(collection), {
    as: workspace.service,
    body: { name, ...body },
  })
  expect([status, made]).toMatchObject([201, {}])
  ids.set(name, made.id)
}

beforeAll(async () => {
  workspace = await createTestWorkspace()
  await declare(customers, { schema: { properties: { name: text, plan: text } }, ...anyone })
  await declare(posts, {
    schema: { properties: { name: text, author_id: uuid } },
    references: [{ field: 'author_id', collection: customers, as: 'author', inverse: 'posts' }],
    ...anyone,
  })
  await declare(comments, {
    schema: {
      properties: {
        name: text,
        post_id: uuid,
        by_id: uuid,
        visible: { type: 'boolean' },
        n: { type: 'integer' },
      },
    },
    references: [
      { field: 'post_id', collection: posts, inverse: 'comments' },
      { field: 'by_id', collection: customers, as: 'by' },
    ],
    access: { user: { read: { visible: true } } },
  })
  await add(customers, 'ann', { plan: 'pro' })
  await add(customers, 'bob', { plan: 'free' })
  await add(posts, 'p1', { author_id: idOf('ann').toUpperCase() })
  await add(posts, 'p2', { author_id: idOf('bob') })
  await add(posts, 'p3', {})
  for (const [n, [name, post, by, visible]] of (
    [
      ['c1', 'p1', 'bob', true],
      ['c2', 'p1', 'ann', true],
      ['c3', 'p1', 'bob', false],
      ['c4', 'p2', 'ann', true],
    ] as const
  ).entries())
    await add(comments, name, { post_id: idOf(post), by_id: idOf(by), visible, n })
})

const list = (query: string, as = workspace.service, collection = posts) =>
  call('GET', `${at(collection)}?${query}`, { as })
/** Each document by its name, with what it was expanded to. */
const namesIn = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(namesIn)
  if (value === null || typeof value !== 'object') return value
  const { name, count, _expand } = value as Record<string, unknown>
  if (count !== undefined) return count
  if (_expand === undefined) return name
  return [
    name,
    Object.fromEntries(Object.entries(_expand as object).map(([key, one]) => [key, namesIn(one)])),
  ]
}
const expanded = async (expand: string, as = workspace.service) => {
  const { status, body } = await list(`expand=${encodeURIComponent(expand)}`, as)
  return status === 200 ? namesIn(body.data) : [status, body.code]
}

test.each<[string, unknown]>([
  [
    'author',
    [
      ['p1', { author: 'ann' }],
      ['p2', { author: 'bob' }],
      ['p3', { author: null }],
    ],
  ],
  [
    'comments',
    [
      ['p1', { comments: ['c1', 'c2', 'c3'] }],
      ['p2', { comments: ['c4'] }],
      ['p3', { comments: [] }],
    ],
  ],
  [
    'comments(count)',
    [
      ['p1', { comments: 3 }],
      ['p2', { comments: 1 }],
      ['p3', { comments: 0 }],
    ],
  ],
  [
    'comments(count;visible=eq.true)',
    [
      ['p1', { comments: 2 }],
      ['p2', { comments: 1 }],
      ['p3', { comments: 0 }],
    ],
  ],
  [
    'comments(;order=n.desc;size=2)',
    [
      ['p1', { comments: ['c3', 'c2'] }],
      ['p2', { comments: ['c4'] }],
      ['p3', { comments: [] }],
    ],
  ],
  [
    'comments(visible=eq.false)',
    [
      ['p1', { comments: ['c3'] }],
      ['p2', { comments: [] }],
      ['p3', { comments: [] }],
    ],
  ],
  [
    'comments("name"=eq.c1)',
    [
      ['p1', { comments: ['c1'] }],
      ['p2', { comments: [] }],
      ['p3', { comments: [] }],
    ],
  ],
  [
    'comments( name , by( name ) ; size=1 )',
    [
      ['p1', { comments: [['c1', { by: 'bob' }]] }],
      ['p2', { comments: [['c4', { by: 'ann' }]] }],
      ['p3', { comments: [] }],
    ],
  ],
  [
    'author(name;plan=eq.pro)',
    [
      ['p1', { author: 'ann' }],
      ['p2', { author: null }],
      ['p3', { author: null }],
    ],
  ],
  [
    'comments(name,by(name);or=(n.eq.0,n.eq.3)),author',
    [
      ['p1', { comments: [['c1', { by: 'bob' }]], author: 'ann' }],
      ['p2', { comments: [['c4', { by: 'ann' }]], author: 'bob' }],
      ['p3', { comments: [], author: null }],
    ],
  ],
  [
    'author(posts(comments(count)))',
    [
      ['p1', { author: ['ann', { posts: [['p1', { comments: 3 }]] }] }],
      ['p2', { author: ['bob', { posts: [['p2', { comments: 1 }]] }] }],
      ['p3', { author: null }],
    ],
  ],
])('list: expand=%s', async (expand, found) => {
  expect(await expanded(expand)).toEqual(found)
})

test('one document, a query in JSON, a selection: the same', async () => {
  const one = await call('GET', `${at(posts, idOf('p1'))}?select=name&expand=author(name)`, {
    as: workspace.service,
  })
  const author = { id: idOf('ann'), name: 'ann' }
  expect(one.body).toEqual({ id: idOf('p1'), name: 'p1', _expand: { author } })
  const body = {
    filter: { name: 'p1' },
    select: ['name'],
    expand: {
      author: { select: ['name'] },
      comments: {
        filter: { visible: true },
        sort: { n: -1 },
        limit: 1,
        select: 'name',
        expand: { by: true },
      },
    },
  }
  const queried = await call('POST', `/v1/collections/${posts}/query`, { as: workspace.service, body })
  expect(queried.body.data).toMatchObject([
    {
      name: 'p1',
      _expand: { author, comments: [{ name: 'c2', _expand: { by: { name: 'ann', plan: 'pro' } } }] },
    },
  ])
})

describe('users and anon keys', () => {
  test('see what the rules of each collection show them, also in counts', async () => {
    const user = await userToken(workspace, 'uma')
    expect(await expanded('comments', user)).toEqual([
      ['p1', { comments: ['c1', 'c2'] }],
      ['p2', { comments: ['c4'] }],
      ['p3', { comments: [] }],
    ])
    expect(await expanded('comments(count)', user)).toEqual([
      ['p1', { comments: 2 }],
      ['p2', { comments: 1 }],
      ['p3', { comments: 0 }],
    ])
    expect(await expanded('author', workspace.anon)).toEqual([
      ['p1', { author: 'ann' }],
      ['p2', { author: 'bob' }],
      ['p3', { author: null }],
    ])
    expect(await expanded('comments', workspace.anon)).toEqual([403, 'forbidden'])
    expect(await expanded('comments(count)', workspace.anon)).toEqual([403, 'forbidden'])
  })
})

test.each([
  'x',
  'author(',
  'author)',
  'author(name',
  'author,author',
  '',
  'author(;size=0)',
  'comments(;size=101)',
  'comments(;size=x)',
  'comments(;order)',
  'comments(;size=1;size=2)',
  'comments(;order=n;order=name)',
  'comments(;limit=2)',
  'comments(nonsense())',
  'author(posts(comments(nonsense())))',
  'author(count)',
  'author(;size=1)',
  'comments(count;order=n)',
  'author(posts(comments(by(posts()))))',
  Array.from({ length: 11 }, (_, n) => `a${n}`).join(),
  "comments'; drop table x; --",
  'comments("',
  `comments(${'('.repeat(100)}`,
])('expand=%s: 400 that says why', async (expand) => {
  const { status, body } = await list(`expand=${encodeURIComponent(expand)}`)
  expect([status, body.code]).toEqual([400, 'expand_invalid'])
  expect(body.detail).toMatch(/^[^\n]{20,400}\.$/)
})

test.each<[object, string]>([
  [{ author: { select: 5 } }, 'expand.author.select'],
  [{ author: { select: [1] } }, 'expand.author.select'],
  [{ author: { select: null } }, 'expand.author.select'],
  [{ author: { filter: null } }, 'expand.author.filter'],
  [{ comments: { sort: 'n' } }, 'expand.comments.sort'],
  [{ comments: { sort: { n: 'desc' } } }, 'expand.comments.sort'],
  [{ comments: { limit: '5' } }, 'expand.comments.limit'],
  [{ comments: { limit: 101 } }, 'from 1 to 100'],
  [{ comments: { count: 'yes' } }, 'expand.comments.count'],
  [{ comments: { count: true, select: ['name'] } }, 'a filter alone'],
  [{ comments: { expand: [] } }, 'expand.comments.expand'],
  [{ comments: { size: 5 } }, 'it takes select'],
  [{ comments: 5 }, 'true or an object'],
  [{ constructor: true }, 'no reference constructor'],
  [JSON.parse('{"__proto__": true}'), '__proto__'],
])('expand in JSON: %j: 400 that says why', async (expand, detail) => {
  const path = `/v1/collections/${posts}/query`
  const { status, body } = await call('POST', path, {
    as: workspace.service,
    body: JSON.stringify({ expand }),
    headers: { 'content-type': 'application/json' },
  })
  expect([status, body.code]).toEqual([400, detail === '__proto__' ? body.code : 'expand_invalid'])
  expect(body.detail).toContain(detail)
})

test('many branches, a long text: refused before anything is read', async () => {
  const names = Array.from({ length: 11 }, (_, n) => `a${n}`).join()
  expect((await list(`expand=${names}`)).body.detail).toContain('at most 10 branches')
  const body = { expand: Array.from({ length: 100_000 }, (_, n) => `a${n}`).join() }
  const long = await call('POST', `/v1/collections/${posts}/query`, { as: workspace.service, body })
  expect([long.status, long.body.code]).toEqual([400, 'validation_failed'])
})

test('pages of every order, and behind a cursor: expand shows the same of each document', async () => {
  const [places, visits] = [unique('places'), unique('visits')]
  await declare(places, {
    schema: { properties: { name: text, lat: { type: 'number' }, lng: { type: 'number' }, visit_id: uuid } },
    ...{ search: { fields: { name: 'A' }, language: 'english' }, trigram: ['name'], geo: ['lat', 'lng'] },
  })
  await declare(visits, {
    schema: { properties: { name: text, n: { type: 'integer' }, place_id: uuid } },
    references: [{ field: 'place_id', collection: places, inverse: 'visits' }],
  })
  for (const [n, name] of ['garden one', 'garden two', 'garden three'].entries()) {
    await add(places, name, { lat: 52 + n, lng: 13 })
    for (const k of [1, 2]) await add(visits, `${name} ${k}`, { place_id: idOf(name), n: k })
  }
  const expand = `expand=${encodeURIComponent('visits(name,place(name);order=n.desc)')}&select=id,name`
  const ask = async (query: string) => {
    const { status, body } = await list(`${query}&${expand}`, workspace.service, places)
    expect([query, status, body.detail]).toEqual([query, 200, undefined])
    return body
  }
  const { data: plain } = await ask('order=name')
  const visit = (name: string, k: number) => ({
    name: `${name} ${k}`,
    _expand: { place: { name } },
  })
  expect(plain).toMatchObject(
    ['garden one', 'garden three', 'garden two'].map((name) => ({
      name,
      _expand: { visits: [visit(name, 2), visit(name, 1)] },
    })),
  )
  const shown = new Map(plain.map((one: { id: string; _expand: object }) => [one.id, one._expand]))
  const orders = [
    '_search=wfts.garden',
    '_search=wfts.garden&order=_score.desc',
    'name=near.garden',
    'order=_distance(52,13)',
    'order=lat.desc&count=exact',
    'order=lat.desc&count=estimated',
  ]
  for (const order of orders) {
    const { data } = await ask(order)
    expect([order, data.map((one: { _expand: object }) => one._expand)]).toEqual([
      order,
      data.map((one: { id: string }) => shown.get(one.id)),
    ])
    expect([order, data.length]).toEqual([order, 3])
  }
  let after = ''
  for (const [name] of [['garden three'], ['garden two'], ['garden one']]) {
    const { data, page } = await ask(`order=lat.desc&page[size]=1${after}`)
    expect(data).toMatchObject([{ name, _expand: shown.get(idOf(String(name))) }])
    after = `&page[after]=${page.next}`
  }
})

test('one document, expanded: has no tag, since its version says nothing of the others', async () => {
  const path = at(posts, idOf('p1'))
  const plain = await call('GET', path, { as: workspace.service })
  const etag = plain.headers.get('etag') ?? ''
  expect(etag).toBe('"v1"')
  const again = await call('GET', `${path}?expand=comments`, {
    as: workspace.service,
    headers: { 'if-none-match': etag },
  })
  expect([again.status, again.headers.get('etag')]).toEqual([200, null])
})

test('one document that many refer to, with many below it: counts for each', async () => {
  const [one, many] = [unique('one'), unique('many')]
  await declare(one, { schema: { properties: { name: text } } })
  await declare(many, {
    schema: { properties: { one_id: uuid } },
    references: [{ field: 'one_id', collection: one, inverse: 'many' }],
  })
  const as = workspace.service
  const { body: target } = await call('POST', at(one), { as, body: { name: 'x' } })
  const ops = Array.from({ length: 60 }, () => ({ op: 'create', data: { one_id: target.id } }))
  expect((await call('POST', `/v1/collections/${many}/batch`, { as, body: { ops } })).status).toBe(200)
  const ask = (size: number) =>
    list(`page[size]=60&expand=${encodeURIComponent(`one(many(;size=${size}))`)}`, as, many)
  expect((await ask(30)).status).toBe(200)
  expect((await ask(60)).body.code).toBe('output_too_large')
})

test('names that there are not, other spellings: the problem says what there is', async () => {
  expect((await list('expand=writer')).body.detail).toContain('there are author, comments')
  expect((await list('include=author')).body).toMatchObject({
    code: 'unknown_parameter',
    hint: expect.stringContaining('expand='),
  })
  for (const select of ['*,author(name)', 'author(name)'])
    expect((await list(`select=${select}`)).body).toMatchObject({
      code: 'select_invalid',
      hint: expect.stringContaining('expand=author(name)'),
    })
  const hidden = (await list('expand=nonsense', workspace.anon)).body.detail
  expect([hidden.includes('author'), hidden.includes('comments')]).toEqual([true, false])
  const inFilter = await list(`expand=${encodeURIComponent('comments(n=gt.x)')}`)
  expect([inFilter.status, inFilter.body.code]).toEqual([400, 'filter_type_mismatch'])
})

test('more documents than one reply may have: 413 that says how to ask for fewer', async () => {
  const [many, few] = [unique('many'), unique('few')]
  await declare(few, { schema: { properties: { name: text } } })
  await declare(many, {
    schema: { properties: { few_id: uuid } },
    references: [{ field: 'few_id', collection: few, inverse: 'many' }],
  })
  const as = workspace.service
  const parents = Array.from({ length: 21 }, () => ({ op: 'create', data: { name: 'x' } }))
  const made = await call('POST', `/v1/collections/${few}/batch`, { as, body: { ops: parents } })
  for (const { id } of made.body.results) {
    const ops = Array.from({ length: 100 }, () => ({ op: 'create', data: { few_id: id } }))
    expect((await call('POST', `/v1/collections/${many}/batch`, { as, body: { ops } })).status).toBe(200)
  }
  const refused = await list(`expand=${encodeURIComponent('many(;size=100)')}`, as, few)
  expect([refused.status, refused.body.code]).toEqual([413, 'output_too_large'])
  const fewer = await list(`expand=${encodeURIComponent('many(;size=90)')}`, as, few)
  expect(fewer.status).toBe(200)
  expect(
    fewer.body.data.every(({ _expand }: { _expand: { many: unknown[] } }) => _expand.many.length === 90),
  ).toBe(true)
})
