/**
 * Creates the documents of the benchmark: collections of two tenants, and copies in the tables of the
 * competitors.
 */

import { Pool } from 'pg'
import type { Running } from '../../test/support/stack/start.ts'
import { createTestWorkspace, type TestWorkspace } from '../fixture.ts'
import { sized } from '../measure.ts'

export const DOCUMENTS = sized(100_000, 4_000)
export const COLLECTION = 'tasks'

/** Declared members of a document, in the order of the competitors' columns. */
export const PROPERTIES = {
  title: { type: 'string', maxLength: 200 },
  status: { enum: ['open', 'done', 'late'], type: 'string' },
  score: { type: 'number' },
  opened: { type: 'string', format: 'date-time' },
} as const
export const SCHEMA = {
  type: 'object',
  properties: PROPERTIES,
  required: Object.keys(PROPERTIES),
  additionalProperties: false,
}

/** The body of a create request. */
export const DOCUMENT = {
  title: 'a new document',
  status: 'open',
  score: 12.5,
  opened: '2026-01-01T00:00:00Z',
}

/** A tenant's collection, with the ids of some documents to read and write. */
export interface Place extends TestWorkspace {
  readonly ids: readonly string[]
}

/** Scores are almost unique; a third of the documents is open. */
export const VALUES = `'document ' || n, (array['open', 'done', 'late'])[1 + n % 3],
  (n::bigint * 7919 % 100003)::double precision / 8, '2026-01-01T00:00:00Z'`

/** The tables of the competitors equal ours except for row-level security and quota triggers. */
const TABLES = ['plain', 'peer']
export const OURS = 'tenant_id, workspace_id, id, version, created_at, updated_at'
export const makeTable = (name: string) => `
  create table bench.${name} (
    tenant_id text not null default current_setting('request.jwt.claims', true)::json ->> 'tenant_id',
    workspace_id text not null default current_setting('request.jwt.claims', true)::json ->> 'workspace_id',
    id uuid not null default uuidv7(),
    title text collate "C", status text collate "C", score double precision, opened text collate "C",
    extra jsonb not null default '{}',
    version bigint not null default 1,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    owner text collate "C",
    primary key (tenant_id, workspace_id, id));`

const makeIndexed = (name: string) => `${makeTable(name)}
  create index on bench.${name} (tenant_id, workspace_id, status, score, id);`

/** Creates and fills everything. @returns the two collections */
export async function loadDocuments(running: Running): Promise<Place[]> {
  const pool = new Pool({ connectionString: running.databaseUrl, max: 1 })
  try {
    await pool.query(`create schema bench; ${TABLES.map(makeIndexed).join('')}`)
    const places = [await load(running, pool), await load(running, pool)]
    for (const name of TABLES) await pool.query(`vacuum analyze bench.${name}`)
    return places
  } finally {
    await pool.end()
  }
}

/** Writes directly into PostgreSQL as its superuser: the measurement comes later. */
async function load(running: Running, pool: Pool): Promise<Place> {
  const workspace = await createTestWorkspace(running)
  const { id: schemaId } = await workspace.admin.post<{ id: string }>('/v1/schemas', {
    ...{ workspace_id: workspace.workspaceId, collection: COLLECTION, store: 'relational', schema: SCHEMA },
    indexes: [{ fields: ['status', 'score'] }],
  })
  const columnOf = await columnsOf(pool, schemaId)
  const columns = Object.keys(PROPERTIES).map(columnOf).join(', ')
  const table = `tenon_data.${schemaId}`
  await pool.query(
    `insert into ${table} (tenant_id, workspace_id, id, ${columns})
      select $1, $2, uuidv7(), ${VALUES} from generate_series(1, ${DOCUMENTS}) n`,
    [workspace.tenantId, workspace.workspaceId],
  )
  await pool.query(`vacuum analyze ${table}`)
  for (const name of TABLES) {
    await pool.query(`insert into bench.${name} (${OURS}, ${Object.keys(PROPERTIES).join(', ')})
      select ${OURS}, ${columns} from ${table}`)
  }
  const { rows } = await pool.query<{ id: string }>(`select id from ${table} order by random() limit 5000`)
  return { ...workspace, ids: rows.map(({ id }) => id) }
}

/** The column of a property besides the generated one. */
export async function columnsOf(pool: Pool, schemaId: string): Promise<(property: string) => string> {
  const query =
    'select property, "column" from tenon.schemas, jsonb_to_recordset(columns) as c (property text, "column" text, canonical jsonb) where id = $1 and canonical is null'
  const { rows } = await pool.query<{ property: string; column: string }>(query, [schemaId])
  const names = new Map(rows.map(({ property, column }) => [property, column]))
  return (property) => names.get(property) ?? ''
}
