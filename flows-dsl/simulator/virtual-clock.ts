/** Knows virtual time: what is due later, in the order of time, and of two at the same time in that of planning. */

interface Due<T> {
  readonly atMs: number
  readonly seq: number
  readonly what: T
}

export class Clock<T> {
  nowMs: number
  readonly #due: Due<T>[] = []
  #seq = 0

  constructor(startMs: number) {
    this.nowMs = startMs
  }

  plan(atMs: number, what: T): void {
    const due = { atMs: Math.max(atMs, this.nowMs), seq: this.#seq++, what }
    let low = 0
    for (let high = this.#due.length; low < high; ) {
      const middle = (low + high) >>> 1
      if ((this.#due[middle]?.atMs ?? 0) > due.atMs) low = middle + 1
      else high = middle
    }
    // The last is the next: those of the same time that were planned before stand behind.
    this.#due.splice(low, 0, due)
  }

  /** Lets time pass until the next is due that is still wanted; for others no time passes. */
  next(isWanted: (what: T) => boolean): T | undefined {
    for (let due = this.#due.pop(); due !== undefined; due = this.#due.pop()) {
      if (!isWanted(due.what)) continue
      this.nowMs = due.atMs
      return due.what
    }
    return undefined
  }
}
