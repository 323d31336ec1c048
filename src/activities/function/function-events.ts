/** Starts runs of functions for events, outside workflows and activities. */

import type { JsonObject } from '../../../flows-dsl/ir.ts'
import type { Access } from '../../access/access.ts'
import { privilege } from '../../access/privileges.ts'
import { Suspended } from '../../access/tenant-states.ts'
import { Problem } from '../../core/problem.ts'
import { matchesTrigger } from '../../features/functions/triggers/declared.ts'
import type {
  EventResult,
  FunctionEventHandler,
  FunctionTriggerState,
} from '../../features/functions/triggers/trigger-consumers.ts'
import { startEventRun, triggerSubject } from '../../features/functions/triggers/trigger-starts.ts'
import { SHARED_LIMITS } from '../../features/limits.ts'
import { causesOfEntry, chainDepth } from '../../features/triggers/starts.ts'
import type { Log } from '../../infra/log.ts'
import type { Entry } from '../../infra/valkey/streams.ts'

const openForEvent = privilege('functions.events')

/** A handler that starts one run for each event of the trigger's topics, in order. */
export function createFunctionEventHandler(access: Access, log: Log): FunctionEventHandler {
  return async (trigger, entries) => {
    const starts = new EventStarts(access, trigger, log)
    try {
      for (const entry of entries) if (!(await starts.handle(entry))) break
    } catch (error) {
      // What was handled is stored first; the next call throws at once.
      if (starts.result.count === 0) throw error
    }
    return starts.result
  }
}

/** Starts the runs of one trigger for a few entries, and counts them. */
class EventStarts {
  readonly #access: Access
  readonly #trigger: FunctionTriggerState
  readonly #log: Log
  #result: EventResult = { count: 0, seen: 0, started: 0, dropped: 0 }

  constructor(access: Access, trigger: FunctionTriggerState, log: Log) {
    this.#access = access
    this.#trigger = trigger
    this.#log = log
  }

  get result(): EventResult {
    return this.#result
  }

  /**
   * @returns false if the entry must wait, since too many runs are in flight
   * @throws errors that a later attempt may not meet: an unavailable server, an exhausted quota
   */
  async handle(entry: Entry): Promise<boolean> {
    const { count, seen, started, dropped } = this.#result
    if (!matchesTrigger(this.#trigger.spec, entry.topic)) {
      this.#result = { ...this.#result, count: count + 1 }
      return true
    }
    const run = await this.#start(entry)
    if (run === 'full') return false
    const counted = { count: count + 1, seen: seen + 1 }
    this.#result =
      // Of a stale trigger nothing is stored, and its successor gets the event.
      run === 'dropped' || run === 'stale'
        ? { ...this.#result, ...counted, dropped: dropped + 1 }
        : { ...this.#result, ...counted, started: started + 1, lastRunId: run }
    return true
  }

  async #start(entry: Entry): Promise<`run_${string}` | 'full' | 'stale' | 'dropped'> {
    const { ref, triggerId, functionId } = this.#trigger
    const about = { trigger: triggerId, function: functionId, entry: entry.id }
    try {
      const event = JSON.parse(entry.text) as JsonObject
      const depth = chainDepth([event]) + 1
      if (depth > SHARED_LIMITS.chainDepthMax) {
        this.#log.warn({ ...about, chainDepth: depth }, 'function trigger exceeded chain depth')
        return 'dropped'
      }
      const actor = { subject: triggerSubject(triggerId), role: 'workspace_admin' } as const
      const scope = await openForEvent(this.#access, ref, actor)
      return await startEventRun(scope, { ...this.#trigger, event, causes: causesOfEntry(entry) })
    } catch (error) {
      // Events during a suspension are dropped, so that they do not all start runs when the workspace is resumed.
      if (error instanceof Suspended) return 'dropped'
      if (isTransient(error)) throw error
      this.#log.warn({ err: error, ...about }, 'function trigger start refused')
      return 'dropped'
    }
  }
}

/** False for an error that the same event meets again. */
function isTransient(error: unknown): boolean {
  if (error instanceof SyntaxError) return false
  return !(error instanceof Problem) || error.status >= 500 || error.status === 429
}
