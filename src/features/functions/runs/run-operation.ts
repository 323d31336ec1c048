/**
 * An asynchronous run as its caller sees it: an operation (`202`, `Location: /v1/operations/run_…`), which the credential that
 * started it may read.
 */

import Type, { type Static } from 'typebox'
import { Id, Input, Wait, workspaceOperation } from '../../../access/operation-builders.ts'
import { reasonToSee, showPayloads } from '../../../access/payload-access.ts'
import { HIDDEN_PAYLOADS, payload } from '../../../access/payload-schemas.ts'
import { privilege } from '../../../access/privileges.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { component, exampleOf } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { DATA_ROLES, isPublicRole } from '../../../core/policy.ts'
import type { FunctionTrigger } from '../../../core/work.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { findRow } from '../../operation-helpers.ts'
import { watchRun } from '../../runs/watcher.ts'
import { Job } from '../../tenants/jobs.ts'
import { FUNCTION_RUN } from './record-run.ts'
import type { RunErrorShape } from './runs.ts'

/** Callers of functions may not read records of runs themselves. */
const asRunReader = privilege('functions.operations')

export const RunOperation = component(
  'FunctionRunOperation',
  Type.Object({
    ...Job.properties,
    id: Id('run'),
    target: Id('fn'),
    error: Type.Unknown(payload('code', 'name', 'file', 'line', 'column')),
    result: Type.Optional(
      Type.Unknown({
        description: 'Return value of the function. `null`: it has not returned yet.',
        ...payload(),
      }),
    ),
    ...HIDDEN_PAYLOADS,
  }),
  {
    ...exampleOf(Job),
    id: EXAMPLE_ID.run,
    type: 'function.invoke',
    target: EXAMPLE_ID.function,
    state: 'succeeded',
    steps: [],
    error: null,
    result: { euros: 40 },
    finished_at: EXAMPLE_TIME.ended,
  },
)
export type RunOperation = Static<typeof RunOperation>

export const operationPath = (runId: string): string => `/v1/operations/${runId}`

export const getRunOperation = workspaceOperation({
  name: 'invocation.get_operation',
  summary: 'Read an asynchronous invocation that this credential has started, and its result',
  roles: DATA_ROLES,
  stability: 'preview',
  // A credential that may invoke may read the outcome.
  scope: 'functions:write',
  input: Input({
    id: Type.String({ minLength: 1, maxLength: 200, description: 'Id of the run, without `run_`.' }),
    wait: Wait,
  }),
  output: RunOperation,
  http: { method: 'GET', path: '/v1/operations/run_{id}', headers: { wait: 'prefer' } },
  run: (scope, { id, wait = 0 }) => readOperation(scope, `run_${id.replace(/^run_/, '')}`, wait * 1_000),
})

/** @param waitMs how long to wait for the end. @throws Problem `not_found` for a run that the caller may not see */
export async function readOperation(
  scope: WorkspaceScope,
  runId: string,
  waitMs: number,
): Promise<RunOperation> {
  const untilMs = performance.now() + waitMs
  const reader = asRunReader(scope)
  const { watched, stop } = watchRun(reader, FUNCTION_RUN, runId)
  try {
    for (;;) {
      const leftMs = untilMs - performance.now()
      const change = watched.nextChange(leftMs)
      const { started_by, trigger, ...operation } = await readNow(reader, runId, starterOf(scope))
      if (reasonToSee(scope.actor, { started_by, trigger }) === 'started') showPayloads(operation, 'own')
      if (operation.finished_at !== null || leftMs <= 0) return shownTo(scope, operation)
      await change
    }
  } finally {
    stop()
  }
}

/** The subject whose runs the caller may see; undefined for a service key that may read all runs of the workspace. */
function starterOf({ actor }: WorkspaceScope): string | undefined {
  const readsAll = actor.role === 'service' && (actor.scopes?.has('functions:read') ?? true)
  return readsAll ? undefined : actor.subject
}

const readNow = (reader: WorkspaceScope, runId: string, starter: string | undefined) =>
  findRow<RunOperation & { started_by: string; trigger: FunctionTrigger }>(
    reader,
    'operation',
    sql`select id, tenant_id, 'function.invoke' as type, function_id as target,
        case status when 'completed' then 'succeeded' else status end as state, '[]'::json as steps, error, result, started_by, trigger,
        created_at, ended_at as finished_at
      from function_runs
      where id = ${runId} and is_async and (${starter ?? null}::text is null or started_by = ${starter ?? null})`,
  )

/** Hides the location of a failure from anon keys and users, as the reply of an invocation does. */
function shownTo(scope: WorkspaceScope, operation: RunOperation): RunOperation {
  if (!isPublicRole(scope.actor.role) || operation.error === null) return operation
  const { code, detail } = operation.error as Static<typeof RunErrorShape>
  return showPayloads({ ...operation, error: { code, detail } }, 'own')
}
