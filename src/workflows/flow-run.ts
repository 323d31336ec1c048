/** Binds the language to Temporal: its effects become timers and activities, its events the run's projection. */

import {
  ActivityFailure,
  type ActivityOptions,
  ApplicationFailure,
  CancelledFailure,
  TimeoutFailure,
} from '@temporalio/common'
import {
  CancellationScope,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  sleep,
  uuid4,
  workflowInfo,
} from '@temporalio/workflow'
import { ERRORS, FinalError, FlowError } from '../../flows-dsl/errors.ts'
import type { FlowIR, Json } from '../../flows-dsl/ir.ts'
import { type CallRequest, Drive, type Effects } from '../../flows-dsl/run.ts'
import type { StepRef } from '../../flows-dsl/tasks/task.ts'
import type { Activities, CallFailure, FunctionCall } from '../activities/contract.ts'
import { LIMITS } from '../core/limits.ts'
import { listenTo } from './commands.ts'
import { Hold } from './hold.ts'
import { documented, requested } from './openapi.ts'
import { Recorder } from './recorder.ts'

interface FlowRunInput {
  readonly execution_id: string
  readonly flow: { readonly id: string; readonly name: string; readonly version: number }
  readonly ir: FlowIR
  readonly input: Json
  /** The subject who has; nothing in runs from before approvals. */
  readonly started_by?: string
}

const NO_SUBFLOWS = 'Flows that other flows run are known to the language and not there yet.'
const SLOW_CALLS = 'tenon-calls'
const SLOW = new Set(['http', 'openapi', 'function.invoke'])
const IDEMPOTENT = new Set(['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS'])
const RETRY = {
  initialInterval: '200ms',
  backoffCoefficient: 2,
  maximumInterval: '30s',
  maximumAttempts: 8,
} as const

/** One execution of a flow. A fault of the flow fails the run, so that operators see it red. */
export async function flowRun(input: FlowRunInput): Promise<Json> {
  const recorder = new Recorder(input.execution_id, recordRun)
  const hold = new Hold()
  const startedAt = new Date(nowMs()).toISOString()
  setCurrentDetails(`**${input.flow.name}** v${input.flow.version}, execution \`${input.execution_id}\``)
  try {
    const { started_by } = input
    const info = {
      id: input.execution_id,
      started_at: startedAt,
      flow: input.flow,
      ...(started_by !== undefined && { started_by }),
    }
    const drive = new Drive(input.ir, input.input, effects(recorder, hold), info)
    listenTo(drive)
    const result = await drive.toEnd()
    if (result.status === 'completed' && sizeOf(result.output) > LIMITS.stepOutputBytesMax) {
      throw await tooLarge(recorder)
    }
    if (result.status === 'completed') {
      await recorder.end('completed', { output: result.output })
      return result.output
    }
    if (result.status === 'cancelled') throw new CancelledFailure('The run was cancelled.')
    const { error } = result
    await recorder.end('faulted', { error: error as unknown as Json })
    throw ApplicationFailure.nonRetryable(`${error.title}: ${error.detail}`, error.type, error)
  } catch (error) {
    if (isCancellation(error)) await CancellationScope.nonCancellable(() => recorder.end('cancelled', {}))
    throw error
  }
}

/** Bytes of a value as it travels: JSON in UTF-8. */
function sizeOf(value: Json): number {
  return new TextEncoder().encode(JSON.stringify(value)).length
}

/** Temporal refuses payloads of more than 2 MB, for ever; so a run that would return one is faulted before. */
async function tooLarge(recorder: Recorder): Promise<ApplicationFailure> {
  const detail = `The output of the flow is larger than ${LIMITS.stepOutputBytesMax} bytes.`
  const error = new FlowError(ERRORS.runtime, detail, '/output').toObject()
  await recorder.end('faulted', { error: error as unknown as Json })
  return ApplicationFailure.nonRetryable(detail, error.type, error)
}

function effects(recorder: Recorder, hold: Hold): Effects {
  let underWay = 0
  return {
    nowMs,
    record: (event) => recorder.record(event),
    sleep: async (durationMs, step, { limits } = { limits: false }) => {
      if (hold.isOn) await hold.lifted()
      describe(step)
      refuseEndless(step)
      const { summary } = step
      const heldMs = hold.heldMs()
      await Promise.all([shown(recorder, 'waiting'), sleep(durationMs, { summary })])
      if (hold.isOn || hold.heldMs() > heldMs) await hold.afterTimer(heldMs, { summary, limits })
    },
    call: async (request) => {
      if (hold.isOn) await hold.lifted()
      describe(request.step)
      refuseEndless(request.step)
      const bytes = sizeOf(request.arguments)
      if (bytes > LIMITS.stepInputBytesMax || underWay + bytes > LIMITS.callsUnderWayBytesMax)
        throw new FlowError(ERRORS.runtime, 'The arguments of the call are too large.', request.step.pointer)
      underWay += bytes
      try {
        if (!isSlow(request)) return await callOf(request, hold)
        const [, output] = await Promise.all([shown(recorder, 'running'), callOf(request, hold)])
        return output
      } finally {
        underWay -= bytes
      }
    },
    wait: async (what, _details, step) => {
      if (what === 'workflow') throw new FlowError(ERRORS.configuration, NO_SUBFLOWS, step.pointer)
      describe(step)
      await shown(recorder, 'waiting')
      return CancellationScope.current().cancelRequested
    },
    held: (isHeld) => void shown(recorder, isHeld ? 'suspended' : 'running'),
    random: () => Number.parseInt(uuid4().slice(0, 8), 16) / 2 ** 32,
    scope: (work, { isShielded } = { isShielded: false }) => {
      const scope = new CancellationScope({ cancellable: !isShielded })
      void scope.run(work)
      return { cancel: () => scope.cancel() }
    },
    isCancellation,
  }
}

/** A run that Temporal ended for its size would be shown as running for ever: it is faulted before. */
function refuseEndless({ pointer }: StepRef): void {
  const { historyLength, historySize } = workflowInfo()
  if (historyLength <= LIMITS.runEventsMax && historySize <= LIMITS.runHistoryBytesMax) return
  const detail = 'The run has made too many steps, or carried too much; start another for the rest.'
  throw new FinalError(ERRORS.runtime, detail, pointer)
}

/** A branch that is given up takes its timers and calls with it, never the record of what it did. */
function shown(recorder: Recorder, status: 'running' | 'waiting' | 'suspended'): Promise<void> {
  return CancellationScope.nonCancellable(() => recorder.flush(status))
}

/** In the sandbox `Date` is the time of the current workflow task: the same at each replay. */
function nowMs(): number {
  return Number(new Date())
}

function describe(step: StepRef): void {
  setCurrentDetails(`Now at \`${step.pointer}\`: ${step.summary}`)
}

/** A call that may take seconds is shown while it lasts; one that takes milliseconds when it is over. */
function isSlow(request: CallRequest): boolean {
  return SLOW.has(request.function)
}

/** Only its document says what method an operation has, and so whether its request may be sent again. */
async function callOf(request: CallRequest, hold: Hold): Promise<Json> {
  if (request.function !== 'openapi') return call(request, hold)
  const planned = await call({ ...request, arguments: documented(request.arguments) }, hold)
  return call({ ...request, function: 'http', arguments: requested(planned, request.arguments) }, hold)
}

/** What was refused because the tenant is suspended is called again when it is resumed, as often as it takes. */
async function call(request: CallRequest, hold: Hold): Promise<Json> {
  const { function: name, arguments: given, step } = request
  let sent: FunctionCall = { function: name, arguments: given }
  for (;;) {
    try {
      return await send(request, sent)
    } catch (error) {
      const refusal = hold.refusalOf(error)
      if (refusal === undefined) throw isCancellation(error) ? error : fault(error, step.pointer)
      sent = { function: name, arguments: given, ...(await hold.waitAfter(refusal)) }
    }
  }
}

/** In-platform calls run beside the workflow and start at once; HTTP has a queue of its own, so it blocks nobody. */
function send(request: CallRequest, sent: FunctionCall): Promise<Json> {
  const options = { summary: request.step.summary, retry: RETRY }
  if (!isSlow(request))
    return proxyActivities<Activities>({ ...options, startToCloseTimeout: '20s' }).callFunction(sent)
  if (request.function === 'openapi') return planning(options).planOpenApi(sent)
  if (request.function === 'http') return httpCalls(request, options).callHttp(sent)
  return functionCalls(options).callFunction(sent)
}

/** A request that may have had its effect is not sent again; one whose repetition is harmless is (RFC 9110 §9.2.2). */
function httpCalls(request: CallRequest, options: ActivityOptions) {
  const method = String(request.arguments['method'] ?? 'GET').toUpperCase()
  const retry = { ...RETRY, maximumAttempts: IDEMPOTENT.has(method) ? 3 : 1 }
  return proxyActivities<Activities>({ ...options, retry, taskQueue: SLOW_CALLS, startToCloseTimeout: '45s' })
}

/** Reading a document changes nothing. */
function planning(options: ActivityOptions) {
  const retry = { ...RETRY, maximumAttempts: 3 }
  return proxyActivities<Activities>({ ...options, retry, taskQueue: SLOW_CALLS, startToCloseTimeout: '45s' })
}

/** A second attempt finds the run that the first one started, and waits for it: the code runs once. */
function functionCalls(options: ActivityOptions) {
  const { functionTimeoutMs, functionQueueMs, functionHeartbeatMs } = LIMITS
  const startToCloseTimeout = functionTimeoutMs.max + functionQueueMs + 3 * functionHeartbeatMs
  return proxyActivities<Activities>({ ...options, taskQueue: SLOW_CALLS, startToCloseTimeout })
}

/** What an activity failed with, as an error of the language. */
function fault(error: unknown, instance: string): unknown {
  if (!(error instanceof ActivityFailure)) return error
  const { cause } = error
  if (cause instanceof TimeoutFailure)
    return new FlowError(ERRORS.timeout, 'The call took too long.', instance)
  const failure =
    cause instanceof ApplicationFailure ? (cause.details?.[0] as CallFailure | undefined) : undefined
  if (failure === undefined) return new FlowError(ERRORS.runtime, 'The call could not be done.', instance)
  return new FlowError(
    { type: failure.type, status: failure.status, title: failure.title },
    failure.detail,
    instance,
  )
}

/** Local: the projection is one short idempotent write, and it must come however long the database is away. */
const { recordRun } = proxyLocalActivities<Activities>({
  startToCloseTimeout: '10s',
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '10s' },
})
