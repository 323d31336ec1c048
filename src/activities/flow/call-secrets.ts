/** The secrets of one call: decrypts and injects them just before use, and redacts their values from everything that comes back. */

import type { ApplicationFailure } from '@temporalio/common'
import type { WorkspaceScope } from '../../access/scope.ts'
import { lastingSecrets } from '../../access/scope-services.ts'
import type { AnyOperation } from '../../core/operation.ts'
import { handlesIn, holdsHandle, replaceHandles, withoutHandles } from '../../core/secret-handle.ts'
import type { FunctionRunInput, Json, SecretNames } from '../../core/work.ts'
import { FLOW_LIMITS } from '../../features/flows/limits.ts'
import { readSecretValues, type SecretValue, textsByHandle } from '../../features/flows/secrets.ts'
import { callFailure } from '../call-failure.ts'
import type { FunctionCall } from '../contract.ts'
import { SecretRedactor } from '../secret-redactor.ts'
import type { ActivityContext } from '../tenant-interceptor.ts'

/** Encodes a value for the place in which it replaces its handle. */
export type Encoding = (text: string) => string

/** The secrets of one call: replaces handles by values before it, and values by handles after it. */
export class CallSecrets {
  readonly #values: ReadonlyMap<string, SecretValue>
  readonly #texts: ReadonlyMap<string, string>
  /** Handles that the call was given. Any other handle in its output is foreign, and is masked. */
  readonly #given = new Set<string>()
  readonly #redactor = new SecretRedactor((value) => withoutHandles(value, this.#given))
  #bytesLeft: number = FLOW_LIMITS.stepInputBytesMax

  /** @param values by secret name @param texts by handle: each text of each value */
  constructor(values: ReadonlyMap<string, SecretValue>, texts: ReadonlyMap<string, string>) {
    this.#values = values
    this.#texts = texts
    for (const [handle, text] of texts) this.#redactor.add(text, handle)
  }

  /** Reads the current values, so that a replaced secret is used from the next attempt on. */
  static async open(scope: WorkspaceScope, secrets: SecretNames): Promise<CallSecrets> {
    const values = await readSecretValues(scope, secrets.names)
    return new CallSecrets(values, textsByHandle(await lastingSecrets(scope), secrets, values))
  }

  /** Masks another text in the output, such as a token that was issued for a secret. */
  addSecret(text: string): void {
    this.#redactor.add(text)
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
    return this.#redactor.value(output)
  }

  /** Redacts a text that was cut: a secret that its end has begun is left out. */
  redactExcerpt(text: string): string {
    return this.#redactor.excerpt(text)
  }

  /** Redacts an error of the call as {@link redactOutput} does an output. */
  redactFailure(error: unknown): unknown {
    return this.#redactor.failure(error)
  }
}

function missingSecret(name: string): ApplicationFailure {
  const detail = `The secret \`${name}\` no longer exists, or has another form.`
  return callFailure('configuration', detail)
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
