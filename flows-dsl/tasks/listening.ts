/** Knows how far a `listen` has come: which events it takes, in what order, and when it has enough. */

import { ERRORS, FlowError } from '../errors.ts'
import type { EventFilter, EventStrategy, Json, JsonObject } from '../ir.ts'
import { fieldOf, objectOf } from '../json.ts'
import { match } from './event-matching.ts'
import type { ListenBody } from './listen-body.ts'
import type { Running } from './task.ts'

/** Filters of one strategy that have had their event, and what each expects of its correlations. */
interface Progress {
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
  readonly to: Progress
  readonly until: Progress
  /** Tasks run for an event: others wait until they have ended. */
  isBusy: boolean
  isOver: boolean
}

const OUTPUTS_MAX = 10_000
const SIZE_MAX = 1_048_576

/** What correlations expect is asked once, when the task begins. */
export function newListening(body: ListenBody, running: Running): Listening {
  const progress = (filters: readonly EventFilter[]): Progress => ({
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
  { filled, expected }: Progress,
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
