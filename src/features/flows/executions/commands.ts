/** Commands to an open execution: signal, approve, retry or skip a step, cancel, pause, resume, patch data. */

import Type from 'typebox'
import { Input, Ref } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { workflowsOf } from '../../../access/scope-services.ts'
import { component } from '../../../core/components/component.ts'
import { EXAMPLE_ID } from '../../../core/components/examples.ts'
import type {
  ExecutionPatch,
  ExecutionPause,
  StepDecision,
  StepRelease,
  UpdateReply,
} from '../../../core/execution.ts'
import { checkJson } from '../../../core/json.ts'
import { ADMINS, DEVELOPERS } from '../../../core/policy.ts'
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
import { cancelQueued, hasRequestedCancel } from './concurrency.ts'
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

interface TargetExecution {
  readonly id: string
  readonly workflow_id: string
  readonly status: string
  readonly ended_at: string | null
}

/** @throws Problem `not_found` */
const findTarget = (scope: WorkspaceScope, id: string): Promise<TargetExecution> =>
  findRow(scope, 'execution', sql`select id, workflow_id, status, ended_at from executions where id = ${id}`)

/** @throws Problem `state_conflict` if it has ended */
function requireOpen(execution: TargetExecution): TargetExecution {
  if (execution.ended_at === null) return execution
  throw hasEnded()
}

/** @throws Problem `not_found`; `state_conflict` if it has ended */
const findOpen = async (scope: WorkspaceScope, id: string): Promise<TargetExecution> =>
  requireOpen(await findTarget(scope, id))

const hasEnded = () => new Problem('state_conflict', { detail: 'The execution has ended.' })

/**
 * Rejects a message to an execution without a workflow, which would be lost.
 * @throws Problem `state_conflict`
 */
async function rejectUnstarted(
  scope: WorkspaceScope,
  { status, workflow_id }: TargetExecution,
): Promise<void> {
  // The record says `pending` until the first task has been recorded.
  if (status === 'pending' && (await workflowsOf(scope).status(workflow_id)) === undefined) throw notStarted()
}

const notStarted = () => new Problem('state_conflict', { detail: 'The execution has not started.' })

/** An operation that sends a command to an open execution and returns the execution. */
const command = (name: string, summary: string, verb: string) => ({
  name,
  roles: DEVELOPERS,
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
  roles: DEVELOPERS,
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
  output: component(
    'SignalledExecution',
    Type.Object({ id: Type.String({ description: 'Id of the event.' }) }),
    { id: EXAMPLE_ID.event },
  ),
  http: {
    method: 'POST',
    path: `${FLOWS}/executions/{id}/signal`,
    body: '*',
    bodyBytesMax: FLOW_LIMITS.inputBodyBytesMax,
    status: () => 202,
  },
  run: async (scope, { id, event }) => {
    checkJson('event', event, FLOW_LIMITS.inputBytesMax)
    const named = { source: `/executions/${id}`, id: scope.newId('evt'), ...event, specversion: '1.0' }
    const execution = await findTarget(scope, id)
    if (await wasSignalled(scope, execution, named)) return { id: named.id }
    await rejectUnstarted(scope, requireOpen(execution))
    const signal = { name: 'event', value: named }
    if (!(await workflowsOf(scope).signal(execution.workflow_id, signal))) throw hasEnded()
    return { id: named.id }
  },
})

/**
 * True if an earlier attempt of the request has sent the event, and the execution has ended since. An open execution is sent
 * the event again, which has no effect.
 */
async function wasSignalled(
  scope: WorkspaceScope,
  { workflow_id, ended_at }: TargetExecution,
  { source, id }: { readonly source: string; readonly id: string },
): Promise<boolean> {
  if (ended_at === null || !isRepeated(scope)) return false
  return workflowsOf(scope).hasReceived(workflow_id, 'event', (value) => {
    const received = value as { readonly source?: unknown; readonly id?: unknown }
    return received.source === source && received.id === id
  })
}

/** True if the request has an idempotency key, and an earlier attempt of it may have had its effect. */
const isRepeated = ({ completion }: WorkspaceScope): boolean => (completion?.attempt ?? 1) > 1

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
    const findApproval = () => findStep(scope, id, sql`kind = 'approve'`, step)
    return decideStep(scope, id, findApproval, await resolveDecider(scope), decision)
  },
})

/**
 * Sends a decision to an execution.
 * @param findApproval finds the step that waits for it, as `pointer#iteration`; its problem is that of the request
 * @throws Problem `not_found`; `state_conflict` if the execution has ended or refuses it
 */
export async function decideStep(
  scope: WorkspaceScope,
  id: string,
  findApproval: () => Promise<string>,
  decider: Decider,
  verdict: Verdict,
): Promise<Execution> {
  checkJson('form', verdict.form ?? null, FLOW_LIMITS.inputBytesMax)
  return sendUpdate(scope, id, 'decide', async () => {
    const step = await findApproval()
    const created_by = await requireIndependent(scope, id, step, decider)
    const { by, as } = decider
    const decision = { ...verdict, by, as: [...as], ...(created_by !== undefined && { created_by }) }
    return { step, decision: decision as StepDecision['decision'] } satisfies StepDecision
  })
}

export const retryStep = previewOperation({
  ...command('execution.retry_step', 'Retry a held step (`onFault: hold`)', 'retry-step'),
  input: Input({ ...Target, step: Step }),
  run: (scope, { id, step }) =>
    sendUpdate(scope, id, 'release', async () => {
      const entry = await findStep(scope, id, HELD, step)
      return { step: entry, release: { retry: true } } satisfies StepRelease
    }),
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
    return sendUpdate(scope, id, 'release', async () => {
      const entry = await findStep(scope, id, sql`(error is not null or kind = 'wait')`, step)
      // A `wait` yields its input, so no data change.
      if (!(await isWait(scope, id, entry))) await rejectApprovedSubflows(scope, id)
      const by = { by: scope.actor.subject, people: await peopleBehind(scope) }
      return { step: entry, release: { skip: output as Json, ...by } } satisfies StepRelease
    })
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
  roles: DEVELOPERS,
  summary: 'Cancel an execution; completed tasks with a compensation are undone first',
  input: Input(Target),
  output: Execution,
  http: { method: 'POST', path: `${FLOWS}/executions/{id}/cancel`, body: '*', status: () => 202 },
  run: async (scope, { id }) => {
    const execution = await findTarget(scope, id)
    const { workflow_id } = hasRequestedCancel(scope) ? execution : requireOpen(execution)
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

/**
 * Sends an update to an open execution, once for all attempts of the request.
 * @param prepare finds what is to be sent; its problem is that of the request
 * @throws Problem `not_found`; `state_conflict` if the execution has ended, or with the reason if `prepare` or the workflow
 *   rejects it
 */
async function sendUpdate(
  scope: WorkspaceScope,
  id: string,
  name: string,
  prepare: () => Promise<unknown>,
): Promise<Execution> {
  // The same at each attempt of the request.
  const updateId = scope.uuid()
  try {
    const { workflow_id } = await findOpen(scope, id)
    const sent = { id: updateId, name, value: await prepare() }
    const answer = (await workflowsOf(scope).update(workflow_id, sent)) as UpdateReply | undefined
    if (answer === undefined) {
      await findOpen(scope, id)
      throw notStarted()
    }
    if (answer.refused !== undefined) throw new Problem('state_conflict', { detail: answer.refused })
  } catch (error) {
    if (!(await wasAccepted(scope, id, updateId, error))) throw error
  }
  return readExecution(scope, id)
}

/** True if the update is refused because an earlier attempt of the request was accepted: the step waits no more, say. */
async function wasAccepted(
  scope: WorkspaceScope,
  id: string,
  updateId: string,
  refusal: unknown,
): Promise<boolean> {
  // Whatever the scope: a key decides in another role than that of its claim.
  if (!(refusal instanceof Problem) || refusal.code !== 'state_conflict') return false
  const { workflow_id } = await findTarget(scope, id)
  const answer = (await workflowsOf(scope).updateAnswer(workflow_id, updateId)) as UpdateReply | undefined
  return answer !== undefined && answer.refused === undefined
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

const setPaused = (scope: WorkspaceScope, id: string, value: ExecutionPause): Promise<Execution> =>
  sendUpdate(scope, id, 'pause', async () => value)

export const patchExecution = previewOperation({
  ...command(
    'execution.patch_data',
    'Patch the data of an execution that is paused or has a held step',
    'patch-data',
  ),
  // It sets data of the execution, of which a developer may see nothing.
  roles: ADMINS,
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
    return sendUpdate(scope, id, 'patch', async () => {
      await rejectApprovedSubflows(scope, id)
      const held = input === undefined ? {} : { step: await findStep(scope, id, HELD, step), input }
      const by = { by: scope.actor.subject, people: await peopleBehind(scope) }
      return { ...by, ...(context !== undefined && { context }), ...held } as ExecutionPatch
    })
  },
})
