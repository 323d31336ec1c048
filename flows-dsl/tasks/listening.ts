/** Knows how far a `listen` has come: which events it takes, in what order, and when it has enough. */

import { ERRORS, FlowError } from '../errors.ts'
import type { Json, JsonObject } from '../ir.ts'
import { fieldOf, objectOf } from '../json.ts'
import type { EventFilter, EventStrategy } from './event-filters.ts'
import { type Evaluate, match } from './event-matching.ts'
import type { ListenBody } from './listen.ts'

/** Filters of one strategy that have had their event, and what each expects of its correlations. */
interface Progress {
  readonly filled: number[]
  readonly expected: readonly JsonObject[]
}

/** Plain JSON, and changed in place: it would cost the square of the events to copy it for each. */
export interface Listening {
  /** Number of the last event of the run that was looked at. */
  after: number
  taken: number
  readonly outputs: Json[]
  /** Characters of the outputs, as JSON. */
  size: number
  bound: JsonObject
  readonly to: Progress
  readonly until: Progress
}

/** What becomes of an event: it is left to others, taken for the output, or taken as the end, which may be near. */
type Fate = 'left' | 'taken' | 'counted'

const OUTPUTS_MAX = 10_000
const SIZE_MAX = 1_048_576

/** `input` is that of the task: what correlations expect is asked once, when the task begins. */
export function beginListening(body: ListenBody, input: Json, evaluate: Evaluate): Listening {
  const until = body.until !== undefined && 'events' in body.until ? body.until.events.filters : []
  const progress = (filters: readonly EventFilter[]): Progress => ({
    filled: [],
    expected: filters.map((filter) => expectedBy(filter, input, evaluate)),
  })
  const to = progress(body.to.filters)
  return { after: 0, taken: 0, outputs: [], size: 0, bound: {}, to, until: progress(until) }
}

function expectedBy({ correlate }: EventFilter, input: Json, evaluate: Evaluate): JsonObject {
  const given = correlate.filter(({ expect }) => expect !== undefined)
  return objectOf(given.map(({ name, expect = { literal: null } }) => [name, evaluate(expect, input)]))
}

/** Shows it an event. Those that end it go first, so that none of them is part of the output. */
export function look(listening: Listening, body: ListenBody, event: JsonObject, evaluate: Evaluate): Fate {
  const ending = body.until !== undefined && 'events' in body.until ? body.until.events : undefined
  if (ending !== undefined && fills(ending, listening.until, listening, event, evaluate)) return 'counted'
  if (!fills(body.to, listening.to, listening, event, evaluate)) return 'left'
  listening.taken += 1
  return 'taken'
}

/** Whether one of the filters takes the event: of `all`, one that has not had its own yet. */
function fills(
  { mode, filters }: EventStrategy,
  { filled, expected }: Progress,
  listening: Listening,
  event: JsonObject,
  evaluate: Evaluate,
): boolean {
  if (filters.length === 0) {
    if (filled.length === 0) filled.push(0)
    return true
  }
  for (const [index, filter] of filters.entries()) {
    if (mode === 'all' && filled.includes(index)) continue
    const wanted = { expected: expected[index] ?? {}, bound: listening.bound }
    const found = match(filter, event, wanted, evaluate)
    if (found === undefined) continue
    listening.bound = { ...found, ...listening.bound }
    if (!filled.includes(index)) filled.push(index)
    return true
  }
  return false
}

/** Whether it needs no more events. A condition is the caller's to ask. */
export function hasEnough({ taken, to, until }: Listening, body: ListenBody): boolean {
  if (body.to.mode === 'all') return to.filled.length === body.to.filters.length
  if (body.until === undefined) return taken > 0
  if (!('events' in body.until)) return false
  const { mode, filters } = body.until.events
  return mode === 'all' ? until.filled.length === filters.length : until.filled.length > 0
}

/**
 * Keeps what an event has become. What is listened to for ever has no output, and so keeps none.
 * @throws FlowError (runtime) where it is more than a value may hold
 */
export function keep(listening: Listening, body: ListenBody, output: Json): void {
  const when = body.until !== undefined && 'when' in body.until ? body.until.when : undefined
  if (when?.op === 'literal' && when.value === false) return
  listening.size += JSON.stringify(output).length
  if (listening.outputs.length >= OUTPUTS_MAX || listening.size > SIZE_MAX) {
    throw new FlowError(ERRORS.runtime, `The events are more than ${OUTPUTS_MAX}, or larger than ${SIZE_MAX}.`)
  }
  listening.outputs.push(output)
}

/** What the task reads of an event. `raw` is the text that `data` came as. */
export function readOf(event: JsonObject, read: ListenBody['read']): Json {
  if (read === 'envelope') return event
  const data = fieldOf(event, 'data') ?? null
  if (read === 'data') return data
  const encoded = fieldOf(event, 'data_base64')
  if (typeof encoded === 'string') return encoded
  return typeof data === 'string' ? data : JSON.stringify(data)
}

/** The types of event that it may take, as far as they are written out; nothing where it may be any. */
export function typesOf(body: ListenBody): string[] | undefined {
  const until = body.until !== undefined && 'events' in body.until ? [body.until.events] : []
  const strategies = [body.to, ...until]
  if (strategies.some(({ filters }) => filters.length === 0)) return undefined
  const types = strategies.flatMap(({ filters }) => filters).map(({ with: attributes }) => {
    const type = attributes.find(([name]) => name === 'type')?.[1]
    return type !== undefined && 'literal' in type && typeof type.literal === 'string' ? type.literal : undefined
  })
  const known = types.filter((type) => type !== undefined)
  return known.length < types.length ? undefined : [...new Set(known)]
}
