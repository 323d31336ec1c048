/** The interface that the machine offers to task types. */

import type { JsonObject, TaskNode } from '../ir.ts'
import type { TaskContext } from '../tasks/task.ts'
import type { Desk } from './machine-context.ts'
import type { TaskFrame } from './state.ts'

export function runningOf(desk: Desk, node: TaskNode, task: TaskFrame): TaskContext {
  const { state, ir, evaluation, surroundings } = desk
  const { input = null } = task
  // Made where it is asked for, and once: an event is shown to many tasks of which few look at it.
  let seen: JsonObject | undefined
  const variables = (more?: JsonObject): JsonObject => {
    seen ??= evaluation.of(task, { input, task: evaluation.about(node, task) })
    return more === undefined ? seen : { ...seen, ...more }
  }
  return {
    get step() {
      return desk.step(task)
    },
    input,
    run: {
      id: state.info.id,
      document: ir.document,
      ...(state.info.started_by !== undefined && { startedBy: state.info.started_by }),
      changedBy: state.changedBy ?? [],
    },
    evaluate: (template, dot, more) => evaluation.filter(template, dot, variables(more)),
    test: (condition, dot, more) => evaluation.test(condition, dot, variables(more)),
    bounded: (value) => evaluation.bounded(value),
    checked: (schema, value, what) => evaluation.checked(schema, value, what),
    isSpent: () => evaluation.isSpent,
    digest: (shown) => {
      if (surroundings.digest === undefined) return {}
      const { id = null, version = null } = state.info.flow ?? {}
      const { context } = desk.frames.memoryOf(task)
      const data = { input, context, variables: desk.frames.variablesOf(task), given: state.input }
      return { digest: surroundings.digest({ shown, ...data, flow: { id, version } }) }
    },
    nowMs: () => surroundings.nowMs(),
    random: () => surroundings.random(),
    retried: () => desk.record(task, { phase: 'retried' }),
    early: (take) => desk.inbox.early(task, take),
  }
}
