/** Makes one attempt of a run of a function: claims it, runs the code in the sandbox, and records its end. */

import { cancellationSignal } from '@temporalio/activity'
import type { WorkspaceScope } from '../../access/scope.ts'
import { Suspended } from '../../access/tenant-states.ts'
import { LIMITS } from '../../core/limits.ts'
import { notFound } from '../../core/problem.ts'
import type { FunctionRunInput, Json } from '../../core/work.ts'
import { compiledVersion } from '../../features/functions/functions.ts'
import { requireExport } from '../../features/functions/http/required-export.ts'
import { claimRun, completeRun } from '../../features/functions/runs/record-run.ts'
import type { InvocationHost } from '../../features/functions/sandbox/invocation.ts'
import type { FunctionSlot, Functions } from '../../features/functions/sandbox/process-pool.ts'
import { withHttpExchange } from './http-exchange.ts'
import { RunLog } from './run-log.ts'

export interface FunctionRunServices {
  readonly functions: Functions
  /** The workspace in any state, in the role of an admin: for the record. */
  readonly record: WorkspaceScope
  /** Opens the caller's scope; called again while the function runs, to notice a suspension. */
  open(): Promise<WorkspaceScope>
}

/**
 * Waits for a slot of this worker.
 * @throws Problem as {@link Functions.run} does; `not_found` if the function was deleted meanwhile; `run_cut_off` if an
 *   earlier attempt has begun and there may be no other; Suspended
 */
export async function runFunction(services: FunctionRunServices, run: FunctionRunInput): Promise<Json> {
  const { tenantId } = services.record.ref
  const slot = await services.functions.acquire(tenantId, cancellationSignal())
  return runInSlot(slot, services, run).finally(slot.release)
}

/**
 * For a workflow task, which may not wait.
 * @returns null if no slot is free
 * @throws as {@link runFunction}
 */
export async function runFunctionInline(
  services: FunctionRunServices,
  run: FunctionRunInput,
): Promise<{ readonly result: Json } | null> {
  const slot = services.functions.tryAcquire(services.record.ref.tenantId)
  if (slot === undefined) return null
  return { result: await runInSlot(slot, services, run).finally(slot.release) }
}

async function runInSlot(
  slot: FunctionSlot,
  { record, open }: FunctionRunServices,
  run: FunctionRunInput,
): Promise<Json> {
  const scope = await open()
  const { id, version } = run.function
  const compiled = await compiledVersion(scope, id, version)
  if (compiled === undefined) throw notFound('function')
  requireExport(compiled, run.kind)
  const attempt = await claimRun(record, run.run_id, run.attempts_max)
  const log = new RunLog(record, run.run_id, attempt)
  const key = [scope.ref.tenantId, scope.ref.workspaceId, id, version].join(':')
  const { mcp } = (run.context ?? {}) as { mcp?: Json }
  try {
    const { result, usage } = await withHttpExchange(scope, run, (http, gone) =>
      whileActive(open, (suspended) =>
        slot.run({
          code: { key, compiled },
          kind: run.kind,
          input: run.input,
          context: {
            run: { id: run.run_id, attempt },
            env: {},
            secrets: {},
            ...(mcp !== undefined && { mcp }),
          },
          timeoutMs: run.timeout_ms,
          memoryMb: run.memory_mb,
          signal: AbortSignal.any([cancellationSignal(), suspended, ...(gone ? [gone] : [])]),
          host: { ...NO_HOST, log: (line) => log.add(line), ...(http && { http }) },
        }),
      ),
    )
    await completeRun(record, run.run_id, run.is_async ? { result, usage } : { usage }, log.take())
    return result
  } finally {
    await log.close()
  }
}

const NO_HOST: Omit<InvocationHost, 'log'> = {
  call: () => Promise.reject(notFound('method')),
  fetch: () => Promise.reject(notFound('address')),
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
