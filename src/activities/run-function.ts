/** Runs one function for a run of it: its code is read in the run's own scope. */

import { cancellationSignal } from '@temporalio/activity'
import { notFound } from '../core/problem.ts'
import type { FunctionRunInput, Json } from '../core/work.ts'
import type { Functions } from '../platform/functions/functions.ts'
import type { WorkspaceScope } from '../platform/scope.ts'
import { compiledVersion } from '../resources/functions/invoke.ts'

/** @throws Problem as {@link Functions.run} does; `not_found` where the function was deleted meanwhile */
export async function runFunction(
  functions: Functions,
  scope: WorkspaceScope,
  run: FunctionRunInput,
): Promise<Json> {
  const compiled = await compiledVersion(scope, run.function.id, run.function.version)
  if (compiled === undefined) throw notFound('function')
  return functions.run({
    compiled,
    input: run.input,
    timeoutMs: run.timeout_ms,
    memoryMb: run.memory_mb,
    signal: cancellationSignal(),
  })
}
