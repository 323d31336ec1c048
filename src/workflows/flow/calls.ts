/** Sends calls of a flow as activities or local activities: queue, time limits, attempts, errors. */

import { type ActivityOptions, ApplicationFailure, TimeoutFailure } from '@temporalio/common'
import {
  CancellationScope,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
} from '@temporalio/workflow'
import { ERRORS, FlowError } from '../../../flows-dsl/errors.ts'
import { isObject, type Json, type JsonObject } from '../../../flows-dsl/json.ts'
import type { CallRequest } from '../../../flows-dsl/machine/driver.ts'
import type { Activities, CallFailure, FunctionCall, Tried } from '../../activities/contract.ts'
import { LIMITS } from '../../core/limits.ts'
import { type FirstAttempt, QUEUES } from '../../core/work.ts'
import { lineOf } from './current-details.ts'
import type { Hold } from './execution-gate.ts'
import { causeOf } from './execution-gate.ts'
import type { Moments } from './logical-clock.ts'

/** Named as no function of the catalogue can be: what begins a flow that another flow runs. */
export const SUBFLOW = '$subflow'

const SLOW = new Set(['http', 'openapi', 'function.invoke'])
const IDEMPOTENT = new Set(['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS'])
const RETRY = {
  initialInterval: '200ms',
  backoffCoefficient: 2,
  maximumInterval: '30s',
  maximumAttempts: 8,
} as const

/** A call, and the names of the secrets that its run may use. */
interface Call extends CallRequest {
  readonly secrets?: readonly string[]
}

/** A call that may take seconds is shown while it lasts; one that takes milliseconds when it is over. */
export function isSlow(request: CallRequest): boolean {
  return SLOW.has(request.function)
}

/**
 * A task of its own. Only the document of an operation says what method it has, and so whether its request may be sent
 * again.
 */
export async function callOf({ local: _, ...request }: Call, hold: Hold): Promise<Json> {
  if (request.function !== 'openapi') return call(request, hold)
  const planned = await call({ ...request, arguments: documented(request.arguments) }, hold)
  return call({ ...request, function: 'http', arguments: requested(planned, request.arguments) }, hold)
}

/** What keeps account of the calls that are made beside a run. */
interface Beside {
  readonly hold: Hold
  readonly moments: Moments
}

/**
 * Beside the workflow, without a task of its own: it begins at once and leaves one event. Made once more where the
 * worker is lost, so that it takes the ids of the first time.
 * @returns undefined where it is to have a task of its own
 */
export async function localCall(
  request: Call,
  { hold, moments }: Beside,
): Promise<{ readonly output: Json } | undefined> {
  const ended = moments.beside()
  try {
    if (request.local === 'brief') return await briefCall(request, { hold, moments })
    // The next after many is a task of its own.
    const local = !moments.areMany
    const answer = call({ ...request, local }, hold, moments.begun(request))
    if (!local) moments.endedBy(answer)
    return { output: await answer }
  } finally {
    ended()
  }
}

/** A request that changes nothing, made beside the run if its server answers in a moment. */
async function briefCall(request: Call, { hold, moments }: Beside): Promise<Tried | undefined> {
  // Also where it has a task of its own: it may be local where it is all done again, and others count from here.
  const begun = moments.begun(request)
  if (!moments.mayBeBrief()) return undefined
  const tried = (await call(request, hold, begun)) as Tried | null
  moments.wasBrief(tried?.took_ms)
  return tried ?? undefined
}

/** What was refused because the tenant is suspended is called again when it is resumed, as often as it takes. */
export async function call(request: Call, hold: Hold, begun?: FirstAttempt): Promise<Json> {
  const { function: name, arguments: given, secrets, step } = request
  const asked: FunctionCall = {
    function: name,
    arguments: given,
    ...(secrets && { secrets }),
    ...(begun && { begun }),
  }
  let sent = asked
  for (;;) {
    try {
      return await send(request, sent)
    } catch (error) {
      const refusal = hold.refusalOf(error)
      if (refusal === undefined) throw isCancellation(error) ? error : fault(error, step.pointer)
      sent = { ...asked, ...(await hold.waitAfter(refusal)) }
    }
  }
}

/** In-platform calls run beside the workflow and start at once; HTTP has a queue of its own, so it blocks nobody. */
function send(request: CallRequest, sent: FunctionCall): Promise<Json> {
  const options = { summary: lineOf(request.step), retry: RETRY }
  // Never cancelled: it ends soon, and the SDK fails the task where one ends as it is given up (invalid transition).
  if (request.local === true)
    return CancellationScope.nonCancellable(() => localCalls(request, options)(sent))
  if (request.local === 'brief') return tried(options, sent)
  if (!isSlow(request)) return fast(request.function, options)(sent)
  if (request.function === 'openapi') return planning(options).planOpenApi(sent)
  if (request.function === 'http') return httpCalls(request, options).callHttp(sent)
  return functionCalls(options).callFunction(sent)
}

function localCalls({ function: name }: CallRequest, options: ActivityOptions) {
  const isHttp = name === 'http'
  const retry = { ...RETRY, maximumAttempts: isHttp ? 3 : RETRY.maximumAttempts }
  const limits = { startToCloseTimeout: isHttp ? '45s' : '20s', retry } as const
  const activities = proxyLocalActivities<Activities>({ ...limits, summary: options.summary ?? name })
  return isHttp ? activities.callHttp : activities.callFunction
}

/** Whatever keeps it from being over in a moment, on their side or on ours: a task has the time and the attempts for it. */
async function tried(options: ActivityOptions, sent: FunctionCall): Promise<Json> {
  const summary = options.summary ?? 'http'
  const limits = { startToCloseTimeout: '5s', retry: { maximumAttempts: 1 } } as const
  const { tryHttp } = proxyLocalActivities<Activities>({ ...limits, summary })
  try {
    return await CancellationScope.nonCancellable(() => tryHttp(sent))
  } catch (error) {
    const cause = causeOf(error)
    if (cause instanceof ApplicationFailure && cause.nonRetryable) throw error
    return null
  }
}

function fast(name: string, options: ActivityOptions) {
  const activities = proxyActivities<Activities>({ ...options, startToCloseTimeout: '20s' })
  return name === SUBFLOW ? activities.beginSubflow : activities.callFunction
}

/** A request that may have had its effect is not sent again; one whose repetition is harmless is (RFC 9110 §9.2.2). */
function httpCalls(request: CallRequest, options: ActivityOptions) {
  const method = String(request.arguments['method'] ?? 'GET').toUpperCase()
  const retry = { ...RETRY, maximumAttempts: IDEMPOTENT.has(method) ? 3 : 1 }
  return proxyActivities<Activities>({
    ...options,
    retry,
    taskQueue: QUEUES.calls,
    startToCloseTimeout: '45s',
  })
}

/** Reading a document changes nothing. */
function planning(options: ActivityOptions) {
  const retry = { ...RETRY, maximumAttempts: 3 }
  return proxyActivities<Activities>({
    ...options,
    retry,
    taskQueue: QUEUES.calls,
    startToCloseTimeout: '45s',
  })
}

/** A second attempt finds the run that the first one started, and waits for it: the code runs once. */
function functionCalls(options: ActivityOptions) {
  const { functionTimeoutMs, functionQueueMs, functionHeartbeatMs } = LIMITS
  const startToCloseTimeout = functionTimeoutMs.max + functionQueueMs + 3 * functionHeartbeatMs
  return proxyActivities<Activities>({ ...options, taskQueue: QUEUES.calls, startToCloseTimeout })
}

/** What an activity failed with, as an error of the language. */
function fault(error: unknown, instance: string): unknown {
  const cause = causeOf(error)
  if (cause instanceof TimeoutFailure)
    return new FlowError(ERRORS.timeout, 'The call took too long.', instance)
  if (cause === error && !(cause instanceof ApplicationFailure)) return error
  const failure =
    cause instanceof ApplicationFailure ? (cause.details?.[0] as CallFailure | undefined) : undefined
  if (failure === undefined) return new FlowError(ERRORS.runtime, 'The call could not be done.', instance)
  return errorOf(failure, instance)
}

function errorOf({ type, status, title, detail }: CallFailure, instance: string): FlowError {
  return new FlowError({ type, status, title }, detail, instance)
}

/** What the document is read with: whoever reads it has no need of the credentials for the operation. */
export function documented(given: JsonObject): JsonObject {
  const { authentication: _, ...rest } = given
  return rest
}

/** The arguments of `call: http`: the request that the document says, and what the flow says besides. */
export function requested(planned: Json, given: JsonObject): JsonObject {
  const { authentication, output = 'content', redirect = false } = given
  const request = isObject(planned) ? planned : {}
  return { ...request, output, redirect, ...(authentication !== undefined && { authentication }) }
}

export class UnderWay {
  #bytes = 0
  #sent = 0

  /** @returns how to give it back; undefined where it is too much */
  take(bytes: number): (() => void) | undefined {
    const { stepInputBytesMax, callsUnderWayBytesMax, callsSentBytesMax } = LIMITS
    // More than this is in the object store by then.
    const sent = Math.min(bytes, LIMITS.payloads.inlineBytesMax)
    if (bytes > stepInputBytesMax || this.#bytes + bytes > callsUnderWayBytesMax) return undefined
    if (this.#sent + sent > callsSentBytesMax) return undefined
    this.#bytes += bytes
    this.#sent += sent
    return () => {
      this.#bytes -= bytes
      this.#sent -= sent
    }
  }
}

/** Bytes of a value as it travels: JSON in UTF-8. */
export function sizeOf(value: Json): number {
  return new TextEncoder().encode(JSON.stringify(value)).length
}
