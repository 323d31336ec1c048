/** Finds in a value what the record of an execution cannot store: NUL, half a surrogate pair, too many levels, too many bytes. */

import { DEPTH_MAX } from './budget.ts'
import { ERRORS, type ErrorKind } from './errors.ts'
import { type Json, objectOf, pointerTo, storableText, utf8Length } from './json.ts'

/** Of the output of a task or a flow as JSON in UTF-8; readers hold all of it in memory. */
const STORED_BYTES_MAX = 4_194_304
/** A character of a text takes at most so many bytes as JSON (`\u0001`). */
const CHAR_BYTES_MAX = 6

/** The reason why a value cannot be stored. */
interface Flaw {
  readonly kind: ErrorKind
  /** It is a character of a text. */
  readonly isText: boolean
  /** A predicate: `has NUL at /name`. */
  readonly reason: string
}

/** Takes time in proportion to the value, at most to `STORED_BYTES_MAX`. @returns undefined if the value can be stored */
export function storageFlaw(value: Json): Flaw | undefined {
  const walk = new Walk()
  const found = walk.find(value, 1)
  if (found !== undefined) {
    const { what, isText, keys } = found
    return { kind: ERRORS.validation, isText, reason: `${what}${placeOf(keys)}` }
  }
  const isSmall = walk.chars * CHAR_BYTES_MAX <= STORED_BYTES_MAX
  const isTooLarge = walk.isTooLarge || (!isSmall && utf8Length(JSON.stringify(value)) > STORED_BYTES_MAX)
  if (!isTooLarge) return undefined
  return { kind: ERRORS.runtime, isText: false, reason: `is larger than ${STORED_BYTES_MAX} bytes` }
}

/** The value with U+FFFD in place of NUL and half surrogate pairs; null if it is too large or too deep. */
export function toStorable(value: Json): Json {
  const flaw = storageFlaw(value)
  if (flaw === undefined) return value
  const repaired = flaw.isText ? repair(value, 1) : null
  return storageFlaw(repaired) === undefined ? repaired : null
}

/** The first value that a walk has found, with the keys of its location from the innermost to the outermost. */
interface Found {
  readonly what: string
  readonly isText: boolean
  readonly keys: (string | number)[]
}

class Walk {
  /** Fewer than the value has as JSON. */
  chars = 0

  get isTooLarge(): boolean {
    return this.chars > STORED_BYTES_MAX
  }

  find(value: Json, depth: number): Found | undefined {
    if (typeof value === 'string') return this.#text(value, 'has')
    this.chars += 1
    if (typeof value !== 'object' || value === null || this.isTooLarge) return undefined
    if (depth > DEPTH_MAX)
      return { what: `is nested deeper than ${DEPTH_MAX} levels`, isText: false, keys: [] }
    return Array.isArray(value) ? this.#items(value, depth) : this.#members(value, depth)
  }

  #items(items: readonly Json[], depth: number): Found | undefined {
    for (const [index, item] of items.entries()) {
      const found = this.find(item, depth + 1)
      if (found !== undefined) return within(found, index)
    }
    return undefined
  }

  #members(members: { readonly [key: string]: Json }, depth: number): Found | undefined {
    for (const key in members) {
      const flawedKey = this.#text(key, 'has a key with')
      if (flawedKey !== undefined) return flawedKey
      const found = this.find(members[key] ?? null, depth + 1)
      if (found !== undefined) return within(found, key)
    }
    return undefined
  }

  #text(text: string, has: string): Found | undefined {
    this.chars += text.length + 2
    const isNul = text.includes('\u0000')
    if (!isNul && text.isWellFormed()) return undefined
    const what = isNul ? 'the character NUL (U+0000)' : 'half of a surrogate pair'
    return { what: `${has} ${what}`, isText: true, keys: [] }
  }
}

function within(found: Found, key: string | number): Found {
  found.keys.push(key)
  return found
}

const placeOf = (keys: readonly (string | number)[]): string =>
  keys.length === 0 ? '' : ` at ${keys.reduceRight<string>(pointerTo, '')}`

function repair(value: Json, depth: number): Json {
  if (typeof value === 'string') return storableText(value)
  if (typeof value !== 'object' || value === null || depth > DEPTH_MAX) return value
  if (Array.isArray(value)) return value.map((item) => repair(item, depth + 1))
  return objectOf(Object.entries(value).map(([key, of]) => [storableText(key), repair(of, depth + 1)]))
}
