/** Reruns an execution from the start or from a step, with the same or another input and version. */

import Type, { type Static } from 'typebox'
import type { FlowIR, TaskNode } from '../../../../flows-dsl/ir.ts'
import { TaskIndex } from '../../../../flows-dsl/machine/task-index.ts'
import type { ApproveBody } from '../../../../flows-dsl/tasks/approve.ts'
import type { RunBody } from '../../../../flows-dsl/tasks/run.ts'
import { Input } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { component, exampleOf } from '../../../core/components/component.ts'
import { EXAMPLE_ID } from '../../../core/components/examples.ts'
import type { ExecutionReuse, ReusedResult } from '../../../core/execution.ts'
import { canonical } from '../../../core/json.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { DEVELOPERS } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { findRow, previewOperation } from '../../operation-helpers.ts'
import { peopleBehind } from '../approvals/deciders.ts'
import { FLOWS } from '../definitions.ts'
import { FLOW_LIMITS } from '../limits.ts'
import { Target } from './commands.ts'
import { Execution, readExecution } from './executions.ts'
import {
  type AnsweredStep,
  answeredSteps,
  callingSteps,
  type Decided,
  type RecordedExecution,
  type RecordedStep,
  readDecisions,
  readRecordedExecution,
  recordedStep,
} from './history.ts'
import { startFlow } from './start-execution.ts'

const Planned = component(
  'PlannedStep',
  Type.Object({
    step: Type.String({ description: 'Step as `pointer#iteration` in the repeated execution.' }),
    name: Type.String(),
    kind: Type.String(),
  }),
  { step: '/do/0/greet#0', name: 'greet', kind: 'set' },
)

const Plan = component(
  'RerunPlan',
  Type.Object({
    from: Type.Union([Planned, Type.Null()]),
    reused: Type.Array(Planned, { description: 'Steps whose recorded results are reused.' }),
    again: Type.Array(Planned, { description: 'Steps with effects outside the execution that run again.' }),
    removed_steps: Type.Array(Planned, {
      description: 'Steps completed before `from` that the version to run does not have.',
    }),
    approvals_repeated: Type.Array(Type.Interface([Planned], { reason: Type.String() }), {
      description:
        'Steps of `again` that are approvals, or flows with approvals, and were decided on other data, in another version, or by the subject that starts the rerun.',
    }),
    refusals: Type.Array(Type.String(), { description: 'Reasons why this rerun is not possible.' }),
  }),
  {
    from: exampleOf(Planned),
    reused: [],
    again: [],
    removed_steps: [],
    approvals_repeated: [],
    refusals: [],
  },
)

type PlannedStep = Static<typeof Planned>
type RerunPlan = Static<typeof Plan>

const Rerun = component(
  'ExecutionRerun',
  Type.Object({ ...Type.Partial(Execution).properties, plan: Plan }),
  { ...exampleOf(Execution), rerun_of: EXAMPLE_ID.run, plan: exampleOf(Plan) },
)

export const rerunExecution = previewOperation({
  name: 'execution.rerun',
  roles: DEVELOPERS,
  summary: 'Rerun an ended execution, from the start or from a step',
  input: Input({
    ...Target,
    from: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 2_000,
        description:
          'Step to rerun from: a task by name or pointer (its first step), or a single step by `pointer#iteration`; results from before it started are reused. `failed`: every recorded result is reused, except that of the step that faulted. Default: the start.',
      }),
    ),
    input: Type.Optional(
      Type.Unknown({ description: 'Input of the rerun. Default: the input of the execution.' }),
    ),
    version: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 2147483647,
        description: 'Version of the flow to run. Default: the version of the execution.',
      }),
    ),
    dry_run: Type.Optional(
      Type.Boolean({ description: 'True if only the plan is returned, with status 200. Default: `false`.' }),
    ),
  }),
  output: Rerun,
  http: {
    method: 'POST',
    path: `${FLOWS}/executions/{id}/rerun`,
    body: '*',
    bodyBytesMax: FLOW_LIMITS.inputBodyBytesMax,
    status: ({ id }) => (id === undefined ? 200 : 201),
    also: [200],
  },
  run: async (scope, { id, from, input, version, dry_run = false }) => {
    const execution = await readRecordedExecution(scope, id)
    if (execution.ended_at === null)
      throw new Problem('state_conflict', {
        detail: 'The execution is still running: cancel it, or wait until it has ended.',
      })
    const changed = changeOf(execution, { input, version })
    const { plan, reuse } = await preparePlan(scope, id, {
      execution: execution,
      from,
      version: version ?? execution.version,
      changed,
    })
    if (dry_run) return { plan }
    if (plan.refusals.length > 0)
      throw new Problem('state_conflict', {
        detail: plan.refusals.slice(0, CORE_LIMITS.diagnosticsReturnedMax).join(' '),
      })
    const again = scope.newId('run')
    await startFlow(scope, execution.flow_id, version ?? execution.version, {
      id: again,
      input: input === undefined ? execution.input : input,
      by: scope.actor.subject,
      trigger: { kind: 'rerun', id },
      correlationKey: execution.correlation_key ?? undefined,
      rerunOf: id,
      reuse,
    })
    return { ...(await readExecution(scope, again)), plan }
  },
})

/** The reason why no decision of people in the execution can be reused; undefined if decisions can be. */
function changeOf(
  execution: RecordedExecution,
  { input, version = execution.version }: { input?: unknown; version?: number | undefined },
) {
  if (version !== execution.version)
    return `It was decided in version ${execution.version}, but the rerun uses version ${version}.`
  if (input === undefined || canonical(input) === canonical(execution.input)) return undefined
  return 'It was decided on another input.'
}

/** @throws Problem `not_found` if the version does not exist, `state_conflict` if the step does not */
async function preparePlan(
  scope: WorkspaceScope,
  id: string,
  {
    execution,
    from: named,
    version,
    changed,
  }: { execution: RecordedExecution; from: string | undefined; version: number; changed: string | undefined },
): Promise<{ plan: RerunPlan; reuse: ExecutionReuse | undefined }> {
  const steps = await callingSteps(scope, id)
  const ir = await requireIr(scope, execution.flow_id, version)
  if (named === undefined) {
    const none = { from: null, reused: [], removed_steps: [], approvals_repeated: [], refusals: [] }
    return { plan: { ...none, again: steps.calling.map(planned) }, reuse: undefined }
  }
  const from = await resolveFrom(scope, id, execution, named)
  const which = reusable(from, named)
  const answered = await answeredSteps(scope, id, { which, max: FLOW_LIMITS.reuse.stepsMax })
  const children = answered.flatMap(({ child }) => child ?? [])
  const tasks = new Map(new TaskIndex(ir).all().map((node) => [taskName(node), node]))
  const decided = await readDecisions(scope, children)
  const isTimeLine = named !== FAILED
  const starters = [scope.actor.subject, ...(await peopleBehind(scope))]
  return planRerun({ ...steps, from, isTimeLine, answered, decided, tasks, starters, changed })
}

/** The value of `from` for the step that faulted. */
const FAILED = 'failed'

/**
 * A condition for the steps whose results are reused. Before an explicit step: those that started before it and ended before
 * it started. For `failed`: all others, since in concurrent branches they may overlap with it in any order.
 */
function reusable(from: RecordedStep | undefined, named: string): Sql {
  if (from === undefined) return sql`true`
  if (named === FAILED) return sql`seq <> ${from.seq}`
  return sql`seq < ${from.seq} and ended_at <= ${from.started_at}::timestamptz`
}

/**
 * The step from which an execution is repeated. Undefined for `failed` if no step has failed it: its timeout has passed, say.
 * @throws Problem `state_conflict` if there is no such step
 */
async function resolveFrom(
  scope: WorkspaceScope,
  id: string,
  run: RecordedExecution,
  named: string,
): Promise<RecordedStep | undefined> {
  if (named === FAILED) {
    if (run.error === null)
      throw new Problem('state_conflict', { detail: 'No step of the execution has faulted.' })
    const faulted = sql`status = 'faulted' and pointer = ${run.error.instance ?? null}`
    return recordedStep(scope, id, { which: faulted, last: true })
  }
  const step = await recordedStep(scope, id, { which: namedBy(named) })
  if (step !== undefined) return step
  throw new Problem('state_conflict', {
    detail: `The execution never reached \`${named.slice(0, 200)}\`.`,
  })
}

function namedBy(named: string): Sql {
  const [, pointer, iteration] = /^(\/.*)#(\d{1,9})$/.exec(named) ?? []
  if (pointer !== undefined) return sql`pointer = ${pointer} and iteration = ${Number(iteration)}`
  return named.startsWith('/') ? sql`pointer = ${named}` : sql`name = ${named}`
}

async function requireIr(scope: WorkspaceScope, flow: string, version: number): Promise<FlowIR> {
  const row = await findRow<{ ir: string }>(
    scope,
    'flow version',
    sql`
    select ir from flow_versions where flow_id = ${flow} and version = ${version}`,
  )
  return JSON.parse(row.ir) as FlowIR
}

/** The record of the repeated execution, and the version to run. */
interface RerunContext {
  /** Undefined if no step has failed the execution. */
  readonly from: RecordedStep | undefined
  /** True if nothing is reused once `from` has started; false if every recorded result is, in any order. */
  readonly isTimeLine: boolean
  /** Steps whose results may be reused; one more than may be reused if there are more. */
  readonly answered: readonly AnsweredStep[]
  readonly calling: readonly RecordedStep[]
  readonly compensating: readonly { readonly pointer: string }[]
  /** Approvals in sub-flows, by the ids of their executions. */
  readonly decided: ReadonlyMap<string, Decided>
  /** The tasks of the version to run, by {@link taskName}. */
  readonly tasks: ReadonlyMap<string, TaskNode>
  /** The subject that starts the rerun, and the people behind it. */
  readonly starters: readonly string[]
  /** The reason why no decision can be reused: another input or version. */
  readonly changed: string | undefined
}

function planRerun(context: RerunContext): { plan: RerunPlan; reuse: ExecutionReuse | undefined } {
  const { from, isTimeLine, answered, calling, tasks } = context
  const before = answered.filter(
    ({ pointer }) => !isOfEvent(pointer) && !isCompensation(pointer) && !isHandler(pointer),
  )
  const exists = (step: RecordedStep) => tasks.get(taskName(step))?.kind === step.kind
  const candidates = latest(before.filter(exists))
  const reasons = new Map(candidates.map((step) => [step, reasonToAsk(step, context)]))
  const reused = candidates.filter((step) => reasons.get(step) === undefined)
  const seqs = new Set(before.filter((step) => reasons.get(step) === undefined).map(({ seq }) => seq))
  const answers = Object.fromEntries(reused.map((step) => [step.path, reusedResult(step, context)]))
  const plan = {
    from: from === undefined ? null : planned(from),
    reused: reused.map(planned),
    again: calling
      .filter(({ seq, pointer }) => !seqs.has(seq) && !isCompensation(pointer) && !isHandler(pointer))
      .map(planned),
    removed_steps: before.filter((step) => !exists(step)).map(planned),
    approvals_repeated: [...reasons].flatMap(([step, reason]) =>
      reason === undefined ? [] : [{ ...planned(step), reason }],
    ),
    refusals: refusalsOf(context, reused, answers),
  }
  return { plan, reuse: { ...(isTimeLine && from !== undefined && { from: from.path }), results: answers } }
}

function planned({ pointer, iteration, name, kind }: RecordedStep): PlannedStep {
  return { step: `${pointer}#${iteration}`, name, kind }
}

/** The last step per path: a repeated approval has several. */
function latest(steps: readonly AnsweredStep[]): AnsweredStep[] {
  const last = new Map(steps.map((step) => [step.path, step]))
  return steps.filter((step) => last.get(step.path) === step)
}

/** The reused result of a step. The outputs of `emit` and `wait` are computed again. */
function reusedResult(step: AnsweredStep, { decided }: RerunContext): ReusedResult {
  const { kind, result, error, digest, child } = step
  const isDecision = kind === 'approve' || (child !== null && decided.get(child)?.isDecided === true)
  const bound = { ...(isDecision && digest !== null && { digest }), ...(child !== null && { child }) }
  if (error !== null) return { error, ...bound }
  return { output: kind === 'emit' || kind === 'wait' ? null : result, ...bound }
}

/** The reason why people must decide a step again; undefined if their decision is reused. */
function reasonToAsk(
  step: AnsweredStep,
  { decided, starters, changed, tasks }: RerunContext,
): string | undefined {
  const below = step.kind === 'run' && step.child !== null ? decided.get(step.child) : undefined
  if (step.kind !== 'approve' && !(below?.isDecided && isWaitedFor(step, tasks))) return undefined
  if (changed !== undefined) return changed
  if (step.digest === null) return 'It was decided on patched data.'
  const body = tasks.get(taskName(step))?.body as ApproveBody | undefined
  const deciders = below?.deciders ?? (body?.fourEyes === false ? [] : decidersOf(step))
  const by = starters.find((one) => deciders.includes(one))
  return by === undefined ? undefined : `\`${by}\` decided it, and also starts this rerun.`
}

/** True unless the flow was started with `await: false`. */
const isWaitedFor = (step: RecordedStep, tasks: RerunContext['tasks']) =>
  (tasks.get(taskName(step))?.body as RunBody | undefined)?.await !== false

function decidersOf({ result }: AnsweredStep): string[] {
  const { decisions = [] } = (result ?? {}) as { decisions?: readonly { by: string }[] }
  return decisions.map(({ by }) => by)
}

/** True for steps that a `listen` ran for an event; a `listen` is reused as a whole. */
const isOfEvent = (pointer: string) => /\/foreach\/do\/\d/.test(pointer)
const COMPENSATION = /\/compensate\/\d/
const isCompensation = (pointer: string) => COMPENSATION.test(pointer)
/** True for the tasks under `onError` and `finally`, which run at the end of each execution anew. */
const isHandler = (pointer: string) => /^\/(?:onError|finally)\/\d/.test(pointer)

function refusalsOf(
  context: RerunContext,
  reused: readonly AnsweredStep[],
  answers: ExecutionReuse['results'],
): string[] {
  const { from, answered } = context
  const refusals: (string | false | undefined)[] = [
    ...(from === undefined ? [] : refusalsOfStep(from, context)),
    (answered.length > FLOW_LIMITS.reuse.stepsMax ||
      Buffer.byteLength(JSON.stringify(answers)) > FLOW_LIMITS.reuse.bytesMax) &&
      `At most ${FLOW_LIMITS.reuse.stepsMax} results and ${FLOW_LIMITS.reuse.bytesMax} bytes can be reused.`,
    ...reused.map(
      ({ truncated, name }) =>
        truncated && `The result of \`${name}\` was too large to store, or contained a secret.`,
    ),
    ...reused.map((step) => rejectUnknownSubflow(step, context)),
    rejectCompensated(context, reused),
    ...reused.map((step) => rejectListen(step, context)),
  ]
  return refusals.filter((refusal) => typeof refusal === 'string')
}

function refusalsOfStep(from: RecordedStep, { tasks }: RerunContext): (string | false)[] {
  return [
    (isOfEvent(from.pointer) || isCompensation(from.pointer)) &&
      `\`${from.name}\` belongs to an event or a compensation: use the enclosing step.`,
    isHandler(from.pointer) &&
      `\`${from.name}\` runs at the end of each execution: name a step under \`do\`.`,
    !tasks.has(taskName(from)) && `There is no \`${from.name}\` in the version to run.`,
  ]
}

/** Rejects a sub-flow whose record is deleted, since people may have decided in it. */
function rejectUnknownSubflow(step: AnsweredStep, { decided, tasks }: RerunContext): string | undefined {
  if (step.kind !== 'run' || step.error !== null || !isWaitedFor(step, tasks)) return undefined
  if (step.child !== null && decided.get(step.child)?.isKnown === true) return undefined
  return `The record of the flow that \`${step.name}\` ran was deleted, and its decisions with it: rerun from there or before.`
}

/** Rejects compensated steps, which cannot be reused. */
function rejectCompensated(
  { compensating }: RerunContext,
  reused: readonly AnsweredStep[],
): string | undefined {
  const compensated = compensating.map(({ pointer }) => pointer.slice(0, pointer.search(COMPENSATION)))
  const first = reused.find(({ pointer }) =>
    compensated.some((above) => pointer === above || pointer.startsWith(`${above}/`)),
  )
  return first && `\`${first.name}\` was undone when the execution failed: rerun from there or before.`
}

/** Rejects a `listen` with exports or compensations per event, since only its output is recorded. */
function rejectListen(step: AnsweredStep, { tasks }: RerunContext): string | undefined {
  const prefix = `${taskName(step)}/foreach`
  const isIncomplete =
    step.kind === 'listen' &&
    [...tasks].some(
      ([name, task]) =>
        name.startsWith(prefix) && (task.export !== undefined || task.compensate !== undefined),
    )
  return isIncomplete
    ? `The exports of \`${step.name}\` for each event are not recorded: rerun from there or before.`
    : undefined
}

/**
 * The name that identifies a task across versions of the flow: the names of lists and tasks in turn, such as
 * `do/ship/try/send` for `/do/1/ship/try/0/send`.
 */
function taskName({ pointer }: { readonly pointer: string }): string {
  const names: string[] = []
  let isName = false
  for (const part of pointer.split('/').slice(1)) {
    if (isName || !/^\d+$/.test(part)) {
      names.push(part)
      isName = false
    } else isName = true
  }
  return names.join('/')
}
