/** Knows how literals, variables, pipes, commas and operators run. */

import type { Json } from '../../json.ts'
import { fieldOf } from '../../json.ts'
import type { Of } from '../expression.ts'
import { failure } from '../failure.ts'
import {
  type Each,
  type Emit,
  eachValue,
  type Filter,
  type InPlace,
  ON,
  type One,
  oneValue,
  type Signal,
  STOP,
  tick,
} from '../filter.ts'
import { heightOf } from '../height.ts'
import { readsInput, seen } from '../owned.ts'
import { type Compile, heldAt, type Scope } from '../scope.ts'
import { addInPlace, calculate, isTrue } from '../values.ts'
import { later } from './later.ts'

export function compileLiteral({ value }: Of<'literal'>): Filter {
  return oneValue((run) => {
    tick(run)
    return value
  })
}

/** A name that is bound here, or one that the evaluation is given. */
export function compileVariable({ name }: Of<'variable'>, scope: Scope): Filter {
  const hops = scope.find('variable', name)
  if (hops === undefined) return oneValue((run) => fieldOf(run.variables, name) ?? null)
  return oneValue((run, env) => {
    tick(run)
    return heldAt(env, hops).value
  })
}

export function compilePipe(node: Of<'pipe'>, scope: Scope, compile: Compile, tail: boolean): Filter {
  const left = compile(node.left, scope)
  const right = compile(node.right, scope, tail)
  const at: Filter['at'] = (run, env, place, input, emit) =>
    left.at(run, env, place, input, (here, value) => right.at(run, env, here, value, emit))
  const { one } = left
  if (one === undefined) {
    return {
      one,
      each: tail ? laterPipe(left, right, scope.level + heightOf(node)) : eagerPipe(left, right),
      at,
    }
  }
  const then = right.one
  if (then !== undefined) {
    const inPlace = inPlacePipe(left, right)
    return { ...oneValue((run, env, input) => then(run, env, one(run, env, input))), at, inPlace }
  }
  return { one: then, each: (run, env, input, emit) => right.each(run, env, one(run, env, input), emit), at }
}

function inPlacePipe({ inPlace: first }: Filter, { inPlace: second }: Filter): InPlace | undefined {
  if (first === undefined || second === undefined) return undefined
  return (run, env, input, owned) => second(run, env, first(run, env, input, owned), owned)
}

function laterPipe(left: Filter, right: Filter, levels: number): Each {
  return (run, env, input, emit) =>
    later(
      run,
      levels,
      (next) => left.each(run, env, input, next),
      (value) => right.each(run, env, value, emit),
      emit,
    )
}

function eagerPipe(left: Filter, right: Filter): Each {
  return (run, env, input, emit) => {
    return left.each(run, env, input, (value) => right.each(run, env, value, emit))
  }
}

export function compileComma(node: Of<'comma'>, scope: Scope, compile: Compile, tail: boolean): Filter {
  const last = node.items.length - 1
  const items = node.items.map((item, i) => compile(item, scope, tail && i === last))
  return {
    one: undefined,
    each: (run, env, input, emit) => {
      let signal: Signal = ON
      for (const item of items) {
        signal = item.each(run, env, input, emit)
        if (signal === STOP) return STOP
      }
      return signal
    },
    at: (run, env, place, input, emit) => {
      for (const item of items) if (item.at(run, env, place, input, emit) === STOP) return STOP
      return ON
    },
  }
}

/** A filter of two others. The right one is on the outside: `(1, 2) + (10, 20)` is 11, 12, 21, 22. */
export function compileBinary(node: Of<'binary'>, scope: Scope, compile: Compile): Filter {
  const { operator } = node
  const [left, right] = [compile(node.left, scope), compile(node.right, scope)]
  const [leftOne, rightOne] = [left.one, right.one]
  if (leftOne !== undefined && rightOne !== undefined) {
    const plain = oneValue((run, env, input) => {
      tick(run)
      const b = rightOne(run, env, input)
      return calculate(operator, leftOne(run, env, input), b, run.budget)
    })
    const grows = operator === '+' && node.left.op === 'identity'
    return grows ? { ...plain, inPlace: growing(rightOne, readsInput(node.right)) } : plain
  }
  return eachValue((run, env, input, emit) => {
    return right.each(run, env, input, (b) =>
      left.each(run, env, input, (a) => {
        tick(run)
        return emit(calculate(operator, a, b, run.budget))
      }),
    )
  })
}

/** `. + …`: the sum takes the place of the input. */
function growing(right: One, reads: boolean): InPlace {
  return (run, env, input, owned) => {
    tick(run)
    const value = right(run, env, input)
    return addInPlace(input, reads ? seen(value, owned) : value, run.budget, owned)
  }
}

export function compileNegate(node: Of<'negate'>, scope: Scope, compile: Compile): Filter {
  return mapped(compile(node.of, scope), (value) => {
    if (typeof value !== 'number') throw failure('%v cannot be negated', value)
    return -value
  })
}

export function compileNot(): Filter {
  return mapped(
    { one: (_run, _env, input) => input, each: (_run, _env, input, emit) => emit(input), at: () => ON },
    (value) => !isTrue(value),
  )
}

function mapped(of: Filter, map: (value: Json) => Json): Filter {
  const { one } = of
  if (one !== undefined) {
    return oneValue((run, env, input) => {
      tick(run)
      return map(one(run, env, input))
    })
  }
  return eachValue((run, env, input, emit) => of.each(run, env, input, (value) => emit(map(value))))
}

/** `and` and `or`: the right side is asked only where the left one does not decide. */
export function compileLogic(node: Of<'pipe'>, scope: Scope, compile: Compile): Filter {
  const [left, right] = [compile(node.left, scope), compile(node.right, scope)]
  const decides = node.op === 'or'
  const [leftOne, rightOne] = [left.one, right.one]
  if (leftOne !== undefined && rightOne !== undefined) {
    return oneValue((run, env, input) => {
      tick(run)
      if (isTrue(leftOne(run, env, input)) === decides) return decides
      return isTrue(rightOne(run, env, input))
    })
  }
  return eachValue((run, env, input, emit) => {
    const truth: Emit = (value) => emit(isTrue(value))
    const answer: Emit = (value) => {
      tick(run)
      if (isTrue(value) === decides) return emit(decides)
      return right.each(run, env, input, truth)
    }
    return left.each(run, env, input, answer)
  })
}

/** `a // b`: all of a that is true, or b where nothing is. */
export function compileAlternative(node: Of<'pipe'>, scope: Scope, compile: Compile, tail: boolean): Filter {
  const left = compile(node.left, scope)
  const right = compile(node.right, scope, tail)
  const at: Filter['at'] = (run, env, place, input, emit) => {
    let found = false
    const answer = left.at(run, env, place, input, (here, value) => {
      tick(run)
      if (!isTrue(value)) return ON
      found = true
      return emit(here, value)
    })
    return found || answer === STOP ? answer : right.at(run, env, place, input, emit)
  }
  const [leftOne, rightOne] = [left.one, right.one]
  if (leftOne !== undefined && rightOne !== undefined) {
    const one = oneValue((run, env, input) => {
      const value = leftOne(run, env, input)
      return isTrue(value) ? value : rightOne(run, env, input)
    })
    return { ...one, at }
  }
  const each: Each = (run, env, input, emit) => {
    let found = false
    const answer: Emit = (value) => {
      tick(run)
      if (!isTrue(value)) return ON
      found = true
      return emit(value)
    }
    const signal = left.each(run, env, input, answer)
    return found || signal === STOP ? signal : right.each(run, env, input, emit)
  }
  return { one: undefined, each, at }
}
