/** Plans and results of searches: under each role the index is used, and what is found is what a superuser finds by plain SQL. */

import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import type { PlatformServices } from '../../../src/access/internals.ts'
import { WorkspaceScope } from '../../../src/access/scope.ts'
import { openPlatform, type Platform } from '../../../src/app/platform.ts'
import { randomIds } from '../../../src/core/ids.ts'
import type { Role } from '../../../src/core/policy.ts'
import type { WorkspaceRef } from '../../../src/core/tenant.ts'
import { readDocumentPage } from '../../../src/features/collections/page.ts'
import { takeSearch, takeShown } from '../../../src/features/collections/query/search.ts'
import { readFilters } from '../../../src/features/collections/query/url.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { openLog } from '../../../src/infra/log.ts'
import type { StatementExecutor } from '../../../src/infra/postgres/database.ts'
import { type Sql, sql } from '../../../src/infra/postgres/sql.ts'
import type { SessionContext } from '../../../src/infra/postgres/statement-batch.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { type Random, randomOf } from '../../support/random.ts'
import { migrateHere, withDatabase } from '../../support/stack/own-database.ts'
import { runCheckNamed } from '../../support/stack/start-outcome.ts'

/** More than are searched without an index. */
const DOCUMENTS = 21_000
const COLLECTION = 'articles'
const SEED = 44

let platform: Platform
let parts: PlatformServices
let workspace: TestWorkspace
let mia: Caller
let table: string
const columns = new Map<string, string>()

const DECLARATION = {
  collection: COLLECTION,
  store: 'relational',
  schema: {
    properties: {
      title: { type: 'string' },
      body: { type: 'string' },
      n: { type: 'integer' },
      tags: { type: 'array' },
    },
  },
  search: { fields: { title: 'A', body: 'C' }, language: 'english' },
  trigram: ['title'],
  arrays: ['tags'],
  access: {
    anon: { read: { n: { gte: 0 } } },
    user: { read: { $or: [{ _owner: '$user.id' }, { n: { lt: 7_000 } }] } },
  },
}

beforeAll(async () => {
  const opened = openPlatform(parseConfig(inject('tenon').env), openLog('silent', 'test'))
  platform = opened.platform
  parts = opened.parts
  workspace = await createTestWorkspace()
  mia = await userToken(workspace, 'mia')
  table = await declare(COLLECTION)
  await fill(table)
})
afterAll(() => platform.close())

/** @returns the name of its table */
async function declare(collection: string): Promise<string> {
  const { status, body } = await call('POST', '/v1/schemas', {
    as: workspace.operator,
    body: { workspace_id: workspace.workspaceId, ...DECLARATION, collection },
  })
  expect(status, JSON.stringify(body)).toBe(201)
  const [row] = await asSuperuser<{ columns: { property: string; column: string }[] }>(
    'select columns from tenon.schemas where id = $1',
    [body.id],
  )
  for (const { property, column } of row?.columns ?? []) columns.set(property, column)
  return `tenon_data."${body.id}"`
}

/** Texts of few words, so that each occurs often enough, and each document has some of them. */
const WORDS = ['milk', 'tea', 'water', 'bread', 'running', 'cheese', 'lemon', 'rice', 'garden', 'house']

async function fill(name: string): Promise<void> {
  const of = ['title', 'body', 'n', 'tags'].map((property) => columns.get(property)).join()
  const word = (n: string) =>
    `(array['${WORDS.join("','")}'])[1 + (hashint4(${n}) & 65535) % ${WORDS.length}]`
  await asSuperuser(
    `insert into ${name} (tenant_id, workspace_id, id, owner, ${of})
     select $1, $2, gen_random_uuid(), case when n % 10 = 0 then 'mia' end,
       ${word('n')} || ' ' || ${word('n * 7')} || ' no' || n, ${word('n * 11')} || ' and ' || ${word('n * 13')}, n,
       jsonb_build_array(${word('n * 3')}, n % 500, 't' || n % 700)
     from generate_series(1, $3::int) n`,
    [workspace.tenantId, workspace.workspaceId, DOCUMENTS],
  )
  await asSuperuser(`analyze ${name}`)
}

interface Node {
  readonly 'Node Type': string
  readonly 'Index Cond'?: string
  readonly Plans?: readonly Node[]
}
const nodesOf = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)]

/** Runs batches and records the plan of each statement on documents, under the same session settings. */
class Explaining implements StatementExecutor {
  readonly plans: Node[] = []

  async batch(context: SessionContext, statements: readonly Sql[]) {
    for (const statement of statements.filter(({ text }) => text.includes('from tenon_data.'))) {
      const [[row] = []] = await parts.database.batch(context, [sql`explain (format json) ${statement}`])
      const explained = row?.['QUERY PLAN'] as [{ Plan: Node }]
      this.plans.push(explained[0].Plan)
    }
    return parts.database.batch(context, statements)
  }
}

async function planOf(role: Role, pairs: [string, string][], order?: string): Promise<Node[]> {
  const ref = { tenantId: workspace.tenantId, workspaceId: workspace.workspaceId } as WorkspaceRef
  const statements = new Explaining()
  const actor = { subject: 'test', role, ...(role === 'user' && { user: { id: 'mia', claims: {} } }) }
  const scope = new WorkspaceScope(actor as never, ref, { ...parts, statements }, randomIds)
  const { search, filters } = takeSearch(pairs)
  const shown = takeShown(search, { order, select: search && ['_highlight', '*'] })
  const { data } = await readDocumentPage(scope, COLLECTION, {
    ...{ search: shown.search, filter: readFilters(filters), order: [] },
    ...{ selection: undefined, size: 20, after: undefined, count: undefined },
  })
  expect(data.length).toBeGreaterThan(0)
  expect(statements.plans).toHaveLength(1)
  return statements.plans.flatMap(nodesOf)
}

const FOUND_BY_INDEX: [what: string, pairs: [string, string][], condition: RegExp, order?: string][] = [
  ['words', [['_search', 'wfts.no77 milk or no88']], /search =@@/],
  ['words by score', [['_search', 'plfts.running rice']], /search =@@/, '_score.desc'],
  ['the beginning of a word', [['_search', 'prefix.no1234']], /search =@@/],
  ['elements', [['tags', 'cs.{t33}']], /tags =@>/],
  ['elements of several forms', [['tags', 'cs.{33}']], /tags =@> ANY/],
  ['one of some elements', [['tags', 'ov.{t33,t34}']], /tags =@> ANY/],
  ['a pattern', [['title', 'like.*no1234*']], /folded\(\(title\)::text\) =~~/],
  ['a pattern without case', [['title', 'ilike.*NO1234*']], /folded\(\(title\)::text\) =~~/],
]

for (const role of ['service', 'user', 'anon'] as const)
  test.each(FOUND_BY_INDEX)(`${role}: %s: uses the index`, async (_what, pairs, condition, order) => {
    const nodes = await planOf(role, pairs, order)
    const conditions = nodes.flatMap((node) => node['Index Cond'] ?? []).join(' and ')
    const named = [...columns].reduce(
      (text, [name, column]) => text.replaceAll(RegExp(`\\b${column}\\b`, 'g'), name),
      conditions,
    )
    expect(named).toMatch(condition)
    expect(nodes.map((node) => node['Node Type'])).not.toContain('Seq Scan')
  })

/** A random query, and the same as a condition in plain SQL, for a reader without row-level security. */
function randomQuery(random: Random): { readonly query: string; readonly condition: string } {
  const pick = <T>(from: readonly T[]): T => from[random(from.length)] as T
  const word = () => pick(WORDS)
  const number = () => random(DOCUMENTS)
  const literal = (text: string) => `'${text.replaceAll("'", "''")}'`
  const column = (name: string) => columns.get(name) ?? ''
  const words = (kind: string, text: string, fn: string) => ({
    query: `_search=${encodeURIComponent(`${kind}.${text}`)}`,
    condition: `search @@ ${fn}('pg_catalog.english', ${literal(text)})`,
  })
  const forms = [
    () =>
      words(
        'wfts',
        pick([
          `${word()} ${word()} -${word()}`,
          `${word()} or no${number()}`,
          `"${word()} ${word()}"`,
          `${word()} or ${word()} or ${word()}`,
          `-${word()} ${word()}`,
        ]),
        'websearch_to_tsquery',
      ),
    () => words('plfts', `${word()} ${word()}`, 'plainto_tsquery'),
    () => words('phfts', `${word()} and ${word()}`, 'phraseto_tsquery'),
    () => {
      const [first, start] = [word(), `no${number() % 300}`]
      return {
        query: `_search=prefix.${first}+${start}`,
        condition: `search @@ to_tsquery('pg_catalog.english', '${first} & ${start}:*')`,
      }
    },
    () => {
      const [one, other] = [word(), `t${number() % 700}`]
      return pick([
        { query: `tags=cs.{${one},${other}}`, condition: `${column('tags')} @> '["${one}","${other}"]'` },
        { query: `tags=ov.{${one},${other}}`, condition: `${column('tags')} ?| array['${one}','${other}']` },
        { query: `tags=cs.{${number() % 500}}`, condition: '' },
      ])
    },
    () => {
      const text = pick([
        `%${word().slice(1)}%${number() % 50}`,
        `${word()} %no1%`,
        `%no${number() % 900}%`,
        `%E ${word().toUpperCase()}%`,
      ])
      const fold = random(2) === 0
      return {
        query: `title=${fold ? 'ilike' : 'like'}.${encodeURIComponent(text)}`,
        condition: `(${column('title')} collate "default") ${fold ? 'ilike' : 'like'} ${literal(text)}`,
      }
    },
  ]
  const found = pick(forms)()
  const [, value] = /^tags=cs\.\{(\d+)\}$/.exec(found.query) ?? []
  const whole =
    value === undefined
      ? found
      : { ...found, condition: `(${column('tags')} @> '[${value}]' or ${column('tags')} @> '["${value}"]')` }
  if (random(10) < 6) return whole
  const bound = number()
  return {
    query: `${whole.query}&n=gt.${bound}`,
    condition: `${whole.condition} and ${column('n')} > ${bound}`,
  }
}

test(`random searches, seed ${SEED}: users and services find what plain SQL finds among what they may read`, async () => {
  const random = randomOf(SEED)
  const rule = () => `(owner = 'mia' or ${columns.get('n')} < 7000)`
  let matches = 0
  for (let round = 0; round < 60; round++) {
    const { query, condition } = randomQuery(random)
    for (const [as, may] of [
      [mia, rule()],
      [workspace.service, 'true'],
    ] as const) {
      const [expected] = await asSuperuser<{ n: string; ids: string[] }>(
        `select count(*) as n, (array_agg(id::text order by id))[1:100] as ids from ${table} where ${condition} and ${may}`,
      )
      const path = `/v1/collections/${COLLECTION}/documents?${query}&order=id&count=exact&page[size]=100&select=id`
      const { status, body } = await call('GET', path, { as })
      expect([query, status, body.page?.total]).toEqual([query, 200, Number(expected?.n)])
      expect(body.data.map(({ id }: { id: string }) => id)).toEqual(expected?.ids ?? [])
      matches += Number(expected?.n)
    }
  }
  expect(matches).toBeGreaterThan(1_000)
})

test('more matches than are ordered by score: a page that says so', async () => {
  const read = async (text: string) =>
    (
      await call(
        'GET',
        `/v1/collections/${COLLECTION}/documents?_search=wfts.${text}&order=_score.desc&page[size]=3`,
        {
          as: workspace.service,
        },
      )
    ).body
  const all = await read(WORDS.join('+or+'))
  expect([all.data.length, all.page]).toMatchObject([3, { approximate: true, has_more: true }])
  const few = await read('no1234')
  expect(few.page).not.toHaveProperty('approximate')
})

test('installation without the operators: small collections are searched, large ones are refused with what to do', async () => {
  const weaken = (name: string) =>
    asSuperuser(
      `update tenon.schemas set indexes = (select jsonb_agg(i - 'leakproof') from jsonb_array_elements(indexes) i)
       where collection = $1 and workspace_id = $2`,
      [name, workspace.workspaceId],
    )
  const [small, large] = ['weak_small', 'weak_large']
  await declare(small)
  await weaken(small)
  const document = { title: 'milk', body: 'tea', n: 1, tags: ['a'] }
  expect(
    (await call('POST', `/v1/collections/${small}/documents`, { as: workspace.service, body: document }))
      .status,
  ).toBe(201)
  for (const query of [
    '_search=wfts.milk',
    '_search=wfts.milk&order=_score.desc',
    'tags=cs.{a}',
    'title=ilike.*ILK*',
  ]) {
    const { status, body } = await call('GET', `/v1/collections/${small}/documents?${query}`, { as: mia })
    expect([query, status, body.data?.length]).toEqual([query, 200, 1])
  }
  const name = await declare(large)
  await weaken(large)
  await fill(name)
  const { status, body } = await call('GET', `/v1/collections/${large}/documents?_search=wfts.milk`, {
    as: workspace.service,
  })
  expect([status, body.code, body.hint]).toEqual([
    expect.any(Number),
    'not_supported',
    expect.stringContaining('call tenon.make_search_operators()'),
  ])
})

test('doctor: operators that are missing are named, and made by the procedure', async () => {
  await withDatabase(async ({ env, url, client }) => {
    await migrateHere(url)
    expect(await runCheckNamed('search', env)).toMatchObject({ is: 'good' })
    await client.query(`drop operator family tenon.words_ops using gin cascade;
      drop operator family tenon.json_ops using gin cascade;
      drop function tenon.matches_words, tenon.contains_json cascade`)
    const named = expect.stringContaining('call tenon.make_search_operators()')
    expect(await runCheckNamed('search', env)).toMatchObject({ is: 'good', detail: named })
    // The row alone: its table, which triggers ask for, does not matter here.
    await client.query('set session_replication_role = replica')
    await client.query(`insert into tenon.schemas (id, tenant_id, workspace_id, collection, store, schema, mode, indexes)
      values ('sch_' || repeat('0', 26), 'ten_1', 'ws_1', 'a', 'relational', '{}', 'enforce', '[{"name": "i1", "kind": "text"}]')`)
    expect(await runCheckNamed('search', env)).toMatchObject({ is: 'warning', detail: named })
    await client.query('call tenon.make_search_operators()')
    expect(await runCheckNamed('search', env)).toMatchObject({
      is: 'warning',
      detail: expect.stringMatching(/declare them again/),
    })
    await client.query('delete from tenon.schemas')
    expect(await runCheckNamed('search', env)).toMatchObject({ is: 'good' })
  })
})

test('migration by a role that is no superuser: applied, without the operators, which a superuser makes later', async () => {
  const file = readFileSync('src/infra/postgres/migrations/0012-search.sql', 'utf8')
  await withDatabase(async ({ env, url, client }) => {
    await migrateHere(url)
    await client.query(`drop operator family tenon.words_ops using gin cascade;
      drop operator family tenon.json_ops using gin cascade; drop operator family tenon.patterns_ops using gist cascade;
      drop function tenon.matches_words, tenon.contains_json, tenon.matches_pattern, tenon.folded cascade;
      drop procedure tenon.make_search_operators`)
    // The migration asks for the role of the session, which is always a superuser in this database.
    await client.query('begin; set local session authorization tenon_owner')
    await client.query(file)
    await client.query('commit')
    expect((await runCheckNamed('search', env))?.detail).toContain('call tenon.make_search_operators()')
    await expect(
      client.query('begin; set local role tenon_owner; call tenon.make_search_operators()'),
    ).rejects.toThrow(/superuser|permission denied/)
    await client.query('rollback; call tenon.make_search_operators(); call tenon.make_search_operators()')
    expect(await runCheckNamed('search', env)).toMatchObject({
      is: 'good',
      detail: 'row-level security lets searches use their indexes',
    })
  })
})

test('search declared for more documents than others would wait for: refused, and nothing changes', async () => {
  const large = 'too_many'
  const name = await declare(large)
  const id = /sch_[a-z0-9]+/.exec(name)?.[0] ?? ''
  const change = (body: object) => call('PUT', `/v1/schemas/${id}`, { as: workspace.operator, body })
  expect((await change({ search: null, trigram: [], arrays: [] })).status).toBe(200)
  await asSuperuser(
    `insert into tenon_data."${id}_1" (tenant_id, workspace_id, id)
     select $1, $2, gen_random_uuid() from generate_series(1, 50001)`,
    [workspace.tenantId, workspace.workspaceId],
  )
  const { status, body } = await change({ search: { fields: { title: 'A' }, language: 'simple' } })
  expect([status, body.code]).toEqual([409, 'state_conflict'])
  const { body: schema } = await call('GET', `/v1/schemas/${id}`, { as: workspace.operator })
  expect([schema.revision, schema.indexes]).toEqual([1, []])
})
