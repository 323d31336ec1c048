/** Flows as what triggers start: executions of the version that declares the trigger, on behalf of its publisher. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { StartResult, TargetFacts, TriggerTarget } from '../../runs/triggers/trigger.ts'
import { admitExecution, type ExecutionStart, hasStarted, startFlow } from '../executions/start-execution.ts'
import { FLOW } from './flow-triggers.ts'
import { awaitResponse } from './webhook-response.ts'

interface FlowFacts extends TargetFacts {
  readonly published_by: string
  /** The people behind that subject when it published the version. */
  readonly publishers: readonly string[]
}

export const flowTarget: TriggerTarget<FlowFacts> = {
  ...FLOW,
  facts: (runId) => sql`
    select json_build_object('has_started', ${hasStarted(runId)}, 'published_by', v.created_by,
      'publishers', tenon.people_behind(array[v.created_by], v.created_at))
    from flow_versions v where v.tenant_id = t.tenant_id and v.workspace_id = t.workspace_id
      and v.flow_id = t.target_id and v.version = t.version`,
  start: async (
    scope,
    { triggerId, kind, targetId, version, facts, causes, chainDepth, pauseMs, ...run },
  ) => {
    const depth = chainDepth === undefined ? {} : { chain_depth: chainDepth + 1 }
    const start = {
      id: run.runId,
      input: run.input,
      by: facts.published_by,
      causes: [...new Set([...facts.publishers, ...causes])],
      trigger: { kind, id: triggerId, ...depth },
    }
    if (kind === 'schedule') return admitScheduled(scope, { flowId: targetId, version, pauseMs, start })
    await startFlow(scope, targetId, version ?? undefined, start)
    return { run: run.runId }
  },
  respond: awaitResponse,
}

interface ScheduledExecution {
  readonly flowId: string
  readonly version: number | null
  readonly pauseMs: number
  readonly start: ExecutionStart & { readonly id: `run_${string}` }
}

/** Writes the execution. The schedule starts its workflow as a child, so that overlap policies apply to executions. */
async function admitScheduled(
  scope: WorkspaceScope,
  { flowId, version, pauseMs, start }: ScheduledExecution,
): Promise<StartResult> {
  const admitted = await admitExecution(scope, sql`f.id = ${flowId} and v.version = ${version}`, start)
  if (admitted === undefined) return { skipped: 'The flow was deleted.' }
  if (!admitted.shouldStart)
    return { skipped: 'It waits for a concurrency slot of its flow, and starts when it gets one.' }
  const { workflowId: workflow_id, execution: input } = admitted
  return { run: start.id, child: { workflow_id, input, pause_ms: pauseMs } }
}
