/** A tool over the event stream: publish. */

import { publishEvent } from '../../events.ts'
import { argumentsOf } from '../tool.ts'
import type { Source } from './source.ts'

export const events: Source = {
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
