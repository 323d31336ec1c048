/** The workflow of an execution: binds the flow language to Temporal. */

import { CancelledFailure } from '@temporalio/common'
import { continueAsNew, isCancellation } from '@temporalio/workflow'
import { ERRORS, type ErrorObject, FlowError, REJECTED, standardError } from '../../../flows-dsl/errors.ts'
import type { FlowIR, Json } from '../../../flows-dsl/ir.ts'
import { Driver } from '../../../flows-dsl/machine/driver.ts'
import { LIMITS } from '../../core/limits.ts'
import { type FlowRunInput, infoOf } from '../../core/run.ts'
import { OpenFailure } from '../failure-converter.ts'
import { sizeOf } from './calls.ts'
import { Place } from './concurrency-slot.ts'
import { code, Details } from './current-details.ts'
import { effects } from './effects.ts'
import { Hold } from './execution-gate.ts'
import { Moments, nowMs } from './logical-clock.ts'
import { pen, Recorder } from './recorder.ts'
import { Reuse } from './result-cache.ts'
import { listenTo } from './signals-and-updates.ts'

/** One execution of a flow. A fault of the flow fails the run, so that operators see it red. */
export async function flowRun(input: FlowRunInput): Promise<Json> {
  const { continued } = input
  const recorder = new Recorder(input.execution_id, pen(), continued?.record)
  const hold = new Hold(continued?.hold)
  const reuse = new Reuse(input.reuse)
  const startedAt = new Date(nowMs()).toISOString()
  const details = new Details(
    `**${input.flow.name}** v${input.flow.version}, execution ${code(input.execution_id)}`,
  )
  const end = { recorder, details, ir: input.ir }
  try {
    const moments = new Moments()
    const ir = input.ir as FlowIR
    const place = Place.of(input, { hold, moments, recorder, details })
    const world = effects(input, { recorder, hold, reuse, moments, details, place })
    const drive = continued
      ? Driver.resume(ir, continued.snapshot, world)
      : Driver.start(ir, input.input, world, infoOf(input, startedAt))
    hold.onLifted = (durationMs) => drive.extendTimeouts(durationMs)
    listenTo({ drive, hold, recorder, moments })
    const result = await drive.run()
    if (result.status === 'moved') {
      const { snapshot } = result
      const stands = place && { place: place.state }
      const state = { snapshot, hold: hold.state, record: recorder.state, ...stands }
      return await continueAsNew<typeof flowRun>({ ...input, reuse: reuse.left, continued: state })
    }
    if (result.status === 'completed' && sizeOf(result.output) > LIMITS.stepOutputBytesMax) {
      throw await ended(end, tooLarge())
    }
    if (result.status === 'completed') {
      details.ended('Completed.')
      await recorder.end('completed', { output: result.output })
      return result.output
    }
    if (result.status === 'cancelled') throw new CancelledFailure('The run was cancelled.')
    const { error } = result
    throw await ended(end, error)
  } catch (error) {
    if (isCancellation(error)) {
      details.ended('Cancelled.')
      await recorder.end('cancelled', {})
    }
    throw isOfTheFlow(error) ? await ended(end, broken(error)) : error
  }
}

/** What the interpreter should never throw, and would throw again at each attempt: the definition has asked for it. */
function isOfTheFlow(error: unknown): error is Error {
  return error instanceof FlowError || error instanceof RangeError
}

/** The run ends: who fails a workflow task for ever is nobody's run any more. */
function broken({ message }: Error): ErrorObject {
  return new FlowError(ERRORS.runtime, `The flow cannot be run: ${message}.`, '/').toObject()
}

/** Ends the record as faulted. @returns what the workflow fails with, so that operators see it red */
async function ended({ recorder, details, ir }: Ended, error: ErrorObject): Promise<Error> {
  const failure = failureOf(error, ir)
  details.ended(`Failed: ${code(failure.open)}`)
  await recorder.end('faulted', { error: error as unknown as Json })
  return failure
}

interface Ended {
  readonly recorder: Recorder
  readonly details: Details
  readonly ir: unknown
}

/** Who reads it holds all of it: a run that would return more is faulted before. */
function tooLarge(): ErrorObject {
  const detail = `The output of the flow is larger than ${LIMITS.stepOutputBytesMax} bytes.`
  return new FlowError(ERRORS.runtime, detail, '/output').toObject()
}

/** In place of a type that the flow has given, and may have computed. */
const OWN = 'https://tenon.dev/errors/raised'

/** @param ir the compiled flow: a place is shown where it is one of its tasks */
function failureOf(error: ErrorObject, ir: unknown): OpenFailure {
  const { type, status, title, detail, instance } = error
  const standard = standardError(type)
  const shown = standard?.type ?? (type === REJECTED.type ? type : OWN)
  const name = shown.slice(shown.lastIndexOf('/') + 1)
  const place = isPlace(instance, ir) ? ` at ${instance}` : ''
  return new OpenFailure(`${name} (${status})${place}`, `${title}: ${detail}`, shown, error)
}

function isPlace(instance: string, ir: unknown): boolean {
  return instance.length > 1 && JSON.stringify(ir).includes(`"pointer":${JSON.stringify(instance)}`)
}
