/** `listen`: waits for events and runs tasks for each (OWS 1.0 "Listen", "Subscription Iterator"). */

import { type Checker, choiceBelow, SCOPES } from '../checker.ts'
import { compileExport, compileOutput } from '../data-flow.ts'
import { ERRORS, FlowError } from '../errors.ts'
import type { Expression } from '../expression/expression.ts'
import type { EventFilter, EventStrategy, Json, JsonObject, TaskNode } from '../ir.ts'
import { fieldOf, objectOf } from '../json.ts'
import { entryOf, type Located, type LocatedMap } from '../located.ts'
import { compileStrategy, match } from './event-filters.ts'
import { type Child, type Compiling, doneAs, type Move, type Running, type TaskType } from './task.ts'

const READS = ['data', 'envelope', 'raw'] as const

/** What is done with each event that was taken. */
interface Iterator {
  /** Names of variables. */
  readonly item: string
  readonly at: string
  /** Its `output.as` and `export.as` are those of the iterator. */
  readonly task: TaskNode
}

export interface ListenBody {
  readonly to: EventStrategy
  /** When `any` has enough: a condition, asked after each event, or events that are no part of the output. */
  readonly until?: { readonly when: Expression } | { readonly events: EventStrategy }
  readonly read: (typeof READS)[number]
  readonly foreach?: Iterator
}

/** Compiles the keys `listen` and `foreach` of a task. */
export function compileListen(task: LocatedMap, compiling: Compiling): ListenBody | undefined {
  const { checker } = compiling
  const given = entryOf(task, 'listen')?.value
  const map = given && checker.map(given, '`listen`')
  const loop = entryOf(task, 'foreach')?.value
  const foreach = loop && compileForeach(loop, compiling)
  if (map === undefined) return undefined
  checker.keys(map, '`listen`', ['to', 'read'])
  const source = checker.required(map, '`listen`', 'to')
  const to = source && checker.map(source, '`to`')
  if (to === undefined) return undefined
  checker.keys(to, '`to`', ['one', 'any', 'all', 'until'])
  const strategy = compileStrategy(to, '`to`', checker)
  const until = compileUntil(to, checker)
  const read = choiceBelow(map, 'read', READS, checker)
  if (strategy === undefined || read === undefined) return undefined
  return { to: strategy, ...until, read, ...(foreach !== undefined && { foreach }) }
}

function compileUntil(to: LocatedMap, checker: Checker): Pick<ListenBody, 'until'> | undefined {
  const until = entryOf(to, 'until')
  if (until === undefined) return {}
  if (entryOf(to, 'any') === undefined) {
    return checker.fault('value_invalid', until.at, '`until` goes with `any` alone.')
  }
  if (until.value.kind !== 'map') {
    const when = checker.condition(until.value, '`until`', SCOPES.task)
    return when && { until: { when } }
  }
  const events = compileEnd(until.value, checker)
  return events && { until: { events } }
}

/** OWS allows `until: false` within `until`, which says what is so anyway. */
function compileEnd(map: LocatedMap, checker: Checker): EventStrategy | undefined {
  checker.keys(map, '`until`', ['one', 'any', 'all', 'until'])
  const inner = entryOf(map, 'until')?.value
  if (inner !== undefined && !(inner.kind === 'scalar' && inner.value === false)) {
    checker.fault('value_invalid', inner, 'The events that end a `listen` have no `until` of their own.')
  }
  return compileStrategy(map, '`until`', checker)
}

function compileForeach(value: Located, { checker, tasks }: Compiling): Iterator | undefined {
  const map = checker.map(value, '`foreach`')
  if (map === undefined) return undefined
  checker.keys(map, '`foreach`', ['item', 'at', 'do', 'output', 'export'])
  const item = checker.variable(map, 'item', 'item')
  const at = checker.variable(map, 'at', 'index')
  if (item === at) {
    const place = entryOf(map, 'at')?.value ?? entryOf(map, 'item')?.value ?? map
    checker.fault('value_invalid', place, `The event and its index are both named $${at}.`)
  }
  const list = entryOf(map, 'do')?.value
  const nodes = list === undefined ? [] : tasks(list, [item, at])
  const [output, exported] = checker.within([item, at], () => [
    compileOutput(map, SCOPES.task, checker),
    compileExport(map, checker),
  ])
  const task = {
    kind: 'do',
    name: item,
    pointer: map.pointer,
    ...(output !== undefined && { output }),
    ...(exported !== undefined && { export: exported }),
    body: { tasks: nodes ?? [] },
  }
  return { item, at, task }
}

export const listen: TaskType<ListenBody> = {
  kind: 'listen',
  keys: ['listen', 'foreach'],
  isAnswered: true,
  compile: compileListen,
  lists({ foreach }) {
    return foreach === undefined ? {} : { foreach: [foreach.task] }
  },
  start(body, running) {
    const listening = newListening(body, running)
    const types = typesOf(body)
    const details = types === undefined ? {} : { types }
    return goThrough(body, listening, running, [{ key: 'events', await: 'events', details }])
  },
  next(body, own, ended, running) {
    // Where the host itself answers what the task waits for, that is the output.
    if (ended.left === 'end' || ended.key === 'events') return doneAs(ended)
    const listening = own as unknown as Listening
    listening.isBusy = false
    keep(listening, body, ended.output, running)
    return goThrough(body, listening, running)
  },
  told(body, own, message, running) {
    const listening = own as unknown as Listening
    const taken = 'event' in message ? consume(body, listening, message.event, running) : undefined
    return taken && moveOf(listening, taken)
  },
  summary(body) {
    return `listen to ${body.to.mode} of ${typesOf(body)?.join(', ') ?? 'all events'}`
  },
}

/** Looks at the events that are there already, and waits for more. */
function goThrough(
  body: ListenBody,
  listening: Listening,
  running: Running,
  begin: readonly Child[] = [],
): Move {
  const children = [...begin]
  running.early((event) => {
    const begun = consume(body, listening, event, running)
    children.push(...(begun ?? []))
    return begun !== undefined
  })
  return moveOf(listening, children)
}

function moveOf(listening: Listening, begin: readonly Child[]): Move {
  if (listening.isOver) return { done: listening.outputs }
  return { own: listening as unknown as Json, begin }
}

/** What is begun for an event, if it is taken. */
function consume(
  body: ListenBody,
  listening: Listening,
  event: JsonObject,
  running: Running,
): readonly Child[] | undefined {
  const { isTaken, item } = take(listening, body, event, running)
  if (!isTaken) return undefined
  if (item === undefined) return []
  if (body.foreach === undefined) {
    keep(listening, body, item, running)
    return []
  }
  listening.isBusy = true
  const variables = { [body.foreach.item]: item, [body.foreach.at]: listening.taken - 1 }
  return [{ key: 'each', list: 'foreach', input: item, variables }]
}

/** Filters of one strategy that have had their event, and what each expects of its correlations. */
interface StrategyProgress {
  readonly filled: number[]
  readonly expected: readonly JsonObject[]
}

/** Plain JSON, and changed in place: it would cost the square of the events to copy it for each. */
export interface Listening {
  taken: number
  readonly outputs: Json[]
  /** Characters of the outputs, as JSON. */
  size: number
  bound: JsonObject
  readonly to: StrategyProgress
  readonly until: StrategyProgress
  /** Tasks run for an event: others wait until they have ended. */
  isBusy: boolean
  isOver: boolean
}

const OUTPUTS_MAX = 10_000
const SIZE_MAX = 4_194_304

/** What correlations expect is asked once, when the task begins. */
export function newListening(body: ListenBody, running: Running): Listening {
  const progress = (filters: readonly EventFilter[]): StrategyProgress => ({
    filled: [],
    expected: filters.map((filter) => expectedBy(filter, running)),
  })
  const to = progress(body.to.filters)
  const until = progress(endOf(body)?.filters ?? [])
  return { taken: 0, outputs: [], size: 0, bound: {}, to, until, isBusy: false, isOver: false }
}

/** Shows it an event. @returns what the task reads of it, where it is taken for the output; whether it is taken at all */
export function take(
  listening: Listening,
  body: ListenBody,
  event: JsonObject,
  running: Running,
): { readonly isTaken: boolean; readonly item?: Json } {
  if (listening.isBusy || listening.isOver) return { isTaken: false }
  const ending = endOf(body)
  // Those that end it go first, so that none of them is part of the output.
  if (ending !== undefined && fills(ending, listening.until, { listening, event, running })) {
    listening.isOver = ending.mode !== 'all' || listening.until.filled.length === ending.filters.length
    return { isTaken: true }
  }
  if (!fills(body.to, listening.to, { listening, event, running })) return { isTaken: false }
  listening.taken += 1
  return { isTaken: true, item: readOf(event, body.read) }
}

/**
 * Keeps what an event has become, and asks whether there is enough. What is listened to for ever has no output, and
 * so keeps none.
 * @throws FlowError (runtime) where it is more than a value may hold
 */
export function keep(listening: Listening, body: ListenBody, output: Json, running: Running): void {
  const when = body.until !== undefined && 'when' in body.until ? body.until.when : undefined
  if (when?.op === 'literal' && when.value === false) return
  listening.size += JSON.stringify(output).length
  if (listening.outputs.length >= OUTPUTS_MAX || listening.size > SIZE_MAX) {
    throw new FlowError(
      ERRORS.runtime,
      `The events are more than ${OUTPUTS_MAX}, or larger than ${SIZE_MAX}.`,
    )
  }
  listening.outputs.push(output)
  listening.isOver = when === undefined ? hasEnough(listening, body) : running.test(when, listening.outputs)
}

/** The types of event that it may take, as far as they are written out; nothing where it may be any. */
export function typesOf(body: Pick<ListenBody, 'to' | 'until'>): string[] | undefined {
  const ending = endOf(body)
  const strategies = ending === undefined ? [body.to] : [body.to, ending]
  if (strategies.some(({ filters }) => filters.length === 0)) return undefined
  const filters = strategies.flatMap((strategy) => strategy.filters)
  const types = filters.map(typeOf).filter((type) => type !== undefined)
  return types.length < filters.length ? undefined : [...new Set(types)]
}

function typeOf({ with: attributes }: EventFilter): string | undefined {
  const type = attributes.find(([name]) => name === 'type')?.[1]
  return type !== undefined && 'literal' in type ? String(type.literal) : undefined
}

function endOf({ until }: Pick<ListenBody, 'until'>): EventStrategy | undefined {
  return until !== undefined && 'events' in until ? until.events : undefined
}

function expectedBy({ correlate }: EventFilter, { input, evaluate }: Running): JsonObject {
  const given = correlate.filter(({ expect }) => expect !== undefined)
  return objectOf(given.map(({ name, expect = { literal: null } }) => [name, evaluate(expect, input)]))
}

/** Whether one of the filters takes the event: of `all`, one that has not had its own yet. */
function fills(
  { mode, filters }: EventStrategy,
  { filled, expected }: StrategyProgress,
  { listening, event, running }: { listening: Listening; event: JsonObject; running: Running },
): boolean {
  for (const [index, filter] of filters.entries()) {
    if (mode === 'all' && filled.includes(index)) continue
    const wanted = { expected: expected[index] ?? {}, bound: listening.bound }
    const found = match(filter, event, wanted, running)
    if (found === undefined) continue
    listening.bound = { ...found, ...listening.bound }
    if (!filled.includes(index)) filled.push(index)
    return true
  }
  return filters.length === 0
}

/** Whether it needs no more events, where `until` does not say so. */
function hasEnough({ taken, to }: Listening, body: ListenBody): boolean {
  if (body.until !== undefined) return false
  return body.to.mode === 'all' ? to.filled.length === body.to.filters.length : taken > 0
}

/** `raw` is the text that `data` came as. */
export function readOf(event: JsonObject, read: ListenBody['read']): Json {
  if (read === 'envelope') return event
  const data = fieldOf(event, 'data') ?? null
  if (read === 'data') return data
  const encoded = fieldOf(event, 'data_base64')
  if (typeof encoded === 'string') return encoded
  return typeof data === 'string' ? data : JSON.stringify(data)
}
