/** Compiles literals, variables, pipes, commas and operators. */

import { fieldOf, type Json } from '../../json.ts'
import type { Node } from '../expression.ts'
import {
  applied,
  CONTINUE,
  type Emit,
  type EvalContext,
  eachValue,
  type Filter,
  type InPlace,
  manyValues,
  type One,
  oneValue,
  pathFilter,
  type Signal,
  STOP,
  tick,
} from '../filter.ts'
import { jqError } from '../jq-error.ts'
import { addInPlace, isTrue, OPERATIONS, shared } from '../operators.ts'
import { entryAt, type Scope } from '../scope.ts'
import { heightOf, readsInput } from '../stack-depth.ts'
import { eachInTail } from '../trampolines.ts'

export function compileLiteral({ value }: Node<'literal'>): Filter {
  return oneValue((context) => {
    tick(context)
    return value
  })
}

/** A variable of the expression, or one of its environment. */
export function compileVariable({ name }: Node<'variable'>, scope: Scope): Filter {
  const distance = scope.find('variable', name)
  if (distance === undefined) return oneValue((context) => fieldOf(context.variables, name) ?? null)
  return oneValue((context, env) => {
    tick(context)
    return entryAt(env, distance).value
  })
}

export function compilePipe(node: Node<'pipe'>, scope: Scope, tail: boolean): Filter {
  const left = scope.compile(node.left)
  const right = scope.compile(node.right, tail)
  const levels = scope.level + heightOf(node)
  const { one: first, inPlace: firstInPlace } = left
  const { one: second, inPlace: secondInPlace } = right
  const inPlace: InPlace | undefined =
    firstInPlace &&
    secondInPlace &&
    ((context, env, input, owned) =>
      secondInPlace(context, env, firstInPlace(context, env, input, owned), owned))
  return {
    one: first && second && ((context, env, input) => second(context, env, first(context, env, input))),
    inPlace,
    each: (context, env, input, emit, path) => {
      if (path === undefined && first !== undefined)
        return right.each(context, env, first(context, env, input), emit)
      const then: Emit = (value, valuePath) => right.each(context, env, value, emit, valuePath)
      if (path !== undefined || !tail) return left.each(context, env, input, then, path)
      return eachInTail(context, levels, (next) => left.each(context, env, input, next), then, emit)
    },
  }
}

export function compileComma(node: Node<'comma'>, scope: Scope, tail: boolean): Filter {
  const last = node.items.length - 1
  const items = node.items.map((item, i) => scope.compile(item, tail && i === last))
  return manyValues((context, env, input, emit, path) => {
    let signal: Signal = CONTINUE
    for (const item of items) {
      signal = item.each(context, env, input, emit, path)
      if (signal === STOP) return STOP
    }
    return signal
  })
}

/** The right operand varies slowest: `(1, 2) + (10, 20)` yields 11, 12, 21, 22. */
export function compileBinary(node: Node<'binary'>, scope: Scope): Filter {
  const operation = OPERATIONS[node.operator]
  const [left, right] = [scope.compile(node.left), scope.compile(node.right)]
  const filter = applied(({ budget }, _input, a, b) => operation(a, b, budget), [left, right])
  const grows = node.operator === '+' && node.left.op === 'identity' && right.one !== undefined
  return grows ? { ...filter, inPlace: addToInput(right.one, readsInput(node.right)) } : filter
}

/** `. + …` extends the input in place. */
function addToInput(right: One, reads: boolean): InPlace {
  return (context, env, input, owned) => {
    tick(context)
    const value = right(context, env, input)
    return addInPlace(input, reads ? shared(value, owned) : value, context.budget, owned)
  }
}

export function compileNegate(node: Node<'negate'>, scope: Scope): Filter {
  const negate = (_context: EvalContext, _input: Json, value: Json): Json => {
    if (typeof value !== 'number') throw jqError('%v cannot be negated', value)
    return -value
  }
  return applied(negate, [scope.compile(node.of)])
}

export function compileNot(): Filter {
  return applied((_context, input) => !isTrue(input), [])
}

/** `and` and `or`: the right operand is evaluated only if the left one does not decide. */
export function compileLogic(node: Node<'and' | 'or'>, scope: Scope): Filter {
  const [left, right] = [scope.compile(node.left), scope.compile(node.right)]
  const decides = node.op === 'or'
  const [leftOne, rightOne] = [left.one, right.one]
  if (leftOne !== undefined && rightOne !== undefined) {
    return oneValue((context, env, input) => {
      tick(context)
      if (isTrue(leftOne(context, env, input)) === decides) return decides
      return isTrue(rightOne(context, env, input))
    })
  }
  return eachValue((context, env, input, emit) =>
    left.each(context, env, input, (value) => {
      tick(context)
      if (isTrue(value) === decides) return emit(decides)
      return right.each(context, env, input, (other) => emit(isTrue(other)))
    }),
  )
}

/** `a // b`: the true outputs of `a`, or those of `b` if there are none. */
export function compileAlternative(node: Node<'alternative'>, scope: Scope, tail: boolean): Filter {
  const left = scope.compile(node.left)
  const right = scope.compile(node.right, tail)
  const [leftOne, rightOne] = [left.one, right.one]
  const one: One | undefined =
    leftOne &&
    rightOne &&
    ((context, env, input) => {
      const value = leftOne(context, env, input)
      return isTrue(value) ? value : rightOne(context, env, input)
    })
  return pathFilter(one, (context, env, input, emit, path) => {
    let found = false
    const answer: Emit = (value, valuePath) => {
      tick(context)
      if (!isTrue(value)) return CONTINUE
      found = true
      return emit(value, valuePath)
    }
    const signal = left.each(context, env, input, answer, path)
    return found || signal === STOP ? signal : right.each(context, env, input, emit, path)
  })
}
