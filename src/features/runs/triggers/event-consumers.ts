/** Delivers events and document changes to event triggers: one consumer for each trigger, which starts runs in order. */

import { setImmediate } from 'node:timers/promises'
import { correlateEvent, type PartialCorrelation } from '../../../../flows-dsl/event-correlation.ts'
import type { EventStrategy, JsonObject } from '../../../../flows-dsl/ir.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { Suspended } from '../../../access/tenant-states.ts'
import type { TargetRef } from '../../../core/execution.ts'
import type { ActorIn } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import type { TenantId, WorkspaceId, WorkspaceRef } from '../../../core/tenant.ts'
import { TRACEPARENT } from '../../../core/trace.ts'
import { INFRA_LIMITS } from '../../../infra/limits.ts'
import type { Log } from '../../../infra/log.ts'
import { sql, textArray } from '../../../infra/postgres/sql.ts'
import type { SystemScope } from '../../../infra/postgres/system-scope.ts'
import { inTrace, triggeredTrace } from '../../../infra/trace-context.ts'
import type { Entry, StreamGap } from '../../../infra/valkey/streams.ts'
import { SHARED_LIMITS } from '../../limits.ts'
import { acceptsTopic, chainDepth, withCauses } from './events.ts'
import type { ConsumerKind, ConsumerState, Consumption } from './stream-consumer.ts'
import type { EventSpec } from './trigger.ts'
import { type TriggerStarter, triggerActor } from './trigger-starter.ts'

export interface EventTriggerServices {
  readonly starter: TriggerStarter
  /** Opens the scope of an actor in a workspace. @throws Suspended */
  readonly openScope: (ref: WorkspaceRef, actor: ActorIn<'workspace_admin'>) => Promise<WorkspaceScope>
  readonly log: Log
}

/** An event trigger with its offsets in the streams. */
interface TriggerState extends ConsumerState {
  readonly triggerId: string
  readonly target: TargetRef
  readonly revision: number
  readonly paused: boolean
  readonly spec: EventSpec
  /** Events that wait for others. */
  readonly correlations: readonly PartialCorrelation[]
  /** Counted in the entries that were handled last. */
  readonly counts: EventCounts
}

interface EventCounts {
  /** Entries of its topics; those that a filter accepted; those that started a run, and those that should have. */
  readonly seen: number
  readonly matched: number
  readonly started: number
  readonly dropped: number
  readonly lastRunId?: string
}

const NOTHING: EventCounts = { seen: 0, matched: 0, started: 0, dropped: 0 }

/** Of triggers whose target the starter knows. */
export function eventTriggerConsumers(services: EventTriggerServices): ConsumerKind {
  const kinds = textArray(services.starter.targets.map(({ kind }) => kind))
  return {
    kind: 'trigger',
    list: (system) =>
      system.rows(sql`select id, revision || ' ' || paused as revision from triggers
        where kind = 'event' and target_kind = any(${kinds}::text[]) order by id`),
    open: (id) => consumptionOf(id, services) as Consumption<ConsumerState>,
  }
}

function consumptionOf(id: string, services: EventTriggerServices): Consumption<TriggerState> {
  return {
    load: (system) => findTrigger(system, id),
    // A resumed trigger gets events from then on.
    isStale: ({ paused }) => paused,
    concerns: ({ spec }, topic) => acceptsTopic(spec, topic),
    handle: async (state, entries) => {
      if (state.paused) return { state: { ...state, counts: NOTHING }, busyMs: 0 }
      const firing = new EventHandler(services, state)
      try {
        for (const entry of entries) if (!(await firing.handle(entry))) break
      } catch (error) {
        // The entries that were handled are stored first; the next call throws at once.
        if (firing.count === 0) throw error
      }
      return { state: firing.state, busyMs: firing.busyMs, count: firing.count }
    },
    store: storeProgress,
  }
}

const EVERY_EVENT: EventStrategy = { mode: 'any', filters: [] }

/** Handles entries for one trigger, in order. What it has done up to an error, or a start that must wait, is kept. */
class EventHandler {
  readonly #services: EventTriggerServices
  readonly #log: object
  /** With the offsets of before. */
  state: TriggerState
  /** Handled entries. */
  count = 0
  /** How long matching has kept the thread busy. */
  busyMs = 0
  #busyMsAtYield = 0

  constructor(services: EventTriggerServices, state: TriggerState) {
    this.#services = services
    this.state = { ...state, counts: NOTHING }
    this.#log = { trigger: state.triggerId, [state.target.kind]: state.target.id }
  }

  /**
   * @returns false if the entry must wait, since its target has enough runs in flight
   * @throws errors that a later attempt may not meet: an unavailable server, an exhausted quota
   */
  async handle(entry: Entry): Promise<boolean> {
    const { spec } = this.state
    // Most events have another type, which is known without parsing them.
    if (acceptsTopic(spec, entry.topic)) {
      const match = this.#match(entry)
      const outcome = match?.complete === undefined ? undefined : await this.#start(match.complete, entry)
      if (outcome === 'full') return false
      this.#add(match, outcome)
    }
    this.count += 1
    await this.#yieldThread()
    return true
  }

  /** @returns undefined for an event that cannot be matched, also by another attempt */
  #match(entry: Entry): Match | undefined {
    const { spec, correlations } = this.state
    const startedMs = performance.now()
    try {
      const event = JSON.parse(entry.text) as JsonObject
      // The copy that waits for others has the subjects behind it, which filters may not see.
      const kept = withCauses(event, entry)
      const { on = EVERY_EVENT } = spec
      const { complete, open } = correlateEvent(on, correlations, event, Date.now(), kept)
      return { complete, open, isMatched: complete !== undefined || open !== correlations }
    } catch (error) {
      this.#services.log.warn({ err: error, ...this.#log, entry: entry.id }, 'event trigger matching failed')
      return undefined
    } finally {
      this.busyMs += performance.now() - startedMs
    }
  }

  /** @returns the run; `dropped` if the same events would never start one */
  async #start(events: readonly JsonObject[], entry: Entry): Promise<Outcome> {
    const { log, starter, openScope } = this.#services
    const { ref, triggerId, target, revision } = this.state
    const about = { ...this.#log, entry: entry.id }
    const depth = chainDepth(events)
    if (depth >= SHARED_LIMITS.chainDepthMax) {
      log.warn({ ...about, chainDepth: depth + 1 }, 'event trigger exceeded chain depth')
      return 'dropped'
    }
    try {
      const scope = await openScope(ref, triggerActor(triggerId))
      // The started run or execution has a request id of its own, in the trace of the last event.
      const started = await inTrace(triggeredTrace(events.at(-1)?.[TRACEPARENT]), () =>
        starter.startByEvents(scope, { triggerId, target, revision, events, chainDepth: depth }),
      )
      if (started === 'full') return started
      // Of a changed trigger nothing is stored, and its next revision gets the events.
      return 'run' in started ? started : 'dropped'
    } catch (error) {
      // Events during a suspension are dropped, so that they do not all start runs when the workspace is resumed.
      if (error instanceof Suspended) return 'dropped'
      if (isTransient(error)) throw error
      log.warn({ err: error, ...about }, 'event trigger start refused')
      return 'dropped'
    }
  }

  #add(match: Match | undefined, outcome: Exclude<Outcome, 'full'> | undefined): void {
    const { counts, correlations } = this.state
    const run = typeof outcome === 'object' ? outcome.run : undefined
    const isDropped = match === undefined || outcome === 'dropped'
    this.state = {
      ...this.state,
      correlations: match?.open ?? correlations,
      counts: {
        ...counts,
        seen: counts.seen + 1,
        matched: counts.matched + Number(match?.isMatched ?? false),
        started: counts.started + Number(run !== undefined),
        dropped: counts.dropped + Number(isDropped),
        ...(run !== undefined && { lastRunId: run }),
      },
    }
  }

  /** Lets other work run once this trigger has kept the thread busy for `yieldEveryMs`. */
  async #yieldThread(): Promise<void> {
    if (this.busyMs - this.#busyMsAtYield < INFRA_LIMITS.yieldEveryMs) return
    this.#busyMsAtYield = this.busyMs
    await setImmediate()
  }
}

/** An event that was matched with the filters. */
interface Match {
  /** The events that start a run, if it completes them. */
  readonly complete: readonly JsonObject[] | undefined
  readonly open: readonly PartialCorrelation[]
  /** True if a filter has accepted it. */
  readonly isMatched: boolean
}

type Outcome = { readonly run: string } | 'dropped' | 'full'

/** False for an error that the same events meet again. */
const isTransient = (error: unknown): boolean =>
  !(error instanceof Problem) || error.status >= 500 || error.status === 429

async function findTrigger(system: SystemScope, id: string): Promise<TriggerState | undefined> {
  const row = await system.row<
    Omit<TriggerState, 'ref' | 'triggerId' | 'target' | 'streams' | 'counts'> & {
      readonly tenant_id: TenantId
      readonly workspace_id: WorkspaceId
      readonly target_kind: string
      readonly target_id: string
    }
  >(sql`
    select t.tenant_id, t.workspace_id, t.target_kind, t.target_id, t.revision, t.paused, t.spec,
      s.events_offset, s.changes_offset, s.correlation_state as correlations
    from triggers t join trigger_states s
      on s.tenant_id = t.tenant_id and s.workspace_id = t.workspace_id and s.trigger_id = t.id
    where t.id = ${id} and t.kind = 'event'`)
  if (row === undefined) return undefined
  const { tenant_id: tenantId, workspace_id: workspaceId, target_kind, target_id, ...rest } = row
  return {
    ...rest,
    ref: { tenantId, workspaceId },
    triggerId: id,
    target: { kind: target_kind, id: target_id },
    streams: rest.spec.streams,
    counts: NOTHING,
  }
}

/**
 * Stores offsets, correlations and counts.
 * @param gap events that were dropped unread; recorded unless the trigger is paused, since it then skips events, at the
 *   earliest from its creation
 * @returns false if nothing was stored, since the trigger is gone or has another revision. That change may have moved the
 *   offsets while this statement waited for its lock, so they are compared too
 */
async function storeProgress(
  system: SystemScope,
  { ref, triggerId, revision, ...before }: TriggerState,
  { events_offset, changes_offset, correlations, counts }: TriggerState,
  gap: StreamGap | undefined,
): Promise<boolean> {
  const { seen, matched, started, dropped, lastRunId = null } = counts
  const missed =
    gap &&
    sql`, gap_from = case when t.paused then s.gap_from
      else greatest(${gap.from}::timestamptz, t.created_at) end,
    gap_to = case when t.paused then s.gap_to else ${gap.to}::timestamptz end`
  const stored = await system.row(sql`
    update trigger_states s set events_offset = ${events_offset}, changes_offset = ${changes_offset},
      correlation_state = ${JSON.stringify(correlations)}::jsonb,
      seen = s.seen + ${seen}, matched = s.matched + ${matched}, started = s.started + ${started},
      dropped = s.dropped + ${dropped}, last_run_id = coalesce(${lastRunId}, s.last_run_id),
      last_run_at = case when ${lastRunId}::text is null then s.last_run_at else now() end ${missed ?? sql``}
    from triggers t
    where s.tenant_id = ${ref.tenantId} and s.workspace_id = ${ref.workspaceId} and s.trigger_id = ${triggerId}
      and t.tenant_id = s.tenant_id and t.workspace_id = s.workspace_id and t.id = s.trigger_id
      and t.revision = ${revision}
      and s.events_offset = ${before.events_offset} and s.changes_offset = ${before.changes_offset}
    returning t.id`)
  return stored !== undefined
}
