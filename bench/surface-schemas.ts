/**
 * Measures documents written to a relational collection, with and without validation, against plain SQL in
 * the same run.
 */

import { Pool } from 'pg'
import { ApiClient } from '../src/cli/client.ts'
import type { Running } from '../test/support/stack/start.ts'
import { createTestWorkspace } from './fixture.ts'
import { interleaved, print, throughput } from './measure.ts'

const ROUNDS = 300
const LANES = 16
const LANE_MS = 3_000

const SCHEMA = {
  type: 'object',
  required: ['title'],
  properties: {
    title: { type: 'string', maxLength: 200 },
    n: { type: 'integer', minimum: 0 },
    done: { type: 'boolean' },
    slug: { type: 'string', pattern: '^[a-z0-9-]+$' },
    due: { type: 'string', format: 'date-time' },
    tags: { type: 'array', items: { type: 'string' }, maxItems: 20 },
  },
  additionalProperties: false,
}
const DOCUMENT = {
  title: 'buy milk',
  n: 3,
  done: false,
  slug: 'buy-milk',
  due: '2026-01-01T00:00:00Z',
  tags: ['a', 'b'],
}

export async function schemas(running: Running): Promise<void> {
  const pool = new Pool({ connectionString: running.databaseUrl, max: LANES })
  const send = await collections(running)
  const table =
    'plain (id uuid primary key default gen_random_uuid(), title text, n bigint, done boolean, extra jsonb)'
  await pool.query(`create table public.${table}`)
  const { title, n, done, ...extra } = DOCUMENT
  const plain = {
    name: 'plain',
    text: 'insert into public.plain (title, n, done, extra) values ($1, $2, $3, $4) returning id',
    values: [title, n, done, extra],
  }
  const works = {
    'plain SQL, no RLS, no HTTP': () => pool.query(plain),
    'POST undeclared (jsonb)': () => send('undeclared'),
    'POST document, enforced': () => send('document-enforce'),
    'POST relational, off': () => send('relational-off'),
    'POST relational, enforced': () => send('relational-enforce'),
  }
  const figures = await interleaved(ROUNDS, works)
  const base = figures['POST undeclared (jsonb)'].p50Ms
  print('insert, one at a time', 'p50 ms', 'p99 ms', '× undeclared')
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures)) print(name, p50Ms, p99Ms, p50Ms / base)
  print(`\ninsert, ${LANES} at once`, 'per s', '× plain')
  const rate = await throughput(LANES, LANE_MS, works['plain SQL, no RLS, no HTTP'])
  for (const [name, work] of Object.entries(works)) {
    const own = work === works['plain SQL, no RLS, no HTTP'] ? rate : await throughput(LANES, LANE_MS, work)
    print(name, own, own / rate)
  }
  await pool.end()
}

/** Declares one collection of each kind. @returns a function that writes a document into one */
async function collections(running: Running): Promise<(collection: string) => Promise<unknown>> {
  const { url, admin, workspaceId: workspace_id, apikey } = await createTestWorkspace(running)
  for (const [store, mode] of [
    ['relational', 'off'],
    ['relational', 'enforce'],
    ['document', 'enforce'],
  ] as const) {
    const body = { workspace_id, collection: `${store}-${mode}`, store, mode, schema: SCHEMA }
    await admin.post('/v1/schemas', body)
  }
  const client = new ApiClient(url, { apikey })
  return (collection) => client.post(`/v1/collections/${collection}/documents`, DOCUMENT)
}
