/**
 * Runs of functions for keys and tokens with the scope `functions:read`, which name no workspace. Their paths differ from those
 * of admins, since an operation belongs to one privilege domain, and a route to one operation.
 */

import Type from 'typebox'
import { Input, Ref, workspaceOperation } from '../../../access/operation-builders.ts'
import { privilege } from '../../../access/privileges.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import type { AnyOperation } from '../../../core/operation.ts'
import { PageOf } from '../../../core/page.ts'
import { WRITERS } from '../../../core/policy.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { findRow } from '../../operation-helpers.ts'
import { functionNamed } from '../function-ref.ts'
import {
  followLines,
  LOG_FILTERS,
  LOG_STREAM,
  LOG_STREAM_HTTP,
  LogFrames,
  linePage,
  RunLine,
} from './run-logs.ts'
import { getRunOperation } from './run-operation.ts'
import { FunctionRun, FunctionRunWithResult, RUN_FILTERS, readRun, runPage } from './runs.ts'

/** The workspace with the right to read records of its runs. */
const asRunReader = privilege('functions.keys')

const RUNS = '/v1/invocations'
const READ = { roles: WRITERS, stability: 'preview', scope: 'functions:read' } as const
const RUN = { run: Ref('run') }

const listRuns = workspaceOperation({
  ...READ,
  name: 'invocation.list',
  summary: 'List the runs of a function, or of all functions, newest first',
  input: Input({ function: Type.Optional(Ref('function, or its name')), ...RUN_FILTERS }),
  output: PageOf(FunctionRun),
  http: { method: 'GET', path: RUNS },
  run: async (caller, { function: named, ...filters }) => {
    const scope = asRunReader(caller)
    return runPage(scope, filters, named === undefined ? undefined : await functionId(scope, named))
  },
})

async function functionId(scope: WorkspaceScope, named: string): Promise<string> {
  const statement = sql`select id from functions f where ${functionNamed(named)}`
  return (await findRow<{ id: string }>(scope, 'function', statement)).id
}

const getRun = workspaceOperation({
  ...READ,
  name: 'invocation.get',
  summary: 'Read a run of a function; an asynchronous run has its input and result',
  input: Input(RUN),
  output: FunctionRunWithResult,
  http: { method: 'GET', path: `${RUNS}/{run}` },
  run: (scope, { run }) => readRun(asRunReader(scope), run),
})

const listLines = workspaceOperation({
  ...READ,
  name: 'invocation.logs',
  payloads: 'refused',
  summary: 'List the log lines of a run of a function',
  input: Input({ ...RUN, ...LOG_FILTERS }),
  output: PageOf(RunLine),
  http: { method: 'GET', path: `${RUNS}/{run}/logs` },
  run: (caller, { run, ...page }) => linePage({ caller, scope: asRunReader(caller), runId: run }, page),
})

const watchLines = workspaceOperation({
  ...READ,
  name: 'invocation.watch_logs',
  payloads: 'refused',
  summary: 'Stream the past and future log lines of a run as server-sent events, until it ends',
  input: Input({ ...RUN, ...LOG_STREAM }),
  output: LogFrames,
  http: { ...LOG_STREAM_HTTP, path: `${RUNS}/{run}/logs/stream` },
  run: (caller, { run, last_event_id }) =>
    followLines({ caller, scope: asRunReader(caller), runId: run }, last_event_id),
})

export const FUNCTION_KEY_OPERATIONS: readonly AnyOperation[] = [
  listRuns,
  getRun,
  listLines,
  watchLines,
  getRunOperation,
]
