/** Delivers events and document changes to the event triggers of functions: one consumer for each trigger. */

import type { TenantId, WorkspaceId } from '../../../core/tenant.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { SystemScope } from '../../../infra/postgres/system-scope.ts'
import type { Entry, StreamGap } from '../../../infra/valkey/streams.ts'
import { matchesAny } from '../../events/events.ts'
import type { ConsumerKind, ConsumerState, Consumption } from '../../triggers/stream-consumer.ts'
import type { EventSpec } from './declared.ts'

/** An event trigger with its offsets. */
export interface FunctionTriggerState extends ConsumerState {
  readonly triggerId: string
  readonly functionId: string
  readonly revision: number
  readonly spec: EventSpec
}

/** Counts of entries that were handled in order. */
export interface EventResult {
  /** The number of entries that were handled, from the first. The others come again, since the function has too many runs in flight. */
  readonly count: number
  /** Of the handled ones: those of its topics, those that started a run, and those that started none. */
  readonly seen: number
  readonly started: number
  readonly dropped: number
  readonly lastRunId?: string
}

/** Handles entries of one stream. If it throws, it gets them again after a pause. */
export type FunctionEventHandler = (
  trigger: FunctionTriggerState,
  entries: readonly Entry[],
) => Promise<EventResult>

interface Progress extends FunctionTriggerState {
  /** Of the entries that were handled last. */
  readonly result: EventResult
}

export function functionTriggerConsumers(handle: FunctionEventHandler): ConsumerKind {
  return {
    kind: 'function_trigger',
    list: (system) =>
      system.rows(sql`select id, revision::text from function_triggers where kind = 'event' order by id`),
    open: (id) => consumptionOf(id, handle) as Consumption<ConsumerState>,
  }
}

const NOTHING: EventResult = { count: 0, seen: 0, started: 0, dropped: 0 }

function consumptionOf(id: string, handle: FunctionEventHandler): Consumption<Progress> {
  return {
    load: async (system) => {
      const trigger = await findTrigger(system, id)
      return trigger && { ...trigger, result: NOTHING }
    },
    concerns: ({ spec }, topic) => matchesAny(spec.topics, topic),
    handle: async (state, entries) => {
      const result = await handle(state, entries)
      return { state: { ...state, result }, busyMs: 0, count: result.count }
    },
    store: storeProgress,
  }
}

async function findTrigger(system: SystemScope, id: string): Promise<FunctionTriggerState | undefined> {
  const row = await system.row<
    Omit<FunctionTriggerState, 'ref' | 'streams' | 'triggerId' | 'functionId'> & {
      tenant_id: TenantId
      workspace_id: WorkspaceId
      function_id: string
    }
  >(sql`
    select t.tenant_id, t.workspace_id, t.function_id, t.revision, t.spec, s.events_offset, s.changes_offset
    from function_triggers t join function_trigger_states s
      on s.tenant_id = t.tenant_id and s.workspace_id = t.workspace_id and s.trigger_id = t.id
    where t.id = ${id} and t.kind = 'event'`)
  if (row === undefined) return undefined
  const { tenant_id: tenantId, workspace_id: workspaceId, function_id: functionId, ...rest } = row
  const { streams } = rest.spec
  return { ...rest, ref: { tenantId, workspaceId }, streams, triggerId: id, functionId }
}

/**
 * Stores offsets and counts.
 * @param gap events that were dropped unread
 * @returns false if nothing was stored, since the trigger is deleted or its spec has changed. That change may have moved the
 *   offsets while this statement waited for its lock, so they are compared too
 */
async function storeProgress(
  system: SystemScope,
  { ref, triggerId, revision, ...before }: Progress,
  { events_offset, changes_offset, result }: Progress,
  gap: StreamGap | undefined,
): Promise<boolean> {
  const { seen, started, dropped, lastRunId = null } = result
  const missed = gap && sql`, gap_from = ${gap.from}::timestamptz, gap_to = ${gap.to}::timestamptz`
  const stored = await system.row(sql`
    update function_trigger_states s set events_offset = ${events_offset}, changes_offset = ${changes_offset},
      seen = s.seen + ${seen}, started = s.started + ${started}, dropped = s.dropped + ${dropped},
      last_run_id = coalesce(${lastRunId}, s.last_run_id),
      last_run_at = case when ${lastRunId}::text is null then s.last_run_at else now() end ${missed ?? sql``}
    from function_triggers t
    where s.tenant_id = ${ref.tenantId} and s.workspace_id = ${ref.workspaceId} and s.trigger_id = ${triggerId}
      and t.tenant_id = s.tenant_id and t.workspace_id = s.workspace_id and t.id = s.trigger_id
      and t.revision = ${revision}
      and s.events_offset = ${before.events_offset} and s.changes_offset = ${before.changes_offset}
    returning t.id`)
  return stored !== undefined
}
