/** JSON: parsing as for request bodies, size and depth limits, canonical form, pointers. */

import { CORE_LIMITS } from './limits.ts'
import { Problem } from './problem.ts'
import { checkNothingLost, escapePointer, numberFault } from './strict-json.ts'

export { escapePointer }

/**
 * Rejects values that are too large or too deep. Measures the serialised size, not that of the request: `1e20` becomes 21
 * digits.
 * @param name the input field, for the text
 * @throws Problem `validation_failed` for the depth, `number_unsafe` for a number that JSON cannot hold, `body_too_large` for the
 * size
 */
export function checkJson(name: string, value: unknown, bytesMax: number): void {
  if (isTooDeep(value)) {
    const detail = `${name} is nested deeper than ${CORE_LIMITS.valueDepthMax}.`
    throw new Problem('validation_failed', { detail })
  }
  const fault = faultyNumberIn(value)
  if (fault !== undefined)
    throw new Problem('number_unsafe', {
      detail: `${name}${typeof value === 'number' ? '' : ' has a member that'} ${fault}.`,
    })
  const bytes = Buffer.byteLength(JSON.stringify(value))
  if (bytes > bytesMax) {
    const detail = `${name} has ${bytes} bytes; at most ${bytesMax} are taken.`
    throw new Problem('body_too_large', { detail })
  }
}

/** `JSON.stringify` writes NUL and half a surrogate pair as these escapes; a backslash before one makes it text. */
const UNSTORABLE_ESCAPE = /\\u(?:0000|d[89a-f])/

/**
 * Rejects texts and names with NUL or half a surrogate pair, which PostgreSQL cannot store.
 * @param name the input field, which begins the pointer
 * @throws Problem `value_invalid` with the pointer of the first
 */
export function checkStorable(name: string, value: unknown): void {
  if (!UNSTORABLE_ESCAPE.test(JSON.stringify(value))) return
  const pointer = unstorableAt(value, `/${name}`)
  if (pointer === undefined) return
  const detail = 'The text has the character NUL (U+0000) or half of a surrogate pair.'
  throw new Problem('value_invalid', { errors: [{ in: 'body', name, pointer, detail }] })
}

/** The pointer of the first text or member name that cannot be stored. */
export function unstorableAt(value: unknown, pointer: string): string | undefined {
  if (typeof value === 'string') return isStorable(value) ? undefined : pointer
  if (typeof value !== 'object' || value === null) return undefined
  for (const [key, member] of Object.entries(value)) {
    const found = isStorable(key) ? unstorableAt(member, `${pointer}/${escapePointer(key)}`) : pointer
    if (found !== undefined) return found
  }
  return undefined
}

/** True for a text without NUL and half surrogate pairs, which PostgreSQL stores. */
export const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes('\u0000')

/** Returns the fault of the first number that JSON would store as null. */
function faultyNumberIn(value: unknown): string | undefined {
  if (typeof value === 'number') return numberFault(value)
  if (typeof value !== 'object' || value === null) return undefined
  for (const member of Object.values(value)) {
    const fault = faultyNumberIn(member)
    if (fault !== undefined) return fault
  }
  return undefined
}

/** True for an object, false for an array or null. */
export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** True if a value is nested deeper than executions accept. */
export const isTooDeep = (value: unknown): boolean => exceedsDepth(value, CORE_LIMITS.valueDepthMax)

/** True if a value is nested deeper than `limit`. Recurses no deeper than that. */
export function exceedsDepth(value: unknown, limit: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (limit === 0) return true
  return Object.values(value).some((member) => exceedsDepth(member, limit - 1))
}

/** True if the objects in a value have more members than `limit`, all together. Recurses as deep as the value is. */
export const exceedsMembers = (value: unknown, limit: number): boolean => membersLeft(value, limit) < 0

/** The limit without the members of a value; negative as soon as it is exceeded. */
function membersLeft(value: unknown, limit: number): number {
  if (typeof value !== 'object' || value === null) return limit
  const members = Object.values(value)
  let left = Array.isArray(value) ? limit : limit - members.length
  for (const member of members) {
    if (left < 0) break
    left = membersLeft(member, left)
  }
  return left
}

/**
 * Parses JSON like a request body: rejects what would not read back as it was written.
 * @throws Problem `body_invalid`, as {@link parseForeignJson} and {@link checkNothingLost} do, or `number_unsafe`
 */
export function parseJson(text: string): unknown {
  const value = parseForeignJson(text)
  checkNothingLost(text, value)
  return value
}

/**
 * Parses JSON of a server that is not ours, which we cannot ask to send its numbers in another way: takes them as
 * JSON.parse does, but rejects members that could pollute prototypes when copied.
 * @throws Problem `body_invalid`
 */
export function parseForeignJson(text: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new Problem('body_invalid', { detail: 'The text is not valid JSON.', cause })
  }
  const name = SUSPICIOUS.test(text) ? pollutingName(value, CORE_LIMITS.documentDepthMax) : undefined
  if (name !== undefined)
    throw new Problem('body_invalid', {
      detail: `The JSON has a member ${name}, which is not allowed.`,
      hint: 'Rename the member: `__proto__` and `constructor.prototype` are refused everywhere.',
    })
  return value
}

/** An escape can spell any name. */
const SUSPICIOUS = /__proto__|"constructor"|\\u/

/** The first member that could pollute a prototype. Deeper values are rejected elsewhere. */
function pollutingName(value: unknown, depth: number): string | undefined {
  if (typeof value !== 'object' || value === null || depth === 0) return undefined
  if (Object.hasOwn(value, '__proto__')) return '__proto__'
  const made: unknown = Object.hasOwn(value, 'constructor') ? value.constructor : undefined
  if (typeof made === 'object' && made !== null && Object.hasOwn(made, 'prototype'))
    return 'constructor.prototype'
  for (const member of Object.values(value)) {
    const name = pollutingName(member, depth - 1)
    if (name !== undefined) return name
  }
  return undefined
}

/** JSON without spaces, members in code-unit order (as in RFC 8785). The caller bounds the depth. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item ?? null)).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  let members = ''
  for (const name of Object.keys(value).sort()) {
    const member = (value as Record<string, unknown>)[name]
    if (member !== undefined)
      members += `${members === '' ? '' : ','}${JSON.stringify(name)}:${canonical(member)}`
  }
  return `{${members}}`
}

/** The name that a step of a JSON pointer escapes (RFC 6901 §4). */
export const unescapePointer = (step: string): string => step.replaceAll('~1', '/').replaceAll('~0', '~')

/** Escapes and truncates a name that a caller chose, so that the response does not grow with it. */
export const shortPointer = (name: string): string => escapePointer(name.slice(0, 100))

/** The beginning of a text from outside as JSON, for an error. */
export const shortQuote = (text: string): string => JSON.stringify(text.slice(0, 100))

/** An output that is JSON already, so that it is not parsed and serialised again. */
export class Serialized {
  /** Valid JSON that conforms to the output schema of its operation. */
  readonly json: string

  constructor(json: string) {
    this.json = json
  }

  /** Parses the output, for callers that need a value. */
  parsed(): unknown {
    return JSON.parse(this.json)
  }
}
