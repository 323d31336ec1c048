/**
 * The limit server, a process of its own: Fastify and `pg` with named statements, without credentials,
 * row-level security or checks.
 */

import Fastify from 'fastify'
import { Pool } from 'pg'
import { INFRA_LIMITS } from '../../src/infra/limits.ts'

interface Row {
  readonly id: string
  readonly [column: string]: unknown
}

type At = { readonly tenant: string; readonly workspace: string }
type One = At & { readonly id: string }

const pool = new Pool({
  connectionString: process.env['DATABASE_URL'],
  max: INFRA_LIMITS.poolConnectionsMax,
})
const COLUMNS = 'id, title, status, score, opened, extra, version, created_at, updated_at'
const MINE = 'tenant_id = $1 and workspace_id = $2'

const query = async (name: string, text: string, values: unknown[]) =>
  (await pool.query<Row>({ name, text, values })).rows

const TEXTS = {
  insert: `insert into bench.plain (tenant_id, workspace_id, title, status, score, opened)
    values ($1, $2, $3, $4, $5, $6) returning ${COLUMNS}`,
  get: `select ${COLUMNS} from bench.plain where ${MINE} and id = $3`,
  update: `update bench.plain set score = $4, version = version + 1, updated_at = now()
    where ${MINE} and id = $3 returning ${COLUMNS}`,
  first: `select ${COLUMNS} from bench.plain where ${MINE} and status = $3
    order by score desc, id desc limit $4`,
  next: `select ${COLUMNS} from bench.plain where ${MINE} and status = $3 and (score, id) < ($5, $6)
    order by score desc, id desc limit $4`,
}

/** The same JSON as ours. */
function toDocument({ extra, version, created_at, updated_at, ...rest }: Row) {
  return {
    ...rest,
    ...(extra as object),
    _created_at: created_at,
    _updated_at: updated_at,
    _version: version,
  }
}

const app = Fastify()
const base = '/:tenant/:workspace/documents'

app.post<{ Params: At; Body: Record<string, unknown> }>(base, async ({ params, body }, reply) => {
  const { title, status, score, opened } = body
  const values = [params.tenant, params.workspace, title, status, score, opened]
  const [row] = await query('insert', TEXTS.insert, values)
  reply.code(201)
  return row && toDocument(row)
})

app.get<{ Params: One }>(`${base}/:id`, async ({ params: { tenant, workspace, id } }) => {
  const [row] = await query('get', TEXTS.get, [tenant, workspace, id])
  return row && toDocument(row)
})

app.put<{ Params: One; Body: { score: number } }>(`${base}/:id`, async ({ params, body }) => {
  const { tenant, workspace, id } = params
  const [row] = await query('update', TEXTS.update, [tenant, workspace, id, body.score])
  return row && toDocument(row)
})

app.get<{ Params: At; Querystring: { status: string; size: string; after?: string } }>(
  base,
  async ({ params: { tenant, workspace }, query: { status, size, after } }) => {
    const limit = Number(size)
    const values = [tenant, workspace, status, limit + 1]
    const rows = await (after === undefined
      ? query('first', TEXTS.first, values)
      : query('next', TEXTS.next, [...values, ...JSON.parse(after)]))
    const shown = rows.slice(0, limit)
    const last = shown.at(-1)
    const more = rows.length > limit
    const next = more ? JSON.stringify([last?.['score'], last?.id]) : null
    return { data: shown.map(toDocument), page: { size: limit, next, has_more: more } }
  },
)

app.get('/', async () => ({}))

await app.listen({ host: '127.0.0.1', port: Number(process.env['PORT']) })
