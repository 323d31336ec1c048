/** Streams the changes of status of all executions of a workspace, past and live, without their payloads. */

import Type, { type Static } from 'typebox'
import { Id, Input } from '../../../access/operation-builders.ts'
import { frame } from '../../../core/bytes.ts'
import { component, exampleOf } from '../../../core/components/component.ts'
import { EXAMPLE_ID } from '../../../core/components/examples.ts'
import { VIEWERS } from '../../../core/policy.ts'
import type { Entry } from '../../../infra/valkey/streams.ts'
import { CloudEvent, eventsIn, TOPIC_EVENTS } from '../../events/events.ts'
import { previewOperation } from '../../operation-helpers.ts'
import { FLOWS, Ws } from '../definitions.ts'
import { STATUS_TOPIC } from '../subscriptions/subscription.ts'

/** All events of executions that change their status. */
const TOPICS = [
  STATUS_TOPIC,
  ...['held', 'completed', 'faulted', 'cancelled'].map((verb) => `platform.execution.${verb}`),
]

const StatusChange = Type.Object({
  execution: Id('run'),
  flow: Type.Object({ id: Id('flow'), version: Type.Integer(), name: Type.String() }),
  status: Type.String({ description: 'Status since the change.' }),
  previous_status: Type.Union([Type.String(), Type.Null()], {
    description: 'Status before the change. `null`: the execution was started.',
  }),
})

const StatusEvent = component(
  'ExecutionStatusEvent',
  Type.Object({ ...CloudEvent.properties, data: StatusChange }),
  {
    ...exampleOf(CloudEvent),
    ...{ type: 'platform.execution.completed', topic: 'platform.execution.completed' },
    data: {
      execution: EXAMPLE_ID.execution,
      flow: { id: EXAMPLE_ID.flow, version: 3, name: 'confirm-booking' },
      status: 'completed',
      previous_status: 'running',
    },
  },
)

const STATUS_EVENTS = { ...TOPIC_EVENTS, message: StatusEvent }

export const subscribeToExecutions = previewOperation({
  name: 'execution.subscribe',
  roles: VIEWERS,
  summary: 'Subscribe to the changes of status of all executions, as server-sent events (CloudEvents 1.0)',
  input: Input({
    ws: Ws,
    last_event_id: Type.Optional(
      Type.String({ description: 'Position to continue after: the last `id`. Default: now.' }),
    ),
  }),
  output: Type.Unknown({ description: 'Server-sent events.' }),
  http: {
    method: 'GET',
    path: `${FLOWS}/executions/events`,
    headers: { last_event_id: 'last-event-id' },
    reply: 'feed',
    events: STATUS_EVENTS,
  },
  run: (scope, { last_event_id: after }) =>
    eventsIn(scope).subscribe({
      topics: TOPICS,
      ownWorkspace: true,
      ...(after !== undefined && { after }),
      filter: withoutPayloads,
    }),
})

/** The event as its subscribers get it: its data may have texts of the flow's author, and keys of the input. */
function withoutPayloads({ id, text }: Entry): string {
  const event = JSON.parse(text) as Static<typeof StatusEvent>
  // A start has none.
  const { execution, flow, status, previous_status = null } = event.data
  const data = { ...event, data: { execution, flow, status, previous_status } }
  return frame<typeof STATUS_EVENTS>({ event: 'message', id, data })
}
