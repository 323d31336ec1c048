/** Compiles bindings: `as`, `reduce`, `foreach`, and the patterns that destructure a value. */

import type { Json } from '../../json.ts'
import { at } from '../access.ts'
import { type FieldPattern, type Node, type Pattern, variablesOf } from '../expression.ts'
import {
  CONTINUE,
  type Emit,
  type Env,
  type EvalContext,
  type Filter,
  type InPlace,
  manyValues,
  type Path,
  pathFilter,
  recover,
  type Signal,
  tick,
} from '../filter.ts'
import { JqError, jqError } from '../jq-error.ts'
import { type Owned, shared } from '../operators.ts'
import { bindValue, entryAt, type Scope } from '../scope.ts'
import { readsInput } from '../stack-depth.ts'

/** Binds the variables of a pattern and continues, once for each way to destructure the value. */
type Bind = (context: EvalContext, env: Env, value: Json, then: (env: Env) => Signal) => Signal

interface Binding {
  readonly bind: Bind
  /** The scope of what can use the variables. */
  readonly scope: Scope
}

function compileBinding(patterns: readonly Pattern[], scope: Scope): Binding {
  const [first] = patterns
  return patterns.length === 1 && first !== undefined
    ? compilePattern(first, scope)
    : compileAlternatives(patterns, scope)
}

function compilePattern(pattern: Pattern, scope: Scope): Binding {
  if ('variable' in pattern) {
    return {
      bind: (context, env, value, then) => {
        tick(context)
        return then(bindValue(value, env))
      },
      scope: scope.bind('variable', pattern.variable),
    }
  }
  const start: Binding = { bind: (_context, env, _value, then) => then(env), scope }
  if ('object' in pattern) {
    return pattern.object.reduce((whole, field) => inSequence(whole, compileField(field, whole.scope)), start)
  }
  return pattern.array.reduce((whole, item, i) => {
    const { bind, scope: inner } = compilePattern(item, whole.scope)
    const ofItem: Bind = (context, env, value, then) => bind(context, env, at(value, i, context.budget), then)
    return inSequence(whole, { bind: ofItem, scope: inner })
  }, start)
}

function compileField(field: FieldPattern, scope: Scope): Binding {
  const key = scope.compile(field.key)
  const named = field.variable === undefined ? scope : scope.bind('variable', field.variable)
  const parts = field.value === undefined ? undefined : compilePattern(field.value, named)
  return {
    scope: parts?.scope ?? named,
    bind: (context, env, value, then) =>
      key.each(context, env, value, (k) => {
        tick(context)
        if (typeof k !== 'string') throw jqError('Cannot index %t with %k', value, k)
        const part = at(value, k, context.budget)
        const inner = field.variable === undefined ? env : bindValue(part, env)
        return parts === undefined ? then(inner) : parts.bind(context, inner, part, then)
      }),
  }
}

/** Two patterns on the same value; the later one sees the variables of the earlier one. */
function inSequence({ bind: before }: Binding, next: Binding): Binding {
  return {
    scope: next.scope,
    bind: (context, env, value, then) =>
      before(context, env, value, (inner) => next.bind(context, inner, value, then)),
  }
}

/**
 * `?//`: tries the next pattern if the one before fails, or if what follows it does. All variables exist; those of
 * other patterns are null.
 */
function compileAlternatives(patterns: readonly Pattern[], scope: Scope): Binding {
  const names = [...new Set(patterns.flatMap(variablesOf))]
  const inner = names.reduce((outer, name) => outer.bind('variable', name), scope)
  const alternatives = patterns.map((pattern): Bind => {
    const { bind, scope: own } = compilePattern(pattern, scope)
    const distances = names.map((name) =>
      variablesOf(pattern).includes(name) ? own.find('variable', name) : undefined,
    )
    const allVariables = (env: Env, bound: Env): Env =>
      distances.reduce<Env>(
        (next, distance) => bindValue(distance === undefined ? null : entryAt(bound, distance).value, next),
        env,
      )
    return (context, env, value, then) => bind(context, env, value, (bound) => then(allVariables(env, bound)))
  })
  return {
    scope: inner,
    bind: (context, env, value, then) => {
      const { depth } = context
      for (const alternative of alternatives.slice(0, -1)) {
        try {
          return alternative(context, env, value, then)
        } catch (error) {
          if (!(error instanceof JqError)) throw error
          recover(context, depth)
        }
      }
      return alternatives.at(-1)?.(context, env, value, then) ?? CONTINUE
    },
  }
}

export function compileAs(node: Node<'as'>, scope: Scope, tail: boolean): Filter {
  const source = scope.compile(node.source)
  const { bind, scope: inner } = compileBinding(node.patterns, scope)
  const [pattern] = node.patterns
  const isPlain = node.patterns.length === 1 && pattern !== undefined && 'variable' in pattern
  const sourceOne = isPlain ? source.one : undefined
  const body = inner.compile(node.body, tail && sourceOne !== undefined)
  const each: Filter['each'] = (context, env, input, emit, path) =>
    source.each(context, env, input, (value) =>
      bind(context, env, value, (bound) => body.each(context, bound, input, emit, path)),
    )
  if (sourceOne === undefined) return { one: undefined, each }
  const { one: bodyOne, inPlace: change } = body
  const reads = readsInput(node.source)
  const inPlace: InPlace | undefined =
    change &&
    ((context, env, input, owned) => {
      const value = sourceOne(context, env, input)
      return change(context, bindValue(reads ? shared(value, owned) : value, env), input, owned)
    })
  return {
    one:
      bodyOne &&
      ((context, env, input) => bodyOne(context, bindValue(sourceOne(context, env, input), env), input)),
    inPlace,
    each: (context, env, input, emit, path) =>
      path === undefined
        ? body.each(context, bindValue(sourceOne(context, env, input), env), input, emit)
        : each(context, env, input, emit, path),
  }
}

/** The state is the last output of the update, or null if it has none. */
export function compileReduce(node: Node<'reduce'>, scope: Scope): Filter {
  const source = scope.compile(node.source)
  const init = scope.compile(node.init)
  const { bind, scope: inner } = compileBinding(node.patterns, scope)
  const update = inner.compile(node.update)
  const { one, inPlace } = update
  const fold = (context: EvalContext, env: Env, input: Json, start: Json, from?: Path): [Json, Path] => {
    let [state, path] = [start, from]
    // Only the update sees the state, so it may change in place what it has made itself.
    const owned: Owned = new Set()
    const step = (bound: Env): Signal => {
      tick(context)
      if (path === undefined && inPlace !== undefined) state = inPlace(context, bound, state, owned)
      else if (path === undefined && one !== undefined) state = one(context, bound, state)
      else {
        let [next, nextPath]: [Json, Path] = [null, path && null]
        const keep: Emit = (value, valuePath) => {
          next = value
          nextPath = valuePath
          return CONTINUE
        }
        update.each(context, bound, state, keep, path)
        state = next
        path = nextPath
      }
      return CONTINUE
    }
    source.each(context, env, input, (value) => bind(context, env, value, step))
    return [state, path]
  }
  const { one: initOne } = init
  return pathFilter(
    initOne && ((context, env, input) => fold(context, env, input, initOne(context, env, input))[0]),
    (context, env, input, emit, path) => {
      const each: Emit = (start, from) => emit(...fold(context, env, input, start, from))
      return init.each(context, env, input, each, path)
    },
  )
}

/** As `reduce`, but it yields each state, or what is extracted from it. */
export function compileForeach(node: Node<'foreach'>, scope: Scope): Filter {
  const source = scope.compile(node.source)
  const init = scope.compile(node.init)
  const { bind, scope: inner } = compileBinding(node.patterns, scope)
  const update = inner.compile(node.update)
  const extract = node.extract === null ? undefined : inner.compile(node.extract)
  return manyValues((context, env, input, emit, path) => {
    const fold: Emit = (start, from) => {
      let [state, statePath] = [start, from]
      const step = (bound: Env): Signal => {
        const [before, beforePath] = [state, statePath]
        state = null
        statePath = path && null
        const next: Emit = (value, valuePath) => {
          tick(context)
          state = value
          statePath = valuePath
          return extract === undefined
            ? emit(value, valuePath)
            : extract.each(context, bound, value, emit, valuePath)
        }
        return update.each(context, bound, before, next, beforePath)
      }
      return source.each(context, env, input, (value) => bind(context, env, value, step))
    }
    return init.each(context, env, input, fold, path)
  })
}
