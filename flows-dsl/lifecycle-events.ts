/** Builds the lifecycle events of an execution (OWS 1.0 "Lifecycle Events"): their names and data. */

import type { ExecutionInfo, FlowDocument, JsonObject } from './ir.ts'
import type { FlowResult } from './machine/state.ts'
import type { StepEvent } from './tasks/task.ts'

/** A CloudEvent without id and source, which the sender adds. */
export interface LifecycleEvent {
  readonly type: string
  /** RFC 3339. */
  readonly time: string
  readonly data: JsonObject
}

type Run = { readonly document: FlowDocument; readonly info: Pick<ExecutionInfo, 'id'> }

const PREFIX = 'io.serverlessworkflow'

/** The verb and time field by phase of a step. A skipped step has no lifecycle, so it has no event. */
const OF_TASK = {
  started: ['started', 'startedAt'],
  retried: ['retried', 'retriedAt'],
  held: ['suspended', 'suspendedAt'],
  completed: ['completed', 'completedAt'],
  faulted: ['faulted', 'faultedAt'],
  cancelled: ['cancelled', 'cancelledAt'],
} as const

const OF_FLOW = {
  completed: 'completedAt',
  faulted: 'faultedAt',
  cancelled: 'cancelledAt',
} as const

/** The event type of a verb such as `started`. */
export const lifecycleType = (of: 'workflow' | 'task', verb: string): string => `${PREFIX}.${of}.${verb}.v1`

export function flowStarted(run: Run, atMs: number): LifecycleEvent {
  const { namespace, name, version } = run.document
  return flowEvent(run, 'started', atMs, 'startedAt', { definition: { namespace, name, version } })
}

export function flowEnded(run: Run, atMs: number, result: FlowResult): LifecycleEvent {
  const { status } = result
  const output = status === 'completed' && { output: result.output }
  const error = status === 'faulted' && { error: result.error }
  return flowEvent(run, status, atMs, OF_FLOW[status], { ...output, ...error })
}

/** The event of a change of a step; undefined if the step is skipped. */
export function taskEvent(
  run: Run,
  { step, phase, at_ms, output, error }: StepEvent,
): LifecycleEvent | undefined {
  if (phase === 'skipped') return undefined
  const [verb, key] = OF_TASK[phase]
  const time = new Date(at_ms).toISOString()
  const data = {
    workflow: qualifiedName(run),
    task: step.pointer,
    [key]: time,
    ...(phase === 'completed' && output !== undefined && { output }),
    ...(error !== undefined && { error }),
  }
  return { type: lifecycleType('task', verb), time, data }
}

function flowEvent(run: Run, verb: string, atMs: number, key: string, more: JsonObject): LifecycleEvent {
  const time = new Date(atMs).toISOString()
  return {
    type: lifecycleType('workflow', verb),
    time,
    data: { name: qualifiedName(run), [key]: time, ...more },
  }
}

/** The qualified name of an execution (OWS 1.0 "Qualified name"). */
function qualifiedName({ document: { namespace, name }, info: { id } }: Run): string {
  return `${name}-${id}.${namespace}`
}
