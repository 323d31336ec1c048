/** `try`: runs tasks, catches their errors and retries (OWS 1.0 "Try", "Catch", "Retry"). */

import { type Checker, SCOPES } from '../checker.ts'
import { DURATION_MS_MAX, durationIn, durationText } from '../duration.ts'
import { ERRORS, FlowError, standardError } from '../errors.ts'
import type { Expression } from '../expression/expression.ts'
import type { Json, JsonObject, TaskNode } from '../ir.ts'
import { fieldOf } from '../json.ts'
import { entryOf, type Located, type LocatedEntry, type LocatedMap } from '../located.ts'
import { type Compiling, doneAs, type Move, type Running, type TaskType } from './task.ts'

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
  lists({ tasks, catch: handler }) {
    return { try: tasks, ...(handler.tasks !== undefined && { catch: handler.tasks }) }
  },
  // An error that is only tried again goes on in the end: nobody handles it here.
  ways({ catch: { retry, tasks } }) {
    return retry !== undefined && tasks === undefined ? ['passed'] : ['passed', 'caught']
  },
  start(body, running) {
    return attempt(body, { number: 1, startedMs: running.nowMs() }, running)
  },
  next(body, own, ended, running) {
    const progress = own as unknown as Progress
    if (ended.key === 'delay') {
      running.retried()
      return attempt(body, { ...progress, number: progress.number + 1 }, running)
    }
    if (ended.key === 'limit') return caught(body, progress, tookTooLong(body, running), running)
    const { next } = body.catch
    if (ended.key === 'try') return { ...doneAs(ended), took: 'passed' }
    return { ...(next !== undefined && { next }), ...doneAs(ended), took: 'caught' }
  },
  failed(body, own, { key, error }, running) {
    if (key !== 'try') throw error
    return caught(body, own as unknown as Progress, error, running)
  },
  catches(body, _own, { key, error }, running) {
    return key === 'try' && isCaught(body, error, running) !== undefined
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

/** How often it was tried, and since when. */
interface Progress {
  readonly number: number
  readonly startedMs: number
}

function attempt(body: TryBody, { number, startedMs }: Progress, { input }: Running): Move {
  const limitMs = body.catch.retry?.attemptMs
  const limit =
    limitMs === undefined
      ? []
      : [{ key: 'limit', sleepMs: limitMs, limits: true, summary: `at most ${durationText(limitMs)}` }]
  return { own: { number, startedMs }, begin: [{ key: 'try', list: 'try', input }, ...limit] }
}

function tookTooLong(body: TryBody, { step }: Running): FlowError {
  const limit = durationText(body.catch.retry?.attemptMs ?? 0)
  return new FlowError(ERRORS.timeout, `It took longer than ${limit}.`, step.pointer)
}

/** The variables and the retry, if there is to be one, for an error that is caught. */
function isCaught(body: TryBody, error: FlowError, running: Running) {
  const { retry, errors, as } = body.catch
  const variables = { [as]: error.toObject() }
  const test = (condition: Expression) => running.test(condition, running.input, variables)
  if (!isLike(error, errors) || !hold(body.catch, test)) return undefined
  return { variables, retry: retry !== undefined && hold(retry, test) ? retry : undefined }
}

function caught(body: TryBody, { number, startedMs }: Progress, error: FlowError, running: Running): Move {
  const found = isCaught(body, error, running)
  if (found === undefined) throw error
  const spentMs = running.nowMs() - startedMs
  const delayMs = found.retry && delayBefore(found.retry, { number, spentMs, random: running.random })
  if (found.retry === undefined || delayMs === undefined) {
    if (body.catch.retry !== undefined && body.catch.tasks === undefined) throw error
    return handle(body, running.input, found.variables)
  }
  const drop = ['try', 'limit']
  if (delayMs === 0) {
    running.retried()
    return { drop, ...attempt(body, { number: number + 1, startedMs }, running) }
  }
  const summary = retryText(found.retry, number, delayMs)
  return { own: { number, startedMs }, drop, begin: [{ key: 'delay', sleepMs: delayMs, summary }] }
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

function handle({ catch: { tasks, next } }: TryBody, input: Json, variables: JsonObject): Move {
  if (tasks === undefined) return { done: input, took: 'caught', ...(next !== undefined && { next }) }
  return { own: null, drop: ['limit'], begin: [{ key: 'catch', list: 'catch', input, variables }] }
}

const BACKOFFS = ['constant', 'linear', 'exponential'] as const

/** A condition, and one that must not hold. */
export interface Conditions {
  readonly when?: Expression
  readonly exceptWhen?: Expression
}

export interface Retry extends Conditions {
  readonly delayMs: number
  readonly backoff: (typeof BACKOFFS)[number]
  /** How often at most, after the first attempt. */
  readonly count?: number
  /** From the start of the first attempt to the start of the last. */
  readonly limitMs?: number
  /** Of each attempt, the first included. */
  readonly attemptMs?: number
  /** Is added to the delay. */
  readonly jitter?: { readonly fromMs: number; readonly toMs: number }
}

export function compileConditions(map: LocatedMap, checker: Checker): Conditions {
  const [when, exceptWhen] = ['when', 'exceptWhen'].map((key) => {
    const value = entryOf(map, key)?.value
    return value && checker.condition(value, `\`${key}\``, SCOPES.task)
  })
  return { ...(when !== undefined && { when }), ...(exceptWhen !== undefined && { exceptWhen }) }
}

/** @param variables those that only the handling of the error sees */
export function compileRetry(
  given: Located,
  variables: readonly string[],
  checker: Checker,
): Retry | undefined {
  if (given.kind === 'scalar' && typeof given.value === 'string') {
    const compile = ({ value }: LocatedEntry) =>
      checker.within(variables, () => compileRetryPolicy(value, checker))
    return checker.declared.find('retries', given, compile, variables)
  }
  return checker.within(variables, () => compileRetryPolicy(given, checker))
}

export function compileRetryPolicy(given: Located, checker: Checker): Retry | undefined {
  const map = checker.map(given, '`retry`')
  if (map === undefined) return undefined
  checker.keys(map, '`retry`', ['when', 'exceptWhen', 'delay', 'backoff', 'limit', 'jitter'])
  const delayMs = durationBelow(map, 'delay', 0, checker) ?? 0
  const jitter = compileJitter(map, checker)
  return {
    ...compileConditions(map, checker),
    delayMs,
    backoff: compileBackoff(map, checker),
    ...compileLimit(map, checker),
    ...(jitter !== undefined && { jitter }),
  }
}

function durationBelow(
  map: LocatedMap | undefined,
  key: string,
  minMs: 0 | 1,
  checker: Checker,
): number | undefined {
  const value = map && entryOf(map, key)?.value
  return value && durationIn(value, `\`${key}\``, minMs, checker)
}

function mapBelow(map: LocatedMap | undefined, key: string, checker: Checker): LocatedMap | undefined {
  const value = map && entryOf(map, key)?.value
  return value && checker.map(value, `\`${key}\``)
}

function compileBackoff(retry: LocatedMap, checker: Checker): Retry['backoff'] {
  const map = mapBelow(retry, 'backoff', checker)
  if (map === undefined) return 'constant'
  checker.keys(map, '`backoff`', BACKOFFS)
  const [name, other] = BACKOFFS.filter((one) => entryOf(map, one) !== undefined)
  if (name === undefined) {
    const hint = `Write one of: ${BACKOFFS.map((one) => `{ ${one}: {} }`).join(', ')}.`
    if (map.entries.length === 0) checker.fault('missing_key', map, '`backoff` must say how.', hint)
  } else if (other !== undefined) {
    const place = entryOf(map, other)?.at ?? map
    checker.fault('value_invalid', place, `\`backoff\` is \`${name}\` and \`${other}\` at once.`)
  }
  for (const one of BACKOFFS) {
    const options = mapBelow(map, one, checker)
    if (options !== undefined) checker.keys(options, `\`${one}\``, [])
  }
  return name ?? 'constant'
}

function compileLimit(retry: LocatedMap, checker: Checker): Pick<Retry, 'count' | 'limitMs' | 'attemptMs'> {
  const limit = mapBelow(retry, 'limit', checker)
  if (limit !== undefined) checker.keys(limit, '`limit`', ['attempt', 'duration'])
  const attempt = mapBelow(limit, 'attempt', checker)
  if (attempt !== undefined) checker.keys(attempt, '`attempt`', ['count', 'duration'])
  const given = attempt && entryOf(attempt, 'count')?.value
  const count = given && checker.integer(given, '`count`', 1)
  const limitMs = durationBelow(limit, 'duration', 1, checker)
  const attemptMs = durationBelow(attempt, 'duration', 1, checker)
  return {
    ...(count !== undefined && { count }),
    ...(limitMs !== undefined && { limitMs }),
    ...(attemptMs !== undefined && { attemptMs }),
  }
}

function compileJitter(retry: LocatedMap, checker: Checker): Retry['jitter'] {
  const jitter = mapBelow(retry, 'jitter', checker)
  if (jitter === undefined) return undefined
  checker.keys(jitter, '`jitter`', ['from', 'to'])
  const from = checker.required(jitter, '`jitter`', 'from')
  const to = checker.required(jitter, '`jitter`', 'to')
  const fromMs = from && durationIn(from, '`from`', 0, checker)
  const toMs = to && durationIn(to, '`to`', 0, checker)
  if (to === undefined || fromMs === undefined || toMs === undefined) return undefined
  if (fromMs <= toMs) return { fromMs, toMs }
  return checker.fault('value_invalid', to, '`to` must not be shorter than `from`.')
}

/** How far a `try` has come; retries are numbered from 1. */
interface RetryProgress {
  readonly number: number
  /** Since the first attempt began. */
  readonly spentMs: number
  readonly random: () => number
}

/** The wait before a retry, or nothing if there is none. Linear adds the delay each time, exponential doubles it. */
export function delayBefore(retry: Retry, { number, spentMs, random }: RetryProgress): number | undefined {
  const { delayMs, backoff, jitter, count, limitMs } = retry
  if (count !== undefined && number > count) return undefined
  const factor = { constant: 1, linear: number, exponential: 2 ** (number - 1) }[backoff]
  const extraMs = jitter === undefined ? 0 : jitter.fromMs + random() * (jitter.toMs - jitter.fromMs)
  // The factor grows beyond all numbers, and that often nothing is no number.
  const laterMs = delayMs === 0 ? 0 : delayMs * factor
  const waitMs = Math.min(DURATION_MS_MAX, Math.round(laterMs + extraMs))
  return limitMs !== undefined && spentMs + waitMs > limitMs ? undefined : waitMs
}

/** `retry 2 of 5 in 4 seconds` */
export function retryText({ count }: Retry, number: number, delayMs: number): string {
  return `retry ${number}${count === undefined ? '' : ` of ${count}`} in ${durationText(delayMs)}`
}
