/** Tools over events: one publishes to the tenant, one reads what was published and which documents changed. */

import Type, { type Static } from 'typebox'
import { Input, workspaceOperation } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import { INSERTS, READS } from '../../../core/tool-annotations.ts'
import type { CloudEvent } from '../../events/events.ts'
import { CURSOR, eventsIn } from '../../events/events.ts'
import { publishEvent, TOPIC_PATTERN } from '../../events/events-api.ts'
import { cursorOf, type EventsRequest, type ReadEvent, readEvents } from '../../events/read-events.ts'
import type { WaitOptions } from '../calls/call-client.ts'
import { MCP_LIMITS } from '../limits.ts'
import { argumentsOf, budgetOf, type Candidate, type JsonSchema, type ToolProvider } from '../tool.ts'

/** The topics and bounds of a call that waits for the next event, since there is none yet. */
const Waiting = Type.Object({
  topics: Type.Array(Type.String()),
  own_workspace: Type.Optional(Type.Boolean()),
  limit: Type.Optional(Type.Integer()),
  bytes_max: Type.Integer(),
  wait_seconds: Type.Integer(),
})

const EventPage = Type.Object({
  data: Type.Array(Type.Unknown()),
  page: Type.Object({ next: Type.String(), has_more: Type.Boolean() }),
  gap: Type.Optional(Type.Boolean()),
  waiting: Type.Optional(Waiting),
})
type EventPage = Static<typeof EventPage>

const readEventPage = workspaceOperation({
  name: 'mcp_event.read',
  summary: 'Read events of the tenant and changes of documents after a cursor',
  roles: ['service'],
  reads: true,
  input: Input({
    topics: Type.Array(Type.String({ pattern: TOPIC_PATTERN, maxLength: 200 }), {
      minItems: 1,
      maxItems: 20,
      description:
        'Topics by name, or `orders.*` for all topics below `orders`. `collections.<name>.created|updated|deleted` are changes of documents, `platform.execution.completed|faulted|cancelled` ends of executions.',
    }),
    cursor: Type.Optional(
      Type.String({
        pattern: CURSOR,
        description:
          '`page.next` of the previous result, with the same topics. Without `cursor` and `since`, only new events are read.',
      }),
    ),
    since: Type.Optional(
      Type.String({
        format: 'date-time',
        description: 'Time from which events are read, instead of `cursor`.',
      }),
    ),
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: CORE_LIMITS.pageItemsMax,
        description: 'Maximum number of events. Default: 50.',
      }),
    ),
    wait_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: MCP_LIMITS.executionWaitSeconds,
        description: 'Seconds to wait if there is no event yet. Default: 0.',
      }),
    ),
    own_workspace: Type.Optional(
      Type.Boolean({
        description: 'True if only events of this workspace are read. Default: `false`, the whole tenant.',
      }),
    ),
    bytes_max: Type.Integer(),
  }),
  output: EventPage,
  // No route: only tools run it.
  http: { method: 'POST', path: '/v1/mcp/events/read', body: '*' },
  run: async (scope, { cursor, since, wait_seconds = 0, ...request }) => {
    if (cursor !== undefined && since !== undefined)
      throw new Problem('validation_failed', { detail: 'Give either `cursor` or `since`.' })
    const after = since === undefined ? { after: cursor } : { since: Date.parse(since) }
    const found = await readPage(scope, request, { ...after, waitMs: 0 })
    const isOver = found.data.length > 0 || found.page.has_more || wait_seconds === 0
    return isOver ? found : { ...found, waiting: { ...request, wait_seconds } }
  },
})

async function readPage(
  scope: WorkspaceScope,
  { topics, limit, own_workspace, bytes_max }: Omit<Static<typeof Waiting>, 'wait_seconds'>,
  from: Pick<EventsRequest, 'after' | 'since' | 'waitMs' | 'signal'>,
): Promise<EventPage> {
  const bytesMax = Math.max(bytes_max - PAGE_BYTES, 0)
  const found = await readEvents(eventsIn(scope), {
    topics,
    ownWorkspace: own_workspace === true,
    limit: limit ?? CORE_LIMITS.pageItemsDefault,
    bytesMax,
    ...from,
  })
  const page = { next: cursorOf(found), has_more: found.hasMore }
  const data = found.events.map((event) => shownEvent(event, bytesMax))
  return { data, page, ...(found.hasGap && { gap: true }) }
}

/** Waits for the next events, until the client cancels the call or disconnects. */
async function followEvents(
  scope: WorkspaceScope,
  { output, signal }: WaitOptions & { readonly output: EventPage },
): Promise<EventPage> {
  const { waiting, ...first } = output
  if (waiting === undefined) return first
  const from = { after: first.page.next, waitMs: waiting.wait_seconds * 1_000, ...(signal && { signal }) }
  return { ...(first.gap && { gap: true }), ...(await readPage(scope, waiting, from)) }
}

/** Bytes of the budget that are left for the page's cursor. */
const PAGE_BYTES = 300

/** An event without the members that are the same for all. One that is too large for any result is shown without its data. */
function shownEvent({ text }: ReadEvent, bytesMax: number): Record<string, unknown> {
  const { id, topic, time, source, data } = JSON.parse(text) as CloudEvent
  const bytes = Buffer.byteLength(text)
  return { id, topic, time, source, ...(bytes <= bytesMax ? { data } : { omitted_bytes: bytes }) }
}

const EVENTS: JsonSchema = {
  type: 'object',
  properties: {
    data: {
      type: 'array',
      items: {
        type: 'object',
        properties: {
          id: { type: 'string' },
          topic: { type: 'string' },
          time: { type: 'string' },
          source: { type: 'string', description: 'Workspace that published the event.' },
          data: { description: 'Published data, or the changed document.' },
          omitted_bytes: {
            type: 'integer',
            description: 'Size in bytes of data that is too large to return.',
          },
        },
        required: ['id', 'topic', 'time'],
      },
    },
    page: {
      type: 'object',
      properties: {
        next: { type: 'string', description: '`cursor` of the next call.' },
        has_more: { type: 'boolean', description: 'True if there are more events, without waiting.' },
      },
      required: ['next', 'has_more'],
    },
    gap: {
      type: 'boolean',
      description: 'True if events after the cursor were dropped before they were read.',
    },
  },
  required: ['data', 'page'],
}

const PUBLISH: Candidate = {
  candidate: 'events:stream:publish',
  name: 'event_publish',
  title: 'Publish an event',
  description: 'Publishes an event under a topic; all subscribers of the topic in the tenant receive it.',
  input_schema: argumentsOf(publishEvent, {}),
  output_schema: {
    type: 'object',
    properties: { id: { type: 'string' }, topic: { type: 'string' }, time: { type: 'string' } },
    required: ['id', 'topic', 'time'],
  },
  annotations: INSERTS,
  scope: 'event_publish',
  risk: 'write',
  binding: { source: 'events', operation: publishEvent.name, fixed: {} },
}

const READ: Candidate = {
  candidate: 'events:stream:read',
  name: 'event_read',
  title: 'Read events',
  description: `Reads events of some topics, oldest first, after a cursor. If there are none, waits up to \`wait_seconds\` for the next ones. To follow a topic, call it again with \`page.next\` as \`cursor\`.`,
  input_schema: argumentsOf(readEventPage, { bytes_max: 0 }),
  output_schema: EVENTS,
  annotations: READS,
  scope: 'event_read',
  risk: 'read',
  binding: { source: 'events', operation: readEventPage.name, fixed: {} },
}

export const events: ToolProvider = {
  name: 'events',
  operations: [publishEvent, readEventPage],
  candidates: async () => [PUBLISH, READ],
  input: (tool, { args }) =>
    tool.binding.operation === readEventPage.name ? { ...args, bytes_max: budgetOf(tool) } : args,
  follow: (scope, options) => followEvents(scope, options),
  toToolOutput: (output: EventPage) => ({ output, failed: false }),
  isUntrusted: true,
}
