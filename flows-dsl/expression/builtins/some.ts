/** Knows the filters that pass on only some outputs of another: the first ones, the last one, all but some. */

import type { Json } from '../../json.ts'
import { spend } from '../budget.ts'
import { failure } from '../failure.ts'
import { type Filter, ON, type Signal, STOP, tick } from '../filter.ts'

/** What counting costs before anything is counted. */
const GATE_STEPS = 4

/** Passes over some outputs and on some; asks for no more than it needs. */
export function limited(f: Filter, skip: number, take: number): Filter {
  const gate = (emit: () => Signal): { readonly pass: () => Signal; readonly full: () => boolean } => {
    let [before, left] = [skip, take]
    let full = false
    const pass = (): Signal => {
      if (before-- > 0) return ON
      left--
      const signal = emit()
      full = signal !== STOP && left <= 0
      return full ? STOP : signal
    }
    return { pass, full: () => full }
  }
  return {
    one: undefined,
    each: (run, env, input, emit) => {
      if (take <= 0) return ON
      spend(run.budget, GATE_STEPS)
      let now: Json = null
      const { pass, full } = gate(() => emit(now))
      const signal = f.each(run, env, input, (value) => {
        tick(run)
        now = value
        return pass()
      })
      return full() ? ON : signal
    },
    at: (run, env, place, input, emit) => {
      if (take <= 0) return ON
      spend(run.budget, GATE_STEPS)
      let next: () => Signal = () => ON
      const { pass, full } = gate(() => next())
      const signal = f.at(run, env, place, input, (here, value) => {
        tick(run)
        next = () => emit(here, value)
        return pass()
      })
      return full() ? ON : signal
    },
  }
}

/** For each count, in turn. @param refusal of a count below 0 */
export function counted(
  count: Filter,
  name: string,
  filter: (n: number) => Filter,
  refusal?: string,
): Filter {
  const checked = (n: Json): Filter => {
    if (typeof n !== 'number') throw failure(`Invalid arguments to ${name}`)
    if (n < 0) throw failure(refusal ?? `${name} doesn't support negative count`)
    return filter(Math.ceil(n))
  }
  return {
    one: undefined,
    each: (run, env, input, emit) =>
      count.each(run, env, input, (n) => checked(n).each(run, env, input, emit)),
    at: (run, env, place, input, emit) =>
      count.each(run, env, input, (n) => checked(n).at(run, env, place, input, emit)),
  }
}

/** The last output, if there is one. */
export function last(f: Filter): Filter {
  return {
    one: undefined,
    each: (run, env, input, emit) => {
      let value: Json | undefined
      f.each(run, env, input, (next) => {
        tick(run)
        value = next
        return ON
      })
      return value === undefined ? ON : emit(value)
    },
    at: (run, env, place, input, emit) => {
      let then: (() => Signal) | undefined
      f.at(run, env, place, input, (here, next) => {
        tick(run)
        then = () => emit(here, next)
        return ON
      })
      return then === undefined ? ON : then()
    },
  }
}
