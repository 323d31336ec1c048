/**
 * Background work of workers, outside workflows and activities: starts executions for events, delivers events to waiting ones, and
 * opens the contexts of background tasks (features/background-tasks.ts).
 */

import { setImmediate } from 'node:timers/promises'
import { correlateEvent, type PartialCorrelation } from '../../../flows-dsl/event-correlation.ts'
import type { JsonObject } from '../../../flows-dsl/ir.ts'
import { typesOf } from '../../../flows-dsl/tasks/listen.ts'
import type { Access } from '../../access/access.ts'
import { privilege } from '../../access/privileges.ts'
import { Suspended } from '../../access/tenant-states.ts'
import { Problem } from '../../core/problem.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import type { TaskContext } from '../../features/background/background-task.ts'
import { deliverEvents } from '../../features/flows/subscriptions/deliver-events.ts'
import type { EventDelivery } from '../../features/flows/subscriptions/subscription-consumers.ts'
import { acceptsType, type EventSpec } from '../../features/flows/triggers/events.ts'
import type { EntryHandler, TriggerState } from '../../features/flows/triggers/trigger-consumers.ts'
import { startByEvents } from '../../features/flows/triggers/trigger-starts.ts'
import { SHARED_LIMITS } from '../../features/limits.ts'
import { causesOfEntry, chainDepth, withCauses } from '../../features/triggers/starts.ts'
import { INFRA_LIMITS } from '../../infra/limits.ts'
import type { Log } from '../../infra/log.ts'
import type { Entry } from '../../infra/valkey/streams.ts'

const openActive = privilege('background.starts')
const openWorkspace = privilege('background.tasks')

/** A handler that correlates the events of a trigger and starts executions for complete correlations. */
export function createEventHandler(access: Access, log: Log): EntryHandler {
  return async (trigger, entries) => {
    const matcher = new TriggerMatcher(trigger)
    for (const entry of trigger.paused ? [] : entries) {
      const events = matcher.match(entry, log)
      if (events !== undefined) await startExecution(access, trigger, events, log)
      await matcher.yieldThread()
    }
    return { gathered: matcher.gathered, counts: matcher.counts, busyMs: matcher.busyMs }
  }
}

/** Matches events against the filters of one trigger, and measures the time that this takes. */
class TriggerMatcher {
  readonly #triggerId: string
  readonly #spec: EventSpec
  readonly #types: readonly string[] | undefined
  gathered: readonly PartialCorrelation[]
  readonly counts = { seen: 0, matched: 0 }
  busyMs = 0
  #busyMsAtYield = 0

  constructor({ triggerId, spec, gathered }: TriggerState) {
    this.#triggerId = triggerId
    this.#spec = spec as EventSpec
    this.#types = typesOf({ to: this.#spec.on })
    this.gathered = gathered as readonly PartialCorrelation[]
  }

  /** @returns the correlated events, if the entry completes them */
  match(entry: Entry, log: Log): readonly JsonObject[] | undefined {
    // Most events have another type, which is known without parsing them.
    if (!acceptsType(this.#types, entry.topic)) return undefined
    this.counts.seen += 1
    const startedMs = performance.now()
    try {
      const event = JSON.parse(entry.text) as JsonObject
      // The copy that waits for others has the subjects behind it, which filters of a flow may not see.
      const kept = withCauses(event, causesOfEntry(entry))
      const { complete, open } = correlateEvent(this.#spec.on, this.gathered, event, Date.now(), kept)
      if (complete !== undefined || open !== this.gathered) this.counts.matched += 1
      this.gathered = open
      return complete
    } catch (error) {
      // Skipped, since another attempt would fail, too.
      log.warn({ err: error, trigger: this.#triggerId, entry: entry.id }, 'event trigger matching failed')
      return undefined
    } finally {
      this.busyMs += performance.now() - startedMs
    }
  }

  /** Lets other work run once this trigger has kept the thread busy for `yieldEveryMs`. */
  async yieldThread(): Promise<void> {
    if (this.busyMs - this.#busyMsAtYield < INFRA_LIMITS.yieldEveryMs) return
    this.#busyMsAtYield = this.busyMs
    await setImmediate()
  }
}

/** @throws errors that a later attempt may not meet: an unavailable server, an exhausted quota */
async function startExecution(
  access: Access,
  { ref, triggerId, version }: TriggerState,
  events: readonly JsonObject[],
  log: Log,
): Promise<void> {
  const depth = chainDepth(events) + 1
  if (depth > SHARED_LIMITS.chainDepthMax)
    return log.warn({ trigger: triggerId, chainDepth: depth }, 'event trigger exceeded chain depth')
  try {
    const actor = { subject: triggerId, role: 'workspace_admin' } as const
    const scope = await openActive(access, ref, actor)
    await startByEvents(scope, { triggerId, version, events, chainDepth: depth })
  } catch (error) {
    // Events during a suspension are dropped, so that they do not all start executions when the workspace is resumed.
    if (error instanceof Suspended) return
    if (!(error instanceof Problem) || error.status >= 500 || error.status === 429) throw error
    log.warn({ err: error, trigger: triggerId }, 'event trigger start refused')
  }
}

/** @returns a function that delivers events to the executions of a workspace; a suspended execution keeps them */
export function createDelivery(access: Access): EventDelivery {
  return (ref, entries, gap) => deliverEvents(openWorkspace(access, ref, CONSUMER), entries, gap)
}

const CONSUMER = { subject: 'tenon:events', role: 'workspace_admin' } as const
const ACTOR = { subject: 'tenon:reconciler', role: 'workspace_admin' } as const

/** @returns a function that opens the context of background tasks in a workspace, whatever its state */
export function createTaskContexts(access: Access): (ref: WorkspaceRef) => Promise<TaskContext> {
  return async (ref) => ({
    scope: openWorkspace(access, ref, ACTOR),
    service: openWorkspace(access, ref, { ...ACTOR, role: 'service' }),
    isActive: await openActive(access, ref, ACTOR).then(() => true, rethrowUnlessRefused),
  })
}

function rethrowUnlessRefused(error: unknown): false {
  if (error instanceof Problem && error.status < 500) return false
  throw error
}
