/** `for`: runs tasks once for each item (OWS 1.0 "For"), in order or several at once; concurrency is an extension of ours. */

import { type CompileContext, SCOPES } from '../compile/compile-context.ts'
import { entryOf, type MapNode, type SourceNode, valueAt } from '../compile/source-nodes.ts'
import { ERRORS, FlowError } from '../errors.ts'
import type { Json, TaskNode, Template } from '../ir.ts'
import type { Expression } from '../jq/expression.ts'
import {
  type Child,
  type ChildResult,
  namesOf,
  resultOf,
  type TaskContext,
  type TaskType,
  type Transition,
} from './task.ts'

export const ON_ERROR = ['fail', 'continue'] as const
export const ITERATIONS_MAX = 1_000

interface ForBody {
  /** Names of variables. */
  readonly each: string
  readonly at: string
  readonly in: Template
  readonly while?: Expression
  /** The number of iterations that run at the same time; by default one. */
  readonly concurrency?: number
  /** An iteration that faults yields its error; by default it faults the task. */
  readonly onError?: 'continue'
  readonly tasks: readonly TaskNode[]
}

export const for_: TaskType<ForBody> = {
  kind: 'for',
  keys: ['for', 'while', 'do'],
  compile(task, compiler) {
    const { context } = compiler
    const loop = context.optionalMap(task, 'for', ['each', 'in', 'at', 'concurrency', 'onError'])
    if (loop === undefined) return undefined
    const [each, at] = context.itemVariables(loop, 'each', 'item')
    const source = context.required(loop, '`for`', 'in')
    const items = source && compileIn(source, context)
    const condition = context.withVariables([each, at], () =>
      context.optionalCondition(task, 'while', SCOPES.task),
    )
    const policy = compilePolicy(loop, task, context)
    const list = context.required(task, '`for`', 'do')
    const tasks = list && compiler.tasks(list, [each, at])
    if (items === undefined || policy === undefined || tasks === undefined) return undefined
    return { each, at, in: items, ...(condition !== undefined && { while: condition }), ...policy, tasks }
  },
  lists({ tasks }) {
    return { do: tasks }
  },
  start(body, task) {
    const items = task.evaluate(body.in, task.input)
    if (!Array.isArray(items)) throw new FlowError(ERRORS.expression, '`for.in` must yield an array.')
    if (isConcurrent(body)) return startIterations(body, items, task)
    return iterate(body, { items, index: 0 }, task.input, task)
  },
  onChildEnd(body, taskState, ended, task) {
    if (ended.left === 'end') return resultOf(ended)
    if (isConcurrent(body)) return completeIteration(body, taskState, ended, task)
    const { items, index } = taskState as unknown as Progress
    return iterate(body, { items, index: index + 1 }, ended.output, task)
  },
  onChildError(body, taskState, { key, error }, task) {
    if (body.onError === undefined) throw error
    const output = { error: error.toObject() }
    if (isConcurrent(body)) return completeIteration(body, taskState, { key, output }, task)
    const { items, index, input } = taskState as unknown as Progress
    return iterate(body, { items, index: index + 1 }, input, task)
  },
  catches({ onError }) {
    return onError !== undefined
  },
  summary({ each, tasks }) {
    return `for each ${each} ${namesOf(tasks)}`
  },
}

/** The current iteration of a sequential loop. `input` is its data, which the next one gets if it faults. */
interface Progress {
  readonly items: Json[]
  readonly index: number
  readonly input: Json
}

function iterate(
  body: ForBody,
  { items, index }: Pick<Progress, 'items' | 'index'>,
  input: Json,
  task: TaskContext,
): Transition {
  const variables = { [body.each]: items[index] ?? null, [body.at]: index }
  const isOver = index >= items.length
  if (isOver || (body.while !== undefined && !task.test(body.while, input, variables))) return { done: input }
  return { taskState: { items, index, input }, start: [{ key: 'item', list: 'do', input, variables }] }
}

/** An expression, or the items themselves, which must be mappings (OWS). */
function compileIn(source: SourceNode, context: CompileContext): Template | undefined {
  if (source.kind !== 'list') {
    const items = context.text(source, '`in`') === undefined ? undefined : context.filter(source, SCOPES.task)
    context.yields(source, '`in`', items, ['array'])
    return items
  }
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what the author should write
  const hint = "Write other items as an expression: '${ [1, 2] }'."
  for (const item of source.items) {
    if (item.kind !== 'map') context.report('wrong_type', item, 'A literal item must be a mapping.', hint)
  }
  return context.template(source, SCOPES.task)
}

/** Concurrent iterations have no predecessor whose output `while` could test. */
function compilePolicy(
  loop: MapNode,
  task: MapNode,
  context: CompileContext,
): Pick<ForBody, 'concurrency' | 'onError'> | undefined {
  const onError = context.choice(loop, 'onError', ON_ERROR)
  const node = valueAt(loop, 'concurrency')
  const policy = onError === 'continue' ? { onError } : {}
  if (node === undefined) return policy
  const condition = entryOf(task, 'while')
  if (condition !== undefined) {
    context.report('value_invalid', condition.at, '`while` cannot be combined with `concurrency`.')
  }
  const concurrency = context.integer(node, '`concurrency`', 1, ITERATIONS_MAX)
  return concurrency === undefined ? undefined : { concurrency, ...policy }
}

type ConcurrentBody = ForBody & { readonly concurrency: number }

function isConcurrent(body: ForBody): body is ConcurrentBody {
  return body.concurrency !== undefined
}

/** State of a concurrent loop. Plain JSON, changed in place: copying it per item would cost the square of the items. */
interface Iterations {
  readonly items: Json[]
  /** One per item; null until it ends. */
  readonly outputs: Json[]
  /** Counts of the iterations that have started and ended. */
  begun: number
  ended: number
  /** `$context` of the last item, in item order, that has exported one. */
  exported?: { readonly index: number; readonly context: Json }
}

function startIterations(body: ConcurrentBody, items: Json[], task: TaskContext): Transition {
  const iterations: Iterations = { items, outputs: items.map(() => null), begun: 0, ended: 0 }
  if (items.length === 0) return { done: [] }
  const count = Math.min(body.concurrency, items.length)
  const children = Array.from({ length: count }, () => nextIteration(body, iterations, task))
  return { taskState: iterations as unknown as Json, start: children }
}

/** Stores the output of an iteration and starts another. */
function completeIteration(
  body: ConcurrentBody,
  taskState: Json,
  { key, output, context }: ChildResult,
  task: TaskContext,
): Transition {
  const iterations = taskState as unknown as Iterations
  const { items, outputs, exported } = iterations
  const index = Number(key)
  outputs[index] = output
  iterations.ended += 1
  if (context !== undefined && index > (exported?.index ?? -1)) iterations.exported = { index, context }
  if (iterations.begun < items.length) return { taskState, start: [nextIteration(body, iterations, task)] }
  if (iterations.ended < items.length) return { taskState }
  const last = iterations.exported
  return { done: task.checkSize(outputs), ...(last !== undefined && { context: last.context }) }
}

function nextIteration({ each, at }: ForBody, iterations: Iterations, { input }: TaskContext): Child {
  const index = iterations.begun++
  const variables = { [each]: iterations.items[index] ?? null, [at]: index }
  return { key: String(index), list: 'do', input, variables, isolated: true }
}
