/** `try`: runs tasks, catches their errors and retries (OWS 1.0 "Try", "Catch", "Retry"). */

import { type CompileContext, SCOPES } from '../compile/compile-context.ts'
import {
  DURATION_MS_MAX,
  durationOf,
  durationText,
  dynamicDuration,
  optionalDynamicDuration,
} from '../compile/duration.ts'
import { type MapEntry, type MapNode, type SourceNode, valueAt } from '../compile/source-nodes.ts'
import { ERRORS, FlowError, standardError } from '../errors.ts'
import type { Duration, Json, JsonObject, TaskNode, Template } from '../ir.ts'
import type { Expression } from '../jq/expression.ts'
import { fieldOf, omitUndefined } from '../json.ts'
import { errorType } from './raise.ts'
import {
  namesOf,
  resultOf,
  type TaskCompiler,
  type TaskContext,
  type TaskType,
  type Transition,
} from './task.ts'

/** A condition that must hold, and one that must not. */
interface Conditions {
  readonly when?: Expression
  readonly exceptWhen?: Expression
}

interface Retry extends Conditions {
  readonly delayMs: Duration
  readonly backoff: (typeof BACKOFFS)[number]
  /** The maximum of retries, after the first attempt. */
  readonly count?: number
  /** From the start of the first attempt to the start of the last. */
  readonly limitMs?: Duration
  /** Timeout of each attempt, the first included. */
  readonly attemptMs?: Duration
  /** A random time in this range is added to the delay. */
  readonly jitter?: { readonly fromMs: Duration; readonly toMs: Duration }
}

/** The durations of a policy for one retry, in milliseconds. */
interface RetryTimes extends Pick<Retry, 'backoff'> {
  readonly delayMs: number
  readonly limitMs?: number
  readonly jitter?: { readonly fromMs: number; readonly toMs: number }
}

interface Catch extends Conditions {
  /** The fields that the error must have. */
  readonly errors: JsonObject
  /** Name of the variable that has the error. */
  readonly as: string
  readonly retry?: Retry
  readonly tasks?: readonly TaskNode[]
  readonly next?: string
}

export interface TryBody {
  readonly tasks: readonly TaskNode[]
  readonly catch: Catch
}

const KEYS = ['errors', 'as', 'when', 'exceptWhen', 'retry', 'do', 'then']
const FIELDS = ['type', 'status', 'title', 'detail', 'instance']
const BACKOFFS = ['constant', 'linear', 'exponential'] as const

export const try_: TaskType<TryBody> = {
  kind: 'try',
  keys: ['try', 'catch'],
  compile(task, compiler) {
    const { context } = compiler
    const list = valueAt(task, 'try')
    const tasks = list && compiler.tasks(list)
    const caught = valueAt(task, 'catch')
    if (caught?.kind === 'list') {
      const hint = 'Write `catch: { do: [ … ] }`.'
      return context.report('wrong_type', caught, '`catch` must be a mapping; it is a list.', hint)
    }
    const map = context.requiredMap(task, '`try`', 'catch', KEYS)
    const handler = map && compileCatch(map, compiler)
    return tasks && handler && { tasks, catch: handler }
  },
  lists({ tasks, catch: handler }) {
    return { try: tasks, ...(handler.tasks !== undefined && { catch: handler.tasks }) }
  },
  // With retries alone, an error either passes in the end or faults the task: it is never handled here.
  outcomes({ catch: { retry, tasks } }) {
    return retry !== undefined && tasks === undefined ? ['passed'] : ['passed', 'caught']
  },
  start(body, task) {
    return attempt(body, { number: 1, startedMs: task.nowMs() }, task)
  },
  onChildEnd(body, taskState, ended, task) {
    const progress = taskState as unknown as Progress
    if (ended.key === 'delay') {
      task.recordRetry()
      return attempt(body, { ...progress, number: progress.number + 1 }, task)
    }
    if (ended.key === 'limit') return handleError(body, progress, timeoutError(body, task), task)
    const { next } = body.catch
    if (ended.key === 'try') return { ...resultOf(ended), took: 'passed' }
    return { ...(next !== undefined && { next }), ...resultOf(ended), took: 'caught' }
  },
  onChildError(body, taskState, { key, error }, task) {
    if (key !== 'try') throw error
    return handleError(body, taskState as unknown as Progress, error, task)
  },
  catches(body, _own, { key, error }, task) {
    return key === 'try' && catchError(body, error, task) !== undefined
  },
  summary({ tasks, catch: { retry, tasks: handlers } }) {
    const retries = retry === undefined ? '' : `, retry${retry.count === undefined ? '' : ` ${retry.count}×`}`
    return `try ${namesOf(tasks)}${retries}${handlers === undefined ? '' : `, catch ${namesOf(handlers)}`}`
  },
}

function compileCatch(map: MapNode, { context, tasks, target }: TaskCompiler): Catch {
  const errors = compileErrors(map, context)
  const as = context.variable(map, 'as', 'error')
  const conditions = context.withVariables([as], () => compileConditions(map, context))
  const policy = valueAt(map, 'retry')
  const list = valueAt(map, 'do')
  const directive = valueAt(map, 'then')
  const retry = policy && compileRetry(policy, [as], context)
  const handling = list && tasks(list, [as])
  return {
    errors,
    as,
    ...conditions,
    ...omitUndefined({ retry, tasks: handling, next: directive && target(directive) }),
  }
}

/** The filter is literal data; `when` is for expressions (OWS). */
function compileErrors(map: MapNode, context: CompileContext): JsonObject {
  const errors = context.optionalMap(map, 'errors', ['with'])
  if (errors === undefined) return {}
  const filter = context.optionalMap(errors, 'with', FIELDS)
  if (filter === undefined) return {}
  if (filter.entries.length === 0) {
    context.report('value_invalid', filter, '`with` must name at least one field of the error.')
  }
  const wanted: JsonObject = {}
  for (const { key, value } of filter.entries) {
    if (!FIELDS.includes(key)) continue
    const field = key === 'status' ? context.integer(value, '`status`') : compileLiteral(value, key, context)
    if (field !== undefined) wanted[key] = field
  }
  return wanted
}

function compileLiteral(value: SourceNode, key: string, context: CompileContext): string | undefined {
  const text = context.text(value, `\`${key}\``)
  if (text?.includes('${')) {
    const hint = 'Write the expression as `when`, below `catch`.'
    return context.report('value_invalid', value, `\`${key}\` is compared as text.`, hint)
  }
  return key === 'type' && text !== undefined ? errorType(value, text, context) : text
}

function compileConditions(map: MapNode, context: CompileContext): Conditions {
  return omitUndefined({
    when: context.optionalCondition(map, 'when', SCOPES.task),
    exceptWhen: context.optionalCondition(map, 'exceptWhen', SCOPES.task),
  })
}

/** A policy, or the name of one under `use.retries`. @param variables those that only the error handling sees */
function compileRetry(
  node: SourceNode,
  variables: readonly string[],
  context: CompileContext,
): Retry | undefined {
  const compile = ({ value }: Pick<MapEntry, 'value'>) =>
    context.withVariables(variables, () => compileRetryPolicy(value, context))
  return node.kind === 'scalar' && typeof node.value === 'string'
    ? context.components.resolve('retries', node, compile, variables)
    : compile({ value: node })
}

export function compileRetryPolicy(node: SourceNode, context: CompileContext): Retry | undefined {
  const map = context.map(node, '`retry`', ['when', 'exceptWhen', 'delay', 'backoff', 'limit', 'jitter'])
  if (map === undefined) return undefined
  const jitter = compileJitter(map, context)
  return {
    ...compileConditions(map, context),
    delayMs: optionalDynamicDuration(map, 'delay', 0, SCOPES.task, context) ?? 0,
    backoff: compileBackoff(map, context),
    ...compileLimit(map, context),
    ...(jitter !== undefined && { jitter }),
  }
}

function compileBackoff(retry: MapNode, context: CompileContext): Retry['backoff'] {
  const map = context.optionalMap(retry, 'backoff', BACKOFFS)
  if (map === undefined) return 'constant'
  const name = context.exclusiveKey(map, '`backoff`', BACKOFFS)
  if (map.entries.length === 0) {
    const hint = `Write one of: ${BACKOFFS.map((one) => `{ ${one}: {} }`).join(', ')}.`
    context.report('missing_key', map, '`backoff` needs a kind.', hint)
  }
  for (const one of BACKOFFS) context.optionalMap(map, one, [])
  return name ?? 'constant'
}

function compileLimit(
  retry: MapNode,
  context: CompileContext,
): Pick<Retry, 'count' | 'limitMs' | 'attemptMs'> {
  const limit = context.optionalMap(retry, 'limit', ['attempt', 'duration'])
  if (limit === undefined) return {}
  const attempt = context.optionalMap(limit, 'attempt', ['count', 'duration'])
  const count = attempt && valueAt(attempt, 'count')
  return omitUndefined({
    count: count && context.integer(count, '`count`', 1),
    limitMs: optionalDynamicDuration(limit, 'duration', 1, SCOPES.task, context),
    attemptMs: optionalDynamicDuration(attempt, 'duration', 1, SCOPES.task, context),
  })
}

function compileJitter(retry: MapNode, context: CompileContext): Retry['jitter'] {
  const jitter = context.optionalMap(retry, 'jitter', ['from', 'to'])
  if (jitter === undefined) return undefined
  const from = context.required(jitter, '`jitter`', 'from')
  const to = context.required(jitter, '`jitter`', 'to')
  const fromMs = from && dynamicDuration(from, '`from`', 0, SCOPES.task, context)
  const toMs = to && dynamicDuration(to, '`to`', 0, SCOPES.task, context)
  if (to === undefined || fromMs === undefined || toMs === undefined) return undefined
  if (typeof fromMs !== 'number' || typeof toMs !== 'number' || fromMs <= toMs) return { fromMs, toMs }
  return context.report('value_invalid', to, '`to` must not be shorter than `from`.')
}

/** The number of the current attempt, from 1, and the time of the first. */
interface Progress {
  readonly number: number
  readonly startedMs: number
}

function attempt(body: TryBody, { number, startedMs }: Progress, task: TaskContext): Transition {
  const { input } = task
  const { as, retry } = body.catch
  // A policy is compiled with the variable of the error, which does not exist yet.
  const evaluate = (template: Template) => task.evaluate(template, input, { [as]: null })
  const sleepMs = retry?.attemptMs && durationOf(retry.attemptMs, '`limit.attempt.duration`', 1, evaluate)
  const summary = `at most ${durationText(sleepMs ?? 0)}`
  // The child `limit` is a sleep whose end ends the attempt.
  const limit = sleepMs === undefined ? [] : [{ key: 'limit', sleepMs, limits: true, summary }]
  return { taskState: { number, startedMs }, start: [{ key: 'try', list: 'try', input }, ...limit] }
}

function timeoutError(body: TryBody, { step }: TaskContext): FlowError {
  const { attemptMs } = body.catch.retry ?? {}
  const limit = typeof attemptMs === 'number' ? durationText(attemptMs) : 'its limit'
  return new FlowError(ERRORS.timeout, `The task took longer than ${limit}.`, step.pointer)
}

/** The variables of the handler and the retry policy that applies; undefined if the error is not caught. */
function catchError(body: TryBody, error: FlowError, task: TaskContext) {
  const { retry, errors, as } = body.catch
  const variables = { [as]: error.toObject() }
  const test = (condition: Expression) => task.test(condition, task.input, variables)
  if (!matchesError(error, errors) || !conditionsHold(body.catch, test)) return undefined
  return { variables, retry: retry !== undefined && conditionsHold(retry, test) ? retry : undefined }
}

function handleError(body: TryBody, progress: Progress, error: FlowError, task: TaskContext): Transition {
  const found = catchError(body, error, task)
  if (found === undefined) throw error
  const { number, startedMs } = progress
  const times = found.retry && retryTimes(found.retry, number, found.variables, task)
  const spentMs = task.nowMs() - startedMs
  const leastMs = retryAfterMs(error, task.nowMs())
  const delayMs = times && retryDelay(times, { number, spentMs, leastMs }, task.random)
  if (found.retry === undefined || delayMs === undefined) {
    if (body.catch.retry !== undefined && body.catch.tasks === undefined) throw error
    return runHandler(body, task.input, found.variables)
  }
  const cancel = ['try', 'limit']
  if (delayMs === 0) {
    task.recordRetry()
    return { cancel, ...attempt(body, { number: number + 1, startedMs }, task) }
  }
  const { count } = found.retry
  const summary = `retry ${number}${count === undefined ? '' : ` of ${count}`} in ${durationText(delayMs)}`
  return { taskState: { number, startedMs }, cancel, start: [{ key: 'delay', sleepMs: delayMs, summary }] }
}

/**
 * Evaluates the durations of a policy, whose expressions see the error.
 * @param number of the retry, from 1
 * @returns undefined if there are no more retries
 * @throws FlowError (expression) if one is no duration
 */
function retryTimes(
  { delayMs, backoff, limitMs, jitter, count }: Retry,
  number: number,
  variables: JsonObject,
  task: TaskContext,
): RetryTimes | undefined {
  if (count !== undefined && number > count) return undefined
  const timeOf = (duration: Duration, what: string, minMs: 0 | 1) =>
    durationOf(duration, `\`${what}\` of \`retry\``, minMs, (template) =>
      task.evaluate(template, task.input, variables),
    )
  return {
    backoff,
    delayMs: timeOf(delayMs, 'delay', 0),
    ...(limitMs !== undefined && { limitMs: timeOf(limitMs, 'limit.duration', 1) }),
    ...(jitter !== undefined && { jitter: jitterOf(jitter, timeOf) }),
  }
}

function jitterOf(
  { fromMs, toMs }: NonNullable<Retry['jitter']>,
  timeOf: (duration: Duration, what: string, minMs: 0) => number,
): NonNullable<RetryTimes['jitter']> {
  const range = { fromMs: timeOf(fromMs, 'jitter.from', 0), toMs: timeOf(toMs, 'jitter.to', 0) }
  if (range.fromMs <= range.toMs) return range
  throw new FlowError(ERRORS.expression, '`jitter.to` of `retry` is shorter than `jitter.from`.')
}

/** How long a server may delay a retry without `limit.duration`; a longer delay of the policy itself stays as it is. */
const RETRY_AFTER_MS_MAX = 3_600_000

/**
 * The delay before a retry in milliseconds; undefined if it would exceed the limit. Linear backoff adds the delay each time,
 * exponential backoff doubles it.
 * @param at.number of the retry, from 1
 * @param at.spentMs since the first attempt started
 * @param at.leastMs the delay that the server asks for
 */
function retryDelay(
  { delayMs, backoff, jitter, limitMs }: RetryTimes,
  { number, spentMs, leastMs }: { number: number; spentMs: number; leastMs: number },
  random: () => number,
): number | undefined {
  const factor = { constant: 1, linear: number, exponential: 2 ** (number - 1) }[backoff]
  const jitterMs = jitter === undefined ? 0 : jitter.fromMs + random() * (jitter.toMs - jitter.fromMs)
  // The factor grows to Infinity, and 0 * Infinity is NaN.
  const backoffMs = delayMs === 0 ? 0 : delayMs * factor
  const askedMs = limitMs === undefined ? Math.min(leastMs, RETRY_AFTER_MS_MAX) : leastMs
  const waitMs = Math.min(DURATION_MS_MAX, Math.round(Math.max(backoffMs, askedMs) + jitterMs))
  return limitMs !== undefined && spentMs + waitMs > limitMs ? undefined : waitMs
}

/** An HTTP-date (RFC 9110 §5.6.7) in its only current form. */
const HTTP_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/

/** The delay that a server asks for by `Retry-After` (RFC 9110 §10.2.3), in milliseconds; 0 if it asks for none. */
function retryAfterMs({ response }: FlowError, nowMs: number): number {
  const { 'retry-after': after = '', date = '' } = response?.headers ?? {}
  if (/^\d{1,10}$/.test(after)) return Number(after) * 1_000
  if (!HTTP_DATE.test(after)) return 0
  // The server's own clock may be wrong, and its difference from ours does not matter.
  const sentMs = HTTP_DATE.test(date) ? Date.parse(date) : nowMs
  const afterMs = Date.parse(after) - sentMs
  return Number.isNaN(afterMs) ? 0 : Math.max(0, afterMs)
}

/** The short name and all URIs of a standard type are equal. */
function matchesError(error: FlowError, wanted: JsonObject): boolean {
  const found = error.toObject()
  return Object.entries(wanted).every(([field, value]) => {
    if (value === fieldOf(found, field)) return true
    const standard = field === 'type' ? standardError(String(value)) : undefined
    return standard !== undefined && standard === standardError(found.type)
  })
}

function conditionsHold({ when, exceptWhen }: Conditions, test: (condition: Expression) => boolean): boolean {
  return (when === undefined || test(when)) && (exceptWhen === undefined || !test(exceptWhen))
}

function runHandler({ catch: { tasks, next } }: TryBody, input: Json, variables: JsonObject): Transition {
  if (tasks === undefined) return { done: input, took: 'caught', ...(next !== undefined && { next }) }
  return { taskState: null, cancel: ['limit'], start: [{ key: 'catch', list: 'catch', input, variables }] }
}
