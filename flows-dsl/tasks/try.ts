/** `try`: runs tasks, and knows what to do about their errors (OWS 1.0 "Try", "Catch"). */

import type { Checker } from '../checker.ts'
import { FinalError, FlowError, standardError } from '../errors.ts'
import type { Expression } from '../expression/expression.ts'
import type { Json, JsonObject, TaskNode } from '../ir.ts'
import { fieldOf } from '../json.ts'
import { entryOf, type Located, type LocatedMap } from '../located.ts'
import { type Compiling, type Ending, type Outcome, outcomeOf, type Running, type TaskType } from './task.ts'
import {
  type Conditions,
  compileConditions,
  compileRetry,
  delayBefore,
  type Retry,
  retryText,
} from './try-retry.ts'

interface Catch extends Conditions {
  /** What the error must have, field by field. */
  readonly errors: JsonObject
  /** Name of the variable that has the error. */
  readonly as: string
  readonly retry?: Retry
  readonly tasks?: readonly TaskNode[]
  readonly next?: string
}

interface TryBody {
  readonly tasks: readonly TaskNode[]
  readonly catch: Catch
}

const KEYS = ['errors', 'as', 'when', 'exceptWhen', 'retry', 'do', 'then']
const FIELDS = ['type', 'status', 'title', 'detail', 'instance']

/** Named with an underscore because `try` is a word of JavaScript. */
export const try_: TaskType<TryBody> = {
  kind: 'try',
  keys: ['try', 'catch'],
  compile(task, compiling) {
    const { checker } = compiling
    const list = entryOf(task, 'try')?.value
    const tasks = list && compiling.tasks(list)
    const given = checker.required(task, '`try`', 'catch')
    const map = given && checker.map(given, '`catch`')
    const handler = map && compileCatch(map, compiling)
    return tasks && handler && { tasks, catch: handler }
  },
  async run(body, input, running) {
    const { retry, errors, as } = body.catch
    const startedMs = running.nowMs()
    for (let number = 1; ; number++) {
      try {
        return outcomeOf(await attempt(body, input, running))
      } catch (thrown) {
        if (!(thrown instanceof FlowError) || thrown instanceof FinalError) throw thrown
        const variables = { [as]: thrown.toObject() }
        const test = (condition: Expression) => running.test(condition, input, variables)
        if (!isLike(thrown, errors) || !hold(body.catch, test)) throw thrown
        const retried = retry !== undefined && hold(retry, test) ? retry : undefined
        const spentMs = running.nowMs() - startedMs
        const delayMs = retried && delayBefore(retried, { number, spentMs, random: running.random })
        if (retried === undefined || delayMs === undefined) {
          if (retry !== undefined && body.catch.tasks === undefined) throw thrown
          return handle(body.catch, input, running, variables)
        }
        if (delayMs > 0) await running.sleep(delayMs, retryText(retried, number, delayMs))
      }
    }
  },
  summary({ tasks, catch: { retry, tasks: then } }) {
    const names = (nodes: readonly TaskNode[]) => nodes.map(({ name }) => name).join(', ')
    const often = retry === undefined ? '' : `, retry${retry.count === undefined ? '' : ` ${retry.count}×`}`
    return `try ${names(tasks)}${often}${then === undefined ? '' : `, catch ${names(then)}`}`
  },
}

function compileCatch(map: LocatedMap, { checker, tasks, target }: Compiling): Catch {
  checker.keys(map, '`catch`', KEYS)
  const errors = compileErrors(map, checker)
  const as = checker.variable(map, 'as', 'error')
  const conditions = checker.within([as], () => compileConditions(map, checker))
  const policy = entryOf(map, 'retry')?.value
  const retry = policy && compileRetry(policy, [as], checker)
  const list = entryOf(map, 'do')?.value
  const handling = list && tasks(list, [as])
  const directive = entryOf(map, 'then')?.value
  const next = directive && target(directive)
  return {
    errors,
    as,
    ...conditions,
    ...(retry !== undefined && { retry }),
    ...(handling !== undefined && { tasks: handling }),
    ...(next !== undefined && { next }),
  }
}

/** The filter is data: OWS has `when` for what depends on the run. */
function compileErrors(map: LocatedMap, checker: Checker): JsonObject {
  const given = entryOf(map, 'errors')?.value
  const errors = given && checker.map(given, '`errors`')
  if (errors === undefined) return {}
  checker.keys(errors, '`errors`', ['with'])
  const value = entryOf(errors, 'with')?.value
  const filter = value && checker.map(value, '`with`')
  if (filter === undefined) return {}
  checker.keys(filter, '`with`', FIELDS)
  if (filter.entries.length === 0) {
    checker.fault('value_invalid', filter, '`with` must name a field of the error, at least one.')
  }
  const wanted: JsonObject = {}
  for (const { key, value } of filter.entries) {
    if (!FIELDS.includes(key)) continue
    const field = key === 'status' ? checker.integer(value, '`status`') : compileText(value, key, checker)
    if (field !== undefined) wanted[key] = field
  }
  return wanted
}

function compileText(value: Located, key: string, checker: Checker): string | undefined {
  const text = checker.text(value, `\`${key}\``)
  if (!text?.includes('${')) return text
  const hint = 'Write the expression as `when`, below `catch`.'
  return checker.fault('value_invalid', value, `\`${key}\` is compared as it stands.`, hint)
}

function attempt({ tasks, catch: { retry } }: TryBody, input: Json, running: Running): Promise<Ending> {
  return retry?.attemptMs === undefined
    ? running.tasks(tasks, input)
    : running.tasksWithin(retry.attemptMs, tasks, input)
}

/** A standard type is the same by all of its URIs. */
function isLike(error: FlowError, wanted: JsonObject): boolean {
  const found = error.toObject()
  return Object.entries(wanted).every(([field, value]) => {
    if (value === fieldOf(found, field)) return true
    const standard = field === 'type' ? standardError(String(value)) : undefined
    return standard !== undefined && standard === standardError(found.type)
  })
}

function hold({ when, exceptWhen }: Conditions, test: (condition: Expression) => boolean): boolean {
  return (when === undefined || test(when)) && (exceptWhen === undefined || !test(exceptWhen))
}

async function handle(
  { tasks, next }: Catch,
  input: Json,
  running: Running,
  variables: JsonObject,
): Promise<Outcome> {
  const ending = tasks && (await running.tasks(tasks, input, variables))
  if (ending?.ended) return outcomeOf(ending)
  const output = ending === undefined ? input : ending.output
  return next === undefined ? { output } : { output, next }
}
