/** Knows how values get names: `as`, `reduce`, `foreach`, and the patterns that take a value apart. */

import type { Json } from '../../json.ts'
import { at } from '../access.ts'
import { type FieldPattern, type Of, type Pattern, variablesOf } from '../expression.ts'
import { Failure } from '../failure.ts'
import {
  type Env,
  type Filter,
  type InPlace,
  ON,
  oneValue,
  type Run,
  recover,
  type Signal,
  tick,
} from '../filter.ts'
import { readsInput, seen } from '../owned.ts'
import type { Place } from '../place.ts'
import { type Compile, heldAt, holdValue, type Scope } from '../scope.ts'
import type { Owned } from '../values.ts'

/** Gives a value its names and goes on with them, once for each way to take it apart. */
type Bind = (run: Run, env: Env, value: Json, then: (env: Env) => Signal) => Signal

interface Binding {
  readonly bind: Bind
  /** What sees the names. */
  readonly scope: Scope
}

function compileBinding(patterns: readonly Pattern[], scope: Scope, compile: Compile): Binding {
  const [first] = patterns
  if (first === undefined) return { bind: (_run, env, _value, then) => then(env), scope }
  if (patterns.length === 1) return compilePattern(first, scope, compile)
  return compileAlternatives(patterns, scope, compile)
}

function compilePattern(pattern: Pattern, scope: Scope, compile: Compile): Binding {
  if ('variable' in pattern) {
    return {
      bind: (run, env, value, then) => {
        tick(run)
        return then(holdValue(value, env))
      },
      scope: scope.hold('variable', pattern.variable),
    }
  }
  if ('array' in pattern) {
    return chain(
      pattern.array.map((item, i) => (inner) => {
        const { bind, scope: outer } = compilePattern(item, inner, compile)
        return {
          bind: (run, env, value, then) => bind(run, env, at(value, i, run.budget), then),
          scope: outer,
        }
      }),
      scope,
    )
  }
  return chain(
    pattern.object.map((field) => (inner) => compileField(field, inner, compile)),
    scope,
  )
}

function compileField(field: FieldPattern, scope: Scope, compile: Compile): Binding {
  const key = compile(field.key, scope)
  const named = field.variable === undefined ? scope : scope.hold('variable', field.variable)
  const parts = field.value === undefined ? undefined : compilePattern(field.value, named, compile)
  return {
    scope: parts?.scope ?? named,
    bind: (run, env, value, then) =>
      key.each(run, env, value, (k) => {
        tick(run)
        if (typeof k !== 'string') throw new Failure('Cannot index %t with %k', [value, k])
        const part = at(value, k, run.budget)
        const inner = field.variable === undefined ? env : holdValue(part, env)
        return parts === undefined ? then(inner) : parts.bind(run, inner, part, then)
      }),
  }
}

/** One after the other, on the same value; later ones see the names of earlier ones. */
function chain(steps: readonly ((scope: Scope) => Binding)[], scope: Scope): Binding {
  let whole: Binding = { bind: (_run, env, _value, then) => then(env), scope }
  for (const step of steps) {
    const { bind: before, scope: inner } = whole
    const next = step(inner)
    whole = {
      scope: next.scope,
      bind: (run, env, value, then) => before(run, env, value, (held) => next.bind(run, held, value, then)),
    }
  }
  return whole
}

/** `?//`: the next pattern where the one before fails, or what follows it does. All names exist, some are null. */
function compileAlternatives(patterns: readonly Pattern[], scope: Scope, compile: Compile): Binding {
  const names = [...new Set(patterns.flatMap(variablesOf))]
  const inner = names.reduce((held, name) => held.hold('variable', name), scope)
  const ways = patterns.map((pattern) => {
    const { bind, scope: own } = compilePattern(pattern, scope, compile)
    const hops = names.map((name) =>
      variablesOf(pattern).includes(name) ? own.find('variable', name) : undefined,
    )
    const all = (env: Env, held: Env): Env =>
      hops.reduce<Env>(
        (next, hop) => holdValue(hop === undefined ? null : heldAt(held, hop).value, next),
        env,
      )
    return (run: Run, env: Env, value: Json, then: (env: Env) => Signal): Signal =>
      bind(run, env, value, (held) => then(all(env, held)))
  })
  return { scope: inner, bind: (run, env, value, then) => firstWay(run, ways, env, value, then) }
}

function firstWay(
  run: Run,
  ways: readonly Bind[],
  env: Env,
  value: Json,
  then: (env: Env) => Signal,
): Signal {
  const { depth } = run
  const last = ways.length - 1
  for (const way of ways.slice(0, last)) {
    try {
      return way(run, env, value, then)
    } catch (error) {
      if (!(error instanceof Failure)) throw error
      recover(run, depth)
    }
  }
  return ways[last]?.(run, env, value, then) ?? ON
}

export function compileAs(node: Of<'as'>, scope: Scope, compile: Compile, tail: boolean): Filter {
  const source = compile(node.source, scope)
  const { bind, scope: inner } = compileBinding(node.patterns, scope, compile)
  const [pattern] = node.patterns
  const plain = node.patterns.length === 1 && pattern !== undefined && 'variable' in pattern
  const { one } = source
  const body = compile(node.body, inner, tail && plain && one !== undefined)
  const path: Filter['at'] = (run, env, place, input, emit) =>
    source.each(run, env, input, (value) =>
      bind(run, env, value, (held) => body.at(run, held, place, input, emit)),
    )
  if (plain && one !== undefined) {
    const bodyOne = body.one
    if (bodyOne !== undefined) {
      const whole = oneValue((run, env, input) => bodyOne(run, holdValue(one(run, env, input), env), input))
      const { inPlace: change } = body
      const reads = readsInput(node.source)
      const inPlace: InPlace | undefined =
        change &&
        ((run, env, input, owned) => {
          const value = one(run, env, input)
          return change(run, holdValue(reads ? seen(value, owned) : value, env), input, owned)
        })
      return { ...whole, at: path, inPlace }
    }
    return {
      one: undefined,
      each: (run, env, input, emit) => body.each(run, holdValue(one(run, env, input), env), input, emit),
      at: path,
    }
  }
  return {
    one: undefined,
    each: (run, env, input, emit) =>
      source.each(run, env, input, (value) =>
        bind(run, env, value, (held) => body.each(run, held, input, emit)),
      ),
    at: path,
  }
}

/** The state is the last output of the update, or null where it has none. */
export function compileReduce(node: Of<'reduce'>, scope: Scope, compile: Compile): Filter {
  const source = compile(node.source, scope)
  const init = compile(node.init, scope)
  const { bind, scope: inner } = compileBinding(node.patterns, scope, compile)
  const update = compile(node.update, inner)
  const { one: updateOne, inPlace } = update
  const reduced = (run: Run, env: Env, input: Json, from: Json): Json => {
    let state = from
    // The state is seen by the update alone: what the update has made of it, it may change again.
    const owned: Owned = new Set()
    const step = (held: Env): Signal => {
      tick(run)
      if (inPlace !== undefined) state = inPlace(run, held, state, owned)
      else if (updateOne !== undefined) state = updateOne(run, held, state)
      else {
        let next: Json = null
        update.each(run, held, state, (value) => {
          next = value
          return ON
        })
        state = next
      }
      return ON
    }
    source.each(run, env, input, (value) => bind(run, env, value, step))
    return state
  }
  const path: Filter['at'] = (run, env, place, input, emit) =>
    init.at(run, env, place, input, (from, start) => {
      let state: [Place, Json] = [from, start]
      source.each(run, env, input, (value) =>
        bind(run, env, value, (held) => {
          let next: [Place, Json] = [null, null]
          update.at(run, held, state[0], state[1], (here, found) => {
            next = [here, found]
            return ON
          })
          state = next
          return ON
        }),
      )
      return emit(state[0], state[1])
    })
  const initOne = init.one
  if (initOne !== undefined) {
    return { ...oneValue((run, env, input) => reduced(run, env, input, initOne(run, env, input))), at: path }
  }
  return {
    one: undefined,
    each: (run, env, input, emit) =>
      init.each(run, env, input, (from) => emit(reduced(run, env, input, from))),
    at: path,
  }
}

/** As `reduce`, but each state is put out, or what is extracted from it. */
export function compileForeach(node: Of<'foreach'>, scope: Scope, compile: Compile): Filter {
  const source = compile(node.source, scope)
  const init = compile(node.init, scope)
  const { bind, scope: inner } = compileBinding(node.patterns, scope, compile)
  const update = compile(node.update, inner)
  const extract = node.extract === null ? undefined : compile(node.extract, inner)
  return {
    one: undefined,
    each: (run, env, input, emit) =>
      init.each(run, env, input, (start) => {
        let state = start
        return source.each(run, env, input, (value) =>
          bind(run, env, value, (held) => {
            const before = state
            state = null
            return update.each(run, held, before, (next) => {
              tick(run)
              state = next
              return extract === undefined ? emit(next) : extract.each(run, held, next, emit)
            })
          }),
        )
      }),
    at: (run, env, place, input, emit) =>
      init.at(run, env, place, input, (from, start) => {
        let state: [Place, Json] = [from, start]
        return source.each(run, env, input, (value) =>
          bind(run, env, value, (held) => {
            const before = state
            state = [null, null]
            return update.at(run, held, before[0], before[1], (here, next) => {
              tick(run)
              state = [here, next]
              return extract === undefined ? emit(here, next) : extract.at(run, held, here, next, emit)
            })
          }),
        )
      }),
  }
}
