/** Knows how a function can call itself for each output of something without using up the stack. */

import type { Json } from '../../json.ts'
import { Failure } from '../failure.ts'
import { type Each, type Filter, Leaving, ON, type Run, type Signal, STOP, settle } from '../filter.ts'

/**
 * `left | right` at the end of a function. Each output of `left` waits until the next one is there: so the last one
 * is passed on when `left` is done, and a call that `right` ends with needs no stack of its own.
 */
export function laterPipe(left: Filter, right: Filter): Each {
  return (run, env, input, emit) => {
    const waiting = new Waiting((value) => settle(run, right.each(run, env, value, emit), emit))
    const signal = waiting.fill(run, () => left.each(run, env, input, (value) => waiting.next(value)))
    const last = waiting.take()
    return last === undefined || signal === STOP ? signal : right.each(run, env, last.value, emit)
  }
}

class Waiting {
  readonly #pass: (value: Json) => Signal
  #value: { readonly value: Json } | undefined
  /** Whether it is the receiver who stopped or failed: then what waits is not wanted. */
  #below = false

  constructor(pass: (value: Json) => Signal) {
    this.#pass = pass
  }

  next(value: Json): Signal {
    const before = this.take()
    this.#value = { value }
    return before === undefined ? ON : this.#passOn(before.value)
  }

  take(): { readonly value: Json } | undefined {
    const value = this.#value
    this.#value = undefined
    return value
  }

  /** What came before an error or a `break` is passed on before that. */
  fill(run: Run, from: () => Signal): Signal {
    const { depth } = run
    try {
      const signal = from()
      if (signal === STOP) this.take()
      return signal
    } catch (error) {
      const last = this.take()
      if (this.#below || last === undefined) throw error
      if (!(error instanceof Failure || error instanceof Leaving)) throw error
      run.depth = depth
      if (this.#passOn(last.value) === STOP) return STOP
      throw error
    }
  }

  #passOn(value: Json): Signal {
    this.#below = true
    const signal = this.#pass(value)
    this.#below = signal === STOP
    return signal
  }
}
