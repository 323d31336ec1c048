/** Keeps the secrets of a run out of what others see of it: its lines, its result and its error. */

import { ACCESS_LIMITS } from '../../access/limits.ts'
import { Suspended } from '../../access/tenant-states.ts'
import { Problem } from '../../core/problem.ts'
import { MASK, withoutHandles } from '../../core/secret-handle.ts'
import type { Json } from '../../core/work.ts'
import type { SecretValue } from '../../features/flows/secrets.ts'
import { FUNCTION_LIMITS } from '../../features/functions/limits.ts'
import type { CallSecrets } from '../flow/call-secrets.ts'
import { SecretRedactor } from '../secret-redactor.ts'

export class SecretMask {
  readonly #own = new SecretRedactor()
  readonly #isEmpty: boolean
  /** Those of a calling flow. */
  readonly #flowSecrets: CallSecrets | undefined

  /** @param flowSecrets replaces values by handles, which only its flow can resolve */
  constructor(secrets: Iterable<SecretValue>, flowSecrets?: CallSecrets) {
    this.#flowSecrets = flowSecrets
    const texts = textsIn([...secrets])
    this.#isEmpty = texts.length === 0
    for (const text of texts) {
      this.#own.add(text)
      // Output is split at line breaks.
      for (const line of text.split(/\r?\n/)) this.#own.add(line)
    }
  }

  /** A line of the log, whose end may be cut. */
  line(text: string): string {
    if (this.#isEmpty && this.#flowSecrets === undefined) return text
    const cut = isCutLine(text)
    const body = cut ? text.slice(0, -1) : text
    const shown = cut ? this.#excerpt(body) : this.#whole(body)
    return cut ? `${shown}…` : shown
  }

  /** `***` in place of each secret of the function. Secrets of a calling flow are left to {@link withCallSecrets}. */
  value<T extends Json>(value: T): T {
    return this.#isEmpty ? value : (this.#own.value(value) as T)
  }

  /** A copy of the arguments of a call, for the audit log, which shows short ones in paths. */
  shown(args: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
    const isShort = (value: unknown) =>
      typeof value === 'string' && value.length <= ACCESS_LIMITS.auditTextCharsMax
    return Object.fromEntries(
      Object.entries(args).map(([name, value]) => [name, isShort(value) ? this.line(String(value)) : MASK]),
    )
  }

  failure(error: unknown): unknown {
    if (error instanceof Suspended) return error
    const shown = error instanceof Problem ? this.#withoutBegun(error) : error
    return this.#isEmpty ? shown : this.#own.failure(shown)
  }

  /** Texts that were cut may end within a secret, whose beginning is left out. */
  #withoutBegun(problem: Problem): Problem {
    const { detail, members } = problem
    const { logs, error } = members as { readonly logs?: readonly string[]; readonly error?: object }
    const name = error === undefined ? undefined : (error as { readonly name?: unknown }).name
    return problem.changed({
      ...(detail !== undefined && { detail: this.#message(detail) }),
      members: {
        ...members,
        ...(logs !== undefined && { logs: logs.map((text) => (isCutLine(text) ? this.line(text) : text)) }),
        ...(typeof name === 'string' && { error: { ...error, name: this.#message(name) } }),
      },
    })
  }

  /** A message that has the longest length was cut. */
  #message(text: string): string {
    return CUT_AT.includes(text.length) ? this.#excerpt(text) : text
  }

  #whole(text: string): string {
    const own = this.#own.text(text)
    return this.#flowSecrets === undefined
      ? own
      : withoutHandles(this.#flowSecrets.redactOutput(own) as string)
  }

  /** Masks handles first: an end that looks like the beginning of a secret may be that of a handle. */
  #excerpt(text: string): string {
    const own = this.#own.excerpt(this.#whole(text))
    return this.#flowSecrets?.redactExcerpt(own) ?? own
  }
}

const CUT_AT: readonly number[] = [FUNCTION_LIMITS.messageCharsMax, FUNCTION_LIMITS.errorNameCharsMax]
const isCutLine = (text: string) => text.endsWith('…')

function textsIn(value: SecretValue): string[] {
  if (typeof value === 'string') return [value]
  return Object.values(value).flatMap((one: SecretValue) => textsIn(one))
}
