/** Commands to an execution that goes on. Each finds it in the caller's own workspace before anything is asked of it. */

import Type from 'typebox'
import { checkJson } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { ADMINS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import type { RunAnswer, RunDecision, RunRelease } from '../../core/run.ts'
import { workflowsOf } from '../../platform/capabilities.ts'
import { sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { Input, inWorkspace, Ref } from '../kinds.ts'
import { FLOWS, Ws } from './definitions.ts'
import { Execution, readExecution } from './executions.ts'
import { leaveQueue } from './places.ts'
import { decidedIn, flowsRunBy } from './recorded.ts'

export const Target = { ws: Ws, id: Ref('execution') }
export const Step = Type.Optional(
  Type.String({
    maxLength: 2_000,
    description:
      'The step: a task by its name, or one entry by `pointer#iteration`. May be left out where one waits.',
  }),
)

interface Open {
  readonly workflow_id: string
  readonly ended_at: string | null
}

/** @throws Problem `not_found`, or `state_conflict` where it has ended */
export async function findOpen(scope: WorkspaceScope, id: string): Promise<Open> {
  const row = await scope.row<Open>(sql`select workflow_id, ended_at from executions where id = ${id}`)
  if (row === undefined) throw notFound('execution')
  if (row.ended_at !== null) throw ended()
  return row
}

function ended(): Problem {
  return new Problem('state_conflict', { detail: 'The execution has ended.' })
}

export const signalExecution = inWorkspace({
  name: 'execution.signal',
  summary: 'Send a CloudEvent to an execution that listens, or will',
  roles: ADMINS,
  stability: 'preview',
  input: Input({
    ...Target,
    event: Type.Object(
      {
        type: Type.String({ minLength: 1, maxLength: 200 }),
        source: Type.Optional(Type.String({ minLength: 1, maxLength: 2_000 })),
        id: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
      },
      { description: 'CloudEvents 1.0. One that comes twice, by `source` and `id`, is heard once.' },
    ),
  }),
  output: Type.Object({ id: Type.String({ description: 'Of the event.' }) }),
  http: {
    method: 'POST',
    path: `${FLOWS}/executions/{id}/signal`,
    body: '*',
    bodyBytesMax: LIMITS.runBodyBytesMax,
    status: () => 202,
  },
  run: async (scope, { id, event }) => {
    checkJson('event', event, LIMITS.runInputBytesMax)
    const { workflow_id } = await findOpen(scope, id)
    const named = { source: `/executions/${id}`, id: scope.newId('evt'), ...event, specversion: '1.0' }
    await workflowsOf(scope).signal(workflow_id, { name: 'event', value: named })
    return { id: named.id }
  },
})

export const approveExecution = inWorkspace({
  name: 'execution.approve',
  summary: 'Decide an approval that an execution waits for',
  roles: ADMINS,
  stability: 'preview',
  input: Input({
    ...Target,
    step: Step,
    approved: Type.Boolean(),
    comment: Type.Optional(Type.String({ maxLength: 2_000 })),
    form: Type.Optional(Type.Unknown({ description: 'What the form of the approval asks for.' })),
  }),
  output: Execution,
  http: {
    method: 'POST',
    path: `${FLOWS}/executions/{id}/approve`,
    body: '*',
    bodyBytesMax: LIMITS.runBodyBytesMax,
  },
  run: async (scope, { id, step, ws: _ws, ...decision }) => {
    checkJson('form', decision.form ?? null, LIMITS.runInputBytesMax)
    const value = { by: scope.actor.subject, ...decision } as RunDecision['decision']
    const { workflow_id } = await findOpen(scope, id)
    const entry = await entryOf(scope, id, 'approve', step)
    await refuseUnconfirmed(scope, id, entry)
    const decided = { step: entry, decision: value } satisfies RunDecision
    return tell(scope, { id, workflow_id }, { name: 'decide', value: decided })
  },
})

/**
 * Refuses a decision by an account that was reset since the approval was asked for: the password may be another's.
 * @param entry `pointer#iteration`
 * @throws Problem `state_conflict`
 */
async function refuseUnconfirmed(scope: WorkspaceScope, id: string, entry: string): Promise<void> {
  const { subject } = scope.actor
  const [pointer = '', iteration] = entry.split('#')
  const suspended = await scope.row(sql`
    select e.id from executions e left join execution_steps s
      on s.execution_id = e.id and s.pointer = ${pointer} and s.iteration::text = ${iteration ?? ''} and s.status = 'running'
    where e.id = ${id} and is_unconfirmed(${subject}, coalesce(s.started_at, e.started_at), e.started_by)`)
  if (suspended === undefined) return
  const detail = `Your account was reset after this was asked for. A role above yours that has not started the execution confirms first that the account is yours: POST /v1/accounts/${subject}/confirm.`
  throw new Problem('state_conflict', { detail })
}

const release = (name: string, summary: string, path: string) => ({
  name,
  summary,
  roles: ADMINS,
  stability: 'preview' as const,
  output: Execution,
  http: {
    method: 'POST' as const,
    path: `${FLOWS}/executions/{id}/${path}`,
    body: '*' as const,
    bodyBytesMax: LIMITS.runBodyBytesMax,
  },
})

export const retryStep = inWorkspace({
  ...release('execution.retry_step', 'Try a step that is held (`onFault: hold`) again', 'retry-step'),
  input: Input({ ...Target, step: Step }),
  run: (scope, { id, step }) => releaseStep(scope, id, step, { retry: true }),
})

export const skipStep = inWorkspace({
  ...release('execution.skip_step', 'Go on after a step that is held, with an output given', 'skip-step'),
  input: Input({ ...Target, step: Step, output: Type.Optional(Type.Unknown()) }),
  run: async (scope, { id, step, output = null }) => {
    checkJson('output', output, LIMITS.runInputBytesMax)
    await refuseDecidedBelow(scope, id)
    return releaseStep(scope, id, step, { skip: output as never, by: scope.actor.subject })
  },
})

export const cancelExecution = inWorkspace({
  name: 'execution.cancel',
  summary: 'Cancel an execution; what it has completed and can undo is undone first',
  roles: ADMINS,
  stability: 'preview',
  input: Input(Target),
  output: Execution,
  http: { method: 'POST', path: `${FLOWS}/executions/{id}/cancel`, body: '*', status: () => 202 },
  run: async (scope, { id }) => {
    const { workflow_id } = await findOpen(scope, id)
    if (!(await leaveQueue(scope, id))) await workflowsOf(scope).cancel(workflow_id)
    return readExecution(scope, id)
  },
})

/**
 * Refuses to change the data of an execution if people have decided in a flow that it ran: they cannot be asked again there.
 * @throws Problem `state_conflict`
 */
export async function refuseDecidedBelow(scope: WorkspaceScope, id: string): Promise<void> {
  const flows = await flowsRunBy(scope, id)
  const decided = await decidedIn(scope, [...flows.keys()])
  const step = [...flows].find(([child]) => decided.get(child)?.isDecided)?.[1]
  if (step === undefined) return
  const detail = `People have decided in the flow that \`${step}\` ran, on the data as they are: cancel the execution, and rerun it from that step.`
  throw new Problem('state_conflict', { detail })
}

async function releaseStep(
  scope: WorkspaceScope,
  id: string,
  step: string | undefined,
  what: RunRelease['release'],
): Promise<Execution> {
  const { workflow_id } = await findOpen(scope, id)
  const value = { step: await entryOf(scope, id, undefined, step), release: what } satisfies RunRelease
  return tell(scope, { id, workflow_id }, { name: 'release', value })
}

/** @throws Problem `state_conflict` with the reason where the run refuses */
export async function tell(
  scope: WorkspaceScope,
  { id, workflow_id }: Pick<Open, 'workflow_id'> & { readonly id: string },
  update: { name: string; value: unknown },
): Promise<Execution> {
  const answer = (await workflowsOf(scope).update(workflow_id, update)) as RunAnswer | undefined
  if (answer === undefined) {
    await findOpen(scope, id)
    throw new Problem('state_conflict', { detail: 'The execution has not begun.' })
  }
  if (answer.refused !== undefined) throw new Problem('state_conflict', { detail: answer.refused })
  return readExecution(scope, id)
}

/** The entry that is meant: given as such, or the one open step of that name, or the only one that can be. */
export async function entryOf(
  scope: WorkspaceScope,
  id: string,
  kind: string | undefined,
  step: string | undefined,
): Promise<string> {
  if (step?.includes('#')) return step
  const named = step === undefined ? sql`true` : sql`name = ${step}`
  const waits = kind === undefined ? sql`error is not null` : sql`kind = ${kind}`
  const rows = await scope.rows<{ pointer: string; iteration: number }>(sql`
    select pointer, iteration from execution_steps
    where execution_id = ${id} and status = 'running' and ${named} and ${waits} order by seq limit 2`)
  const [only, another] = rows
  if (only === undefined)
    throw new Problem('state_conflict', { detail: 'No such step waits for a decision.' })
  if (another === undefined) return `${only.pointer}#${only.iteration}`
  throw new Problem('state_conflict', { detail: 'Several steps wait: name one by `pointer#iteration`.' })
}
