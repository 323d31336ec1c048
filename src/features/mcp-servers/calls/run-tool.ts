/** Runs a tool: checks the arguments, runs the operation of its provider, requests input from the client, makes the result. */

import { runAudited } from '../../../access/audit/audited-run.ts'
import { forNestedRun } from '../../../access/derived-scopes.ts'
import { privilege } from '../../../access/privileges.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { originOf } from '../../../access/scope-services.ts'
import { canonical, exceedsDepth } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import { withPreset } from '../curation/curated-arguments.ts'
import { MCP_LIMITS } from '../limits.ts'
import { type Arguments, digest, type Tool, type ToolOutput, type ToolProvider } from '../tool.ts'
import { TOOL_PROVIDERS } from '../tool-providers/index.ts'
import { withoutNulls } from './absent-arguments.ts'
import type { ReceivedInput, RequestedInput, WaitOptions } from './call-client.ts'
import { type CallEnd, refusal, type ToolCall, toolError, toolErrorOf } from './call-end.ts'
import { argumentErrors } from './check-values.ts'
import {
  type CallIdentity,
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
import {
  type CallOfVersion,
  formResult,
  type MeasuredOutput,
  withinBudget,
  withinTime,
} from './tool-result.ts'

const asService = privilege('mcp.calls')

/** Checks the arguments of a call, and runs the tool. */
export async function runTool(scope: WorkspaceScope, tool: Tool, call: CallOfVersion): Promise<CallEnd> {
  const given = call.arguments ?? {}
  if (exceedsDepth(given, MCP_LIMITS.argumentsDepthMax))
    return toolError('validation_failed', `arguments are nested deeper than ${MCP_LIMITS.argumentsDepthMax}.`)
  const argumentsSha256 = digest(canonical(given))
  // A flow is a program: without the null of a condition it would find what it does not look for.
  const args = call.channel === 'flow' ? given : withoutNulls(tool.input_schema, given)
  const invalid = argumentErrors(tool, args)
  const { serverId, version, principal } = call
  const identity = { serverId, version, tool: tool.name, principal, argumentsSha256 }
  const end =
    invalid === undefined
      ? await run(scope, tool, args as Record<string, unknown>, { ...call, identity }).catch(
          (error: unknown) => toolErrorOf(error, tool.reads),
        )
      : toolError('validation_failed', invalid)
  return { ...end, argumentsSha256 }
}

interface CheckedCall extends CallOfVersion {
  readonly identity: CallIdentity
}

/** The kind of actor in the audit log, by entry point. */
const ACTORS = { wire: 'mcp_client', rest: 'token', flow: 'run' } as const

/** Runs the tool, and requests input from its client if the tool needs more. */
async function run(
  scope: WorkspaceScope,
  tool: Tool,
  args: Readonly<Record<string, unknown>>,
  call: CheckedCall,
): Promise<CallEnd> {
  const provider = TOOL_PROVIDERS.find(({ name }) => name === tool.binding.source)
  if (provider === undefined) throw gone()
  await provider.requireEnabled?.(scope)
  // Operations of the platform have one effect for all attempts, since these have the same ids. Other servers do not know the ids.
  if (call.isRepeated && provider.name === 'remote' && !tool.reads) return outcomeUnknown()
  const { client, identity, serverId } = call
  const read = client && readResponses(scope, identity, client)
  if (read !== undefined && 'missing' in read) return requestInput(scope, call, read.missing)
  const given = { args: withPreset(args, tool.preset), client, serverId }
  const perform = (received: ReceivedInput | undefined) =>
    performStep(scope, { provider, tool, call, step: stepOf(provider, tool, given, received) })
  const first = await perform(read?.received)
  const early = read === undefined ? readEarlyResponses(first.requestedInput, client) : undefined
  const measured = early === undefined ? first : await perform(early)
  const { requestedInput, run: execution } = measured
  if (requestedInput !== undefined && isInputNeeded(scope, call, requestedInput, read?.received))
    return requestInput(scope, call, requestedInput)
  const end = await formResult(scope, { tool, measured, call, isUntrusted: provider.isUntrusted === true })
  return execution === undefined || end.result === undefined
    ? end
    : { ...end, result: { ...end.result, run: execution } }
}

interface Step {
  readonly provider: ToolProvider
  readonly tool: Tool
  readonly call: CheckedCall
  readonly step: ReturnType<typeof stepOf>
}

/** Runs the operation of the API, with its own schema and rights, and follows what it has started. */
async function performStep(
  scope: WorkspaceScope,
  { provider, tool, call, step }: Step,
): Promise<MeasuredOutput> {
  const { operation: plain, input } = step
  const onProgress = call.client?.onProgress
  const operation = (onProgress && provider.reporting?.(plain, onProgress)) ?? plain
  const inside = operation.domain === 'data_access' ? asService(scope) : forNestedRun(scope)
  if (!operation.roles.includes(inside.actor.role)) throw new Problem('forbidden')
  const by = { kind: ACTORS[call.channel], requestId: call.requestId } as const
  const { asResource = false } = call
  const runWith = async (given: Readonly<Record<string, unknown>>): Promise<ToolOutput> => {
    const begun = await runAudited(operation, inside, given, by)
    const output = await provider.follow?.(inside, { ...waitingOf(tool, call), output: begun as never })
    return (
      provider.toToolOutput?.((output ?? begun) as never, { asResource }) ?? { output: begun, failed: false }
    )
  }
  return withinTime(tool, withinBudget(tool, provider.toSmallerInput, input, runWith))
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

const outcomeUnknown = () =>
  toolError('outcome_unknown', 'The worker was lost before the answer arrived. The request may have arrived.')

const gone = () =>
  new Problem('state_conflict', {
    detail: 'The source of the tool is no longer available. Publish the server again.',
  })

/** The operation of a call and its input. Fixed arguments come last. @throws Problem if the provider has no such operation any more */
function stepOf(provider: ToolProvider, tool: Tool, given: Arguments, received: ReceivedInput | undefined) {
  if (received !== undefined && provider.resume !== undefined)
    return provider.resume(tool, { ...given, received })
  const operation = provider.operations.find(({ name }) => name === tool.binding.operation)
  if (operation === undefined) throw gone()
  const input = provider.input?.(tool, given) ?? given.args
  return { operation, input: { ...input, ...tool.binding.fixed } }
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
