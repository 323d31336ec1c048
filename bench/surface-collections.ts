/** A list of 20 with a filter and an order, on 20,000 documents: through the API and as bare SQL, in one run. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Pool } from 'pg'
import { ApiClient, fetchToken } from '../src/cli/client.ts'
import { type Running, startPlatform } from '../test/support/start.ts'
import { interleaved, print } from './measure.ts'

const DOCUMENTS = 20_000
const ROUNDS = 60

/** Prints everything; takes about half a minute. */
export async function surfaceCollections(): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  try {
    const { running, stop } = await startPlatform(dir)
    try {
      await lists(running)
    } finally {
      await stop()
    }
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

interface Room {
  readonly tenantId: string
  readonly workspaceId: string
  readonly apikey: string
}

async function aRoom({ url, clientId, clientSecret }: Running): Promise<Room> {
  const token = await fetchToken(url, clientId, clientSecret)
  const admin = new ApiClient(url, { authorization: `Bearer ${token}` })
  const slug = `bench-${Date.now()}`
  const { id: tenant_id } = await admin.post<{ id: string }>('/v1/tenants', { name: 'Bench', slug }, 30)
  const { id } = await admin.post<{ id: string }>('/v1/workspaces', { tenant_id, name: 'Bench', slug }, 30)
  const wanted = { workspace_id: id, kind: 'service', name: 'bench' }
  const { key } = await admin.post<{ key: string }>('/v1/api-keys', wanted)
  return { tenantId: tenant_id, workspaceId: id, apikey: key }
}

const FILL = `insert into tenon.documents (tenant_id, workspace_id, collection, id, data)
  select $1, $2, 'bench', uuidv7(), jsonb_build_object('n', n, 'status', (array['open','done','late'])[1 + n % 3],
    'score', (n * 7919) % 1000, 'title', 'document ' || n, 'address', jsonb_build_object('city', 'c' || n % 50))
  from generate_series(1, ${DOCUMENTS}) n`

const WHERE = `from tenon.documents where tenant_id = $1 and workspace_id = $2 and collection = 'bench'`
const FIELDS = 'select id, data, version, created_at, updated_at'

async function lists(running: Running): Promise<void> {
  const { tenantId, workspaceId, apikey } = await aRoom(running)
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
