/** Keys of event subscriptions: type, definition and correlation values; evaluates a definition once per event. */

import { hash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { correlationValues } from '../../../../flows-dsl/event-correlation.ts'
import type { EventFilter, JsonObject } from '../../../../flows-dsl/ir.ts'
import type { EventSubscription } from '../../../../flows-dsl/tasks/event-subscription.ts'
import type { ExecutionEvent } from '../../../core/execution.ts'
import { canonical } from '../../../core/json.ts'
import { INFRA_LIMITS } from '../../../infra/limits.ts'
import type { Entry } from '../../../infra/valkey/streams.ts'

/** Of subscriptions to events of any type. */
export const ANY_TOPIC = ''

/**
 * Topic of changes of status of executions. Only subscriptions that name it get them: an execution that waits for events of any type
 * would get its own.
 */
export const STATUS_TOPIC = 'platform.execution_status.changed'

/** A filter that is the same for many executions. */
export interface Definition {
  readonly topic: string
  /** SHA-256 of the filter. */
  readonly definition: string
  readonly filter: EventFilter
}

export interface SubscriptionKey extends Definition {
  /** SHA-256 of the values of the filter's correlations. */
  readonly value: string
}

export function keyOf({ type = ANY_TOPIC, filter, values }: EventSubscription): SubscriptionKey {
  return { topic: type, definition: digest(filter), filter, value: digest(values) }
}

/** One text for a key, to compare it. */
export const nameOf = ({ topic, definition, value }: Omit<SubscriptionKey, 'filter'>): string =>
  JSON.stringify([topic, definition, value])

const digest = (value: unknown): string => hash('sha256', canonical(value), 'hex')

/** Evaluates definitions for events, and lets other work run while it does. */
export class DefinitionMatcher {
  /** How long it has kept the thread busy. */
  busyMs = 0
  #busyMsAtYield = 0

  /** @returns the keys under which executions subscribe to the event, and the event */
  async match(
    entry: Entry,
    definitions: readonly Definition[],
  ): Promise<{ event: ExecutionEvent; keys: SubscriptionKey[] } | undefined> {
    // Most events have another type, which is known without parsing them.
    const isForAny = entry.topic !== STATUS_TOPIC
    const candidates = definitions.filter(
      ({ topic }) => topic === entry.topic || (isForAny && topic === ANY_TOPIC),
    )
    if (candidates.length === 0) return undefined
    const event = this.#measure(() => JSON.parse(entry.text) as JsonObject)
    const keys: SubscriptionKey[] = []
    for (const candidate of candidates) {
      const values = this.#measure(() => correlationValues(candidate.filter, event, Date.now()))
      if (values !== undefined) keys.push({ ...candidate, value: digest(values) })
      await this.#yieldThread()
    }
    return { event, keys }
  }

  #measure<T>(work: () => T): T {
    const startedMs = performance.now()
    const result = work()
    this.busyMs += performance.now() - startedMs
    return result
  }

  async #yieldThread(): Promise<void> {
    if (this.busyMs - this.#busyMsAtYield < INFRA_LIMITS.yieldEveryMs) return
    this.#busyMsAtYield = this.busyMs
    await setImmediate()
  }
}
