/** Parts of a page: the total, the link to the next page, and names that a closed schema does not have. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import { compileFilter } from '../../../src/features/collections/postgres/compile.ts'
import { readFilters } from '../../../src/features/collections/query/url.ts'
import { Database } from '../../../src/infra/postgres/database.ts'
import { Sql, sql } from '../../../src/infra/postgres/sql.ts'
import type { SessionContext } from '../../../src/infra/postgres/statement-batch.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let testWorkspace: TestWorkspace
beforeAll(async () => {
  testWorkspace = await createTestWorkspace()
})

const at = (collection: string) => `/v1/collections/${collection}/documents`
const list = (collection: string, query: string, headers = {}): Promise<Reply> =>
  call('GET', `${at(collection)}?${query}`, { as: testWorkspace.service, headers })
const query = (collection: string, body: unknown, headers = {}): Promise<Reply> =>
  call('POST', `/v1/collections/${collection}/query`, { as: testWorkspace.service, body, headers })
const total = ({ status, body }: Reply) => (status === 200 ? body.page.total : body.code)

async function declareCollection(schema: object, mode = 'enforce'): Promise<string> {
  const collection = unique('d')
  const body = { workspace_id: testWorkspace.workspaceId, collection, store: 'relational', schema, mode }
  expect((await call('POST', '/v1/schemas', { as: testWorkspace.operator, body })).status).toBe(201)
  return collection
}

const fill = async (collection: string, count: number) => {
  for (let n = 0; n < count; n++)
    await call('POST', at(collection), { as: testWorkspace.service, body: { n } })
}

describe.each(['undeclared', 'declared'])('count, %s collection', (kind) => {
  let collection: string
  beforeAll(async () => {
    collection =
      kind === 'declared'
        ? await declareCollection({ properties: { n: { type: 'integer' } } })
        : unique('counted')
    await fill(collection, 7)
  })

  test('count: requested: total of the filter on every page', async () => {
    const first = await list(collection, 'n=gte.2&count=exact&page[size]=2')
    expect(first.body.page).toMatchObject({ size: 2, has_more: true, total: 5 })
    const next = `n=gte.2&page[size]=2&page[after]=${first.body.page.next}`
    expect(total(await list(collection, `${next}&count=estimated`))).toBe(5)
    expect((await list(collection, next)).body.page).not.toHaveProperty('total')
    expect(total(await list(collection, 'n=gt.99&count=exact'))).toBe(0)
    expect(total(await query(collection, { filter: { n: { lt: 3 } }, limit: 1, count: 'exact' }))).toBe(3)
    expect(total(await list(collection, 'or=(n.eq.1,n.eq.2)&count=estimated'))).toBe(2)
  })

  test('count: parameter and Prefer header: the parameter wins, unknown values are refused or ignored', async () => {
    const prefer = (text: string) => ({ prefer: text })
    expect(total(await list(collection, 'page[size]=1', prefer('count=exact')))).toBe(7)
    expect(total(await list(collection, '', prefer('return=minimal, Count="estimated"; x=1')))).toBe(7)
    expect(total(await query(collection, {}, prefer('count=exact')))).toBe(7)
    expect(total(await query(collection, { count: 'exact' }, prefer('count=estimated')))).toBe(7)
    expect(total(await list(collection, '', prefer('count=planned')))).toBeUndefined()
    expect(total(await list(collection, 'count=planned'))).toBe('validation_failed')
    expect(total(await list(collection, '"count"=is.null&count=exact'))).toBe(7)
  })

  test('count: documents of other tenants: not included', async () => {
    const otherTenant = await createTestWorkspace()
    for (const count of ['exact', 'estimated']) {
      const reply = await call('GET', `${at(collection)}?count=${count}`, { as: otherTenant.service })
      expect(total(reply)).toBe(0)
    }
  })
})

describe('count of many documents', () => {
  const insertMany = (table: string, columns: string, values: string) =>
    asSuperuser(
      `insert into ${table} (tenant_id, workspace_id, id, ${columns})
       select $1, $2, gen_random_uuid(), ${values} from generate_series(1, 1500) n`,
      [testWorkspace.tenantId, testWorkspace.workspaceId],
    )

  test('count: table of its own: estimated by the planner; selective filter: exact', async () => {
    const collection = await declareCollection({ properties: { n: { type: 'integer' } } })
    const table = await tableOf(collection)
    await insertMany(table, 'c1', 'n')
    await asSuperuser(`analyze ${table}`)
    // The planner takes the policy for true of all rows but one in 200.
    const estimated = total(await list(collection, 'count=estimated'))
    expect([estimated <= 1_500, estimated >= 1_490]).toEqual([true, true])
    // The planner uses stale statistics; the exact count does not.
    await asSuperuser(`update pg_class set reltuples = reltuples * 100 where oid = '${table}'::regclass`)
    expect(total(await list(collection, 'count=estimated'))).toBeGreaterThan(100_000)
    expect(total(await list(collection, 'count=exact'))).toBe(1_500)
    expect(total(await list(collection, 'n=lte.1000&count=estimated'))).toBe(1_000)
    const half = total(await list(collection, 'n=lte.1200&count=estimated'))
    expect(half).toBeGreaterThan(1_200)
  })

  test('count: shared table: no planner estimate is disclosed', async () => {
    const collection = unique('shared')
    await insertMany('tenon.documents', 'collection, data', `'${collection}', jsonb_build_object('n', n)`)
    expect(total(await list(collection, 'count=estimated'))).toBe(1_500)
    expect(total(await list(collection, 'n=lte.1400&count=estimated'))).toBe(1_400)
  })
})

async function tableOf(collection: string): Promise<string> {
  const [row] = await asSuperuser<{ relation: string }>(
    'select relation from tenon.schemas where workspace_id = $1 and collection = $2',
    [testWorkspace.workspaceId, collection],
  )
  return `tenon_data."${row?.relation}"`
}

describe('link to the next page', () => {
  const NEXT = /^<(\/v1\/[^>]+)>; rel="next"$/
  const follow = async (path: string, as = testWorkspace.service) => {
    const seen: unknown[] = []
    for (let url: string | undefined = path; url !== undefined; ) {
      const reply: Reply = await call('GET', url, { as })
      expect(reply.status).toBe(200)
      seen.push(...reply.body.data)
      const link = reply.headers.get('link')
      expect(link === null).toBe(reply.body.page.next === null)
      url = link === null ? undefined : NEXT.exec(link)?.[1]
    }
    return seen
  }

  test('link: followed: keeps all parameters, ends with the list', async () => {
    const collection = unique('linked')
    for (const n of ['a b', 'a&b', 'a>b', '100%', 'é', 'x'])
      await call('POST', at(collection), { as: testWorkspace.service, body: { n } })
    const parameters = `or=(n.like."a%",n.in.("100%","a>b"),n.eq.%C3%A9)&order=n.desc&select=n&page[size]=1`
    const seen = (await follow(`${at(collection)}?${parameters}`)) as { n: string }[]
    expect(seen.map(({ n }) => n)).toEqual(['é', 'a>b', 'a&b', 'a b', '100%'])
    const head = await call('HEAD', `${at(collection)}?page[size]=2`, { as: testWorkspace.service })
    expect(head.headers.get('link')).toMatch(NEXT)
    const posted = await query(collection, { limit: 1 })
    expect([posted.body.page.has_more, posted.headers.get('link')]).toEqual([true, null])
    const refused = await list(collection, 'page[size]=0')
    expect(refused.headers.get('link')).toBeNull()
  })

  test('link: every list operation: present', async () => {
    const as = testWorkspace.operator
    const keys = (await follow(
      `/v1/api-keys?workspace_id=${testWorkspace.workspaceId}&page[size]=1`,
      as,
    )) as object[]
    expect(keys.length).toBeGreaterThan(1)
    const reply = await call('GET', '/v1/tenants?page[size]=1', { as })
    expect(reply.headers.get('link')).toMatch(NEXT)
  })
})

describe('closed schema', () => {
  const properties = { color: { type: 'string' }, size: { type: 'object' } }
  let closed: string
  beforeAll(async () => {
    closed = await declareCollection({ properties, additionalProperties: false })
  })

  test.each([
    ['colour=eq.red', 'filter_invalid', 'color'],
    ['or=(color.eq.red,not.and(colr.is.null,size.is.null))', 'filter_invalid', 'color'],
    ['colour.x=exists.true', 'filter_invalid', 'color'],
    ['order=siz.desc', 'order_invalid', 'size'],
    ['order=color,_version,siez', 'order_invalid', 'size'],
    ['select=colors', 'select_invalid', 'color'],
    ['select=color,weight.x', 'select_invalid', 'size, color'],
  ])('query: %s: %s with the nearest name as hint', async (text, code, name) => {
    const { status, body } = await list(closed, text)
    expect([status, body.code]).toEqual([400, code])
    expect(body.hint).toContain(name)
  })

  test('query: declared, nested and reserved names, also in JSON: accepted', async () => {
    const accepted =
      'color=eq.red&size.x=eq.1&id=isdistinct.0190abcd-0000-7000-8000-000000000000&order=_created_at,size.y&select=_version,color'
    expect((await list(closed, accepted)).status).toBe(200)
    expect((await query(closed, { filter: { colour: 1 } })).body.code).toBe('filter_invalid')
    expect((await query(closed, { select: ['colour'] })).body.code).toBe('select_invalid')
  })

  test('query: schema that allows other fields: unknown names are accepted', async () => {
    const open = [
      await declareCollection({ properties }),
      await declareCollection({ properties, additionalProperties: false }, 'warn'),
      await declareCollection({ properties, additionalProperties: false, patternProperties: { '^x': {} } }),
      unique('undeclared'),
    ]
    for (const collection of open)
      expect((await list(collection, 'colour=eq.red&order=siz&select=weight')).status).toBe(200)
  })
})

test('like with a prefix: under row-level security: uses the index, same results', async () => {
  const collection = await declareCollection({ properties: { t: { type: 'string' } } })
  const table = await tableOf(collection)
  for (const t of ['abc', 'abd', 'ab', 'abcé', 'abc\u{10FFFF}', 'ABC', 'a%c'])
    await call('POST', at(collection), { as: testWorkspace.service, body: { t } })
  const found = async (text: string) =>
    (await list(collection, `${text}&order=t&select=t`)).body.data.map(({ t }: { t: string }) => t)
  expect(await found('t=like.abc*')).toEqual(['abc', 'abcé', 'abc\u{10FFFF}'])
  expect(await found('t=not.like.abc*')).toEqual(['ABC', 'a%25c', 'ab', 'abd'].map(decodeURIComponent))
  expect(await found('t=like.a\\%25c')).toEqual(['a%c'])
  expect(await found('t=like(any).{ab,abd*}')).toEqual(['ab', 'abd'])
  await asSuperuser(`create index on ${table} (tenant_id, workspace_id, c1)`)
  const plan = (text: string) => planOf(table, text)
  expect(await plan('t=like.abc*')).toMatch(/Index Cond: .*c1 >= 'abc'::text.*c1 < 'abd'::text/)
  expect(await plan('t=like.*abc')).not.toMatch(/Index Cond: .*c1/)
  expect(await plan('t=ilike.abc*')).not.toMatch(/Index Cond: .*c1/)
})

/** The plan of a filter with the service key of the workspace, with sequential scans made too expensive to be chosen. */
async function planOf(table: string, text: string): Promise<string> {
  const database = Database.open(inject('tenon').env['DATABASE_APP_URL'] ?? '', () => {}, 1)
  const { tenantId: tenant, workspaceId: workspace } = testWorkspace
  const context: SessionContext = { role: 'tenon_service', tenant, workspace, statementTimeoutMs: 5_000 }
  const where = compileFilter(readFilters([...new URLSearchParams(text)]), () => ({
    sql: Sql.identifier('c1'),
    type: 'text',
  }))
  const name = Sql.identifier(/"(.*)"/.exec(table)?.[1] ?? '')
  const explained = sql`explain (costs off) select id from tenon_data.${name} where ${where}`
  try {
    const rows = await database.batch(context, [sql`set local enable_seqscan = off`, explained])
    return (rows[1] ?? []).map((row) => row['QUERY PLAN']).join('\n')
  } finally {
    await database.close()
  }
}
