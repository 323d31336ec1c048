/** Binds each argument of durable work to the one use it was made for, so that a worker refuses any other. */

/**
 * What an argument was made for: to start a workflow of that type, to be an activity's argument, to be the value of a
 * signal or of an update.
 */
export type Purpose = `${'start' | 'activity' | 'signal' | 'update'}:${string}`

/** Name in the metadata of a payload (Temporal API, `Payload.metadata`). The codec seals it with the value. */
export const PURPOSE = 'tenon-purpose'

/** Encoding of the payload that the codec puts in place of one that the platform has not sealed for this workflow. */
export const REJECTED = 'binary/tenon-rejected'

/** Type of the failure of durable work whose arguments the platform has not made. */
export const UNAUTHENTICATED = 'work_unauthenticated'

export const UNAUTHENTICATED_MESSAGE =
  'The platform has not made this work: its arguments are not sealed for this workflow and this use.'

/** The worker loads its converters from files of their own, so this class is there twice: a symbol tells its instances. */
const BRAND = Symbol.for('tenon.work-input')

/** An argument with its purpose. Payload converters turn it into a payload, and back. */
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

/** The arguments as they travel. */
export function workArguments(purpose: Purpose, args: readonly unknown[]): WorkInput[] {
  return args.map((value) => new WorkInput(purpose, value))
}

/**
 * The arguments as they were given to {@link workArguments}.
 * @returns undefined if there are none, or one of them was made for another purpose
 */
export function authenticatedArguments(purpose: Purpose, args: readonly unknown[]): unknown[] | undefined {
  if (args.length === 0) return undefined
  const isMeant = (arg: unknown) => WorkInput.is(arg) && arg.purpose === purpose
  return args.every(isMeant) ? args.map((arg) => (arg as WorkInput).value) : undefined
}

/** The name in the metadata of a payload (Temporal API, `Payload.metadata`). */
export const MARK = 'tenon'

/**
 * `open`: words for operators that no data is in; they stay as they are. `inside`: given to an activity beside the run, and so
 * never sent; neither. `failure` and `detail`: of a failure, which is sent in any case, if need be without them.
 */
export type Mark = 'open' | 'inside' | 'failure' | 'detail'
