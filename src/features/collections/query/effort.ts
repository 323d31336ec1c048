/** Bounds the work of evaluating a filter in this process, where nothing else runs meanwhile. */

export class EffortExhausted extends Error {}

/** The steps that are left for one evaluation. A step takes a few nanoseconds. */
export class Effort {
  #left: number

  constructor(stepsMax: number) {
    this.#left = stepsMax
  }

  /** @throws EffortExhausted if no step is left */
  spend(steps: number): void {
    this.#left -= steps
    if (this.#left < 0) throw new EffortExhausted()
  }
}

/** Characters and elements that native code compares in a step. */
export const AT_ONCE = 8
