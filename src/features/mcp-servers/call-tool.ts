/** Calls a tool, over MCP or REST: checks quota and arguments, runs the operation, records the outcome. */

import { asWorkspaceService } from '../../access/access.ts'
import { runAudited } from '../../access/audit/audited-run.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { canonical, exceedsDepth } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { consumeQuota } from '../quotas/quotas-api.ts'
import type { PublishedVersion } from './manifest.ts'
import { SOURCES } from './sources/index.ts'
import { digest, type Source, type Tool } from './tool.ts'

/** The result as in MCP; `structured_content` is present if the output is an object. */
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

/** The JSON-RPC error code of an unknown tool. */
const INVALID_PARAMS = -32_602

/**
 * Runs a tool of a version and records the call, whatever its outcome. The caller has checked who may call it.
 * @returns undefined if the version has no such tool
 * @throws Problem `quota_exceeded` over REST; over MCP that is a tool error, which an agent reads
 */
export async function callTool(
  scope: WorkspaceScope,
  version: PublishedVersion,
  call: ToolCall,
): Promise<ToolResult | undefined> {
  const startedMs = performance.now()
  const { result, cause, refused, ...outcome } = await runWithinQuota(scope, version, call)
  if (cause !== undefined) scope.logError(cause, 'tool call failed')
  const durationMs = Math.round(performance.now() - startedMs)
  await recordCall(scope, { ...call, ...outcome, version: version.version, durationMs })
  if (refused !== undefined && call.channel === 'rest') throw refused
  return result
}

interface CallEnd extends Outcome {
  readonly result?: ToolResult
  /** An internal error, for the log alone. */
  readonly cause?: unknown
  /** The exceeded quota. */
  readonly refused?: Problem
}

async function runWithinQuota(
  scope: WorkspaceScope,
  version: PublishedVersion,
  call: ToolCall,
): Promise<CallEnd> {
  const isRest = call.channel === 'rest'
  const tool = version.manifest.tools.find(({ name }) => name === call.tool)
  if (tool === undefined) {
    const transportStatus = isRest ? 404 : 200
    return { outcome: 'rpc_error', transportStatus, rpcCode: INVALID_PARAMS, code: 'not_found' }
  }
  try {
    await consumeQuota(scope, 'mcp_calls_per_minute')
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== 'quota_exceeded') return toolErrorOf(error)
    const transportStatus = isRest ? error.status : 200
    return { ...toolError(error.code, error.message), outcome: 'denied', transportStatus, refused: error }
  }
  return checkAndRun(scope, version, tool, call).catch(toolErrorOf)
}

async function checkAndRun(
  scope: WorkspaceScope,
  version: PublishedVersion,
  tool: Tool,
  call: ToolCall,
): Promise<CallEnd> {
  const args = call.arguments ?? {}
  if (exceedsDepth(args, LIMITS.mcpArgumentsDepthMax))
    return toolError('validation_failed', `arguments are nested deeper than ${LIMITS.mcpArgumentsDepthMax}.`)
  const argumentsSha256 = digest(canonical(args))
  const invalid = version.checkArguments(tool, args)
  const end =
    invalid === undefined
      ? await run(scope, tool, args as Record<string, unknown>, call).catch(toolErrorOf)
      : toolError('validation_failed', invalid)
  return { ...end, argumentsSha256 }
}

/** Runs the operation of the API, with its own schema and rights. Fixed arguments replace those of the caller. */
async function run(
  scope: WorkspaceScope,
  tool: Tool,
  args: Record<string, unknown>,
  { channel, requestId }: CallContext,
): Promise<CallEnd> {
  const source: Source | undefined = SOURCES.find(({ name }) => name === tool.binding.source)
  const operation = source?.operations.find(({ name }) => name === tool.binding.operation)
  if (source === undefined || operation === undefined) {
    throw new Problem('state_conflict', { detail: 'What this tool was made of is no longer offered.' })
  }
  await source.admit?.(scope)
  const inside = operation.domain === 'data_access' ? asWorkspaceService(scope) : scope
  if (!operation.roles.includes(inside.actor.role)) throw new Problem('forbidden')
  const by = { kind: channel === 'wire' ? 'mcp_client' : 'token', requestId } as const
  const input = source.input?.(tool, args) ?? args
  const given = await runAudited(operation, inside, { ...input, ...tool.binding.fixed }, by)
  const { output, failed: bad } = source.answer?.(given as never, tool) ?? { output: given, failed: false }
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

/** Shows the text of a problem and nothing else of an error: no stack and no SQL. */
function toolErrorOf(error: unknown): CallEnd {
  // A final server error comes from the tenant's own code, so its author may read it.
  if (error instanceof Problem && (error.status < 500 || error.row.final))
    return toolError(error.code, error.message)
  const cause = error instanceof Problem ? (error.cause ?? error) : error
  const code = error instanceof Problem ? error.code : 'internal'
  return { ...toolError(code, 'Something is wrong on our side. Try again later.'), cause }
}

/** The entry point, caller and request of a call. */
interface CallContext {
  readonly channel: 'wire' | 'rest'
  readonly principal: string | null
  readonly requestId: string
}

/** The outcome of a call: HTTP status, JSON-RPC error code, problem code. */
interface Outcome {
  readonly outcome: 'ok' | 'tool_error' | 'rpc_error' | 'denied'
  readonly transportStatus: number
  readonly rpcCode?: number
  readonly code?: string
  /** Of the canonical arguments, which are not stored. */
  readonly argumentsSha256?: string
}

export interface CallRecord extends CallContext, Outcome {
  readonly serverId: string
  readonly version?: number
  readonly tool?: string
  readonly durationMs: number
}

/** @throws Problem if the database does not store it; then the call fails, too */
export async function recordCall(scope: WorkspaceScope, call: CallRecord): Promise<void> {
  await scope.batch(sql`
    insert into mcp_calls (server_id, id, version, tool, principal, channel, transport_status, rpc_code, outcome,
      code, arguments_sha256, duration_ms, request_id)
    values (${call.serverId}, ${scope.uuid()}, ${call.version ?? null}, ${plain(call.tool)}, ${call.principal},
      ${call.channel}, ${call.transportStatus}, ${call.rpcCode ?? null}, ${call.outcome}, ${call.code ?? null},
      ${call.argumentsSha256 ?? null}, ${call.durationMs}, ${call.requestId.slice(0, 128)})`)
}

/** The name of a tool as the caller sent it: truncated, and without NUL, which no text column stores. */
const plain = (name: string | undefined) =>
  name === undefined ? null : Buffer.from(name.slice(0, 100).replaceAll('\u0000', '')).toString()
