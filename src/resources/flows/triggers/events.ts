/** Triggers by events: what a flow declares of them, and from where on each hears. */

import { hash } from 'node:crypto'
import { inputOf, typesIn } from '../../../../flows-dsl/event-gathering.ts'
import type { EventStrategy, FlowIR, JsonObject, Schedule } from '../../../../flows-dsl/ir.ts'
import { fieldOf } from '../../../../flows-dsl/json.ts'
import { seededIds, typeId, uuidOf } from '../../../core/ids.ts'
import type { Json } from '../../../core/work.ts'
import { isOfChanges } from '../../../platform/events/events.ts'
import { type Sql, sql } from '../../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../../platform/scope.ts'
import { hasBegun, startFlow } from '../start.ts'
import { dueOf } from './admission.ts'
import type { TriggerKind } from './trigger.ts'

/** The spec of such a row. */
export interface EventSpec {
  readonly on: EventStrategy
  readonly read: NonNullable<Schedule['read']>
  /** Which streams have events that it may take. */
  readonly streams: readonly ('events' | 'changes')[]
}

const KEY = 'on'
const HOPS = 'tenonhops'

export const events: TriggerKind = {
  kind: 'event',
  declared: ({ schedule }: FlowIR) => {
    const { on, read = 'data' } = schedule ?? {}
    if (on === undefined) return []
    const spec: EventSpec = { on, read, streams: streamsOf(on) }
    return [{ key: KEY, spec: spec as unknown as Json }]
  },
}

/** Changes of documents have topics of their own, which nobody else publishes. */
function streamsOf(on: EventStrategy): EventSpec['streams'] {
  const types = typesIn(on)
  if (types === undefined) return ['events', 'changes']
  const changes = types.filter(isOfChanges)
  return [
    ...(changes.length < types.length ? (['events'] as const) : []),
    ...(changes.length > 0 ? (['changes'] as const) : []),
  ]
}

/**
 * For the transaction that publishes a version, before its triggers and after them: a new trigger hears what comes from
 * now on, one that is there goes on where it is. What waited for others by another definition is given up.
 * @throws Problem `dependency_unavailable` without the streams, where the flow has such a trigger
 */
export async function watching(
  scope: WorkspaceScope,
  flowId: string,
  ir: FlowIR,
): Promise<{ before: Sql[]; after: Sql[] }> {
  const [wanted] = events.declared(ir)
  if (wanted === undefined) return { before: [], after: [] }
  const places = await scope.events.places()
  const trigger = sql`flow_triggers t where t.flow_id = ${flowId} and t.key = ${KEY}`
  return {
    before: [
      sql`update event_watches set gathered = '[]' where trigger_id in (
        select t.id from ${trigger} and t.spec <> ${JSON.stringify(wanted.spec)}::jsonb)`,
    ],
    after: [
      sql`insert into event_watches (trigger_id, events_after, changes_after)
        select t.id, ${places.events}, ${places.changes} from ${trigger} on conflict do nothing`,
    ],
  }
}

/** How many runs began one by the event of another before these were published. */
export const hopsOf = (events: readonly JsonObject[]): number =>
  Math.max(0, ...events.map((event) => Number(fieldOf(event, HOPS) ?? 0)))

/**
 * Begins the run of events that have come together. Idempotent: the same events are the same run, however often they
 * come.
 * @throws Problem as `startFlow` does
 */
export async function beginByEvents(
  scope: WorkspaceScope,
  triggerId: string,
  events: readonly JsonObject[],
  hops: number,
): Promise<void> {
  const due = await dueOf(scope, triggerId)
  if (due === undefined || due.paused) return
  const id = executionOf(triggerId, events)
  if (await hasBegun(scope, id)) return
  const input = inputOf(events, (due.spec as unknown as EventSpec).read)
  const trigger = { kind: 'event', id: triggerId, hops } as const
  await startFlow(scope, due.flow_id, due.version, { id, input, by: due.published_by, trigger })
}

/** The id that these events give a run of this trigger. Its time is that of the last one's id, which stays the same. */
function executionOf(triggerId: string, events: readonly JsonObject[]): string {
  const named = events.map((event) => [fieldOf(event, 'source'), fieldOf(event, 'id')])
  const digest = hash('sha256', JSON.stringify([triggerId, named]), 'buffer')
  const last = uuidOf(String(events.at(-1)?.['id'] ?? ''))
  const msecs = Number.parseInt(last.replaceAll('-', '').slice(0, 12), 16)
  return typeId('run', seededIds(msecs, () => digest.subarray(0, 16)).uuid())
}
