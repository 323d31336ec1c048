/**
 * Calls a tool of a published version, over MCP, REST or in a flow. This file is the whole way of a call, in this order:
 *
 * 1. Scope: the entry point has admitted the caller. The MCP endpoint has looked up the tool and checked its scope, since HTTP
 *    answers a missing one with a challenge (src/mcp/hosted/hosted-servers.ts); REST and flows have checked the role of an operation.
 * 2. Find: {@link find} a tool of the version, or what answers in its place.
 * 3. Limits: {@link chargeLimits} counts the call, before its arguments are read, because checking them costs CPU time.
 * 4. Input: {@link checkAndRun} checks the arguments against the schema of the version.
 * 5. Run: {@link run} takes the responses of the client, and {@link perform}s the operation of the provider, with its own schema,
 *    rights and audit entry. A tool may request input from its client in place of a result.
 * 6. Result: {@link formResult} measures, checks and masks it, keeps one above its budget, and gives it the form of the caller.
 * 7. Log: {@link record} appends the entry of the call, whatever its outcome.
 * 8. Answer: {@link answerOf} is the result, or throws what the entry point answers in another way.
 */

import { runAudited } from '../../../access/audit/audited-run.ts'
import { forNestedRun } from '../../../access/derived-scopes.ts'
import { privilege } from '../../../access/privileges.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { limitMcpTool, originOf } from '../../../access/scope-services.ts'
import { canonical, exceedsDepth } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import { consumeQuota } from '../../quotas/quotas-api.ts'
import { withPreset } from '../curation/curated-arguments.ts'
import { MCP_LIMITS } from '../limits.ts'
import type { PublishedVersion } from '../manifest.ts'
import { searchTools } from '../search/search-tools.ts'
import { type Arguments, digest, type Tool, type ToolOutput, type ToolProvider } from '../tool.ts'
import { TOOL_PROVIDERS } from '../tool-providers/index.ts'
import type { ReceivedInput, RequestedInput, WaitOptions } from './call-client.ts'
import { recordCall, recordSoon } from './call-log.ts'
import { argumentErrors, withoutNulls } from './check-values.ts'
import {
  type CallIdentity,
  INVALID_PARAMS,
  isDeclined,
  MISSING_CAPABILITY,
  missingCapabilities,
  RpcRefusal,
  readEarlyResponses,
  readResponses,
  refusalOf,
  seal,
  takesRequests,
} from './client-requests.ts'
import { problemText } from './problem-text.ts'
import {
  type CallEnd,
  type CallOfVersion,
  type CallResult,
  endWith,
  formResult,
  type MeasuredOutput,
  refusal,
  type ToolCall,
  toolError,
  toolErrorOf,
  withinBudget,
  withinTime,
} from './tool-result.ts'

const asService = privilege('mcp.calls')

/**
 * Runs a tool of a version and records the call, whatever its outcome.
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
  const startedMs = performance.now()
  const found = find(scope, version, call)
  const end =
    found === undefined
      ? noSuchTool(call)
      : ((await chargeLimits(scope, found, call)) ??
        (await found.run().catch((error: unknown) => toolErrorOf(error, found.reads))))
  if (end.cause !== undefined) scope.logError(end.cause, 'tool call failed')
  const durationMs = Math.round(performance.now() - startedMs)
  await record(scope, version, { call, end, durationMs, reads: found?.reads === true })
  return answerOf(call, end)
}

/** The tool of a call, or the search of tools. */
interface Found extends Pick<Tool, 'limits' | 'reads'> {
  readonly run: () => Promise<CallEnd>
}

function find(scope: WorkspaceScope, version: PublishedVersion, call: ToolCall): Found | undefined {
  if (call.visibleTools !== undefined) return { reads: true, run: async () => searchTools(version, call) }
  const { tools } = version.manifest
  const tool = call.via ?? tools.find(({ name }) => name === call.tool)
  if (tool === undefined) return undefined
  const reader = tools.find(({ binding }) => binding.source === 'results')?.name
  return { ...tool, run: () => checkAndRun(scope, tool, { ...call, version: version.version, reader }) }
}

const noSuchTool = ({ channel }: ToolCall): CallEnd => ({
  outcome: 'rpc_error',
  transportStatus: channel === 'wire' ? 200 : 404,
  rpcCode: INVALID_PARAMS,
  code: 'not_found',
})

/** Counts a call against the rate of its tool and the quota of the workspace. @returns the end of a call that these deny */
async function chargeLimits(
  scope: WorkspaceScope,
  { limits }: Found,
  { serverId, tool, channel }: ToolCall,
): Promise<CallEnd | undefined> {
  const callsPerMinute = limits?.calls_per_minute
  try {
    if (callsPerMinute !== undefined) await limitMcpTool(scope, { serverId, tool, callsPerMinute })
    await consumeQuota(scope, 'mcp_calls_per_minute')
    return undefined
  } catch (error) {
    if (!(error instanceof Problem) || !LIMIT_CODES.has(error.code)) return toolErrorOf(error, true)
    const transportStatus = channel === 'wire' ? 200 : error.status
    return { ...endWith(error.code, problemText(error)), outcome: 'denied', transportStatus, refused: error }
  }
}

const LIMIT_CODES: ReadonlySet<string> = new Set(['rate_limited', 'quota_exceeded'])

async function checkAndRun(scope: WorkspaceScope, tool: Tool, call: CallOfVersion): Promise<CallEnd> {
  const received = call.arguments ?? {}
  if (exceedsDepth(received, MCP_LIMITS.argumentsDepthMax))
    return toolError('validation_failed', `arguments are nested deeper than ${MCP_LIMITS.argumentsDepthMax}.`)
  const argumentsSha256 = digest(canonical(received))
  // A flow is a program: without the null of a condition it would find what it does not look for.
  const args = call.channel === 'flow' ? received : withoutNulls(tool.input_schema, received)
  const { serverId, version, principal } = call
  const identity = { serverId, version, tool: tool.name, principal, argumentsSha256 }
  try {
    const invalid = argumentErrors(tool, args)
    const end =
      invalid === undefined
        ? await run(scope, tool, args as Record<string, unknown>, { ...call, identity })
        : toolError('validation_failed', invalid)
    return { ...end, argumentsSha256 }
  } catch (error) {
    return { ...toolErrorOf(error, tool.reads), argumentsSha256 }
  }
}

interface CheckedCall extends CallOfVersion {
  readonly identity: CallIdentity
}

/** Runs the tool, and requests input from its client if the tool needs more. */
async function run(
  scope: WorkspaceScope,
  tool: Tool,
  args: Readonly<Record<string, unknown>>,
  call: CheckedCall,
): Promise<CallEnd> {
  const provider = TOOL_PROVIDERS.find(({ name }) => name === tool.binding.source)
  if (provider === undefined) throw sourceIsGone()
  await provider.requireEnabled?.(scope)
  // Operations of the platform have one effect for all attempts, since these have the same ids. Other servers do not know the ids.
  if (call.isRepeated && provider.name === 'remote' && !tool.reads) return outcomeUnknown()
  const { client, identity, serverId } = call
  const read = client && readResponses(scope, identity, client)
  if (read !== undefined && 'missing' in read) return requestInput(scope, call, read.missing)
  const completed = { args: withPreset(args, tool.preset), client, serverId }
  const performWith = (input: ReceivedInput | undefined) =>
    perform(scope, { provider, tool, call, step: stepOf(provider, tool, completed, input) })
  const first = await performWith(read?.received)
  const early = read === undefined ? readEarlyResponses(first.requestedInput, client) : undefined
  const measured = early === undefined ? first : await performWith(early)
  const { requestedInput, execution } = measured
  if (requestedInput !== undefined && isInputNeeded(scope, call, requestedInput, read?.received))
    return requestInput(scope, call, requestedInput)
  const end = await formResult(scope, { tool, measured, call, isUntrusted: provider.isUntrusted === true })
  return execution === undefined || end.result === undefined
    ? end
    : { ...end, result: { ...end.result, execution } }
}

interface Step {
  readonly provider: ToolProvider
  readonly tool: Tool
  readonly call: CheckedCall
  readonly step: ReturnType<typeof stepOf>
}

/** The operation of a call and its input. Fixed arguments come last. @throws Problem if the provider has no such operation any more */
function stepOf(
  provider: ToolProvider,
  tool: Tool,
  completed: Arguments,
  received: ReceivedInput | undefined,
) {
  if (received !== undefined && provider.resume !== undefined)
    return provider.resume(tool, { ...completed, received })
  const operation = provider.operations.find(({ name }) => name === tool.binding.operation)
  if (operation === undefined) throw sourceIsGone()
  const input = provider.input?.(tool, completed) ?? completed.args
  return { operation, input: { ...input, ...tool.binding.fixed } }
}

/** The kind of actor in the audit log, by entry point. */
const ACTORS = { wire: 'mcp_client', rest: 'token', flow: 'run' } as const

/** Runs the operation of the API, with its own schema and rights, and follows what it has started. */
async function perform(scope: WorkspaceScope, { provider, tool, call, step }: Step): Promise<MeasuredOutput> {
  const { operation: plain, input } = step
  const onProgress = call.client?.onProgress
  const operation = (onProgress && provider.reporting?.(plain, onProgress)) ?? plain
  const inside = operation.domain === 'data_access' ? asService(scope) : forNestedRun(scope)
  if (!operation.roles.includes(inside.actor.role)) throw new Problem('forbidden')
  const by = { kind: ACTORS[call.channel], requestId: call.requestId } as const
  const { asResource = false } = call
  const runWith = async (input: Readonly<Record<string, unknown>>): Promise<ToolOutput> => {
    const begun = await runAudited(operation, inside, input, by)
    const output = await provider.follow?.(inside, { ...waitingOf(tool, call), output: begun as never })
    return (
      provider.toToolOutput?.((output ?? begun) as never, { asResource }) ?? { output: begun, failed: false }
    )
  }
  return withinTime(tool, withinBudget(tool, provider.toSmallerInput, input, runWith))
}

/** A client that takes tasks gets one instead of a long wait. */
function waitingOf({ binding, limits }: Tool, { client }: ToolCall): WaitOptions {
  const seconds = binding.wait_seconds === undefined ? 0 : (limits?.wait_seconds ?? binding.wait_seconds)
  const { signal, onProgress, takesTasks = false } = client ?? {}
  return {
    seconds: takesTasks ? Math.min(seconds, MCP_LIMITS.taskWaitSeconds) : seconds,
    ...(signal && { signal }),
    ...(onProgress && { onProgress }),
  }
}

/**
 * True if there is no result without the input. Optional input is left out if the client does not take the requests, or if its
 * user has just declined them.
 */
function isInputNeeded(
  scope: WorkspaceScope,
  { client }: CheckedCall,
  requested: RequestedInput,
  received?: ReceivedInput,
): boolean {
  if (!requested.isOptional) return true
  const isOver = received !== undefined && isDeclined(received)
  return !isOver && takesRequests(requested, client) && refusalOf(requested, originOf(scope)) === undefined
}

/** Ends the call with the requests of the tool, if its client takes them. */
function requestInput(
  scope: WorkspaceScope,
  { client, identity }: CheckedCall,
  requested: RequestedInput,
): CallEnd {
  if (client?.capabilities === undefined) {
    const needed = Object.keys(missingCapabilities(requested.requests, {})).join(', ')
    const detail = `The tool asks its client for input: call it over MCP, with a client that declares ${needed}.`
    return toolError('client_input_needed', detail)
  }
  const missing = missingCapabilities(requested.requests, client.capabilities)
  if (Object.keys(missing).length > 0) {
    const message = `The tool asks its client for input, which needs: ${Object.keys(missing).join(', ')}.`
    return refusal(new RpcRefusal(MISSING_CAPABILITY, message, { requiredCapabilities: missing }))
  }
  const refused = refusalOf(requested, originOf(scope))
  if (refused !== undefined) return toolError('client_input_refused', refused)
  return {
    outcome: 'ok',
    transportStatus: 200,
    result: { content: [], is_error: false, inputRequired: seal(scope, identity, requested) },
  }
}

const outcomeUnknown = () =>
  toolError('outcome_unknown', 'The worker was lost before the answer arrived. The request may have arrived.')

const sourceIsGone = () =>
  new Problem('state_conflict', {
    detail: 'The source of the tool is no longer available. Publish the server again.',
  })

interface Ended {
  readonly call: ToolCall
  readonly end: CallEnd
  readonly durationMs: number
  /** The tool changes nothing. */
  readonly reads: boolean
}

/**
 * Records a call, before its answer unless it has changed nothing (decision 46).
 * @throws Problem if the database does not store it now; then the call fails, too
 */
async function record(
  scope: WorkspaceScope,
  { version, hash: versionHash }: PublishedVersion,
  { call, end, durationMs, reads }: Ended,
): Promise<void> {
  const { result: _result, cause: _cause, refused: _refused, ...outcome } = end
  const isLater = reads && end.outcome === 'ok' && call.channel !== 'flow'
  const append = isLater ? recordSoon : recordCall
  await append(scope, { ...call, ...outcome, version, versionHash, durationMs })
}

/** @throws RpcRefusal; Problem over REST, and of an internal error in a flow, as {@link callTool} says */
function answerOf({ channel }: ToolCall, { result, code, cause, refused }: CallEnd): CallResult | undefined {
  if (refused instanceof RpcRefusal || (refused !== undefined && channel === 'rest')) throw refused
  if (cause !== undefined && channel === 'flow') throw cause
  return result && { ...result, ...(code !== undefined && { code }) }
}
