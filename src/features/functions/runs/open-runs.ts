/** Finds open runs of functions, of all tenants, that may have lost their process or that wait for a slot, for the reconciler. */

import { LIMITS } from '../../../core/limits.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { SystemScope } from '../../../infra/postgres/system-scope.ts'

/** An open run to compare with its workflow, or a function with a queue of asynchronous runs. */
export type OpenRunCandidate = { readonly ref: WorkspaceRef } & (
  | { readonly functionRun: string }
  | { readonly functionQueue: string }
)

const { runSeconds, atOnce } = LIMITS.reconciler
const { workspacesSeenMax } = LIMITS.functionRetention

interface Row {
  readonly tenant_id: WorkspaceRef['tenantId']
  readonly workspace_id: WorkspaceRef['workspaceId']
  /** The last workspace or function of a look that did not reach the end; null otherwise. */
  readonly behind_workspace: string | null
  readonly behind_function: string | null
  /** Null in the only row of a look that has found nothing. */
  readonly id: string | null
}

/** Looks at some workspaces and some queues at a time, in turn, so that those of one tenant do not delay the others. */
export class OpenRuns {
  /** The last workspace of the last look; empty to begin with the first. */
  #workspace = ''
  /** Workspace and function of the last queue of the last look. */
  #queue: readonly [string, string] = ['', '']

  async find(system: SystemScope): Promise<OpenRunCandidate[]> {
    const [runs = [], queues = []] = (await system.batch(
      dueRuns(this.#workspace),
      dueQueues(...this.#queue),
    )) as unknown as Row[][]
    this.#workspace = runs[0]?.behind_workspace ?? ''
    this.#queue = [queues[0]?.behind_workspace ?? '', queues[0]?.behind_function ?? '']
    return [
      ...candidates(runs, (functionRun) => ({ functionRun })),
      ...candidates(queues, (functionQueue) => ({ functionQueue })),
    ]
  }
}

const candidates = <T>(rows: readonly Row[], named: (id: string) => T) =>
  rows.flatMap(({ id, tenant_id, workspace_id }) =>
    id === null ? [] : [{ ref: { tenantId: tenant_id, workspaceId: workspace_id }, ...named(id) }],
  )

/** Open, and not in the queue of a function: as in the indexes of function_runs. */
const BEGUN = sql`ended_at is null and (slot is distinct from 'awaited' or not is_async)`
const QUEUED = sql`ended_at is null and slot = 'awaited' and is_async`

const LATER = sql`now() + make_interval(secs => ${runSeconds}::integer)`

/** Due runs of the next workspaces, each once in `runSeconds`: the most overdue run of each, then the second of each, and so on. */
const dueRuns = (after: string) => sql`
  with recursive seen as (
    (select workspace_id, 1 as n from function_runs where ${BEGUN} and workspace_id > ${after}::text
      order by workspace_id limit 1)
    union all
    select next.workspace_id, n + 1 from seen cross join lateral (
      select workspace_id from function_runs where ${BEGUN} and workspace_id > seen.workspace_id
      order by workspace_id limit 1) next
    where n < ${workspacesSeenMax}
  ), due as materialized (
    select r.* from seen cross join lateral (
      select tenant_id, workspace_id, id, due_at, row_number() over (order by due_at) as place from function_runs
      where ${BEGUN} and workspace_id = seen.workspace_id and due_at < now()
      order by due_at limit ${atOnce}) r
    order by place, due_at limit ${atOnce}
  ), checked as (
    update function_runs r set due_at = ${LATER} from due
    where r.tenant_id = due.tenant_id and r.workspace_id = due.workspace_id and r.id = due.id
    returning r.tenant_id, r.workspace_id, r.id
  )
  select checked.*, behind_workspace, null as behind_function
  from (select case when count(*) = ${workspacesSeenMax} then max(workspace_id) end as behind_workspace from seen) reached
    left join checked on true`

/** The next functions with a queue whose first run is due. The others of a queue need no look. */
const dueQueues = (workspace: string, functionId: string) => sql`
  with recursive heads as (
    (select tenant_id, workspace_id, function_id, id, due_at, 1 as n from function_runs
      where ${QUEUED} and (workspace_id, function_id) > (${workspace}::text, ${functionId}::text)
      order by workspace_id, function_id, id limit 1)
    union all
    select next.*, n + 1 from heads cross join lateral (
      select tenant_id, workspace_id, function_id, id, due_at from function_runs
      where ${QUEUED} and (workspace_id, function_id) > (heads.workspace_id, heads.function_id)
      order by workspace_id, function_id, id limit 1) next
    where n < ${atOnce}
  ), checked as (
    update function_runs r set due_at = ${LATER} from heads
    where r.tenant_id = heads.tenant_id and r.workspace_id = heads.workspace_id and r.id = heads.id
      and heads.due_at < now()
    returning r.tenant_id, r.workspace_id, r.function_id as id
  )
  select checked.*, last.workspace_id as behind_workspace, last.function_id as behind_function
  from (select max(n) from heads) reached
    left join heads last on last.n = ${atOnce}
    left join checked on true`
