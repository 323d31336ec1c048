/** Knows the few forms that the schema of the language is made of (JSON Schema 2020-12). */

import type { Json, JsonObject } from '../json.ts'

export type Schema = JsonObject

type Properties = Readonly<Record<string, Schema>>

/** A mapping with these keys and no others. */
export function mapping(
  description: string,
  properties: Properties,
  required: readonly string[] = [],
): Schema {
  return {
    description,
    type: 'object',
    properties: { ...properties },
    ...(required.length > 0 && { required: [...required] }),
    additionalProperties: false,
  }
}

/** A mapping of names that the author chooses. */
export function named(description: string, each: Schema, names: Schema = {}): Schema {
  return { description, type: 'object', propertyNames: names, additionalProperties: each }
}

/** A list of mappings, each of one name. */
export function namedList(description: string, each: Schema, names: Schema = {}): Schema {
  const item = {
    ...named('One name, with what it stands for below.', each, names),
    minProperties: 1,
    maxProperties: 1,
  }
  return { description, type: 'array', items: item, minItems: 1 }
}

export function list(description: string, items: Schema, more: Schema = {}): Schema {
  return { description, type: 'array', items, ...more }
}

export function text(description: string, more: Schema = {}): Schema {
  return { description, type: 'string', ...more }
}

/** One of several words; the first is what counts where nothing is said, if `isDefault`. */
export function word(description: string, words: readonly string[], isDefault = false): Schema {
  const fallback = words[0] ?? ''
  return { description, enum: [...words], ...(isDefault && { default: fallback }) }
}

export function flag(fallback: boolean): Schema {
  return { type: 'boolean', default: fallback }
}

/** What stands under that name in `$defs`. */
export function ref(name: string, description?: string): Schema {
  return { ...(description !== undefined && { description }), $ref: `#/$defs/${name}` }
}

/** The first of these that fits. */
export function either(description: string, ...schemas: readonly Schema[]): Schema {
  return { description, anyOf: [...schemas] }
}

/** `if`, `then` and `else`, whose middle word is one of JavaScript's too. */
export function when(condition: Json, consequence: Schema, otherwise?: Schema): Schema {
  const more: [string, Json][] = otherwise === undefined ? [] : [['else', otherwise]]
  return Object.fromEntries([['if', condition], ['then', consequence], ...more])
}

/** A key of the language that JavaScript has as well, so that it is no property of a literal. */
export const THEN = 'then'
