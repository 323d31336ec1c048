/** Calls a tool, over MCP, REST or in a flow: checks rate and quota, runs the tool, records the outcome. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { limitMcpTool } from '../../../access/scope-services.ts'
import { Problem } from '../../../core/problem.ts'
import { consumeQuota } from '../../quotas/quotas-api.ts'
import type { PublishedVersion } from '../manifest.ts'
import type { Tool } from '../tool.ts'
import { type CallEnd, type CallResult, endWith, type ToolCall, toolErrorOf } from './call-end.ts'
import { recordCall, recordSoon } from './call-log.ts'
import { INVALID_PARAMS, RpcRefusal } from './client-requests.ts'
import { problemText } from './problem-text.ts'
import { runTool } from './run-tool.ts'

/**
 * Runs a tool of a version and records the call, whatever its outcome. The caller has checked who may call it.
 * @returns undefined if the version has no such tool
 * @throws Problem `rate_limited`, `quota_exceeded` over REST; elsewhere that is a tool error, which an agent or a flow reads. In a flow also
 *   internal errors, after which the activity is repeated with the same ids
 * @throws RpcRefusal if the client does not take the requests of the tool, or has sent a state of another call
 */
export async function callTool(
  scope: WorkspaceScope,
  version: PublishedVersion,
  call: ToolCall,
): Promise<CallResult | undefined> {
  return recordedCall(scope, version, call, () => findAndRun(scope, version, call))
}

/** Runs what a call does, and records it. @throws Problem as {@link callTool} */
export async function recordedCall(
  scope: WorkspaceScope,
  version: PublishedVersion,
  call: ToolCall,
  run: () => Promise<CallEnd>,
): Promise<CallResult | undefined> {
  const startedMs = performance.now()
  const { result, cause, refused, changesNothing = false, ...outcome } = await run()
  if (cause !== undefined) scope.logError(cause, 'tool call failed')
  const durationMs = Math.round(performance.now() - startedMs)
  const published = { version: version.version, versionHash: version.hash }
  const record =
    changesNothing && outcome.outcome === 'ok' && call.channel !== 'flow' ? recordSoon : recordCall
  await record(scope, { ...call, ...outcome, ...published, durationMs })
  if (refused instanceof RpcRefusal || (refused !== undefined && call.channel === 'rest')) throw refused
  if (cause !== undefined && call.channel === 'flow') throw cause
  return result && { ...result, ...(outcome.code !== undefined && { code: outcome.code }) }
}

async function findAndRun(
  scope: WorkspaceScope,
  version: PublishedVersion,
  call: ToolCall,
): Promise<CallEnd> {
  const { tools } = version.manifest
  const tool = call.via ?? tools.find(({ name }) => name === call.tool)
  if (tool === undefined) {
    const transportStatus = call.channel === 'wire' ? 200 : 404
    return { outcome: 'rpc_error', transportStatus, rpcCode: INVALID_PARAMS, code: 'not_found' }
  }
  const reader = tools.find(({ binding }) => binding.source === 'results')?.name
  const end = await withinLimits(scope, call, tool, () =>
    runTool(scope, tool, { ...call, version: version.version, reader }),
  )
  return { ...end, changesNothing: tool.reads }
}

/** Runs a call if the rate of its tool and the quota of the workspace have room; otherwise it is denied. */
export async function withinLimits(
  scope: WorkspaceScope,
  call: ToolCall,
  tool: Partial<Pick<Tool, 'limits' | 'reads'>>,
  run: () => Promise<CallEnd>,
): Promise<CallEnd> {
  try {
    await consumeRate(scope, tool, call)
    await consumeQuota(scope, 'mcp_calls_per_minute')
  } catch (error) {
    if (!(error instanceof Problem) || !LIMIT_CODES.has(error.code)) return toolErrorOf(error, true)
    const transportStatus = call.channel === 'wire' ? 200 : error.status
    return { ...endWith(error.code, problemText(error)), outcome: 'denied', transportStatus, refused: error }
  }
  return run().catch((error: unknown) => toolErrorOf(error, tool.reads === true))
}

const LIMIT_CODES: ReadonlySet<string> = new Set(['rate_limited', 'quota_exceeded'])

/** @throws Problem `rate_limited` if the tool has a rate of its own, and too many calls */
async function consumeRate(
  scope: WorkspaceScope,
  { limits }: Pick<Tool, 'limits'>,
  call: ToolCall,
): Promise<void> {
  const callsPerMinute = limits?.calls_per_minute
  if (callsPerMinute === undefined) return
  await limitMcpTool(scope, { serverId: call.serverId, tool: call.tool, callsPerMinute })
}
