/** The secrets of one call: decrypts and injects them just before use, and redacts their values from everything that comes back. */

import { ApplicationFailure, TemporalFailure } from '@temporalio/common'
import type { WorkspaceScope } from '../../access/scope.ts'
import { lastingSecrets } from '../../access/scope-services.ts'
import { Suspended } from '../../access/tenant-states.ts'
import { escapePointer } from '../../core/json.ts'
import type { AnyOperation } from '../../core/operation.ts'
import { type InputError, Problem } from '../../core/problem.ts'
import { redactValue } from '../../core/redact.ts'
import { handlesIn, holdsHandle, MASK, replaceHandles, withoutHandles } from '../../core/secret-handle.ts'
import type { FunctionRunInput, Json, SecretNames } from '../../core/work.ts'
import { FLOW_LIMITS } from '../../features/flows/limits.ts'
import { readSecretValues, type SecretValue, textsByHandle } from '../../features/flows/secrets.ts'
import { callFailure } from '../call-failure.ts'
import type { FunctionCall } from '../contract.ts'
import type { ActivityContext } from '../tenant-interceptor.ts'

/** Encodes a value for the place in which it replaces its handle. */
export type Encoding = (text: string) => string

/** The secrets of one call: replaces handles by values before it, and values by handles after it. */
export class CallSecrets {
  readonly #values: ReadonlyMap<string, SecretValue>
  readonly #texts: ReadonlyMap<string, string>
  /** Texts to redact, with their replacements. */
  readonly #replacements = new Map<string, string>()
  /** Handles that the call was given. Any other handle in its output is foreign, and is masked. */
  readonly #given = new Set<string>()
  #bytesLeft: number = FLOW_LIMITS.stepInputBytesMax

  /** @param values by secret name @param texts by handle: each text of each value */
  constructor(values: ReadonlyMap<string, SecretValue>, texts: ReadonlyMap<string, string>) {
    this.#values = values
    this.#texts = texts
    for (const [handle, text] of texts)
      if (text.length >= FLOW_LIMITS.secretCharsMin) this.#redact(text, handle)
  }

  /** Reads the current values, so that a replaced secret is used from the next attempt on. */
  static async open(scope: WorkspaceScope, secrets: SecretNames): Promise<CallSecrets> {
    const values = await readSecretValues(scope, secrets.names)
    return new CallSecrets(values, textsByHandle(await lastingSecrets(scope), secrets, values))
  }

  /** Masks another text in the output, such as a token that was issued for a secret. */
  addSecret(text: string): void {
    if (text.length >= FLOW_LIMITS.secretCharsMin) this.#redact(text, MASK)
  }

  #redact(text: string, replacement: string): void {
    this.#replacements.set(text, replacement)
    for (const encoded of encodingsOf(text))
      if (!this.#replacements.has(encoded)) this.#replacements.set(encoded, MASK)
  }

  /**
   * The whole value of a secret.
   * @throws ApplicationFailure (configuration) if the secret does not exist
   */
  valueOf(name: string): SecretValue {
    const value = this.#values.get(name)
    if (value === undefined) throw missingSecret(name)
    return value
  }

  /**
   * A copy in which values replace their handles, in strings of any depth but not in names of members.
   * @throws ApplicationFailure (configuration) if a secret does not exist any more, or has another form
   */
  resolveHandles<T extends Json>(value: T, encode: Encoding = (one) => one): T {
    if (typeof value === 'string') return this.resolveText(value, (one) => encode(one)) as T
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.map((one) => this.resolveHandles(one, encode)) as T
    const members = Object.entries(value).map(([name, one]) => [name, this.resolveHandles(one, encode)])
    return Object.fromEntries(members)
  }

  /** Replaces the handles in a text. @param encode gets a value and the index at which its handle begins */
  resolveText(text: string, encode: (value: string, at: number) => string): string {
    return replaceHandles(text, (handle, name, at) => {
      const value = this.#texts.get(handle)
      if (value === undefined) throw missingSecret(name)
      this.#given.add(handle)
      const encoded = encode(value, at)
      this.#bytesLeft -= Buffer.byteLength(encoded)
      if (this.#bytesLeft < 0) throw callFailure('runtime', 'With its secrets, the call is too large.')
      return encoded
    })
  }

  /** Records the handles in a value as given, without resolving them: the output may contain them. */
  allowHandles<T extends Json>(value: T): T {
    replaceHandles(JSON.stringify(value), (handle) => {
      this.#given.add(handle)
      return handle
    })
    return value
  }

  /** Redacts the output of the call: handles replace values, `***` replaces encoded values and handles that it was not given. */
  redactOutput(output: unknown): unknown {
    if (output === undefined) return undefined
    const own = withoutHandles(output as Json, this.#given)
    const pattern = this.#patternFor(own)
    if (pattern === undefined) return own
    const text = (one: string) => one.replaceAll(pattern, (found) => this.#replacements.get(found) ?? MASK)
    return redactValue(own, { text, numbers: true })
  }

  /** Redacts a text that was cut: a secret that its end has begun is left out. */
  redactExcerpt(text: string): string {
    const redacted = this.#redactLine(text)
    const begun = Math.max(0, ...[...this.#replacements.keys()].map((secret) => overlap(redacted, secret)))
    return begun === 0 ? redacted : redacted.slice(0, -begun)
  }

  /** Redacts an error of the call as {@link redactOutput} does an output. Errors of the platform's own suspension pass unchanged. */
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
      message: this.#redactLine(message),
      ...(typeof type === 'string' && { type }),
      nonRetryable: nonRetryable === true,
      ...(details && { details: this.redactOutput(details) as unknown[] }),
    })
  }

  #problem({ code, detail, hint, adminHint, errors, members, headers, cause }: Problem): Problem {
    return new Problem(code, {
      ...(detail !== undefined && { detail: this.#redactLine(detail) }),
      ...(hint !== undefined && { hint: this.#redactLine(hint) }),
      ...(adminHint !== undefined && { adminHint: this.#redactLine(adminHint) }),
      errors: this.redactOutput(errors) as InputError[],
      members: this.redactOutput(members) as Readonly<Record<string, unknown>>,
      headers,
      ...(cause instanceof Error && { cause: this.#plain(cause) }),
    })
  }

  /** A copy for the log, without the other fields of a library's error, which may contain anything. */
  #plain({ name, message, stack = '', cause }: Error): Error {
    const plain = new Error(
      this.#redactLine(message),
      cause instanceof Error ? { cause: this.#plain(cause) } : {},
    )
    plain.name = name
    plain.stack = this.#redactLine(stack)
    return plain
  }

  #redactLine(text: string): string {
    return this.redactOutput(text) as string
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

function missingSecret(name: string): ApplicationFailure {
  const detail = `The secret \`${name}\` no longer exists, or has another form.`
  return callFailure('configuration', detail)
}

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

/** The secrets of a call: their names, and their values. */
export interface InjectedSecrets {
  readonly secrets: SecretNames
  readonly redactor: CallSecrets
}

/** The secrets that a call may use; undefined if its flow declares none. */
export function secretNamesOf(
  { workflowId }: ActivityContext,
  { secrets }: FunctionCall,
): SecretNames | undefined {
  return secrets && { workflow_id: workflowId, names: secrets }
}

/**
 * Does the work with the current values of the secrets, and redacts them from its result or error.
 * @param scope the workspace of the execution, in the role of an admin
 */
export async function withCallSecrets(
  scope: WorkspaceScope,
  secrets: SecretNames | undefined,
  work: (injected?: InjectedSecrets) => Promise<unknown>,
): Promise<unknown> {
  if (secrets === undefined) return work()
  const secrecy = await CallSecrets.open(scope, secrets)
  try {
    return secrecy.redactOutput(await work({ secrets, redactor: secrecy }))
  } catch (error) {
    throw secrecy.redactFailure(error)
  }
}

/** Replaces the handles in the input of a function by values. */
export function withSecretValues<Run extends FunctionRunInput>(
  run: Run,
  injected: InjectedSecrets | undefined,
): Run {
  return injected === undefined ? run : { ...run, input: injected.redactor.resolveHandles(run.input) }
}

/** @throws ApplicationFailure (configuration) if another flow would get a handle, which has no meaning in its execution */
export function rejectSecrets(given: FunctionCall['arguments']): void {
  if (!holdsHandle(given)) return
  const detail = 'A secret cannot be given to another flow; that flow declares it in its own `use.secrets`.'
  throw callFailure('configuration', detail)
}

/** @throws ApplicationFailure (configuration) if the arguments, which the operation would store, contain a secret */
export function rejectStoredSecrets({ name }: AnyOperation, given: FunctionCall['arguments']): void {
  const [secret] = handlesIn(given)
  if (secret === undefined) return
  const detail = `\`${name}\` would store the secret \`${secret}\`, which others could then read. Leave the secret out. Only calls of other servers and functions can receive secrets.`
  throw callFailure('configuration', detail)
}
