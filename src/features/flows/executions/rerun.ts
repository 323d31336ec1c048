/** Reruns an execution from the start or from a step, with the same or another input and version. */

import Type, { type Static } from 'typebox'
import type { FlowIR, TaskNode } from '../../../../flows-dsl/ir.ts'
import { TaskIndex } from '../../../../flows-dsl/machine/task-index.ts'
import type { ApproveBody } from '../../../../flows-dsl/tasks/approve.ts'
import type { RunBody } from '../../../../flows-dsl/tasks/run.ts'
import { Input } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { canonical } from '../../../core/json.ts'
import { LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import type { ReusedResult, RunReuse } from '../../../core/run.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { findRow, previewOperation } from '../../operation-helpers.ts'
import { FLOWS } from '../definitions.ts'
import { Target } from './commands.ts'
import { Execution, readExecution } from './executions.ts'
import {
  type AnsweredStep,
  answeredSteps,
  callingSteps,
  type Decided,
  decidedIn,
  type RecordedRun,
  type RecordedStep,
  recordedRun,
  recordedStep,
} from './history.ts'
import { startFlow } from './start-execution.ts'

const Planned = Type.Object({
  step: Type.String({ description: '`pointer#iteration` in the repeated execution.' }),
  name: Type.String(),
  kind: Type.String(),
})

const Plan = Type.Object({
  from: Type.Union([Planned, Type.Null()]),
  reused: Type.Array(Planned, { description: 'Steps whose recorded results are reused.' }),
  again: Type.Array(Planned, { description: 'Steps that call the outside again.' }),
  missing: Type.Array(Planned, {
    description: 'Steps completed before `from` that the version to run does not have.',
  }),
  asked_again: Type.Array(Type.Interface([Planned], { reason: Type.String() }), {
    description:
      'Those of `again` that are approvals, or flows with approvals, decided on other data, in another version, or by the subject that starts the rerun.',
  }),
  refusals: Type.Array(Type.String(), { description: 'Reasons why this rerun is not possible.' }),
})

type PlannedStep = Static<typeof Planned>
type RerunPlan = Static<typeof Plan>

const Rerun = Type.Object({ ...Type.Partial(Execution).properties, plan: Plan })

export const rerunExecution = previewOperation({
  name: 'execution.rerun',
  summary: 'Rerun an ended execution, from the start or from a step',
  input: Input({
    ...Target,
    from: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 2_000,
        description:
          'A task by name or pointer (its first step), a single step by `pointer#iteration`, or `failed`: the step that faulted. Results from before it started are reused.',
      }),
    ),
    input: Type.Optional(Type.Unknown({ description: 'Default: that of the execution.' })),
    version: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 2147483647, description: 'Default: that of the execution.' }),
    ),
    dry_run: Type.Optional(Type.Boolean({ description: 'Return only the plan, with status 200.' })),
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
        detail: 'The execution is still running: cancel it, or wait until it has ended.',
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

/** The reason why no decision of people in the execution can be reused; undefined if decisions can be. */
function changeOf(
  run: RecordedRun,
  { input, version = run.version }: { input?: unknown; version?: number | undefined },
) {
  if (version !== run.version)
    return `It was decided in version ${run.version}, but the rerun uses version ${version}.`
  if (input === undefined || canonical(input) === canonical(run.input)) return undefined
  return 'It was decided on another input.'
}

/** @throws Problem `not_found` if the version does not exist, `state_conflict` if the step does not */
async function planOf(
  scope: WorkspaceScope,
  id: string,
  {
    run,
    from: named,
    version,
    changed,
  }: { run: RecordedRun; from: string | undefined; version: number; changed: string | undefined },
): Promise<{ plan: RerunPlan; reuse: RunReuse | undefined }> {
  const { asking, undoing } = await callingSteps(scope, id)
  const ir = await irOf(scope, run.flow_id, version)
  if (named === undefined) {
    const none = { from: null, reused: [], missing: [], asked_again: [], refusals: [] }
    return { plan: { ...none, again: asking.map(planned) }, reuse: undefined }
  }
  const from = await fromOf(scope, id, run, named)
  // Steps that started before it and ended before it started.
  const which = sql`seq < ${from.seq} and ended_at <= ${from.started_at}::timestamptz`
  const answered = await answeredSteps(scope, id, { which, max: LIMITS.reuse.stepsMax })
  const decided = await decidedIn(
    scope,
    answered.flatMap(({ child }) => child ?? []),
  )
  return planRerun({ from, answered, asking, undoing, decided }, { ir, by: scope.actor.subject, changed })
}

/** @throws Problem `state_conflict` if there is no such step */
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
    named === 'failed'
      ? 'No step of the execution has faulted.'
      : `The execution never reached \`${named.slice(0, 200)}\`.`
  throw new Problem('state_conflict', { detail })
}

function namedBy(named: string): Sql {
  const [, pointer, iteration] = /^(\/.*)#(\d{1,9})$/.exec(named) ?? []
  if (pointer !== undefined) return sql`pointer = ${pointer} and iteration = ${Number(iteration)}`
  return named.startsWith('/') ? sql`pointer = ${named}` : sql`name = ${named}`
}

async function irOf(scope: WorkspaceScope, flow: string, version: number): Promise<FlowIR> {
  const row = await findRow<{ ir: string }>(
    scope,
    'flow version',
    sql`
    select ir from flow_versions where flow_id = ${flow} and version = ${version}`,
  )
  return JSON.parse(row.ir) as FlowIR
}

/** The rerun to plan. */
interface Next {
  readonly ir: FlowIR
  /** The subject that starts it. */
  readonly by: string
  /** The reason why no decision can be reused: another input or version. */
  readonly changed: string | undefined
}

/** The record of the repeated execution. */
interface RerunRecord {
  readonly from: RecordedStep
  /** Steps with results from before `from` started; one more than may be reused if there are more. */
  readonly answered: readonly AnsweredStep[]
  readonly asking: readonly RecordedStep[]
  readonly undoing: readonly { readonly pointer: string }[]
  /** Approvals in sub-flows, by the ids of their executions. */
  readonly decided: ReadonlyMap<string, Decided>
}

function planRerun(record: RerunRecord, next: Next): { plan: RerunPlan; reuse: RunReuse | undefined } {
  const nodes = new TaskIndex(next.ir).all()
  const kinds = new Map(nodes.map(({ pointer, kind }) => [namesOf(pointer).join('/'), kind]))
  const exists = ({ pointer, kind }: RecordedStep) => kinds.get(namesOf(pointer).join('/')) === kind
  const before = record.answered.filter(({ pointer }) => !isOfEvent(pointer) && !isUndoing(pointer))
  const there = latest(before.filter(exists))
  const asked = there.flatMap((step) => {
    const reason = reasonToAsk(step, record, { ...next, nodes })
    return reason === undefined ? [] : [{ step, reason }]
  })
  const reused = there.filter((step) => !asked.some((one) => one.step === step))
  const seqs = new Set(before.filter((step) => !asked.some((one) => one.step === step)).map(({ seq }) => seq))
  const { from } = record
  const plan = {
    from: planned(from),
    reused: reused.map(planned),
    again: record.asking.filter(({ seq, pointer }) => !seqs.has(seq) && !isUndoing(pointer)).map(planned),
    missing: before.filter((step) => !exists(step)).map(planned),
    asked_again: asked.map(({ step, reason }) => ({ ...planned(step), reason })),
  }
  const answers = Object.fromEntries(reused.map((step) => [step.path ?? '', reusedOf(step, record)]))
  const doesFromExist = kinds.has(namesOf(from.pointer).join('/'))
  const refusals = refusalsOf(record, { reused, answers, nodes, doesFromExist })
  return {
    plan: { ...plan, refusals },
    reuse: from.path === null ? undefined : { from: from.path, answers },
  }
}

function planned({ pointer, iteration, name, kind }: RecordedStep): PlannedStep {
  return { step: `${pointer}#${iteration}`, name, kind }
}

/** The last step per path: a repeated approval has several. */
function latest(steps: readonly AnsweredStep[]): AnsweredStep[] {
  const last = new Map(steps.map((step) => [step.path, step]))
  return steps.filter((step) => step.path === null || last.get(step.path) === step)
}

/** The reused result of a step. The outputs of `emit` and `wait` are computed again. */
function reusedOf(step: AnsweredStep, { decided }: RerunRecord): ReusedResult {
  const { kind, result, error, digest, child } = step
  const people = kind === 'approve' || (child !== null && decided.get(child)?.isDecided === true)
  const bound = { ...(people && digest !== null && { digest }), ...(child !== null && { child }) }
  if (error !== null) return { error, ...bound }
  return { output: kind === 'emit' || kind === 'wait' ? null : result, ...bound }
}

/** The reason why people must decide a step again; undefined if their decision is reused. */
function reasonToAsk(
  step: AnsweredStep,
  { decided }: RerunRecord,
  { by, changed, nodes }: Next & { nodes: readonly TaskNode[] },
): string | undefined {
  const below = step.kind === 'run' && step.child !== null ? decided.get(step.child) : undefined
  if (step.kind !== 'approve' && !(below?.isDecided && isWaitedFor(step, nodes))) return undefined
  if (changed !== undefined) return changed
  if (step.digest === null) return 'It was decided on patched data.'
  const isStarted =
    below?.deciders.includes(by) ?? (decidersOf(step).includes(by) && wantsFourEyes(step, nodes))
  return isStarted ? `\`${by}\` decided it, and also starts this rerun.` : undefined
}

const nodeOf = ({ pointer }: RecordedStep, nodes: readonly TaskNode[]) =>
  nodes.find((node) => namesOf(node.pointer).join('/') === namesOf(pointer).join('/'))

/** True unless the flow was started with `await: false`. */
const isWaitedFor = (step: RecordedStep, nodes: readonly TaskNode[]) =>
  (nodeOf(step, nodes)?.body as RunBody | undefined)?.await !== false

const wantsFourEyes = (step: RecordedStep, nodes: readonly TaskNode[]) =>
  (nodeOf(step, nodes)?.body as ApproveBody | undefined)?.fourEyes !== false

function decidersOf({ result }: AnsweredStep): string[] {
  const { decisions = [] } = (result ?? {}) as { decisions?: readonly { by: string }[] }
  return decisions.map(({ by }) => by)
}

/** True for steps that a `listen` ran for an event; a `listen` is reused as a whole. */
const isOfEvent = (pointer: string) => /\/foreach\/do\/\d/.test(pointer)
const isUndoing = (pointer: string) => UNDOING.test(pointer)
const UNDOING = /\/compensate\/\d/

interface Taken {
  readonly reused: readonly AnsweredStep[]
  readonly answers: RunReuse['answers']
  readonly nodes: readonly TaskNode[]
  readonly doesFromExist: boolean
}

function refusalsOf(record: RerunRecord, { reused, answers, nodes, doesFromExist }: Taken): string[] {
  const { from } = record
  const refusals: (string | false | undefined)[] = [
    (from.path === null || reused.some(({ path }) => path === null)) &&
      'An older release recorded the execution: it can only be rerun from the start.',
    (isOfEvent(from.pointer) || isUndoing(from.pointer)) &&
      `\`${from.name}\` belongs to an event or a compensation: use the enclosing step.`,
    !doesFromExist && `There is no \`${from.name}\` in the version to run.`,
    (record.answered.length > LIMITS.reuse.stepsMax ||
      Buffer.byteLength(JSON.stringify(answers)) > LIMITS.reuse.bytesMax) &&
      `At most ${LIMITS.reuse.stepsMax} results and ${LIMITS.reuse.bytesMax} bytes can be reused.`,
    ...reused.map(
      ({ truncated, name }) =>
        truncated && `The result of \`${name}\` was too large to store, or contained a secret.`,
    ),
    ...reused.map((step) => unknownOf(step, record, nodes)),
    undoneOf(record, reused),
    ...reused.map((step) => forgottenOf(step, nodes)),
  ]
  return refusals.filter((refusal) => typeof refusal === 'string')
}

/** Rejects a sub-flow whose record is deleted, since people may have decided in it. */
function unknownOf(
  step: AnsweredStep,
  { decided }: RerunRecord,
  nodes: readonly TaskNode[],
): string | undefined {
  if (step.kind !== 'run' || step.error !== null || !isWaitedFor(step, nodes)) return undefined
  if (step.child !== null && decided.get(step.child)?.isKnown === true) return undefined
  return `The record of the flow that \`${step.name}\` ran was deleted, and its decisions with it: rerun from there or before.`
}

/** Rejects compensated steps, which cannot be reused. */
function undoneOf({ undoing }: RerunRecord, reused: readonly AnsweredStep[]): string | undefined {
  const undone = undoing.map(({ pointer }) => pointer.slice(0, pointer.search(UNDOING)))
  const first = reused.find(({ pointer }) =>
    undone.some((above) => pointer === above || pointer.startsWith(`${above}/`)),
  )
  return first && `\`${first.name}\` was undone when the execution failed: rerun from there or before.`
}

/** Rejects a `listen` with exports or compensations per event, since only its output is recorded. */
function forgottenOf({ kind, pointer, name }: AnsweredStep, nodes: readonly TaskNode[]): string | undefined {
  const names = namesOf(pointer).join('/')
  const forgotten =
    kind === 'listen' &&
    nodes.some(
      (node) =>
        (node.export !== undefined || node.compensate !== undefined) &&
        namesOf(node.pointer).join('/').startsWith(`${names}/foreach`),
    )
  return forgotten
    ? `The exports of \`${name}\` for each event are not recorded: rerun from there or before.`
    : undefined
}

/**
 * Names that identify a task across versions of the flow.
 * @returns names of lists and tasks in turn: for `/do/1/ship/try/0/send`, `['do', 'ship', 'try', 'send']`
 */
function namesOf(pointer: string): string[] {
  const names: string[] = []
  let isName = false
  for (const part of pointer.split('/').slice(1)) {
    if (isName || !/^\d+$/.test(part)) {
      names.push(part)
      isName = false
    } else isName = true
  }
  return names
}
