/** Yields the concurrency slot of an execution while it waits (`holdWhileWaiting: false`) and reacquires it afterwards. */

import { CancellationScope, defineSignal, proxyActivities, setHandler, sleep } from '@temporalio/workflow'
import type { FlowIR } from '../../../flows-dsl/ir.ts'
import type { Activities } from '../../activities/contract.ts'
import { LIMITS } from '../../core/limits.ts'
import type { FlowRunInput, SlotGeneration, SlotState } from '../../core/run.ts'
import { flushMicrotasks } from '../ordered-results-interceptor.ts'
import type { CurrentDetails } from './current-details.ts'
import type { ExecutionGate } from './execution-gate.ts'
import type { LogicalClock } from './logical-clock.ts'
import type { Recorder } from './recorder.ts'

/** Whoever frees a place tells who has it now. */
const placed = defineSignal<[SlotGeneration]>('slotGranted')

/** Tasks of their own: that the run has asked is in its history before it is done, so run and queue agree whoever dies. */
const { yieldSlot, reacquireSlot } = proxyActivities<Activities>({
  startToCloseTimeout: '20s',
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '10s' },
})

/** What is told of it, and what it tells. */
interface SlotServices {
  readonly hold: ExecutionGate
  readonly moments: LogicalClock
  readonly recorder: Recorder
  readonly details: CurrentDetails
}

export class ConcurrencySlot {
  readonly #executionId: string
  readonly #isChild: boolean
  readonly #books: SlotServices
  /** Calls, and flows that are waited for: what is work, and no waiting. */
  #underWay = 0
  #turn: number
  #is: SlotState['is']
  #watch: CancellationScope | undefined
  #leaving: Promise<void> | undefined
  #shown: (() => void) | undefined

  /** @returns nothing where the run keeps its place */
  static of(input: FlowRunInput, books: SlotServices): ConcurrencySlot | undefined {
    const { concurrency } = input.ir as Partial<FlowIR>
    return concurrency?.holdWhileWaiting === false ? new ConcurrencySlot(input, books) : undefined
  }

  private constructor({ execution_id, trigger, continued }: FlowRunInput, books: SlotServices) {
    this.#executionId = execution_id
    this.#isChild = trigger?.kind === 'flow'
    this.#books = books
    this.#turn = continued?.slot?.turn ?? 0
    this.#is = continued?.slot?.is ?? 'held'
    setHandler(placed, ({ generation: turn }) => this.#heard(turn))
    // Where it has moved here, what it was answered there is lost.
    if (this.#is === 'yielded') this.#leave()
    else if (this.#is === 'requested') this.#ask()
    else this.#rest()
  }

  get state(): SlotState {
    return { turn: this.#turn, is: this.#is }
  }

  /** Something that is work. Whether it may begin, the hold says. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#underWay += 1
    this.#watch?.cancel()
    this.#watch = undefined
    if (this.#is === 'yielded') this.#comeBack()
    try {
      return await work()
    } finally {
      this.#underWay -= 1
      this.#rest()
    }
  }

  /** A run that waits for less than a moment keeps its place. */
  #rest(): void {
    if (this.#underWay > 0 || this.#is !== 'held' || this.#watch !== undefined) return
    void uncancellable(async () => {
      const watch = new CancellationScope()
      this.#watch = watch
      const timer = watch.run(() => sleep(LIMITS.slotGraceMs, { summary: 'keeps its place' }))
      const isOver = await timer.then(
        () => true,
        () => false,
      )
      if (!isOver) return
      // One that is called off is no event of the history.
      this.#books.moments.tick()
      // A task that was lost and is done again may find it over, beside what had ended the waiting before it was.
      await flushMicrotasks()
      if (this.#watch !== watch) return
      this.#watch = undefined
      if (this.#books.recorder.isEnded) return
      this.#turn += 1
      this.#is = 'yielded'
      this.#leave()
    })
  }

  #leave(): void {
    // A refusal for ever leaves things as they are.
    this.#leaving = uncancellable(() => yieldSlot(this.#named()).catch(() => {}))
    this.#books.moments.tickAfter(this.#leaving)
  }

  #comeBack(): void {
    this.#is = 'requested'
    this.#books.hold.setQueued(true)
    this.#ask()
  }

  #ask(): void {
    this.#shown = this.#books.details.addStep({ pointer: '/concurrency', summary: 'waits for a place' })
    void uncancellable(async () => {
      await this.#leaving
      const place = this.#named()
      const asked = reacquireSlot({ ...place, at_once: this.#isChild }).catch(() => true)
      this.#books.moments.tickAfter(asked)
      if (await asked) this.#arrive(place.generation)
    })
  }

  #heard(turn: number): void {
    this.#books.moments.tick()
    this.#arrive(turn)
    // Who tells it goes on until he is answered.
    if (turn === this.#turn) void this.#books.recorder.ackSlot(turn)
  }

  /** What is said of another turn is out of date. */
  #arrive(turn: number): void {
    if (this.#is !== 'requested' || turn !== this.#turn) return
    this.#is = 'held'
    this.#shown?.()
    this.#books.hold.setQueued(false)
    this.#rest()
  }

  #named(): SlotGeneration {
    return { execution_id: this.#executionId, generation: this.#turn }
  }
}

/** Whoever is cancelled still has a place to give back, and needs one for what it undoes. */
const uncancellable = <T>(work: () => Promise<T>): Promise<T> => CancellationScope.nonCancellable(work)
