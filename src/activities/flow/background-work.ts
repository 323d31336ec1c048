/** Work of the worker that no workflow asks for: starts executions for events, and repairs executions after a crash. */

import { setImmediate } from 'node:timers/promises'
import { correlateEvent, type PartialCorrelation } from '../../../flows-dsl/event-correlation.ts'
import type { JsonObject } from '../../../flows-dsl/ir.ts'
import { typesOf } from '../../../flows-dsl/tasks/listen.ts'
import type { Access } from '../../access/access.ts'
import { Suspended } from '../../access/tenant-states.ts'
import { randomIds } from '../../core/ids.ts'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { promoteQueued, reconcile } from '../../features/flows/executions/reconcile.ts'
import type { Candidate } from '../../features/flows/executions/reconciler.ts'
import type { EventSpec } from '../../features/flows/triggers/events.ts'
import type { EntryHandler, TriggerState } from '../../features/flows/triggers/trigger-consumers.ts'
import { chainDepth, startByEvents } from '../../features/flows/triggers/trigger-starts.ts'
import type { Log } from '../../infra/log.ts'
import type { Entry } from '../../infra/valkey/streams.ts'

export function hearing(access: Access, log: Log): EntryHandler {
  return async (watch, entries) => {
    const asking = new Asking(watch)
    for (const entry of watch.paused ? [] : entries) {
      const events = asking.show(entry, log)
      if (events !== undefined) await begin(access, watch, events, log)
      await asking.rest()
    }
    return { gathered: asking.gathered, busyMs: asking.busyMs }
  }
}

/** The filters of a trigger, asked of one event after the other. */
class Asking {
  readonly #watch: TriggerState
  readonly #spec: EventSpec
  readonly #types: readonly string[] | undefined
  gathered: readonly PartialCorrelation[]
  busyMs = 0
  #restedMs = 0

  constructor(watch: TriggerState) {
    this.#watch = watch
    this.#spec = watch.spec as EventSpec
    this.#types = typesOf({ to: this.#spec.on })
    this.gathered = watch.gathered as readonly PartialCorrelation[]
  }

  /** @returns the events that begin a run, if they do now */
  show(entry: Entry, log: Log): readonly JsonObject[] | undefined {
    // Most events are of no concern, which can be told without reading them.
    if (this.#types !== undefined && !this.#types.includes(entry.topic)) return undefined
    const startedMs = performance.now()
    try {
      const event = JSON.parse(entry.text) as JsonObject
      const { complete, open } = correlateEvent(this.#spec.on, this.gathered, event, Date.now())
      this.gathered = open
      return complete
    } catch (error) {
      // It would cost as much the next time.
      log.warn(
        { err: error, trigger: this.#watch.triggerId, entry: entry.id },
        'a trigger cannot tell an event',
      )
      return undefined
    } finally {
      this.busyMs += performance.now() - startedMs
    }
  }

  /** Lets others go first, where this one has held the thread for a while. */
  async rest(): Promise<void> {
    if (this.busyMs - this.#restedMs < LIMITS.yieldEveryMs) return
    this.#restedMs = this.busyMs
    await setImmediate()
  }
}

/** @throws what a later attempt may not come upon: a server that is away, a quota that is used up for now */
async function begin(
  access: Access,
  { ref, triggerId, version }: TriggerState,
  events: readonly JsonObject[],
  log: Log,
): Promise<void> {
  const hops = chainDepth(events) + 1
  if (hops > LIMITS.eventHopsMax)
    return log.warn({ trigger: triggerId, hops }, 'flows begin each other by events')
  try {
    const actor = { subject: triggerId, role: 'workspace_admin' } as const
    const scope = await access.continueActive(ref, actor, randomIds)
    await startByEvents(scope, { triggerId, version, events, hops })
  } catch (error) {
    // Nothing is kept that would all begin when the workspace is resumed.
    if (error instanceof Suspended) return
    if (!(error instanceof Problem) || error.status >= 500 || error.status === 429) throw error
    log.warn({ err: error, trigger: triggerId }, 'an event begins no run')
  }
}

const ACTOR = { subject: 'tenon:reconciler', role: 'workspace_admin' } as const

/** @returns what looks into one suspect */
export function mender(access: Access): (suspect: Candidate) => Promise<void> {
  return async (suspect) => {
    const { ref } = suspect
    const mayBegin = await access.continueActive(ref, ACTOR, randomIds).then(() => true, unlessRefused)
    const scope = access.continueWorkspace(ref, ACTOR, randomIds)
    if ('execution' in suspect) await reconcile(scope, suspect.execution, mayBegin)
    else if (mayBegin) await promoteQueued(scope, suspect.flow, suspect.key)
  }
}

/** In a workspace that stands still nothing begins; what is over is over there too. */
function unlessRefused(error: unknown): false {
  if (error instanceof Problem && error.status < 500) return false
  throw error
}
