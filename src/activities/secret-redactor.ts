/** Redacts given texts, in whatever encoding they come back, from values, texts that were cut, and errors. */

import { ApplicationFailure, TemporalFailure } from '@temporalio/common'
import { Suspended } from '../access/tenant-states.ts'
import { escapePointer } from '../core/json.ts'
import { type InputError, Problem } from '../core/problem.ts'
import { redactValue } from '../core/redact.ts'
import { MASK } from '../core/secret-handle.ts'
import type { Json } from '../core/work.ts'
import { FLOW_LIMITS } from '../features/flows/limits.ts'

export class SecretRedactor {
  /** Texts to redact, with their replacements. */
  readonly #replacements = new Map<string, string>()
  readonly #before: (value: Json) => Json

  /** @param before what else is done with each value, and done first */
  constructor(before: (value: Json) => Json = (value) => value) {
    this.#before = before
  }

  /** Redacts a text from now on. One that is so short that it is no secret is left. @param replacement its encodings are replaced by `***` */
  add(text: string, replacement: string = MASK): void {
    if (text.length < FLOW_LIMITS.secretCharsMin) return
    this.#replacements.set(text, replacement)
    for (const encoded of encodingsOf(text))
      if (!this.#replacements.has(encoded)) this.#replacements.set(encoded, MASK)
  }

  value(value: unknown): unknown {
    if (value === undefined) return undefined
    const own = this.#before(value as Json)
    const pattern = this.#patternFor(own)
    if (pattern === undefined) return own
    const text = (one: string) => one.replaceAll(pattern, (found) => this.#replacements.get(found) ?? MASK)
    return redactValue(own, { text, numbers: true })
  }

  text(text: string): string {
    return this.value(text) as string
  }

  /** A text that was cut: a secret that its end has begun is left out. */
  excerpt(text: string): string {
    const redacted = this.text(text)
    const begun = Math.max(0, ...[...this.#replacements.keys()].map((secret) => overlap(redacted, secret)))
    return begun === 0 ? redacted : redacted.slice(0, -begun)
  }

  /** An error as {@link value} does a value. Errors of the platform's own suspension pass unchanged. */
  failure(error: unknown): unknown {
    if (error instanceof Suspended || !(error instanceof Error)) return error
    if (error instanceof ApplicationFailure) return this.#applicationFailure(error)
    if (error instanceof TemporalFailure) return error
    if (error instanceof Problem) return this.#problem(error)
    return this.#plain(error)
  }

  #applicationFailure(error: ApplicationFailure): ApplicationFailure {
    const { message, type, nonRetryable, details } = error
    return ApplicationFailure.create({
      message: this.text(message),
      ...(typeof type === 'string' && { type }),
      nonRetryable: nonRetryable === true,
      ...(details && { details: this.value(details) as unknown[] }),
    })
  }

  #problem({ code, detail, hint, adminHint, errors, members, headers, cause }: Problem): Problem {
    return new Problem(code, {
      ...(detail !== undefined && { detail: this.text(detail) }),
      ...(hint !== undefined && { hint: this.text(hint) }),
      ...(adminHint !== undefined && { adminHint: this.text(adminHint) }),
      errors: this.value(errors) as InputError[],
      members: this.value(members) as Readonly<Record<string, unknown>>,
      headers,
      ...(cause instanceof Error && { cause: this.#plain(cause) }),
    })
  }

  /** A copy for the log, without the other fields of a library's error, which may contain anything. */
  #plain({ name, message, stack = '', cause }: Error): Error {
    const plain = new Error(this.text(message), cause instanceof Error ? { cause: this.#plain(cause) } : {})
    plain.name = name
    plain.stack = this.text(stack)
    return plain
  }

  /** The secrets that occur in a value, nearly always none: searching its JSON is faster than walking it. */
  #patternFor(value: Json): RegExp | undefined {
    const json = JSON.stringify(value)
    const found = [...this.#replacements.keys()].filter((text) =>
      json.includes(JSON.stringify(text).slice(1, -1)),
    )
    if (found.length === 0) return undefined
    // A secret may begin with another one, so the longest matches first.
    const longestFirst = found.toSorted((a, b) => b.length - a.length)
    return new RegExp(longestFirst.map(escapeRegExp).join('|'), 'g')
  }
}

/** The length of the longest end of `text` with which `secret` begins. */
function overlap(text: string, secret: string): number {
  for (let length = Math.min(text.length, secret.length - 1); length > 0; length--)
    if (text.endsWith(secret.slice(0, length))) return length
  return 0
}

const escapeRegExp = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')

/** Encodes a text as the content of a JSON string, without the quotes. */
export const inJson = (text: string): string => JSON.stringify(text).slice(1, -1)

/** Encodes a text as a value of a form (application/x-www-form-urlencoded). */
export const inForm = (text: string): string => new URLSearchParams([['', text]]).toString().slice(1)

/** The encodings in which a secret may come back, without the text itself. */
function encodingsOf(text: string): ReadonlySet<string> {
  const percent = encodeURIComponent(text)
  // Some encoders also encode these characters, which RFC 3986 reserves and `encodeURIComponent` leaves.
  const strict = percent.replaceAll(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)
  const quoted = percent.replaceAll("'", '%27')
  const encoded = [percent, strict, quoted, inForm(text)]
  const all = [
    ...[...encoded, ...encoded.map(lowerHex)],
    ...[inJson(text), inJson(inJson(text)), ...inBase64(text)],
    ...[escapePointer(text), ...inHex(text)],
    // URLs write their host in lower case.
    text.toLowerCase(),
  ]
  return new Set(all.filter((one) => one !== text))
}

/** The bytes in hexadecimal digits, in both cases. */
function inHex(text: string): readonly string[] {
  const digits = Buffer.from(text).toString('hex')
  return [digits, digits.toUpperCase()]
}

const lowerHex = (text: string) => text.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())

/**
 * The part of the base64 text that does not depend on neighbouring bytes, for each of the three offsets at which the secret may
 * begin within a group of three bytes.
 */
function inBase64(text: string): readonly string[] {
  const bytes = Buffer.from(text)
  return [0, 1, 2].flatMap((before) => {
    const whole = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .replaceAll('=', '')
    const first = Math.ceil((before * 8) / 6)
    const last = Math.floor(((before + bytes.length) * 8) / 6)
    const middle = whole.slice(first, last)
    return [middle, middle.replaceAll('+', '-').replaceAll('/', '_')]
  })
}
