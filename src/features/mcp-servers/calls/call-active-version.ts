/** Calls a tool of the active version of a server, for callers in the workspace: the REST API and flows. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import { findPublished } from '../manifest.ts'
import { findServer } from '../servers.ts'
import { type CallContext, recordCall } from './call-log.ts'
import { callTool } from './call-tool.ts'
import { FOR_PROGRAMS, formFor } from './result-form.ts'
import type { CallResult, ToolCall } from './tool-result.ts'

interface WorkspaceCall extends CallContext, Pick<ToolCall, 'isRepeated'> {
  /** Id or slug. */
  readonly server: string
  readonly tool: string
  readonly arguments: unknown
}

/**
 * @param scope of an admin
 * @returns the result, without the members that only MCP clients get
 * @throws Problem `not_found` if there is no such server or tool, `state_conflict` if the server is not published; else as
 *   {@link callTool}
 */
export async function callActiveVersion(
  scope: WorkspaceScope,
  { server, ...called }: WorkspaceCall,
): Promise<Omit<CallResult, 'inputRequired' | 'execution'>> {
  const { id, state, active_version } = await findServer(scope, server)
  const call = { ...called, serverId: id }
  if (state !== 'published' || active_version === null) {
    const denied = { outcome: 'denied', transportStatus: 409, code: 'state_conflict' } as const
    await recordCall(scope, { ...call, ...denied, durationMs: 0 })
    const next = state === 'suspended' ? 'resumes it: PATCH with {"suspended": false}' : 'publishes it first'
    throw new Problem('state_conflict', { detail: `The server is ${state}: an admin ${next}.` })
  }
  const version = await findPublished(scope, id, active_version)
  // The setting of the server is for its MCP clients: REST and flows do not depend on it.
  const form = call.channel === 'flow' ? FOR_PROGRAMS : formFor('both', true)
  const result = await callTool(scope, version, { ...call, form })
  if (result === undefined) throw notFound('tool')
  const { inputRequired: _inputRequired, execution: _execution, ...answer } = result
  return answer
}
