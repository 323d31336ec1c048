/** Makes one attempt of a run of a function: runs the code in the sandbox, and records its beginning and its end. */

import { randomUUID } from 'node:crypto'
import { activityInfo, cancellationSignal } from '@temporalio/activity'
import { ACCESS_LIMITS } from '../../access/limits.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { Suspended } from '../../access/tenant-states.ts'
import { Problem } from '../../core/problem.ts'
import type { FunctionAttempt, FunctionRunInput, Json } from '../../core/work.ts'
import { checkInput, checkOutput, requireExport } from '../../features/functions/check-run.ts'
import { findMaps } from '../../features/functions/functions.ts'
import { FUNCTION_LIMITS } from '../../features/functions/limits.ts'
import { sendResult } from '../../features/functions/runs/direct-result.ts'
import { beginAttempt, completeRun, undoBeginning } from '../../features/functions/runs/record-run.ts'
import { secretValues } from '../../features/functions/runtime-config.ts'
import type { FunctionSlot, Functions } from '../../features/functions/sandbox/process-pool.ts'
import { atPosition, positionIn } from '../../features/functions/source-map.ts'
import { inThread } from '../../features/threads/run-in-thread.ts'
import { rejectIfCancelled } from '../cancellation.ts'
import type { CallSecrets } from '../flow/call-secrets.ts'
import type { ActivityContext } from '../tenant-interceptor.ts'
import type { CodeCache } from './code-cache.ts'
import { type CodeActor, callerForCode } from './code-caller.ts'
import { withHttpExchange } from './http-exchange.ts'
import { PlatformHost } from './invocation-host.ts'
import { RunLog } from './run-log.ts'
import { SecretMask } from './secret-mask.ts'

export interface FunctionRunServices {
  readonly call: ActivityContext
  readonly functions: Functions
  readonly code: CodeCache
  /** Called when the first attempt of a run begins. */
  readonly onBegin: (runId: string) => void
  /** The workspace in any state, in the role of an admin: for the record. */
  readonly record: WorkspaceScope
  /** Checks that the workspace is active; called again while the function runs. @throws Suspended */
  readonly active: () => Promise<unknown>
  /** Opens the workspace for the code. @throws Suspended */
  readonly openActorScope: (actor: CodeActor) => Promise<WorkspaceScope>
}

/**
 * Waits for a slot of this worker.
 * @param flowSecrets secrets of a calling flow, whose values the input has
 * @throws Problem as {@link Functions.run} does, without secrets of the function; `validation_failed` and
 *   `function_output_invalid` if input or result do not fit the schemas of the version; `not_found` if the function was deleted
 *   meanwhile; `run_cut_off` if an earlier attempt has begun and there may be no other; Suspended
 */
export async function runFunction(
  services: FunctionRunServices,
  run: FunctionAttempt,
  flowSecrets?: CallSecrets,
): Promise<Json> {
  const { functions, record } = services
  const slot = await functions.acquire(record.ref.tenantId, cancellationSignal(), run.kind === 'fetch')
  return runInSlot(slot, services, run, flowSecrets).finally(slot.release)
}

/**
 * For a workflow task, which may not wait.
 * @returns null if no slot is free
 * @throws as {@link runFunction}
 */
export async function runFunctionInline(
  services: FunctionRunServices,
  run: FunctionAttempt,
  flowSecrets?: CallSecrets,
): Promise<{ readonly result: Json } | null> {
  const { functions, record } = services
  const slot = functions.tryAcquire(record.ref.tenantId, run.kind === 'fetch')
  if (slot === undefined) return null
  return { result: await runInSlot(slot, services, run, flowSecrets).finally(slot.release) }
}

async function runInSlot(
  slot: FunctionSlot,
  services: FunctionRunServices,
  run: FunctionAttempt,
  flowSecrets?: CallSecrets,
): Promise<Json> {
  const { record, active } = services
  await active()
  const read = await services.code.read(record, run.function)
  const { version } = read
  requireExport(version.exports, run.kind)
  checkInput(version.input_schema, run)
  if (run.attempt === 1) services.onBegin(run.run_id)
  const mask = new SecretMask(read.runtime.secrets.values(), flowSecrets)
  const log = new RunLog(record, run.run_id, run.attempt)
  try {
    const { result, usage } = await invoke(slot, services, run, { ...read, mask, log })
    checkOutput(version.output_schema, run, result)
    const shown = mask.value(result)
    // The database may be slow, and the code does not run any more.
    slot.release()
    await complete(record, run, log, { usage, ...(run.is_async && { result: shown }) })
    if (!run.is_async) sendResult(record, run.run_id, shown)
    return shown
  } catch (error) {
    slot.release()
    throw mask.failure(version.has_maps ? await withOrigin(record, run, error) : error)
  } finally {
    await log.close()
  }
}

/**
 * @throws Problem `run_cut_off`: the code has run, so the caller must not take the error of the database for a reason to
 *   repeat it
 */
async function complete(
  record: WorkspaceScope,
  { run_id }: FunctionRunInput,
  log: RunLog,
  end: Parameters<typeof completeRun>[2],
): Promise<void> {
  const lines = await log.take()
  try {
    await completeRun(record, run_id, end, lines)
  } catch (cause) {
    log.putBack(lines)
    record.logError(cause, 'end of a function run not recorded')
    throw new Problem('run_cut_off', { detail: 'The function has run, but its end was not recorded.', cause })
  }
}

const NEVER = new AbortController().signal

type Prepared = Awaited<ReturnType<CodeCache['read']>> & {
  readonly mask: SecretMask
  readonly log: RunLog
}

async function invoke(
  slot: FunctionSlot,
  services: FunctionRunServices,
  run: FunctionAttempt,
  { code, runtime, mask, log }: Prepared,
): ReturnType<FunctionSlot['run']> {
  const secrets = secretValues(services.record, runtime)
  const { mcp } = (run.context ?? {}) as { readonly mcp?: Json }
  const caller = callerForCode(services.record, run)
  const context = { run: { id: run.run_id, attempt: run.attempt }, caller, env: runtime.env, secrets }
  const invocation = {
    code,
    kind: run.kind,
    input: run.input,
    context: { ...context, ...(mcp !== undefined && { mcp }) },
    timeoutMs: run.timeout_ms,
    memoryMb: run.memory_mb,
    begin: () => begin(services.record, run),
  }
  return withHttpExchange(services.record, run, (http, gone = NEVER) =>
    whileActive(services.active, async (suspended, stop) => {
      const signal = AbortSignal.any([cancellationSignal(), suspended, gone])
      const host = new PlatformHost(
        { ...services, mask, log, signal, stop, http, yieldWhile: slot.yieldWhile },
        run,
        runtime,
      )
      try {
        return await slot.run({ ...invocation, signal, host })
      } finally {
        host.close()
      }
    }),
  )
}

/**
 * Records that the code begins. A worker that was stopped for a while learns before and after it whether another one may make the
 * attempt by now.
 * @throws Problem `overloaded` if it is too late: then no code has begun, and the attempt is not counted
 */
async function begin(record: WorkspaceScope, { run_id: runId, attempt }: FunctionAttempt): Promise<void> {
  await rejectIfLost()
  const beginning = { runId, attempt, by: randomUUID() }
  const startedMs = performance.now()
  await beginAttempt(record, beginning)
  if (performance.now() - startedMs < 2 * FUNCTION_LIMITS.beginMs) return
  await undoBeginning(record, beginning)
  throw late()
}

/**
 * A workflow task that lasts for too long is given to another worker, and Temporal knows what became of an activity.
 * @throws Problem `overloaded`; CancelledFailure
 */
async function rejectIfLost(): Promise<void> {
  const { isLocal, currentAttemptScheduledTimestampMs: scheduledMs } = activityInfo()
  if (Date.now() - scheduledMs < FUNCTION_LIMITS.beginMs) return
  if (isLocal) throw late()
  await rejectIfCancelled(cancellationSignal())
}

const late = () =>
  new Problem('overloaded', {
    detail: 'The worker did not start the function in time; the function was not run.',
  })

/** Aborts the work if a periodic check throws Suspended, or the work itself meets one. */
async function whileActive<T>(
  check: () => Promise<unknown>,
  work: (suspended: AbortSignal, stop: (reason: Suspended) => void) => Promise<T>,
): Promise<T> {
  const abort = new AbortController()
  const stop = (reason: Suspended) => abort.abort(reason)
  const timer = setInterval(() => {
    // Other errors, such as an unavailable database, do not abort the work.
    check().catch((error: unknown) => error instanceof Suspended && stop(error))
  }, ACCESS_LIMITS.streamCheckMs)
  try {
    return await work(abort.signal, stop)
  } catch (error) {
    throw abort.signal.aborted ? abort.signal.reason : error
  } finally {
    clearInterval(timer)
  }
}

/**
 * Maps the position of an error of a function's code to the developer's files, by the source maps of its version.
 * @returns the error with `line`, `column` and `file` of the original; the same error if it has no position, or none is
 *   found in time
 */
async function withOrigin(
  scope: WorkspaceScope,
  { function: { id, version } }: FunctionRunInput,
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof Problem)) return error
  const position = positionIn(error)
  if (position === undefined) return error
  const find = async () => {
    const maps = (await findMaps(scope, id, version)) ?? {}
    const ran = await inThread(
      scope,
      'originalPositions',
      { maps, positions: [position] },
      FUNCTION_LIMITS.sourceMap.cpuMs,
    )
    const [origin] = 'value' in ran ? ran.value : []
    return origin === undefined ? error : atPosition(error, origin)
  }
  const late = Promise.withResolvers<Problem>()
  const timer = setTimeout(() => late.resolve(error), FUNCTION_LIMITS.sourceMap.waitMs)
  const found = find().catch((cause: unknown) => {
    scope.logError(cause, 'no original position of an error of a function')
    return error
  })
  return Promise.race([found, late.promise]).finally(() => clearTimeout(timer))
}
