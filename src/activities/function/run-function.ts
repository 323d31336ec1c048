/** Makes one attempt of a run of a function: claims it, runs the code in the sandbox, and records its end. */

import { cancellationSignal } from '@temporalio/activity'
import type { WorkspaceScope } from '../../access/scope.ts'
import { Suspended } from '../../access/tenant-states.ts'
import { LIMITS } from '../../core/limits.ts'
import { notFound } from '../../core/problem.ts'
import type { FunctionRunInput, Json } from '../../core/work.ts'
import { checkInput, checkOutput } from '../../features/functions/check-run.ts'
import { findRunnable } from '../../features/functions/functions.ts'
import { claimRun, completeRun } from '../../features/functions/runs/record-run.ts'
import type { Functions } from '../../features/functions/sandbox/process-pool.ts'
import { withOrigin } from './error-origin.ts'
import { RunLog } from './run-log.ts'

export interface FunctionRunServices {
  readonly functions: Functions
  /** The workspace in any state, in the role of an admin: for the record. */
  readonly record: WorkspaceScope
  /** Opens the caller's scope; called again while the function runs, to notice a suspension. */
  open(): Promise<WorkspaceScope>
}

/**
 * @throws Problem as {@link Functions.run} does; `validation_failed` and `function_output_invalid` if input or result do not
 *   fit the schemas of the version; `not_found` if the function was deleted meanwhile; `run_cut_off` if an
 *   earlier attempt has begun and there may be no other; Suspended
 */
export async function runFunction(
  { functions, record, open }: FunctionRunServices,
  run: FunctionRunInput,
): Promise<Json> {
  const version = await findRunnable(await open(), run.function.id, run.function.version)
  if (version === undefined) throw notFound('function')
  checkInput(version.input_schema, run)
  await claimRun(record, run.run_id, run.attempts_max)
  const log = new RunLog(record, run.run_id)
  try {
    const result = await whileActive(open, (suspended) =>
      functions.run({
        compiled: version.compiled,
        input: run.input,
        ...(run.context !== undefined && { context: run.context }),
        timeoutMs: run.timeout_ms,
        memoryMb: run.memory_mb,
        signal: AbortSignal.any([cancellationSignal(), suspended]),
      }),
    )
    checkOutput(version.output_schema, run, result)
    await completeRun(record, run.run_id, run.is_async ? { result } : {}, log.take())
    return result
  } catch (error) {
    throw version.has_maps ? await withOrigin(record, run, error) : error
  } finally {
    await log.close()
  }
}

/** Aborts the work if a periodic check throws Suspended. */
async function whileActive<T>(
  check: () => Promise<unknown>,
  work: (suspended: AbortSignal) => Promise<T>,
): Promise<T> {
  const abort = new AbortController()
  const timer = setInterval(() => {
    // Other errors, such as an unavailable database, do not abort the work.
    check().catch((error: unknown) => error instanceof Suspended && abort.abort(error))
  }, LIMITS.feedCheckMs)
  try {
    return await work(abort.signal)
  } catch (error) {
    throw abort.signal.aborted ? abort.signal.reason : error
  } finally {
    clearInterval(timer)
  }
}
