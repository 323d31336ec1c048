/** Publishes events to the tenant's stream, and subscribes to it and to the workspace's document changes. */

import { LRUCache } from 'lru-cache'
import Type from 'typebox'
import { ACCESS_LIMITS } from '../../access/limits.ts'
import { Input, Time, workspaceOperation } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../core/components/examples.ts'
import { checkJson } from '../../core/json.ts'
import { callersOf, causesOf, DATA_ROLES, isPublicRole, WRITERS_AND_USERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { currentTrace } from '../../infra/trace-context.ts'
import { countEvent } from '../analytics/meters.ts'
import { changeFilter, requireReadable } from '../collections/rules/change-events.ts'
import { mayRead } from '../objects/object-rules.ts'
import { bodyProblem } from '../operation-helpers.ts'
import { consumeQuota } from '../quotas/quotas-api.ts'
import type { EventFilter } from './event-sender.ts'
import {
  type CloudEvent,
  cloudEvent,
  eventsIn,
  isChangeTopic,
  isObjectTopic,
  isPlatformTopic,
  isWorkspaceTopic,
  matchesAny,
  TOPIC_EVENTS,
} from './events.ts'
import { EVENT_LIMITS } from './limits.ts'
import { allowedTopics, requireEvents, requireTopicRules } from './topic-rules.ts'

const WORD = '[A-Za-z0-9_-]+'
const Topic = Type.String({
  maxLength: 200,
  pattern: `^${WORD}(\\.${WORD})*$`,
  description: 'Topic: words separated by dots, such as `orders.created`.',
})
const PATTERN = `${WORD}(\\.${WORD})*(\\.\\*)?`
/** One topic, or all below one. */
export const TOPIC_PATTERN = `^${PATTERN}$`
const TOPICS_MAX = 20
const TopicPatterns = Type.String({
  maxLength: TOPICS_MAX * 201,
  pattern: `^${PATTERN}(,${PATTERN}){0,${TOPICS_MAX - 1}}$`,
  description:
    'Up to 20 topics, separated by commas: each is one topic, or `orders.*` for all topics below `orders`. `collections.<name>.created|updated|deleted` are changes of documents, `objects.created|updated|deleted` of objects, `platform.execution.completed|faulted|cancelled|held|overdue` states of executions, `platform.execution_status.changed` their starts and other changes of status, `platform.flow.missed` missed starts, `platform.bulk_change.completed|failed|cancelled` ended bulk changes, `platform.workspace.created|suspended|resumed|deleted|restored|drifted` and the same of `platform.tenant` states of the workspace and its tenant.',
})
/** Topics that only the platform publishes. */
const RESERVED = /^(platform|collections|objects)(\.|$)/

export const publishEvent = workspaceOperation({
  name: 'event.publish',
  summary: 'Publish an event to the tenant',
  roles: WRITERS_AND_USERS,
  input: Input({ topic: Topic, data: Type.Unknown() }),
  output: component('PublishedEvent', Type.Object({ id: Type.String(), topic: Type.String(), time: Time }), {
    id: EXAMPLE_ID.event,
    topic: 'courts.closed',
    time: EXAMPLE_TIME.created,
  }),
  http: { method: 'POST', path: '/v1/events/publish', body: '*', status: () => 202 },
  // A retried activity publishes again under the same id, by which subscribers detect it (at least once).
  run: async (scope, { topic, data }) => {
    if (RESERVED.test(topic))
      throw bodyProblem('/topic', `Topics below ${topic.split('.')[0]} are the platform's own.`)
    await requireTopicRules(scope, 'publish', [topic])
    checkJson('data', data ?? null, EVENT_LIMITS.eventBytesMax)
    await consumeQuota(scope, 'events_per_day')
    const [id, time] = [scope.newId('evt'), new Date().toISOString()]
    const events = eventsIn(scope)
    const { chainDepth } = scope.actor
    await events.publish(
      cloudEvent({
        id,
        source: events.source,
        topic,
        time,
        data: data ?? null,
        chainDepth,
        trace: currentTrace(),
      }),
      causesOf(scope.actor),
    )
    countEvent(scope)
    return { id, topic, time }
  },
})

export const subscribeEvents = workspaceOperation({
  name: 'event.subscribe',
  summary:
    'Subscribe to topics of the tenant and to changes of documents and objects, as server-sent events (CloudEvents 1.0)',
  roles: DATA_ROLES,
  // Events of changes contain the documents, and the names of the objects.
  conditionalScopes: [
    { scope: 'collections:read', when: ({ topic }) => topic.split(',').some(isChangeTopic) },
    { scope: 'objects:read', when: ({ topic }) => topic.split(',').some(isObjectTopic) },
  ],
  input: Input({
    topic: TopicPatterns,
    workspace: Type.Optional(
      Type.Literal('self', {
        description:
          'Restriction to events of this workspace. Changes below `collections` and `objects`, and all events that anon keys and users receive, are always restricted to it.',
      }),
    ),
    last_event_id: Type.Optional(Type.String()),
  }),
  output: Type.Unknown({ description: 'Server-sent events.' }),
  http: {
    method: 'GET',
    path: '/v1/events/subscribe',
    headers: { last_event_id: 'last-event-id' },
    reply: 'feed',
    events: TOPIC_EVENTS,
    keyInQuery: true,
  },
  run: async (scope, { topic, workspace, last_event_id: after }) => {
    const topics = topic.split(',')
    const checkAccess = async () => {
      await requireEvents(scope)
      return subscriptionFilter(scope, topics)
    }
    const filter = await checkAccess()
    const feed = await eventsIn(scope).subscribe({
      topics,
      ownWorkspace: workspace === 'self' || scope.actor.role !== 'service',
      ...(after !== undefined && { after }),
      ...(filter !== undefined && { filter }),
    })
    return { ...feed, recheck: async () => void (await checkAccess()) }
  },
})

/**
 * Selects the events that the caller may receive; undefined if it may receive all.
 * @throws Problem `forbidden` if no rule of the workspace allows a user one of the topics, or a topic is of a collection that the caller
 *   may not read
 */
async function subscriptionFilter(
  scope: WorkspaceScope,
  topics: readonly string[],
): Promise<EventFilter | undefined> {
  const { role } = scope.actor
  if (!isPublicRole(role)) return undefined
  if (topics.some(isPlatformTopic)) {
    const detail = `${callersOf(scope.actor)} cannot subscribe to events of the platform.`
    throw new Problem('forbidden', { detail })
  }
  const published = topics.filter((topic) => !isWorkspaceTopic(topic))
  await requireTopicRules(scope, 'subscribe', published)
  for (const topic of topics.filter(isChangeTopic)) await requireReadable(scope, topic)
  const acceptsChange = changeFilter(scope, role)
  const acceptsObject = objectFilter(scope)
  const acceptsEvent = role === 'user' ? topicFilter(scope, published) : () => true
  return (entry) => {
    if (isObjectTopic(entry.topic)) return acceptsObject(entry)
    return isChangeTopic(entry.topic) ? acceptsChange(entry) : acceptsEvent(entry)
  }
}

/** Events of the objects that the caller may read now. */
function objectFilter(scope: WorkspaceScope): EventFilter {
  return ({ text }) => {
    const { data } = JSON.parse(text) as CloudEvent & { readonly data: { readonly key: string } }
    return mayRead(scope, data.key)
  }
}

/** A user receives an event if the rules of now, which are cached for `feedCheckMs`, allow a topic of the subscription that it has. */
function topicFilter(scope: WorkspaceScope, topics: readonly string[]): EventFilter {
  const known = new LRUCache<'allowed', readonly string[]>({ max: 1, ttl: ACCESS_LIMITS.streamCheckMs })
  const ask = async () => {
    const allowed = await allowedTopics(scope, 'subscribe', topics)
    known.set('allowed', allowed)
    return allowed
  }
  return ({ topic }) => {
    const isAllowed = (patterns: readonly string[]) => matchesAny(patterns, topic)
    const allowed = known.get('allowed')
    return allowed === undefined ? ask().then(isAllowed) : isAllowed(allowed)
  }
}
