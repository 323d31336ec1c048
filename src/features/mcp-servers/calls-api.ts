/** Operations on calls: calls a tool over REST with the same checks as over MCP, and lists the log of calls. */

import Type, { type Static } from 'typebox'
import { Input, Time } from '../../access/operation-builders.ts'
import { isUuid } from '../../core/ids.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../core/page.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { previewOperation } from '../operation-helpers.ts'
import { callTool, recordCall } from './call-tool.ts'
import { Content } from './content.ts'
import { findPublished } from './manifest.ts'
import { findServer, SERVERS, Server, Ws } from './servers.ts'

export const callServer = previewOperation({
  name: 'mcp_server.call',
  summary: 'Call a tool of the active version: the same gate as the MCP endpoint',
  input: Input({
    ws: Ws,
    server: Server,
    tool: Type.String({ minLength: 1, maxLength: 200 }),
    arguments: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    request_id: Type.Optional(Type.String()),
  }),
  output: Type.Object({
    content: Type.Array(Content),
    structured_content: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    is_error: Type.Boolean(),
  }),
  http: {
    method: 'POST',
    path: `${SERVERS}/{server}/call`,
    body: '*',
    headers: { request_id: 'x-request-id' },
  },
  run: async (scope, input) => {
    const { id, state, active_version } = await findServer(scope, input.server)
    const requestId = input.request_id ?? ''
    const context = { channel: 'rest', principal: scope.actor.subject, requestId } as const
    const call = { ...context, serverId: id, tool: input.tool }
    if (state !== 'published' || active_version === null) {
      const denied = { outcome: 'denied', transportStatus: 409, code: 'state_conflict' } as const
      await recordCall(scope, { ...call, ...denied, durationMs: 0 })
      throw new Problem('state_conflict', { detail: `The server is ${state}.` })
    }
    const version = await findPublished(scope, id, active_version)
    const result = await callTool(scope, version, { ...call, isStructured: true, arguments: input.arguments })
    if (result === undefined) throw notFound('tool')
    return result
  },
})

const Call = Type.Object({
  id: Type.String({ format: 'uuid' }),
  time: Time,
  version: Type.Union([Type.Integer(), Type.Null()]),
  tool: Type.Union([Type.String(), Type.Null()]),
  principal: Type.Union([Type.String(), Type.Null()]),
  channel: Type.Union([Type.Literal('wire'), Type.Literal('rest')]),
  outcome: Type.Union(['ok', 'tool_error', 'rpc_error', 'denied'].map((outcome) => Type.Literal(outcome))),
  transport_status: Type.Integer({ description: 'HTTP status.' }),
  rpc_code: Type.Union([Type.Integer(), Type.Null()], { description: 'JSON-RPC error code.' }),
  code: Type.Union([Type.String(), Type.Null()]),
  arguments_sha256: Type.Union([Type.String(), Type.Null()], { description: 'Of the canonical JSON.' }),
  duration_ms: Type.Integer(),
  request_id: Type.Union([Type.String(), Type.Null()]),
})

export const listCalls = previewOperation({
  name: 'mcp_call.list',
  summary: 'List the calls on a hosted MCP server, oldest first, the refused ones included',
  input: Input({
    ...PageInput,
    ws: Ws,
    server: Server,
    tool: Type.Optional(Type.String({ maxLength: 200 })),
    outcome: Type.Optional(Type.String({ maxLength: 20 })),
  }),
  output: PageOf(Call),
  http: { method: 'GET', path: `${SERVERS}/{server}/audit` },
  run: async (scope, input) => {
    const { id } = await findServer(scope, input.server)
    const { after, limit } = pageBounds(input)
    if (after !== '' && !isUuid(after)) throw new Problem('cursor_invalid')
    const [tool, outcome] = [input.tool ?? null, input.outcome ?? null]
    const rows = await scope.rows<Static<typeof Call>>(sql`
      select id, time, version, tool, principal, channel, outcome, transport_status, rpc_code, code,
        arguments_sha256, duration_ms, request_id
      from mcp_calls
      where server_id = ${id} and (${after}::text = '' or id > nullif(${after}, '')::uuid)
        and (${tool}::text is null or tool = ${tool}) and (${outcome}::text is null or outcome = ${outcome})
      order by id limit ${limit}`)
    return pageFrom(input, rows)
  },
})
