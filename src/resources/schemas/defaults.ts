/** `default` of declared properties: what a document gets where it says nothing. */

import { isObject, token } from '../../core/json.ts'
import type { SchemaObject } from './language.ts'

/** By property: its own default, and those of the members below it. */
export type Defaults = ReadonlyMap<string, { readonly own?: unknown; readonly below: Defaults }>

/** References and alternatives are not followed: a default stands at the property that it is for. */
export function defaultsOf(schema: SchemaObject): Defaults {
  const found = Object.entries(Object(schema['properties'])).flatMap(([name, property]) => {
    const said = Object(property) as SchemaObject
    const below = defaultsOf(said)
    const own = Object.hasOwn(said, 'default') ? { own: said['default'] } : {}
    return 'own' in own || below.size > 0 ? [[name, { ...own, below }] as const] : []
  })
  return new Map(found)
}

/**
 * The fields with what is missing of them. Members of an object that is there get theirs too.
 * @returns the same object where nothing is missing
 */
export function withDefaults(
  defaults: Defaults,
  fields: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const added = [...defaults].flatMap(([name, { own, below }]): [string, unknown][] => {
    const there = Object.hasOwn(fields, name)
    if (!there && own === undefined) return []
    const value = there ? fields[name] : structuredClone(own)
    const filled = isObject(value) ? withDefaults(below, value) : value
    return there && filled === value ? [] : [[name, filled]]
  })
  // Entries become own members whatever their name, `__proto__` too.
  return added.length === 0 ? fields : Object.fromEntries([...Object.entries(fields), ...added])
}

/** Every property with a default of its own, with its pointer in the schema. */
export function propertiesWithDefault(schema: SchemaObject, pointer = ''): [string, SchemaObject][] {
  return Object.entries(Object(schema['properties'])).flatMap(([name, property]) => {
    const said = Object(property) as SchemaObject
    const at = `${pointer}/properties/${token(name)}`
    const own: [string, SchemaObject][] = Object.hasOwn(said, 'default') ? [[at, said]] : []
    return [...own, ...propertiesWithDefault(said, at)]
  })
}
