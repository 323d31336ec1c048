/** Tools over published flows (Experimental): one starts an execution of a fixed version and waits a while. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { LIMITS } from '../../../core/limits.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { type Execution, startExecution } from '../../flows/executions/executions.ts'
import { hasFeature, requireFeature } from '../../tenants/workspace-settings.ts'
import { type Candidate, type Source, type ToolOutput, toolName } from '../tool.ts'

interface FlowRow {
  readonly id: string
  readonly name: string
  readonly latest_version: number
}

export const flows: Source = {
  name: 'flows',
  operations: [startExecution],
  candidates: async (scope) => {
    if (!(await hasFeature(scope, 'mcp.flow_tools'))) return []
    const rows = await scope.rows<FlowRow>(sql`
      select id, name, latest_version from flows where latest_version > 0 and deleted_at is null
      order by name limit ${LIMITS.mcpCandidateThingsMax}`)
    return rows.map((row) => candidate(scope, row))
  },
  admit: (scope) => requireFeature(scope, 'mcp.flow_tools'),
  answer,
}

function candidate(scope: WorkspaceScope, flow: FlowRow): Candidate {
  const version = flow.latest_version
  const name = toolName(`run_${flow.name}`)
  return {
    candidate: `flows:${flow.name}:run`,
    name,
    title: `Run the flow ${flow.name}`,
    description:
      `Starts the durable flow ${flow.name} (version ${version}) and waits up to ${LIMITS.mcpFlowWaitSeconds} s ` +
      'for its output. A flow that takes longer goes on; the answer then holds its run id and the status.',
    input_schema: {
      type: 'object',
      properties: { input: { type: 'object', description: 'Input of the flow.' } },
      required: [],
      additionalProperties: false,
    },
    output_schema: {
      type: 'object',
      properties: { run: { type: 'string' }, status: { type: 'string' } },
      required: ['run', 'status'],
    },
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
    scope: name,
    risk: 'write',
    binding: {
      source: 'flows',
      operation: startExecution.name,
      fixed: { ws: scope.ref.workspaceId, flow: flow.id, version, wait: LIMITS.mcpFlowWaitSeconds },
    },
  }
}

/** Not the whole execution: workflow ids and steps are for admins. */
function answer(execution: Execution): ToolOutput {
  const { id: run, output, error } = execution
  if (execution.ended_at === null) return { output: { run, status: 'running' }, failed: false }
  if (execution.status === 'completed') return { output: { run, status: 'completed', output }, failed: false }
  return { output: { run, status: execution.status, error }, failed: true }
}
