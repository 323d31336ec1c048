/** Executions that are run again: from the start or from a step, on the same input or another, by a newer version. */

import Type from 'typebox'
import type { FlowIR } from '../../../flows-dsl/ir.ts'
import { canonical } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { ADMINS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import type { RunReuse } from '../../core/run.ts'
import { type Sql, sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { Input, inWorkspace } from '../kinds.ts'
import { Target } from './commands.ts'
import { FLOWS } from './definitions.ts'
import { Execution, readExecution } from './executions.ts'
import {
  answeredSteps,
  askingSteps,
  decidedIn,
  type RecordedRun,
  type RecordedStep,
  recordedRun,
  recordedStep,
} from './recorded.ts'
import { planned, planRerun, type RerunPlan } from './rerun-plan.ts'
import { startFlow } from './start.ts'

const Planned = Type.Object({
  step: Type.String({ description: '`pointer#iteration` in the execution that is repeated.' }),
  name: Type.String(),
  kind: Type.String(),
})

const Plan = Type.Object({
  from: Type.Union([Planned, Type.Null()]),
  reused: Type.Array(Planned, { description: 'Answered from the record.' }),
  again: Type.Array(Planned, { description: 'They have asked the outside, and ask again.' }),
  missing: Type.Array(Planned, {
    description: 'Completed before `from`, and not there in the version that is to run.',
  }),
  asked_again: Type.Array(Type.Interface([Planned], { reason: Type.String() }), {
    description:
      'Of `again`: approvals, and flows in which people have approved, whose decision was made on other data, by another version, or by the subject that starts the rerun.',
  }),
  refusals: Type.Array(Type.String(), { description: 'Why it cannot be run so.' }),
})

const Rerun = Type.Object({ ...Type.Partial(Execution).properties, plan: Plan })

export const rerunExecution = inWorkspace({
  name: 'execution.rerun',
  summary: 'Run an execution that has ended again, from the start or from a step',
  roles: ADMINS,
  stability: 'preview',
  input: Input({
    ...Target,
    from: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 2_000,
        description:
          'A task by its name or pointer (the first time it was entered), one entry by `pointer#iteration`, or `failed`: the step that faulted. What had been answered before it began is not asked again.',
      }),
    ),
    input: Type.Optional(Type.Unknown({ description: 'Where absent, that of the execution.' })),
    version: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 2147483647, description: 'Where absent, that of the execution.' }),
    ),
    dry_run: Type.Optional(
      Type.Boolean({ description: 'Only say what would be taken over: 200 and the plan.' }),
    ),
  }),
  output: Rerun,
  http: {
    method: 'POST',
    path: `${FLOWS}/executions/{id}/rerun`,
    body: '*',
    status: ({ id }) => (id === undefined ? 200 : 201),
    also: [200],
  },
  run: async (scope, { id, from, input, version, dry_run = false }) => {
    const run = await recordedRun(scope, id)
    if (run.ended_at === null)
      throw new Problem('state_conflict', {
        detail: 'The execution goes on: cancel it, or wait until it has ended.',
      })
    const changed = changeOf(run, { input, version })
    const { plan, reuse } = await planOf(scope, id, { run, from, version: version ?? run.version, changed })
    if (dry_run) return { plan }
    if (plan.refusals.length > 0)
      throw new Problem('state_conflict', { detail: plan.refusals.slice(0, LIMITS.faultsShownMax).join(' ') })
    const again = scope.newId('run')
    await startFlow(scope, run.flow_id, version ?? run.version, {
      id: again,
      input: input === undefined ? run.input : input,
      by: scope.actor.subject,
      trigger: { kind: 'rerun', id },
      correlationKey: run.correlation_key ?? undefined,
      rerunOf: id,
      reuse,
    })
    return { ...(await readExecution(scope, again)), plan }
  },
})

/** Why what people have decided in the execution does not hold for the rerun, if nothing of it does. */
function changeOf(run: RecordedRun, { input, version = run.version }: Pick<Again, 'input' | 'version'>) {
  if (version !== run.version)
    return `It was decided in version ${run.version}, and version ${version} is to run.`
  if (input === undefined || canonical(input) === canonical(run.input)) return undefined
  return 'It was decided on another input.'
}

interface Again {
  readonly input?: unknown
  readonly version?: number | undefined
}

interface Asked {
  readonly run: RecordedRun
  readonly from: string | undefined
  readonly version: number
  readonly changed: string | undefined
}

/** @throws Problem `not_found` where there is no such version, `state_conflict` no such step */
async function planOf(
  scope: WorkspaceScope,
  id: string,
  { run, from: named, version, changed }: Asked,
): Promise<{ plan: RerunPlan; reuse: RunReuse | undefined }> {
  const { asking, undoing } = await askingSteps(scope, id)
  const ir = await irOf(scope, run.flow_id, version)
  if (named === undefined) {
    const plan = {
      ...{ from: null, reused: [], again: asking.map(planned), missing: [] },
      ...{ asked_again: [], refusals: [] },
    }
    return { plan, reuse: undefined }
  }
  const from = await fromOf(scope, id, run, named)
  // What began before it and has ended by then; of those that end in the same moment, which is the moment it begins in.
  const which = sql`seq < ${from.seq} and ended_at <= ${from.started_at}::timestamptz`
  const answered = await answeredSteps(scope, id, { which, max: LIMITS.reuse.stepsMax })
  const decided = await decidedIn(
    scope,
    answered.flatMap(({ child }) => child ?? []),
  )
  return planRerun({ from, answered, asking, undoing, decided }, { ir, by: scope.actor.subject, changed })
}

/** @throws Problem `state_conflict` where there was no such step */
async function fromOf(
  scope: WorkspaceScope,
  id: string,
  run: RecordedRun,
  named: string,
): Promise<RecordedStep> {
  const faulted = sql`status = 'faulted' and pointer !~ '/compensate/[0-9]'`
  const instance = run.error?.instance ?? null
  const step =
    named === 'failed'
      ? ((await recordedStep(scope, id, { which: sql`${faulted} and pointer = ${instance}`, last: true })) ??
        (await recordedStep(scope, id, { which: faulted, last: true })))
      : await recordedStep(scope, id, { which: namedBy(named) })
  if (step !== undefined) return step
  const detail =
    named === 'failed' ? 'No step of it has faulted.' : `It never came to \`${named.slice(0, 200)}\`.`
  throw new Problem('state_conflict', { detail })
}

function namedBy(named: string): Sql {
  const [, pointer, iteration] = /^(\/.*)#(\d{1,9})$/.exec(named) ?? []
  if (pointer !== undefined) return sql`pointer = ${pointer} and iteration = ${Number(iteration)}`
  return named.startsWith('/') ? sql`pointer = ${named}` : sql`name = ${named}`
}

async function irOf(scope: WorkspaceScope, flow: string, version: number): Promise<FlowIR> {
  const row = await scope.row<{ ir: string }>(sql`
    select ir from flow_versions where flow_id = ${flow} and version = ${version}`)
  if (row === undefined) throw notFound('flow version')
  return JSON.parse(row.ir) as FlowIR
}
