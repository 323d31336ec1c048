/** Binds each workflow and activity argument to its purpose, so that a worker rejects it in any other place. */

/** The purpose of an argument: starting a workflow of that type, or a call of that activity, signal or update. */
export type Purpose = `${'start' | 'activity' | 'signal' | 'update'}:${string}`

/** The metadata key of the purpose (Temporal API, `Payload.metadata`). The codec encrypts it with the value. */
export const PURPOSE = 'tenon-purpose'

/** The encoding of the payload that replaces one which the platform has not encrypted for this workflow. */
export const REJECTED = 'binary/tenon-rejected'

/** The failure type of work whose arguments the platform did not create. */
export const UNAUTHENTICATED = 'work_unauthenticated'

export const UNAUTHENTICATED_MESSAGE =
  'The platform has not made this work: its arguments are not sealed for this workflow and this use.'

/** Identifies instances across two copies of this class: the worker loads its converters as separate modules. */
const BRAND = Symbol.for('tenon.work-input')

/** An argument with its purpose. The payload converters encode and decode it. */
export class WorkInput {
  readonly [BRAND] = true
  readonly purpose: Purpose | typeof REJECTED
  readonly value: unknown

  constructor(purpose: Purpose | typeof REJECTED, value: unknown) {
    this.purpose = purpose
    this.value = value
  }

  static is(value: unknown): value is WorkInput {
    return typeof value === 'object' && value !== null && BRAND in value
  }
}

/** Wraps arguments for sending. */
export function workArguments(purpose: Purpose, args: readonly unknown[]): WorkInput[] {
  return args.map((value) => new WorkInput(purpose, value))
}

/**
 * Unwraps arguments that {@link workArguments} wrapped.
 * @returns undefined if there are none, or one of them was made for another purpose
 */
export function authenticatedArguments(purpose: Purpose, args: readonly unknown[]): unknown[] | undefined {
  if (args.length === 0) return undefined
  const isMeant = (arg: unknown) => WorkInput.is(arg) && arg.purpose === purpose
  return args.every(isMeant) ? args.map((arg) => (arg as WorkInput).value) : undefined
}

/** The metadata key of the mark (Temporal API, `Payload.metadata`). */
export const MARK = 'tenon'

/**
 * Treatment of a payload by the codec. `open`: text for operators without data, not encrypted. `inside`: argument of a local
 * activity, never sent, not encrypted. `failure` and `detail`: parts of a failure, which is sent without them if necessary.
 */
export type Mark = 'open' | 'inside' | 'failure' | 'detail'
