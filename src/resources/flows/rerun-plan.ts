/** Plans what a rerun takes over from the record of an execution, what it asks again, and why it cannot be. */

import type { FlowIR, TaskNode } from '../../../flows-dsl/ir.ts'
import { Nodes } from '../../../flows-dsl/machine/nodes.ts'
import type { ApproveBody } from '../../../flows-dsl/tasks/approve.ts'
import type { RunBody } from '../../../flows-dsl/tasks/run.ts'
import { LIMITS } from '../../core/limits.ts'
import type { Reused, RunReuse } from '../../core/run.ts'
import type { AnsweredStep, Decided, RecordedStep } from './recorded.ts'

export interface PlannedStep {
  /** `pointer#iteration` in the execution that is repeated. */
  readonly step: string
  readonly name: string
  readonly kind: string
}

export interface RerunPlan {
  readonly from: PlannedStep | null
  /** Answered from the record. */
  readonly reused: PlannedStep[]
  /** The outside was asked by them, and is asked again. */
  readonly again: PlannedStep[]
  /** Completed before `from`, and not there in the version that is to run. */
  readonly missing: PlannedStep[]
  /** Of `again`: what people had decided, and why their decision does not hold for the new execution. */
  readonly asked_again: (PlannedStep & { readonly reason: string })[]
  /** Why it cannot be run so. */
  readonly refusals: string[]
}

/** What is to run. */
export interface Next {
  readonly ir: FlowIR
  /** The subject that starts it. */
  readonly by: string
  /** Why no decision holds, if none does: it is on another input, or of another version. */
  readonly changed: string | undefined
}

/** What is known of the execution that is repeated. */
export interface Record {
  readonly from: RecordedStep
  /** That the outside had answered before `from` began; one more than may be taken over tells of more. */
  readonly answered: readonly AnsweredStep[]
  readonly asking: readonly RecordedStep[]
  readonly undoing: readonly { readonly pointer: string }[]
  /** What people have decided in the flows that it ran, by the ids of their executions. */
  readonly decided: ReadonlyMap<string, Decided>
}

export function planRerun(record: Record, next: Next): { plan: RerunPlan; reuse: RunReuse | undefined } {
  const nodes = new Nodes(next.ir).all()
  const kinds = new Map(nodes.map(({ pointer, kind }) => [namesOf(pointer).join('/'), kind]))
  const isThere = ({ pointer, kind }: RecordedStep) => kinds.get(namesOf(pointer).join('/')) === kind
  const before = record.answered.filter(({ pointer }) => !isOfEvent(pointer) && !isUndoing(pointer))
  const there = latest(before.filter(isThere))
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
    missing: before.filter((step) => !isThere(step)).map(planned),
    asked_again: asked.map(({ step, reason }) => ({ ...planned(step), reason })),
  }
  const answers = Object.fromEntries(reused.map((step) => [step.place ?? '', reusedOf(step, record)]))
  const isFromThere = kinds.has(namesOf(from.pointer).join('/'))
  const refusals = refusalsOf(record, { reused, answers, nodes, isFromThere })
  return {
    plan: { ...plan, refusals },
    reuse: from.place === null ? undefined : { from: from.place, answers },
  }
}

export function planned({ pointer, iteration, name, kind }: RecordedStep): PlannedStep {
  return { step: `${pointer}#${iteration}`, name, kind }
}

/** An approval that was asked for again is there more than once: the last counts. */
function latest(steps: readonly AnsweredStep[]): AnsweredStep[] {
  const last = new Map(steps.map((step) => [step.place, step]))
  return steps.filter((step) => step.place === null || last.get(step.place) === step)
}

/** What `emit` and `wait` yield is computed, not answered. */
function reusedOf(step: AnsweredStep, { decided }: Record): Reused {
  const { kind, answer, error, digest, child } = step
  const people = kind === 'approve' || (child !== null && decided.get(child)?.isDecided === true)
  const bound = { ...(people && digest !== null && { digest }), ...(child !== null && { child }) }
  if (error !== null) return { error, ...bound }
  return { output: kind === 'emit' || kind === 'wait' ? null : answer, ...bound }
}

/** Why people are asked again for what they have decided, if they are. */
function reasonToAsk(
  step: AnsweredStep,
  { decided }: Record,
  { by, changed, nodes }: Next & { nodes: readonly TaskNode[] },
): string | undefined {
  const below = step.kind === 'run' && step.child !== null ? decided.get(step.child) : undefined
  if (step.kind !== 'approve' && !(below?.isDecided && isWaitedFor(step, nodes))) return undefined
  if (changed !== undefined) return changed
  if (step.digest === null) return 'It was decided on data that were changed by hand.'
  const isStarted =
    below?.deciders.includes(by) ?? (decidersOf(step).includes(by) && wantsFourEyes(step, nodes))
  return isStarted ? `\`${by}\` has decided it, and starts the execution now.` : undefined
}

const nodeOf = ({ pointer }: RecordedStep, nodes: readonly TaskNode[]) =>
  nodes.find((node) => namesOf(node.pointer).join('/') === namesOf(pointer).join('/'))

/** Only what it waited for can have led it on. */
const isWaitedFor = (step: RecordedStep, nodes: readonly TaskNode[]) =>
  (nodeOf(step, nodes)?.body as RunBody | undefined)?.await !== false

const wantsFourEyes = (step: RecordedStep, nodes: readonly TaskNode[]) =>
  (nodeOf(step, nodes)?.body as ApproveBody | undefined)?.fourEyes !== false

function decidersOf({ answer }: AnsweredStep): string[] {
  const { decisions = [] } = (answer ?? {}) as { decisions?: readonly { by: string }[] }
  return decisions.map(({ by }) => by)
}

/** What a `listen` has done for an event belongs to that event, and no other: it is taken over as a whole. */
const isOfEvent = (pointer: string) => /\/foreach\/do\/\d/.test(pointer)
const isUndoing = (pointer: string) => UNDOING.test(pointer)
const UNDOING = /\/compensate\/\d/

interface Taken {
  readonly reused: readonly AnsweredStep[]
  readonly answers: RunReuse['answers']
  readonly nodes: readonly TaskNode[]
  readonly isFromThere: boolean
}

function refusalsOf(record: Record, { reused, answers, nodes, isFromThere }: Taken): string[] {
  const { from } = record
  const refusals: (string | false | undefined)[] = [
    (from.place === null || reused.some(({ place }) => place === null)) &&
      'An older release has recorded the execution: it can be rerun from the start.',
    (isOfEvent(from.pointer) || isUndoing(from.pointer)) &&
      `\`${from.name}\` belongs to an event, or undoes a step: name the step around it.`,
    !isFromThere && `There is no \`${from.name}\` in the version that is to run.`,
    (record.answered.length > LIMITS.reuse.stepsMax ||
      Buffer.byteLength(JSON.stringify(answers)) > LIMITS.reuse.bytesMax) &&
      `At most ${LIMITS.reuse.stepsMax} answers and ${LIMITS.reuse.bytesMax} bytes are taken over.`,
    ...reused.map(
      ({ cut, name }) => cut && `The answer of \`${name}\` was too large to be kept, or showed a secret.`,
    ),
    ...reused.map((step) => unknownOf(step, record, nodes)),
    undoneOf(record, reused),
    ...reused.map((step) => forgottenOf(step, nodes)),
  ]
  return refusals.filter((refusal) => typeof refusal === 'string')
}

/** People may have decided in a flow whose record is gone. */
function unknownOf(step: AnsweredStep, { decided }: Record, nodes: readonly TaskNode[]): string | undefined {
  if (step.kind !== 'run' || step.error !== null || !isWaitedFor(step, nodes)) return undefined
  if (step.child !== null && decided.get(step.child)?.isKnown === true) return undefined
  return `The record of the flow that \`${step.name}\` ran is gone, and with it who decided there: rerun it from there or before.`
}

/** What was undone is not there any more, whatever the record says of it. */
function undoneOf({ undoing }: Record, reused: readonly AnsweredStep[]): string | undefined {
  const undone = undoing.map(({ pointer }) => pointer.slice(0, pointer.search(UNDOING)))
  const first = reused.find(({ pointer }) =>
    undone.some((place) => pointer === place || pointer.startsWith(`${place}/`)),
  )
  return (
    first && `\`${first.name}\` was undone when the execution came to nothing: rerun it from there or before.`
  )
}

/** Of a `listen` only the output is kept: not what it has exported for each event, nor what would undo that. */
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
    ? `What \`${name}\` exported for each event is not kept: rerun it from there or before.`
    : undefined
}

/** What is the same task in another version of the flow. @returns names of lists and tasks in turn: `/do/1/ship/try/0/send` is `['do', 'ship', 'try', 'send']` */
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
