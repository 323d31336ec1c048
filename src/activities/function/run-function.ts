/** Runs one invocation of a function: reads its code in the caller's scope, and aborts it if the workspace is suspended. */

import { cancellationSignal } from '@temporalio/activity'
import type { WorkspaceScope } from '../../access/scope.ts'
import { Suspended } from '../../access/tenant-states.ts'
import { LIMITS } from '../../core/limits.ts'
import { notFound } from '../../core/problem.ts'
import type { FunctionRunInput, Json } from '../../core/work.ts'
import { compiledVersion } from '../../features/functions/functions.ts'
import type { InvocationHost } from '../../features/functions/sandbox/invocation.ts'
import type { Functions } from '../../features/functions/sandbox/process-pool.ts'

/**
 * @param open opens the caller's scope; called again while the function runs, to notice a suspension
 * @throws Problem as {@link Functions.run} does; `not_found` if the function was deleted meanwhile; Suspended
 */
export async function runFunction(
  functions: Functions,
  open: () => Promise<WorkspaceScope>,
  run: FunctionRunInput,
): Promise<Json> {
  const scope = await open()
  const { id, version } = run.function
  const compiled = await compiledVersion(scope, id, version)
  if (compiled === undefined) throw notFound('function')
  const key = [scope.ref.tenantId, scope.ref.workspaceId, id, version].join(':')
  const { mcp } = (run.context ?? {}) as { mcp?: Json }
  const { result } = await whileActive(open, (suspended) =>
    functions.run({
      code: { key, compiled },
      kind: 'call',
      input: run.input,
      context: { run: { id: '', attempt: 1 }, env: {}, secrets: {}, ...(mcp !== undefined && { mcp }) },
      timeoutMs: run.timeout_ms,
      memoryMb: run.memory_mb,
      signal: AbortSignal.any([cancellationSignal(), suspended]),
      host: NO_HOST,
    }),
  )
  return result
}

const NO_HOST: InvocationHost = {
  call: () => Promise.reject(notFound('method')),
  fetch: () => Promise.reject(notFound('address')),
  log: () => {},
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
