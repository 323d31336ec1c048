/** Records of runs: their shape, and how they are listed, read and deleted within a workspace. */

import Type, { type Static } from 'typebox'
import { Id, OptionalTime, Time } from '../../../access/operation-builders.ts'
import { HIDDEN_PAYLOADS, payload } from '../../../access/payload-schemas.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { workflowsOf } from '../../../access/scope-services.ts'
import { component, exampleOf } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { uuidOf } from '../../../core/ids.ts'
import { PageInput, type PageRequest, pageBounds, pageFrom } from '../../../core/page.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import { workflowId } from '../../../core/tenant.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { findRow } from '../../operation-helpers.ts'
import { RequestId, TRACE_IDS, TraceId } from '../../runs/trace-ids.ts'

const STATUSES = ['queued', 'running', 'completed', 'failed'] as const
const TRIGGERS = ['api', 'http', 'flow', 'function', 'mcp', 'schedule', 'event', 'redrive'] as const

const Nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()])

export const RunErrorShape = Type.Object({
  code: Type.String(),
  detail: Type.String(),
  name: Type.Optional(Type.String({ description: 'Name of the error that the code threw.' })),
  file: Type.Optional(Type.String()),
  line: Type.Optional(Type.Integer()),
  column: Type.Optional(Type.Integer()),
})

const OUTLINE = {
  id: Id('run'),
  tenant_id: Id('ten'),
  workspace_id: Id('ws'),
  function_id: Id('fn'),
  version: Type.Integer(),
  status: Type.Union(STATUSES.map((one) => Type.Literal(one))),
  trigger: Type.Object({
    kind: Type.Union(TRIGGERS.map((one) => Type.Literal(one))),
    id: Type.Optional(
      Type.String({ description: 'Id of the execution, run, server or trigger that started the run.' }),
    ),
    chain_depth: Type.Optional(
      Type.Integer({
        description: 'Number of runs and executions that started one another, up to this run.',
      }),
    ),
  }),
  started_by: Type.String(),
  async: Type.Boolean({ description: 'True if the caller did not wait for the result.' }),
  attempts: Type.Integer(),
  duration_ms: Nullable(Type.Integer()),
  memory_mb: Nullable(Type.Integer()),
  cold: Nullable(Type.Boolean({ description: 'True if a process was started for the run.' })),
  error: Nullable(
    Type.Object({
      ...RunErrorShape.properties,
      detail: Type.Optional(Type.String(payload())),
      ...HIDDEN_PAYLOADS,
    }),
  ),
  dead_letter: Type.Boolean({
    description: 'True if the run is asynchronous, has failed, and was not run again.',
  }),
  redriven_as: Nullable(Type.String({ description: 'Id of the run that ran this dead letter again.' })),
  request_id: RequestId,
  trace_id: TraceId,
  created_at: Time,
  started_at: OptionalTime,
  ended_at: OptionalTime,
  temporal_url: Type.Optional(Type.String()),
}
export const FunctionRun = component('FunctionRun', Type.Object(OUTLINE), {
  id: EXAMPLE_ID.run,
  tenant_id: EXAMPLE_ID.tenant,
  workspace_id: EXAMPLE_ID.workspace,
  function_id: EXAMPLE_ID.function,
  version: 3,
  status: 'completed',
  trigger: { kind: 'api' },
  started_by: EXAMPLE_ID.key,
  async: false,
  attempts: 1,
  duration_ms: 12,
  memory_mb: 41,
  cold: false,
  error: null,
  dead_letter: false,
  redriven_as: null,
  request_id: EXAMPLE_ID.request,
  trace_id: EXAMPLE_ID.trace,
  created_at: EXAMPLE_TIME.created,
  started_at: EXAMPLE_TIME.created,
  ended_at: EXAMPLE_TIME.ended,
})
type FunctionRun = Static<typeof FunctionRun>

export const FunctionRunWithResult = component(
  'FunctionRunWithResult',
  Type.Object({
    ...OUTLINE,
    input: Type.Optional(Type.Unknown({ description: 'Input of an asynchronous run.', ...payload() })),
    result: Type.Optional(
      Type.Unknown({ description: 'Return value of an asynchronous run.', ...payload() }),
    ),
    ...HIDDEN_PAYLOADS,
  }),
  { ...exampleOf(FunctionRun), async: true, input: { hours: 2 }, result: { euros: 40 } },
)

const COLUMNS = sql`id, tenant_id, workspace_id, function_id, version, status, trigger, started_by, is_async as async, attempts, duration_ms, memory_mb,
  is_cold as cold, error, is_dead_letter as dead_letter, redriven_as, ${TRACE_IDS}, created_at, started_at, ended_at`

export const RUN_FILTERS = {
  ...PageInput,
  status: Type.Optional(Type.Union(STATUSES.map((one) => Type.Literal(one)))),
  trigger: Type.Optional(Type.Union(TRIGGERS.map((one) => Type.Literal(one)))),
  version: Type.Optional(Type.Integer({ minimum: 1 })),
  dead_letter: Type.Optional(Type.Boolean()),
  since: Type.Optional({ ...Time, description: 'Only runs created at this time or later.' }),
  until: Type.Optional({ ...Time, description: 'Only runs created before this time.' }),
}

interface Filters extends PageRequest {
  readonly status?: string
  readonly trigger?: string
  readonly version?: number
  readonly dead_letter?: boolean
  readonly since?: string
  readonly until?: string
}

/** Runs of a function, or of all functions, newest first. */
export async function runPage(scope: WorkspaceScope, filters: Filters, functionId?: string) {
  const { after, limit } = pageBounds(filters)
  const { status, trigger, version, dead_letter, since, until } = filters
  const rows = await scope.rows<FunctionRun>(sql`
    select ${COLUMNS} from function_runs
    where true ${when(sql`function_id =`, functionId)} ${when(sql`status =`, status)} ${when(sql`version =`, version)}
      ${when(sql`trigger ->> 'kind' =`, trigger)} ${when(sql`is_dead_letter =`, dead_letter)}
      ${when(sql`created_at >=`, since)} ${when(sql`created_at <`, until)} ${when(sql`id <`, after || undefined)}
    order by id desc limit ${limit}`)
  return pageFrom(
    filters,
    rows.map((row) => linked(scope, row)),
  )
}

const when = (comparison: Sql, value: string | number | boolean | undefined): Sql =>
  value === undefined ? sql`` : sql`and ${comparison} ${value}`

/** @param functionId the function that it must be a run of @throws Problem `not_found` */
export async function readRun(scope: WorkspaceScope, runId: string, functionId?: string) {
  type Row = Static<typeof FunctionRunWithResult>
  const statement = sql`select ${COLUMNS}, input, result from function_runs
    where id = ${runId} ${when(sql`function_id =`, functionId)}`
  return linked(scope, await findRow<Row>(scope, 'run', statement))
}

/** Adds a link to the Temporal UI, if it is configured. */
function linked<Run extends { readonly id: string; readonly function_id: string }>(
  scope: WorkspaceScope,
  run: Run,
): Run & { temporal_url?: string } {
  const url = workflowsOf(scope).uiLink(workflowId(scope.ref, run.function_id, uuidOf(run.id)))
  return url === undefined ? run : { ...run, temporal_url: url }
}

/** Deletes an ended run with its lines. @throws Problem `not_found`, `state_conflict` while it is open */
export async function deleteRun(scope: WorkspaceScope, runId: string, functionId: string): Promise<void> {
  const ofFunction = sql`id = ${runId} and function_id = ${functionId}`
  const [found = [], deleted = []] = await scope.batch(
    sql`select status from function_runs where ${ofFunction}`,
    sql`delete from function_runs where ${ofFunction} and ended_at is not null returning id`,
  )
  if (found.length === 0) throw notFound('run')
  if (deleted.length === 0)
    throw new Problem('state_conflict', {
      detail: `The run is ${found[0]?.['status']}. Only ended runs can be discarded.`,
    })
}
