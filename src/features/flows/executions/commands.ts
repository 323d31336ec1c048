/** Commands to an open execution: signal, approve, retry or skip a step, cancel, pause, resume, patch data. */

import Type from 'typebox'
import { Input, Ref } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { workflowsOf } from '../../../access/scope-services.ts'
import type {
  ExecutionPatch,
  ExecutionPause,
  StepDecision,
  StepRelease,
  UpdateReply,
} from '../../../core/execution.ts'
import { checkJson } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import type { Json } from '../../../core/work.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { SHARED_LIMITS } from '../../limits.ts'
import { findRow, previewOperation } from '../../operation-helpers.ts'
import {
  type Decider,
  peopleBehind,
  requireIndependent,
  resolveDecider,
  type Verdict,
} from '../approvals/deciders.ts'
import { FLOWS, Ws } from '../definitions.ts'
import { FLOW_LIMITS } from '../limits.ts'
import { cancelQueued } from './concurrency.ts'
import { Execution, readExecution } from './executions.ts'
import { readDecisions, readSubflowNames } from './history.ts'

export const Target = { ws: Ws, id: Ref('execution') }
const Step = Type.Optional(
  Type.String({
    maxLength: 2_000,
    description:
      'Step to act on: a task by name, or a single step by `pointer#iteration`. Optional if only one step waits.',
  }),
)

interface OpenExecution {
  readonly id: string
  readonly workflow_id: string
  readonly status: string
  readonly ended_at: string | null
}

/** @throws Problem `not_found`; `state_conflict` if it has ended */
async function findOpen(scope: WorkspaceScope, id: string): Promise<OpenExecution> {
  const row = await findRow<OpenExecution>(
    scope,
    'execution',
    sql`select id, workflow_id, status, ended_at from executions where id = ${id}`,
  )
  if (row.ended_at !== null) throw new Problem('state_conflict', { detail: 'The execution has ended.' })
  return row
}

/**
 * Rejects a message to an execution without a workflow, which would be lost.
 * @throws Problem `state_conflict`
 */
async function rejectUnstarted(scope: WorkspaceScope, { status, workflow_id }: OpenExecution): Promise<void> {
  // The record says `pending` until the first task has been recorded.
  if (status === 'pending' && (await workflowsOf(scope).status(workflow_id)) === undefined) throw notStarted()
}

const notStarted = () => new Problem('state_conflict', { detail: 'The execution has not started.' })

/** An operation that sends a command to an open execution and returns the execution. */
const command = (name: string, summary: string, verb: string) => ({
  name,
  summary,
  output: Execution,
  http: {
    method: 'POST' as const,
    path: `${FLOWS}/executions/{id}/${verb}`,
    body: '*' as const,
    bodyBytesMax: FLOW_LIMITS.inputBodyBytesMax,
  },
})

export const signalExecution = previewOperation({
  name: 'execution.signal',
  summary: 'Send a CloudEvent to an execution',
  input: Input({
    ...Target,
    event: Type.Object(
      {
        type: Type.String({ minLength: 1, maxLength: 200 }),
        source: Type.Optional(Type.String({ minLength: 1, maxLength: 2_000 })),
        id: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
      },
      {
        description:
          'Event to send (CloudEvents 1.0). A repeated event (same `source` and `id`) has no effect.',
      },
    ),
  }),
  output: Type.Object({ id: Type.String({ description: 'Id of the event.' }) }),
  http: {
    method: 'POST',
    path: `${FLOWS}/executions/{id}/signal`,
    body: '*',
    bodyBytesMax: FLOW_LIMITS.inputBodyBytesMax,
    status: () => 202,
  },
  run: async (scope, { id, event }) => {
    checkJson('event', event, FLOW_LIMITS.inputBytesMax)
    const execution = await findOpen(scope, id)
    await rejectUnstarted(scope, execution)
    const named = { source: `/executions/${id}`, id: scope.newId('evt'), ...event, specversion: '1.0' }
    await workflowsOf(scope).signal(execution.workflow_id, { name: 'event', value: named })
    return { id: named.id }
  },
})

export const approveExecution = previewOperation({
  ...command('execution.approve', 'Decide an approval that an execution waits for', 'approve'),
  input: Input({
    ...Target,
    step: Step,
    approved: Type.Boolean(),
    comment: Type.Optional(Type.String({ maxLength: 2_000 })),
    form: Type.Optional(Type.Unknown({ description: 'Fields of the form of the approval.' })),
  }),
  run: async (scope, { id, step, ws: _ws, ...decision }) => {
    await findOpen(scope, id)
    const entry = await findStep(scope, id, sql`kind = 'approve'`, step)
    return decideStep(scope, id, entry, await resolveDecider(scope), decision)
  },
})

/**
 * Sends a decision to an execution.
 * @param entry `pointer#iteration`
 * @throws Problem `not_found`; `state_conflict` if the execution has ended or refuses it
 */
export async function decideStep(
  scope: WorkspaceScope,
  id: string,
  entry: string,
  decider: Decider,
  verdict: Verdict,
): Promise<Execution> {
  checkJson('form', verdict.form ?? null, FLOW_LIMITS.inputBytesMax)
  const execution = await findOpen(scope, id)
  const created_by = await requireIndependent(scope, id, entry, decider)
  const { by, as } = decider
  const decision = {
    ...verdict,
    by,
    as: [...as],
    ...(created_by !== undefined && { created_by }),
  } as StepDecision['decision']
  return sendUpdate(scope, execution, {
    name: 'decide',
    value: { step: entry, decision } satisfies StepDecision,
  })
}

export const retryStep = previewOperation({
  ...command('execution.retry_step', 'Retry a held step (`onFault: hold`)', 'retry-step'),
  input: Input({ ...Target, step: Step }),
  run: (scope, { id, step }) => releaseStep(scope, id, step, { retry: true }),
})

export const skipStep = previewOperation({
  ...command(
    'execution.skip_step',
    'Skip a held step and continue with a given output, or end a `wait` early',
    'skip-step',
  ),
  input: Input({ ...Target, step: Step, output: Type.Optional(Type.Unknown()) }),
  run: async (scope, { id, step, output = null }) => {
    checkJson('output', output, FLOW_LIMITS.inputBytesMax)
    const execution = await findOpen(scope, id)
    const entry = await findStep(scope, id, sql`(error is not null or kind = 'wait')`, step)
    // A `wait` yields its input, so no data change.
    if (!(await isWait(scope, id, entry))) await rejectApprovedSubflows(scope, id)
    const value = {
      step: entry,
      release: { skip: output as Json, by: scope.actor.subject, people: await peopleBehind(scope) },
    }
    return sendUpdate(scope, execution, { name: 'release', value: value satisfies StepRelease })
  },
})

/** @param entry `pointer#iteration` */
async function isWait(scope: WorkspaceScope, id: string, entry: string): Promise<boolean> {
  const [pointer = '', iteration = ''] = entry.split('#')
  const row = await scope.row(sql`select seq from execution_steps
    where execution_id = ${id} and pointer = ${pointer} and iteration::text = ${iteration} and kind = 'wait'`)
  return row !== undefined
}

export const cancelExecution = previewOperation({
  name: 'execution.cancel',
  summary: 'Cancel an execution; completed tasks with a compensation are undone first',
  input: Input(Target),
  output: Execution,
  http: { method: 'POST', path: `${FLOWS}/executions/{id}/cancel`, body: '*', status: () => 202 },
  run: async (scope, { id }) => {
    const { workflow_id } = await findOpen(scope, id)
    if (!(await cancelQueued(scope, id))) await workflowsOf(scope).cancel(workflow_id)
    return readExecution(scope, id)
  },
})

/**
 * Rejects a data patch if people have decided in a sub-flow of the execution, since they cannot be asked again there.
 * @throws Problem `state_conflict`
 */
async function rejectApprovedSubflows(scope: WorkspaceScope, id: string): Promise<void> {
  const flows = await readSubflowNames(scope, id)
  const decided = await readDecisions(scope, [...flows.keys()])
  const step = [...flows].find(([child]) => decided.get(child)?.isDecided)?.[1]
  if (step === undefined) return
  const detail = `People have decided in the flow that \`${step}\` ran, based on the current data: cancel the execution, and rerun it from that step.`
  throw new Problem('state_conflict', { detail })
}

async function releaseStep(
  scope: WorkspaceScope,
  id: string,
  step: string | undefined,
  what: StepRelease['release'],
): Promise<Execution> {
  const execution = await findOpen(scope, id)
  const value = { step: await findStep(scope, id, HELD, step), release: what } satisfies StepRelease
  return sendUpdate(scope, execution, { name: 'release', value })
}

/** @throws Problem `state_conflict` with the reason if the workflow rejects it */
async function sendUpdate(
  scope: WorkspaceScope,
  { id, workflow_id }: OpenExecution,
  update: { name: string; value: unknown },
): Promise<Execution> {
  const sent = { id: scope.uuid(), ...update }
  const answer = (await workflowsOf(scope).update(workflow_id, sent)) as UpdateReply | undefined
  if (answer === undefined) {
    await findOpen(scope, id)
    throw notStarted()
  }
  if (answer.refused !== undefined) throw new Problem('state_conflict', { detail: answer.refused })
  return readExecution(scope, id)
}

/** A condition on steps: held. */
const HELD = sql`error is not null`

/** Resolves a step to `pointer#iteration`: given in that form, by a unique name among open steps, or the only one that waits. */
async function findStep(
  scope: WorkspaceScope,
  id: string,
  waits: Sql,
  step: string | undefined,
): Promise<string> {
  if (step?.includes('#')) return step
  const named = step === undefined ? sql`true` : sql`name = ${step}`
  const rows = await scope.rows<{ pointer: string; iteration: number }>(sql`
    select pointer, iteration from execution_steps
    where execution_id = ${id} and status = 'running' and ${named} and ${waits} order by seq limit 2`)
  const [only, another] = rows
  if (only === undefined)
    throw new Problem('state_conflict', { detail: 'No such step waits for a decision.' })
  if (another === undefined) return `${only.pointer}#${only.iteration}`
  throw new Problem('state_conflict', { detail: 'Several steps wait: select one by `pointer#iteration`.' })
}

export const pauseExecution = previewOperation({
  ...command(
    'execution.pause',
    'Pause an execution: running calls finish, nothing else starts, and its timeouts stop',
    'pause',
  ),
  input: Input({
    ...Target,
    reason: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: SHARED_LIMITS.reasonCharsMax,
        pattern: '^[^\\u0000-\\u001f]*$',
      }),
    ),
  }),
  run: (scope, { id, reason = null }) => setPaused(scope, id, { paused: true, reason }),
})

export const resumeExecution = previewOperation({
  ...command('execution.resume', 'Resume a paused execution', 'resume'),
  input: Input(Target),
  run: (scope, { id }) => setPaused(scope, id, { paused: false, reason: null }),
})

async function setPaused(scope: WorkspaceScope, id: string, value: ExecutionPause): Promise<Execution> {
  return sendUpdate(scope, await findOpen(scope, id), { name: 'pause', value })
}

export const patchExecution = previewOperation({
  ...command(
    'execution.patch_data',
    'Patch the data of an execution that is paused or has a held step',
    'patch-data',
  ),
  input: Input({
    ...Target,
    context: Type.Optional(Type.Unknown({ description: 'Merge patch (RFC 7396) of `$context`.' })),
    step: Step,
    input: Type.Optional(Type.Unknown({ description: 'Input of a held step for its next attempt.' })),
  }),
  run: async (scope, { id, context, step, input }) => {
    if (context === undefined && input === undefined)
      throw new Problem('validation_failed', { detail: 'Give `context`, or the `input` of a step.' })
    for (const [name, value] of Object.entries({ context, input }))
      if (value !== undefined) checkJson(name, value, FLOW_LIMITS.inputBytesMax)
    const execution = await findOpen(scope, id)
    await rejectApprovedSubflows(scope, id)
    const held = input === undefined ? {} : { step: await findStep(scope, id, HELD, step), input }
    const by = scope.actor.subject
    const value = {
      by,
      people: await peopleBehind(scope),
      ...(context !== undefined && { context }),
      ...held,
    } as ExecutionPatch
    return sendUpdate(scope, execution, { name: 'patch', value })
  },
})
