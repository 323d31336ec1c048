/** The sources of tools: collections, functions, flows, events, and sources outside the platform. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { publishEvent } from '../../events/events-api.ts'
import { argumentsOf, type Candidate, type Source } from '../tool.ts'
import { collections } from './collections.ts'
import { flows } from './flows.ts'
import { functions } from './functions.ts'
import { remote } from './remote.ts'
import { runs } from './runs.ts'

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

export const SOURCES: readonly Source[] = [collections, functions, flows, runs, events, remote]

/**
 * The candidates of a workspace.
 * @param chosen those that are needed, by `candidate` or by name; others may be among the result. Default: all
 */
export async function candidatesOf(scope: WorkspaceScope, chosen?: readonly string[]): Promise<Candidate[]> {
  return (await Promise.all(SOURCES.map((source) => source.candidates(scope, chosen)))).flat()
}
