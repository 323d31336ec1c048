/**
 * Measures related documents and aggregates against PostgREST with equal policies, and aggregates against the bare statement, in one
 * run.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Pool } from 'pg'
import { type Started, startPlatform } from '../../test/support/stack/start.ts'
import { createTestWorkspace, type TestWorkspace } from '../fixture.ts'
import { sender } from '../http.ts'
import { interleaved, print, sized } from '../measure.ts'
import { columnsOf } from './documents.ts'
import { startPostgrest } from './postgrest.ts'

const ITEMS = sized(100_000, 2_000)
const ORDERS = ITEMS / 5
const CUSTOMERS = ORDERS / 20
const ROUNDS = 400

const uuid = { type: 'string', format: 'uuid' }
/** Each item is of an order, and each order of a customer. A twentieth of the customers has the plan `pro`. */
const DECLARATIONS = {
  customers: {
    properties: { name: { type: 'string' }, plan: { type: 'string' } },
    more: { indexes: [{ fields: ['plan'] }] },
    values: `'customer ' || o.n, case when o.n % 20 = 0 then 'pro' else 'free' end`,
    count: CUSTOMERS,
  },
  orders: {
    properties: { customer_id: uuid, status: { type: 'string' }, amount: { type: 'integer' } },
    more: {
      references: [{ field: 'customer_id', collection: 'customers', inverse: 'orders' }],
      indexes: [{ fields: ['amount'] }],
    },
    values: `(select id from bench.customers c where c.n = 1 + o.n % ${CUSTOMERS})::text,
      (array['open', 'paid', 'late'])[1 + o.n % 3], o.n`,
    count: ORDERS,
  },
  items: {
    properties: { order_id: uuid, position: { type: 'integer' }, price: { type: 'integer' } },
    more: {
      references: [{ field: 'order_id', collection: 'orders', inverse: 'items' }],
      indexes: [{ fields: ['price'] }],
    },
    values: `(select id from bench.orders o2 where o2.n = 1 + o.n % ${ORDERS})::text, o.n / ${ORDERS}, o.n % 1000`,
    count: ITEMS,
  },
} as const
type Name = keyof typeof DECLARATIONS
const NAMES: readonly Name[] = ['customers', 'orders', 'items']

/** The tables of PostgREST, with the foreign keys by which it finds what is related. */
const TABLES = `create schema bench;
  create table bench.customers (n int, tenant_id text, workspace_id text, id uuid primary key, name text, plan text);
  create table bench.orders (n int, tenant_id text, workspace_id text, id uuid primary key,
    customer_id uuid references bench.customers, status text, amount bigint);
  create table bench.items (n int, tenant_id text, workspace_id text, id uuid primary key, order_id uuid references bench.orders,
    position bigint, price bigint);
  create index on bench.customers (plan); create index on bench.orders (customer_id); create index on bench.orders (amount);
  create index on bench.items (order_id); create index on bench.items (price);`

type Works = Readonly<Record<string, () => Promise<unknown>>>

/** Prints all results; takes about two minutes. */
export async function relations(): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  const started = await startPlatform(dir, { lasting: true, checkReplies: false })
  const pool = new Pool({ connectionString: started.running.databaseUrl, max: 1 })
  try {
    const workspace = await load(started, pool)
    process.stdout.write(
      `${ITEMS} items of ${ORDERS} orders of ${CUSTOMERS} customers; one request at a time\n`,
    )
    const send = sender(workspace.url, { apikey: workspace.apikey }, 1)
    const peer = await peerOf(started, dir, workspace)
    for (const [title, { ours, theirs, bare }] of Object.entries(CASES)) {
      const works: Record<string, () => Promise<unknown>> = {
        Tenon: () => send('GET', `/v1/collections/${ours}`),
        ...(peer !== undefined && { PostgREST: () => peer('GET', `/${theirs}`) }),
        ...(bare !== undefined && { 'bare statement': () => pool.query(bare, [workspace.workspaceId]) }),
      }
      await check(title, works)
      printFigures(title, await interleaved(ROUNDS, works))
    }
  } finally {
    await pool.end()
    await started.stop()
    await rm(dir, { recursive: true, force: true })
  }
}

/** One request of each, and its count of documents: the same question. */
const CASES: Readonly<Record<string, { ours: string; theirs: string; bare?: string }>> = {
  'expand: 20 orders, customer, 5 items': {
    ours: `orders/documents?amount=gte.${ORDERS / 2}&order=amount&page[size]=20&expand=customer(name),items(position,price;order=position;size=5)`,
    theirs: `orders?amount=gte.${ORDERS / 2}&order=amount,id&limit=21&select=id,customer_id,status,amount,customer:customers(name),items(position,price)&items.order=position&items.limit=5`,
  },
  'filter: 20 orders of customers with plan': {
    ours: 'orders/documents?customer.plan=eq.pro&order=amount&page[size]=20',
    theirs:
      'orders?customers.plan=eq.pro&order=amount,id&limit=21&select=id,customer_id,status,amount,customers!inner()',
  },
  'filter: 20 customers with a paid order': {
    ours: 'customers/documents?orders=some.(status.eq.paid)&order=id&page[size]=20',
    theirs: 'customers?orders.status=eq.paid&order=id&limit=21&select=id,name,plan,orders!inner()',
  },
  'aggregate: items by price of an order': {
    ours: 'items/aggregate?select=position,n:count(),total:price.sum()&price=lt.500',
    theirs: 'items?select=position,n:count(),total:price.sum()&price=lt.500',
    bare: `select position, count(*) as n, sum(price) as total from bench.items
      where workspace_id = $1 and price < 500 group by position`,
  },
  'aggregate: all items': {
    ours: 'items/aggregate?select=n:count(),total:price.sum(),mean:price.avg()',
    theirs: 'items?select=n:count(),total:price.sum(),mean:price.avg()',
    bare: `select count(*) as n, sum(price) as total, avg(price) as mean from bench.items where workspace_id = $1`,
  },
}

/** @throws Error if one finds nothing, or another number of rows than the others */
async function check(title: string, works: Works): Promise<void> {
  const counts: [string, number][] = []
  for (const [name, work] of Object.entries(works)) counts.push([name, rowsIn(await work())])
  const different = new Set(counts.map(([, count]) => count))
  if (different.size !== 1 || different.has(0)) throw new Error(`${title}: ${JSON.stringify(counts)}`)
}

function rowsIn(reply: unknown): number {
  const answer = typeof reply === 'string' ? JSON.parse(reply) : (reply as { rows: unknown[] }).rows
  const rows = answer.data ?? answer
  // PostgREST has read one row more, as Tenon does to know whether there is a further page.
  return Array.isArray(rows) ? Math.min(rows.length, 20) : 1
}

function printFigures(
  title: string,
  figures: Readonly<Record<string, { p50Ms: number; p99Ms: number }>>,
): void {
  print(`\n${title}`, 'p50 ms', 'p99 ms', 'Tenon is × faster')
  const ours = figures['Tenon']?.p50Ms ?? 0
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures)) print(name, p50Ms, p99Ms, p50Ms / ours)
}

/** The same documents in the collections and in the tables of PostgREST. Writes as PostgreSQL's superuser: the measurement comes later. */
async function load({ running }: Started, pool: Pool): Promise<TestWorkspace> {
  const workspace = await createTestWorkspace(running)
  const { tenantId, workspaceId: workspace_id } = workspace
  await pool.query(TABLES)
  for (const name of NAMES) {
    const { properties, more, values, count } = DECLARATIONS[name]
    const fields = Object.keys(properties)
    const typed = fields.map((field) => (field.endsWith('_id') ? `v.${field}::uuid` : `v.${field}`))
    await pool.query(
      `insert into bench.${name} select o.n, $1, $2, uuidv7(), ${typed.join()}
       from generate_series(1, ${count}) o (n), lateral (select ${values}) v (${fields.join()})`,
      [tenantId, workspace_id],
    )
    await pool.query(`create index on bench.${name} (n); analyze bench.${name}`)
    const body = { workspace_id, collection: name, store: 'relational', schema: { properties }, ...more }
    const { id } = await workspace.admin.post<{ id: string }>('/v1/schemas', body)
    const columnOf = await columnsOf(pool, id)
    await pool.query(`insert into tenon_data.${id} (tenant_id, workspace_id, id, ${fields.map(columnOf).join()})
      select tenant_id, workspace_id, id, ${fields.join()} from bench.${name}`)
    await pool.query(`vacuum analyze tenon_data.${id}`)
    await pool.query(`vacuum analyze bench.${name}`)
  }
  return workspace
}

/** @returns undefined if PostgREST is not available */
async function peerOf(started: Started, dir: string, { tenantId, workspaceId }: TestWorkspace) {
  try {
    const claims = { tenant_id: 'tenant_id', workspace_id: 'workspace_id' }
    const peer = await startPostgrest(started, dir, { tables: NAMES, claims })
    const token = await peer.tokenOf({ tenant_id: tenantId, workspace_id: workspaceId })
    return sender(peer.url, { authorization: `Bearer ${token}` }, 1)
  } catch (error) {
    process.stdout.write(`\nwithout PostgREST: ${(error as Error).message}\n`)
    return undefined
  }
}
