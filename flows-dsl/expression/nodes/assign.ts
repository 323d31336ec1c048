/** Knows how assignments make a changed copy of their input. */

import type { Json } from '../../json.ts'
import { getPath } from '../access.ts'
import type { BinaryOperator, Of } from '../expression.ts'
import { type Env, eachValue, type Filter, ON, oneValue, type Run, STOP, tick } from '../filter.ts'
import { pathOf } from '../place.ts'
import type { Compile, Scope } from '../scope.ts'
import { deletePaths, type Owned, setPath } from '../update.ts'
import { calculate, isTrue } from '../values.ts'

export function compileAssign(node: Of<'assign'>, scope: Scope, compile: Compile): Filter {
  const [left, right] = [compile(node.left, scope), compile(node.right, scope)]
  if (node.operator === '|=') {
    return oneValue((run, env, input) => modified(run, env, input, left, right))
  }
  const change = changeOf(node.operator)
  const assigned = (run: Run, env: Env, input: Json, value: Json): Json => {
    let result = input
    const owned: Owned = new Set()
    for (const path of pathsOf(left, run, env, input)) {
      const next = change(run, () => seen(getPath(result, path, run.budget), owned), value)
      result = setPath(result, path, next, run.budget, owned)
    }
    return result
  }
  const { one } = right
  if (one !== undefined) {
    return oneValue((run, env, input) => assigned(run, env, input, one(run, env, input)))
  }
  return eachValue((run, env, input, emit) =>
    right.each(run, env, input, (value) => emit(assigned(run, env, input, value))),
  )
}

type Change = (run: Run, before: () => Json, value: Json) => Json

function changeOf(operator: string): Change {
  if (operator === '=') return (_run, _before, value) => value
  if (operator === '//=') {
    return (_run, before, value) => {
      const there = before()
      return isTrue(there) ? there : value
    }
  }
  const calculated = operator.slice(0, 1) as BinaryOperator
  return (run, before, value) => calculate(calculated, before(), value, run.budget)
}

/** Where a filter's outputs stand in the input. @throws Failure where they stand nowhere */
export function pathsOf(filter: Filter, run: Run, env: Env, input: Json): Json[][] {
  const paths: Json[][] = []
  filter.at(run, env, null, input, (place, value) => {
    tick(run)
    paths.push(pathOf(place, value))
    return ON
  })
  return paths
}

/** `|=`: the first output of the update, or without the part where there is none. */
function modified(run: Run, env: Env, input: Json, left: Filter, update: Filter): Json {
  let result = input
  const gone: Json[][] = []
  const owned: Owned = new Set()
  for (const path of pathsOf(left, run, env, input)) {
    const before = seen(getPath(result, path, run.budget), owned)
    const after = firstOf(update, run, env, before)
    if (after === undefined) gone.push(path)
    else result = setPath(result, path, after, run.budget, owned)
  }
  return deletePaths(result, gone, run.budget)
}

/** A container that others see may be kept by them: from then on all are copied again. */
function seen(value: Json, owned: Owned): Json {
  if (typeof value === 'object' && value !== null) owned.clear()
  return value
}

/** The first output of a filter, if it has one. */
export function firstOf(filter: Filter, run: Run, env: Env, input: Json): Json | undefined {
  if (filter.one !== undefined) return filter.one(run, env, input)
  let first: Json | undefined
  filter.each(run, env, input, (value) => {
    first = value
    return STOP
  })
  return first
}
