/** Knows how a function can call itself for each output of something without using up the stack. */

import type { Json } from '../../json.ts'
import { Failure } from '../failure.ts'
import { type Emit, Leaving, ON, type Run, recover, type Signal, STOP, settleWithin } from '../filter.ts'

/**
 * What comes for each output of something, at the end of a function. Each output waits until the next one is there: so
 * the last one is passed on when all is done, and a call that it ends with needs no stack of its own.
 * @param levels of expressions around; while an output that is not the last is passed on, each takes twice the stack
 * @param then may give TAIL
 */
export function later(
  run: Run,
  levels: number,
  from: (emit: Emit) => Signal,
  then: (value: Json) => Signal,
  emit: Emit,
): Signal {
  const waiting = new Waiting((value) => settleWithin(run, levels * 2, then(value), emit))
  const signal = waiting.fill(run, () => from((value) => waiting.next(value)))
  const last = waiting.take()
  return last === undefined || signal === STOP ? signal : then(last.value)
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
      recover(run, depth)
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
