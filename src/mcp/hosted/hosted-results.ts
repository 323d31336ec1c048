/** Results of calls of a hosted server, in the form of the protocol. */

import type { McpPrincipal } from '../../access/authentication/subject-status.ts'
import type { CallClient } from '../../features/mcp-servers/calls/call-client.ts'
import type { CallResult } from '../../features/mcp-servers/calls/call-tool.ts'
import type { InputRequired, Task, ToolResult } from '../protocol/mcp-server.ts'
import { taskOf } from './hosted-tasks.ts'

export function shownResult({ content, structured_content, is_error }: CallResult): ToolResult {
  return {
    content,
    ...(structured_content && { structuredContent: structured_content }),
    isError: is_error,
  }
}

/** What a client gets: the result, the question of the tool, or a task. */
export function answerOf(result: CallResult, { takesTasks }: CallClient): ToolResult | InputRequired | Task {
  const { asked, run } = result
  if (asked !== undefined) {
    const { requests: inputRequests, state: requestState } = asked
    return { resultType: 'input_required', inputRequests, requestState }
  }
  return (takesTasks ? taskOf(run) : undefined) ?? shownResult(result)
}

/** The result of a call without the scope, for the model and for programs. */
export function missingScope(
  detail: string,
  required: readonly string[],
  { scopes }: McpPrincipal,
): ToolResult {
  const advice = 'Its user has to sign in again and allow it.'
  return {
    content: [{ type: 'text', text: `insufficient_scope: ${detail} ${advice}` }],
    // Some clients check `structuredContent` of an error against the schema of results.
    _meta: { 'tenon/insufficient_scope': { required: [...required], granted: [...scopes] } },
    isError: true,
  }
}
