/** Correlates events with the filters of a trigger: one event that a filter takes, or one per filter that belong together. */

import { type Budget, newBudget } from './budget.ts'
import { type EventStrategy, fill, type Json, type JsonObject, type Schedule, type Template } from './ir.ts'
import { evaluate } from './jq/evaluate.ts'
import { fieldOf, objectOf } from './json.ts'
import { match } from './tasks/event-filters.ts'
import { readOf, typesOf } from './tasks/listen.ts'

/** Events of `all` that wait for the others. Plain JSON: it is kept between two events. */
export interface Gathering {
  /** Filters that have had their event. */
  readonly filled: readonly number[]
  /** What the correlations were in the first event that had them. */
  readonly bound: JsonObject
  readonly events: readonly JsonObject[]
}

export interface Gathered {
  /** What has come together, if it has: the events that start a run. */
  readonly complete?: readonly JsonObject[]
  readonly open: readonly Gathering[]
}

/** A fiftieth of what a run has: filters are asked of every event, by a thread that serves all tenants. */
const STEPS_MAX = 20_000
const OPEN_MAX = 100
const OPEN_CHARS_MAX = 1_048_576

/**
 * Shows an event to the strategy of a trigger. What waits is bounded: of too many, the oldest are given up.
 * @param open what waits since earlier events
 * @throws FlowError (expression) where its filters take more steps than there are for one event
 */
export function gather(
  on: EventStrategy,
  open: readonly Gathering[],
  event: JsonObject,
  nowMs: number,
): Gathered {
  const asking = new Asking(nowMs)
  const one = { filled: [], bound: {}, events: [] }
  if (on.mode !== 'all') return { ...(asking.add(on, one, event) && { complete: [event] }), open }
  if (open.some(({ events }) => events.some((known) => isSame(known, event)))) return { open }
  for (const [at, gathering] of [...open, one].entries()) {
    const more = asking.add(on, gathering, event)
    if (more === undefined) continue
    const others = open.filter((_, index) => index !== at)
    if (more.filled.length === on.filters.length) return { complete: more.events, open: others }
    return { open: bounded([...others, more]) }
  }
  return { open }
}

/** What a run is started with: the list of its events, each as `read` says (OWS 1.0 "Schedule"). */
export function inputOf(events: readonly JsonObject[], read: Schedule['read'] = 'data'): Json[] {
  return events.map((event) => readOf(event, read))
}

/** The types of event that the strategy may take, where all of them are written out. */
export function typesIn(on: EventStrategy): readonly string[] | undefined {
  return typesOf({ to: on })
}

/** CloudEvents 1.0: `source` and `id` together are unique. */
const isSame = (a: JsonObject, b: JsonObject) =>
  fieldOf(a, 'id') === fieldOf(b, 'id') && fieldOf(a, 'source') === fieldOf(b, 'source')

function bounded(open: readonly Gathering[]): readonly Gathering[] {
  let size = 0
  const kept: Gathering[] = []
  for (const gathering of open.toReversed().slice(0, OPEN_MAX)) {
    size += JSON.stringify(gathering).length
    if (size <= OPEN_CHARS_MAX) kept.push(gathering)
  }
  return kept.reverse()
}

/** The questions that one event is asked, at the cost of one budget. */
class Asking {
  readonly #budget: Budget = { ...newBudget(), steps: STEPS_MAX }
  readonly #nowMs: number

  constructor(nowMs: number) {
    this.#nowMs = nowMs
  }

  /** The gathering with the event in it, if one of the filters that still wait takes it. */
  add({ mode, filters }: EventStrategy, to: Gathering, event: JsonObject): Gathering | undefined {
    const asking = { evaluate: this.#evaluate, isBudgetExhausted: () => this.#budget.steps < 0 }
    for (const [index, filter] of filters.entries()) {
      if (mode === 'all' && to.filled.includes(index)) continue
      const expects = filter.correlate.filter(({ expect }) => expect !== undefined)
      const expected = objectOf(
        expects.map(({ name, expect = { literal: null } }) => [name, this.#evaluate(expect, null)]),
      )
      const found = match(filter, event, { expected, bound: to.bound }, asking)
      if (found === undefined) continue
      const bound = { ...found, ...to.bound }
      return { filled: [...to.filled, index], bound, events: [...to.events, event] }
    }
    return filters.length === 0 ? { ...to, events: [event] } : undefined
  }

  /** Events are looked at before there is a run: expressions see nothing but the event. */
  readonly #evaluate = (template: Template, dot: Json): Json =>
    fill(template, (expression) =>
      evaluate(expression, dot, { variables: {}, nowMs: this.#nowMs }, this.#budget),
    )
}
