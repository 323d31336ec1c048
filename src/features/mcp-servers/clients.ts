/** OAuth clients of agents: credentials for one hosted server, shown once, revoked within seconds of their deletion. */

import { randomBytes } from 'node:crypto'
import Type, { type Static } from 'typebox'
import { effectOnce } from '../../access/effect-once.ts'
import { DeletedClient, Id, Input, Name, Ref, Time } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { component, exampleOf } from '../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../core/components/examples.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { PageInput, PageOf } from '../../core/page.ts'
import { ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { bodyProblem, findRow, listPage, previewOperation } from '../operation-helpers.ts'
import { MCP_LIMITS } from './limits.ts'
import { findServer, type McpServer, SERVERS, Server, Ws } from './servers.ts'
import { digest } from './tool.ts'

const SECRET_BYTES = 32

const AgentClient = component(
  'McpClient',
  Type.Object({
    client_id: Id('agent'),
    name: Type.String(),
    scopes: Type.Union([Type.Array(Type.String()), Type.Null()], {
      description: 'Scopes of the client. `null`: all scopes of the server.',
    }),
    created_by: Type.String(),
    created_at: Time,
  }),
  {
    client_id: EXAMPLE_ID.agent,
    name: 'Assistant',
    scopes: ['mcp:bookings:read'],
    created_by: EXAMPLE_ID.account,
    created_at: EXAMPLE_TIME.created,
  },
)
type AgentClient = Static<typeof AgentClient>

const COLUMNS = sql`id as client_id, name, scopes, created_by, created_at`

export const createClient = previewOperation({
  name: 'mcp_client.create',
  roles: ADMINS,
  summary: 'Create a client for an agent; only this response contains its secret',
  input: Input({
    ws: Ws,
    server: Server,
    name: Name,
    scopes: Type.Optional(
      Type.Array(Type.String({ pattern: '^mcp:[a-z0-9-]+:[A-Za-z0-9_.-]+$' }), {
        minItems: 1,
        maxItems: MCP_LIMITS.toolsMax,
      }),
    ),
  }),
  output: component(
    'McpClientWithSecret',
    Type.Interface([AgentClient], {
      client_secret: Type.String({ description: 'Secret of the client, shown only once.' }),
    }),
    { ...exampleOf(AgentClient), client_secret: 'shown once' },
  ),
  http: { method: 'POST', path: `${SERVERS}/{server}/clients`, body: '*', status: () => 201 },
  run: async (scope, { server, name, scopes }) => {
    const found = await findServer(scope, server)
    if (found.authorization_server !== null)
      throw new Problem('state_conflict', {
        detail: `The clients of this server are those of its issuer, ${found.authorization_server}.`,
      })
    await rejectUnknownScopes(scope, found, scopes)
    const secret = randomBytes(SECRET_BYTES).toString('base64url')
    const insert = sql`insert into mcp_clients (server_id, id, name, secret_hash, scopes, created_by)
        select id, ${scope.newId('agent')}, ${name}, ${digest(secret)},
          ${scopes === undefined ? null : JSON.stringify(scopes)}::jsonb, ${scope.actor.subject}
        from mcp_servers where id = ${found.id}
        returning ${COLUMNS}`
    return effectOnce(scope, async (inside) => {
      const client = await findRow<AgentClient>(inside, 'MCP server', insert)
      return { ...client, client_secret: secret }
    })
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
): Promise<void> {
  if (scopes.length === 0) return
  const { id, slug, active_version: active, latest_version: latest } = server
  if (latest === 0)
    throw new Problem('state_conflict', {
      detail: 'The server has no scopes before it is published: publish it first, or leave `scopes` out.',
    })
  const rows = await scope.rows<{ name: string }>(sql`
    select distinct jsonb_array_elements_text(scopes) as name from mcp_server_versions
    where server_id = ${id} and version in (${active ?? latest}, ${latest}) order by name`)
  const offered = rows.map(({ name }) => name)
  const wrong = scopes.findIndex((name) => !offered.includes(name))
  if (wrong < 0) return
  const names = offered.slice(0, CORE_LIMITS.diagnosticsReturnedMax).join(', ')
  const detail = `${scopes[wrong]} is not a scope of the server ${slug}, which offers ${names}.`
  throw bodyProblem(`/scopes/${wrong}`, detail)
}

export const listClients = previewOperation({
  name: 'mcp_client.list',
  roles: ADMINS,
  summary: 'List the clients of a hosted MCP server',
  input: Input({ ...PageInput, ws: Ws, server: Server }),
  output: PageOf(AgentClient),
  http: { method: 'GET', path: `${SERVERS}/{server}/clients` },
  run: async (scope, input) => {
    const { id } = await findServer(scope, input.server)
    const clients = sql`select ${COLUMNS} from mcp_clients where server_id = ${id}`
    return listPage<AgentClient>(scope, input, clients, 'client_id')
  },
})

export const deleteClient = previewOperation({
  name: 'mcp_client.delete',
  roles: ADMINS,
  summary: 'Delete a client; its tokens become invalid within 5 s',
  input: Input({ ws: Ws, server: Server, client: Ref('client') }),
  output: DeletedClient,
  http: { method: 'DELETE', path: `${SERVERS}/{server}/clients/{client}` },
  run: async (scope, { server, client }) => {
    const { id } = await findServer(scope, server)
    await findRow(
      scope,
      'client',
      sql`delete from mcp_clients where server_id = ${id} and id = ${client} returning id`,
    )
    return { client_id: client, deleted: true as const }
  },
})
