/** Yields the concurrency slot of an execution while it waits (`holdWhileWaiting: false`) and reacquires it afterwards. */

import { CancellationScope, defineSignal, proxyActivities, setHandler, sleep } from '@temporalio/workflow'
import type { FlowIR } from '../../../flows-dsl/ir.ts'
import type { Activities } from '../../activities/contract.ts'
import type { ExecutionInput, SlotGeneration, SlotState } from '../../core/execution.ts'
import { FLOW_LIMITS } from '../../features/flows/limits.ts'
import { flushMicrotasks } from '../ordered-results-interceptor.ts'
import type { CurrentDetails } from './current-details.ts'
import type { ExecutionGate } from './execution-gate.ts'
import type { LogicalClock } from './logical-clock.ts'
import type { Recorder } from './recorder.ts'

/** Sent by the execution that released the slot. */
const slotGranted = defineSignal<[SlotGeneration]>('slotGranted')

/** Activities, not local ones: the request is in the history before it takes effect, so both agree after a crash. */
const { yieldSlot, reacquireSlot } = proxyActivities<Activities>({
  startToCloseTimeout: '20s',
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '10s' },
})

interface SlotServices {
  readonly gate: ExecutionGate
  readonly clock: LogicalClock
  readonly recorder: Recorder
  readonly details: CurrentDetails
}

export class ConcurrencySlot {
  readonly #executionId: string
  readonly #isChild: boolean
  readonly #services: SlotServices
  /** Number of calls and sub-flows in progress; with none, the execution only waits. */
  #running = 0
  #generation: number
  #phase: SlotState['is']
  #watch: CancellationScope | undefined
  #yielding: Promise<void> | undefined
  #removeDetail: (() => void) | undefined

  /** @returns undefined if the execution keeps its slot while it waits */
  static of(input: ExecutionInput, services: SlotServices): ConcurrencySlot | undefined {
    const { concurrency } = input.ir as Partial<FlowIR>
    return concurrency?.holdWhileWaiting === false ? new ConcurrencySlot(input, services) : undefined
  }

  private constructor({ execution_id, trigger, continued }: ExecutionInput, services: SlotServices) {
    this.#executionId = execution_id
    this.#isChild = trigger?.kind === 'flow'
    this.#services = services
    this.#generation = continued?.slot?.generation ?? 0
    this.#phase = continued?.slot?.is ?? 'held'
    setHandler(slotGranted, ({ generation }) => this.#onGranted(generation))
    // After continue-as-new, results of the previous run's activities are lost: they are called again.
    if (this.#phase === 'yielded') this.#yield()
    else if (this.#phase === 'requested') this.#request()
    else this.#yieldAfterGrace()
  }

  get state(): SlotState {
    return { generation: this.#generation, is: this.#phase }
  }

  /** Runs work, for which the execution needs its slot; the gate delays the work until it has one. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#running += 1
    this.#watch?.cancel()
    this.#watch = undefined
    if (this.#phase === 'yielded') this.#requestAgain()
    try {
      return await work()
    } finally {
      this.#running -= 1
      this.#yieldAfterGrace()
    }
  }

  /** Yields the slot once the execution has waited for `slotGraceMs`. */
  #yieldAfterGrace(): void {
    if (this.#running > 0 || this.#phase !== 'held' || this.#watch !== undefined) return
    void uncancellable(async () => {
      const watch = new CancellationScope()
      this.#watch = watch
      const timer = watch.run(() => sleep(FLOW_LIMITS.slotGraceMs, { summary: 'keeps its slot' }))
      const isOver = await timer.then(
        () => true,
        () => false,
      )
      if (!isOver) return
      // A cancelled timer leaves no event in the history, so only a fired one is a tick.
      this.#services.clock.tick()
      // In the repetition of a lost task, the timer may fire together with the result that had ended the waiting.
      await flushMicrotasks()
      if (this.#watch !== watch) return
      this.#watch = undefined
      if (this.#services.recorder.isEnded) return
      this.#generation += 1
      this.#phase = 'yielded'
      this.#yield()
    })
  }

  #yield(): void {
    // If it fails for good, the slot stays with the execution.
    this.#yielding = uncancellable(() => yieldSlot(this.#current()).catch(() => {}))
    this.#services.clock.tickAfter(this.#yielding)
  }

  #requestAgain(): void {
    this.#phase = 'requested'
    this.#services.gate.setQueued(true)
    this.#request()
  }

  #request(): void {
    this.#removeDetail = this.#services.details.addStep({
      pointer: '/concurrency',
      summary: 'waits for a slot',
    })
    void uncancellable(async () => {
      await this.#yielding
      const slot = this.#current()
      const isAcquired = reacquireSlot({ ...slot, at_once: this.#isChild }).catch(() => true)
      this.#services.clock.tickAfter(isAcquired)
      if (await isAcquired) this.#acquired(slot.generation)
    })
  }

  #onGranted(generation: number): void {
    this.#services.clock.tick()
    this.#acquired(generation)
    // The sender repeats the signal until the record acknowledges it.
    if (generation === this.#generation) void this.#services.recorder.ackSlot(generation)
  }

  /** Ignores messages about an older generation of the slot. */
  #acquired(generation: number): void {
    if (this.#phase !== 'requested' || generation !== this.#generation) return
    this.#phase = 'held'
    this.#removeDetail?.()
    this.#services.gate.setQueued(false)
    this.#yieldAfterGrace()
  }

  #current(): SlotGeneration {
    return { execution_id: this.#executionId, generation: this.#generation }
  }
}

/** Runs work even in a cancelled scope: the slot must still be released, and compensation needs one. */
const uncancellable = <T>(work: () => Promise<T>): Promise<T> => CancellationScope.nonCancellable(work)
