/** The sources of tools: collections, functions, flows and events. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { LIMITS } from '../../../core/limits.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { publishEvent } from '../../events/events-api.ts'
import { invokeVersion } from '../../functions/functions.ts'
import { argumentsOf, type Candidate, type Source, toolName } from '../tool.ts'
import { collections } from './collections.ts'
import { flows } from './flows.ts'
import { runs } from './runs.ts'

interface FunctionRow {
  readonly id: string
  readonly name: string
  readonly version: number
}

const functions: Source = {
  name: 'functions',
  operations: [invokeVersion],
  candidates: async (scope) => {
    const rows = await scope.rows<FunctionRow>(
      sql`select id, name, active_version as version from functions order by name limit ${LIMITS.mcpCandidateThingsMax}`,
    )
    return rows.map(candidate)
  },
}

function candidate({ id, name: called, version }: FunctionRow): Candidate {
  const fixed = { id, version }
  const name = toolName(`call_${called}`)
  return {
    candidate: `functions:${called}:invoke`,
    name,
    title: `Call the function ${called}`,
    description: `Calls the function ${called} with an input and gives what it returns.`,
    input_schema: argumentsOf(invokeVersion, fixed),
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
    scope: name,
    risk: 'write',
    binding: { source: 'functions', operation: invokeVersion.name, fixed },
  }
}

const events: Source = {
  name: 'events',
  operations: [publishEvent],
  candidates: async () => [
    {
      candidate: 'events:stream:publish',
      name: 'event_publish',
      title: 'Publish an event',
      description: 'Publishes an event under a topic; everybody in the tenant who subscribes to it hears it.',
      input_schema: argumentsOf(publishEvent, {}),
      output_schema: {
        type: 'object',
        properties: { id: { type: 'string' }, topic: { type: 'string' }, time: { type: 'string' } },
        required: ['id', 'topic', 'time'],
      },
      annotations: {
        readOnlyHint: false,
        destructiveHint: false,
        idempotentHint: false,
        openWorldHint: false,
      },
      scope: 'event_publish',
      risk: 'write',
      binding: { source: 'events', operation: publishEvent.name, fixed: {} },
    },
  ],
}

export const SOURCES: readonly Source[] = [collections, functions, flows, runs, events]

/** All candidates of a workspace. */
export async function candidatesOf(scope: WorkspaceScope): Promise<Candidate[]> {
  return (await Promise.all(SOURCES.map((source) => source.candidates(scope)))).flat()
}
