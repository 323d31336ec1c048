/** Query plans of the product's own statements: no filter on a declared, indexed field reads a whole table. */

import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import type { PlatformServices } from '../../../src/access/internals.ts'
import { WorkspaceScope } from '../../../src/access/scope.ts'
import { openPlatform, type Platform } from '../../../src/app/platform.ts'
import { randomIds } from '../../../src/core/ids.ts'
import type { Role } from '../../../src/core/policy.ts'
import type { WorkspaceRef } from '../../../src/core/tenant.ts'
import { readDocumentPage } from '../../../src/features/collections/page.ts'
import { readOrder } from '../../../src/features/collections/query/order-and-selection.ts'
import { readFilters } from '../../../src/features/collections/query/url.ts'
import { readExpand } from '../../../src/features/collections/references/expand-syntax.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { openLog } from '../../../src/infra/log.ts'
import { Database, type StatementExecutor } from '../../../src/infra/postgres/database.ts'
import { type Sql, sql } from '../../../src/infra/postgres/sql.ts'
import type { SessionContext } from '../../../src/infra/postgres/statement-batch.ts'
import { asSuperuser, call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'

const DOCUMENTS = 20_000
const COLLECTION = 'people'
/** Undeclared: its documents share a table with those of other collections. */
const UNDECLARED = 'loose'

interface Node {
  readonly 'Node Type': string
  readonly 'Index Cond'?: string
  readonly Plans?: readonly Node[]
}

let platform: Platform
let parts: PlatformServices
let workspaces: TestWorkspace[]
/** Column by declared property. */
const columns = new Map<string, string>()

beforeAll(async () => {
  const opened = openPlatform(parseConfig(inject('tenon').env), openLog('silent', 'test'))
  platform = opened.platform
  parts = opened.parts
  workspaces = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  for (const workspace of workspaces) await fill(workspace)
  await Promise.all(workspaces.map(openCollectionsToAnon))
})
afterAll(() => platform.close())

async function fill({ operator, workspaceId, tenantId }: TestWorkspace): Promise<void> {
  const properties = {
    title: { type: 'string' },
    score: { type: 'integer' },
    rate: { type: 'number' },
    done: { type: 'boolean' },
    at: { type: 'string', format: 'date-time' },
    ref: { type: 'string', format: 'uuid' },
  }
  const indexes = [
    ...Object.keys(properties).map((name) => ({ fields: [name] })),
    { fields: ['done', 'score'] },
  ]
  const body = {
    workspace_id: workspaceId,
    collection: COLLECTION,
    store: 'relational',
    schema: { properties },
    indexes,
  }
  const { body: schema } = await call('POST', '/v1/schemas', { as: operator, body })
  const [row] = await asSuperuser<{ columns: { property: string; column: string }[] }>(
    'select columns from tenon.schemas where id = $1',
    [schema.id],
  )
  for (const { property, column } of row?.columns ?? []) columns.set(property, column)
  // Timestamps and UUIDs have two columns: the last one is compared, the text is written.
  const texts = new Map((row?.columns ?? []).toReversed().map(({ property, column }) => [property, column]))
  const of = ['title', 'score', 'rate', 'done', 'at', 'ref'].map((name) => texts.get(name)).join()
  // One in a thousand lacks each field; one in a hundred is done.
  await asSuperuser(
    `insert into tenon_data."${schema.id}" (tenant_id, workspace_id, id, ${of})
     select $1, $2, gen_random_uuid(), case when n % 1000 <> 1 then 't' || n end, case when n % 1000 <> 2 then n end,
       case when n % 1000 <> 3 then n / 7.0 end, case when n % 1000 <> 4 then n % 100 = 0 end,
       case when n % 1000 <> 5 then
         to_char(timestamp '2026-01-01' + n * interval '1 minute', 'YYYY-MM-DD"T"HH24:MI:SS+01:00') end,
       case when n % 1000 <> 6 then upper(lpad(n::text, 8, '0') || '-0000-4000-8000-abcdefabcdef') end
     from generate_series(1, $3::int) n order by random()`,
    [tenantId, workspaceId, DOCUMENTS],
  )
  // Also marks the pages of which all rows are visible, as autovacuum does.
  await asSuperuser(`vacuum analyze tenon_data."${schema.id}"`)
  await asSuperuser(
    `insert into tenon.documents (tenant_id, workspace_id, collection, id, data)
     select $1, $2, $3, gen_random_uuid(), '{}' from generate_series(1, $4::int)`,
    [tenantId, workspaceId, UNDECLARED, DOCUMENTS],
  )
}

/** Runs batches and records the plan of each statement on documents, under the same session settings. */
class Explaining implements StatementExecutor {
  readonly plans: Node[] = []

  async batch(context: SessionContext, statements: readonly Sql[]) {
    for (const [index, statement] of statements.entries()) {
      if (!/from tenon(_data\.|\.documents)/.test(statement.text)) continue
      // A statement may use what those before it leave in the transaction.
      const before = statements.slice(0, index)
      const rows = await parts.database.batch(context, [...before, sql`explain (format json) ${statement}`])
      const [row] = rows.at(-1) ?? []
      const explained = row?.['QUERY PLAN'] as [{ Plan: Node }]
      const [{ Plan }] = explained
      this.plans.push(Plan)
    }
    return parts.database.batch(context, statements)
  }
}

/** Reads a page as the API does. @returns its plan and the start of the next page */
async function planOf(
  role: Role,
  filters: [string, string][],
  order = '',
  after?: string,
  collection = COLLECTION,
) {
  const [workspace] = workspaces
  const ref = { tenantId: workspace?.tenantId, workspaceId: workspace?.workspaceId } as WorkspaceRef
  const statements = new Explaining()
  const scope = new WorkspaceScope({ subject: 'test', role }, ref, { ...parts, statements }, randomIds)
  const { data, page } = await readDocumentPage(scope, collection, {
    ...{ filter: readFilters(filters), order: order === '' ? [] : readOrder(order) },
    ...{ selection: undefined, size: 20, after, count: undefined },
  })
  expect(statements.plans).toHaveLength(1)
  return { nodes: statements.plans.flatMap(nodesOf), found: data.length, next: page.next ?? undefined }
}

const nodesOf = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)]
const typesOf = (nodes: readonly Node[]) => nodes.map((node) => node['Node Type'])
const conditionsOf = (nodes: readonly Node[]) =>
  nodes.flatMap((node) => node['Index Cond'] ?? []).join(' and ')

const ANSWERED_BY_INDEX: [string, string][] = [
  ['score', 'eq.77'],
  ['score', 'in.(5,6,7)'],
  ['score', 'gt.19990'],
  ['score', 'gte.19990'],
  ['score', 'lt.10'],
  ['score', 'lte.10'],
  ['score', 'is.null'],
  ['rate', 'gt.2857'],
  ['rate', 'eq.11'],
  ['title', 'eq.t77'],
  ['title', 'in.(t5,t6)'],
  ['title', 'gte.t9999'],
  ['title', 'is.null'],
  ['title', 'like.t1999%'],
  ['done', 'eq.true'],
  ['done', 'is.null'],
  ['at', 'eq.2026-01-01T01:00:00Z'],
  ['at', 'in.(2026-01-01T01:00:00Z,2026-01-02T00:00:00-05:00)'],
  ['at', 'lt.2026-01-01T00:00:00Z'],
  ['at', 'not.lte.2026-01-14T20:00:00Z'],
  ['at', 'is.null'],
  ['ref', 'eq.00000077-0000-4000-8000-abcdefABCDEF'],
]
const OTHERS: [string, string][] = [
  ['score', 'neq.77'],
  ['score', 'is.not_null'],
  ['score', 'not.gt.10'],
  ['score', 'not.in.(1,2)'],
  ['title', 'like.%99%'],
  ['title', 'ilike.T19%'],
  ['title', 'not.like.t1%'],
  ['title', 'neq.t1'],
  ['done', 'neq.true'],
  ['at', 'neq.2026-01-01'],
  ['at', 'like.2026-01-01*'],
]

for (const role of ['service', 'anon'] as const) {
  test.each(ANSWERED_BY_INDEX)(`${role}: filter %s=%s: uses the index`, async (field, expression) => {
    const { nodes, found } = await planOf(role, [[field, expression]])
    expect(found).toBeGreaterThan(0)
    expect(typesOf(nodes)).not.toContain('Seq Scan')
    expect(conditionsOf(nodes)).toMatch(new RegExp(`\\b${columns.get(field)}\\b`))
    expect(JSON.stringify(nodes)).toContain('.col1 IS NOT NULL')
  })

  test.each(OTHERS)(`${role}: filter %s=%s: no sequential scan`, async (field, expression) => {
    const { nodes, found } = await planOf(role, [[field, expression]])
    expect(found).toBeGreaterThan(0)
    expect(typesOf(nodes)).not.toContain('Seq Scan')
  })

  test.each(['score', 'score.desc', 'title', 'title.desc', 'rate', 'at', 'at.desc', 'ref'])(
    `${role}: order %s, with pages: read from the index, without a sort`,
    async (order) => {
      let after: string | undefined
      for (let page = 0; page < 3; page++) {
        const { nodes, next } = await planOf(role, [], order, after)
        expect(typesOf(nodes)).not.toContain('Seq Scan')
        // The second page of a descending order starts among the few documents without a value.
        if (page !== 1 || !order.endsWith('desc')) expect(typesOf(nodes)).not.toContain('Sort')
        expect(typesOf(nodes).some((type) => /^Index/.test(type))).toBe(true)
        if (page > 0) expect(conditionsOf(nodes)).toContain(columns.get(order.split('.')[0] ?? ''))
        after = next
      }
    },
  )

  test(`${role}: filter and order of one index: uses that index`, async () => {
    const { nodes } = await planOf(role, [['done', 'eq.true']], 'score')
    expect(typesOf(nodes)).not.toContain('Seq Scan')
    expect(conditionsOf(nodes)).toContain(columns.get('done'))
  })
}

test.each<Role>(['service', 'anon'])('count by a %s: read from the index alone', async (role) => {
  const [workspace] = workspaces
  const ref = { tenantId: workspace?.tenantId, workspaceId: workspace?.workspaceId } as WorkspaceRef
  const statements = new Explaining()
  const scope = new WorkspaceScope({ subject: 'test', role }, ref, { ...parts, statements }, randomIds)
  const { page } = await readDocumentPage(scope, COLLECTION, {
    ...{ filter: readFilters([['score', 'gt.19990']]), order: [], selection: undefined },
    ...{ size: 20, after: undefined, count: 'exact' },
  })
  expect(page.total).toBe(10)
  const [, counted] = statements.plans
  expect(typesOf(counted === undefined ? [] : nodesOf(counted))).toContain('Index Only Scan')
})

test.each([
  [COLLECTION, 'id'],
  [COLLECTION, 'id.desc'],
  [UNDECLARED, 'id'],
  [UNDECLARED, 'id.desc'],
])(
  'pages: collection %s, order %s: each starts in the index where the last one ended',
  async (collection, order) => {
    let after: string | undefined
    for (let page = 0; page < 3; page++) {
      const { nodes, next } = await planOf('service', [], order, after, collection)
      // The policy of the service role is decided once, by a step of its own.
      expect(typesOf(nodes).filter((type) => type !== 'Result')).toEqual([
        'Limit',
        expect.stringMatching(/^Index/),
      ])
      if (page > 0) expect(conditionsOf(nodes)).toMatch(/\(id [<>]/)
      after = next
    }
  },
)

test('control: field without an index: sequential scan, so the tests above can fail', async () => {
  const [workspace] = workspaces
  const { body } = await call('GET', '/v1/schemas', { as: workspace?.operator ?? {} })
  expect(body.data.length).toBeGreaterThan(0)
  const { nodes } = await planOf('service', [['extra', 'eq.1']], 'extra')
  expect(typesOf(nodes)).toContain('Sort')
})

test('prepared statement: executed often: keeps the plan that its values need', async () => {
  const database = Database.open(inject('tenon').env['DATABASE_APP_URL'] ?? '', () => {}, 1)
  try {
    const [workspace] = workspaces
    const ref = { tenantId: workspace?.tenantId, workspaceId: workspace?.workspaceId } as WorkspaceRef
    const scope = new WorkspaceScope(
      { subject: 'test', role: 'service' },
      ref,
      { ...parts, statements: database },
      randomIds,
    )
    const queryOptions = { order: [], selection: undefined, size: 20, after: undefined, count: undefined }
    for (let n = 0; n < 12; n++)
      await readDocumentPage(scope, COLLECTION, {
        ...queryOptions,
        filter: readFilters([['score', `gte.${19_990 + (n % 5)}`]]),
      })
    const prepared = await scope.rows<{ generic_plans: number; custom_plans: number }>(
      sql`select generic_plans, custom_plans from pg_prepared_statements where statement like ${'%from tenon_data.%limit%'}`,
    )
    expect(prepared).toEqual([{ generic_plans: 0, custom_plans: 12 }])
  } finally {
    await database.close()
  }
})

test.each<Role>(['service', 'user', 'anon'])(
  'expand and filters through references, by a %s: ranges of the index of the field, and no whole table',
  async (role) => {
    const workspace = await createTestWorkspace()
    const collection = 'nodes'
    const { body: schema } = await call('POST', '/v1/schemas', {
      as: workspace.operator,
      body: {
        ...{ workspace_id: workspace.workspaceId, collection, store: 'relational' },
        schema: { properties: { n: { type: 'integer' }, parent_id: { type: 'string', format: 'uuid' } } },
        references: [{ field: 'parent_id', collection, as: 'parent', inverse: 'children' }],
        indexes: [{ fields: ['n'] }],
        access: { anon: { read: { n: { gte: 0 } } }, user: { read: { n: { gte: 0 } } } },
      },
    })
    const column = Object.fromEntries(
      (
        await asSuperuser<{ columns: { property: string; column: string; canonical?: object }[] }>(
          'select columns from tenon.schemas where id = $1',
          [schema.id],
        )
      )
        .flatMap((row) => row.columns)
        .filter(({ canonical }) => canonical === undefined)
        .map((one) => [one.property, one.column]),
    )
    // Each tenth document is the parent of nine.
    const idOf = (n: string) => `(lpad((${n})::text, 8, '0') || '-0000-4000-8000-abcdefabcdef')`
    await asSuperuser(
      `insert into tenon_data."${schema.id}" (tenant_id, workspace_id, id, ${column['n']}, ${column['parent_id']})
       select $1, $2, ${idOf('n')}::uuid, n, case when n % 10 > 0 then ${idOf('n - n % 10')} end
       from generate_series(0, $3::int) n order by n % 10`,
      [workspace.tenantId, workspace.workspaceId, DOCUMENTS],
    )
    await asSuperuser(`analyze tenon_data."${schema.id}"`)
    const ref = { tenantId: workspace.tenantId, workspaceId: workspace.workspaceId } as WorkspaceRef
    const pages = [
      ...['children', 'children(count)', 'children(;order=n.desc;size=3)', 'parent'].map(
        (name) => [[], name] as const,
      ),
      ...[
        ['parent.n', 'eq.40'],
        ['children', 'some.(n.eq.41)'],
        ['parent.parent.n', 'eq.40'],
        ['parent', 'some.(children.some.(n.eq.41))'],
      ].map((filter) => [[filter as [string, string]]] as const),
    ]
    for (const [filters, expand] of pages) {
      const statements = new Explaining()
      const actor = { subject: 'test', role, ...(role === 'user' && { user: { id: 'u', claims: {} } }) }
      const scope = new WorkspaceScope(actor as never, ref, { ...parts, statements }, randomIds)
      await readDocumentPage(scope, collection, {
        ...{ filter: readFilters(filters, { joins: true }), order: [], selection: undefined },
        ...{ size: 20, after: undefined, count: undefined, expand: readExpand(expand) },
      })
      const plan = statements.plans.at(-1)
      const nodes = plan === undefined ? [] : nodesOf(plan)
      const name = expand ?? filters.join()
      expect([name, typesOf(nodes)]).toEqual([name, expect.not.arrayContaining(['Seq Scan'])])
      expect(conditionsOf(nodes)).toMatch(/=/)
    }
  },
)
