/** Clients of agents: OAuth credentials for one hosted server, shown once, gone within seconds of their deletion. */

import { randomBytes } from 'node:crypto'
import Type, { type Static } from 'typebox'
import { Id, Input, Name, Ref, Time, workspaceOperation } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { LIMITS } from '../../core/limits.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../core/page.ts'
import { ADMINS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { findServer, type McpServer, SERVERS, Server, Ws } from './servers.ts'
import { digest } from './tool.ts'

const SECRET_BYTES = 32

const AgentClient = Type.Object({
  client_id: Id('agent'),
  name: Type.String(),
  scopes: Type.Union([Type.Array(Type.String()), Type.Null()], { description: 'null: all of the server.' }),
  created_by: Type.String(),
  created_at: Time,
})
type AgentClient = Static<typeof AgentClient>

const COLUMNS = sql`id as client_id, name, scopes, created_by, created_at`

export const createClient = workspaceOperation({
  name: 'mcp_client.create',
  summary: 'Create a client for an agent; its secret is in this answer only',
  roles: ADMINS,
  stability: 'preview',
  input: Input({
    ws: Ws,
    server: Server,
    name: Name,
    scopes: Type.Optional(
      Type.Array(Type.String({ pattern: '^mcp:[a-z0-9-]+:[A-Za-z0-9_.-]+$' }), {
        minItems: 1,
        maxItems: LIMITS.mcpToolsMax,
      }),
    ),
  }),
  output: Type.Interface([AgentClient], { client_secret: Type.String({ description: 'Shown once.' }) }),
  http: { method: 'POST', path: `${SERVERS}/{server}/clients`, body: '*', status: () => 201 },
  run: async (scope, { server, name, scopes }) => {
    const { id } = await rejectUnknownScopes(scope, await findServer(scope, server), scopes)
    const secret = randomBytes(SECRET_BYTES).toString('base64url')
    const made = await scope.row<AgentClient>(sql`
      insert into mcp_clients (server_id, id, name, secret_hash, scopes, created_by)
      select id, ${scope.newId('agent')}, ${name}, ${digest(secret)},
        ${scopes === undefined ? null : JSON.stringify(scopes)}::jsonb, ${scope.actor.subject}
      from mcp_servers where id = ${id}
      returning ${COLUMNS}`)
    if (made === undefined) throw notFound('MCP server')
    return { ...made, client_secret: secret }
  },
})

/**
 * Refuses scopes that no token of the client could have: the server offers those of its active and its latest version.
 * @throws Problem `validation_failed`; `state_conflict` before the server is published
 */
async function rejectUnknownScopes(
  scope: WorkspaceScope,
  server: McpServer,
  scopes: readonly string[] = [],
): Promise<McpServer> {
  if (scopes.length === 0) return server
  const { id, slug, active_version: active, latest_version: latest } = server
  if (latest === 0) throw new Problem('state_conflict', { detail: UNPUBLISHED })
  const rows = await scope.rows<{ name: string }>(sql`
    select distinct jsonb_array_elements_text(scopes) as name from mcp_server_versions
    where server_id = ${id} and version in (${active ?? latest}, ${latest}) order by name`)
  const offered = rows.map(({ name }) => name)
  const wrong = scopes.findIndex((name) => !offered.includes(name))
  if (wrong < 0) return server
  const shown = offered.slice(0, LIMITS.faultsShownMax).join(', ')
  const detail = `${scopes[wrong]} is no scope of the server ${slug}, which offers ${shown}.`
  const errors = [{ in: 'body', name: 'scopes', pointer: `/scopes/${wrong}`, detail }] as const
  throw new Problem('validation_failed', { detail, errors })
}

const UNPUBLISHED =
  'The server has no scopes before it is published: publish it first, or leave `scopes` out.'

export const listClients = workspaceOperation({
  name: 'mcp_client.list',
  summary: 'List the clients of a hosted MCP server',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ...PageInput, ws: Ws, server: Server }),
  output: PageOf(AgentClient),
  http: { method: 'GET', path: `${SERVERS}/{server}/clients` },
  run: async (scope, input) => {
    const { id } = await findServer(scope, input.server)
    const { after, limit } = pageBounds(input)
    const rows = await scope.rows<AgentClient>(sql`
      select ${COLUMNS} from mcp_clients where server_id = ${id} and id > ${after} order by id limit ${limit}`)
    return pageFrom(input, rows, ({ client_id }) => client_id)
  },
})

export const deleteClient = workspaceOperation({
  name: 'mcp_client.delete',
  summary: 'Delete a client; its tokens end within 5 s',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ws: Ws, server: Server, client: Ref('client') }),
  output: Type.Object({ client_id: Type.String(), deleted: Type.Literal(true) }),
  http: { method: 'DELETE', path: `${SERVERS}/{server}/clients/{client}` },
  run: async (scope, { server, client }) => {
    const { id } = await findServer(scope, server)
    const gone = await scope.row<{ id: string }>(
      sql`delete from mcp_clients where server_id = ${id} and id = ${client} returning id`,
    )
    if (gone === undefined) throw notFound('client')
    return { client_id: gone.id, deleted: true as const }
  },
})
