/** Injects the secrets of one call just before use, and redacts their values from everything that comes back. */

import { ApplicationFailure, TemporalFailure } from '@temporalio/common'
import type { WorkspaceScope } from '../../access/scope.ts'
import { Suspended } from '../../access/tenant-states.ts'
import { LIMITS } from '../../core/limits.ts'
import type { AnyOperation } from '../../core/operation.ts'
import { type InputError, Problem } from '../../core/problem.ts'
import { handlesIn, holdsHandle, MASK, replaceHandles, withoutHandles } from '../../core/secret-handle.ts'
import type { FunctionRunInput, Json, SecretNames } from '../../core/work.ts'
import { type SecretValue, textsByHandle, valuesOf } from '../../features/flows/secrets.ts'
import { callFailure } from '../call-failure.ts'
import type { FunctionCall } from '../contract.ts'
import type { ActivityContext } from '../tenant-interceptor.ts'

/** How a value is written in place of its handle. */
export type Encoding = (text: string) => string

export class CallSecrets {
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
  static async open(scope: WorkspaceScope, lent: SecretNames): Promise<CallSecrets> {
    const values = await valuesOf(scope, lent.names)
    return new CallSecrets(values, textsByHandle(scope, lent, values))
  }

  /** Something else that must not be shown, such as a token that was given for a secret. */
  addSecret(text: string): void {
    if (text.length >= LIMITS.flowSecretCharsMin) this.#seek(text, MASK)
  }

  #seek(text: string, by: string): void {
    this.#sought.set(text, by)
    for (const spelling of encodingsOf(text))
      if (!this.#sought.has(spelling)) this.#sought.set(spelling, MASK)
  }

  /**
   * What the secret of that name is as a whole.
   * @throws ApplicationFailure (configuration) where it is not there
   */
  valueOf(name: string): SecretValue {
    const value = this.#values.get(name)
    if (value === undefined) throw missingSecret(name)
    return value
  }

  /**
   * A copy with the values in place of their handles, in texts of any depth; names of members stay as they are.
   * @throws ApplicationFailure (configuration) where a secret is not there any more, or has another form by now
   */
  resolveHandles<T extends Json>(value: T, spelling: Encoding = (one) => one): T {
    if (typeof value === 'string') return this.text(value, (one) => spelling(one)) as T
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.map((one) => this.resolveHandles(one, spelling)) as T
    const members = Object.entries(value).map(([name, one]) => [name, this.resolveHandles(one, spelling)])
    return Object.fromEntries(members)
  }

  /** @param spelling how a value is written where its handle begins at that place */
  text(text: string, spelling: (value: string, at: number) => string): string {
    return replaceHandles(text, (handle, name, at) => {
      const value = this.#texts.get(handle)
      if (value === undefined) throw missingSecret(name)
      this.#given.add(handle)
      const written = spelling(value, at)
      this.#room -= Buffer.byteLength(written)
      if (this.#room < 0) throw callFailure('runtime', 'With its secrets, the call is too large.')
      return written
    })
  }

  /** Notes the handles that stay what they are in this call, and may come back. */
  allowHandles<T extends Json>(value: T): T {
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
  redactOutput(output: unknown): unknown {
    if (output === undefined) return undefined
    const own = withoutHandles(output as Json, this.#given)
    const found = this.#foundIn(own)
    return found === undefined ? own : redactValue(own, found)
  }

  /** The same of what it has failed with. */
  redactFailure(error: unknown): unknown {
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
      ...(details && { details: this.redactOutput(details) as unknown[] }),
    })
  }

  #problem({ code, detail, hint, errors, members, headers, cause }: Problem): Problem {
    return new Problem(code, {
      ...(detail !== undefined && { detail: this.#line(detail) }),
      ...(hint !== undefined && { hint: this.#line(hint) }),
      errors: this.redactOutput(errors) as InputError[],
      members: this.redactOutput(members) as Readonly<Record<string, unknown>>,
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
    return this.redactOutput(text) as string
  }

  /** Whatever of it is in the value at all: nearly always nothing, and a text is searched faster than a value walked. */
  #foundIn(value: Json): RedactionPattern | undefined {
    const text = JSON.stringify(value)
    const there = [...this.#sought.keys()].filter((one) => text.includes(JSON.stringify(one).slice(1, -1)))
    if (there.length === 0) return undefined
    // Of two that begin alike, the longer one.
    const longestFirst = there.toSorted((a, b) => b.length - a.length)
    const pattern = new RegExp(longestFirst.map(literal).join('|'), 'g')
    return { pattern, by: this.#sought }
  }
}

interface RedactionPattern {
  readonly pattern: RegExp
  readonly by: ReadonlyMap<string, string>
}

/** Names of members too; and a number that reads like a secret. */
function redactValue(value: Json, found: RedactionPattern): Json {
  if (typeof value === 'string') return inText(value, found)
  if (typeof value === 'number') {
    const text = inText(String(value), found)
    return text === String(value) ? value : text
  }
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((one) => redactValue(one, found))
  const members = Object.entries(value).map(([name, one]) => [inText(name, found), redactValue(one, found)])
  return Object.fromEntries(members)
}

const inText = (text: string, { pattern, by }: RedactionPattern) =>
  text.replaceAll(pattern, (one) => by.get(one) ?? MASK)

/** A text as a regular expression that finds it. */
const literal = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')

function missingSecret(name: string): ApplicationFailure {
  const detail = `The secret \`${name}\` is not there any more, or not in that form.`
  return callFailure('configuration', detail)
}

/** The text within a JSON string, without the quotes around it. */
export const inJson = (text: string): string => JSON.stringify(text).slice(1, -1)

/** The text as a value of a form (application/x-www-form-urlencoded). */
export const inForm = (text: string): string => new URLSearchParams([['', text]]).toString().slice(1)

/** All spellings but the text itself, each once. */
function encodingsOf(text: string): ReadonlySet<string> {
  const percent = encodeURIComponent(text)
  // What a URL adds to that of itself: RFC 3986 reserves more than is encoded above.
  const strict = percent.replaceAll(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)
  const quoted = percent.replaceAll("'", '%27')
  const encoded = [percent, strict, quoted, inForm(text)]
  const all = [...encoded, ...encoded.map(lowerHex), inJson(text), inJson(inJson(text)), ...inBase64(text)]
  return new Set(all.filter((one) => one !== text))
}

const lowerHex = (text: string) => text.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())

/** The middle of it, for each of the three places that it may begin at within a group of bytes. */
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

export interface LentCallSecrets {
  readonly secrets: SecretNames
  readonly secrecy: CallSecrets
}

/** What a call of the run may use; undefined where its flow declares no secrets. */
export function secretNamesOf(
  { workflowId }: ActivityContext,
  { secrets }: FunctionCall,
): SecretNames | undefined {
  return secrets && { workflow_id: workflowId, names: secrets }
}

/**
 * Does the work with the values as they are now.
 * @param scope of the run's own workspace, with the rights of an admin
 */
export async function withCallSecrets(
  scope: WorkspaceScope,
  secrets: SecretNames | undefined,
  work: (lent?: LentCallSecrets) => Promise<unknown>,
): Promise<unknown> {
  if (secrets === undefined) return work()
  const secrecy = await CallSecrets.open(scope, secrets)
  try {
    return secrecy.redactOutput(await work({ secrets, secrecy }))
  } catch (error) {
    throw secrecy.redactFailure(error)
  }
}

/** The run of a function with the values in its input. */
export function withSecretValues(run: FunctionRunInput, lent: LentCallSecrets | undefined): FunctionRunInput {
  return lent === undefined ? run : { ...run, input: lent.secrecy.resolveHandles(run.input) }
}

/** @throws ApplicationFailure (configuration) where a flow would be begun with a secret: in its run it stands for nothing */
export function rejectSecrets(given: FunctionCall['arguments']): void {
  if (!holdsHandle(given)) return
  const detail = 'A secret cannot be given to another flow; that flow declares it in its own `use.secrets`.'
  throw callFailure('configuration', detail)
}

/** @throws ApplicationFailure (configuration) if there is a secret in what the operation would store */
export function rejectStoredSecrets({ name }: AnyOperation, given: FunctionCall['arguments']): void {
  const [secret] = handlesIn(given)
  if (secret === undefined) return
  const detail = `\`${name}\` would store the secret \`${secret}\`, and others read what it stores. Leave the secret out; a call to another server or a function may be given it.`
  throw callFailure('configuration', detail)
}
