/** Carries out the effects of a flow as timers, activities and child workflows. */

import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import {
  allHandlersFinished,
  CancellationScope,
  isCancellation,
  sleep,
  workflowInfo,
} from '@temporalio/workflow'
import { ERRORS, FinalError } from '../../../flows-dsl/errors.ts'
import type { Json, JsonObject } from '../../../flows-dsl/ir.ts'
import type { Effects } from '../../../flows-dsl/machine/driver.ts'
import { AWAIT_CALLBACK, OPEN_CALLBACK } from '../../../flows-dsl/tasks/call.ts'
import type { StepRef } from '../../../flows-dsl/tasks/task.ts'
import type { ExecutionInput } from '../../core/execution.ts'
import { canonical } from '../../core/json.ts'
import { FLOW_LIMITS } from '../../features/flows/limits.ts'
import {
  callAsActivity,
  callInline,
  callUntilAccepted,
  InFlightBudget,
  MessageBudget,
  OPEN_CALLBACK_CALL,
  sizeOf,
  usesCallsQueue,
} from './calls.ts'
import type { ConcurrencySlot } from './concurrency-slot.ts'
import { type CurrentDetails, summaryLine } from './current-details.ts'
import type { EventSubscriptions } from './event-subscriptions.ts'
import type { ExecutionGate } from './execution-gate.ts'
import type { ExecutionStatusDisplay } from './execution-status.ts'
import { type LogicalClock, nowMs, randomFraction } from './logical-clock.ts'
import type { Recorder } from './recorder.ts'
import type { ResultCache } from './result-cache.ts'
import { runSubflow } from './subflow.ts'

/** The parts of an execution besides the interpreter of its flow. */
interface ExecutionServices {
  readonly clock: LogicalClock
  readonly recorder: Recorder
  readonly gate: ExecutionGate
  readonly results: ResultCache
  readonly details: CurrentDetails
  readonly status: ExecutionStatusDisplay
  /** Undefined if the execution keeps its slot while it waits. */
  readonly slot: ConcurrencySlot | undefined
  readonly subscriptions: EventSubscriptions
}

export function createEffects(input: ExecutionInput, services: ExecutionServices): Effects {
  const { recorder, gate, results, status } = services
  const execution = CancellationScope.current()
  return {
    nowMs,
    record: (event) => {
      results.stepEntered(event.step)
      recorder.record(event, results.isReused(event.step))
    },
    onIdle: idleHandler(services),
    sleep: sleepEffect(services),
    call: callEffect(input, services),
    wait: waitEffect(input, services),
    // Temporal lets only the run whose cancellation was requested end as cancelled.
    shouldContinueAsNew: () => workflowInfo().continueAsNewSuggested && !execution.consideredCancelled,
    flush: async () => {
      await services.subscriptions.untilCaughtUp()
      // Update handlers must finish first: the next run could not send their results.
      do await recorder.flush(gate.isSuspendedOrPaused ? 'suspended' : 'running')
      while (!allHandlersFinished())
    },
    onHeldChanged: (isHeld) => {
      status.show()
      void recorder.flush(isHeld ? 'suspended' : 'running')
    },
    digest: digestOf,
    approvalChanged: (step, details) => recorder.annotateApproval(step, details),
    onApprovalsReopened: (isReopened) => {
      gate.setApprovalReopened(isReopened)
      void recorder.flush(isReopened ? 'waiting' : 'running')
    },
    random: randomFraction,
    scope: (work, { isShielded } = { isShielded: false }) => {
      const scope = new CancellationScope({ cancellable: !isShielded })
      void scope.run(work)
      return { cancel: () => scope.cancel() }
    },
    pause: () => yieldThread(services),
    isCancellation,
  }
}

/**
 * Ends the workflow task with a timer, so that the thread is free for other executions. The timer is in the history, so each
 * replay pauses at the same point. Cancelling the execution does not cancel the timer.
 */
function yieldThread({ clock }: ExecutionServices): Promise<void> {
  const timer = CancellationScope.nonCancellable(() => sleep(1, { summary: 'yields to other executions' }))
  clock.tickAfter(timer)
  return timer
}

/** Records the progress of a branch while others go on, unless inline calls, whose results come soon, are running. */
function idleHandler({ recorder, clock }: ExecutionServices): NonNullable<Effects['onIdle']> {
  return (isWaiting) => {
    if (!clock.hasInlineCalls) void recorder.flushIfChanged(isWaiting)
  }
}

function sleepEffect(services: ExecutionServices): Effects['sleep'] {
  const { recorder, gate, results, clock, details, status } = services
  return async (durationMs, step, { limits } = { limits: false }) => {
    if (!limits && results.skipsSleep(step)) return
    if (gate.isClosed) await waitWhileClosed(services)
    checkHistoryLimit(step)
    status.show()
    const summary = summaryLine(step)
    if (!limits) recorder.recordWaiting(step)
    const closedMs = gate.closedMs()
    const removeDetail = limits ? undefined : details.addStep(step)
    try {
      const recorded = recorder.flush('waiting')
      const timer = sleep(durationMs, { summary })
      clock.tickAfter(timer)
      await Promise.all([recorded, timer])
      if (gate.isClosed || gate.closedMs() > closedMs) await gate.afterTimer(closedMs, { summary, limits })
    } finally {
      removeDetail?.()
    }
    results.effectEnded()
  }
}

function callEffect(input: ExecutionInput, services: ExecutionServices): Effects['call'] {
  const { recorder, gate, results, clock, details, slot, status } = services
  const inFlight = new InFlightBudget()
  const awaitRoom = roomInMessages(services)
  const call: Effects['call'] = async (request) => {
    recorder.recordArguments(request.step, request.arguments)
    const reused = results.take(request.step)
    if (reused !== undefined) return reused
    if (gate.isClosed) await waitWhileClosed(services)
    checkHistoryLimit(request.step)
    const bytes = sizeOf(request.arguments)
    const release = inFlight.reserve(bytes, request.step)
    status.show()
    const removeDetail = details.addStep(request.step)
    try {
      const permitted = {
        ...request,
        startedBy: input.started_by,
        awaitRoom: () => awaitRoom(bytes),
        ...(input.secrets && { secrets: Object.keys(input.secrets) }),
      }
      const inline = permitted.local && (await callInline(permitted, services))
      if (inline) return inline.output
      const recorded = usesCallsQueue(permitted) ? recorder.flush('running') : undefined
      const result = callAsActivity(permitted, gate)
      if (permitted.local) clock.resetAfter(result)
      else clock.tickAfter(result)
      const [, output] = await Promise.all([recorded, result])
      return output
    } finally {
      removeDetail()
      release()
      results.effectEnded()
      // A cancelled call says what has become of it, whatever the gate.
      if (gate.isPaused && !CancellationScope.current().consideredCancelled) await waitWhileClosed(services)
    }
  }
  if (slot === undefined) return call
  return (request) => slot.during(() => call(request))
}

/** @returns a function that reserves bytes in the message of the workflow task, or waits for a later one: undefined if it need not wait */
function roomInMessages(services: ExecutionServices): (bytes: number) => Promise<void> | undefined {
  const messages = new MessageBudget(services.clock)
  // One timer for all calls that wait.
  let nextTask: Promise<void> | undefined
  const untilReserved = async (bytes: number) => {
    do {
      nextTask ??= yieldThread(services).finally(() => {
        nextTask = undefined
      })
      await nextTask
      if (services.gate.isClosed) await waitWhileClosed(services)
    } while (!messages.reserve(bytes))
  }
  return (bytes) => (messages.reserve(bytes) ? undefined : untilReserved(bytes))
}

function waitEffect(input: ExecutionInput, services: ExecutionServices): Effects['wait'] {
  const { recorder, gate, results, clock, details, slot, status } = services
  const wait: Effects['wait'] = async (what, { digest: given, subscriptions, ...target }, step) => {
    const digest = given as string | undefined
    const child = results.childOf(step)
    // A call with a callback shows the arguments of the call.
    if (what !== OPEN_CALLBACK && what !== AWAIT_CALLBACK)
      recorder.recordArguments(step, askedOf(what, target))
    recorder.annotate(step, {
      ...(digest !== undefined && { digest }),
      ...(child !== undefined && { child }),
    })
    const reused = results.take(step, digest)
    if (reused !== undefined) return what === OPEN_CALLBACK ? { output: reused } : reused
    if (what === 'approval') recorder.annotateApproval(step, target)
    if (gate.isClosed) await waitWhileClosed(services)
    if (what === OPEN_CALLBACK) return openCallback(target, step, services)
    if (what === 'events') {
      await services.subscriptions.add(step, subscriptions)
      // A past event may have ended the task, and the execution with it: neither waits any more.
      const scope = CancellationScope.current()
      if (scope.consideredCancelled) return scope.cancelRequested
    }
    recorder.recordWaiting(step)
    status.show()
    const removeDetail = details.addStep(step)
    await recorder.flush('waiting')
    if (what === 'workflow') {
      const onAdmitted = (id: string) => recorder.annotate(step, { child: id })
      const output = runSubflow({ details: target, step, gate, parent: input, onAdmitted })
      clock.tickAfter(output)
      const effectEnded = () => results.effectEnded()
      void output.then(effectEnded, effectEnded)
      void output.then(removeDetail, removeDetail)
      return output
    }
    const { cancelRequested } = CancellationScope.current()
    void cancelRequested.catch(removeDetail)
    return cancelRequested
  }
  if (slot === undefined) return wait
  // An execution needs its slot while a sub-flow of it runs, but not while it waits for a message.
  return (...args) => (args[0] === 'workflow' ? slot.during(() => wait(...args)) : wait(...args))
}

/** @returns `{id, url}` */
function openCallback(asked: JsonObject, step: StepRef, { gate, clock }: ExecutionServices): Promise<Json> {
  const request = { ...asked, step: `${step.pointer}#${step.iteration}` }
  const opening = callUntilAccepted({ function: OPEN_CALLBACK_CALL, arguments: request, step }, gate)
  clock.tickAfter(opening)
  return opening
}

/** The details of a wait that its step records. The data of an approval are left out, since they are the input of the step. */
function askedOf(what: string, { data, ...rest }: JsonObject): JsonObject {
  return what === 'approval' || data === undefined ? rest : { ...rest, data }
}

/** @throws FinalError if the history is near Temporal's limit: an execution that Temporal terminates could not record its end */
function checkHistoryLimit({ pointer }: StepRef): void {
  const { historyLength, historySize } = workflowInfo()
  if (historyLength <= FLOW_LIMITS.historyEventsMax && historySize <= FLOW_LIMITS.historyBytesMax) return
  const detail = 'The history of the execution is too large: do the rest in another execution.'
  throw new FinalError(ERRORS.runtime, detail, pointer)
}

/** Waits until the gate opens. A paused execution first records what it has done. */
async function waitWhileClosed({ gate, recorder }: ExecutionServices): Promise<void> {
  if (gate.isPaused) await recorder.flush()
  await gate.untilOpen()
}

/** SHA-256 (FIPS 180-4) of a value as canonical JSON (RFC 8785), 64 hexadecimal digits. */
function digestOf(value: Json): string {
  return bytesToHex(sha256(utf8ToBytes(canonical(value))))
}
