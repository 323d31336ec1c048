/** Runs of a function for admins, who name the function by its id alone. */

import Type from 'typebox'
import { adminOperation, Id, Input, Ref } from '../../../access/operation-builders.ts'
import { privilege } from '../../../access/privileges.ts'
import type { AdminScope, WorkspaceScope } from '../../../access/scope.ts'
import { component } from '../../../core/components/component.ts'
import { EXAMPLE_ID } from '../../../core/components/examples.ts'
import { PageOf } from '../../../core/page.ts'
import { ADMINS, DEVELOPERS, VIEWERS } from '../../../core/policy.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { ACTIVE, inactiveProblem } from '../../tenants/active.ts'
import { FunctionRef, findFunction } from '../function-ref.ts'
import { redriveAll, redriveRun } from './redrive.ts'
import {
  followLines,
  LOG_FILTERS,
  LOG_STREAM,
  LOG_STREAM_HTTP,
  LogFrames,
  linePage,
  RunLine,
} from './run-logs.ts'
import { deleteRun, FunctionRun, FunctionRunWithResult, RUN_FILTERS, readRun, runPage } from './runs.ts'

const openRuns = privilege('functions.admins')

const RUNS = '/v1/functions/{id}/runs'
const RUN = { id: FunctionRef, run: Ref('run') }
const PREVIEW = { stability: 'preview' } as const

interface FoundFunction {
  readonly functionId: string
  /** The workspace of the function. */
  readonly within: WorkspaceScope
}

/** @throws Problem `not_found` */
async function openFunction(scope: AdminScope, id: string): Promise<FoundFunction> {
  const { id: functionId, ...ref } = await findFunction(scope, id)
  return { functionId, within: openRuns(scope, ref) }
}

/** @throws Problem as {@link openFunction}, and that of a workspace in which nothing may be started */
async function openActiveFunction(scope: AdminScope, id: string): Promise<FoundFunction> {
  const found = await openFunction(scope, id)
  const { workspaceId } = found.within.ref
  const active = await scope.row(sql`select id from workspaces where id = ${workspaceId} and ${ACTIVE}`)
  if (active === undefined) throw await inactiveProblem(scope, workspaceId)
  return found
}

const listRuns = adminOperation({
  name: 'function_run.list',
  roles: VIEWERS,
  summary: 'List the runs of a function, newest first',
  ...PREVIEW,
  input: Input({ id: FunctionRef, ...RUN_FILTERS }),
  output: PageOf(FunctionRun),
  http: { method: 'GET', path: RUNS },
  run: async (scope, { id, ...filters }) => {
    const { within, functionId } = await openFunction(scope, id)
    return runPage(within, filters, functionId)
  },
})

const getRun = adminOperation({
  name: 'function_run.get',
  roles: VIEWERS,
  summary: 'Read a run of a function; an asynchronous run has its input and result',
  ...PREVIEW,
  input: Input(RUN),
  output: FunctionRunWithResult,
  http: { method: 'GET', path: `${RUNS}/{run}` },
  run: async (scope, { id, run }) => {
    const { within, functionId } = await openFunction(scope, id)
    return readRun(within, run, functionId)
  },
})

const listLines = adminOperation({
  name: 'function_run.logs',
  payloads: 'refused',
  roles: VIEWERS,
  summary: 'List the log lines of a run of a function',
  ...PREVIEW,
  input: Input({ ...RUN, ...LOG_FILTERS }),
  output: PageOf(RunLine),
  http: { method: 'GET', path: `${RUNS}/{run}/logs` },
  run: async (scope, { id, run, ...page }) => {
    const { within, functionId } = await openFunction(scope, id)
    return linePage({ caller: scope, scope: within, runId: run, functionId }, page)
  },
})

const watchLines = adminOperation({
  name: 'function_run.watch_logs',
  payloads: 'refused',
  roles: VIEWERS,
  summary: 'Stream the past and future log lines of a run as server-sent events, until it ends',
  ...PREVIEW,
  input: Input({ ...RUN, ...LOG_STREAM }),
  output: LogFrames,
  http: { ...LOG_STREAM_HTTP, path: `${RUNS}/{run}/logs/stream` },
  run: async (scope, { id, run, last_event_id }) => {
    const { within, functionId } = await openFunction(scope, id)
    return followLines({ caller: scope, scope: within, runId: run, functionId }, last_event_id)
  },
})

const redrive = adminOperation({
  name: 'function_run.redrive',
  roles: DEVELOPERS,
  summary: 'Run a dead letter again, with its input and the rights of its caller',
  ...PREVIEW,
  input: Input(RUN),
  output: FunctionRun,
  http: { method: 'POST', path: `${RUNS}/{run}/redrive`, status: () => 201 },
  run: async (scope, { id, run }) => {
    const { within, functionId } = await openActiveFunction(scope, id)
    const {
      input: _input,
      result: _result,
      ...shown
    } = await readRun(within, await redriveRun(within, functionId, run))
    return shown
  },
})

const OWNER = { tenant_id: Id('ten'), workspace_id: Id('ws') }
const ownerOf = ({ ref }: WorkspaceScope) => ({ tenant_id: ref.tenantId, workspace_id: ref.workspaceId })

const Redriven = component(
  'RedrivenRuns',
  Type.Object({
    ...OWNER,
    redriven: Type.Array(Type.Object({ run: Type.String(), as: Type.String() })),
    refused: Type.Array(Type.Object({ run: Type.String(), detail: Type.String() }), {
      description: 'Dead letters that were not run again because their caller has lost rights.',
    }),
    has_more: Type.Boolean({
      description:
        'True if there are further dead letters; repeat the call for them, with `next` as `after`.',
    }),
    next: Type.Union([Type.String(), Type.Null()], {
      description: 'Id of the last dead letter that the call examined. `null`: none.',
    }),
  }),
  {
    tenant_id: EXAMPLE_ID.tenant,
    workspace_id: EXAMPLE_ID.workspace,
    redriven: [{ run: EXAMPLE_ID.run, as: EXAMPLE_ID.execution }],
    refused: [],
    has_more: false,
    next: EXAMPLE_ID.run,
  },
)

const redriveFunction = adminOperation({
  name: 'function_run.redrive_all',
  roles: DEVELOPERS,
  summary: 'Run the oldest dead letters of a function again, up to 100',
  ...PREVIEW,
  input: Input({
    id: FunctionRef,
    after: Type.Optional(Type.String({ maxLength: 200, description: '`next` of the previous call.' })),
  }),
  output: Redriven,
  http: { method: 'POST', path: '/v1/functions/{id}/redrive' },
  run: async (scope, { id, after = '' }) => {
    const { within, functionId } = await openActiveFunction(scope, id)
    return { ...ownerOf(within), ...(await redriveAll(within, functionId, after)) }
  },
})

const discardRun = adminOperation({
  name: 'function_run.delete',
  summary: 'Delete an ended run with its log lines',
  roles: ADMINS,
  ...PREVIEW,
  input: Input(RUN),
  output: component(
    'DeletedFunctionRun',
    Type.Object({ id: Type.String(), ...OWNER, deleted: Type.Literal(true) }),
    { id: EXAMPLE_ID.run, tenant_id: EXAMPLE_ID.tenant, workspace_id: EXAMPLE_ID.workspace, deleted: true },
  ),
  http: { method: 'DELETE', path: `${RUNS}/{run}` },
  forgets: true,
  run: async (scope, { id, run }) => {
    const { within, functionId } = await openFunction(scope, id)
    await deleteRun(within, run, functionId)
    return { id: run, ...ownerOf(within), deleted: true as const }
  },
})

export const FUNCTION_RUN_OPERATIONS = [
  listRuns,
  getRun,
  listLines,
  watchLines,
  redrive,
  redriveFunction,
  discardRun,
]
