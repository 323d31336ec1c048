/** Finds what JSON.parse loses without an error: repeated names, and numbers that would not read back the same. */

import { type InputError, Problem } from './problem.ts'

/**
 * Rejects JSON of which a parsed value would lose a part.
 * @param text valid JSON
 * @param value what JSON.parse made of it
 * @throws Problem `body_invalid` for a name that comes twice in one object (RFC 8259 §4), `number_unsafe` for an integer whose
 *   digits a double does not keep, and for a number beyond all doubles; the error has the JSON pointer
 */
export function checkNothingLost(text: string, value: unknown): void {
  const { members, hasLongNumber } = scan(text)
  // V8 13.6 keeps both of two names that are escaped, so these are not counted.
  if (hasLongNumber || text.includes('\\') || members !== countMembers(value)) new LossFinder(text).find()
}

/**
 * True if a number reads back as it was written. A fraction or an exponent announces the nearest double; an integer without
 * either promises all of its digits.
 */
export function readsBack(literal: string): boolean {
  const number = Number(literal)
  if (!Number.isFinite(number)) return false
  return /[.eE]/.test(literal) || Number.isSafeInteger(number) || String(number) === literal
}

/** Returns the fault of a number that JSON cannot hold. The parser checks literals; nothing else checks computed numbers. */
export function numberFault(value: number): string | undefined {
  return Number.isFinite(value) ? undefined : 'is a number too large to be kept'
}

const [QUOTE, COLON, BACKSLASH, COMMA] = [0x22, 0x3a, 0x5c, 0x2c]
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY] = [0x7b, 0x7d, 0x5b, 0x5d]
const isDigit = (code: number) => code >= 0x30 && code <= 0x39
const MINUS = 0x2d
/** Besides digits: `.`, `e`, `E`, `+` and `-`. */
const isNumberChar = (code: number) =>
  isDigit(code) || code === 0x2e || code === 0x65 || code === 0x45 || code === 0x2b || code === MINUS

/** Counts colons outside of texts, one for each member, and looks for numbers that are long or have a long exponent. */
function scan(text: string): { members: number; hasLongNumber: boolean } {
  let members = 0
  let hasLongNumber = false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = textEnd(text, at)
    else if (code === COLON) members += 1
    else if (isDigit(code)) {
      const end = numberEnd(text, at)
      hasLongNumber ||= end - at > 15 || /[eE]/.test(text.slice(at, end))
      at = end - 1
    }
  }
  return { members, hasLongNumber }
}

/** The offset of the quote that closes the text which opens at `from`. */
function textEnd(text: string, from: number): number {
  for (let at = text.indexOf('"', from + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let escapes = 0
    while (text.charCodeAt(at - 1 - escapes) === BACKSLASH) escapes += 1
    if (escapes % 2 === 0) return at
  }
  return text.length
}

function numberEnd(text: string, from: number): number {
  let end = from + 1
  while (end < text.length && isNumberChar(text.charCodeAt(end))) end += 1
  return end
}

/** The members of all objects in a value. Not recursive: the sender chooses the depth. */
function countMembers(value: unknown): number {
  const open: unknown[] = [value]
  let members = 0
  while (open.length > 0) {
    const one = open.pop()
    if (typeof one !== 'object' || one === null) continue
    const inside = Object.values(one)
    if (!Array.isArray(one)) members += inside.length
    for (const member of inside) if (typeof member === 'object' && member !== null) open.push(member)
  }
  return members
}

/** An open object or array: the names that it has so far, and the one or the index at which the scan is. */
interface Container {
  readonly names: Set<string> | undefined
  at: string | number
}

/** Names the first loss. Far slower than {@link scan}, which decides whether it runs. */
class LossFinder {
  readonly #text: string
  readonly #open: Container[] = []

  constructor(text: string) {
    this.#text = text
  }

  find(): void {
    for (let at = 0; at < this.#text.length; at++) at = this.#token(at)
  }

  /** @returns the offset of the token's last character */
  #token(at: number): number {
    const code = this.#text.charCodeAt(at)
    const inside = this.#open.at(-1)
    if (code === OPEN_OBJECT) this.#open.push({ names: new Set(), at: '' })
    else if (code === OPEN_ARRAY) this.#open.push({ names: undefined, at: 0 })
    else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) this.#open.pop()
    else if (code === COMMA && typeof inside?.at === 'number') inside.at += 1
    else if (code === QUOTE) return this.#string(at, inside)
    else if (code === MINUS || isDigit(code)) return this.#number(at)
    return at
  }

  #string(at: number, inside: Container | undefined): number {
    const end = textEnd(this.#text, at)
    if (inside?.names === undefined || !this.#isName(end + 1)) return end
    inside.at = JSON.parse(this.#text.slice(at, end + 1)) as string
    if (inside.names.has(inside.at)) throw this.#problem('body_invalid', 'occurs twice in one object')
    inside.names.add(inside.at)
    return end
  }

  /** True if a colon follows, behind blanks. */
  #isName(after: number): boolean {
    COLON_NEXT.lastIndex = after
    return COLON_NEXT.test(this.#text)
  }

  #number(at: number): number {
    const end = numberEnd(this.#text, at)
    const literal = this.#text.slice(at, end)
    if (readsBack(literal)) return end - 1
    throw this.#problem(
      'number_unsafe',
      numberFault(Number(literal)) ?? 'is an integer beyond 2^53 and would not read back the same',
    )
  }

  #problem(code: 'body_invalid' | 'number_unsafe', detail: string): Problem {
    const names = this.#open.slice(0, POINTER_NAMES_MAX).map(({ at }) => String(at).slice(0, 100))
    const pointer = names.map((name) => `/${escapePointer(name)}`).join('')
    const errors: InputError[] = [{ in: 'body', name: names[0] ?? '', pointer, detail }]
    const hint = code === 'body_invalid' ? { hint: 'Send each member once.' } : {}
    return new Problem(code, { detail: `${pointer || 'The value'} ${detail}.`, errors, ...hint })
  }
}

/** Escapes a token of a JSON pointer (RFC 6901 §3). */
export const escapePointer = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1')

const COLON_NEXT = /\s*:/y

/** A reply does not grow with the request. */
const POINTER_NAMES_MAX = 40
