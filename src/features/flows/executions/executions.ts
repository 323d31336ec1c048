/** Executions: starts, reads and lists them from the recorded projection, without asking Temporal. */

import Type, { type Static } from 'typebox'
import { standardError } from '../../../../flows-dsl/errors.ts'
import { AnyOf, Id, Input, OptionalTime, Ref, Time, Wait } from '../../../access/operation-builders.ts'
import { FLOW_ERROR, HIDDEN_PAYLOADS, payload } from '../../../access/payload-schemas.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { workflowsOf } from '../../../access/scope-services.ts'
import { component, exampleWithout } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { TRIGGER_KINDS } from '../../../core/execution.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../../core/page.ts'
import { DEVELOPERS, VIEWERS } from '../../../core/policy.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import { Sql, sql } from '../../../infra/postgres/sql.ts'
import { previewOperation } from '../../operation-helpers.ts'
import { queuePosition } from '../../runs/slots.ts'
import { RequestId, TRACE_IDS, TraceId } from '../../runs/trace-ids.ts'
import { watchRun } from '../../runs/watcher.ts'
import { AliasName, VersionNumber } from '../../version-aliases.ts'
import { Approval, openApprovals } from '../approvals/approval-shape.ts'
import { namesOf, resolveDecider, showIfAsked } from '../approvals/deciders.ts'
import { FLOWS, FlowRef, findFlow, Ws } from '../definitions.ts'
import { FLOW_LIMITS } from '../limits.ts'
import { EXECUTION, Queue } from './concurrency.ts'
import { startFlow } from './start-execution.ts'

const Step = Type.Object({
  seq: Type.Integer(),
  name: Type.String(),
  kind: Type.String(),
  pointer: Type.String(),
  iteration: Type.Integer(),
  summary: Type.String(),
  status: Type.Union(['running', 'completed', 'faulted', 'skipped', 'cancelled'].map((s) => Type.Literal(s))),
  attempt: Type.Integer({ description: 'Number of attempts of the step.' }),
  error: Type.Unknown(FLOW_ERROR),
  ...HIDDEN_PAYLOADS,
  reused: Type.Boolean({ description: 'True if the result comes from the execution that this one repeats.' }),
  started_at: Type.String(),
  ended_at: Type.Union([Type.String(), Type.Null()]),
})

/** A caller's own key of an execution. */
const CorrelationKey = Type.String({
  minLength: 1,
  maxLength: 200,
  pattern: '^[^\\u0000-\\u001f]*$',
  description:
    'Your own key of the execution, such as an order number. The key is not encrypted: operators can search by it.',
})

const STATUSES = ['pending', 'running', 'waiting', 'suspended', 'cancelled', 'faulted', 'completed'] as const

const Compensation = Type.Object({
  undone: Type.Array(Type.String(), { description: 'Steps that were undone, as `pointer#iteration`.' }),
  failures: Type.Array(
    Type.Object({ step: Type.String(), error: Type.Unknown(FLOW_ERROR), ...HIDDEN_PAYLOADS }),
    {
      description: 'Steps that could not be undone, with the error of the last attempt.',
    },
  ),
})

export const Execution = component(
  'Execution',
  Type.Object({
    id: Id('run'),
    workflow_id: Type.String(),
    flow_id: Type.String(),
    flow_name: Type.String({ description: 'Name of the flow, even if the flow was deleted.' }),
    version: Type.Integer(),
    status: Type.Union(STATUSES.map((s) => Type.Literal(s))),
    suspended_because: Type.Union(
      [Type.Literal('workspace'), Type.Literal('paused'), Type.Literal('held'), Type.Null()],
      {
        description:
          'Reason why the execution is suspended. `workspace`: its workspace is suspended. `paused`: it was paused. `held`: a step waits for a decision (`onFault: hold`). `null`: it is not suspended.',
      },
    ),
    pause_reason: Type.Union([Type.String(), Type.Null()]),
    input: Type.Optional(Type.Unknown(payload())),
    output: Type.Optional(Type.Unknown(payload())),
    error: Type.Unknown(FLOW_ERROR),
    ...HIDDEN_PAYLOADS,
    compensation: Type.Union([Compensation, Type.Null()], {
      description:
        'Outcome of the compensation if the execution faulted or was cancelled. `null`: there was no step to undo.',
    }),
    started_by: Type.String(),
    trigger: Type.Object({
      kind: Type.Union(TRIGGER_KINDS.map((kind) => Type.Literal(kind))),
      id: Type.Union([Type.String(), Type.Null()]),
      response: Type.Optional(
        Type.Union(
          ['sent', 'timed_out', 'sender_gone'].map((one) => Type.Literal(one)),
          {
            description: 'Delivery of the result to the sender of a webhook with `respond`.',
          },
        ),
      ),
    }),
    correlation_key: Type.Union([Type.String(), Type.Null()]),
    event_gap: Type.Union([Type.Object({ from: Time, to: Time }), Type.Null()], {
      description:
        'Period whose events were dropped before the execution received them: a `listen` may have missed some. `null`: none.',
    }),
    rerun_of: Type.Union([Type.String(), Type.Null()], {
      description:
        'Id of the execution that this one repeats, or that the execution whose step has started it repeats. `null`: none.',
    }),
    request_id: RequestId,
    trace_id: TraceId,
    started_at: Time,
    ended_at: OptionalTime,
    overdue: Type.Boolean({
      description: 'True if the execution was still open after the `expect.duration` of its version.',
    }),
    queue: Type.Optional(Queue),
    steps: Type.Optional(Type.Array(Step)),
    steps_omitted: Type.Optional(
      Type.Object(
        { total: Type.Integer(), href: Type.String({ description: 'Path of the list of all steps.' }) },
        { description: 'Reference to all steps, if `steps` has only the first 1,000.' },
      ),
    ),
    approvals: Type.Optional(
      Type.Array(Approval, { description: 'Approvals that the execution waits for.' }),
    ),
    temporal_url: Type.Optional(Type.String()),
  }),
  {
    id: EXAMPLE_ID.execution,
    workflow_id: 'flow-execution-of-the-booking',
    flow_id: EXAMPLE_ID.flow,
    flow_name: 'confirm',
    version: 2,
    status: 'completed',
    suspended_because: null,
    pause_reason: null,
    input: { booking: EXAMPLE_ID.booking },
    output: { message: 'hello' },
    error: null,
    compensation: null,
    started_by: EXAMPLE_ID.key,
    trigger: { kind: 'manual', id: null },
    correlation_key: EXAMPLE_ID.booking,
    event_gap: null,
    rerun_of: null,
    request_id: EXAMPLE_ID.request,
    trace_id: EXAMPLE_ID.trace,
    started_at: EXAMPLE_TIME.created,
    ended_at: EXAMPLE_TIME.ended,
    overdue: false,
  },
)
export type Execution = Static<typeof Execution>

/** The status that is shown: `suspended` while the workspace is suspended or the execution is paused. */
export const STATUS = sql`case when (suspended or paused) and ended_at is null then 'suspended' else status end`

/** The columns of a list: without input and output, which may be large, and without queue and steps. */
const OUTLINE = sql`id, workflow_id, flow_id,
  (select name from flows f where f.id = executions.flow_id) as flow_name, version, ${STATUS} as status,
  case when ended_at is not null then null when suspended then 'workspace' when paused then 'paused'
    when status = 'suspended' then 'held' end as suspended_because,
  case when paused and ended_at is null then pause_reason end as pause_reason,
  error, compensation, started_by, jsonb_build_object('kind', trigger_kind, 'id', trigger_id)
    || case when response is null then '{}' else jsonb_build_object('response', response) end as trigger,
  correlation_key, event_gap, rerun_of, ${TRACE_IDS}, started_at, ended_at, overdue`

export const startExecution = previewOperation({
  name: 'execution.create',
  roles: DEVELOPERS,
  summary: 'Start an execution of a published version of a flow',
  input: Input({
    ws: Ws,
    flow: FlowRef,
    input: Type.Optional(Type.Unknown()),
    version: Type.Optional(VersionNumber),
    alias: Type.Optional(AliasName),
    correlation_key: Type.Optional(CorrelationKey),
    wait: Wait,
  }),
  output: Execution,
  http: {
    method: 'POST',
    path: `${FLOWS}/definitions/{flow}/executions`,
    body: '*',
    bodyBytesMax: FLOW_LIMITS.inputBodyBytesMax,
    headers: { wait: 'prefer' },
    status: () => 201,
  },
  run: async (scope, { flow, input = {}, version, alias, correlation_key: correlationKey, wait = 0 }) => {
    if (version !== undefined && alias !== undefined)
      throw new Problem('validation_failed', { detail: 'Give `version` or `alias`, not both.' })
    const id = scope.newId('run')
    const by = scope.actor.onBehalfOf ?? scope.actor.subject
    const trigger = { kind: 'manual' as const }
    const start = () => startFlow(scope, flow, version, { id, input, by, trigger, alias, correlationKey })
    if (wait > 0) await untilEnded(scope, id, start, wait * 1_000)
    else await start()
    return readExecution(scope, id)
  },
})

export const getExecution = previewOperation({
  name: 'execution.get',
  roles: VIEWERS,
  summary: 'Read an execution and its steps',
  input: Input({ ws: Ws, id: Ref('execution') }),
  output: Execution,
  http: { method: 'GET', path: `${FLOWS}/executions/{id}` },
  run: async (scope, { id }) => {
    const execution = await readExecution(scope, id)
    const { approvals = [] } = execution
    const names = approvals.length === 0 ? [] : namesOf(await resolveDecider(scope))
    for (const approval of approvals) showIfAsked(approval, names)
    return execution
  },
})

/**
 * Starts an execution and waits for its end. Subscribes first, so that no notification is missed.
 * @param gone ends the waiting, not the execution
 */
export async function untilEnded(
  scope: WorkspaceScope,
  id: string,
  start: () => Promise<unknown>,
  waitMs: number,
  gone?: AbortSignal,
): Promise<void> {
  const { watched, stop } = watchRun(scope, EXECUTION, id)
  const { promise: ended, resolve: done } = Promise.withResolvers<void>()
  const timer = setTimeout(done, waitMs)
  gone?.addEventListener('abort', () => done(), { once: true })
  const unsubscribe = watched.onEnd(done)
  try {
    await start()
    if (gone?.aborted !== true) await ended
  } finally {
    clearTimeout(timer)
    unsubscribe()
    stop()
  }
}

export async function readExecution(scope: WorkspaceScope, id: string): Promise<Execution> {
  const max = FLOW_LIMITS.stepsReturnedMax
  const [[row] = [], steps = [], [queue] = [], [last] = [], approvals = []] = await scope.batchShared(
    'reading',
    sql`select ${OUTLINE}, input, output from executions where id = ${id}`,
    sql`select seq, name, kind, pointer, iteration, summary, status, attempt, error, reused, started_at, ended_at
      from execution_steps where execution_id = ${id} order by seq limit ${max}`,
    queuePosition(id),
    // Steps are numbered from 0 without gaps.
    sql`select seq from execution_steps where execution_id = ${id} order by seq desc limit 1`,
    openApprovals(id),
  )
  if (row === undefined) throw notFound('execution')
  const total = Number(last?.['seq'] ?? -1) + 1
  const href = `${FLOWS.replace('{ws}', scope.ref.workspaceId)}/executions/${id}/steps`
  const execution = {
    ...row,
    steps,
    ...(total > max && { steps_omitted: { total, href } }),
    ...(queue !== undefined && { queue }),
    ...(approvals.length > 0 && { approvals }),
  }
  return linked(scope, execution as unknown as Execution)
}

/** Adds a link to the Temporal UI, if it is configured. */
function linked<Known extends { readonly workflow_id: string }>(
  scope: WorkspaceScope,
  execution: Known,
): Known & { temporal_url?: string } {
  const url = workflowsOf(scope).uiLink(execution.workflow_id)
  return url === undefined ? execution : { ...execution, temporal_url: url }
}

/** An execution in a list: without input, output, queue and steps. */
const ListedExecution = component(
  'ExecutionSummary',
  Type.Omit(Execution, ['input', 'output', 'queue', 'steps', 'steps_omitted', 'approvals']),
  exampleWithout(Execution, 'input', 'output', 'queue', 'steps', 'steps_omitted', 'approvals'),
)
type ListedExecution = Static<typeof ListedExecution>

const FILTERS = {
  status: AnyOf(STATUSES),
  error_type: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      description:
        'Value of `error.type` in the executions to list: the URI, or the short name of a standard type, such as `communication`.',
    }),
  ),
  version: Type.Optional({ ...VersionNumber, description: 'Version of the flow that `flow` names.' }),
  trigger: Type.Optional(Type.Union(TRIGGER_KINDS.map((kind) => Type.Literal(kind)))),
  trigger_id: Type.Optional(Ref('trigger')),
  correlation_key: Type.Optional(CorrelationKey),
  compensation: Type.Optional(
    Type.Enum(['completed', 'failed'], {
      description:
        'Only executions that were compensated: completely (`completed`), or with failures (`failed`).',
    }),
  ),
  started_after: Type.Optional({ ...Time, description: 'Only executions created at this time or later.' }),
  started_before: Type.Optional({ ...Time, description: 'Only executions created before this time.' }),
  order: Type.Optional(
    Type.Enum(['asc', 'desc'], { description: 'Order by `started_at`. Default: `desc`, newest first.' }),
  ),
}
const FILTERED = { ...PageInput, ws: Ws, ...FILTERS }
const Filtered = Type.Object(FILTERED)
type Filters = Static<typeof Filtered>

export const listExecutions = previewOperation({
  name: 'execution.list',
  roles: VIEWERS,
  summary: 'List the executions of a workspace, newest first',
  input: Input({ ...FILTERED, flow: Type.Optional(FlowRef) }),
  output: PageOf(ListedExecution),
  http: { method: 'GET', path: `${FLOWS}/executions` },
  run: async (scope, input) => {
    const { flow, version } = input
    if (version !== undefined && flow === undefined)
      throw new Problem('validation_failed', { detail: 'version: needs `flow`, whose version it is.' })
    const ofFlow = sql`and flow_id = (select id from flows where id = ${flow} or (name = ${flow} and deleted_at is null) limit 1)`
    return list(scope, input, flow === undefined ? sql`` : ofFlow)
  },
})

export const listFlowExecutions = previewOperation({
  name: 'flow_execution.list',
  roles: VIEWERS,
  summary: 'List the executions of a flow, newest first',
  input: Input({ ...FILTERED, flow: FlowRef }),
  output: PageOf(ListedExecution),
  http: { method: 'GET', path: `${FLOWS}/definitions/{flow}/executions` },
  run: async (scope, input) => {
    const { id } = await findFlow(scope, input.flow)
    return list(scope, input, sql`and flow_id = ${id}`)
  },
})

async function list(scope: WorkspaceScope, input: Filters, ofFlow: Sql) {
  const { after, limit } = pageBounds(input)
  const descending = input.order !== 'asc'
  const rows = await scope.rows<ListedExecution>(sql`
    select ${OUTLINE} from executions
    where true ${ofFlow} ${statusFilter(input.status)} ${filter(sql`error_type =`, errorType(input.error_type))} ${filter(sql`version =`, input.version)}
      ${filter(sql`trigger_kind =`, input.trigger)} ${filter(sql`trigger_id =`, input.trigger_id)}
      ${filter(sql`correlation_key =`, input.correlation_key)} ${filter(sql`compensated =`, input.compensation)} ${filter(sql`started_at >=`, input.started_after)}
      ${filter(sql`started_at <`, input.started_before)} ${behind(after, descending)}
    ${descending ? sql`order by started_at desc, id desc` : sql`order by started_at, id`}
    limit ${limit}`)
  const listed = rows.map((row) => linked(scope, row))
  return pageFrom(input, listed, ({ started_at, id }) => `${Date.parse(started_at)}-${id}`)
}

const filter = (comparison: Sql, value: string | number | undefined): Sql =>
  value === undefined ? sql`` : sql`and ${comparison} ${value}`

/** The type as errors have it. */
const errorType = (given: string | undefined): string | undefined =>
  given === undefined ? undefined : (standardError(given)?.type ?? given)

/** A filter on the status that is shown. */
function statusFilter(statuses: Filters['status']): Sql {
  if (statuses === undefined) return sql``
  return sql`and (${Sql.joined([...new Set(statuses)].map(hasStatus), ' or ')})`
}

/** An open execution that is suspended or paused counts as suspended. */
function hasStatus(status: (typeof STATUSES)[number]): Sql {
  if (['completed', 'faulted', 'cancelled'].includes(status)) return sql`outcome = ${status}`
  if (status === 'suspended') return sql`(outcome is null and (suspended or paused or status = 'suspended'))`
  return sql`(outcome is null and status = ${status} and not suspended and not paused)`
}

/** @throws Problem `cursor_invalid` if it is not the cursor of a list of executions */
function behind(after: string, descending: boolean): Sql {
  if (after === '') return sql``
  const [, msecs, id] = /^([0-9]{1,15})-(run_[0-9a-z]{26})$/.exec(after) ?? []
  if (msecs === undefined) throw new Problem('cursor_invalid')
  const position = sql`(${new Date(Number(msecs))}::timestamptz, ${id}::text)`
  return descending ? sql`and (started_at, id) < ${position}` : sql`and (started_at, id) > ${position}`
}
