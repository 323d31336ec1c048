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
import type { Activities, CallFailure, FunctionCall, InlineResult } from '../../activities/contract.ts'
import { LIMITS } from '../../core/limits.ts'
import { type FirstAttempt, QUEUES } from '../../core/work.ts'
import { summaryLine } from './current-details.ts'
import type { ExecutionGate } from './execution-gate.ts'
import { causeOf } from './execution-gate.ts'
import type { LogicalClock } from './logical-clock.ts'

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
export function usesCallsQueue(request: CallRequest): boolean {
  return SLOW.has(request.function)
}

/**
 * A task of its own. Only the document of an operation says what method it has, and so whether its request may be sent
 * again.
 */
export async function callAsActivity({ local: _, ...request }: Call, hold: ExecutionGate): Promise<Json> {
  if (request.function !== 'openapi') return callUntilAccepted(request, hold)
  const planned = await callUntilAccepted(
    { ...request, arguments: documentArguments(request.arguments) },
    hold,
  )
  return callUntilAccepted(
    { ...request, function: 'http', arguments: requestArguments(planned, request.arguments) },
    hold,
  )
}

/** What keeps account of the calls that are made beside a run. */
interface InlineServices {
  readonly hold: ExecutionGate
  readonly moments: LogicalClock
}

/**
 * Beside the workflow, without a task of its own: it begins at once and leaves one event. Made once more where the
 * worker is lost, so that it takes the ids of the first time.
 * @returns undefined where it is to have a task of its own
 */
export async function callInline(
  request: Call,
  { hold, moments }: InlineServices,
): Promise<{ readonly output: Json } | undefined> {
  const ended = moments.startInlineCall()
  try {
    if (request.local === 'brief') return await callInlineIfFast(request, { hold, moments })
    // The next after many is a task of its own.
    const local = !moments.isTaskFull
    const answer = callUntilAccepted({ ...request, local }, hold, moments.firstAttemptOf(request))
    if (!local) moments.resetAfter(answer)
    return { output: await answer }
  } finally {
    ended()
  }
}

/** A request that changes nothing, made beside the run if its server answers in a moment. */
async function callInlineIfFast(
  request: Call,
  { hold, moments }: InlineServices,
): Promise<InlineResult | undefined> {
  // Also where it has a task of its own: it may be local where it is all done again, and others count from here.
  const begun = moments.firstAttemptOf(request)
  if (!moments.mayTryInline()) return undefined
  const tried = (await callUntilAccepted(request, hold, begun)) as InlineResult | null
  moments.recordInlineAttempt(tried?.took_ms)
  return tried ?? undefined
}

/** What was refused because the tenant is suspended is called again when it is resumed, as often as it takes. */
export async function callUntilAccepted(
  request: Call,
  hold: ExecutionGate,
  begun?: FirstAttempt,
): Promise<Json> {
  const { function: name, arguments: given, secrets, step } = request
  const asked: FunctionCall = {
    function: name,
    arguments: given,
    ...(secrets && { secrets }),
    ...(begun && { first_attempt: begun }),
  }
  let sent = asked
  for (;;) {
    try {
      return await dispatch(request, sent)
    } catch (error) {
      const refusal = hold.refusalOf(error)
      if (refusal === undefined) throw isCancellation(error) ? error : toFlowError(error, step.pointer)
      sent = { ...asked, ...(await hold.waitAfterRefusal(refusal)) }
    }
  }
}

/** In-platform calls run beside the workflow and start at once; HTTP has a queue of its own, so it blocks nobody. */
function dispatch(request: CallRequest, sent: FunctionCall): Promise<Json> {
  const options = { summary: summaryLine(request.step), retry: RETRY }
  // Never cancelled: it ends soon, and the SDK fails the task where one ends as it is given up (invalid transition).
  if (request.local === true)
    return CancellationScope.nonCancellable(() => inlineActivity(request, options)(sent))
  if (request.local === 'brief') return tryHttpInline(options, sent)
  if (!usesCallsQueue(request)) return platformActivity(request.function, options)(sent)
  if (request.function === 'openapi') return planningActivity(options).planOpenApi(sent)
  if (request.function === 'http') return httpActivity(request, options).callHttp(sent)
  return functionActivity(options).callFunction(sent)
}

function inlineActivity({ function: name }: CallRequest, options: ActivityOptions) {
  const isHttp = name === 'http'
  const retry = { ...RETRY, maximumAttempts: isHttp ? 3 : RETRY.maximumAttempts }
  const limits = { startToCloseTimeout: isHttp ? '45s' : '20s', retry } as const
  const activities = proxyLocalActivities<Activities>({ ...limits, summary: options.summary ?? name })
  return isHttp ? activities.callHttp : activities.callFunction
}

/** Whatever keeps it from being over in a moment, on their side or on ours: a task has the time and the attempts for it. */
async function tryHttpInline(options: ActivityOptions, sent: FunctionCall): Promise<Json> {
  const summary = options.summary ?? 'http'
  const limits = { startToCloseTimeout: '5s', retry: { maximumAttempts: 1 } } as const
  const { callHttpInline } = proxyLocalActivities<Activities>({ ...limits, summary })
  try {
    return await CancellationScope.nonCancellable(() => callHttpInline(sent))
  } catch (error) {
    const cause = causeOf(error)
    if (cause instanceof ApplicationFailure && cause.nonRetryable) throw error
    return null
  }
}

function platformActivity(name: string, options: ActivityOptions) {
  const activities = proxyActivities<Activities>({ ...options, startToCloseTimeout: '20s' })
  return name === SUBFLOW ? activities.startSubflow : activities.callFunction
}

/** A request that may have had its effect is not sent again; one whose repetition is harmless is (RFC 9110 §9.2.2). */
function httpActivity(request: CallRequest, options: ActivityOptions) {
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
function planningActivity(options: ActivityOptions) {
  const retry = { ...RETRY, maximumAttempts: 3 }
  return proxyActivities<Activities>({
    ...options,
    retry,
    taskQueue: QUEUES.calls,
    startToCloseTimeout: '45s',
  })
}

/** A second attempt finds the run that the first one started, and waits for it: the code runs once. */
function functionActivity(options: ActivityOptions) {
  const { functionTimeoutMs, functionQueueMs, functionHeartbeatMs } = LIMITS
  const startToCloseTimeout = functionTimeoutMs.max + functionQueueMs + 3 * functionHeartbeatMs
  return proxyActivities<Activities>({ ...options, taskQueue: QUEUES.calls, startToCloseTimeout })
}

/** What an activity failed with, as an error of the language. */
function toFlowError(error: unknown, instance: string): unknown {
  const cause = causeOf(error)
  if (cause instanceof TimeoutFailure)
    return new FlowError(ERRORS.timeout, 'The call took too long.', instance)
  if (cause === error && !(cause instanceof ApplicationFailure)) return error
  const failure =
    cause instanceof ApplicationFailure ? (cause.details?.[0] as CallFailure | undefined) : undefined
  if (failure === undefined) return new FlowError(ERRORS.runtime, 'The call could not be done.', instance)
  return flowErrorOf(failure, instance)
}

function flowErrorOf({ type, status, title, detail }: CallFailure, instance: string): FlowError {
  return new FlowError({ type, status, title }, detail, instance)
}

/** What the document is read with: whoever reads it has no need of the credentials for the operation. */
export function documentArguments(given: JsonObject): JsonObject {
  const { authentication: _, ...rest } = given
  return rest
}

/** The arguments of `call: http`: the request that the document says, and what the flow says besides. */
export function requestArguments(planned: Json, given: JsonObject): JsonObject {
  const { authentication, output = 'content', redirect = false } = given
  const request = isObject(planned) ? planned : {}
  return { ...request, output, redirect, ...(authentication !== undefined && { authentication }) }
}

export class InFlightBudget {
  #bytes = 0
  #sent = 0

  /** @returns how to give it back; undefined where it is too much */
  reserve(bytes: number): (() => void) | undefined {
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
