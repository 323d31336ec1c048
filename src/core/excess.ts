/** Input that has far too many of something: found before its other faults, which would be looked for in each of them. */

import { LIMITS } from './limits.ts'
import { cutToken } from './pointer.ts'

/** A place of the input, as a JSON pointer, and what is wrong there. */
export interface Excess {
  readonly pointer: string
  readonly detail: string
}

interface Bounds {
  readonly maxItems?: number
  readonly items?: Bounds
  readonly properties?: Readonly<Record<string, Bounds>>
  readonly additionalProperties?: unknown
}

/**
 * The first list that is longer than it may be, or the first object with more unknown members than are ever shown, of
 * which it names some; empty where there is neither.
 */
export function excessOf(schema: Bounds, value: unknown, pointer = ''): Excess[] {
  if (Array.isArray(value)) {
    const { maxItems = Number.POSITIVE_INFINITY, items } = schema
    if (value.length > maxItems) return [{ pointer, detail: `must not have more than ${maxItems} items` }]
    return items === undefined ? [] : first(value.entries(), () => items, pointer)
  }
  const { properties, additionalProperties } = schema
  if (typeof value !== 'object' || value === null || properties === undefined) return []
  const known = (name: string) => Object.hasOwn(properties, name)
  const unknown = additionalProperties === false ? Object.keys(value).filter((name) => !known(name)) : []
  // The library names each of them twice, and nothing but them where they are so many.
  if (unknown.length >= LIMITS.faultsShownMax)
    return unknown.slice(0, LIMITS.faultsShownMax).map(unknownIn(pointer))
  const members = Object.entries(value).filter(([name]) => known(name))
  return first(members, (name) => properties[name] ?? {}, pointer)
}

const unknownIn = (pointer: string) => (name: string) => ({
  pointer: `${pointer}/${cutToken(name)}`,
  detail: 'is not a known field',
})

function first<Name extends string | number>(
  members: Iterable<[Name, unknown]>,
  schemaOf: (name: Name) => Bounds,
  pointer: string,
): Excess[] {
  for (const [name, member] of members) {
    const found = excessOf(schemaOf(name), member, `${pointer}/${name}`)
    if (found.length > 0) return found
  }
  return []
}
