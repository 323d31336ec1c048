/** Yields the concurrency slot of an execution while it waits (`holdWhileWaiting: false`) and reacquires it afterwards. */

import { CancellationScope, defineSignal, proxyActivities, setHandler, sleep } from '@temporalio/workflow'
import type { FlowIR } from '../../../flows-dsl/ir.ts'
import type { Activities } from '../../activities/contract.ts'
import { LIMITS } from '../../core/limits.ts'
import type { FlowRunInput, SlotGeneration, SlotState } from '../../core/run.ts'
import { settled } from '../ordered-results-interceptor.ts'
import type { Details } from './current-details.ts'
import type { Hold } from './execution-gate.ts'
import type { Moments } from './logical-clock.ts'
import type { Recorder } from './recorder.ts'

/** Whoever frees a place tells who has it now. */
const placed = defineSignal<[SlotGeneration]>('placed')

/** Tasks of their own: that the run has asked is in its history before it is done, so run and queue agree whoever dies. */
const { leavePlace, wantPlace } = proxyActivities<Activities>({
  startToCloseTimeout: '20s',
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '10s' },
})

/** What is told of it, and what it tells. */
interface Books {
  readonly hold: Hold
  readonly moments: Moments
  readonly recorder: Recorder
  readonly details: Details
}

export class Place {
  readonly #executionId: string
  readonly #isChild: boolean
  readonly #books: Books
  /** Calls, and flows that are waited for: what is work, and no waiting. */
  #underWay = 0
  #turn: number
  #is: SlotState['is']
  #watch: CancellationScope | undefined
  #leaving: Promise<void> | undefined
  #shown: (() => void) | undefined

  /** @returns nothing where the run keeps its place */
  static of(input: FlowRunInput, books: Books): Place | undefined {
    const { concurrency } = input.ir as Partial<FlowIR>
    return concurrency?.holdWhileWaiting === false ? new Place(input, books) : undefined
  }

  private constructor({ execution_id, trigger, continued }: FlowRunInput, books: Books) {
    this.#executionId = execution_id
    this.#isChild = trigger?.kind === 'flow'
    this.#books = books
    this.#turn = continued?.place?.turn ?? 0
    this.#is = continued?.place?.is ?? 'taken'
    setHandler(placed, ({ turn }) => this.#heard(turn))
    // Where it has moved here, what it was answered there is lost.
    if (this.#is === 'away') this.#leave()
    else if (this.#is === 'wanted') this.#ask()
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
    if (this.#is === 'away') this.#comeBack()
    try {
      return await work()
    } finally {
      this.#underWay -= 1
      this.#rest()
    }
  }

  /** A run that waits for less than a moment keeps its place. */
  #rest(): void {
    if (this.#underWay > 0 || this.#is !== 'taken' || this.#watch !== undefined) return
    void unendingly(async () => {
      const watch = new CancellationScope()
      this.#watch = watch
      const timer = watch.run(() => sleep(LIMITS.slotGraceMs, { summary: 'keeps its place' }))
      const isOver = await timer.then(
        () => true,
        () => false,
      )
      if (!isOver) return
      // One that is called off is no event of the history.
      this.#books.moments.hear()
      // A task that was lost and is done again may find it over, beside what had ended the waiting before it was.
      await settled()
      if (this.#watch !== watch) return
      this.#watch = undefined
      if (this.#books.recorder.isEnded) return
      this.#turn += 1
      this.#is = 'away'
      this.#leave()
    })
  }

  #leave(): void {
    // A refusal for ever leaves things as they are.
    this.#leaving = unendingly(() => leavePlace(this.#named()).catch(() => {}))
    this.#books.moments.answeredBy(this.#leaving)
  }

  #comeBack(): void {
    this.#is = 'wanted'
    this.#books.hold.queue(true)
    this.#ask()
  }

  #ask(): void {
    this.#shown = this.#books.details.at({ pointer: '/concurrency', summary: 'waits for a place' })
    void unendingly(async () => {
      await this.#leaving
      const place = this.#named()
      const asked = wantPlace({ ...place, at_once: this.#isChild }).catch(() => true)
      this.#books.moments.answeredBy(asked)
      if (await asked) this.#arrive(place.turn)
    })
  }

  #heard(turn: number): void {
    this.#books.moments.hear()
    this.#arrive(turn)
    // Who tells it goes on until he is answered.
    if (turn === this.#turn) void this.#books.recorder.placed(turn)
  }

  /** What is said of another turn is out of date. */
  #arrive(turn: number): void {
    if (this.#is !== 'wanted' || turn !== this.#turn) return
    this.#is = 'taken'
    this.#shown?.()
    this.#books.hold.queue(false)
    this.#rest()
  }

  #named(): SlotGeneration {
    return { execution_id: this.#executionId, turn: this.#turn }
  }
}

/** Whoever is cancelled still has a place to give back, and needs one for what it undoes. */
const unendingly = <T>(work: () => Promise<T>): Promise<T> => CancellationScope.nonCancellable(work)
