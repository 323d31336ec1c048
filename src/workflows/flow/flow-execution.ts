/** The workflow of an execution: binds the flow language to Temporal. */

import { CancelledFailure } from '@temporalio/common'
import { CancellationScope, continueAsNew, isCancellation } from '@temporalio/workflow'
import { ERRORS, type ErrorObject, FlowError } from '../../../flows-dsl/errors.ts'
import type { FlowIR, Json } from '../../../flows-dsl/ir.ts'
import { Driver, type FlowResult } from '../../../flows-dsl/machine/driver.ts'
import { type ExecutionInput, type ExecutionUpdate, infoOf } from '../../core/execution.ts'
import { startArgument } from '../../core/work.ts'
import { FLOW_LIMITS } from '../../features/flows/limits.ts'
import { SummarizedFailure } from '../failure-converter.ts'
import { ConcurrencySlot } from './concurrency-slot.ts'
import { CurrentDetails, errorSummary, inlineCode, plainErrorType } from './current-details.ts'
import { createEffects } from './effects.ts'
import { EventSubscriptions } from './event-subscriptions.ts'
import { ExecutionGate } from './execution-gate.ts'
import { ExecutionStatusDisplay } from './execution-status.ts'
import { LogicalClock, nowMs } from './logical-clock.ts'
import { createRecordWriter, Recorder, reportBeginning } from './recorder.ts'
import { ResultCache } from './result-cache.ts'
import { registerHandlers } from './signals-and-updates.ts'

/** Runs one execution of a flow. A fault of the flow fails the workflow, so that the Temporal UI shows it as failed. */
export async function flowExecution(input: ExecutionInput): Promise<Json> {
  const { continued } = input
  if (continued === undefined) reportBeginning(input.execution_id)
  const recorder = new Recorder(input.execution_id, createRecordWriter(), continued?.record)
  const gate = new ExecutionGate(continued?.gate)
  const results = new ResultCache(input.reuse)
  const startedAt = new Date(nowMs()).toISOString()
  const details = new CurrentDetails(
    `**${input.flow.name}** v${input.flow.version}, execution ${inlineCode(input.execution_id)}`,
  )
  const status = new ExecutionStatusDisplay({ gate, details, executionId: input.execution_id })
  const end = { recorder, details, status, ir: input.ir }
  let compensation: RecordedCompensation = {}
  try {
    const clock = new LogicalClock()
    const ir = input.ir as FlowIR
    const slot = ConcurrencySlot.of(input, { gate, clock, recorder, details })
    const subscriptions = new EventSubscriptions(input, { recorder, clock })
    const services = { recorder, gate, results, clock, details, slot, status, subscriptions }
    const effects = createEffects(input, services)
    const driver = continued
      ? Driver.resume(ir, continued.snapshot, effects)
      : Driver.start(ir, input.input, effects, infoOf(input, startedAt))
    status.follow(driver)
    gate.onGateOpened = (durationMs) => driver.extendTimeouts(durationMs)
    subscriptions.onEvent((event) => driver.event(event))
    registerHandlers({ driver, gate, recorder, clock })
    // Calls under way go on until their outcome is known, so that none of them reports the cancellation.
    void CancellationScope.current().cancelRequested.catch(() => driver.cancel())
    const result = await driver.run()
    if (result.status === 'continued') {
      const { snapshot } = result
      const state = {
        snapshot,
        gate: gate.state,
        record: recorder.state,
        ...(slot && { slot: slot.state }),
        ...subscriptions.state,
      }
      return await continueAsNew<typeof flowExecution>(
        startArgument('flowExecution', { ...input, reuse: results.remaining, continued: state }),
      )
    }
    if (result.status === 'completed') {
      details.end('Completed.')
      status.ended('completed')
      await recorder.end('completed', { output: result.output })
      return result.output
    }
    compensation = compensationOf(result)
    if (result.status === 'cancelled') throw new CancelledFailure('The execution was cancelled.')
    throw await recordFault(end, result.error, compensation)
  } catch (error) {
    if (isCancellation(error)) {
      details.end('Cancelled.')
      status.ended('cancelled')
      await recorder.end('cancelled', compensation)
    }
    throw isDeterministicError(error) ? await recordFault(end, toRuntimeError(error)) : error
  }
}

/** True if an error would recur at each attempt of the workflow task. The interpreter should throw none of these. */
function isDeterministicError(error: unknown): error is Error {
  return error instanceof FlowError || error instanceof RangeError
}

/** The error that ends the execution: otherwise its workflow task would fail again and again, and it would never end. */
function toRuntimeError({ message }: Error): ErrorObject {
  return new FlowError(ERRORS.runtime, `The flow cannot be run: ${message}.`, '/').toObject()
}

/** Ends the record as faulted. @returns the error to fail the workflow with */
async function recordFault(
  { recorder, details, status, ir }: EndServices,
  error: ErrorObject,
  compensation: RecordedCompensation = {},
): Promise<Error> {
  const failure = failureOf(error, ir)
  details.end(`Failed: ${inlineCode(failure.summary)}`)
  status.ended('faulted')
  await recorder.end('faulted', { error: error as unknown as Json, ...compensation })
  return failure
}

type RecordedCompensation = Pick<ExecutionUpdate, 'compensation'>

/** The outcome of the compensation, if any step was compensated. Each list is cut to `compensationStepsMax`. */
function compensationOf(result: Exclude<FlowResult, { status: 'completed' }>): RecordedCompensation {
  if (result.compensation === undefined) return {}
  const { undone, failures } = result.compensation
  const max = FLOW_LIMITS.compensationStepsMax
  return {
    compensation: { undone: undone.slice(0, max), failures: failures.slice(0, max) } as unknown as Json,
  }
}

interface EndServices {
  readonly recorder: Recorder
  readonly details: CurrentDetails
  readonly status: ExecutionStatusDisplay
  readonly ir: unknown
}

/** @param ir the compiled flow; the pointer of the error is shown only if it points to one of its tasks */
function failureOf(error: ErrorObject, ir: unknown): SummarizedFailure {
  const { title, detail, instance } = error
  const location = isTaskPointer(instance, ir) ? ` at ${instance}` : ''
  const summary = `${errorSummary(error)}${location}`
  return new SummarizedFailure(summary, `${title}: ${detail}`, plainErrorType(error), error)
}

function isTaskPointer(instance: string, ir: unknown): boolean {
  return instance.length > 1 && JSON.stringify(ir).includes(`"pointer":${JSON.stringify(instance)}`)
}
