/** Knows how arrays, objects and texts are built of what their parts yield. */

import type { Json, JsonObject } from '../../json.ts'
import { charge, checkSize, spend } from '../budget.ts'
import { formatValue } from '../builtins/formats.ts'
import type { Expression, Of } from '../expression.ts'
import { failure } from '../failure.ts'
import {
  collect,
  type Env,
  eachValue,
  type Filter,
  ON,
  oneValue,
  type Run,
  type Signal,
  tick,
} from '../filter.ts'
import type { Compile, Scope } from '../scope.ts'
import { define } from '../values.ts'

export function compileArray(node: Of<'array'>, scope: Scope, compile: Compile): Filter {
  const items = node.items.map((item) => compile(item, scope))
  const [only] = items
  if (items.length === 1 && only !== undefined) {
    return oneValue((run, env, input) => {
      tick(run)
      return collect(only, run, env, input)
    })
  }
  return oneValue((run, env, input) => {
    tick(run)
    const values: Json[] = []
    const push = (value: Json): Signal => {
      tick(run)
      values.push(value)
      return ON
    }
    for (const item of items) {
      if (item.one === undefined) item.each(run, env, input, push)
      else values.push(item.one(run, env, input))
    }
    return values
  })
}

interface Entry {
  readonly key: Filter
  /** Where the key is written as a name. */
  readonly name: string | undefined
  readonly value: Filter
}

/** The first entry is on the outside: `{a: (1, 2), b: (3, 4)}` yields both of `a: 1` first. */
export function compileObject(node: Of<'object'>, scope: Scope, compile: Compile): Filter {
  const entries = node.entries.map(([key, value]) => ({
    key: compile(key, scope),
    name: key.op === 'literal' && typeof key.value === 'string' ? key.value : undefined,
    value: compile(value, scope),
  }))
  const ones = entries.map(({ key, value }) => ({ key: key.one, value: value.one }))
  if (ones.every(({ key, value }) => key !== undefined && value !== undefined)) return plainObject(entries)
  const build = (
    run: Run,
    env: Env,
    input: Json,
    i: number,
    made: JsonObject,
    emit: (v: Json) => Signal,
  ): Signal => {
    const entry = entries[i]
    tick(run)
    if (entry === undefined) return emit(made)
    return entry.key.each(run, env, input, (key) =>
      entry.value.each(run, env, input, (value) => {
        spend(run.budget, 2 * i)
        const next = { ...made }
        define(next, keyOf(key), value)
        return build(run, env, input, i + 1, next, emit)
      }),
    )
  }
  return eachValue((run, env, input, emit) => build(run, env, input, 0, {}, emit))
}

function plainObject(entries: readonly Entry[]): Filter {
  return oneValue((run, env, input) => {
    tick(run)
    const object: JsonObject = {}
    for (const { key, name, value } of entries) {
      const field = name ?? keyOf(key.one?.(run, env, input) ?? null)
      const part = value.one?.(run, env, input) ?? null
      if (field === '__proto__') define(object, field, part)
      else object[field] = part
    }
    return object
  })
}

function keyOf(key: Json): string {
  if (typeof key === 'string') return key
  throw failure('Cannot use %v as object key', key)
}

/** What is put in is on the outside from the right. */
export function compileText(node: Of<'text'>, scope: Scope, compile: Compile): Filter {
  const { format = 'text' } = node
  const parts = node.parts.map((part, i) => textPart(part, i % 2 === 1, format, scope, compile))
  if (parts.every(({ one }) => one !== undefined)) {
    return oneValue((run, env, input) =>
      joined(
        run,
        parts.map(({ one }) => one?.(run, env, input) ?? ''),
      ),
    )
  }
  const build = (
    run: Run,
    env: Env,
    input: Json,
    i: number,
    after: readonly Json[],
    emit: (v: Json) => Signal,
  ): Signal => {
    const part = parts[i]
    if (part === undefined) return emit(joined(run, after))
    return part.each(run, env, input, (text) => build(run, env, input, i - 1, [text, ...after], emit))
  }
  return eachValue((run, env, input, emit) => build(run, env, input, parts.length - 1, [], emit))
}

function textPart(part: Expression, put: boolean, format: string, scope: Scope, compile: Compile): Filter {
  const filter = compile(part, scope)
  if (!put) return filter
  const { one } = filter
  if (one !== undefined) {
    return oneValue((run, env, input) => formatValue(format, one(run, env, input), run.budget))
  }
  return eachValue((run, env, input, emit) =>
    filter.each(run, env, input, (value) => emit(formatValue(format, value, run.budget))),
  )
}

function joined(run: Run, texts: readonly Json[]): string {
  let length = 0
  for (const text of texts) length += typeof text === 'string' ? text.length : 0
  checkSize(run.budget, length)
  charge(run.budget, length)
  return texts.join('')
}

export function compileFormat({ name }: Of<'format'>): Filter {
  return oneValue((run, _env, input) => {
    tick(run)
    return formatValue(name, input, run.budget)
  })
}
