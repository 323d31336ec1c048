/** Knows the secrets of one call: their values go in just before use, and never come out again. */

import { ApplicationFailure, TemporalFailure } from '@temporalio/common'
import type { WorkspaceScope } from '../../access/scope.ts'
import { Suspended } from '../../access/tenant-states.ts'
import { LIMITS } from '../../core/limits.ts'
import { type InputError, Problem } from '../../core/problem.ts'
import { MASK, replaceHandles, withoutHandles } from '../../core/secret-handle.ts'
import type { Json, LentSecrets } from '../../core/work.ts'
import { type SecretValue, textsByHandle, valuesOf } from '../../features/flows/secrets.ts'
import { callFailure } from '../call-failure.ts'
import { spellingsOf } from './secret-encodings.ts'

/** How a value is written in place of its handle. */
export type Spelling = (text: string) => string

export class Secrecy {
  readonly #values: ReadonlyMap<string, SecretValue>
  readonly #texts: ReadonlyMap<string, string>
  /** What is looked for, with what stands in its place afterwards. */
  readonly #sought = new Map<string, string>()
  /** Handles that this call was given: one that comes back has not come from elsewhere. */
  readonly #given = new Set<string>()
  #room: number = LIMITS.stepInputBytesMax

  /** @param values by names @param texts by handles: each text of each value */
  constructor(values: ReadonlyMap<string, SecretValue>, texts: ReadonlyMap<string, string>) {
    this.#values = values
    this.#texts = texts
    for (const [handle, text] of texts) if (text.length >= LIMITS.flowSecretCharsMin) this.#seek(text, handle)
  }

  /** Reads the values as they are now, so that a secret that was replaced counts from the next attempt on. */
  static async open(scope: WorkspaceScope, lent: LentSecrets): Promise<Secrecy> {
    const values = await valuesOf(scope, lent.names)
    return new Secrecy(values, textsByHandle(scope, lent, values))
  }

  /** Something else that must not be shown, such as a token that was given for a secret. */
  hide(text: string): void {
    if (text.length >= LIMITS.flowSecretCharsMin) this.#seek(text, MASK)
  }

  #seek(text: string, by: string): void {
    this.#sought.set(text, by)
    for (const spelling of spellingsOf(text))
      if (!this.#sought.has(spelling)) this.#sought.set(spelling, MASK)
  }

  /**
   * What the secret of that name is as a whole.
   * @throws ApplicationFailure (configuration) where it is not there
   */
  valueOf(name: string): SecretValue {
    const value = this.#values.get(name)
    if (value === undefined) throw gone(name)
    return value
  }

  /**
   * A copy with the values in place of their handles, in texts of any depth; names of members stay as they are.
   * @throws ApplicationFailure (configuration) where a secret is not there any more, or has another form by now
   */
  resolved<T extends Json>(value: T, spelling: Spelling = (one) => one): T {
    if (typeof value === 'string') return this.text(value, (one) => spelling(one)) as T
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.map((one) => this.resolved(one, spelling)) as T
    const members = Object.entries(value).map(([name, one]) => [name, this.resolved(one, spelling)])
    return Object.fromEntries(members)
  }

  /** @param spelling how a value is written where its handle begins at that place */
  text(text: string, spelling: (value: string, at: number) => string): string {
    return replaceHandles(text, (handle, name, at) => {
      const value = this.#texts.get(handle)
      if (value === undefined) throw gone(name)
      this.#given.add(handle)
      const written = spelling(value, at)
      this.#room -= Buffer.byteLength(written)
      if (this.#room < 0) throw callFailure('runtime', 'With its secrets, the call is too large.')
      return written
    })
  }

  /** Notes the handles that stay what they are in this call, and may come back. */
  passes<T extends Json>(value: T): T {
    replaceHandles(JSON.stringify(value), (handle) => {
      this.#given.add(handle)
      return handle
    })
    return value
  }

  /**
   * What the call has answered, with handles in place of values, `***` in place of their other spellings, and of handles
   * that it was not given.
   */
  shown(output: unknown): unknown {
    if (output === undefined) return undefined
    const own = withoutHandles(output as Json, this.#given)
    const found = this.#foundIn(own)
    return found === undefined ? own : cleaned(own, found)
  }

  /** The same of what it has failed with. */
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
      message: this.#line(message),
      ...(typeof type === 'string' && { type }),
      nonRetryable: nonRetryable === true,
      ...(details && { details: this.shown(details) as unknown[] }),
    })
  }

  #problem({ code, detail, hint, errors, members, headers, cause }: Problem): Problem {
    return new Problem(code, {
      ...(detail !== undefined && { detail: this.#line(detail) }),
      ...(hint !== undefined && { hint: this.#line(hint) }),
      errors: this.shown(errors) as InputError[],
      members: this.shown(members) as Readonly<Record<string, unknown>>,
      headers,
      ...(cause instanceof Error && { cause: this.#plain(cause) }),
    })
  }

  /** For the log: what else an error of a library holds, nobody knows. */
  #plain({ name, message, stack = '', cause }: Error): Error {
    const plain = new Error(this.#line(message), cause instanceof Error ? { cause: this.#plain(cause) } : {})
    plain.name = name
    plain.stack = this.#line(stack)
    return plain
  }

  #line(text: string): string {
    return this.shown(text) as string
  }

  /** Whatever of it is in the value at all: nearly always nothing, and a text is searched faster than a value walked. */
  #foundIn(value: Json): Found | undefined {
    const text = JSON.stringify(value)
    const there = [...this.#sought.keys()].filter((one) => text.includes(JSON.stringify(one).slice(1, -1)))
    if (there.length === 0) return undefined
    // Of two that begin alike, the longer one.
    const longestFirst = there.toSorted((a, b) => b.length - a.length)
    const pattern = new RegExp(longestFirst.map(literal).join('|'), 'g')
    return { pattern, by: this.#sought }
  }
}

interface Found {
  readonly pattern: RegExp
  readonly by: ReadonlyMap<string, string>
}

/** Names of members too; and a number that reads like a secret. */
function cleaned(value: Json, found: Found): Json {
  if (typeof value === 'string') return inText(value, found)
  if (typeof value === 'number') {
    const text = inText(String(value), found)
    return text === String(value) ? value : text
  }
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((one) => cleaned(one, found))
  const members = Object.entries(value).map(([name, one]) => [inText(name, found), cleaned(one, found)])
  return Object.fromEntries(members)
}

const inText = (text: string, { pattern, by }: Found) =>
  text.replaceAll(pattern, (one) => by.get(one) ?? MASK)

/** A text as a regular expression that finds it. */
const literal = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')

function gone(name: string): ApplicationFailure {
  const detail = `The secret \`${name}\` is not there any more, or not in that form.`
  return callFailure('configuration', detail)
}
