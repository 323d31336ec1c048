/** Knows a definition as data with places: every value says where in the source it stands. */

import { type Json, objectOf, unescaped } from './json.ts'

/** `line` and `column` (in UTF-16 units) count from 1. */
export interface Place {
  readonly line: number
  readonly column: number
  /** JSON pointer of the value. */
  readonly pointer: string
}

export type Located = LocatedScalar | LocatedList | LocatedMap | LocatedRefused

export interface LocatedScalar extends Place {
  readonly kind: 'scalar'
  readonly value: string | number | boolean | null
  /**
   * The place of a character of the value, where the source shows the value as it is; else the value's place.
   */
  readonly placeOf: (offset: number) => Place
}

interface LocatedList extends Place {
  readonly kind: 'list'
  readonly items: readonly Located[]
}

export interface LocatedMap extends Place {
  readonly kind: 'map'
  readonly entries: readonly LocatedEntry[]
}

export interface LocatedEntry {
  readonly key: string
  /** The place of the key. */
  readonly at: Place
  readonly value: Located
}

/** A value that already has a fault, in the place where it stood. */
export interface LocatedRefused extends Place {
  readonly kind: 'refused'
}

/** The value of a key, or nothing. */
export function entryOf(map: LocatedMap, key: string): LocatedEntry | undefined {
  return map.entries.find((entry) => entry.key === key)
}

/** The value without its places; what was refused is null. */
export function plainOf(value: Located): Json {
  if (value.kind === 'scalar') return value.value
  if (value.kind === 'list') return value.items.map(plainOf)
  if (value.kind === 'refused') return null
  return objectOf(value.entries.map(({ key, value: inner }) => [key, plainOf(inner)]))
}

/** What stands at a JSON pointer, with the place of its key where it has one. */
export function findAt(root: Located, pointer: string): { at: Place; value: Located } | undefined {
  let found: { at: Place; value: Located } | undefined = { at: root, value: root }
  for (const step of pointer.split('/').slice(1)) {
    const key = unescaped(step)
    const value: Located | undefined = found?.value
    if (value?.kind === 'map') found = entryOf(value, key)
    else {
      const item: Located | undefined = value?.kind === 'list' ? value.items[Number(key)] : undefined
      found = item && { at: item, value: item }
    }
  }
  return found
}

/** What a value is, in the words of a message. */
export function nameOf(value: Located): string {
  if (value.kind === 'map') return 'a mapping'
  if (value.kind === 'list') return 'a list'
  if (value.kind === 'refused') return 'refused'
  return value.value === null ? 'empty' : `a ${typeof value.value}`
}
