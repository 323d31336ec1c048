/** Calls a tool, for the wire and for REST alike: checks arguments, runs the operation, records the outcome. */

import { asWorkspaceService } from '../../access/access.ts'
import { type AuditCaller, runAudited } from '../../access/audit/audited-run.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { canonical, exceedsDepth } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { consumeQuota } from '../quotas/quotas-api.ts'
import type { Published } from './manifest.ts'
import { SOURCES } from './sources/index.ts'
import { digest, type Source, type Tool } from './tool.ts'

/** As MCP has it; `structured_content` is there where the output is an object. */
export interface ToolResult {
  readonly content: { type: 'text'; text: string }[]
  readonly structured_content?: Record<string, unknown>
  readonly is_error: boolean
}

export interface ToolCall extends CallContext {
  readonly serverId: string
  readonly tool: string
  readonly arguments: unknown
}

/** JSON-RPC: what was asked for is not there, or cannot be read. */
const INVALID_PARAMS = -32_602

/**
 * Runs a tool of a version and puts the call on record, however it ended. Who may call it is the door's to know.
 * @returns undefined where the version has no such tool
 * @throws Problem `quota_exceeded` over REST; on the wire that is a tool error, which an agent reads
 */
export async function callTool(
  scope: WorkspaceScope,
  version: Published,
  call: ToolCall,
): Promise<ToolResult | undefined> {
  const startedMs = performance.now()
  const tool = version.manifest.tools.find(({ name }) => name === call.tool)
  const { result, cause, refused, ...outcome } =
    tool === undefined ? unknownTool(call) : await runWithinQuota(scope, version, tool, call)
  if (cause !== undefined) scope.logError(cause, `tool of ${call.serverId}`)
  await recordCall(scope, {
    ...call,
    ...outcome,
    version: version.version,
    durationMs: Math.round(performance.now() - startedMs),
  })
  if (refused !== undefined && call.channel === 'rest') throw refused
  return result
}

interface CallEnd extends Outcome {
  readonly result?: ToolResult
  /** What went wrong on our side: for the log alone. */
  readonly cause?: unknown
  /** The quota that left no room for the call. */
  readonly refused?: Problem
}

async function runWithinQuota(
  scope: WorkspaceScope,
  version: Published,
  tool: Tool,
  call: ToolCall,
): Promise<CallEnd> {
  try {
    await consumeQuota(scope, 'mcp_calls_per_minute')
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== 'quota_exceeded') return toolErrorOf(error)
    const transportStatus = call.channel === 'rest' ? error.status : 200
    return { ...toolError(error.code, error.message), outcome: 'denied', transportStatus, refused: error }
  }
  return attempt(scope, version, tool, call)
}

function unknownTool({ channel }: ToolCall): CallEnd {
  const transportStatus = channel === 'rest' ? 404 : 200
  return { outcome: 'rpc_error', transportStatus, rpcCode: INVALID_PARAMS, code: 'not_found' }
}

/** Nothing of what goes wrong leaves but a Problem's own words (decisions §5): no stack, no SQL. */
async function attempt(
  scope: WorkspaceScope,
  version: Published,
  tool: Tool,
  call: ToolCall,
): Promise<CallEnd> {
  const args = call.arguments ?? {}
  const by = { kind: call.channel === 'wire' ? 'mcp_client' : 'token', requestId: call.requestId } as const
  try {
    if (exceedsDepth(args, LIMITS.mcpArgumentsDepthMax)) {
      return toolError(
        'validation_failed',
        `arguments are nested deeper than ${LIMITS.mcpArgumentsDepthMax}.`,
      )
    }
    const argumentsSha256 = digest(canonical(args))
    const faults = version.faults(tool, args)
    if (faults !== undefined) return { ...toolError('validation_failed', faults), argumentsSha256 }
    const ended = await run(scope, tool, args as Record<string, unknown>, by).catch(toolErrorOf)
    return { ...ended, argumentsSha256 }
  } catch (error) {
    return toolErrorOf(error)
  }
}

/** The same operation as the API's, with its own schema and rights; what is fixed wins over what was sent. */
async function run(
  scope: WorkspaceScope,
  tool: Tool,
  args: Record<string, unknown>,
  by: AuditCaller,
): Promise<CallEnd> {
  const source: Source | undefined = SOURCES.find(({ name }) => name === tool.binding.source)
  const operation = source?.operations.find(({ name }) => name === tool.binding.operation)
  if (source === undefined || operation === undefined) {
    throw new Problem('state_conflict', { detail: 'What this tool was made of is no longer offered.' })
  }
  await source.admit?.(scope)
  const inside = operation.domain === 'data_access' ? asWorkspaceService(scope) : scope
  if (!operation.roles.includes(inside.actor.role)) throw new Problem('forbidden')
  const given = await runAudited(operation, inside, { ...args, ...tool.binding.fixed }, by)
  const { output, failed: bad } = source.answer?.(given as never) ?? { output: given, failed: false }
  const text = JSON.stringify(output) ?? 'null'
  const bytes = Buffer.byteLength(text)
  if (bytes > LIMITS.mcpResultBytesMax) {
    return toolError('output_too_large', `The result has ${bytes} bytes; ask for less at once.`)
  }
  const structured = typeof output === 'object' && output !== null && !Array.isArray(output)
  const result: ToolResult = {
    content: [{ type: 'text', text }],
    ...(structured && { structured_content: JSON.parse(text) as Record<string, unknown> }),
    is_error: bad,
  }
  return { outcome: bad ? 'tool_error' : 'ok', transportStatus: 200, result }
}

function toolError(code: string, message: string): CallEnd {
  const result: ToolResult = { content: [{ type: 'text', text: `${code}: ${message}` }], is_error: true }
  return { outcome: 'tool_error', transportStatus: 200, code, result }
}

function toolErrorOf(error: unknown): CallEnd {
  // What is final is of the tenant's own code: its author is the one to tell.
  if (error instanceof Problem && (error.status < 500 || error.row.final))
    return toolError(error.code, error.message)
  const cause = error instanceof Problem ? (error.cause ?? error) : error
  const code = error instanceof Problem ? error.code : 'internal'
  return { ...toolError(code, 'Something is wrong on our side. Try again later.'), cause }
}

/** What the door knows of a call. */
interface CallContext {
  readonly channel: 'wire' | 'rest'
  readonly principal: string | null
  readonly requestId: string
}

/** How it ended: the HTTP status, the JSON-RPC error code, what the tool said, our code. */
interface Outcome {
  readonly outcome: 'ok' | 'tool_error' | 'rpc_error' | 'denied'
  readonly transportStatus: number
  readonly rpcCode?: number
  readonly code?: string
  /** Of the canonical arguments: they themselves are not kept. */
  readonly argumentsSha256?: string
}

export interface CallRecord extends CallContext, Outcome {
  readonly serverId: string
  readonly version?: number
  readonly tool?: string
  readonly durationMs: number
}

/** @throws Problem where the database does not take it: a call without its record is no call that went well */
export async function recordCall(scope: WorkspaceScope, call: CallRecord): Promise<void> {
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
