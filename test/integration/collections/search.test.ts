/** Search by words: languages, weights, highlights and pages, within what the caller may read. */

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
const SCHEMA = {
  properties: { title: { type: 'string' }, body: { type: 'string' }, n: { type: 'integer' } },
}
const SEARCH = { fields: { title: 'A', body: 'B' }, language: 'english' }

const at = (collection: string, rest = '') => `/v1/collections/${collection}/${rest}`

const declare = (collection: string, body: object = {}, of = workspace) =>
  call('POST', '/v1/schemas', {
    as: of.operator,
    body: {
      ...{ workspace_id: of.workspaceId, collection, store: 'relational', schema: SCHEMA, search: SEARCH },
      ...body,
    },
    headers: DONE,
  })

async function fill(collection: string, documents: readonly Fields[], as: Caller = workspace.service) {
  const ops = documents.map((data, n) => ({ op: 'create', data: { n, ...data } }))
  const reply = await call('POST', at(collection, 'batch'), { as, body: { ops } })
  expect(reply.status, JSON.stringify(reply.body)).toBe(200)
}

const search = (collection: string, query: string, as: Caller = workspace.service) =>
  call('GET', at(collection, `documents?${query}`), { as })
const words = (text: string) => `_search=${encodeURIComponent(text)}`
const titles = ({ body }: { body: { data: Fields[] } }) => body.data.map(({ title }) => title)

const RECIPES = [
  { title: 'Milk rice', body: 'Cook rice in fresh milk, slowly.' },
  { title: 'Fresh cheese', body: 'Skimmed milk, and patience.' },
  { title: 'Lemonade', body: 'Lemons, water, running cold.' },
  { title: 'Pancakes', body: 'Milk & eggs <b>beaten</b>; runs when too thin.' },
]

test('words in the language of the declaration: documents that have them, by id or by score', async () => {
  const collection = unique('recipes')
  const declared = await declare(collection)
  expect([declared.status, declared.body.indexes]).toMatchObject([
    201,
    [{ fields: ['title', 'body'], kind: 'text', weights: ['A', 'B'], language: 'english', state: 'ready' }],
  ])
  await fill(collection, RECIPES)
  for (const [text, found] of [
    ['wfts.milk', ['Milk rice', 'Fresh cheese', 'Pancakes']],
    ['wfts.fresh milk', ['Milk rice', 'Fresh cheese']],
    ['wfts.milk -skimming', ['Milk rice', 'Pancakes']],
    ['wfts.lemon or pancake', ['Lemonade', 'Pancakes']],
    ['wfts."fresh milk"', ['Milk rice']],
    ['plfts.run', ['Lemonade', 'Pancakes']],
    ['phfts.fresh milk', ['Milk rice']],
    ['prefix.fresh mil', ['Milk rice', 'Fresh cheese']],
    ['prefix.lemona', ['Lemonade']],
    ["prefix.mil':* | lem", []],
    ['wfts.the', []],
  ] as const) {
    const reply = await search(collection, words(text))
    expect([text, reply.status, titles(reply)]).toEqual([text, 200, [...found]])
  }
  const ranked = await search(collection, `${words('wfts.milk')}&order=_score.desc&select=title,_score`)
  expect(titles(ranked)[0]).toBe('Milk rice')
  const scores = ranked.body.data.map(({ _score }: Fields) => _score)
  expect(scores).toEqual([...scores].sort((a: number, b: number) => b - a))
  const inJson = await call('POST', at(collection, 'query'), {
    as: workspace.service,
    body: { filter: { _search: { wfts: 'milk' }, n: { gt: 0 } }, sort: { _score: -1 }, select: ['title'] },
  })
  expect(titles(inJson).toSorted()).toEqual(['Fresh cheese', 'Pancakes'])
})

test('declared when there are documents: the index is built, and finds them; then it is changed and removed', async () => {
  const collection = unique('recipes')
  await fill(collection, RECIPES)
  const { status, body } = await declare(collection)
  expect([status, body.indexes], JSON.stringify(body)).toMatchObject([
    201,
    [{ kind: 'text', state: 'ready' }],
  ])
  expect(titles(await search(collection, words('wfts.patience')))).toEqual(['Fresh cheese'])
  const change = (change: object) =>
    call('PUT', `/v1/schemas/${body.id}`, { as: workspace.operator, body: change, headers: DONE })
  const german = await change({ search: { fields: { title: 'D' }, language: 'german' } })
  expect([german.status, german.body.indexes], JSON.stringify(german.body)).toMatchObject([
    200,
    [{ kind: 'text', fields: ['title'], weights: ['D'], language: 'german', state: 'ready' }],
  ])
  expect(titles(await search(collection, words('wfts.patience')))).toEqual([])
  expect(titles(await search(collection, words('wfts.lemonade')))).toEqual(['Lemonade'])
  const other = await change({ indexes: [{ fields: ['n'] }] })
  expect([other.status, other.body.indexes.length]).toEqual([200, 2])
  expect(titles(await search(collection, words('wfts.lemonade')))).toEqual(['Lemonade'])
  const dropped = await change({ search: null, indexes: [] })
  expect([dropped.status, dropped.body.indexes]).toEqual([200, []])
  expect((await search(collection, words('wfts.milk'))).body).toMatchObject({
    code: 'not_supported',
    hint: expect.stringContaining('"search": {"fields"'),
  })
})

test('page by page: every document once, by id and by score', async () => {
  const collection = unique('recipes')
  await declare(collection)
  const many = Array.from({ length: 23 }, (_, n) => ({
    title: n % 3 === 0 ? 'milk' : 'tea',
    body: 'milk '.repeat(n % 5),
  }))
  await fill(collection, many)
  const matching = many.filter(({ title, body }) => title === 'milk' || body !== '').length
  for (const order of ['', '&order=_score.desc', '&order=n.desc&count=exact']) {
    const seen: Fields[] = []
    let after = ''
    do {
      const { status, body } = await search(collection, `${words('wfts.milk')}${order}&page[size]=4${after}`)
      expect(status, JSON.stringify(body)).toBe(200)
      seen.push(...body.data)
      if (order.includes('count')) expect(body.page.total).toBe(matching)
      after = body.page.next === null ? '' : `&page[after]=${body.page.next}`
    } while (after !== '')
    expect(new Set(seen.map(({ id }) => id)).size).toBe(matching)
    expect(seen).toHaveLength(matching)
  }
  const first = await search(collection, `${words('wfts.milk')}&page[size]=4`)
  const other = await search(
    collection,
    `${words('wfts.tea')}&page[size]=4&page[after]=${first.body.page.next}`,
  )
  expect(other.body.code).toBe('cursor_mismatch')
})

test('highlight: the words are marked, and all else of the text is escaped', async () => {
  const collection = unique('recipes')
  await declare(collection)
  const hostile = 'milk <img src=x onerror="alert(1)"> & </mark><script>milk</script> \u0001 s-e milk\'s'
  await fill(collection, [
    { title: 'a <b>milk</b> & "cream"', body: hostile },
    { title: 'milk', body: 'tea' },
  ])
  const { body } = await search(collection, `${words('wfts.milk')}&select=_highlight,n`)
  const [first, second] = body.data
  expect(Object.keys(first).toSorted()).toEqual(['_highlight', 'id', 'n'])
  expect(second._highlight).toEqual({ title: '<mark>milk</mark>' })
  for (const text of Object.values<string>(first._highlight)) {
    expect(text).toContain('<mark>milk</mark>')
    expect(text.replaceAll(/<\/?mark>|&(amp|lt|gt|quot|#39);/g, '')).not.toMatch(/[<>&"']/)
    expect(text.split('<mark>').length).toBe(text.split('</mark>').length)
  }
})

test.each([
  ['no kind', '_search=milk', 'filter_invalid'],
  ['an unknown kind', '_search=fts.milk', 'filter_invalid'],
  ['two searches', '_search=wfts.milk&_search=wfts.tea', 'filter_invalid'],
  ['near beside it', '_search=wfts.milk&title=near.milk', 'filter_invalid'],
  ['no word', '_search=wfts.%20-%20%22', 'filter_invalid'],
  ['an empty prefix', "_search=prefix.':*", 'filter_invalid'],
  ['NUL', '_search=wfts.milk%00', 'filter_invalid'],
  ['1,001 characters', `_search=wfts.${'a'.repeat(1001)}`, 'filter_invalid'],
  ['a position', '_search=wfts.milk&page[position]=true', 'filter_invalid'],
  ['a group', 'or=(_search.wfts.milk,n.eq.1)', 'filter_invalid'],
  ['another order beside the score', '_search=wfts.milk&order=_score.desc,n', 'order_invalid'],
  ['the lowest score first', '_search=wfts.milk&order=_score.asc', 'order_invalid'],
  ['no search but a score', 'order=_score.desc', 'order_invalid'],
  ['no search but a highlight', 'select=_highlight', 'select_invalid'],
])('search with %s: refused', async (_what, query, code) => {
  const collection = unique('recipes')
  await declare(collection)
  const { status, body } = await search(collection, query)
  expect([status >= 400 && status < 500, body.code]).toEqual([true, code])
})

test.each([
  ['a negation in JSON', { $not: { _search: { wfts: 'milk' } } }, 'filter_invalid'],
  ['two kinds', { _search: { wfts: 'milk', plfts: 'tea' } }, 'filter_invalid'],
  ['a number', { _search: { wfts: 1 } }, 'filter_invalid'],
  ['a text of 1 MB', { _search: { wfts: 'milk '.repeat(200_000) } }, 'filter_invalid'],
  ['a text alone', { _search: 'milk' }, 'filter_invalid'],
])('query with %s: refused', async (_what, filter, code) => {
  const collection = unique('recipes')
  await declare(collection)
  const { status, body } = await call('POST', at(collection, 'query'), {
    as: workspace.service,
    body: { filter },
  })
  expect([status >= 400 && status < 500, body.code]).toEqual([true, code])
})

test.each([
  ['a number', { fields: { n: 'A' }, language: 'english' }],
  ['an unknown field', { fields: { other: 'A' }, language: 'english' }],
  ['no field', { fields: {}, language: 'english' }],
  ['an unknown weight', { fields: { title: 'E' }, language: 'english' }],
  ['an unknown language', { fields: { title: 'A' }, language: 'klingon' }],
  ['a language that is SQL', { fields: { title: 'A' }, language: "english'); drop table x; --" }],
  ['no language', { fields: { title: 'A' } }],
  ['unaccent', { fields: { title: 'A' }, language: 'english', unaccent: true }],
])('declaration with %s: refused', async (_what, wanted) => {
  const { status, body } = await declare(unique('recipes'), { search: wanted })
  expect([status, body.code], JSON.stringify(body)).toEqual([400, 'validation_failed'])
})

test('mode warn: a search is refused', async () => {
  const { status, body } = await declare(unique('recipes'), { mode: 'warn' })
  expect([status, body.code]).toEqual([400, 'validation_failed'])
})

test('users find what they may read, and count it; another workspace finds its own', async () => {
  const collection = unique('recipes')
  const own = { _owner: '$user.id' }
  await declare(collection, { access: { user: { read: own, create: true, aggregate: true } } })
  const [mia, leo] = await Promise.all([userToken(workspace, 'mia'), userToken(workspace, 'leo')])
  await fill(collection, [{ title: 'milk of mia' }, { title: 'tea of mia' }], mia)
  await fill(collection, [{ title: 'milk of leo' }], leo)
  for (const order of ['', '&order=_score.desc'])
    for (const [as, found] of [
      [mia, ['milk of mia']],
      [leo, ['milk of leo']],
    ] as const)
      expect(titles(await search(collection, `${words('wfts.milk')}${order}`, as))).toEqual(found)
  const counted = await call('GET', at(collection, `aggregate?select=n:count()&${words('wfts.milk')}`), {
    as: mia,
  })
  expect([counted.status, counted.body]).toEqual([200, { n: 1 }])
  const inJson = await call('POST', at(collection, 'aggregate'), {
    as: workspace.service,
    body: { filter: { _search: { wfts: 'milk' } }, measures: { n: { count: true } } },
  })
  expect([inJson.status, inJson.body]).toEqual([200, { n: 2 }])
  expect((await search(collection, words('wfts.milk'), workspace.anon)).status).toBe(403)
  const sibling = await addTestWorkspace(workspace)
  await declare(collection, {}, sibling)
  expect(titles(await search(collection, words('wfts.milk'), sibling.service))).toEqual([])
})

test('export: the documents that are found; rules, bulk changes and live queries: refused', async () => {
  const collection = unique('recipes')
  await declare(collection)
  await fill(collection, RECIPES)
  const exported = await call('GET', at(collection, `export?${words('wfts.fresh')}&select=title`), {
    as: workspace.service,
  })
  expect(
    exported.body
      .trim()
      .split('\n')
      .map((line: string) => JSON.parse(line).title),
  ).toEqual(['Milk rice', 'Fresh cheese'])
  const filter = { _search: { wfts: 'milk' } }
  const bulk = await call('POST', at(collection, 'delete-many'), { as: workspace.service, body: { filter } })
  expect([bulk.status, bulk.body.code]).toEqual([400, 'filter_invalid'])
  const live = await call('GET', at(collection, `subscribe?${words('wfts.milk')}`), { as: workspace.service })
  expect([live.status, live.body.code]).toEqual([400, 'filter_invalid'])
  const ruled = await declare(unique('recipes'), { access: { user: { read: filter } } })
  expect([ruled.status, ruled.body.code]).toEqual([400, 'validation_failed'])
})

const members = { properties: { members: { type: ['array', 'null'] }, n: { type: 'integer' } } }

test('elements of arrays: found by users under a rule, which an index serves; declared when there are documents', async () => {
  const collection = unique('groups')
  const groups = [['mia', 'leo'], ['leo'], [], null, ['mia', 7, { a: 1 }], 7].map((of, n) =>
    of === 7 ? { n } : { members: of, n },
  )
  await fill(collection, groups)
  const { status, body } = await declare(collection, {
    ...{ schema: members, search: null, arrays: ['members'] },
    access: { user: { read: { members: { cs: ['$user.id'] } } } },
  })
  expect([status, body.indexes, body.warnings], JSON.stringify(body)).toMatchObject([
    201,
    [{ fields: ['members'], kind: 'array', state: 'ready' }],
    undefined,
  ])
  const slow = await declare(unique('groups'), {
    ...{ schema: members, search: null },
    access: { user: { read: { members: { cs: ['$user.id'] } } } },
  })
  expect(JSON.stringify(slow.body.warnings)).toContain('No index')
  const mia = await userToken(workspace, 'mia')
  const numbers = async (query: string, as: Caller = workspace.service) =>
    (await search(collection, `${query}&order=n`, as)).body.data.map(({ n }: Fields) => n)
  expect(await numbers('n=gte.0', mia)).toEqual([0, 4])
  expect(await numbers('members=cs.{leo}', mia)).toEqual([0])
  for (const [query, found] of [
    ['members=cs.{leo}', [0, 1]],
    ['members=cs.{leo,mia}', [0]],
    ['members=cs.{7}', [4]],
    ['members=cs.{mia,7}', [4]],
    ['members=cs.[{"a":1}]', [4]],
    ['members=cs.{}', [0, 1, 2, 4]],
    ['members=ov.{leo,7}', [0, 1, 4]],
    ['members=ov.{}', []],
    ['members=not.cs.{leo}', [2, 4]],
    ['members=not.ov.{leo}', [2, 4]],
    ['members=cd.{leo,mia}', [0, 1, 2]],
  ] as const)
    expect([query, await numbers(query)]).toEqual([query, [...found]])
  const refused = await declare(unique('groups'), { schema: members, search: null, arrays: ['n'] })
  expect([refused.status, refused.body.code]).toEqual([400, 'validation_failed'])
})

test('patterns: with an index of trigrams and without, the same texts match', async () => {
  const [indexed, plain] = [unique('recipes'), unique('recipes')]
  await declare(indexed, { search: null, trigram: ['title'] })
  await declare(plain, { search: null })
  const titlesOf = [
    'Straße',
    'STRASSE',
    'Äpfel',
    'äPFEL',
    '100%_off',
    '100xyoff',
    'a\\b',
    'İstanbul',
    'istanbul',
    '',
  ]
  for (const one of [indexed, plain])
    await fill(
      one,
      titlesOf.map((title) => ({ title })),
    )
  for (const pattern of [
    '*straß*',
    '*STRA*',
    'äpf*',
    '*pfel',
    '100\\%\\_o*',
    '*\\\\b',
    '*a\\\\b',
    'İst*',
    '*STANBUL',
    '*nbu_',
    '*',
  ])
    for (const operator of ['like', 'ilike', 'not.ilike']) {
      const query = `title=${operator}.${encodeURIComponent(pattern)}`
      const [one, other] = await Promise.all([search(indexed, query), search(plain, query)])
      expect([query, titles(one)]).toEqual([query, titles(other)])
    }
})
