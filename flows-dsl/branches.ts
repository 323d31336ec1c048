/**
 * Knows how parts of a run go on at the same time: one at a time between two effects, in an order that follows
 * from the effects alone. How many promises the interpreter makes must never decide which command comes first,
 * since histories are replayed by later interpreters.
 */

import type { Json } from './ir.ts'
import type { Effects, Ending, Outcome } from './tasks/task.ts'

/** What a branch keeps. */
interface Memory {
  context: Json
  /** Whether `context` was replaced since the memory was made. */
  isExported: boolean
}

/** One line of tasks that follow each other: the run as a whole, a branch of a fork, an attempt with a limit. */
export class Branch {
  readonly memory: Memory
  readonly #parent: Branch | undefined
  #isAbandoned = false

  constructor(memory: Memory, parent?: Branch) {
    this.memory = memory
    this.#parent = parent
  }

  get isAbandoned(): boolean {
    return this.#isAbandoned || this.#parent?.isAbandoned === true
  }

  abandon(): void {
    this.#isAbandoned = true
  }

  /** @throws Abandoned where nobody waits for the branch any more */
  check(): void {
    if (this.isAbandoned) throw new Abandoned()
  }
}

/** Ends a branch that nobody waits for. No FlowError, so nothing catches it and nothing is recorded of it. */
class Abandoned extends Error {}

type Work<T> = (branch: Branch) => Promise<T>

interface Part<T> {
  readonly branch: Branch
  readonly work: Work<T>
}

/** The parts that count and what they yielded: the one that decided, or all. */
interface Verdict<T> {
  readonly isDecided: boolean
  readonly parts: readonly { readonly branch: Branch; readonly value: T }[]
}

/** The turn of one run. Who has it runs, and gives it away only to wait for an effect, or at the end. */
export class Branches {
  readonly #effects: Effects
  readonly #waiting: (() => void)[] = []
  /** Who makes this has the first turn. */
  #isTaken = true

  constructor(effects: Effects) {
    this.#effects = effects
  }

  /**
   * Waits for an effect while others have their turns.
   * @throws what the effect has thrown, or Abandoned, without the turn, where nobody waits for the branch
   */
  async outside<T>(effect: Promise<T>, branch: Branch): Promise<T> {
    this.#give()
    try {
      return await effect
    } finally {
      await this.#turnOf(branch)
    }
  }

  /**
   * Each branch begins with the context there is and sees its own exports alone; afterwards the last of them,
   * in the order of declaration, that has exported gives the context.
   * @throws what the first to fail has thrown
   */
  async fork(works: readonly Work<Outcome>[], compete: boolean, parent: Branch): Promise<Ending> {
    const { context } = parent.memory
    const forked = works.map((work) => ({ branch: new Branch({ context, isExported: false }, parent), work }))
    const { isDecided, parts } = await this.#together(forked, ({ next }) => compete || next === 'end')
    const exported = parts.findLast(({ branch }) => branch.memory.isExported)
    if (exported !== undefined) Object.assign(parent.memory, exported.branch.memory)
    const outputs = parts.map(({ value }) => value.output)
    const ended = parts.some(({ value }) => value.next === 'end')
    return { output: isDecided ? (outputs[0] ?? null) : outputs, ended }
  }

  /** What the first to end yields; the others are given up. @throws what it has thrown, if that is how it ends */
  async first<T>(works: readonly [Work<T>, ...Work<T>[]], parent: Branch): Promise<T> {
    const limited = works.map((work) => ({ branch: new Branch(parent.memory, parent), work }))
    const [first] = (await this.#together(limited, () => true)).parts
    return (first as { readonly value: T }).value // There is one, since each value decides.
  }

  /**
   * Runs all parts, in their order, before whoever else waits for a turn. The first that fails, or whose value
   * `decides`, ends it: the others are cancelled then, and never have a turn again. Nobody has one between the
   * end of the last part and the answer.
   */
  #together<T>(parts: readonly Part<T>[], decides: (value: T) => boolean): Promise<Verdict<T>> {
    return new Promise((resolve, reject) => {
      const starts: (() => void)[] = []
      const values = new Map<Branch, T>()
      const stop = (by: Branch) => {
        for (const [index, { branch }] of parts.entries()) {
          if (branch === by) continue
          branch.abandon()
          scopes[index]?.cancel()
        }
      }
      const run = async ({ branch, work }: Part<T>): Promise<void> => {
        await new Promise<void>((start) => void starts.push(start))
        try {
          this.#check(branch)
          const value = await work(branch)
          values.set(branch, value)
          if (decides(value)) {
            stop(branch)
            resolve({ isDecided: true, parts: [{ branch, value }] })
          } else if (values.size < parts.length) this.#give()
          else resolve({ isDecided: false, parts: inOrder(parts, values) })
        } catch (error) {
          // Who was abandoned has no turn to give; `reject` tells no one then, or one who is abandoned too.
          if (!branch.isAbandoned) stop(branch)
          reject(error)
        }
      }
      const scopes = parts.map((part) => this.#effects.scope(() => run(part)))
      this.#waiting.unshift(...starts)
      this.#give()
    })
  }

  async #turnOf(branch: Branch): Promise<void> {
    branch.check()
    if (this.#isTaken) await new Promise<void>((resolve) => void this.#waiting.push(resolve))
    this.#isTaken = true
    this.#check(branch)
  }

  /** Of a branch that has the turn. */
  #check(branch: Branch): void {
    if (branch.isAbandoned) this.#give()
    branch.check()
  }

  #give(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#isTaken = false
    else next()
  }
}

function inOrder<T>(parts: readonly Part<T>[], values: ReadonlyMap<Branch, T>): Verdict<T>['parts'] {
  return parts.map(({ branch }) => ({ branch, value: values.get(branch) as T }))
}
