/** Knows how conditions, errors and labels decide what runs. */

import type { Json } from '../../json.ts'
import type { Of } from '../expression.ts'
import { Failure } from '../failure.ts'
import {
  type Env,
  type Filter,
  type InPlace,
  Leaving,
  ON,
  oneValue,
  type Run,
  recover,
  type Signal,
  tick,
} from '../filter.ts'
import { heightOf } from '../height.ts'
import { type Compile, heldAt, type Scope } from '../scope.ts'
import { isTrue } from '../values.ts'
import { later } from './later.ts'
import { IDENTITY } from './paths.ts'

export function compileIf(node: Of<'if'>, scope: Scope, compile: Compile, tail: boolean): Filter {
  const levels = scope.level + heightOf(node)
  const otherwise = node.otherwise === null ? IDENTITY : compile(node.otherwise, scope, tail)
  return node.branches.reduceRight<Filter>(
    (rest, [condition, then]) => choice(compile(condition, scope), compile(then, scope, tail), rest, levels),
    otherwise,
  )
}

function choice(condition: Filter, then: Filter, otherwise: Filter, levels: number): Filter {
  const [conditionOne, thenOne, otherwiseOne] = [condition.one, then.one, otherwise.one]
  const at: Filter['at'] = (run, env, place, input, emit) =>
    condition.each(run, env, input, (value) => {
      tick(run)
      return (isTrue(value) ? then : otherwise).at(run, env, place, input, emit)
    })
  if (conditionOne === undefined) {
    return {
      one: undefined,
      each: (run, env, input, emit) =>
        later(
          run,
          levels,
          (next) => condition.each(run, env, input, next),
          (value) => {
            tick(run)
            return (isTrue(value) ? then : otherwise).each(run, env, input, emit)
          },
          emit,
        ),
      at,
    }
  }
  if (thenOne !== undefined && otherwiseOne !== undefined) {
    const one = oneValue((run, env, input) => {
      tick(run)
      return (isTrue(conditionOne(run, env, input)) ? thenOne : otherwiseOne)(run, env, input)
    })
    const [thenIn, otherwiseIn] = [then.inPlace, otherwise.inPlace]
    const inPlace: InPlace = (run, env, input, owned) => {
      tick(run)
      const chosen = isTrue(conditionOne(run, env, input)) ? thenIn : otherwiseIn
      return chosen?.(run, env, input, owned) ?? null
    }
    return { ...one, at, inPlace: thenIn && otherwiseIn && inPlace }
  }
  return {
    one: undefined,
    each: (run, env, input, emit) => {
      tick(run)
      return (isTrue(conditionOne(run, env, input)) ? then : otherwise).each(run, env, input, emit)
    },
    at,
  }
}

/** `try body catch handler`: errors of what receives the outputs pass through. */
export function compileTry(node: Of<'try'>, scope: Scope, compile: Compile): Filter {
  const body = compile(node.body, scope)
  const handler = node.handler === null ? undefined : compile(node.handler, scope)
  return {
    one: undefined,
    each: (run, env, input, emit) => {
      const caught = attempt(run, handler !== undefined, (pass) =>
        body.each(run, env, input, (value) => pass(() => emit(value))),
      )
      if (!('failure' in caught)) return caught.signal
      return handler === undefined ? ON : handler.each(run, env, caught.failure, emit)
    },
    at: (run, env, place, input, emit) => {
      const caught = attempt(run, handler !== undefined, (pass) =>
        body.at(run, env, place, input, (here, value) => pass(() => emit(here, value))),
      )
      if (!('failure' in caught)) return caught.signal
      return handler === undefined ? ON : handler.at(run, env, place, caught.failure, emit)
    },
  }
}

type Attempt = { readonly signal: Signal } | { readonly failure: Json }

/** Runs something; `pass` marks what is not a part of it. @param isHandled whether the error is looked at */
function attempt(
  run: Run,
  isHandled: boolean,
  body: (pass: (below: () => Signal) => Signal) => Signal,
): Attempt {
  const { depth } = run
  let below = false
  const pass = (emit: () => Signal): Signal => {
    below = true
    const signal = emit()
    below = false
    return signal
  }
  try {
    return { signal: body(pass) }
  } catch (error) {
    if (below || !(error instanceof Failure)) throw error
    recover(run, depth)
    return { failure: isHandled ? error.caught(run.budget) : null }
  }
}

export function compileLabel(node: Of<'label'>, scope: Scope, compile: Compile): Filter {
  const body = compile(node.body, scope.hold('label', node.name))
  return {
    one: undefined,
    each: (run, env, input, emit) => labelled(run, env, (inner) => body.each(run, inner, input, emit)),
    at: (run, env, place, input, emit) =>
      labelled(run, env, (inner) => body.at(run, inner, place, input, emit)),
  }
}

function labelled(run: Run, env: Env, body: (env: Env) => Signal): Signal {
  const { depth } = run
  const label = new Leaving()
  try {
    return body({ value: null, closure: undefined, label, next: env })
  } catch (error) {
    if (error !== label) throw error
    recover(run, depth)
    return ON
  }
}

export function compileBreak(node: Of<'break'>, scope: Scope): Filter {
  const hops = scope.find('label', node.name) ?? 0
  const leave = (env: Env): never => {
    throw heldAt(env, hops).label ?? new Leaving()
  }
  return {
    one: undefined,
    each: (_run, env) => leave(env),
    at: (_run, env) => leave(env),
  }
}
