/** Delivers events and document changes to the event triggers of all tenants: one consumer for each trigger. */

import { typesOf } from '../../../../flows-dsl/tasks/listen.ts'
import type { TenantId, WorkspaceId } from '../../../core/tenant.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { SystemScope } from '../../../infra/postgres/system-scope.ts'
import type { Entry, StreamGap } from '../../../infra/valkey/streams.ts'
import type { StreamName } from '../../events/events.ts'
import type { ConsumerKind, ConsumerState, Consumption } from '../../triggers/stream-consumer.ts'
import { acceptsType, type EventSpec } from './events.ts'

/** Handles entries of one stream. If it throws, it gets them again after a pause. */
export type EntryHandler = (trigger: TriggerState, entries: readonly Entry[]) => Promise<HandlerResult>

interface HandlerResult {
  /** The new state of the correlation, stored with the offset. */
  readonly gathered: unknown
  /** How many events had a type that the filters name, and how many of them a filter accepted. */
  readonly counts: EventCounts
  /** How long the handler kept the thread busy. */
  readonly busyMs: number
}

interface EventCounts {
  readonly seen: number
  readonly matched: number
}

/** An event trigger with its offsets in both streams. */
export interface TriggerState extends ConsumerState {
  readonly triggerId: string
  /** The version of the flow that declares its filters. */
  readonly version: number
  readonly paused: boolean
  /** The spec of its kind. */
  readonly spec: unknown
  /** The state of partial correlations, as the handler returned it. */
  readonly gathered: unknown
  /** Counted in the entries that were handled last. */
  readonly counts: EventCounts
}

export function triggerConsumers(handle: EntryHandler): ConsumerKind {
  return {
    kind: 'trigger',
    list: (system) =>
      system.rows(
        sql`select id, version || ' ' || paused as revision from flow_triggers where kind = 'event' order by id`,
      ),
    open: (id) => new TriggerConsumption(id, handle) as Consumption<ConsumerState>,
  }
}

class TriggerConsumption implements Consumption<TriggerState> {
  readonly #id: string
  readonly #handle: EntryHandler

  constructor(id: string, handle: EntryHandler) {
    this.#id = id
    this.#handle = handle
  }

  load(system: SystemScope): Promise<TriggerState | undefined> {
    return findTrigger(system, this.#id)
  }

  /** A resumed trigger gets events from then on. */
  isStale({ paused }: TriggerState): boolean {
    return paused
  }

  concerns({ spec }: TriggerState, topic: string): boolean {
    return acceptsType(typesOf({ to: (spec as EventSpec).on }), topic)
  }

  async handle(state: TriggerState, entries: readonly Entry[]) {
    const { gathered, counts, busyMs } = await this.#handle(state, entries)
    return { state: { ...state, gathered, counts }, busyMs }
  }

  async store(
    system: SystemScope,
    before: TriggerState,
    after: TriggerState,
    gap: StreamGap | undefined,
  ): Promise<boolean> {
    return (await storeProgress(system, before, after, gap)) !== undefined
  }
}

async function findTrigger(system: SystemScope, id: string): Promise<TriggerState | undefined> {
  const row = await system.row<
    Omit<TriggerState, 'ref' | 'triggerId' | 'streams' | 'counts'> & {
      tenant_id: TenantId
      workspace_id: WorkspaceId
    }
  >(sql`
    select t.tenant_id, t.workspace_id, t.version, t.paused, t.spec, w.events_offset, w.changes_offset, w.correlation_state as gathered
    from flow_triggers t join trigger_offsets w
      on w.tenant_id = t.tenant_id and w.workspace_id = t.workspace_id and w.trigger_id = t.id
    where t.id = ${id} and t.kind = 'event'`)
  if (row === undefined) return undefined
  const { tenant_id: tenantId, workspace_id: workspaceId, ...rest } = row
  const { streams } = rest.spec as { streams: readonly StreamName[] }
  return { ...rest, ref: { tenantId, workspaceId }, streams, triggerId: id, counts: { seen: 0, matched: 0 } }
}

/**
 * Stores offsets and correlation state.
 * @param gap events that were dropped unread; recorded unless the trigger is paused, since it then skips events, at the
 *   earliest from its creation
 * @returns undefined if nothing was stored, since the trigger is deleted or has a newer version. That version may have moved
 *   the offsets while this statement waited for its lock, so they are compared too
 */
function storeProgress(
  system: SystemScope,
  { ref, triggerId, version, ...before }: TriggerState,
  { events_offset, changes_offset, gathered, counts }: TriggerState,
  gap: StreamGap | undefined,
): Promise<object | undefined> {
  const missed =
    gap &&
    sql`, gap_from = case when t.paused then w.gap_from
      else greatest(${gap.from}::timestamptz, t.created_at) end,
    gap_to = case when t.paused then w.gap_to else ${gap.to}::timestamptz end`
  return system.row(sql`
    update trigger_offsets w set events_offset = ${events_offset}, changes_offset = ${changes_offset},
      correlation_state = ${JSON.stringify(gathered)}::jsonb,
      seen = w.seen + ${counts.seen}, matched = w.matched + ${counts.matched} ${missed ?? sql``}
    from flow_triggers t
    where w.tenant_id = ${ref.tenantId} and w.workspace_id = ${ref.workspaceId} and w.trigger_id = ${triggerId}
      and t.tenant_id = w.tenant_id and t.workspace_id = w.workspace_id and t.id = w.trigger_id
      and t.version = ${version}
      and w.events_offset = ${before.events_offset} and w.changes_offset = ${before.changes_offset}
    returning t.paused`)
}
