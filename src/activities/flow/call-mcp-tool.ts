/** Calls a tool of an MCP server of the workspace for an execution, by the same steps as calls over MCP and REST. */

import type { ApplicationFailure } from '@temporalio/common'
import { clip } from '../../../flows-dsl/json.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { holdsHandle } from '../../core/secret-handle.ts'
import { callActiveVersion } from '../../features/mcp-servers/calls/call-active-version.ts'
import type { CallResult } from '../../features/mcp-servers/calls/tool-result.ts'
import { currentTrace } from '../../infra/trace-context.ts'
import { callFailure } from '../call-failure.ts'
import type { FunctionCall } from '../contract.ts'

/** The result as in MCP: what the standard calls the output of such a call. */
interface McpOutput {
  readonly content: CallResult['content']
  readonly structuredContent?: Readonly<Record<string, unknown>>
  readonly isError: false
}

/**
 * @param scope of an admin, with the execution as its actor
 * @param given `{server, tool, arguments}`
 * @param attempt 1 for the first
 * @throws ApplicationFailure (runtime) if the tool reports an error, with its code; (configuration) if an argument has a secret
 * @throws Problem as {@link callActiveVersion} does
 */
export async function callMcpTool(
  scope: WorkspaceScope,
  { arguments: given }: FunctionCall,
  attempt: number,
): Promise<McpOutput> {
  if (holdsHandle(given)) throw callFailure('configuration', 'A secret cannot be given to an MCP tool.')
  const { server, tool, arguments: args = {} } = given
  const { subject } = scope.actor
  const result = await callActiveVersion(scope, {
    channel: 'flow',
    principal: subject,
    requestId: currentTrace()?.requestId ?? '',
    server: String(server),
    tool: String(tool),
    arguments: args,
    isRepeated: attempt > 1,
  })
  if (result.is_error) throw toolFailure(String(tool), result)
  const { content, structured_content: structuredContent } = result
  return { content, ...(structuredContent && { structuredContent }), isError: false }
}

/** Of an error of the flow language, which would be cut later, after it was in the history. */
const DETAIL_BYTES_MAX = 4_096

function toolFailure(tool: string, { content, structured_content, code }: CallResult): ApplicationFailure {
  const [first] = content
  const text = first?.type === 'text' ? first.text : 'The tool reports an error.'
  const detail = structured_content === undefined ? text : JSON.stringify(structured_content)
  return callFailure('runtime', clip(`${tool}: ${detail}`, DETAIL_BYTES_MAX), { code: code ?? 'tool_error' })
}
