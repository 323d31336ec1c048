/** Knows the builtins that order and group items by something, and those that work with paths. */

import type { Json, JsonObject } from '../../json.ts'
import { isObject } from '../../json.ts'
import { checkPath, getPath } from '../access.ts'
import { spend } from '../budget.ts'
import { Failure, failure } from '../failure.ts'
import {
  collect,
  type Env,
  eachValue,
  type Filter,
  ON,
  oneValue,
  type Run,
  recover,
  STOP,
  tick,
} from '../filter.ts'
import { pathsOf } from '../nodes/assign.ts'
import { pathOf, stepInto } from '../place.ts'
import { deletePaths } from '../update.ts'
import { compare, define, keysIn } from '../values.ts'
import { writeJson } from '../write.ts'
import type { FilterBuiltins } from './builtin.ts'

const NOT_SORTED = 'sorted, as they are not both arrays'

interface Keyed {
  readonly key: Json[]
  readonly item: Json
}

export const SELECTIONS: FilterBuiltins = {
  'sort_by/1': (f) =>
    oneValue((run, env, input) => sorted(run, env, input, f, NOT_SORTED).map(({ item }) => item)),
  'group_by/1': (f) =>
    oneValue((run, env, input) =>
      groups(run, sorted(run, env, input, f, NOT_SORTED)).map((group) => group.map(({ item }) => item)),
    ),
  'unique_by/1': (f) =>
    oneValue((run, env, input) =>
      groups(run, sorted(run, env, input, f, NOT_SORTED)).map(([first]) => first?.item ?? null),
    ),
  'min_by/1': (f) =>
    oneValue((run, env, input) => extreme(run, keyed(run, env, input, f, 'iterated over'), -1)),
  'max_by/1': (f) =>
    oneValue((run, env, input) => extreme(run, keyed(run, env, input, f, 'iterated over'), 1)),
  'path/1': (f) =>
    eachValue((run, env, input, emit) =>
      f.at(run, env, null, input, (place, value) => {
        const path = pathOf(place, value)
        spend(run.budget, 1 + path.length)
        return emit(path)
      }),
    ),
  'del/1': (f) => oneValue((run, env, input) => deletePaths(input, pathsOf(f, run, env, input), run.budget)),
  'getpath/1': getpath,
  'isvalid/1': (f) =>
    oneValue((run, env, input) => {
      const { depth } = run
      try {
        f.each(run, env, input, () => STOP)
        return true
      } catch (error) {
        if (!(error instanceof Failure)) throw error
        recover(run, depth)
        return false
      }
    }),
  'INDEX/2': (source, key) =>
    oneValue((run, env, input) => {
      const index: JsonObject = {}
      source.each(run, env, input, (row) =>
        key.each(run, env, row, (k) => {
          tick(run)
          define(index, typeof k === 'string' ? k : writeJson(k, run.budget), row)
          return ON
        }),
      )
      return index
    }),
}

/** All items with what they are ordered by. @throws Failure where it is no array */
function keyed(run: Run, env: Env, input: Json, f: Filter, what: string): Keyed[] {
  if (!Array.isArray(input)) {
    if (!isObject(input)) throw failure('Cannot iterate over %v', input)
    const keys = keysIn(input, run.budget).map((key) => {
      tick(run)
      return collect(f, run, env, input[key] ?? null)
    })
    throw failure(`%v and %v cannot be ${what}`, input, keys)
  }
  return input.map((item) => {
    tick(run)
    return { key: collect(f, run, env, item), item }
  })
}

function sorted(run: Run, env: Env, input: Json, f: Filter, what: string): Keyed[] {
  return keyed(run, env, input, f, what).sort((a, b) => compare(a.key, b.key, run.budget))
}

function groups(run: Run, items: readonly Keyed[]): Keyed[][] {
  const all: Keyed[][] = []
  for (const item of items) {
    const group = all.at(-1)
    const [first] = group ?? []
    if (group === undefined || first === undefined || compare(first.key, item.key, run.budget) !== 0)
      all.push([item])
    else group.push(item)
  }
  return all
}

/** The least (-1) or greatest (1); the first of equal least ones, the last of equal greatest ones. */
function extreme(run: Run, items: readonly Keyed[], sign: number): Json {
  let [best] = items
  for (const item of items.slice(1)) {
    const order = best === undefined ? 0 : compare(item.key, best.key, run.budget) * sign
    if (order > 0 || (order === 0 && sign > 0)) best = item
  }
  return best?.item ?? null
}

/** What is missing is null, also where something else is in the way and only its place is asked for. */
function getpath(f: Filter): Filter {
  const of = eachValue((run, env, input, emit) =>
    f.each(run, env, input, (path) => emit(getPath(input, checkPath(path), run.budget))),
  )
  const { one } = f
  return {
    one: one && ((run, env, input) => getPath(input, checkPath(one(run, env, input)), run.budget)),
    each: of.each,
    at: (run, env, place, input, emit) =>
      f.each(run, env, input, (path) => {
        const value = getPath(input, checkPath(path), run.budget)
        return emit(
          checkPath(path).reduce<typeof place>((here, key) => stepInto(here, key, input), place),
          value,
        )
      }),
  }
}
