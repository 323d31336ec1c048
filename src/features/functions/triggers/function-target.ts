/** Functions as what triggers start: runs of the active version, without rights of a caller. */

import { sql } from '../../../infra/postgres/sql.ts'
import { callerWithoutRights } from '../../runs/caller.ts'
import type { TargetFacts, TriggerTarget } from '../../runs/triggers/trigger.ts'
import { triggerActor } from '../../runs/triggers/trigger-starter.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import { startRun } from '../runs/start-run.ts'
import { FUNCTION } from './function-triggers.ts'

interface FunctionFacts extends TargetFacts {
  /** The people who deployed the active version, and so decided what its triggers start. */
  readonly deployers: readonly string[]
  /** How many more runs events may start now. */
  readonly free: number
}

const { inFlightMax, inFlightFactor } = FUNCTION_LIMITS.triggers

export const functionTarget: TriggerTarget<FunctionFacts> = {
  ...FUNCTION,
  // A run that is queued may lack its workflow, after a crash.
  facts: (runId) => sql`
    select json_build_object(
      'has_started', exists (select from function_runs where id = ${runId} and status <> 'queued'),
      'deployers', (select to_json(tenon.people_behind(array[v.created_by], v.created_at)) from function_versions v
        where v.tenant_id = f.tenant_id and v.workspace_id = f.workspace_id and v.function_id = f.id
          and v.version = f.active_version),
      'free', least(${inFlightMax}::integer, ${inFlightFactor}::integer * (f.config ->> 'concurrency')::integer) - (
        select count(*) from function_runs r where r.function_id = f.id and r.ended_at is null
          and r.trigger ->> 'kind' = 'event' and r.id <> ${runId}))
    from functions f where f.tenant_id = t.tenant_id and f.workspace_id = t.workspace_id and f.id = t.target_id`,
  start: async (scope, { triggerId, kind, targetId, facts, runId, input, causes, chainDepth }) => {
    if (kind === 'webhook') throw new TypeError('a function declares no webhooks')
    if (kind === 'event' && facts.free < 1) return 'full'
    const depth = chainDepth === undefined ? {} : { chain_depth: chainDepth }
    const caller = callerWithoutRights(triggerActor(triggerId).subject, [...facts.deployers, ...causes])
    const trigger = { kind, id: triggerId, ...depth }
    await startRun(scope, { id: targetId, input, trigger, isAsync: true, caller, runId })
    return { run: runId }
  },
}
