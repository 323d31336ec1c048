/** `listen`: waits for events and runs tasks for each (OWS 1.0 "Listen", "Subscription Iterator"). */

import { type CompileContext, SCOPES } from '../compile/compile-context.ts'
import { compileExport, compileOutput } from '../compile/data-flow.ts'
import { entryOf, type MapNode, valueAt } from '../compile/source-nodes.ts'
import { ERRORS, FlowError } from '../errors.ts'
import type { EventFilter, EventStrategy, Json, JsonObject, TaskNode } from '../ir.ts'
import type { Expression } from '../jq/expression.ts'
import { fieldOf, omitUndefined } from '../json.ts'
import { compileStrategy, expectedBy, match } from './event-filters.ts'
import { type EventSubscription, subscriptionTo } from './event-subscription.ts'
import {
  type Child,
  resultOf,
  type TaskCompiler,
  type TaskContext,
  type TaskType,
  type Transition,
} from './task.ts'

const READS = ['data', 'envelope', 'raw'] as const

/** The tasks that run for each consumed event. */
interface Iterator {
  /** Names of variables. */
  readonly item: string
  readonly at: string
  /** Has the iterator's `output.as` and `export.as`. */
  readonly task: TaskNode
}

interface ListenBody {
  readonly to: EventStrategy
  /** When `any` is satisfied: a condition, tested after each event, or events that are not part of the output. */
  readonly until?: { readonly when: Expression } | { readonly events: EventStrategy }
  readonly read: (typeof READS)[number]
  readonly foreach?: Iterator
}

export const listen: TaskType<ListenBody> = {
  kind: 'listen',
  keys: ['listen', 'foreach'],
  returnsEffectResult: true,
  compile: compileListen,
  lists({ foreach }) {
    return foreach === undefined ? {} : { foreach: [foreach.task] }
  },
  answeredBy() {
    return [EVENTS]
  },
  start(body, task) {
    const state = newListening(body, task)
    return consumeBuffered(body, state, task)
  },
  onChildEnd(body, taskState, ended, task) {
    // If the host itself completes the wait, its result is the output.
    if (ended.left === 'end' || ended.key === EVENTS) return resultOf(ended)
    const state = taskState as unknown as Listening
    state.isBusy = false
    addOutput(state, body, ended.output, task)
    return consumeBuffered(body, state, task)
  },
  onMessage(body, taskState, message, task) {
    const state = taskState as unknown as Listening
    const children = 'event' in message ? consume(body, state, message.event, task) : undefined
    return children && moveOf(body, state, children)
  },
  summary(body) {
    return `listen to ${body.to.mode} of ${typesOf(body)?.join(', ') ?? 'all events'}`
  },
}

function compileListen(task: MapNode, compiler: TaskCompiler): ListenBody | undefined {
  const { context } = compiler
  const map = context.optionalMap(task, 'listen', ['to', 'read'])
  const foreach = compileForeach(task, compiler)
  if (map === undefined) return undefined
  const to = context.requiredMap(map, '`listen`', 'to', ['one', 'any', 'all', 'until'])
  if (to === undefined) return undefined
  const strategy = compileStrategy(to, '`to`', context)
  const until = compileUntil(to, context)
  const read = context.choice(map, 'read', READS)
  if (strategy === undefined || read === undefined) return undefined
  return { to: strategy, ...until, read, ...(foreach !== undefined && { foreach }) }
}

function compileUntil(to: MapNode, context: CompileContext): Pick<ListenBody, 'until'> | undefined {
  const until = entryOf(to, 'until')
  if (until === undefined) return {}
  if (entryOf(to, 'any') === undefined) {
    return context.report('value_invalid', until.at, '`until` requires `any`.')
  }
  if (until.value.kind !== 'map') {
    const when = context.condition(until.value, '`until`', SCOPES.task)
    return when && { until: { when } }
  }
  const events = compileUntilEvents(until.value, context)
  return events && { until: { events } }
}

/** OWS allows a redundant `until: false` within `until`. */
function compileUntilEvents(map: MapNode, context: CompileContext): EventStrategy | undefined {
  context.keys(map, '`until`', ['one', 'any', 'all', 'until'])
  const inner = valueAt(map, 'until')
  if (inner !== undefined && !(inner.kind === 'scalar' && inner.value === false)) {
    context.report('value_invalid', inner, 'The events in `until` cannot have an `until`.')
  }
  return compileStrategy(map, '`until`', context)
}

function compileForeach(listen: MapNode, { context, tasks }: TaskCompiler): Iterator | undefined {
  const map = context.optionalMap(listen, 'foreach', ['item', 'at', 'do', 'output', 'export'])
  if (map === undefined) return undefined
  const [item, at] = context.itemVariables(map, 'item', 'event')
  const list = valueAt(map, 'do')
  const body = { tasks: (list && tasks(list, [item, at])) ?? [] }
  const filters = context.withVariables([item, at], () => ({
    output: compileOutput(map, SCOPES.task, context),
    export: compileExport(map, context),
  }))
  const task = { kind: 'do', name: item, pointer: map.pointer, ...omitUndefined(filters), body }
  return { item, at, task }
}

/** Consumes the events that were buffered before the task started, and waits for more. */
function consumeBuffered(body: ListenBody, state: Listening, task: TaskContext): Transition {
  const children: Child[] = []
  task.takeBuffered((event) => {
    const started = consume(body, state, event, task)
    children.push(...(started ?? []))
    return started !== undefined
  })
  return moveOf(body, state, children)
}

/** The key of the effect that waits. */
const EVENTS = 'events'

/** Waits for events, anew if one has bound correlations: from then on, only events with their values are of interest. */
function moveOf(body: ListenBody, state: Listening, children: readonly Child[]): Transition {
  if (state.isOver) return { done: state.outputs }
  const waiting = { taskState: state as unknown as Json, start: children }
  const known = Object.keys(state.bound).length
  if (state.asked?.known === known) return waiting
  const subscriptions = [
    ...subscriptionsTo(body.to, state.to, state),
    ...subscriptionsTo(endOf(body), state.until, state),
  ]
  const values = JSON.stringify(subscriptions.map((one) => one.values))
  const isAsked = state.asked?.values === values
  state.asked = { known, values }
  if (isAsked) return waiting
  const types = typesOf(body)
  const details = { ...(types !== undefined && { types }), subscriptions: subscriptions as unknown as Json }
  return { ...waiting, cancel: [EVENTS], start: [{ key: EVENTS, await: EVENTS, details }, ...children] }
}

function subscriptionsTo(
  strategy: EventStrategy | undefined,
  { expected }: StrategyProgress,
  { bound }: Listening,
): EventSubscription[] {
  if (strategy === undefined) return []
  const filters = strategy.filters.length === 0 ? [{ with: [], correlate: [] }] : strategy.filters
  return filters.map((filter, index) => subscriptionTo(filter, { ...bound, ...expected[index] }))
}

/** Offers an event. @returns the children to start for it; undefined if the task does not consume it */
function consume(
  body: ListenBody,
  state: Listening,
  event: JsonObject,
  task: TaskContext,
): readonly Child[] | undefined {
  if (state.isBusy || state.isOver) return undefined
  const ending = endOf(body)
  // Ending events are tested first, so that none of them becomes part of the output.
  if (ending !== undefined && matchStrategy(ending, state.until, { state, event, task })) {
    state.isOver = ending.mode !== 'all' || state.until.filled.length === ending.filters.length
    return []
  }
  if (!matchStrategy(body.to, state.to, { state, event, task })) return undefined
  state.taken += 1
  const item = readOf(event, body.read)
  if (body.foreach === undefined) {
    addOutput(state, body, item, task)
    return []
  }
  state.isBusy = true
  const variables = { [body.foreach.item]: item, [body.foreach.at]: state.taken - 1 }
  return [{ key: 'each', list: 'foreach', input: item, variables }]
}

/** The filters of one strategy that have matched, and the values that each expects of its correlations. */
interface StrategyProgress {
  readonly filled: number[]
  readonly expected: readonly JsonObject[]
}

/** State of a `listen`. Plain JSON, changed in place: copying it per event would cost the square of the events. */
interface Listening {
  taken: number
  readonly outputs: Json[]
  /** Characters of the outputs, as JSON. */
  size: number
  bound: JsonObject
  readonly to: StrategyProgress
  readonly until: StrategyProgress
  /** Tasks are running for an event: the next ones wait. */
  isBusy: boolean
  isOver: boolean
  /** The number of bound correlations, and the values of the subscriptions, when it last asked for events. */
  asked?: { readonly known: number; readonly values: string }
}

const OUTPUTS_MAX = 10_000
const SIZE_MAX = 4_194_304

/** Evaluates the expected values of correlations, once. */
function newListening(body: ListenBody, task: TaskContext): Listening {
  const progress = (filters: readonly EventFilter[]): StrategyProgress => ({
    filled: [],
    expected: filters.map((filter) => expectedBy(filter, task)),
  })
  const to = progress(body.to.filters)
  const until = progress(endOf(body)?.filters ?? [])
  return { taken: 0, outputs: [], size: 0, bound: {}, to, until, isBusy: false, isOver: false }
}

/**
 * Adds an output and tests whether the task is satisfied. A `listen` that never ends (`until: false`) keeps no outputs.
 * @throws FlowError (runtime) if the outputs exceed the limits of a value
 */
function addOutput(state: Listening, body: ListenBody, output: Json, task: TaskContext): void {
  const when = body.until !== undefined && 'when' in body.until ? body.until.when : undefined
  if (when?.op === 'literal' && when.value === false) return
  state.size += JSON.stringify(output).length
  if (state.outputs.length >= OUTPUTS_MAX || state.size > SIZE_MAX) {
    const detail = `The task has received more than ${OUTPUTS_MAX} events, or events larger than ${SIZE_MAX} in total.`
    throw new FlowError(ERRORS.runtime, detail)
  }
  state.outputs.push(output)
  state.isOver = when === undefined ? isSatisfied(state, body) : task.test(when, state.outputs)
}

/** The event types that it may consume; undefined if it may consume any. */
export function typesOf(body: Pick<ListenBody, 'to' | 'until'>): string[] | undefined {
  const ending = endOf(body)
  const strategies = ending === undefined ? [body.to] : [body.to, ending]
  if (strategies.some(({ filters }) => filters.length === 0)) return undefined
  const types = strategies.flatMap(({ filters }) => filters).map(typeOf)
  return types.every((type) => type !== undefined) ? [...new Set(types)] : undefined
}

function typeOf({ with: attributes }: EventFilter): string | undefined {
  const type = attributes.find(([name]) => name === 'type')?.[1]
  return type !== undefined && 'literal' in type ? String(type.literal) : undefined
}

function endOf({ until }: Pick<ListenBody, 'until'>): EventStrategy | undefined {
  return until !== undefined && 'events' in until ? until.events : undefined
}

/** Tests if a filter matches the event; with `all`, one that has not matched before. */
function matchStrategy(
  { mode, filters }: EventStrategy,
  { filled, expected }: StrategyProgress,
  { state, event, task }: { state: Listening; event: JsonObject; task: TaskContext },
): boolean {
  for (const [index, filter] of filters.entries()) {
    if (mode === 'all' && filled.includes(index)) continue
    const found = match(filter, event, { expected: expected[index] ?? {}, bound: state.bound }, task)
    if (found === undefined) continue
    state.bound = { ...found, ...state.bound }
    if (!filled.includes(index)) filled.push(index)
    return true
  }
  return filters.length === 0
}

/** Tests if the strategy needs no more events, unless `until` decides that. */
function isSatisfied({ taken, to }: Listening, body: ListenBody): boolean {
  if (body.until !== undefined) return false
  return body.to.mode === 'all' ? to.filled.length === body.to.filters.length : taken > 0
}

/** The part of an event that the flow reads. `raw` is the text of `data`. */
export function readOf(event: JsonObject, read: ListenBody['read']): Json {
  if (read === 'envelope') return event
  const data = fieldOf(event, 'data') ?? null
  if (read === 'data') return data
  const encoded = fieldOf(event, 'data_base64')
  if (typeof encoded === 'string') return encoded
  return typeof data === 'string' ? data : JSON.stringify(data)
}
