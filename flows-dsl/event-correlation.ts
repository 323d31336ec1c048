/** Correlates events with the filters of a trigger: one event that matches, or one per filter that belong together. */

import { newBudget } from './budget.ts'
import { FlowError } from './errors.ts'
import {
  type EventFilter,
  type EventStrategy,
  fill,
  type Json,
  type JsonObject,
  type Schedule,
} from './ir.ts'
import { evaluate } from './jq/evaluate.ts'
import { fieldOf } from './json.ts'
import { expectedBy, type FilterEvaluation, match } from './tasks/event-filters.ts'
import { readOf } from './tasks/listen.ts'

/** Events of `all` that wait for the others. Plain JSON: it is stored between two events. */
export interface PartialCorrelation {
  /** Indexes of the filters that have matched an event. */
  readonly filled: readonly number[]
  /** The values of the correlations in the first event that had them. */
  readonly bound: JsonObject
  readonly events: readonly JsonObject[]
}

export interface CorrelationResult {
  /** The events that start an execution, if the correlation is complete. */
  readonly complete?: readonly JsonObject[]
  readonly open: readonly PartialCorrelation[]
}

/** A fiftieth of an execution's budget: a thread that serves all tenants tests filters for every event. */
const STEPS_MAX = 20_000
const OPEN_MAX = 100
const OPEN_CHARS_MAX = 1_048_576

/**
 * Matches an event with the strategy of a trigger. The partial correlations are bounded; the oldest are dropped.
 * @param open the partial correlations of earlier events
 * @param kept what is kept of the event if it matches
 * @throws FlowError (expression) if the filters take more steps than one event may cost
 */
export function correlateEvent(
  on: EventStrategy,
  open: readonly PartialCorrelation[],
  event: JsonObject,
  nowMs: number,
  kept = event,
): CorrelationResult {
  const evaluation = evaluationOf(nowMs)
  const empty = { filled: [], bound: {}, events: [] }
  if (on.mode !== 'all')
    return { ...(addEvent(on, empty, { event, kept }, evaluation) && { complete: [kept] }), open }
  if (open.some(({ events }) => events.some((known) => isSame(known, event)))) return { open }
  for (const [at, correlation] of [...open, empty].entries()) {
    const extended = addEvent(on, correlation, { event, kept }, evaluation)
    if (extended === undefined) continue
    const others = open.filter((_, index) => index !== at)
    if (extended.filled.length === on.filters.length) return { complete: extended.events, open: others }
    return { open: bounded([...others, extended]) }
  }
  return { open }
}

/**
 * The values of a filter's correlations in an event, by name; undefined if the event does not match, or the filter takes
 * more steps than one event may cost.
 * @param filter sees the event alone (tasks/event-subscription.ts)
 */
export function correlationValues(
  filter: EventFilter,
  event: JsonObject,
  nowMs: number,
): JsonObject | undefined {
  try {
    return match(filter, event, { expected: {}, bound: {} }, evaluationOf(nowMs))
  } catch (error) {
    if (error instanceof FlowError) return undefined
    throw error
  }
}

/** The input of an execution that events start: the list of them, read as `read` says (OWS 1.0 "Schedule"). */
export function inputOf(events: readonly JsonObject[], read: Schedule['read'] = 'data'): Json[] {
  return events.map((event) => readOf(event, read))
}

/** CloudEvents 1.0: `source` and `id` together are unique. */
const isSame = (a: JsonObject, b: JsonObject) =>
  fieldOf(a, 'id') === fieldOf(b, 'id') && fieldOf(a, 'source') === fieldOf(b, 'source')

function bounded(open: readonly PartialCorrelation[]): readonly PartialCorrelation[] {
  let size = 0
  const newest: PartialCorrelation[] = []
  for (const correlation of open.toReversed().slice(0, OPEN_MAX)) {
    size += JSON.stringify(correlation).length
    if (size <= OPEN_CHARS_MAX) newest.push(correlation)
  }
  return newest.reverse()
}

/** Evaluates all filters for one event with one budget. There is no execution yet: expressions see the event alone. */
function evaluationOf(nowMs: number): FilterEvaluation {
  const budget = { ...newBudget(), steps: STEPS_MAX }
  const environment = { variables: {}, nowMs }
  return {
    evaluate: (template, dot) =>
      fill(template, (expression) => evaluate(expression, dot, environment, budget)),
    isBudgetExhausted: () => budget.steps < 0,
  }
}

/** The correlation with the event added, if one of the filters that are still open matches it. */
function addEvent(
  { mode, filters }: EventStrategy,
  { filled, bound, events }: PartialCorrelation,
  { event, kept }: { readonly event: JsonObject; readonly kept: JsonObject },
  evaluation: FilterEvaluation,
): PartialCorrelation | undefined {
  for (const [index, filter] of filters.entries()) {
    if (mode === 'all' && filled.includes(index)) continue
    const expected = expectedBy(filter, { input: null, evaluate: evaluation.evaluate })
    const found = match(filter, event, { expected, bound }, evaluation)
    if (found === undefined) continue
    return { filled: [...filled, index], bound: { ...found, ...bound }, events: [...events, kept] }
  }
  return filters.length === 0 ? { filled, bound, events: [kept] } : undefined
}
