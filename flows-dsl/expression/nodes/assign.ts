/** Knows how assignments make a changed copy of their input. */

import type { Json } from '../../json.ts'
import { getPath } from '../access.ts'
import type { BinaryOperator, Of } from '../expression.ts'
import {
  type Env,
  eachValue,
  type Filter,
  type InPlace,
  ON,
  oneValue,
  type Run,
  STOP,
  tick,
} from '../filter.ts'
import { readsInput, seen } from '../owned.ts'
import { pathOf } from '../place.ts'
import type { Compile, Scope } from '../scope.ts'
import { deletePaths, setPath } from '../update.ts'
import { calculate, isTrue, type Owned } from '../values.ts'

export function compileAssign(node: Of<'assign'>, scope: Scope, compile: Compile): Filter {
  const [left, right] = [compile(node.left, scope), compile(node.right, scope)]
  if (node.operator === '|=') {
    const inPlace: InPlace = (run, env, input, owned) => modified(run, env, input, { left, right, owned })
    return { ...oneValue((run, env, input) => inPlace(run, env, input, new Set())), inPlace }
  }
  const change = changeOf(node.operator)
  const assigned = (run: Run, env: Env, input: Json, value: Json, owned: Owned): Json => {
    let result = input
    for (const path of pathsOf(left, run, env, input)) {
      // What stood there stands in the result alone, and once.
      const next = change(run, () => getPath(result, path, run.budget), value)
      result = setPath(result, path, next, run.budget, owned)
    }
    return result
  }
  const { one } = right
  if (one !== undefined) {
    const reads = readsInput(node.right)
    const inPlace: InPlace = (run, env, input, owned) => {
      const value = one(run, env, input)
      return assigned(run, env, input, reads ? seen(value, owned) : value, owned)
    }
    return { ...oneValue((run, env, input) => inPlace(run, env, input, new Set())), inPlace }
  }
  return eachValue((run, env, input, emit) =>
    right.each(run, env, input, (value) => emit(assigned(run, env, input, value, new Set()))),
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
  tick(run)
  filter.at(run, env, null, input, (place, value) => {
    tick(run)
    paths.push(pathOf(place, value))
    return ON
  })
  return paths
}

interface Modification {
  readonly left: Filter
  readonly right: Filter
  readonly owned: Owned
}

/** `|=`: the first output of the update, or without the part where there is none. */
function modified(run: Run, env: Env, input: Json, { left, right, owned }: Modification): Json {
  let result = input
  const gone: Json[][] = []
  for (const path of pathsOf(left, run, env, input)) {
    const before = getPath(result, path, run.budget)
    const after = right.inPlace
      ? right.inPlace(run, env, before, owned)
      : firstOf(right, run, env, seen(before, owned))
    if (after === undefined) gone.push(path)
    else result = setPath(result, path, after, run.budget, owned)
  }
  return deletePaths(result, gone, run.budget)
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
