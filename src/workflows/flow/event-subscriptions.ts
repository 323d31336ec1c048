/** Subscribes an execution to the events that its tasks wait for: past ones since its start first, then those that are published. */

import type { ActivityOptions } from '@temporalio/common'
import { CancellationScope, defineSignal, proxyActivities, setHandler } from '@temporalio/workflow'
import type { Json } from '../../../flows-dsl/ir.ts'
import type { StepRef } from '../../../flows-dsl/tasks/task.ts'
import type { Activities } from '../../activities/contract.ts'
import {
  type ExecutionEvent,
  type ExecutionInput,
  isBefore,
  type PastEvents,
  type StreamEvent,
} from '../../core/execution.ts'
import { withoutHandles } from '../../core/secret-handle.ts'
import { RETRIES } from '../retries.ts'
import { summaryLine } from './current-details.ts'
import type { LogicalClock } from './logical-clock.ts'
import type { Recorder } from './recorder.ts'

/** Events of the stream, in order. A single event that a person sends is the signal `event`. */
const streamEvents = defineSignal<[readonly StreamEvent[]]>('streamEvents')

/** Retried for as long as a server is unavailable: the execution misses no event. */
const OPTIONS: ActivityOptions = {
  startToCloseTimeout: '30s',
  retry: RETRIES.record,
}
const { subscribeEvents } = proxyActivities<Activities>(OPTIONS)

interface OpenSubscription {
  readonly step: StepRef
  readonly subscriptions: readonly Json[]
}

interface SubscriptionServices {
  readonly recorder: Recorder
  readonly clock: LogicalClock
}

export class EventSubscriptions {
  readonly #executionId: string
  readonly #since: ExecutionInput['since']
  readonly #services: SubscriptionServices
  /** The subscriptions of tasks that wait, by `pointer#iteration`. */
  readonly #open = new Map<string, OpenSubscription>()
  /** Live events that arrived before the past ones were read. */
  #deferred: StreamEvent[] = []
  #generation: number
  #isChanged = false
  #updating: Promise<void> | undefined
  #onEvent: (event: ExecutionEvent) => void = () => {}

  constructor({ execution_id, since, continued }: ExecutionInput, services: SubscriptionServices) {
    this.#executionId = execution_id
    this.#since = since
    this.#services = services
    this.#generation = continued?.subscribed ?? 0
    if (this.#generation > 0) services.recorder.setSubscribed(this.#generation)
  }

  /**
   * Passes events on, in order. Call it before the execution awaits anything: events that arrived before the first turn,
   * such as those published while it continued as new, are passed on before this returns.
   */
  onEvent(receive: (event: ExecutionEvent) => void): void {
    this.#onEvent = receive
    setHandler(streamEvents, (events) => {
      this.#services.clock.tick()
      if (this.#updating === undefined) this.#deliver(events)
      else this.#deferred.push(...events)
    })
  }

  /** For continue-as-new. */
  get state(): { subscribed?: number } {
    return this.#generation === 0 ? {} : { subscribed: this.#generation }
  }

  /** Subscribes for a task until its effect is cancelled. @returns when past events are delivered and live ones will be */
  add(step: StepRef, subscriptions: Json | undefined): Promise<void> {
    const { recorder } = this.#services
    const key = `${step.pointer}#${step.iteration}`
    this.#open.set(key, { step, subscriptions: Array.isArray(subscriptions) ? subscriptions : [] })
    const mine = this.#open.get(key)
    void CancellationScope.current().cancelRequested.catch(() => {
      // A narrower wait of the same task may have replaced it. The last one ends with the next record, without an activity.
      if (this.#open.get(key) !== mine) return
      this.#open.delete(key)
      if (this.#updating === undefined && this.#open.size === 0) recorder.unsubscribe()
      else this.#update().catch(() => {})
    })
    return this.#update()
  }

  /** Resolves when no past events are being read, so that the execution can continue as new. */
  async untilCaughtUp(): Promise<void> {
    while (this.#updating !== undefined) await this.#updating
  }

  /** Makes the platform's subscriptions those of the tasks that wait now. One update follows the other. */
  #update(): Promise<void> {
    this.#isChanged = true
    this.#updating ??= CancellationScope.nonCancellable(() => this.#run())
    return this.#updating
  }

  async #run(): Promise<void> {
    // A task that ends and one that begins in the same turn are one change.
    await Promise.resolve()
    try {
      while (this.#isChanged) {
        this.#isChanged = false
        if (this.#open.size > 0) await this.#catchUp()
        this.#deliver(this.#deferred.splice(0))
      }
    } finally {
      this.#updating = undefined
    }
    const { recorder } = this.#services
    if (this.#open.size > 0 || recorder.isEnded) return
    recorder.unsubscribe()
    void recorder.flush()
  }

  async #catchUp(): Promise<void> {
    this.#generation += 1
    this.#services.recorder.setSubscribed(this.#generation)
    const asked = {
      execution_id: this.#executionId,
      generation: this.#generation,
      subscriptions: [...this.#open.values()].flatMap(({ subscriptions }) => subscriptions),
      ...(this.#since !== undefined && { since: this.#since }),
    }
    let after: PastEvents['after']
    do {
      const reading = subscribeEvents.executeWithOptions({ ...OPTIONS, summary: this.#summary() }, [
        { ...asked, ...(after !== undefined && { after }) },
      ])
      this.#services.clock.tickAfter(reading)
      const past = await reading
      after = past.after
      this.#deliver(this.#withEarlier(past.events))
      // To the end, even if the tasks have changed: the next generation reads on from where live events began.
    } while (after !== undefined)
  }

  /** For operators in the Temporal UI. */
  #summary(): string {
    const [first, ...more] = [...this.#open.values()].map(({ step }) => summaryLine(step))
    return `subscribe for ${first}${more.length === 0 ? '' : `, and ${more.length} more`}`
  }

  /** Past events, in order with the live ones before the last of them: the consumer may have delivered some of these already. */
  #withEarlier(past: readonly StreamEvent[]): readonly StreamEvent[] {
    const last = past.at(-1)
    if (last === undefined) return past
    const [earlier = [], later = []] = [true, false].map((isEarlier) =>
      this.#deferred.filter(({ offset }) => isBefore(offset, last.offset) === isEarlier),
    )
    this.#deferred = later
    return [...earlier, ...past].sort(
      (a, b) => Number(isBefore(b.offset, a.offset)) - Number(isBefore(a.offset, b.offset)),
    )
  }

  #deliver(events: readonly StreamEvent[]): void {
    for (const { event } of events) this.#onEvent(withoutHandles(event))
  }
}
