/** Follows calls that were cancelled after they may have been sent, until their outcome is known, and what they have done is compensated. */

import { FlowError, OUTCOME_UNKNOWN } from '../errors.ts'
import type { Json } from '../json.ts'
import { toStorable } from '../storable.ts'
import { SAFE_METHODS } from '../tasks/call-http.ts'
import { type RunBody, runOutput } from '../tasks/run.ts'
import type { StepEvent } from '../tasks/task.ts'
import type { Evaluation } from './evaluation.ts'
import type { Frames } from './frames.ts'
import type {
  CompletedTask,
  Effect,
  EffectFrame,
  EffectOutcome,
  FlowState,
  Frame,
  TaskFrame,
  UnsettledCall,
} from './state.ts'
import type { TaskIndex } from './task-index.ts'

/** The parts of the machine that the functions here use. */
interface CallContext {
  readonly state: FlowState
  readonly frames: Frames
  readonly nodes: TaskIndex
  readonly evaluation: Evaluation
  recordAt(call: UnsettledCall, what: Omit<StepEvent, 'step' | 'at_ms'>): void
}

/** Calls with an `Idempotency-Key`, which is the same for each attempt of a `try`. */
const KEYED: readonly string[] = ['http', 'openapi']

/** True if work outside may change something. A sub-flow compensates its own tasks, but may complete before it is cancelled. */
function mayHaveEffect(effect: Effect): boolean {
  if (effect.do === 'await') return effect.what === 'workflow'
  if (effect.do !== 'call') return false
  return effect.function !== 'http' || !SAFE_METHODS.has(effect.arguments['method'])
}

/**
 * Keeps what is needed to follow the calls below a frame that will be closed, and remembers the answered ones that can be
 * compensated.
 * @param owner its step is recorded as faulted or held; the other steps below the frame stay open in the record
 */
export function keepCallsBelow(machine: CallContext, frame: Frame, owner?: TaskFrame): void {
  for (const below of machine.frames.below(frame)) {
    if (below.is === 'task') rememberAnswered(machine, below)
    else if (below.is === 'effect') keepCall(machine, below, owner)
  }
}

function keepCall(machine: CallContext, frame: EffectFrame, owner: TaskFrame | undefined): void {
  const { frames, state } = machine
  const task = frames.enclosingTask(frame)
  if (task === undefined || !mayHaveEffect(frame.effect)) return
  const { input = null, startedMs, pointer, iteration } = task
  state.unsettled ??= {}
  state.unsettled[frame.id] = {
    pointer,
    iteration,
    ...frames.locate(task),
    input,
    startedMs,
    variables: frames.variablesOf(task),
    context: frames.branchContextOf(task).context,
    isKeyed: isKeyed(frame.effect),
    ...(task.id !== owner?.id && { isOpen: true }),
    ...(!isEnding(state) && { isUndoable: true }),
  }
}

const isKeyed = (effect: Effect): boolean => effect.do === 'call' && KEYED.includes(effect.function)

/** True if the execution compensates its tasks, or runs those at its end. */
export const isEnding = ({ compensation, ending }: FlowState): boolean =>
  (compensation ?? ending) !== undefined

/** Tests if a call of the task itself is under way and may change something. */
export function hasOpenCall({ frames }: CallContext, { children }: TaskFrame): boolean {
  return children.some((id) => {
    const child = frames.get(id)
    return child?.is === 'effect' && child.effect.do === 'call' && mayHaveEffect(child.effect)
  })
}

export function hasUnsettled({ unsettled = {} }: FlowState): boolean {
  return Object.keys(unsettled).length > 0
}

/** Codes of errors of a call that may have had its effect: no answer came, or one that is of no use. */
const EFFECT_POSSIBLE: readonly unknown[] = [OUTCOME_UNKNOWN, 'upstream_invalid', 'output_too_large']

/** Remembers that a call of a task that can be compensated has had its effect, or may have had it. */
export function keepAnswer(machine: CallContext, frame: EffectFrame, outcome: EffectOutcome): void {
  const task = machine.frames.get(frame.parent)
  if (task?.is !== 'task' || machine.nodes.at(task.pointer).compensate === undefined) return
  if (frame.effect.do !== 'call' || !mayHaveEffect(frame.effect)) return
  if ('output' in outcome) task.called = { output: outcome.output, isKeyed: isKeyed(frame.effect) }
  else if (EFFECT_POSSIBLE.includes(outcome.error.code)) task.called = { isKeyed: isKeyed(frame.effect) }
  else delete task.called
}

/** Its call has been answered, or may have had its effect, and the task does not complete. */
function rememberAnswered(machine: CallContext, task: TaskFrame): void {
  const { called, pointer, iteration, input = null } = task
  if (called === undefined) return
  delete task.called
  const { frames, state } = machine
  const { callPath } = frames.locate(task)
  const scope = { variables: frames.variablesOf(task), context: frames.branchContextOf(task).context }
  const at = { pointer, iteration, ...scope, ...(called.isKeyed && { callPath }) }
  const output = called.output
  if (!isEnding(state)) remember(state, { ...at, data: dataOf(input, output) })
}

/** The data of a compensation whose task has not completed. */
function dataOf(input: Json, output: Json | undefined): CompletedTask['data'] {
  return output === undefined
    ? { input, output: null, outcome_unknown: true }
    : { input, output: toStorable(output) }
}

/** Remembers a task to compensate. Attempts of one call with an `Idempotency-Key` have one effect: the last one stands for all. */
export function remember(state: FlowState, undo: CompletedTask): void {
  const { callPath } = undo
  const earlier = state.completed.findIndex((one) => callPath !== undefined && one.callPath === callPath)
  if (earlier >= 0) state.completed.splice(earlier, 1)
  state.completed.push(undo)
}

/**
 * Records the outcome of a call that was cancelled, and remembers its effect.
 * @param outcome undefined if the call was not sent
 */
export function settleCall(machine: CallContext, id: number, outcome: EffectOutcome | undefined): void {
  const { state } = machine
  const call = state.unsettled?.[id]
  if (call === undefined) return
  delete state.unsettled?.[id]
  if (outcome === undefined) return
  if ('error' in outcome) settleError(machine, call, outcome.error.at(call.pointer))
  else settleOutput(machine, call, outcome.output)
}

function settleOutput(machine: CallContext, call: UnsettledCall, answer: Json): void {
  const { evaluation, nodes } = machine
  const node = nodes.at(call.pointer)
  try {
    const done = node.kind === 'run' ? runOutput(node.body as RunBody, answer) : answer
    const variables = evaluation.variablesOfSettled(node, call)
    const output = evaluation.checkStorable(evaluation.filter(node.output?.as, done, variables), 'The output')
    if (call.isOpen) machine.recordAt(call, { phase: 'completed', output, answer })
    undo(machine, call, { input: call.input, output })
  } catch (error) {
    if (!(error instanceof FlowError)) throw error
    if (call.isOpen) machine.recordAt(call, { phase: 'cancelled', error: error.at(call.pointer).toObject() })
    undo(machine, call, dataOf(call.input, answer))
  }
}

function settleError(machine: CallContext, call: UnsettledCall, error: FlowError): void {
  if (call.isOpen) machine.recordAt(call, { phase: 'cancelled', error: error.toObject() })
  if (EFFECT_POSSIBLE.includes(error.code)) undo(machine, call, dataOf(call.input, undefined))
}

function undo(machine: CallContext, call: UnsettledCall, data: CompletedTask['data']): void {
  const { pointer, iteration, variables, context, callPath, isKeyed: hasKey } = call
  if (machine.nodes.at(pointer).compensate === undefined || call.isUndoable !== true) return
  remember(machine.state, { pointer, iteration, variables, context, data, ...(hasKey && { callPath }) })
}
