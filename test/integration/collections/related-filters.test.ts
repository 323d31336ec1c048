/** Filters and selections through references, compared with a model that reads all documents. */

import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'

type Fields = Record<string, unknown>
type Kind = 'authors' | 'posts' | 'comments'

let workspace: TestWorkspace
let user: Caller
const names: Record<Kind, string> = {
  authors: unique('authors'),
  posts: unique('posts'),
  comments: unique('comments'),
}
/** All documents as they are stored. */
const stored: Record<Kind, Fields[]> = { authors: [], posts: [], comments: [] }

const uuid = { type: 'string', format: 'uuid' }
const n = { type: 'integer' }
const at = (kind: Kind, rest = 'documents') => `/v1/collections/${names[kind]}/${rest}`

async function declare(collection: string, body: object) {
  const all = { workspace_id: workspace.workspaceId, collection, store: 'relational', ...body }
  const reply = await call('POST', '/v1/schemas', { as: workspace.operator, body: all })
  expect([reply.status, reply.body]).toMatchObject([201, {}])
}

async function fill(kind: Kind, documents: readonly Fields[]) {
  const ops = documents.map((data) => ({ op: 'create', data }))
  const { status, body } = await call('POST', at(kind, 'batch'), { as: workspace.service, body: { ops } })
  expect(status).toBe(200)
  const ids: string[] = body.results.map(({ id }: { id: string }) => id)
  stored[kind].push(...documents.map((fields, index) => ({ id: ids[index], ...fields })))
  return ids
}

beforeAll(async () => {
  workspace = await createTestWorkspace()
  user = await userToken(workspace, 'uma')
  const access = { user: { read: { hidden: false }, aggregate: true } }
  const hidden = { type: 'boolean' }
  await declare(names.authors, {
    schema: {
      properties: { n, hidden, plan: { type: 'string' }, friend_id: uuid },
      additionalProperties: false,
    },
    references: [{ field: 'friend_id', collection: names.authors, as: 'friend', inverse: 'friends' }],
    indexes: [{ fields: ['plan'] }],
    access,
  })
  await declare(names.posts, {
    schema: { properties: { n, hidden, author_id: uuid } },
    references: [{ field: 'author_id', collection: names.authors, inverse: 'posts' }],
    access,
  })
  await declare(names.comments, {
    schema: { properties: { n, hidden, post_id: uuid, by_id: uuid } },
    references: [
      { field: 'post_id', collection: names.posts, inverse: 'comments' },
      { field: 'by_id', collection: names.authors, as: 'by' },
    ],
    access,
  })
  const some = (at: number) => ({ ...(at % 5 !== 0 && { n: at % 4 }), hidden: at % 3 === 0 })
  const pick = (ids: readonly string[], at: number) => (at % 7 === 0 ? undefined : ids[(at * 5) % ids.length])
  const range = Array.from({ length: 20 }, (_, index) => index)
  const plans = ['pro', 'free']
  const first = await fill(
    'authors',
    range.map((at) => ({ ...some(at), plan: plans[at % 2] })),
  )
  const authors = await fill(
    'authors',
    range.map((at) => ({ ...some(at + 1), plan: plans[at % 2], friend_id: first[(at * 3) % 20] })),
  )
  const posts = await fill(
    'posts',
    range.map((at) => defined({ ...some(at), author_id: pick([...first, ...authors], at) })),
  )
  await fill(
    'comments',
    [...range, ...range].map((at, index) =>
      defined({ ...some(index), post_id: pick(posts, at + index), by_id: pick(authors, index) }),
    ),
  )
})

const defined = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

/** References by their names: of the document's own, and of those that lead to it. */
const ONE: Record<Kind, Record<string, { to: Kind; field: string }>> = {
  authors: { friend: { to: 'authors', field: 'friend_id' } },
  posts: { author: { to: 'authors', field: 'author_id' } },
  comments: { post: { to: 'posts', field: 'post_id' }, by: { to: 'authors', field: 'by_id' } },
}
const MANY: Record<Kind, Record<string, { to: Kind; field: string }>> = {
  authors: { friends: { to: 'authors', field: 'friend_id' }, posts: { to: 'posts', field: 'author_id' } },
  posts: { comments: { to: 'comments', field: 'post_id' } },
  comments: {},
}

/** The documents that a name leads to, as far as a reader sees them. */
function reached(kind: Kind, name: string, document: Fields, sees: Sees): [Kind, Fields[]] {
  const one = ONE[kind][name]
  const many = MANY[kind][name]
  if (one)
    return [one.to, stored[one.to].filter((other) => other['id'] === document[one.field] && sees(other))]
  if (!many) throw new TypeError(name)
  return [many.to, stored[many.to].filter((other) => other[many.field] === document['id'] && sees(other))]
}
type Sees = (document: Fields) => boolean

/** A filter in JSON, as the model reads it. */
function matches(kind: Kind, filter: Fields, on: { document: Fields; sees: Sees; not?: boolean }): boolean {
  const { document, sees, not = false } = on
  const parts = Object.entries(filter).map(([key, value]) => {
    if (key === '$not') return matches(kind, value as Fields, { ...on, not: !not })
    if (key === '$or' || key === '$and') {
      const each = (value as Fields[]).map((one) => matches(kind, one, on))
      return (key === '$or') !== not ? each.includes(true) : !each.includes(false)
    }
    const [name = '', ...below] = key.split('.')
    if (below.length > 0) {
      const [to, found] = reached(kind, name, document, sees)
      return found.some((other) => matches(to, { [below.join('.')]: value }, { document: other, sees, not }))
    }
    const [[operator = '', operand] = []] = Object.entries(value as object)
    if (operator === 'some' || operator === 'none') {
      const [to, found] = reached(kind, name, document, sees)
      const holds = found.some((other) => matches(to, operand, { document: other, sees }))
      return (holds === (operator === 'some')) !== not
    }
    const own = document[name]
    if (own === undefined) return false
    const test = { eq: own === operand, gt: Number(own) > operand, neq: own !== operand }[operator]
    return test !== not
  })
  return not ? parts.includes(true) : !parts.includes(false)
}

const test1 = fc.oneof(
  fc.record({ n: fc.record({ eq: fc.integer({ min: 0, max: 3 }) }) }),
  fc.record({ n: fc.record({ gt: fc.integer({ min: 0, max: 3 }) }) }),
  fc.record({ n: fc.record({ neq: fc.integer({ min: 0, max: 3 }) }) }),
)

/** Filters of a collection over at most so many references. */
function filterOf(kind: Kind, hops: number): fc.Arbitrary<Fields> {
  const own: fc.Arbitrary<Fields>[] = [test1]
  if (hops > 0) {
    for (const [name, { to }] of Object.entries(ONE[kind]))
      own.push(
        test1.map(({ n: tested }) => ({ [`${name}.n`]: tested }) as Fields),
        ...(hops > 1
          ? Object.keys(ONE[to]).map((next) =>
              test1.map(({ n: tested }) => ({ [`${name}.${next}.n`]: tested })),
            )
          : []),
      )
    for (const [name, { to }] of Object.entries({ ...ONE[kind], ...MANY[kind] }))
      for (const operator of ['some', 'none'])
        own.push(filterOf(to, hops - 1).map((filter) => ({ [name]: { [operator]: filter } })))
  }
  const one = fc.oneof(...own)
  return fc.oneof(
    { weight: 4, arbitrary: one },
    one.map((filter) => ({ $not: filter })),
    fc.tuple(one, one).map((of) => ({ $or: of })),
    fc.tuple(one, one).map((of) => ({ $and: of })),
  )
}

/** Filters that reach as far as one query may. */
const reaches = (filter: unknown): number => {
  if (Array.isArray(filter)) return filter.reduce((sum: number, one) => sum + reaches(one), 0)
  if (typeof filter !== 'object' || filter === null) return 0
  return Object.entries(filter).reduce(
    (sum, [key, value]) =>
      sum +
      reaches(value) +
      (key.includes('.') ? key.split('.').length - 1 : Number(/^(some|none)$/.test(key))),
    0,
  )
}

describe.each<[string, () => Caller, Sees]>([
  ['service key', () => workspace.service, () => true],
  ['user', () => user, (document) => document['hidden'] === false],
])('%s: random filters', (_, as, sees) => {
  test.each<Kind>(['authors', 'posts', 'comments'])(
    '%s: as the model, also counted and exported',
    async (kind) => {
      const filters = filterOf(kind, 2).filter((filter) => reaches(filter) <= 5)
      await fc.assert(
        fc.asyncProperty(filters, async (filter) => {
          const wanted = stored[kind]
            .filter((document) => sees(document) && matches(kind, filter, { document, sees }))
            .map(({ id }) => id)
          const { status, body } = await call('POST', at(kind, 'query'), {
            as: as(),
            body: { filter, limit: 100, select: ['id'] },
          })
          expect([status, body.data?.map(({ id }: Fields) => id).toSorted()]).toEqual([
            200,
            wanted.toSorted(),
          ])
          const counted = await call('POST', at(kind, 'aggregate'), {
            as: as(),
            body: { filter, measures: { count: { count: true } } },
          })
          expect(counted.body).toEqual({ count: wanted.length })
        }),
        { seed: 44, numRuns: 60 },
      )
    },
  )
})

const ids = (kind: Kind, holds: (document: Fields) => boolean) =>
  stored[kind].filter(holds).map(({ id }) => String(id))
const byId = (kind: Kind, id: unknown) => stored[kind].find((document) => document['id'] === id)
const list = (kind: Kind, query: string, as: Caller = workspace.service) =>
  call('GET', `${at(kind)}?page[size]=100&${query}`, { as })
const idsIn = ({ body }: { body: { data: Fields[] } }) => body.data.map(({ id }) => id)

const isPro = (post: Fields) => byId('authors', post['author_id'])?.['plan'] === 'pro'
const hasLarge = ({ id }: Fields) =>
  stored.comments.some((comment) => comment['post_id'] === id && Number(comment['n']) > 1)

const commentsOf = ({ id }: Fields) => stored.comments.filter((comment) => comment['post_id'] === id)
const hasVisible = (post: Fields) =>
  commentsOf(post).some((comment) => Number(comment['n']) > 1 && comment['hidden'] === false)
const isFree = (post: Fields) => post['author_id'] !== undefined && !isPro(post)

test.each<[string, (post: Fields) => boolean]>([
  ['author.plan=eq.pro', isPro],
  ['author=some.(plan.eq.pro)', isPro],
  ['author=none.(plan.eq.pro)', (post) => !isPro(post)],
  ['author.plan=not.eq.pro', (post) => post['author_id'] !== undefined && !isPro(post)],
  ['comments=some.(n.gt.1)', hasLarge],
  ['comments=not.some.(n.gt.1)', (post) => !hasLarge(post)],
  [
    'or=(author.plan.eq.pro,comments.some.(n.gt.1,hidden.eq.false))',
    (post) => isPro(post) || hasVisible(post),
  ],
  ['comments=some.(n.gt.1,hidden.is.false)', hasVisible],
  ['not.and=(comments.some.(n.gt.1),author.plan.eq.pro)', (post) => !hasLarge(post) || isFree(post)],
  [
    'comments=some.(by.plan.eq.pro)',
    (post) => commentsOf(post).some(({ by_id }) => byId('authors', by_id)?.['plan'] === 'pro'),
  ],
  [
    'comments=some.(or(n.eq.0,n.eq.3))',
    (post) => commentsOf(post).some(({ n: own }) => own === 0 || own === 3),
  ],
  ['comments=none.()', (post) => commentsOf(post).length === 0],
])('list: %s', async (query, holds) => {
  const reply = await list('posts', query)
  expect([reply.status, reply.body.detail]).toEqual([200, undefined])
  expect(idsIn(reply).toSorted()).toEqual(ids('posts', holds).toSorted())
})

test('pages, counts, an order, an export, a branch of expand, a bulk change: take the same filters', async () => {
  const query = 'author.plan=eq.pro'
  const wanted = ids('posts', isPro).toSorted()
  const pages: unknown[] = []
  for (let after: string | null = ''; after !== null; ) {
    const path = `${at('posts')}?${query}&order=n.desc&count=exact&page[size]=3${after && `&page[after]=${after}`}`
    const { body } = await call('GET', path, { as: workspace.service })
    expect(body.page.total).toBe(wanted.length)
    pages.push(...body.data.map(({ id }: Fields) => id))
    after = body.page.next
  }
  expect(pages.toSorted()).toEqual(wanted)
  const exported = await call('GET', `${at('posts', 'export')}?${query}`, { as: workspace.service })
  const lines = String(exported.body).trim().split('\n')
  expect(lines.map((line) => JSON.parse(line).id).toSorted()).toEqual(wanted)
  const expanded = await list('authors', `expand=${encodeURIComponent('posts(id;comments=some.(n.gt.1))')}`)
  const shown = expanded.body.data.flatMap(({ _expand }: { _expand: { posts: Fields[] } }) => _expand.posts)
  const [large] = [ids('posts', (post) => post['author_id'] !== undefined && hasLarge(post))]
  expect(shown.map(({ id }: Fields) => id).toSorted()).toEqual(large.toSorted())
  const body = { filter: { 'author.plan': 'pro' }, dry_run: true }
  const bulk = await call('POST', at('posts', 'delete-many'), { as: workspace.service, body })
  expect(bulk.body.matched).toBe(wanted.length)
  const change = { filter: { 'author.plan': 'pro' }, data: { mark: 'x' } }
  const changed = await call('POST', at('posts', 'update-many'), {
    as: workspace.service,
    body: change,
    headers: { prefer: 'wait=30' },
  })
  expect(changed.body).toMatchObject({ status: 'completed', changed: wanted.length })
  expect(idsIn(await list('posts', 'mark=eq.x')).toSorted()).toEqual(wanted)
})

test('select=author.plan: the same as expand, in a list, a query and one document', async () => {
  const long = await list('posts', 'select=n&expand=author(plan,friend(n))&order=id')
  const short = await list('posts', 'select=n,author.plan,author.friend.n&order=id')
  expect(short.body.data).toEqual(long.body.data)
  const whole = await list('posts', 'select=n,author&order=id')
  expect(whole.body.data).toEqual((await list('posts', 'select=n&expand=author&order=id')).body.data)
  const id = ids('posts', isPro)[0]
  const one = await call('GET', `${at('posts')}/${id}?select=author.plan`, { as: workspace.service })
  expect(one.body).toMatchObject({ id, _expand: { author: { plan: 'pro' } } })
  expect(Object.keys(one.body).toSorted()).toEqual(['_expand', 'id'])
  const queried = await call('POST', at('posts', 'query'), {
    as: workspace.service,
    body: { select: ['author.plan'], filter: { 'author.plan': 'pro' }, limit: 1 },
  })
  expect(queried.body.data).toMatchObject([{ _expand: { author: { plan: 'pro' } } }])
})

const GUESS = '8f14e45f-ceea-467f-a4c0-1f8d7b6a5e4d'

test.each<[Kind, string, string]>([
  ['posts', 'comments.n=eq.1', 'filter_invalid'],
  ['posts', 'nonsense=some.(n.eq.1)', 'filter_invalid'],
  ['posts', 'n=some.(n.eq.1)', 'filter_invalid'],
  // Names that resemble parameters may be references.
  ['posts', 'orders=some.(n.eq.1)', 'filter_invalid'],
  ['posts', 'author.n.x=some.(n.eq.1)', 'filter_invalid'],
  ['posts', 'author.friend.friend.n=eq.1', 'filter_too_large'],
  ['posts', 'author=some.(friend.some.(friend.some.(n.eq.1)))', 'filter_too_large'],
  ['posts', Array.from({ length: 6 }, () => 'author.n=eq.1').join('&'), 'filter_too_large'],
  ['posts', 'author=some.n.eq.1', 'filter_invalid'],
  ['posts', 'author=some.(n.eq.1', 'filter_invalid'],
  ['posts', 'author=some.(plan.eq.1));drop table x;--', 'filter_invalid'],
  ['posts', 'author.n=eq.x', 'filter_type_mismatch'],
  ['posts', 'author.nonsense=eq.x', 'filter_invalid'],
  ['posts', 'author=some.(nonsense.eq.x)', 'filter_invalid'],
  ['posts', 'order=author.n', 'order_invalid'],
  ['posts', 'select=author.n&expand=author', 'expand_invalid'],
  ['authors', 'select=friend.friend.friend.friend.n', 'expand_invalid'],
  ['posts', `author=some(any).{${GUESS}}`, 'filter_invalid'],
])('%s?%s: 400 %s that says why', async (kind, query, code) => {
  const { status, body } = await list(kind, query)
  expect([status, body.code, body.detail]).toEqual([400, code, expect.stringMatching(/^[^\n]{15,300}\.$/)])
})

test('names in quotes: are fields of the document itself, as a tool of an MCP server writes them', async () => {
  for (const query of [
    '"author".plan=eq.pro',
    '"author"."plan"=eq.pro',
    'or=("author".plan.eq.pro,"author".n.eq.1)',
  ])
    expect([query, idsIn(await list('posts', query))]).toEqual([query, []])
  const body = { filter: { '"author"."plan"': 'pro' } }
  const queried = await call('POST', at('posts', 'query'), { as: workspace.service, body })
  expect(queried.body.data).toEqual([])
  for (const select of ['"author"', '"author".plan']) {
    const { body: shown } = await list('posts', `select=n,${select}`)
    expect(shown.data.filter((one: Fields) => Object.hasOwn(one, '_expand'))).toEqual([])
  }
})

test('estimated count of a filter on documents that are hidden in part: is exact, as the estimate knows all of them', async () => {
  // Of the visible children half are of the kind a, of the hidden ones all: the planner takes the share of both together.
  const [parents, children] = [unique('parents'), unique('children')]
  const open = { access: { user: { read: true } } }
  await declare(parents, { schema: { properties: { n } }, ...open })
  await declare(children, {
    schema: { properties: { n, kind: { type: 'string' }, parent_id: uuid } },
    references: [{ field: 'parent_id', collection: parents, inverse: 'children' }],
    access: { user: { read: { n: 1 } } },
  })
  const made = async (collection: string, documents: readonly Fields[]) => {
    const ids: string[] = []
    for (let from = 0; from < documents.length; from += 500) {
      const ops = documents.slice(from, from + 500).map((data) => ({ op: 'create', data }))
      const path = `/v1/collections/${collection}/batch`
      const { body } = await call('POST', path, { as: workspace.service, body: { ops } })
      ids.push(...body.results.map(({ id }: { id: string }) => id))
    }
    return ids
  }
  const ids = await made(
    parents,
    Array.from({ length: 2_100 }, (_, at) => ({ n: at })),
  )
  const kindAt = (at: number) => (at % 2 === 0 ? 'a' : 'b')
  await made(children, [
    ...ids.map((parent_id, at) => ({ n: 1, kind: kindAt(at), parent_id })),
    ...ids.map((parent_id) => ({ n: 2, kind: 'a', parent_id })),
    ...ids.map((parent_id) => ({ n: 2, kind: 'a', parent_id })),
  ])
  await asSuperuser(
    `analyze tenon_data."${await schemaOf(parents)}", tenon_data."${await schemaOf(children)}"`,
  )
  const path = `/v1/collections/${parents}/documents?children=some.(kind.eq.a)&count=estimated`
  const { body } = await call('GET', path, { as: user })
  expect(body.page.total).toBe(1_050)
})
const schemaOf = async (collection: string) => {
  const [row] = await asSuperuser<{ relation: string }>(
    'select relation from tenon.schemas where collection = $1 and workspace_id = $2',
    [collection, workspace.workspaceId],
  )
  return row?.relation ?? ''
}

test('deeply nested filters: refused', async () => {
  const nested = `author=${'some.(friend.'.repeat(60)}some.(n.eq.1)${')'.repeat(60)}`
  expect((await list('posts', nested)).body.code).toBe('filter_too_large')
  const filter = Array.from({ length: 60 }).reduce<Fields>((inner) => ({ friend: { some: inner } }), { n: 1 })
  const { body } = await call('POST', at('posts', 'query'), { as: workspace.service, body: { filter } })
  expect(body.code).toBe('filter_too_large')
})

test('fields named some and none: are fields without a filter in parentheses', async () => {
  const open = unique('open')
  await call('POST', `/v1/collections/${open}/documents`, {
    as: workspace.service,
    body: { some: 1, a: { none: 2 } },
  })
  const { body } = await call(
    'GET',
    `/v1/collections/${open}/documents?or=(some.eq.1,a.none.eq.3)&a.none=eq.2`,
    {
      as: workspace.service,
    },
  )
  expect(body.data).toHaveLength(1)
})

describe('places without a store', () => {
  test.each<[string, object]>([
    ['rule', { access: { user: { read: { author: { some: { n: 1 } } } } } }],
    ['check', { checks: [{ name: 'c', check: { author: { some: { n: 1 } } } }] }],
  ])('%s: refuses them', async (_, member) => {
    const body = {
      ...{ workspace_id: workspace.workspaceId, collection: unique('refused'), store: 'relational' },
      schema: { properties: { author_id: uuid } },
      references: [{ field: 'author_id', collection: names.authors }],
      ...member,
    }
    const reply = await call('POST', '/v1/schemas', { as: workspace.operator, body })
    expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed'])
  })

  test('live query: refuses them', async () => {
    const reply = await call('GET', `${at('posts', 'subscribe')}?author=some.(n.eq.1)`, {
      as: workspace.service,
    })
    expect([reply.status, reply.body.code]).toEqual([400, 'filter_invalid'])
    const dotted = await call('GET', `${at('posts', 'subscribe')}?author.n=eq.1`, { as: workspace.service })
    expect([dotted.status, dotted.body.code]).toEqual([400, 'filter_invalid'])
  })
})

test('a collection of which the caller may read nothing: 403, whatever is stored', async () => {
  const closed = unique('closed')
  await declare(closed, {
    schema: { properties: { author_id: uuid } },
    references: [{ field: 'author_id', collection: names.authors, as: 'author', inverse: 'secrets' }],
  })
  for (const query of ['secrets=some.(id.neq.x)', 'secrets=none.()']) {
    const reply = await list('authors', query, user)
    expect([reply.status, reply.body.code]).toEqual([403, 'forbidden'])
  }
})

test('collection that another process has renamed: found by its references under the new name at once', async () => {
  const [parents, children, renamed] = [unique('parents'), unique('children'), unique('renamed')]
  await declare(parents, { schema: { properties: { n } } })
  await declare(children, {
    schema: { properties: { n, parent_id: uuid } },
    references: [{ field: 'parent_id', collection: parents, inverse: 'children' }],
  })
  const as = workspace.service
  const at = (collection: string) => `/v1/collections/${collection}/documents`
  const { body: parent } = await call('POST', at(parents), { as, body: { n: 1 } })
  await call('POST', at(children), { as, body: { n: 2, parent_id: parent.id } })
  const asked = async () => {
    const filtered = await call('GET', `${at(parents)}?children=some.(n.eq.2)`, { as })
    const expanded = await call('GET', `${at(parents)}?expand=children(count)`, { as })
    return [filtered.body.data?.length, expanded.body.data?.[0]._expand]
  }
  expect(await asked()).toEqual([1, { children: { count: 1 } }])
  const other = await startInProcessNode()
  try {
    const path = `/v1/collections/${children}/rename`
    const body = { workspace_id: workspace.workspaceId, to: renamed }
    const reply = await call('POST', path, { as: workspace.operator, at: other.at, body })
    expect([reply.status, reply.body]).toMatchObject([200, {}])
    expect(await asked()).toEqual([1, { children: { count: 1 } }])
  } finally {
    await other.close()
  }
})
