/** Compiles conditions, `try`, labels and `break`. */

import type { Json } from '../../json.ts'
import type { Node } from '../expression.ts'
import {
  BreakSignal,
  CONTINUE,
  type Filter,
  IDENTITY,
  type InPlace,
  manyValues,
  type One,
  pathFilter,
  recover,
  tick,
} from '../filter.ts'
import { JqError } from '../jq-error.ts'
import { isTrue } from '../operators.ts'
import { entryAt, type Scope } from '../scope.ts'
import { heightOf } from '../stack-depth.ts'
import { eachInTail } from '../trampolines.ts'

export function compileIf(node: Node<'if'>, scope: Scope, tail: boolean): Filter {
  const levels = scope.level + heightOf(node)
  const otherwise = node.otherwise === null ? IDENTITY : scope.compile(node.otherwise, tail)
  return node.branches.reduceRight<Filter>(
    (rest, [condition, then]) => choice(scope.compile(condition), scope.compile(then, tail), rest, levels),
    otherwise,
  )
}

function choice(condition: Filter, then: Filter, otherwise: Filter, levels: number): Filter {
  const { one: test } = condition
  const [thenOne, otherwiseOne] = [then.one, otherwise.one]
  const [thenInPlace, otherwiseInPlace] = [then.inPlace, otherwise.inPlace]
  const one: One | undefined =
    test &&
    thenOne &&
    otherwiseOne &&
    ((context, env, input) => {
      tick(context)
      return (isTrue(test(context, env, input)) ? thenOne : otherwiseOne)(context, env, input)
    })
  const inPlace: InPlace | undefined =
    test &&
    thenInPlace &&
    otherwiseInPlace &&
    ((context, env, input, owned) => {
      tick(context)
      const chosen = isTrue(test(context, env, input)) ? thenInPlace : otherwiseInPlace
      return chosen(context, env, input, owned)
    })
  const filter = pathFilter(one, (context, env, input, emit, path) => {
    const branch = (value: Json) => {
      tick(context)
      return (isTrue(value) ? then : otherwise).each(context, env, input, emit, path)
    }
    if (path !== undefined) return condition.each(context, env, input, branch)
    if (test === undefined)
      return eachInTail(context, levels, (next) => condition.each(context, env, input, next), branch, emit)
    tick(context)
    const chosen = isTrue(test(context, env, input)) ? then : otherwise
    return chosen.each(context, env, input, emit)
  })
  return { ...filter, inPlace }
}

/** `try body catch handler`. Errors of the receiver of an output pass through. */
export function compileTry(node: Node<'try'>, scope: Scope): Filter {
  const body = scope.compile(node.body)
  const handler = node.handler === null ? undefined : scope.compile(node.handler)
  return manyValues((context, env, input, emit, path) => {
    const { depth } = context
    let isInReceiver = false
    let caught: Json = null
    try {
      return body.each(
        context,
        env,
        input,
        (value, valuePath) => {
          isInReceiver = true
          const signal = emit(value, valuePath)
          isInReceiver = false
          return signal
        },
        path,
      )
    } catch (error) {
      if (isInReceiver || !(error instanceof JqError)) throw error
      recover(context, depth)
      if (handler === undefined) return CONTINUE
      caught = error.caught(context.budget)
    }
    return handler.each(context, env, caught, emit, path)
  })
}

export function compileLabel(node: Node<'label'>, scope: Scope): Filter {
  const body = scope.bind('label', node.name).compile(node.body)
  return manyValues((context, env, input, emit, path) => {
    const { depth } = context
    const label = new BreakSignal()
    const inner = { value: null, closure: undefined, label, next: env }
    try {
      return body.each(context, inner, input, emit, path)
    } catch (error) {
      if (error !== label) throw error
      recover(context, depth)
      return CONTINUE
    }
  })
}

export function compileBreak(node: Node<'break'>, scope: Scope): Filter {
  const distance = scope.find('label', node.name) ?? 0
  return manyValues((_context, env) => {
    throw entryAt(env, distance).label ?? new BreakSignal()
  })
}
