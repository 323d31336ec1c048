/** Tools over functions: one calls a fixed version of each. The exports `tool`, `input` and `output` of the module describe it. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { READS, STRICTEST } from '../../../core/tool-annotations.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { FunctionConstants } from '../../functions/exported-constants.ts'
import { invokeVersion } from '../../functions/invoke.ts'
import type { InputResponses } from '../calls/call-client.ts'
import { readInputRequired } from '../calls/client-requests.ts'
import { MCP_LIMITS } from '../limits.ts'
import {
  type Arguments,
  argumentsOf,
  type Candidate,
  type JsonSchema,
  type Tool,
  type ToolProvider,
  toolName,
} from '../tool.ts'

interface FunctionRow {
  readonly id: string
  readonly name: string
  readonly version: number
  /** Null if the module does not export it, as are the schemas. */
  readonly tool: FunctionConstants['tool'] | null
  readonly input_schema: JsonSchema | null
  readonly output_schema: JsonSchema | null
}

export const functions: ToolProvider = {
  name: 'functions',
  operations: [invokeVersion],
  candidates: async (scope: WorkspaceScope) => {
    const rows = await scope.rows<FunctionRow>(sql`
      select f.id, f.name, f.active_version as version, v.tool, v.input_schema, v.output_schema
        from functions f
        join function_versions v on v.tenant_id = f.tenant_id and v.workspace_id = f.workspace_id
          and v.function_id = f.id and v.version = f.active_version
      order by f.name limit ${MCP_LIMITS.candidateThingsMax}`)
    return rows.map(candidate)
  },
  input: inputOf,
  toToolOutput: (output: unknown) => {
    const requestedInput = readInputRequired(output)
    if (requestedInput === undefined) return { output, failed: false }
    return { output: undefined, failed: false, requestedInput }
  },
  resume: (tool, { received: { responses, state }, ...call }) => ({
    operation: invokeVersion,
    input: {
      ...inputOf(tool, call),
      ...tool.binding.fixed,
      context: contextOf(call.client, responses, state),
    },
  }),
}

function inputOf({ binding }: Tool, { args, client, serverId }: Arguments) {
  const input = binding.arguments === 'input' ? args : args['input']
  return {
    server_id: serverId,
    ...(input !== undefined && { input }),
    // Responses count only in `resume`, where they are checked against the requests.
    ...(client?.capabilities !== undefined && { context: contextOf(client) }),
  }
}

/** Of a function without a schema: `input` alone. The others of the operation are the platform's. */
const ARGUMENTS = argumentsOf(invokeVersion, { id: '', version: 1, context: {}, server_id: '' })

/** The second argument of a function: the capabilities of the client, and its responses. */
const contextOf = (client: Arguments['client'], responses?: InputResponses, state?: unknown) => ({
  mcp: {
    clientCapabilities: client?.capabilities ?? {},
    ...(responses && { inputResponses: responses }),
    ...(typeof state === 'string' && { requestState: state }),
  },
})

function candidate({ id, name: called, version, ...constants }: FunctionRow): Candidate {
  const fixed = { id, version }
  const name = toolName(`call_${called}`)
  const { tool, input_schema, output_schema } = constants
  const { description, read_only } = tool ?? {}
  return {
    candidate: `functions:${called}:invoke`,
    name,
    title: `Call the function ${called}`,
    description: description ?? `Calls the function ${called} with an input and returns its result.`,
    input_schema: input_schema ?? ARGUMENTS,
    // The output of an MCP tool is an object.
    ...(output_schema?.['type'] === 'object' && { output_schema }),
    annotations: read_only ? READS : STRICTEST,
    scope: name,
    risk: read_only ? 'read' : 'write',
    binding: {
      source: 'functions',
      operation: invokeVersion.name,
      fixed,
      ...(input_schema && { arguments: 'input' }),
    },
  }
}
