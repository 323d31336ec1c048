/** Runs a function as a workflow: an attempt is an activity, which is repeated unless its code has begun. */

import { ActivityFailure, ApplicationFailure, CancelledFailure, TimeoutFailure } from '@temporalio/common'
import {
  CancellationScope,
  type LocalActivityOptions,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  sleep,
} from '@temporalio/workflow'
import type { Activities } from '../../activities/contract.ts'
import type { ProblemCode } from '../../core/problem-catalogue.ts'
import {
  type FunctionAttempt,
  type FunctionRunInput,
  isPatient,
  type Json,
  QUEUES,
  type SuspendedFailure,
} from '../../core/work.ts'
import { FUNCTION_LIMITS } from '../../features/functions/limits.ts'
import { nowMs, randomFraction } from '../flow/logical-clock.ts'
import { RETRIES } from '../retries.ts'

const RECORD: LocalActivityOptions = {
  startToCloseTimeout: '10s',
  retry: RETRIES.record,
}
const { failFunctionRun } = proxyLocalActivities<Activities>(RECORD)

/** @throws the failure of the code, so that the Temporal UI shows the workflow as failed */
export async function functionRun(input: FunctionRunInput): Promise<Json> {
  const { name, version } = input.function
  setCurrentDetails(`**${name}** v${version}`)
  try {
    return await runRepeatedly(input)
  } catch (error) {
    const failed = toFailure(error)
    const hasCompleted = await CancellationScope.nonCancellable(() => failFunctionRun(input, errorOf(failed)))
    // The worker was lost after it had sent the end to the database.
    throw hasCompleted ? failure('run_cut_off', RESULT_LOST) : failed
  }
}

const RESULT_LOST = 'The function has completed, as the record of the run shows, but its result was lost.'

async function runRepeatedly(input: FunctionRunInput): Promise<Json> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await makeAttempt({ ...input, attempt })
    } catch (error) {
      const failure = toFailure(error)
      if (attempt >= input.attempts_max || !isRepeatable(failure)) throw failure
    }
    await sleep(pauseMs(attempt, FUNCTION_LIMITS.retry), { summary: `until attempt ${attempt + 1}` })
  }
}

/** A workflow task may last only seconds, and the caller of an asynchronous run does not wait. */
const mayRunInline = ({ is_async, timeout_ms }: FunctionRunInput): boolean =>
  !is_async && timeout_ms <= FUNCTION_LIMITS.inlineMsMax

/** Makes the attempt within the workflow task, which saves two round trips of Temporal: 0.55 of the latency. */
function runInline(input: FunctionAttempt): Promise<{ readonly result: Json } | null> {
  const { runFunctionInline } = proxyLocalActivities<Activities>({
    summary: `${input.function.name} v${input.function.version}`,
    startToCloseTimeout: attemptMs(input),
    retry: { maximumAttempts: 1 },
  })
  return runFunctionInline(input)
}

/**
 * Makes an attempt. One that has not begun is asked for again after a pause. Whether a lost worker has begun it, the next one finds
 * out: then that loss is the outcome.
 */
async function makeAttempt(input: FunctionAttempt): Promise<Json> {
  let lost: unknown
  if (input.attempt === 1 && mayRunInline(input))
    try {
      const done = await runInline(input)
      if (done !== null) return done.result
    } catch (error) {
      if (!mayBeUnbegun(error)) throw error
      if (isLost(error)) lost = error
    }
  const untilMs = nowMs() + (isPatient(input) ? FUNCTION_LIMITS.asyncQueueMs : FUNCTION_LIMITS.queueMs)
  for (let asked = 1; ; asked++) {
    // Runs that were rejected together ask again one by one.
    const waitMs = Math.round(pauseMs(asked, FUNCTION_LIMITS.asyncPause) * (0.5 + randomFraction()))
    try {
      return await runQueued(input, untilMs - nowMs())
    } catch (error) {
      if (!isCutOff(error) && !mayBeUnbegun(error)) throw error
      if (isLost(error)) lost ??= error
      if (isCutOff(error) || nowMs() + waitMs >= untilMs) throw lost ?? error
    }
    await sleep(waitMs, { summary: 'until a slot is free' })
  }
}

/** The worker was lost, or its answer. */
const isLost = (error: unknown): boolean => {
  const cause = causeOf(error)
  return cause instanceof TimeoutFailure && cause.timeoutType !== 'SCHEDULE_TO_START'
}

/** A local activity fails with the cause itself. */
const causeOf = (error: unknown): unknown => (error instanceof ActivityFailure ? error.cause : error)

/** True for a failure after which the code may not have begun, as the record of the run tells. */
const mayBeUnbegun = (error: unknown): boolean => isLost(error) || isOneOf(error, UNBEGUN)

const isCutOff = (error: unknown): boolean => !isLost(error) && isOneOf(error, ['run_cut_off'])

/** A worker fails with these only before the code begins (activities/function/run-function.ts). */
const UNBEGUN: readonly ProblemCode[] = ['dependency_unavailable', 'overloaded', 'query_timeout']

const isOneOf = (error: unknown, codes: readonly ProblemCode[]): boolean => {
  const failed = toFailure(error)
  return failed instanceof ApplicationFailure && codes.some((code) => code === failed.type)
}

/**
 * The longest time of an attempt that has a slot: the start of a process, the code, and the record of its end. The worker
 * enforces the limit of the code itself; the rest is for a worker that fails to.
 */
const attemptMs = ({ timeout_ms }: FunctionRunInput): number =>
  FUNCTION_LIMITS.startMs + timeout_ms + FUNCTION_LIMITS.recordMs + FUNCTION_LIMITS.heartbeatMs

/** @param queueMs how long the attempt may wait for a worker */
function runQueued(input: FunctionAttempt, queueMs: number): Promise<Json> {
  const { runFunction } = proxyActivities<Activities>({
    taskQueue: QUEUES.functions,
    summary: `${input.function.name} v${input.function.version}`,
    scheduleToStartTimeout: queueMs,
    startToCloseTimeout: FUNCTION_LIMITS.queueMs + attemptMs(input),
    heartbeatTimeout: FUNCTION_LIMITS.heartbeatMs,
    retry: { maximumAttempts: 1 },
  })
  return runFunction(input)
}

/** @param count of those that were made before, from 1 */
const pauseMs = (
  count: number,
  { minMs, maxMs }: { readonly minMs: number; readonly maxMs: number },
): number => Math.min(minMs * 2 ** (count - 1), maxMs)

/** A suspended workspace and a cancelled run are not repeated, nor a function that is gone, lacks the export, or does not take the input. */
const isRepeatable = (failure: unknown): boolean =>
  failure instanceof ApplicationFailure && !FINAL.includes(failure.type ?? '')

const FINAL: readonly string[] = [
  'not_found',
  'state_conflict',
  'tenant_suspended',
  'validation_failed',
  'workspace_suspended',
] satisfies ProblemCode[]

/** The error as the record shows it: code and detail, the location in the source, and what the last attempt used. */
function errorOf(failure: unknown): Json {
  if (!(failure instanceof ApplicationFailure)) {
    const isCancelled =
      failure instanceof CancelledFailure ||
      (failure instanceof ActivityFailure && failure.cause instanceof CancelledFailure)
    return { code: 'run_cut_off', detail: isCancelled ? 'The run was cancelled.' : 'The run was ended.' }
  }
  const [, members] = (failure.details ?? []) as [unknown, { error?: object; usage?: Json } | undefined]
  return {
    code: failure.type ?? 'internal',
    detail: failure.message,
    ...members?.error,
    ...(members?.usage !== undefined && { usage: members.usage }),
  }
}

/** Converts Temporal's timeouts and the refusal in a suspended workspace to failures with a problem code for the caller. */
function toFailure(error: unknown): unknown {
  const cause = causeOf(error)
  if (cause instanceof ApplicationFailure) return cause.type === 'held' ? suspendedFailure(cause) : cause
  if (!(cause instanceof TimeoutFailure)) return error
  if (cause.timeoutType === 'SCHEDULE_TO_START')
    return failure('overloaded', 'No worker was free for the function in time; the function was not run.')
  return failure('run_cut_off', 'The worker that ran the function was lost, or took too long.')
}

/** The failure of a call in a suspended workspace; a calling execution repeats the call when it is resumed. */
function suspendedFailure({ details, message }: ApplicationFailure): ApplicationFailure {
  const [{ code }] = details as [SuspendedFailure]
  return failure(code, message)
}

function failure(code: ProblemCode, detail: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(detail, code)
}
