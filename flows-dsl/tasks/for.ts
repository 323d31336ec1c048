/** `for`: runs tasks once for each item (OWS 1.0 "For"), in order or several at once; concurrency is an extension of ours. */

import { type Checker, choiceBelow, integerUpTo, SCOPES } from '../checker.ts'
import { ERRORS, FlowError } from '../errors.ts'
import type { Expression } from '../expression/expression.ts'
import type { Json, TaskNode, Template } from '../ir.ts'
import { entryOf, type Located, type LocatedMap } from '../located.ts'
import { type Child, doneAs, type Ended, type Move, type Running, type TaskType } from './task.ts'

const ON_ERROR = ['fail', 'continue'] as const
const CONCURRENCY_MAX = 1_000

interface ForBody {
  /** Names of variables. */
  readonly each: string
  readonly at: string
  readonly in: Template
  readonly while?: Expression
  /** How many iterations run at the same time; without it, each follows the one before. */
  readonly concurrency?: number
  /** An iteration that faults yields its error; without it, it faults the task. */
  readonly onError?: 'continue'
  readonly tasks: readonly TaskNode[]
}

/** Named with an underscore because `for` is a word of JavaScript. */
export const for_: TaskType<ForBody> = {
  kind: 'for',
  keys: ['for', 'while', 'do'],
  compile(task, compiling) {
    const { checker } = compiling
    const given = entryOf(task, 'for')?.value
    const loop = given && checker.map(given, '`for`')
    if (loop === undefined) return undefined
    checker.keys(loop, '`for`', ['each', 'in', 'at', 'concurrency', 'onError'])
    const each = checker.variable(loop, 'each', 'item')
    const at = checker.variable(loop, 'at', 'index')
    if (each === at) {
      const place = entryOf(loop, 'at')?.value ?? entryOf(loop, 'each')?.value ?? loop
      checker.fault('value_invalid', place, `The item and its index are both named $${at}.`)
    }
    const source = checker.required(loop, '`for`', 'in')
    const collection = source && compileIn(source, checker)
    const condition = entryOf(task, 'while')?.value
    const proceed =
      condition && checker.within([each, at], () => checker.condition(condition, '`while`', SCOPES.task))
    const policy = compilePolicy(loop, task, checker)
    const list = checker.required(task, '`for`', 'do')
    const tasks = list && compiling.tasks(list, [each, at])
    if (collection === undefined || policy === undefined || tasks === undefined) return undefined
    return { each, at, in: collection, ...(proceed !== undefined && { while: proceed }), ...policy, tasks }
  },
  lists({ tasks }) {
    return { do: tasks }
  },
  start(body, running) {
    const items = running.evaluate(body.in, running.input)
    if (!Array.isArray(items)) throw new FlowError(ERRORS.expression, '`for.in` must yield an array.')
    if (isConcurrent(body)) return beginIterations(body, items, running)
    return iterate(body, { items, index: 0 }, running.input, running)
  },
  next(body, own, ended, running) {
    if (ended.left === 'end') return doneAs(ended)
    if (isConcurrent(body)) return goOn(body, own, ended, running)
    const { items, index } = own as unknown as Progress
    return iterate(body, { items, index: index + 1 }, ended.output, running)
  },
  failed(body, own, { key, error }, running) {
    if (body.onError === undefined) throw error
    if (isConcurrent(body)) return goOn(body, own, { key, output: failure(error) }, running)
    const { items, index, input } = own as unknown as Progress
    return iterate(body, { items, index: index + 1 }, input, running)
  },
  catches({ onError }) {
    return onError !== undefined
  },
  summary({ each, tasks }) {
    return `for each ${each} ${tasks.map(({ name }) => name).join(', ')}`
  },
}

function isConcurrent(body: ForBody): body is ForBody & Loop {
  return body.concurrency !== undefined
}

/** The iteration that runs, over what, and with which data, which one that faults leaves to the next. */
interface Progress {
  readonly items: Json[]
  readonly index: number
  readonly input: Json
}

function iterate(
  body: ForBody,
  { items, index }: Pick<Progress, 'items' | 'index'>,
  input: Json,
  running: Running,
): Move {
  const variables = { [body.each]: items[index] ?? null, [body.at]: index }
  const isOver = index >= items.length
  if (isOver || (body.while !== undefined && !running.test(body.while, input, variables)))
    return { done: input }
  return { own: { items, index, input }, begin: [{ key: 'item', list: 'do', input, variables }] }
}

/** An expression, or the items themselves, which OWS wants to be mappings. */
function compileIn(source: Located, checker: Checker): Template | undefined {
  if (source.kind !== 'list') {
    return checker.text(source, '`in`') === undefined ? undefined : checker.filter(source, SCOPES.task)
  }
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what the author should write
  const hint = "Write other items as an expression: '${ [1, 2] }'."
  for (const item of source.items) {
    if (item.kind !== 'map') checker.fault('wrong_type', item, 'An item written out must be a mapping.', hint)
  }
  return checker.template(source, SCOPES.task)
}

/** Iterations that run at the same time have no one before them whose output `while` could ask about. */
function compilePolicy(
  loop: LocatedMap,
  task: LocatedMap,
  checker: Checker,
): Pick<ForBody, 'concurrency' | 'onError'> | undefined {
  const onError = choiceBelow(loop, 'onError', ON_ERROR, checker)
  const given = entryOf(loop, 'concurrency')?.value
  const policy = onError === 'continue' ? { onError } : {}
  if (given === undefined) return policy
  const proceed = entryOf(task, 'while')
  if (proceed !== undefined) {
    checker.fault('value_invalid', proceed.at, '`while` does not go with `concurrency`.')
  }
  const concurrency = integerUpTo(given, '`concurrency`', CONCURRENCY_MAX, checker)
  return concurrency === undefined ? undefined : { concurrency, ...policy }
}

export interface Loop {
  /** Names of variables. */
  readonly each: string
  readonly at: string
  readonly concurrency: number
}

/** Plain JSON, and changed in place: it would cost the square of the items to copy it for each. */
interface Iterations {
  readonly items: Json[]
  /** One for each item; null where it has not ended. */
  readonly outputs: Json[]
  /** How many were begun, and how many have ended. */
  begun: number
  ended: number
  /** `$context` of the last of the items, in their order, that has exported one. */
  exported?: { readonly index: number; readonly context: Json }
}

/** Begins as many iterations as may run at once, each with the input of the task. */
export function beginIterations(loop: Loop, items: Json[], running: Running): Move {
  const iterations: Iterations = { items, outputs: items.map(() => null), begun: 0, ended: 0 }
  if (items.length === 0) return { done: [] }
  const count = Math.min(loop.concurrency, items.length)
  const children = Array.from({ length: count }, () => another(loop, iterations, running))
  return { own: iterations as unknown as Json, begin: children }
}

/** Each that ends makes room for another. */
export function goOn(loop: Loop, own: Json, { key, output, context }: Ended, running: Running): Move {
  const iterations = own as unknown as Iterations
  const { items, outputs, exported } = iterations
  const index = Number(key)
  outputs[index] = output
  iterations.ended += 1
  if (context !== undefined && index > (exported?.index ?? -1)) iterations.exported = { index, context }
  if (iterations.begun < items.length) return { own, begin: [another(loop, iterations, running)] }
  if (iterations.ended < items.length) return { own }
  const last = iterations.exported
  return { done: running.bounded(outputs), ...(last !== undefined && { context: last.context }) }
}

/** What stands in the place of an iteration that has faulted, where the others go on. */
export function failure(error: FlowError): Json {
  return { error: error.toObject() }
}

function another({ each, at }: Loop, iterations: Iterations, { input }: Running): Child {
  const index = iterations.begun++
  const variables = { [each]: iterations.items[index] ?? null, [at]: index }
  return { key: String(index), list: 'do', input, variables, apart: true }
}
