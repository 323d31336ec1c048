/** Describes the events that a `listen` waits for in a form that a host can index: type, static filter, correlation values. */

import type { EventFilter, Json, JsonObject, Template } from '../ir.ts'
import { childrenOf, type Expression } from '../jq/expression.ts'
import { fieldOf, objectOf } from '../json.ts'

/** One event filter of a task that waits. The host may deliver more than it asks for, never less: the task tests again. */
export interface EventSubscription {
  /** The event type, if it is a literal; absent for any. */
  readonly type?: string
  /** The part of the filter that depends on the event alone, so that it is the same in every execution of the version. */
  readonly filter: EventFilter
  /** The value of each correlation of `filter`, by name. */
  readonly values: JsonObject
}

/** @param known the values of correlations that are known by now, by name */
export function subscriptionTo(
  { with: attributes, correlate }: EventFilter,
  known: JsonObject,
): EventSubscription {
  const type = attributes.find(([name]) => name === 'type')?.[1]
  const isTyped = type !== undefined && 'literal' in type
  const tested = attributes.filter(
    ([name, value]) => !(isTyped && name === 'type') && dependsOnEventAlone(value),
  )
  const keyed = correlate.filter(({ name, from }) => isKnown(known, name) && isSelfContained(from))
  return {
    ...(isTyped && { type: String(type.literal) }),
    // `expect` is left out: it belongs to one execution.
    filter: { with: tested, correlate: keyed.map(({ name, from }) => ({ name, from })) },
    values: objectOf(keyed.map(({ name }) => [name, fieldOf(known, name) as Json])),
  }
}

const isKnown = (known: JsonObject, name: string) => (fieldOf(known, name) ?? null) !== null

function dependsOnEventAlone(template: Template): boolean {
  if ('literal' in template) return true
  if ('expression' in template) return isSelfContained(template.expression)
  if ('array' in template) return template.array.every(dependsOnEventAlone)
  return template.object.every(([, value]) => dependsOnEventAlone(value))
}

/** Functions whose result depends on more than their input. */
const CONTEXTUAL: readonly string[] = ['now', 'localtime', 'strflocaltime', 'input', 'inputs', 'env']

/** True if an expression reads its input only: no variables, no clock. */
function isSelfContained(expression: Expression): boolean {
  if (expression.op === 'variable') return false
  if (expression.op === 'call' && CONTEXTUAL.includes(expression.name)) return false
  return childrenOf(expression).every(isSelfContained)
}
