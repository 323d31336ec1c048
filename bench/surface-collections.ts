/**
 * Measures a list of 20 with a filter and an order, on 20,000 documents: through the API and as bare SQL, in
 * one run.
 */

import { Pool } from 'pg'
import type { Running } from '../test/support/stack/start.ts'
import { createTestWorkspace } from './fixture.ts'
import { interleaved, print, sized } from './measure.ts'

const DOCUMENTS = sized(20_000, 200)
const ROUNDS = 60

const FILL = `insert into tenon.documents (tenant_id, workspace_id, collection, id, data)
  select $1, $2, 'bench', uuidv7(), jsonb_build_object('n', n, 'status', (array['open','done','late'])[1 + n % 3],
    'score', (n * 7919) % 1000, 'title', 'document ' || n, 'address', jsonb_build_object('city', 'c' || n % 50))
  from generate_series(1, ${DOCUMENTS}) n`

const WHERE = `from tenon.documents where tenant_id = $1 and workspace_id = $2 and collection = 'bench'`
const FIELDS = 'select id, data, version, created_at, updated_at'

export async function collections(running: Running): Promise<void> {
  const { tenantId, workspaceId, apikey } = await createTestWorkspace(running)
  const pool = new Pool({ connectionString: running.databaseUrl, max: 1 })
  await pool.query(FILL, [tenantId, workspaceId])
  await pool.query('analyze tenon.documents')
  const get = async (query: string) => {
    const response = await fetch(`${running.url}/v1/collections/bench/documents?${query}`, {
      headers: { apikey },
    })
    if (!response.ok) throw new Error(await response.text())
    return (await response.json()) as { page: { next: string } }
  }
  const bare = (name: string, rest: string) => () =>
    pool.query({ name, text: `${FIELDS} ${WHERE} ${rest} limit 21`, values: [tenantId, workspaceId] })
  const ordered = 'status=eq.open&order=score.desc&page[size]=20'
  const { page } = await get(ordered)
  const figures = await interleaved(ROUNDS, {
    'SQL: first 20': bare('first', 'order by id'),
    'API: first 20': () => get('page[size]=20'),
    'SQL: filter': bare('filter', `and data->'status' = '"open"' order by id`),
    'API: filter': () => get('status=eq.open&page[size]=20'),
    'SQL: filter and order': bare(
      'ordered',
      `and data->'status' = '"open"' order by data->'score' desc, id desc`,
    ),
    'API: filter and order': () => get(ordered),
    'API: filter and order, next page': () => get(`${ordered}&page[after]=${page.next}`),
  })
  print(`list of 20 of ${DOCUMENTS} documents`, 'p50 ms', 'p99 ms', '× SQL')
  const base = { first: 'SQL: first 20', filter: 'SQL: filter', order: 'SQL: filter and order' } as const
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures)) {
    const peer = /order/.test(name) ? base.order : /filter/.test(name) ? base.filter : base.first
    print(name, p50Ms, p99Ms, p50Ms / figures[peer].p50Ms)
  }
  await pool.end()
}
