/** Knows what a rerun takes over from the record of an execution, what it asks again, and why it cannot be. */

import type { FlowIR, TaskNode } from '../../../flows-dsl/ir.ts'
import { Nodes } from '../../../flows-dsl/machine/nodes.ts'
import { LIMITS } from '../../core/limits.ts'
import type { Reused, RunReuse } from '../../core/run.ts'
import { namesOf } from './pointers.ts'
import type { AnsweredStep, RecordedStep } from './recorded.ts'

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
  /** Why it cannot be run so. */
  readonly refusals: string[]
}

/** What is known of the execution that is repeated. */
export interface Record {
  readonly from: RecordedStep
  /** That the outside had answered before `from` began; one more than may be taken over tells of more. */
  readonly answered: readonly AnsweredStep[]
  readonly asking: readonly RecordedStep[]
  readonly undoing: readonly { readonly pointer: string }[]
}

/** @param ir of the version that is to run */
export function planRerun(record: Record, ir: FlowIR): { plan: RerunPlan; reuse: RunReuse | undefined } {
  const nodes = new Nodes(ir).all()
  const kinds = new Map(nodes.map(({ pointer, kind }) => [namesOf(pointer).join('/'), kind]))
  const isThere = ({ pointer, kind }: RecordedStep) => kinds.get(namesOf(pointer).join('/')) === kind
  const before = record.answered.filter(({ pointer }) => !isOfEvent(pointer) && !isUndoing(pointer))
  const reused = before.filter(isThere)
  const seqs = new Set(before.map(({ seq }) => seq))
  const { from } = record
  const plan = {
    from: planned(from),
    reused: reused.map(planned),
    again: record.asking.filter(({ seq, pointer }) => !seqs.has(seq) && !isUndoing(pointer)).map(planned),
    missing: before.filter((step) => !isThere(step)).map(planned),
  }
  const answers = Object.fromEntries(reused.map((step) => [step.place ?? '', reusedOf(step)]))
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

/** What `emit` and `wait` yield is computed, not answered. */
function reusedOf({ kind, answer, error }: AnsweredStep): Reused {
  if (error !== null) return { error }
  return { output: kind === 'emit' || kind === 'wait' ? null : answer }
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
    undoneOf(record, reused),
    ...reused.map((step) => forgottenOf(step, nodes)),
  ]
  return refusals.filter((refusal) => typeof refusal === 'string')
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
