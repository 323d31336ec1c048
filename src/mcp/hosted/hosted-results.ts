/** Results of calls of a hosted server, in the form of the protocol. */

import type { CallClient } from '../../features/mcp-servers/calls/call-client.ts'
import type { CallResult } from '../../features/mcp-servers/calls/call-end.ts'
import type { InputRequired, Task, ToolResult } from '../protocol/mcp-server.ts'
import { taskOf } from './hosted-tasks.ts'

export function shownResult({ content, structured_content, is_error }: CallResult): ToolResult {
  return {
    content,
    ...(structured_content && { structuredContent: structured_content }),
    isError: is_error,
  }
}

/** Converts the result of a call to the response for its client: a result, an input request, or a task. */
export function responseOf(
  result: CallResult,
  { takesTasks }: CallClient,
): ToolResult | InputRequired | Task {
  const { inputRequired, run } = result
  if (inputRequired !== undefined) return { resultType: 'input_required', ...inputRequired }
  return (takesTasks ? taskOf(run) : undefined) ?? shownResult(result)
}
