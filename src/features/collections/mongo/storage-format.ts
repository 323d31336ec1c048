/** Encodes JSON documents for MongoDB: storable names and arrays, and sortable keys to query by. */

import type { Json } from '../../../core/work.ts'
import type { Fields } from '../document.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { isIndex } from '../query/filter.ts'
import { keyOf } from '../query/sort-keys.ts'
import { canonicalOf, FORMATS, type Format } from '../schemas/canonical-text.ts'

/**
 * An array is stored as the only member of an object: MongoDB would otherwise test its elements implicitly, and now only
 * does so if a path names them.
 */
export const ARRAY = '[]'

/**
 * Percent-encodes the characters of a member's name that have a meaning to MongoDB or to us: dots separate, a dollar
 * begins an operator, a whole number may be an index.
 */
export function storedName(name: string): string {
  if (name === '') return '%'
  const escaped = name.replaceAll(/[%.$/[]/g, code)
  return isIndex(name) ? code(name[0] ?? '') + name.slice(1) : escaped
}

const code = (char: string) => `%${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`

function originalName(name: string): string {
  if (name === '%') return ''
  return name.replaceAll(/%([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}

type Members = Record<string, unknown>

export const toStored = (fields: Fields): Members => storedValue(fields) as Members
export const fromStored = (stored: object): Fields => originalValue(stored) as Fields

/** Entries become own members, `__proto__` too. */
export function storedValue(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return { [ARRAY]: value.map(storedValue) }
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [storedName(name), storedValue(member)]),
  )
}

function originalValue(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const elements = (value as Members)[ARRAY]
  if (Array.isArray(elements)) return elements.map(originalValue)
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [originalName(name), originalValue(member)]),
  )
}

/** 2: texts have keys of their canonical texts. */
export const FORM = 2

/** The name of the key of a path, or of its canonical text. No stored name has a bracket. */
export const keyName = (path: readonly string[], as?: Format): string =>
  path.map(storedName).join('/') + (as === undefined ? '' : `[${as}]`)

/**
 * The key of each value to which a path of member names leads. Null has none, nor have paths that no query can name, so
 * their number is bounded by the names in the document. Top-level texts also have keys of their canonical texts, since
 * a later declaration may give them a format.
 */
export function keysOf(fields: Fields): Record<string, string> {
  const keys: [string, string][] = []
  const visit = (value: unknown, path: readonly string[]): void => {
    if (value === null || value === undefined) return
    if (path.length > 0) keys.push([keyName(path), keyOf(value as Exclude<Json, null>)])
    if (path.length === 1 && typeof value === 'string') keys.push(...canonicalKeys(path, value))
    if (typeof value !== 'object' || Array.isArray(value) || path.length >= COLLECTION_LIMITS.pathDepthMax)
      return
    for (const [name, member] of Object.entries(value)) {
      if (name !== '' && Buffer.byteLength(name) <= COLLECTION_LIMITS.fieldNameBytesMax)
        visit(member, [...path, name])
    }
  }
  visit(fields, [])
  return Object.fromEntries(keys)
}

const canonicalKeys = (path: readonly string[], text: string): [string, string][] =>
  FORMATS.flatMap((format): [string, string][] => {
    const canonical = canonicalOf(format, text)
    return canonical === undefined ? [] : [[keyName(path, format), keyOf(canonical)]]
  })
