/** A call of a tool, and its end: the outcome for the log, and the result or the error that the caller gets. */

import { Problem } from '../../../core/problem.ts'
import type { VisibleTool } from '../search/search-tools.ts'
import type { ExecutionState, Tool } from '../tool.ts'
import type { CallClient } from './call-client.ts'
import type { CallContext, Outcome } from './call-log.ts'
import { MISSING_CAPABILITY, RpcRefusal, type SealedInputRequests } from './client-requests.ts'
import type { ToolResult } from './content.ts'
import { problemText } from './problem-text.ts'
import type { ResultForm } from './result-form.ts'

/** The result of a call, and what is beside it for a client that the call has as `client`. */
export interface CallResult extends ToolResult {
  /** Set if the tool requests input from its client: the call has no result yet. */
  readonly inputRequired?: SealedInputRequests
  /** The execution that the result is of. */
  readonly execution?: ExecutionState
}

export interface ToolCall extends CallContext {
  /** Of results of tools with an output schema. */
  readonly form: ResultForm
  readonly serverId: string
  readonly tool: string
  readonly arguments: unknown
  /** The client at the other end, if it may take requests. */
  readonly client?: CallClient
  /** An earlier attempt of the same call was lost, perhaps after it had its effect. */
  readonly isRepeated?: boolean
  /** The result is read as a resource, whole. */
  readonly asResource?: boolean
  /** Runs in place of the tool, under its name: reads its kept results. */
  readonly via?: Tool
  /** The tools that the client may be shown: the call is of `tool_search`, or of a `tool_call` that names no tool. */
  readonly visibleTools?: () => readonly VisibleTool[]
}

/** The end of a call: its outcome for the log, and its result. */
export interface CallEnd extends Outcome {
  readonly result?: CallResult
  /** An internal error, for the log alone. */
  readonly cause?: unknown
  /** The exceeded rate or quota, or the error of the protocol that the client gets. */
  readonly refused?: Problem | RpcRefusal
}

export const endOf = (result: ToolResult): CallEnd => ({
  outcome: result.is_error ? 'tool_error' : 'ok',
  transportStatus: 200,
  result,
})

export const toolError = (code: string, message: string): CallEnd => endWith(code, `${code}: ${message}`)

export const endWith = (code: string, text: string): CallEnd => ({
  ...endOf({ content: [{ type: 'text', text }], is_error: true }),
  code,
})

/** The client gets an error of the protocol. */
export const refusal = (refused: RpcRefusal): CallEnd => ({
  outcome: 'rpc_error',
  transportStatus: refused.code === MISSING_CAPABILITY ? 400 : 200,
  rpcCode: refused.code,
  refused,
})

/**
 * Shows the text of a problem and nothing else of an error: no stack and no SQL.
 * @param reads the call changes nothing, whatever became of it
 */
export function toolErrorOf(error: unknown, reads: boolean): CallEnd {
  if (error instanceof RpcRefusal) return refusal(error)
  if (error instanceof Problem && isShown(error))
    return { ...endWith(error.code, problemText(error)), ...(isOurs(error) && { cause: error }) }
  const cause = error instanceof Problem ? (error.cause ?? error) : error
  const code = error instanceof Problem ? error.code : 'internal'
  const next = reads ? 'Try again later.' : 'The call may have taken effect. Check this before you repeat it.'
  return { ...toolError(code, `The platform had an internal error. ${next}`), cause }
}

/** A final server error comes from the tenant's own code, so its author may read it; that of an upstream from its server. */
const isOurs = ({ status, row, code }: Problem) =>
  status >= 500 && !row.final && !code.startsWith('upstream_')
const isShown = (problem: Problem) => !isOurs(problem) || problem.members['may_have_arrived'] === true
