/** Operations on calls: calls a tool over REST with the same checks as over MCP, lists and verifies the log of calls. */

import Type, { type Static } from 'typebox'
import { Digest, Verified, VerifyInput, verifyChain } from '../../../access/audit/verify-chain.ts'
import { withChainDepth } from '../../../access/derived-scopes.ts'
import { Input, Ref, Time } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { component } from '../../../core/components/component.ts'
import { EXAMPLE_DIGEST, EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { CHAIN_DEPTH_HEADER } from '../../../core/execution.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../../core/page.ts'
import { ADMINS } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { findRow, previewOperation } from '../../operation-helpers.ts'
import { SERVERS, Server, Ws } from '../servers.ts'
import { callActiveVersion } from './call-active-version.ts'
import { CHANNELS, callQueueOf, OUTCOMES } from './call-log.ts'
import { Content } from './content.ts'

export const callServer = previewOperation({
  name: 'mcp_server.call',
  roles: ADMINS,
  summary:
    'Call a tool of the active version of a hosted MCP server, with the same checks as at the MCP endpoint',
  input: Input({
    ws: Ws,
    server: Server,
    tool: Type.String({ minLength: 1, maxLength: 200 }),
    arguments: Type.Optional(
      Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()], {
        description: 'Arguments of the tool. `null`: none.',
      }),
    ),
    request_id: Type.Optional(Type.String()),
    chain_depth: Type.Optional(
      Type.String({
        pattern: '^[1-9][0-9]{0,2}$',
        description: 'Chain depth of the call, set by requests of tool sources.',
      }),
    ),
  }),
  output: component(
    'McpCallResult',
    Type.Object({
      content: Type.Array(Content),
      structured_content: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
      is_error: Type.Boolean(),
      code: Type.Optional(Type.String({ description: 'Code of the problem, if the tool reports one.' })),
    }),
    { content: [{ type: 'text', text: '2 bookings' }], structured_content: { data: [] }, is_error: false },
  ),
  http: {
    method: 'POST',
    path: `${SERVERS}/{server}/call`,
    body: '*',
    headers: { request_id: 'x-request-id', chain_depth: CHAIN_DEPTH_HEADER },
  },
  run: async (scope, input) => {
    const { server, tool, arguments: args, request_id: requestId = '' } = input
    const { subject: principal, clientId } = scope.actor
    const context = { channel: 'rest', principal, clientId, requestId } as const
    const nested = input.chain_depth === undefined ? scope : withChainDepth(scope, Number(input.chain_depth))
    return callActiveVersion(nested, { ...context, server, tool, arguments: args })
  },
})

const Text = Type.Union([Type.String(), Type.Null()])

const Call = component(
  'McpCall',
  Type.Object({
    seq: Type.Integer({ minimum: 1, description: 'Position in the chain of the server, without gaps.' }),
    tenant_id: Type.String(),
    workspace_id: Type.String(),
    server_id: Type.String(),
    time: Time,
    channel: Type.Enum([...CHANNELS], {
      description: 'Channel of the call: the MCP endpoint, the REST API, or a flow.',
    }),
    principal: Text,
    client_id: Type.Union([Type.String(), Type.Null()], {
      description: 'Id of the OAuth client that the token was issued to.',
    }),
    address: Type.Union([Type.String(), Type.Null()], {
      description: 'IP address of the client, for calls at the MCP endpoint.',
    }),
    version: Type.Union([Type.Integer(), Type.Null()]),
    version_hash: Type.Union([Type.String(), Type.Null()], {
      description: 'SHA-256 of the manifest of the version.',
    }),
    tool: Text,
    scope: Type.Union([Type.String(), Type.Null()], {
      description: 'OAuth scope that allowed the call, or that was missing.',
    }),
    arguments_sha256: Type.Union([Type.String(), Type.Null()], {
      description: 'SHA-256 of the arguments as canonical JSON.',
    }),
    arguments_shape: Type.Union([Type.Array(Type.String()), Type.Null()], {
      description: 'Names and JSON types of the arguments, `<name>: <type>`; never values.',
    }),
    outcome: Type.Enum([...OUTCOMES]),
    transport_status: Type.Integer({ description: 'HTTP status of the response.' }),
    rpc_code: Type.Union([Type.Integer(), Type.Null()], {
      description: 'Code of the JSON-RPC error. `null`: the response has none.',
    }),
    code: Type.Union([Type.String(), Type.Null()], { description: 'Code of the problem.' }),
    duration_ms: Type.Integer(),
    request_id: Text,
    prev_hash: Digest,
    hash: Digest,
  }),
  {
    seq: 7,
    tenant_id: EXAMPLE_ID.tenant,
    workspace_id: EXAMPLE_ID.workspace,
    server_id: EXAMPLE_ID.mcpServer,
    time: EXAMPLE_TIME.created,
    channel: 'wire',
    principal: EXAMPLE_ID.user,
    client_id: EXAMPLE_ID.client,
    address: '192.0.2.7',
    version: 1,
    version_hash: EXAMPLE_DIGEST,
    tool: 'bookings_query',
    scope: 'mcp:bookings:read',
    arguments_sha256: EXAMPLE_DIGEST,
    arguments_shape: ['filter: object'],
    outcome: 'ok',
    transport_status: 200,
    rpc_code: null,
    code: null,
    duration_ms: 14,
    request_id: EXAMPLE_ID.request,
    prev_hash: EXAMPLE_DIGEST,
    hash: EXAMPLE_DIGEST,
  },
)
type Call = Static<typeof Call>

/**
 * Finds the log of a server that exists, or of a deleted one by its id, with the calls that this process has answered.
 * @throws Problem `not_found`
 */
async function findLog(scope: WorkspaceScope, server: string): Promise<{ id: string }> {
  await callQueueOf(scope).flush(scope)
  return findRow<{ id: string }>(
    scope,
    'MCP server',
    sql`select id from mcp_servers where id = ${server} or slug = ${server}
      union select server_id from mcp_call_heads where server_id = ${server}
      union (select server_id from mcp_calls where server_id = ${server} limit 1)`,
  )
}

interface Row extends Pick<Call, 'prev_hash' | 'hash'> {
  readonly id: string
  readonly entry: Omit<Call, 'seq' | 'prev_hash' | 'hash'>
}

export const listCalls = previewOperation({
  name: 'mcp_call.list',
  roles: ADMINS,
  summary: 'List the calls of a hosted MCP server, newest first, including refused calls',
  input: Input({
    ...PageInput,
    ws: Ws,
    server: Server,
    order: Type.Optional(
      Type.Enum(['asc', 'desc'], { description: 'Order by time. Default: `desc`, newest first.' }),
    ),
    tool: Type.Optional(Type.String({ maxLength: 200 })),
    outcome: Type.Optional(Type.Enum([...OUTCOMES])),
    principal: Type.Optional(Ref('user or client')),
    // Longer than ours: those of external issuers.
    client_id: Type.Optional(Type.String({ maxLength: 1_000, description: 'Id of the client.' })),
    after: Type.Optional(Time),
    before: Type.Optional(Time),
  }),
  output: PageOf(Call),
  http: { method: 'GET', path: `${SERVERS}/{server}/audit` },
  run: async (scope, input) => {
    const { id } = await findLog(scope, input.server)
    const { after: cursor, limit } = pageBounds(input)
    if (!/^\d{0,18}$/.test(cursor)) throw new Problem('cursor_invalid')
    const seq = sql`nullif(${cursor}, '')::bigint`
    const [following, order] =
      input.order === 'asc'
        ? [sql`seq > coalesce(${seq}, 0::bigint)`, sql`seq asc`]
        : [sql`seq < coalesce(${seq}, 9e18::bigint)`, sql`seq desc`]
    const rows = await scope.rows<Row>(sql`
      select seq::text as id, entry::json as entry, encode(prev_hash, 'hex') as prev_hash, encode(hash, 'hex') as hash
      from mcp_calls
      where server_id = ${id} and ${following}
        ${filter(sql`and tool =`, input.tool)} ${filter(sql`and outcome =`, input.outcome)}
        ${filter(sql`and principal =`, input.principal)} ${filter(sql`and client_id =`, input.client_id)}
        ${filter(sql`and time >`, instant(input.after))} ${filter(sql`and time <`, instant(input.before))}
      order by ${order} limit ${limit}`)
    const { data, page } = pageFrom(input, rows)
    return { data: data.map(({ id, entry, ...hashes }) => ({ ...entry, seq: Number(id), ...hashes })), page }
  },
})

/** A condition that ends with its operator, and its value; none without a value. */
const filter = (condition: Sql, value: string | undefined): Sql =>
  value === undefined ? sql`` : sql`${condition} ${value}`

/** The time as entries write it, so that texts compare as times do. */
const instant = (time: string | undefined) => (time === undefined ? undefined : new Date(time).toISOString())

export const verifyCalls = previewOperation({
  name: 'mcp_call.verify',
  roles: ADMINS,
  summary: 'Verify the chain of the calls of a hosted MCP server, up to 10,000 entries per call',
  input: Input({ ws: Ws, server: Server, ...VerifyInput }),
  output: Verified,
  http: { method: 'GET', path: `${SERVERS}/{server}/audit/verify` },
  run: async (scope, { server, ws: _ws, ...from }) => {
    const { id } = await findLog(scope, server)
    const { tenantId: tenant_id, workspaceId: workspace_id } = scope.ref
    const rows = sql`server_id = ${id}`
    const chain = {
      tenant_id,
      workspace_id,
      chain: id,
      table: sql`mcp_calls`,
      rows,
      head: sql`mcp_call_heads where ${rows}`,
    }
    return verifyChain(scope, chain, from)
  },
})
