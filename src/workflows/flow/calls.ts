/** Sends calls of a flow as activities or local activities: queue, time limits, attempts, errors. */

import { type ActivityOptions, ApplicationFailure, TimeoutFailure } from '@temporalio/common'
import {
  ActivityCancellationType,
  CancellationScope,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
} from '@temporalio/workflow'
import { ERRORS, FlowError, OUTCOME_UNKNOWN } from '../../../flows-dsl/errors.ts'
import { isObject, type Json, type JsonObject, omitUndefined } from '../../../flows-dsl/json.ts'
import type { CallRequest } from '../../../flows-dsl/machine/driver.ts'
import { SAFE_METHODS } from '../../../flows-dsl/tasks/call-http.ts'
import { MCP } from '../../../flows-dsl/tasks/call-mcp.ts'
import type { Activities, CallFailure, FunctionCall, InlineResult } from '../../activities/contract.ts'
import { type FirstAttempt, QUEUES } from '../../core/work.ts'
import { FLOW_LIMITS } from '../../features/flows/limits.ts'
import { FUNCTION_LIMITS } from '../../features/functions/limits.ts'
import { INFRA_LIMITS } from '../../infra/limits.ts'
import { RETRIES } from '../retries.ts'
import { summaryLine } from './current-details.ts'
import type { ExecutionGate } from './execution-gate.ts'
import { causeOf } from './execution-gate.ts'
import { type LogicalClock, nowMs } from './logical-clock.ts'

/** The name of the call that starts a sub-flow; no function of the catalogue can have it. */
export const SUBFLOW = '$subflow'

/** The name of the call that opens a callback. */
export const OPEN_CALLBACK_CALL = '$callback'

const SLOW = new Set(['http', 'openapi', 'function.invoke', MCP])

/** The queue of calls to other servers. A worker that sends no heartbeats is lost. */
const CALLS_QUEUE = { taskQueue: QUEUES.calls, heartbeatTimeout: FLOW_LIMITS.callHeartbeatMs } as const
/** A call that is cancelled ends when its outcome is known, or when it is known not to have been sent. */
const SETTLES = { cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED } as const
/** Of what starts a run or a subflow. */
const UNTIL_STARTED = { retry: RETRIES.start, scheduleToCloseTimeout: FLOW_LIMITS.startLimitMs } as const
/** How often a request is sent at most, if its worker is lost each time. */
const REQUESTS_MAX = 3

/** A call, the names of the secrets that the execution may use, and its starter. */
interface Call extends CallRequest {
  readonly secrets?: readonly string[]
  readonly startedBy?: string
  /** Reserves room in the message of the workflow task, before each activity. @returns undefined if there is room now */
  readonly awaitRoom?: () => Promise<void> | undefined
}

/** True if a call may take seconds, so that it has its own queue and the record shows it while it lasts. */
export function usesCallsQueue(request: CallRequest): boolean {
  return SLOW.has(request.function)
}

/**
 * Makes a call as an activity. An OpenAPI call takes two: only the document shows the method, and so whether the request
 * may be repeated.
 */
export async function callAsActivity({ local: _, ...request }: Call, gate: ExecutionGate): Promise<Json> {
  if (request.function !== 'openapi') return callUntilAccepted(request, gate)
  const planned = await callUntilAccepted(
    { ...request, arguments: documentArguments(request.arguments) },
    gate,
  )
  return callUntilAccepted(
    { ...request, function: 'http', arguments: requestArguments(planned, request.arguments) },
    gate,
  )
}

interface InlineServices {
  readonly gate: ExecutionGate
  readonly clock: LogicalClock
}

/**
 * Makes a call as a local activity, which starts at once and adds one event to the history. If the worker is lost, it is
 * repeated with the same ids.
 * @returns undefined if the call should become an activity instead
 */
export async function callInline(
  request: Call,
  { gate, clock }: InlineServices,
): Promise<{ readonly output: Json } | undefined> {
  const endInlineCall = clock.startInlineCall()
  try {
    if (request.local === 'brief') return await callInlineIfFast(request, { gate, clock })
    // After many local calls the next one is an activity, which ends the workflow task: a lost task repeats them all.
    const local = !clock.isTaskFull
    const output = callUntilAccepted({ ...request, local }, gate, clock.firstAttemptOf(request))
    if (!local) clock.resetAfter(output)
    return { output: await output }
  } finally {
    endInlineCall()
  }
}

/** Makes a request without side effects inline, if its server answers quickly. */
async function callInlineIfFast(
  request: Call,
  { gate, clock }: InlineServices,
): Promise<InlineResult | undefined> {
  // Counted even if it becomes an activity: in a repetition it may be inline, and later calls derive their ids from it.
  const firstAttempt = clock.firstAttemptOf(request)
  if (!clock.mayTryInline()) return undefined
  const result = (await callUntilAccepted(request, gate, firstAttempt)) as InlineResult | null
  clock.recordInlineAttempt(result?.took_ms)
  return result ?? undefined
}

/** Makes a call, and makes it again after each suspension that refused it. */
export async function callUntilAccepted(
  request: Call,
  gate: ExecutionGate,
  firstAttempt?: FirstAttempt,
): Promise<Json> {
  const { function: name, arguments: given, secrets, startedBy, step } = request
  const call: FunctionCall = {
    function: name,
    arguments: given,
    ...(secrets && { secrets }),
    ...(name === 'http' && { timeout_ms: timeLimitOf(request), call_path: step.callPath }),
    ...(name === MCP && startedBy !== undefined && { started_by: startedBy }),
    ...(firstAttempt && { first_attempt: firstAttempt }),
    ...(request.finishes && { finishes: true }),
  }
  let sent = call
  for (;;) {
    try {
      const room = request.local ? undefined : request.awaitRoom?.()
      if (room !== undefined) await room
      return await dispatch(request, sent)
    } catch (error) {
      const refusal = gate.refusalOf(error)
      if (refusal === undefined) throw isCancellation(error) ? error : toFlowError(error, request)
      sent = { ...call, ...(await gate.waitAfterRefusal(refusal)) }
    }
  }
}

/** Chooses activity, queue and limits. Calls to other servers have their own queue, so slow servers block no other work. */
function dispatch(request: CallRequest, sent: FunctionCall): Promise<Json> {
  const options = { summary: summaryLine(request.step), retry: RETRIES.call }
  // Not cancellable: the SDK fails the task if a local activity ends while it is cancelled (invalid transition).
  if (request.local === true)
    return CancellationScope.nonCancellable(() => inlineActivity(request, options).callFunction(sent))
  if (request.local === 'brief') return tryHttpInline(options, sent)
  if (!usesCallsQueue(request)) return platformActivity(request.function, options)(sent)
  if (request.function === 'openapi') return planningActivity(options).planOpenApi(sent)
  if (request.function === 'http') return httpActivity(request, options).callHttp(sent)
  const repeats = request.function === 'function.invoke' ? UNTIL_STARTED : {}
  return functionActivity({ ...options, ...repeats }).callFunction(sent)
}

function inlineActivity({ function: name }: CallRequest, options: ActivityOptions) {
  const limits = { startToCloseTimeout: '20s', retry: RETRIES.call } as const
  return proxyLocalActivities<Activities>({ ...limits, summary: options.summary ?? name })
}

/** @returns null if the request failed for a reason that an activity, with its time and attempts, may overcome */
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
  const limits = { ...options, ...SETTLES, startToCloseTimeout: '20s' } as const
  if (name === SUBFLOW) return proxyActivities<Activities>({ ...limits, ...UNTIL_STARTED }).startSubflow
  const activities = proxyActivities<Activities>(limits)
  return name === OPEN_CALLBACK_CALL ? activities.openCallback : activities.callFunction
}

/**
 * Sends a request again only if the worker was lost: failures of the server are final, and the flow decides on them (`retry`). If
 * it is not sent again, nothing is gained by noticing a lost worker soon, and the answer of one that has only stalled still counts.
 */
function httpActivity(request: CallRequest, options: ActivityOptions) {
  const repeats = isRepeatable(request)
  const attempts = { ...RETRIES.call, maximumAttempts: repeats ? REQUESTS_MAX : 1 }
  const heartbeatTimeout = repeats ? FLOW_LIMITS.callHeartbeatMs : FLOW_LIMITS.singleCallHeartbeatMs
  const startToCloseTimeout = timeLimitOf(request) + FLOW_LIMITS.callGraceMs
  const settles = SAFE_METHODS.has(methodOf(request)) ? {} : SETTLES
  const limits = { ...CALLS_QUEUE, heartbeatTimeout, retry: attempts, startToCloseTimeout }
  return proxyActivities<Activities>({ ...options, ...limits, ...settles })
}

function planningActivity(options: ActivityOptions) {
  const retry = { ...RETRIES.call, maximumAttempts: REQUESTS_MAX }
  return proxyActivities<Activities>({ ...options, ...CALLS_QUEUE, retry, startToCloseTimeout: '45s' })
}

/** The task's `timeout` within the limits of calls, or the default. */
function timeLimitOf({ timeoutMs = INFRA_LIMITS.httpCallTimeoutMs }: CallRequest): number {
  return Math.min(timeoutMs, FLOW_LIMITS.callTimeoutMsMax)
}

const methodOf = ({ arguments: given }: CallRequest) => String(given['method'] ?? 'GET').toUpperCase()

/** True if a request may be sent again if its worker was lost: by `delivery`, and without it if its method is safe. */
function isRepeatable(request: CallRequest): boolean {
  const { delivery } = request.arguments
  return delivery === undefined ? SAFE_METHODS.has(methodOf(request)) : delivery === 'at_least_once'
}

/** A second attempt waits for the function run that the first one started: the code runs once. */
function functionActivity(options: ActivityOptions) {
  const {
    timeoutMs: functionTimeoutMs,
    queueMs: functionQueueMs,
    heartbeatMs: functionHeartbeatMs,
  } = FUNCTION_LIMITS
  const startToCloseTimeout = functionTimeoutMs.max + functionQueueMs + 3 * functionHeartbeatMs
  return proxyActivities<Activities>({ ...options, ...CALLS_QUEUE, ...SETTLES, startToCloseTimeout })
}

/** Converts the failure of an activity to an error of the flow language. */
function toFlowError(error: unknown, request: CallRequest): unknown {
  const instance = request.step.pointer
  const cause = causeOf(error)
  if (cause instanceof TimeoutFailure)
    return usesCallsQueue(request) && cause.timeoutType !== 'SCHEDULE_TO_CLOSE'
      ? workerLost(request)
      : new FlowError({ ...ERRORS.timeout, code: OUTCOME_UNKNOWN }, 'The call took too long.', instance)
  if (cause === error && !(cause instanceof ApplicationFailure)) return error
  const failure =
    cause instanceof ApplicationFailure ? (cause.details?.[0] as CallFailure | undefined) : undefined
  if (failure === undefined) return new FlowError(ERRORS.runtime, 'The call failed.', instance)
  return flowErrorOf(failure, instance)
}

function flowErrorOf({ detail, ...fields }: CallFailure, instance: string): FlowError {
  return new FlowError(fields, detail, instance)
}

/** The error of a call whose activity sent no more heartbeats. A request that is not safe may have had its effect. */
function workerLost(request: CallRequest): FlowError {
  const { function: name, arguments: given, step } = request
  const endpoint = String(given['endpoint'] ?? '').replace(/[?#].*$/s, '')
  const method = methodOf(request)
  const isUnknown = name === 'http' ? !SAFE_METHODS.has(method) : name !== 'openapi'
  const subject = name === 'http' ? `${method} ${endpoint}` : name
  const outcome = isUnknown ? ' The request may have arrived.' : ''
  const detail = `${subject}: the worker was lost before the answer arrived.${outcome}`
  return new FlowError(
    { ...ERRORS.communication, code: isUnknown ? OUTCOME_UNKNOWN : 'worker_lost' },
    detail,
    step.pointer,
  )
}

/** The arguments for reading the OpenAPI document, without the credentials for the operation. */
export function documentArguments(given: JsonObject): JsonObject {
  const { authentication: _, ...rest } = given
  return rest
}

/** The arguments of `call: http`: the request planned from the document, with the flow's authentication and options. */
export function requestArguments(planned: Json, given: JsonObject): JsonObject {
  const { authentication, output = 'content', redirect = false, errors, delivery } = given
  const request = isObject(planned) ? planned : {}
  return { ...request, output, redirect, ...omitUndefined({ errors, delivery, authentication }) }
}

/** Bounds the bytes of the arguments of all calls in flight, which the worker holds in memory. */
export class InFlightBudget {
  #bytes = 0

  /** @returns a function that releases the bytes @throws FlowError (runtime) if they exceed a bound */
  reserve(bytes: number, { pointer }: CallRequest['step']): () => void {
    const { stepInputBytesMax, callsInFlightBytesMax: callsUnderWayBytesMax } = FLOW_LIMITS
    const all = this.#bytes + bytes
    if (bytes > stepInputBytesMax)
      throw tooLarge(`The arguments of the call have ${bytes} bytes`, stepInputBytesMax, pointer)
    if (all > callsUnderWayBytesMax)
      throw tooLarge(`The arguments of all running calls have ${all} bytes`, callsUnderWayBytesMax, pointer)
    this.#bytes = all
    return () => {
      this.#bytes -= bytes
    }
  }
}

const tooLarge = (subject: string, max: number, pointer: string): FlowError =>
  new FlowError(ERRORS.runtime, `${subject}; at most ${max} are allowed.`, pointer)

/** Bounds the bytes of arguments in the gRPC message that ends a workflow task (4 MB). */
export class MessageBudget {
  readonly #clock: Pick<LogicalClock, 'taskMs'>
  /** Bytes of the activities of this task, by the time at which they were scheduled. */
  #unsent: { bytes: number; readonly atMs: number }[] = []

  constructor(clock: Pick<LogicalClock, 'taskMs'>) {
    this.#clock = clock
  }

  /** @returns false if the message is full; then the next task has room */
  reserve(bytes: number): boolean {
    // Larger payloads are moved to the object store.
    const inline = Math.min(bytes, INFRA_LIMITS.payloads.inlineBytesMax)
    // A signal may schedule activities before the clock ticks in its task, so those of that time are kept.
    this.#unsent = this.#unsent.filter(({ atMs }) => atMs >= this.#clock.taskMs)
    const all = this.#unsent.reduce((sum, one) => sum + one.bytes, inline)
    if (all > FLOW_LIMITS.callsSentBytesMax) return false
    const atMs = nowMs()
    const last = this.#unsent.at(-1)
    if (last?.atMs === atMs) last.bytes += inline
    else this.#unsent.push({ bytes: inline, atMs })
    return true
  }
}

/** Bytes of a value as JSON in UTF-8. */
export function sizeOf(value: Json): number {
  return new TextEncoder().encode(JSON.stringify(value)).length
}
