/** Measures `delete-many` against a loop of bare SQL that deletes the same number of rows and writes a row of an outbox for each. */

import { Pool } from 'pg'
import type { Started } from '../../test/support/stack/start.ts'
import { createTestWorkspace } from '../fixture.ts'
import { sender } from '../http.ts'
import { figuresOf, print, sized } from '../measure.ts'
import { columnsOf } from './documents.ts'

const DOCUMENTS = sized(100_000, 200)
/** Documents of one deletion. */
const DELETED = DOCUMENTS / 20
const ROUNDS = sized(8, 1)
/** Of one transaction, in both. */
const AT_ONCE = 500

const TABLES = `create schema doomed;
  create table doomed.documents (tenant_id text, workspace_id text, id uuid primary key, title text, part bigint, version bigint default 1);
  create index on doomed.documents (part);
  create table doomed.outbox (like tenon.outbox including all);`

const DELETION = `with gone as (delete from doomed.documents where id in
    (select id from doomed.documents where workspace_id = $2 and part = $3 order by id limit ${AT_ONCE}) returning *)
  insert into doomed.outbox (tenant_id, workspace_id, collection, verb, document_id, version)
    select $1, $2, 'doomed', 'deleted', id, version from gone`

/** Prints the result; takes about two minutes. */
export async function deletions({ running }: Started): Promise<void> {
  const pool = new Pool({ connectionString: running.databaseUrl, max: 1 })
  try {
    const { url, admin, apikey, tenantId, workspaceId } = await createTestWorkspace(running)
    const { id } = await admin.post<{ id: string }>('/v1/schemas', {
      ...{ workspace_id: workspaceId, collection: 'doomed', store: 'relational' },
      schema: { properties: { title: { type: 'string' }, part: { type: 'integer' } } },
      indexes: [{ fields: ['part'] }],
    })
    const columnOf = await columnsOf(pool, id)
    await pool.query(TABLES)
    const values = `select $1, $2, uuidv7(), 'document ' || n, n % ${DOCUMENTS / DELETED} from generate_series(1, ${DOCUMENTS}) n`
    for (const into of [
      `tenon_data.${id} (tenant_id, workspace_id, id, ${columnOf('title')}, ${columnOf('part')})`,
      'doomed.documents (tenant_id, workspace_id, id, title, part)',
    ])
      await pool.query(`insert into ${into} ${values}`, [tenantId, workspaceId])
    await pool.query(`vacuum analyze tenon_data.${id}`)
    await pool.query('vacuum analyze doomed.documents')
    const send = sender(url, { apikey }, 1)
    const ours = async (part: number) => {
      const body = JSON.stringify({ filter: { part } })
      const path = '/v1/collections/doomed/delete-many'
      const { status, changed } = JSON.parse(await send('POST', path, body, { prefer: 'wait=30' }))
      if (changed !== DELETED) throw new Error(`${status}: ${changed} of ${DELETED} were deleted`)
    }
    const bare = async (part: number) => {
      for (let deleted = AT_ONCE; deleted === AT_ONCE; )
        deleted = (await pool.query(DELETION, [tenantId, workspaceId, part])).rowCount ?? 0
    }
    await report(ours, bare)
  } finally {
    await pool.end()
  }
}

type Delete = (part: number) => Promise<void>

/** Each deletes another part of the documents in each round; the one that begins changes. */
async function report(ours: Delete, bare: Delete): Promise<void> {
  const times = new Map<Delete, number[]>([
    [ours, []],
    [bare, []],
  ])
  for (let round = 0; round <= ROUNDS; round++) {
    for (const work of round % 2 === 0 ? [ours, bare] : [bare, ours]) {
      const startedMs = performance.now()
      await work(round)
      // The first round warms up.
      if (round > 0) times.get(work)?.push(performance.now() - startedMs)
    }
  }
  const [mine, theirs] = [ours, bare].map((work) => figuresOf(times.get(work) ?? []).p50Ms)
  print(`delete ${DELETED} of ${DOCUMENTS}`, 'p50 ms', 'per s', '× bare loop')
  for (const [name, ms = 0] of [
    ['delete-many', mine],
    ['bare loop', theirs],
  ] as const)
    print(name, ms, (DELETED * 1_000) / ms, (theirs ?? 0) / ms)
}
