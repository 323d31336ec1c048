/** Compiles the construction of arrays, objects and strings. */

import { charge, spend } from '../../budget.ts'
import type { Json, JsonObject } from '../../json.ts'
import { formatValue } from '../builtins/formats.ts'
import type { Node } from '../expression.ts'
import {
  applied,
  CONTINUE,
  type Emit,
  type EvalContext,
  eachValue,
  type Filter,
  oneValue,
  type Signal,
  tick,
} from '../filter.ts'
import { jqError } from '../jq-error.ts'
import { define } from '../operators.ts'
import type { Scope } from '../scope.ts'

export function compileArray(node: Node<'array'>, scope: Scope): Filter {
  const items = node.items.map((item) => scope.compile(item))
  return oneValue((context, env, input) => {
    tick(context)
    const values: Json[] = []
    const push: Emit = (value) => {
      tick(context)
      values.push(value)
      return CONTINUE
    }
    for (const item of items) {
      if (item.one === undefined) item.each(context, env, input, push)
      else values.push(item.one(context, env, input))
    }
    return values
  })
}

interface Entry {
  readonly key: Filter
  /** The key if it is a literal. */
  readonly name: string | undefined
  readonly value: Filter
}

/** The first entry varies slowest: `{a: (1, 2), b: (3, 4)}` yields both of `a: 1` first. */
export function compileObject(node: Node<'object'>, scope: Scope): Filter {
  const entries = node.entries.map(([key, value]) => ({
    key: scope.compile(key),
    name: key.op === 'literal' && typeof key.value === 'string' ? key.value : undefined,
    value: scope.compile(value),
  }))
  if (entries.every(({ key, value }) => key.one !== undefined && value.one !== undefined))
    return plainObject(entries)
  return eachValue((context, env, input, emit) => {
    const build = (i: number, made: JsonObject): Signal => {
      const entry = entries[i]
      tick(context)
      if (entry === undefined) return emit(made)
      return entry.key.each(context, env, input, (key) =>
        entry.value.each(context, env, input, (value) => {
          spend(context.budget, 2 * i)
          const next = { ...made }
          define(next, keyOf(key), value)
          return build(i + 1, next)
        }),
      )
    }
    return build(0, {})
  })
}

function plainObject(entries: readonly Entry[]): Filter {
  return oneValue((context, env, input) => {
    tick(context)
    const object: JsonObject = {}
    for (const { key, name, value } of entries) {
      const field = name ?? keyOf(key.one?.(context, env, input) ?? null)
      define(object, field, value.one?.(context, env, input) ?? null)
    }
    return object
  })
}

function keyOf(key: Json): string {
  if (typeof key === 'string') return key
  throw jqError('Cannot use %v as object key', key)
}

/** The last interpolated value varies slowest. */
export function compileText(node: Node<'text'>, scope: Scope): Filter {
  const { format = 'text' } = node
  const parts = node.parts.map((part, i): Filter => {
    const { one, each } = scope.compile(part)
    const isLiteral = i % 2 === 0
    if (isLiteral) return { one, each }
    return {
      one: one && ((context, env, input) => formatValue(format, one(context, env, input), context.budget)),
      each: (context, env, input, emit) =>
        each(context, env, input, (value) => emit(formatValue(format, value, context.budget))),
    }
  })
  if (parts.every(({ one }) => one !== undefined)) {
    return oneValue((context, env, input) => {
      const texts = parts.map(({ one }) => one?.(context, env, input) ?? '')
      return joined(context, texts)
    })
  }
  return eachValue((context, env, input, emit) => {
    const build = (i: number, after: readonly Json[]): Signal => {
      const part = parts[i]
      if (part === undefined) return emit(joined(context, after))
      return part.each(context, env, input, (text) => build(i - 1, [text, ...after]))
    }
    return build(parts.length - 1, [])
  })
}

function joined(context: EvalContext, texts: readonly Json[]): string {
  let length = 0
  for (const text of texts) length += typeof text === 'string' ? text.length : 0
  charge(context.budget, length)
  return texts.join('')
}

export function compileFormat({ name }: Node<'format'>): Filter {
  return applied(({ budget }, input) => formatValue(name, input, budget), [])
}
