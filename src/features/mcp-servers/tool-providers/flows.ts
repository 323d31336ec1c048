/** Tools over published flows (Experimental): one starts an execution of a fixed version and waits a while. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { isObject } from '../../../core/json.ts'
import { STRICTEST } from '../../../core/tool-annotations.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { startExecution } from '../../flows/executions/executions.ts'
import { hasFeature, requireFeature } from '../../tenants/workspace-settings.ts'
import { MCP_LIMITS } from '../limits.ts'
import { type Candidate, type JsonSchema, type ToolProvider, toolName } from '../tool.ts'
import { awaitExecution, EXECUTION_RESULT, executionOutput } from './execution-outcome.ts'
import { resumeExecution } from './executions.ts'

interface FlowRow {
  readonly id: string
  readonly name: string
  readonly latest_version: number
  readonly title: string | null
  readonly summary: string | null
  /** `input.schema` of the definition. */
  readonly input: unknown
}

export const flows: ToolProvider = {
  name: 'flows',
  operations: [startExecution],
  candidates: async (scope) => {
    if (!(await hasFeature(scope, 'mcp.flow_tools'))) return []
    const rows = await scope.rows<FlowRow>(sql`
      select f.id, f.name, f.latest_version, v.ir::jsonb #>> '{document,title}' as title,
        v.ir::jsonb #>> '{document,summary}' as summary, v.ir::jsonb #> '{input,schema}' as input
      from flows f join flow_versions v on v.tenant_id = f.tenant_id and v.workspace_id = f.workspace_id
        and v.flow_id = f.id and v.version = f.latest_version
      where f.latest_version > 0 and f.deleted_at is null order by f.name limit ${MCP_LIMITS.candidateThingsMax}`)
    return rows.map((row) => candidate(scope, row))
  },
  requireEnabled: (scope) => requireFeature(scope, 'mcp.flow_tools'),
  input: ({ binding }, { args }) => (binding.arguments === 'input' ? { input: args } : args),
  follow: (scope, options) => awaitExecution(scope, { ...options, stopsAtApprovals: true }),
  toToolOutput: executionOutput,
  resume: resumeExecution,
}

const ANY_INPUT: JsonSchema = {
  type: 'object',
  properties: { input: { type: 'object', description: 'Input of the flow.', additionalProperties: true } },
  required: [],
  additionalProperties: false,
}

function candidate(scope: WorkspaceScope, flow: FlowRow): Candidate {
  const version = flow.latest_version
  const name = toolName(`run_${flow.name}`)
  const isFlat = isObject(flow.input) && isObject(flow.input['properties'])
  const waiting =
    `Waits up to ${MCP_LIMITS.executionWaitSeconds} s for the output. If \`status\` is \`running\` or \`waiting\` then, ` +
    'ask execution_status later with the returned `execution`.'
  const summary = flow.summary ?? `Runs the flow ${flow.name}.`
  return {
    candidate: `flows:${flow.name}:run`,
    name,
    title: flow.title ?? `Run the flow ${flow.name}`,
    description: `${summary.slice(0, MCP_LIMITS.descriptionCharsMax - waiting.length - 1)} ${waiting}`,
    input_schema: isFlat ? { ...(flow.input as JsonSchema), type: 'object' } : ANY_INPUT,
    output_schema: EXECUTION_RESULT,
    annotations: STRICTEST,
    scope: name,
    risk: 'write',
    binding: {
      source: 'flows',
      operation: startExecution.name,
      fixed: { ws: scope.ref.workspaceId, flow: flow.id, version },
      wait_seconds: MCP_LIMITS.executionWaitSeconds,
      ...(isFlat && { arguments: 'input' }),
    },
  }
}
