/** The tenant's event stream and the workspace's changes: publish and subscribe. */

import Type from 'typebox'
import { checkJson } from '../core/json.ts'
import { LIMITS } from '../core/limits.ts'
import { READERS, WRITERS } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import { eventsIn } from '../platform/capabilities.ts'
import { cloudEvent, isOfChanges } from '../platform/events/events.ts'
import { requireEvents } from './anon.ts'
import { admissionTo } from './changes.ts'
import { Input, inWorkspace, Time } from './kinds.ts'
import { spend } from './quotas/spend.ts'

const WORD = '[A-Za-z0-9_-]+'
const Topic = Type.String({
  maxLength: 200,
  pattern: `^${WORD}(\\.${WORD})*$`,
  description: 'Words with dots between.',
})
const TopicPattern = Type.String({
  maxLength: 200,
  pattern: `^${WORD}(\\.${WORD})*(\\.\\*)?$`,
  description:
    'A topic, or `orders.*` for all below one. `collections.<name>.created|updated|deleted` are changes of documents.',
})
/** Published by the platform alone. */
const RESERVED = /^(platform|collections)(\.|$)/

export const publishEvent = inWorkspace({
  name: 'event.publish',
  summary: 'Publish an event to the tenant',
  roles: WRITERS,
  input: Input({ topic: Topic, data: Type.Unknown() }),
  output: Type.Object({ id: Type.String(), topic: Type.String(), time: Time }),
  http: { method: 'POST', path: '/v1/events/publish', body: '*', status: () => 202 },
  // A retried activity publishes again under the same id: subscribers tell by it (at least once).
  run: async (scope, { topic, data }) => {
    if (RESERVED.test(topic)) {
      const detail = `Topics below ${topic.split('.')[0]} are the platform's own.`
      throw new Problem('validation_failed', {
        detail,
        errors: [{ in: 'body', name: 'topic', pointer: '/topic', detail }],
      })
    }
    checkJson('data', data ?? null, LIMITS.eventBytesMax)
    await spend(scope, 'events_per_day')
    const [id, time] = [scope.newId('evt'), new Date().toISOString()]
    const events = eventsIn(scope)
    const { hops } = scope.actor
    await events.publish(cloudEvent({ id, source: events.source, topic, time, data: data ?? null, hops }))
    return { id, topic, time }
  },
})

export const subscribeEvents = inWorkspace({
  name: 'event.subscribe',
  summary:
    'Subscribe to a topic of the tenant, or to changes of documents, as server-sent events (CloudEvents 1.0)',
  roles: READERS,
  // They carry the documents.
  alsoNeeds: { scope: 'collections:read', when: ({ topic }) => isOfChanges(topic) },
  input: Input({
    topic: TopicPattern,
    workspace: Type.Optional(
      Type.Literal('self', {
        description:
          'Only what this workspace publishes. Changes below `collections` always are, and so is all that anon keys hear.',
      }),
    ),
    last_event_id: Type.Optional(Type.String({ pattern: '^[0-9]{1,15}-[0-9]{1,10}$' })),
  }),
  output: Type.Unknown({ description: 'Frames: `ready`, events with `id`, `gap`, `end`.' }),
  http: {
    method: 'GET',
    path: '/v1/events/subscribe',
    headers: { last_event_id: 'last-event-id' },
    reply: 'feed',
    keyInQuery: true,
  },
  run: async (scope, { topic, workspace, last_event_id: after }) => {
    const admission = async () => {
      await requireEvents(scope)
      return admissionTo(scope, topic)
    }
    const admits = await admission()
    const feed = await eventsIn(scope).subscribe({
      topic,
      ownWorkspace: workspace === 'self' || scope.actor.role === 'anon',
      ...(after !== undefined && { after }),
      ...(admits !== undefined && { admits }),
    })
    return { ...feed, recheck: async () => void (await admission()) }
  },
})
