/** Keeps the secrets of a run out of what others see of it: its lines, its result and its error. */

import { LIMITS } from '../../core/limits.ts'
import { MASK, withoutHandles } from '../../core/secret-handle.ts'
import type { Json } from '../../core/work.ts'
import type { SecretValue } from '../../features/flows/secrets.ts'
import { CallSecrets } from '../flow/call-secrets.ts'

export class SecretMask {
  readonly #own = new CallSecrets(new Map(), new Map())
  readonly #isEmpty: boolean
  /** Those of a calling flow. */
  readonly #lent: CallSecrets | undefined

  /** @param lent replaces values by handles, which only its flow can resolve */
  constructor(secrets: Iterable<SecretValue>, lent?: CallSecrets) {
    this.#lent = lent
    const texts = textsIn([...secrets])
    this.#isEmpty = texts.length === 0
    for (const text of texts) {
      this.#own.addSecret(text)
      // Output is split at line breaks.
      for (const line of text.split(/\r?\n/)) this.#own.addSecret(line)
    }
  }

  /** A line of the log, whose end may be cut. */
  line(text: string): string {
    if (this.#isEmpty && this.#lent === undefined) return text
    const cut = text.endsWith('…')
    const body = cut ? text.slice(0, -1) : text
    const own = cut ? this.#own.redactExcerpt(body) : (this.#own.redactOutput(body) as string)
    const shown = this.#lent === undefined ? own : withoutHandles(this.#lent.redactExcerpt(own))
    return cut ? `${shown}…` : shown
  }

  /** `***` in place of each secret of the function. What a flow has lent is left to {@link withCallSecrets}. */
  value<T extends Json>(value: T): T {
    return this.#isEmpty ? value : (this.#own.redactOutput(value) as T)
  }

  /** A copy of the arguments of a call, for the audit log, which shows short ones in paths. */
  shown(args: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
    const isShort = (value: unknown) => typeof value === 'string' && value.length <= LIMITS.auditTextCharsMax
    return Object.fromEntries(
      Object.entries(args).map(([name, value]) => [name, isShort(value) ? this.line(String(value)) : MASK]),
    )
  }

  failure(error: unknown): unknown {
    return this.#isEmpty ? error : this.#own.redactFailure(error)
  }
}

function textsIn(value: SecretValue): string[] {
  if (typeof value === 'string') return [value]
  return Object.values(value).flatMap((one: SecretValue) => textsIn(one))
}
