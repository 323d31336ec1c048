/** Builds, reads, compares and patches JSON whose keys and strings are untrusted. */

export type Json = null | boolean | number | string | Json[] | JsonObject
export type JsonObject = { [key: string]: Json }

export function isObject(value: Json): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * Builds an object in which `__proto__` is a key like any other (`fromEntries` defines, it does not assign).
 */
export function objectOf(entries: Iterable<readonly [string, Json]>): JsonObject {
  return Object.fromEntries(entries)
}

/** Reads an own field of an object or table, never an inherited one. */
export function fieldOf<T>(object: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined
}

/** Orders strings by code point, as jq does and as `<` does not (it puts surrogates below U+E000). */
export function compareText(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) {
    const left = a.charCodeAt(i)
    const right = b.charCodeAt(i)
    if (left !== right) return rank(left) - rank(right)
  }
  return a.length - b.length
}

function rank(unit: number): number {
  if (unit < 0xd800) return unit
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800
}

/** Length of a text in UTF-8; a lone surrogate counts as the three bytes of U+FFFD. */
export function utf8Length(text: string): number {
  let bytes = 0
  for (let i = 0; i < text.length; i++) {
    const unit = text.codePointAt(i) ?? 0
    if (unit > 0xffff) i++
    bytes += unit < 0x80 ? 1 : unit < 0x800 ? 2 : unit < 0x10000 ? 3 : 4
  }
  return bytes
}

/** Truncates a text to at most `bytesMax` bytes of UTF-8, never within a code point. */
export function clip(text: string, bytesMax: number): string {
  let bytes = 0
  let clipped = ''
  for (const point of text) {
    bytes += utf8Length(point)
    if (bytes > bytesMax) return clipped
    clipped += point
  }
  return clipped
}

/** The text with U+FFFD in place of NUL and of half surrogate pairs, which databases and UTF-8 have no place for. */
export function storableText(text: string): string {
  return text.toWellFormed().replaceAll('\u0000', '\ufffd')
}

/** Decodes a token of a JSON pointer (RFC 6901 §4). */
export const unescaped = (step: string): string => step.replaceAll('~1', '/').replaceAll('~0', '~')

/** Appends a token to a JSON pointer (RFC 6901 §3). */
export function pointerTo(parent: string, key: string | number): string {
  return `${parent}/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`
}

type Members = Record<string, unknown>

const isMembers = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** JSON Merge Patch (RFC 7396). Changes neither argument. @param patch recursion is as deep as the patch */
export function mergePatch(target: Members, patch: Members): Members {
  const merged = new Map(Object.entries(target))
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) merged.delete(name)
    else merged.set(name, isMembers(value) ? mergePatch(membersOf(merged.get(name)), value) : value)
  }
  // Entries become own members whatever their name, `__proto__` too.
  return Object.fromEntries(merged)
}

const membersOf = (value: unknown): Members => (isMembers(value) ? value : {})

type OptionalKeys<T> = { [K in keyof T]: undefined extends T[K] ? K : never }[keyof T]

/** An object without its undefined properties. */
export function omitUndefined<T extends object>(
  object: T,
): Omit<T, OptionalKeys<T>> & { [K in OptionalKeys<T>]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as T
}

/** Tests if the source of a number is an integer, written without an exponent, of which a double reads back with other digits. */
export function losesDigits(source: string): boolean {
  const [, digits = ''] = /^[-+]?0*([1-9]\d{15,})$/.exec(source) ?? []
  return digits !== '' && String(Number(digits)) !== digits
}

/**
 * Parses JSON.
 * @returns the value, and the source of its first integer that would lose digits
 * @throws SyntaxError
 */
export function parseNumbersExactly(text: string): { readonly value: Json; readonly lossy?: string } {
  if (!/\d{16}/.test(text)) return { value: JSON.parse(text) }
  let lossy: string | undefined
  const value = JSON.parse(text, (_key, one: unknown, context?: { readonly source?: string }) => {
    if (typeof one === 'number' && context?.source !== undefined && losesDigits(context.source))
      lossy ??= context.source
    return one
  })
  return { value, ...(lossy !== undefined && { lossy }) }
}
