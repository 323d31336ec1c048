/** The workflow of a run: its input, its timeouts and its start. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { workflowsOf } from '../../../access/scope-services.ts'
import { uuidOf } from '../../../core/ids.ts'
import { workflowId } from '../../../core/tenant.ts'
import { durationMs } from '../../../core/units.ts'
import {
  type FunctionRunInput,
  type FunctionTrigger,
  isPatient,
  QUEUES,
  workflowTypeOf,
} from '../../../core/work.ts'
import { callerOf } from '../../runs/caller.ts'
import type { FunctionConfig } from '../config.ts'
import { DEFAULTS } from '../config.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import type { RunRequest } from './run.ts'

/** A version of a function, with the configuration of the function. */
export interface Invocable {
  readonly id: string
  readonly name: string
  readonly version: number
  readonly config: Partial<FunctionConfig>
}

export const workflowOf = ({ ref }: WorkspaceScope, run: FunctionRunInput): string =>
  workflowId(ref, run.function.id, uuidOf(run.run_id))

/** How long a caller waits at most for the end of a run. An execution asks again afterwards. */
export const waitMs = (run: FunctionRunInput): number =>
  lifetimeMs(run, run.is_async) + FUNCTION_LIMITS.heartbeatMs / 2

/** Idempotent. @throws Problem `dependency_unavailable` */
export async function startWorkflow(scope: WorkspaceScope, run: FunctionRunInput): Promise<void> {
  const { id, name, version } = run.function
  await workflowsOf(scope).start({
    definition: 'functionRun',
    type: workflowTypeOf(name),
    queue: QUEUES.flows,
    subject: id,
    uuid: uuidOf(run.run_id),
    input: run,
    summary: `Function ${name} v${version}`,
    attributes: { FlowId: id, FlowName: name, FlowVersion: String(version), TriggerKind: run.trigger.kind },
    timeoutMs: workflowTimeoutMs(run),
  })
}

export function runInput(
  scope: WorkspaceScope,
  run_id: string,
  { id, name, version, config }: Invocable,
  { kind = 'call', input, context, secrets, isAsync, caller = callerOf(scope) }: RunRequest,
  trigger: FunctionTrigger,
): FunctionRunInput {
  const { timeout, memory_mb, retries, idempotent } = { ...DEFAULTS, ...config }
  const timeoutMs = durationMs(timeout)
  return {
    run_id,
    function: { id, name, version },
    kind,
    input,
    caller,
    trigger,
    timeout_ms: isAsync ? timeoutMs : Math.min(timeoutMs, FUNCTION_LIMITS.timeoutMs.syncMax),
    memory_mb,
    is_async: isAsync,
    attempts_max: isAsync && idempotent ? retries + 1 : 1,
    ...(context !== undefined && { context }),
    ...(secrets !== undefined && { secrets }),
  }
}

/**
 * The workflow ends a run that waited for a slot, ran and was repeated as long as it may; this is for a workflow that fails to, and
 * for a run whose caller has stopped waiting before a worker has taken it up. An execution waits.
 */
function workflowTimeoutMs(run: FunctionRunInput): number {
  return lifetimeMs(run, isPatient(run))
}

function lifetimeMs({ timeout_ms, attempts_max }: FunctionRunInput, isQueuedLong: boolean): number {
  const queueMs = isQueuedLong ? FUNCTION_LIMITS.asyncQueueMs : FUNCTION_LIMITS.queueMs
  const attemptMs = queueMs + timeout_ms + 2 * FUNCTION_LIMITS.heartbeatMs
  return attempts_max * (attemptMs + FUNCTION_LIMITS.retry.maxMs)
}
