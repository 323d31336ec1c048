/** Runs one function call: reads its code in the scope of the run, and ends it if the workspace is suspended. */

import { cancellationSignal } from '@temporalio/activity'
import type { WorkspaceScope } from '../../access/scope.ts'
import { Suspended } from '../../access/tenant-states.ts'
import { LIMITS } from '../../core/limits.ts'
import { notFound } from '../../core/problem.ts'
import type { FunctionRunInput, Json } from '../../core/work.ts'
import { compiledVersion } from '../../features/functions/functions.ts'
import type { Functions } from '../../features/functions/sandbox/process-pool.ts'

/**
 * @param open gives the run's scope, and is asked again while the function runs
 * @throws Problem as {@link Functions.run} does; `not_found` where the function was deleted meanwhile; Suspended
 */
export async function runFunction(
  functions: Functions,
  open: () => Promise<WorkspaceScope>,
  run: FunctionRunInput,
): Promise<Json> {
  const compiled = await compiledVersion(await open(), run.function.id, run.function.version)
  if (compiled === undefined) throw notFound('function')
  return whileActive(open, (refused) =>
    functions.run({
      compiled,
      input: run.input,
      timeoutMs: run.timeout_ms,
      memoryMb: run.memory_mb,
      signal: AbortSignal.any([cancellationSignal(), refused]),
    }),
  )
}

/** Code that is ended in its midst has changed nothing outside: it may do nothing but compute. */
async function whileActive<T>(
  ask: () => Promise<unknown>,
  work: (refused: AbortSignal) => Promise<T>,
): Promise<T> {
  const ending = new AbortController()
  const watch = setInterval(() => {
    // What cannot be asked now is no refusal.
    ask().catch((error: unknown) => error instanceof Suspended && ending.abort(error))
  }, LIMITS.feedCheckMs)
  try {
    return await work(ending.signal)
  } catch (error) {
    throw ending.signal.aborted ? ending.signal.reason : error
  } finally {
    clearInterval(watch)
  }
}
