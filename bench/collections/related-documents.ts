/** Creates related documents, and notes to search: in collections, and with the same values in tables of a schema of their own. */

import { Pool } from 'pg'
import type { Running } from '../../test/support/stack/start.ts'
import { createTestWorkspace, type TestWorkspace } from '../fixture.ts'
import { columnsOf } from './documents.ts'

const uuid = { type: 'string', format: 'uuid' }
const text = { type: 'string' }
const integer = { type: 'integer' }

interface Declared {
  readonly properties: Readonly<Record<string, object>>
  readonly more: object
  /** The values of the properties in the document of the number `o.n`. */
  readonly values: string
  readonly count: number
}

/** Documents with a word `topic…`, and those of a hundred with the word `often`. */
const OF_TOPIC = 100
const OFTEN = 5

/** Each item is of an order, and each order of a customer. A twentieth of the customers has the plan `pro`. There are as many notes as items. */
const declarationsOf = (items: number, schema: string) => {
  const [orders, customers] = [items / 5, items / 100]
  return {
    customers: {
      properties: { name: text, plan: text },
      more: { indexes: [{ fields: ['plan'] }] },
      values: `'customer ' || o.n, case when o.n % 20 = 0 then 'pro' else 'free' end`,
      count: customers,
    },
    orders: {
      properties: { customer_id: uuid, status: text, amount: integer },
      more: {
        references: [{ field: 'customer_id', collection: 'customers', inverse: 'orders' }],
        indexes: [{ fields: ['amount'] }],
      },
      values: `(select id from ${schema}.customers c where c.n = 1 + o.n % ${customers})::text,
        (array['open', 'paid', 'late'])[1 + o.n % 3], o.n`,
      count: orders,
    },
    items: {
      properties: { order_id: uuid, position: integer, price: integer },
      more: {
        references: [{ field: 'order_id', collection: 'orders', inverse: 'items' }],
        indexes: [{ fields: ['price'] }],
      },
      values: `(select id from ${schema}.orders o2 where o2.n = 1 + o.n % ${orders})::text, o.n / ${orders}, o.n % 1000`,
      count: items,
    },
    notes: {
      properties: { title: text, body: text },
      more: { search: { fields: { title: 'A', body: 'B' }, language: 'english' } },
      values: `'topic' || o.n % ${Math.max(1, items / OF_TOPIC)}, case when o.n % 100 < ${OFTEN} then 'often ' else '' end ||
        (select string_agg('word' || (o.n::bigint * k * 7919) % 5003, ' ') from generate_series(1, 12) k)`,
      count: items,
    },
  } as const satisfies Readonly<Record<string, Declared>>
}

/** The tables, with the foreign keys by which PostgREST finds what is related. */
const tablesOf = (schema: string) => `create schema ${schema};
  create table ${schema}.customers (n int, tenant_id text, workspace_id text, id uuid primary key, name text, plan text);
  create table ${schema}.orders (n int, tenant_id text, workspace_id text, id uuid primary key,
    customer_id uuid references ${schema}.customers, status text, amount bigint);
  create table ${schema}.items (n int, tenant_id text, workspace_id text, id uuid primary key, order_id uuid references ${schema}.orders,
    position bigint, price bigint);
  create table ${schema}.notes (n int, tenant_id text, workspace_id text, id uuid primary key, title text, body text,
    search tsvector generated always as (setweight(to_tsvector('pg_catalog.english', coalesce(title, '')), 'A') ||
      setweight(to_tsvector('pg_catalog.english', coalesce(body, '')), 'B')) stored);
  create index on ${schema}.customers (plan); create index on ${schema}.orders (customer_id); create index on ${schema}.orders (amount);
  create index on ${schema}.items (order_id); create index on ${schema}.items (price); create index on ${schema}.notes using gin (search);`

/** Writes directly into PostgreSQL as its superuser: the measurement comes later. */
export async function loadRelated(
  running: Running,
  { items, schema }: { readonly items: number; readonly schema: string },
): Promise<TestWorkspace> {
  const pool = new Pool({ connectionString: running.databaseUrl, max: 1 })
  try {
    const workspace = await createTestWorkspace(running)
    await pool.query(tablesOf(schema))
    for (const [name, declared] of Object.entries(declarationsOf(items, schema)))
      await load(pool, workspace, { name, schema, ...declared })
    return workspace
  } finally {
    await pool.end()
  }
}

async function load(
  pool: Pool,
  { admin, tenantId, workspaceId: workspace_id }: TestWorkspace,
  { name, schema, properties, more, values, count }: Declared & { name: string; schema: string },
): Promise<void> {
  const fields = Object.keys(properties)
  const typed = fields.map((field) => (field.endsWith('_id') ? `v.${field}::uuid` : `v.${field}`))
  await pool.query(
    `insert into ${schema}.${name} (n, tenant_id, workspace_id, id, ${fields.join()}) select o.n, $1, $2, uuidv7(), ${typed.join()}
     from generate_series(1, ${count}) o (n), lateral (select ${values}) v (${fields.join()})`,
    [tenantId, workspace_id],
  )
  await pool.query(`create index on ${schema}.${name} (n); analyze ${schema}.${name}`)
  const body = { workspace_id, collection: name, store: 'relational', schema: { properties }, ...more }
  const { id } = await admin.post<{ id: string }>('/v1/schemas', body)
  const columnOf = await columnsOf(pool, id)
  await pool.query(`insert into tenon_data.${id} (tenant_id, workspace_id, id, ${fields.map(columnOf).join()})
    select tenant_id, workspace_id, id, ${fields.join()} from ${schema}.${name}`)
  await pool.query(`vacuum analyze tenon_data.${id}`)
  await pool.query(`vacuum analyze ${schema}.${name}`)
}
