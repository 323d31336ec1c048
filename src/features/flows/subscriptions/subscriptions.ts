/**
 * Stores which events an execution waits for, and reads those that were published since it started. Live events come from
 * the consumer of the workspace (deliver-events.ts).
 */

import type { EventSubscription } from '../../../../flows-dsl/tasks/event-subscription.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import {
  type EventSubscriptionsInput,
  type ExecutionInput,
  isBefore,
  type PastEvents,
  type StreamEvent,
  type StreamOffsets,
} from '../../../core/execution.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { type Entry, gapBetween, type StreamGap } from '../../../infra/valkey/streams.ts'
import { eventsIn, isWorkspaceTopic, STREAMS, type StreamName } from '../../events/events.ts'
import { FLOW_LIMITS } from '../limits.ts'
import { recordGapOf } from './event-gaps.ts'
import { ANY_TOPIC, DefinitionMatcher, keyOf, nameOf, type SubscriptionKey } from './subscription.ts'

/**
 * The input of an execution with the ends of the event streams, if its flow listens: it hears what comes after them.
 * @throws Problem `dependency_unavailable`
 */
export async function withStreamOffsets(
  scope: WorkspaceScope,
  execution: ExecutionInput,
): Promise<ExecutionInput> {
  const { facts } = execution.ir as { facts?: { kinds?: readonly string[] } }
  if (execution.since !== undefined || facts?.kinds?.includes('listen') !== true) return execution
  return { ...execution, since: await eventsIn(scope).lastIds() }
}

/**
 * Replaces the subscriptions of an execution, then reads past events that match them. Idempotent. No event is missed in
 * between: one that the last read does not find was published after the subscriptions were stored, so the consumer finds them.
 * An event may come both ways.
 */
export async function subscribeEvents(
  scope: WorkspaceScope,
  workflowId: string,
  input: EventSubscriptionsInput,
): Promise<PastEvents> {
  const events = eventsIn(scope)
  const keys = (input.subscriptions as unknown as EventSubscription[]).map(keyOf)
  const wanted = [...new Map(keys.map((key) => [nameOf(key), key])).values()]
  const answers = await scope.batch(...replaceStatements(workflowId, input, wanted, await events.lastIds()))
  const stored = (answers.at(-1) ?? []) as unknown as StoredKey[]
  const offsets = new Map(stored.map((row) => [nameOf(row), row]))
  const subscribed = wanted.flatMap((key) => {
    const offset = offsets.get(nameOf(key))
    return offset === undefined ? [] : [{ ...offset, ...key }]
  })
  const reader = new PastReader(scope, subscribed, await events.lastIds())
  const past = await reader.read(input.after)
  if (reader.gaps.length > 0)
    await scope.batch(...reader.gaps.map((gap) => recordGapOf(input.execution_id, gap)))
  return past
}

/** A stored subscription, with the offsets from which it counts. */
interface StoredKey extends SubscriptionKey {
  readonly events_offset: string
  readonly changes_offset: string
}

/** @param end the ends of the streams, read before */
function replaceStatements(
  workflowId: string,
  { execution_id: id, generation, since }: EventSubscriptionsInput,
  wanted: readonly SubscriptionKey[],
  end: StreamOffsets,
): Sql[] {
  const start = since ?? end
  const rows = sql`jsonb_to_recordset(${JSON.stringify(wanted)}::jsonb)
    as w (topic text, definition text, value text, filter jsonb)`
  return [
    // Its end waits for this transaction, or this finds that it has ended.
    sql`select id from executions where id = ${id} and ended_at is null for share`,
    sql`insert into subscription_offsets (events_offset, changes_offset) values (${end.events}, ${end.changes})
      on conflict do nothing`,
    // Nothing was to be delivered meanwhile, so the consumer need not read it.
    sql`update subscription_offsets set events_offset = ${end.events}, changes_offset = ${end.changes}
      where not exists (select from event_subscriptions where active)`,
    sql`update event_subscriptions s set active = false, generation = ${generation},
        events_offset = o.events_offset, changes_offset = o.changes_offset
      from subscription_offsets o
      where s.execution_id = ${id} and s.active and s.generation < ${generation}
        and o.tenant_id = s.tenant_id and o.workspace_id = s.workspace_id
        and not exists (select from ${rows} where w.topic = s.topic and w.definition = s.definition and w.value = s.value)`,
    // One that stays active has been delivered what the consumer has read; in a repetition of this call, not yet.
    sql`insert into event_subscriptions as s
        (execution_id, workflow_id, topic, definition, value, filter, generation, events_offset, changes_offset)
      select ${id}, ${workflowId}, w.topic, w.definition, w.value, w.filter, ${generation}, ${start.events}, ${start.changes}
      from ${rows} where exists (select from executions where id = ${id} and ended_at is null)
      on conflict (tenant_id, workspace_id, execution_id, topic, definition, value) do update
        set active = true, generation = excluded.generation,
          events_offset = case when s.active and s.generation < excluded.generation
            then (select o.events_offset from subscription_offsets o) else s.events_offset end,
          changes_offset = case when s.active and s.generation < excluded.generation
            then (select o.changes_offset from subscription_offsets o) else s.changes_offset end
        where s.generation <= excluded.generation
      returning topic, definition, value, events_offset, changes_offset`,
  ]
}

/** Statements for the record of an execution whose subscriptions, up to a generation, are not needed any more. */
export function endSubscriptions(id: string, generation: number, hasEnded: boolean): Sql {
  if (hasEnded) return deleteSubscriptions(id)
  return sql`update event_subscriptions s set active = false,
      events_offset = o.events_offset, changes_offset = o.changes_offset
    from subscription_offsets o
    where s.execution_id = ${id} and s.active and s.generation <= ${generation}
      and o.tenant_id = s.tenant_id and o.workspace_id = s.workspace_id`
}

export const deleteSubscriptions = (id: string): Sql =>
  sql`delete from event_subscriptions where execution_id = ${id}`

/** Reads what was published before subscriptions were stored. */
class PastReader {
  /** Intervals in which the streams have dropped events. */
  readonly gaps: StreamGap[] = []
  readonly #scope: WorkspaceScope
  readonly #keys: ReadonlyMap<string, StoredKey>
  readonly #end: StreamOffsets
  readonly #matcher = new DefinitionMatcher()
  readonly #startedMs = performance.now()
  readonly #found: StreamEvent[] = []
  #bytes = 0

  /** @param end where the streams ended after the subscriptions were stored */
  constructor(scope: WorkspaceScope, keys: readonly StoredKey[], end: StreamOffsets) {
    this.#scope = scope
    this.#keys = new Map(keys.map((key) => [nameOf(key), key]))
    this.#end = end
  }

  /** @param after where an earlier call stopped */
  async read(after: StreamOffsets | undefined): Promise<PastEvents> {
    const reached = { ...this.#end }
    for (const stream of STREAMS) {
      const start = after?.[stream] ?? this.#startOf(stream)
      if (start !== undefined) reached[stream] = await this.#readStream(stream, start)
    }
    const events = this.#found.toSorted((a, b) => (isBefore(a.offset, b.offset) ? -1 : 1))
    const isWhole = STREAMS.every((stream) => !isBefore(reached[stream], this.#end[stream]))
    return { events, ...(!isWhole && { after: reached }) }
  }

  /** The earliest offset of the keys that a stream may match; undefined if there are none. */
  #startOf(stream: StreamName): string | undefined {
    const offsets = [...this.#keys.values()]
      .filter(({ topic }) => topic === ANY_TOPIC || isWorkspaceTopic(topic) === (stream === 'changes'))
      .map((key) => key[`${stream}_offset`])
    return offsets.reduce<string | undefined>(
      (first, offset) => (first === undefined || isBefore(offset, first) ? offset : first),
      undefined,
    )
  }

  readonly #concerns = (dropped: string): boolean =>
    [...this.#keys.values()].some(({ topic }) => topic === ANY_TOPIC || topic === dropped)

  /** @returns the id up to which it has read */
  async #readStream(stream: StreamName, start: string): Promise<string> {
    let reached = start
    while (isBefore(reached, this.#end[stream]) && !this.#isFull) {
      const following = await eventsIn(this.#scope).following(stream, reached)
      const { entries } = following
      const gap = gapBetween(reached, following, this.#concerns)
      if (gap !== undefined) this.gaps.push(gap)
      if (entries.length === 0) return this.#end[stream]
      for (const entry of entries) {
        await this.#add(stream, entry)
        reached = entry.id
        if (this.#isFull) break
      }
    }
    return reached
  }

  get #isFull(): boolean {
    const { pastEventsMax: pastMax, pastBytesMax, pastMs } = FLOW_LIMITS.subscriptions
    if (this.#found.length >= pastMax || this.#bytes >= pastBytesMax) return true
    return performance.now() - this.#startedMs > pastMs
  }

  async #add(stream: StreamName, entry: Entry): Promise<void> {
    if (entry.source !== eventsIn(this.#scope).source) return
    const matched = await this.#matcher.match(entry, [...this.#keys.values()])
    const isWanted = matched?.keys.some((key) => {
      const stored = this.#keys.get(nameOf(key))
      return stored !== undefined && isBefore(stored[`${stream}_offset`], entry.id)
    })
    if (matched === undefined || isWanted !== true) return
    this.#found.push({ offset: entry.id, event: matched.event })
    this.#bytes += entry.text.length
  }
}
