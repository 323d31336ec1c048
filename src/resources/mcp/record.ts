/** The record of calls on hosted MCP servers: one row a call, also of the refused; written once, never changed. */

import { sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'

/** What the door knows of a call. */
export interface Seen {
  readonly channel: 'wire' | 'rest'
  readonly principal: string | null
  readonly requestId: string
}

/** How it ended: the HTTP status, the JSON-RPC error code, what the tool said, our code. */
export interface Outcome {
  readonly outcome: 'ok' | 'tool_error' | 'rpc_error' | 'denied'
  readonly transportStatus: number
  readonly rpcCode?: number
  readonly code?: string
  /** Of the canonical arguments: they themselves are not kept. */
  readonly argumentsSha256?: string
}

export interface Recorded extends Seen, Outcome {
  readonly serverId: string
  readonly version?: number
  readonly tool?: string
  readonly durationMs: number
}

/** @throws Problem where the database does not take it: a call without its record is no call that went well */
export async function record(scope: WorkspaceScope, call: Recorded): Promise<void> {
  await scope.batch(sql`
    insert into mcp_calls (server_id, id, version, tool, principal, channel, transport_status, rpc_code, outcome,
      code, arguments_sha256, duration_ms, request_id)
    values (${call.serverId}, ${scope.uuid()}, ${call.version ?? null}, ${plain(call.tool)}, ${call.principal},
      ${call.channel}, ${call.transportStatus}, ${call.rpcCode ?? null}, ${call.outcome}, ${call.code ?? null},
      ${call.argumentsSha256 ?? null}, ${call.durationMs}, ${call.requestId.slice(0, 128)})`)
}

/** A name of a tool is the caller's text: cut, and without what no text column takes. */
const plain = (name: string | undefined) =>
  name === undefined ? null : Buffer.from(name.slice(0, 100).replaceAll('\u0000', '')).toString()
