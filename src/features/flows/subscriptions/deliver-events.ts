/** Delivers events of the stream to the executions of a workspace that wait for them, found by an index on what they wait for. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { workflowsOf } from '../../../access/scope-services.ts'
import type { StreamEvent } from '../../../core/execution.ts'
import { Problem } from '../../../core/problem.ts'
import { sql, textArray } from '../../../infra/postgres/sql.ts'
import type { Entry, StreamGap } from '../../../infra/valkey/streams.ts'
import { eventsIn, isWorkspaceTopic } from '../../events/events.ts'
import { FLOW_LIMITS } from '../limits.ts'
import { recordGapOfSubscribers } from './event-gaps.ts'
import {
  ANY_TOPIC,
  type Definition,
  DefinitionMatcher,
  nameOf,
  type SubscriptionKey,
} from './subscription.ts'

/** An event with the keys under which executions subscribe to it. */
interface MatchedEvent extends StreamEvent {
  readonly bytes: number
  readonly keys: readonly SubscriptionKey[]
}

interface Subscriber {
  readonly execution_id: string
  readonly workflow_id: string
  /** Of the subscription. */
  readonly key: string
}

/**
 * Delivers entries of one stream in their order; executions drop those that they know, by `source` and `id`.
 * @param gap entries before these that were dropped undelivered
 * @returns for how many milliseconds it kept the thread busy
 * @throws Problem `dependency_unavailable`; the entries are to be delivered again
 */
export async function deliverEvents(
  scope: WorkspaceScope,
  entries: readonly Entry[],
  gap?: StreamGap,
): Promise<number> {
  if (gap !== undefined)
    await scope.batch(
      recordGapOfSubscribers(isWorkspaceTopic(entries[0]?.topic ?? '') ? 'changes' : 'events', gap),
    )
  // Published events of other workspaces of the tenant are in the same stream.
  const own = entries.filter(({ source }) => source === eventsIn(scope).source)
  if (own.length === 0) return 0
  const definitions = await definitionsFor(scope, [...new Set(own.map(({ topic }) => topic))])
  const matcher = new DefinitionMatcher()
  const matched: MatchedEvent[] = []
  for (const entry of definitions.length === 0 ? [] : own) {
    const found = await matcher.match(entry, definitions)
    if (found !== undefined && found.keys.length > 0)
      matched.push({ ...found, offset: entry.id, bytes: entry.text.length })
  }
  if (!(await deliverTogether(scope, matched))) for (const one of matched) await deliverPaged(scope, one)
  return matcher.busyMs
}

/** The distinct definitions of active subscriptions to these types, or any, found one by one in the index. */
function definitionsFor(scope: WorkspaceScope, topics: readonly string[]): Promise<Definition[]> {
  return scope.rows<Definition & object>(sql`
    select t.topic, d.definition, d.filter from unnest(${textArray([...topics, ANY_TOPIC])}::text[]) as t (topic)
    cross join lateral (
      with recursive distinct_definitions as (
        (select s.definition, s.filter from event_subscriptions s where s.topic = t.topic and s.active
          order by s.definition limit 1)
        union all
        select next.definition, next.filter from distinct_definitions d cross join lateral (
          select s.definition, s.filter from event_subscriptions s
          where s.topic = t.topic and s.active and s.definition > d.definition order by s.definition limit 1) next
      )
      select definition, filter from distinct_definitions) d`)
}

/**
 * Delivers several events with one lookup, and one signal per execution.
 * @returns false, without having sent anything, if too many executions wait for one of them
 */
async function deliverTogether(scope: WorkspaceScope, matched: readonly MatchedEvent[]): Promise<boolean> {
  if (matched.length === 0) return true
  const { executionsFoundMax: foundMax } = FLOW_LIMITS.subscriptions
  const found = await findSubscribers(scope, matched, '')
  const perKey = Map.groupBy(found, ({ key }) => key)
  if ([...perKey.values()].some(({ length }) => length >= foundMax)) return false
  await signalAll(scope, found, matched)
  return true
}

/** Delivers one event to any number of executions, page by page. An execution with several matching subscriptions may get it twice. */
async function deliverPaged(scope: WorkspaceScope, matched: MatchedEvent): Promise<void> {
  for (const key of matched.keys) {
    const one = { ...matched, keys: [key] }
    for (let after: string | undefined = ''; after !== undefined; ) {
      const found: Subscriber[] = await findSubscribers(scope, [one], after)
      await signalAll(scope, found, [one])
      after =
        found.length < FLOW_LIMITS.subscriptions.executionsFoundMax ? undefined : found.at(-1)?.execution_id
    }
  }
}

/** Up to `foundMax` executions per key, in the order of their ids. */
async function findSubscribers(
  scope: WorkspaceScope,
  matched: readonly MatchedEvent[],
  after: string,
): Promise<Subscriber[]> {
  const keys = new Map(matched.flatMap((one) => one.keys).map((key) => [nameOf(key), key]))
  const wanted = [...keys].map(([name, { topic, definition, value }]) => ({ name, topic, definition, value }))
  return scope.rows<Subscriber & object>(sql`
    select k.name as key, s.execution_id, s.workflow_id
    from jsonb_to_recordset(${JSON.stringify(wanted)}::jsonb) as k (name text, topic text, definition text, value text)
    cross join lateral (
      select execution_id, workflow_id from event_subscriptions s
      where s.topic = k.topic and s.definition = k.definition and s.value = k.value and s.active
        and s.execution_id > ${after}
      order by s.execution_id limit ${FLOW_LIMITS.subscriptions.executionsFoundMax}) s`)
}

async function signalAll(
  scope: WorkspaceScope,
  found: readonly Subscriber[],
  matched: readonly MatchedEvent[],
): Promise<void> {
  const perRun = [...Map.groupBy(found, ({ workflow_id }) => workflow_id)]
  const { signalsMax: signalsAtOnce } = FLOW_LIMITS.subscriptions
  for (let at = 0; at < perRun.length; at += signalsAtOnce) {
    const some = perRun.slice(at, at + signalsAtOnce)
    await Promise.all(
      some.map(([workflowId, rows]) => {
        const keys = new Set(rows.map(({ key }) => key))
        const events = matched.filter((one) => one.keys.some((key) => keys.has(nameOf(key))))
        return signalRun(scope, workflowId, events)
      }),
    )
  }
}

/** Sends the events in order, in as few signals as their size allows. Does nothing if the execution has ended. */
async function signalRun(
  scope: WorkspaceScope,
  workflowId: string,
  matched: readonly MatchedEvent[],
): Promise<void> {
  let events: StreamEvent[] = []
  let bytes = 0
  const send = async () => {
    if (events.length > 0)
      await workflowsOf(scope).signal(workflowId, { name: 'streamEvents', value: events })
    events = []
    bytes = 0
  }
  try {
    for (const one of matched) {
      if (bytes + one.bytes > FLOW_LIMITS.subscriptions.signalBytesMax) await send()
      events.push({ offset: one.offset, event: one.event })
      bytes += one.bytes
    }
    await send()
  } catch (error) {
    // Its history is full: it gets no more events, and must not hold up those of others.
    if (!(error instanceof Problem) || error.code !== 'state_conflict') throw error
    scope.logError(error, 'event not delivered to execution')
  }
}
