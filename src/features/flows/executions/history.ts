/** Reads the history of an execution, for reruns, simulations and commands: input, answered steps, approvals. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import type { Json } from '../../../core/work.ts'
import { type Sql, sql, textArray } from '../../../infra/postgres/sql.ts'
import { findRow } from '../../operation-helpers.ts'
import { FLOW_LIMITS } from '../limits.ts'

export interface RecordedExecution {
  readonly flow_id: string
  readonly version: number
  readonly input: Json
  readonly error: { readonly instance?: string } | null
  readonly correlation_key: string | null
  readonly started_by: string
  readonly rerun_of: string | null
  readonly started_at: string
  readonly ended_at: string | null
}

/** A condition for steps of tasks that call something outside the flow, or wait for it. */
const IS_EXTERNAL = sql`kind in ('call', 'run', 'emit', 'listen', 'approve', 'wait')`

export interface RecordedStep {
  readonly seq: number
  readonly name: string
  readonly kind: string
  readonly pointer: string
  readonly iteration: number
  /** Null in records that predate reruns. */
  readonly path: string
  readonly started_at: string
}

/** A step with its recorded result. */
export interface AnsweredStep extends RecordedStep {
  readonly result: Json
  readonly error: { [field: string]: Json } | null
  /** The result was too large to store, or contained a secret. */
  readonly truncated: boolean
  /** The digest of the data that an approval or a flow got; null if the data were patched. */
  readonly digest: string | null
  /** The execution of the flow that it ran. */
  readonly child: string | null
}

/** Approvals of an execution and of all executions below it. */
export interface Decided {
  /** True if the records of all of them still exist, with all decisions. */
  readonly isKnown: boolean
  readonly isDecided: boolean
  /** The subjects that decided. */
  readonly deciders: readonly string[]
}

/** @throws Problem `not_found` */
export const readRecordedExecution = (scope: WorkspaceScope, id: string) =>
  findRow<RecordedExecution>(
    scope,
    'execution',
    sql`select flow_id, version, input, error, correlation_key, started_by, rerun_of, started_at, ended_at from executions where id = ${id}`,
  )

const STEP = sql`seq, name, kind, pointer, iteration, path, started_at`

/** The first (or last) step that meets a condition, in the order in which steps started. */
export function recordedStep(
  scope: WorkspaceScope,
  id: string,
  { which, last = false }: { which: Sql; last?: boolean },
): Promise<RecordedStep | undefined> {
  return scope.row<RecordedStep>(sql`
    select ${STEP} from execution_steps where execution_id = ${id} and ${which}
    order by ${last ? sql`seq desc` : sql`seq`} limit 1`)
}

/** Steps of tasks with external effects, in the order in which they started, and compensation steps. */
interface CallingSteps {
  readonly calling: readonly RecordedStep[]
  readonly compensating: readonly { readonly pointer: string }[]
}

export async function callingSteps(scope: WorkspaceScope, id: string): Promise<CallingSteps> {
  const [calling = [], compensating = []] = await scope.batch(
    sql`select ${STEP} from execution_steps
      where execution_id = ${id} and ${IS_EXTERNAL} and status <> 'skipped'
      order by seq limit ${FLOW_LIMITS.stepsReturnedMax}`,
    sql`select distinct pointer from execution_steps
      where execution_id = ${id} and pointer ~ '/compensate/[0-9]' limit ${FLOW_LIMITS.stepsReturnedMax}`,
  )
  return { calling, compensating } as unknown as CallingSteps
}

/** Steps with results, in the order in which they started. Returns up to one more than `max`, which shows that there are more. */
export async function answeredSteps(
  scope: WorkspaceScope,
  id: string,
  { which = sql`true`, max }: { which?: Sql; max: number },
): Promise<readonly AnsweredStep[]> {
  return scope.rows<AnsweredStep>(sql`
    select ${STEP}, result, error, truncated, digest, child from execution_steps
    where execution_id = ${id} and ${IS_EXTERNAL} and status in ('completed', 'faulted') and ${which}
    order by seq limit ${max + 1}`)
}

/** Approvals of executions and of all executions below them, by id. */
export async function readDecisions(
  scope: WorkspaceScope,
  ids: readonly string[],
): Promise<ReadonlyMap<string, Decided>> {
  if (ids.length === 0) return new Map()
  const rows = await scope.rows<Decided & { id: string }>(sql`
    with recursive below as (
      select top, top as id from unnest(${textArray(ids)}::text[]) as top
      union
      select b.top, s.child from below b join execution_steps s on s.execution_id = b.id
      where s.child is not null
    )
    select b.top as id,
      bool_and(e.id is not null and not coalesce(s.truncated, false)) as "isKnown",
      coalesce(bool_or(s.seq is not null), false) as "isDecided",
      coalesce(array_agg(distinct d.decider) filter (where d.decider is not null), '{}') as deciders
    from below b
      left join executions e on e.id = b.id
      left join execution_steps s on s.execution_id = b.id and s.kind = 'approve' and s.status in ('completed', 'faulted')
      left join lateral jsonb_path_query(s.result, '$.decisions[*].by') as path (decider) on true
      left join lateral (select path.decider #>> '{}' as decider) d on true
    group by b.top`)
  return new Map(rows.map(({ id, ...decided }) => [id, decided]))
}

/** Ended executions of sub-flows, each with the name of the step that ran it. */
export async function readSubflowNames(
  scope: WorkspaceScope,
  id: string,
): Promise<ReadonlyMap<string, string>> {
  const rows = await scope.rows<{ name: string; child: string }>(sql`
    select name, child from execution_steps
    where execution_id = ${id} and child is not null and status in ('completed', 'faulted')
    order by seq limit ${FLOW_LIMITS.stepsReturnedMax}`)
  return new Map(rows.map(({ name, child }) => [child, name]))
}
