/** Parses, evaluates and formats durations (OWS 1.0 "Duration", ISO 8601). */

import { ERRORS, FlowError } from '../errors.ts'
import type { Duration, Template } from '../ir.ts'
import { clip, isObject, type Json, type JsonObject } from '../json.ts'
import { type CompileContext, isExpression } from './compile-context.ts'
import { type MapNode, nodeToJson, type SourceNode, valueAt } from './source-nodes.ts'

const UNIT_MS = {
  days: 86_400_000,
  hours: 3_600_000,
  minutes: 60_000,
  seconds: 1_000,
  milliseconds: 1,
} as const
type Unit = keyof typeof UNIT_MS
export const UNITS = Object.keys(UNIT_MS) as Unit[]

export const DURATION_MS_MAX = 365 * UNIT_MS.days

/** ISO 8601 without years and months, which have no fixed length. */
const ISO = /^P(?=.)(?:(\d+)W)?(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,3})?)S)?)?$/

/** A duration from `minMs` to 365 days, in milliseconds. */
export function durationIn(
  node: SourceNode,
  what: string,
  minMs: 0 | 1 | 1_000,
  context: CompileContext,
): number | undefined {
  const durationMs = node.kind === 'map' ? compileParts(node, context) : compileIso(node, context)
  if (durationMs === undefined || (durationMs >= minMs && durationMs <= DURATION_MS_MAX)) return durationMs
  const least = minMs === 0 ? '0' : durationText(minMs)
  return context.report('duration_invalid', node, `${what} must be between ${least} and 365 days.`)
}

/**
 * A duration that may be an expression, or have expressions as its parts (OWS 1.0 "Duration Expression").
 * @param scope the variables that expressions may refer to
 */
export function dynamicDuration(
  node: SourceNode,
  what: string,
  minMs: 0 | 1,
  scope: readonly string[],
  context: CompileContext,
): Duration | undefined {
  if (isExpression(node)) {
    const duration = context.template(node, scope)
    context.yields(node, what, duration, ['string', 'object'])
    return duration
  }
  if (node.kind !== 'map' || !node.entries.some(({ value }) => isExpression(value)))
    return durationIn(node, what, minMs, context)
  context.keys(node, 'a duration', UNITS)
  const isValid = checkCounts(node, context)
  return isValid ? context.fields(node, scope) : undefined
}

/** The dynamic duration at a key, if the key is there. */
export function optionalDynamicDuration(
  map: MapNode | undefined,
  key: string,
  minMs: 0 | 1,
  scope: readonly string[],
  context: CompileContext,
): Duration | undefined {
  const value = map && valueAt(map, key)
  return value && dynamicDuration(value, `\`${key}\``, minMs, scope, context)
}

const SHOWN_BYTES_MAX = 100

/**
 * The length of a dynamic duration, in milliseconds.
 * @param what the place, such as `` `delay` ``
 * @throws FlowError (expression) that names the place and the value if it is no duration within the bounds of a literal
 */
export function durationOf(
  duration: Duration,
  what: string,
  minMs: 0 | 1,
  evaluate: (template: Template) => Json,
): number {
  if (typeof duration === 'number') return duration
  const value = evaluate(duration)
  const durationMs = millisecondsOf(value, minMs)
  if (durationMs !== undefined) return durationMs
  const excerpt = clip(JSON.stringify(value), SHOWN_BYTES_MAX)
  const least = minMs === 0 ? '0' : '1 millisecond'
  const detail = `${what} yields ${excerpt}, which is not a duration from ${least} to 365 days, such as PT2S or {"seconds": 2}.`
  throw new FlowError(ERRORS.expression, detail)
}

/** The duration at a key in milliseconds, if the key is there. */
export function optionalDuration(
  map: MapNode | undefined,
  key: string,
  minMs: 0 | 1 | 1_000,
  context: CompileContext,
): number | undefined {
  const value = map && valueAt(map, key)
  return value && durationIn(value, `\`${key}\``, minMs, context)
}

/** The length of a duration in data, in milliseconds. Undefined if it is invalid or out of range. */
export function millisecondsOf(value: Json, minMs: 0 | 1 = 1): number | undefined {
  const ms = typeof value === 'string' ? parseIso(value) : isObject(value) ? sumParts(value) : undefined
  return ms !== undefined && ms >= minMs && ms <= DURATION_MS_MAX ? ms : undefined
}

/** `1 minute 1 second`; zero is `0 seconds`. */
export function durationText(durationMs: number): string {
  const parts = UNITS.map((unit) => partText(durationMs, unit)).filter(Boolean)
  return parts.length === 0 ? '0 seconds' : parts.join(' ')
}

function compileIso(node: SourceNode, context: CompileContext): number | undefined {
  if (node.kind === 'scalar' && isCount(node.value)) {
    const hint = `Write PT${node.value}S or {seconds: ${node.value}}.`
    return context.report(
      'wrong_type',
      node,
      `A duration must have a unit; it is the number ${node.value}.`,
      hint,
    )
  }
  const text = context.text(node, 'A duration')
  if (text === undefined) return undefined
  const hint = durationHint(text)
  return parseIso(text) ?? context.report('duration_invalid', node, `\`${text}\` is not a duration.`, hint)
}

function durationHint(text: string): string {
  if (text.includes('${')) return 'Write a fixed duration, because it must be known before the flow runs.'
  if (/^P\d+[YM]/.test(text)) return 'Years and months vary in length; write days, such as P30D.'
  return 'Write {seconds: 2}, or an ISO 8601 duration of weeks, days and time: PT2S, P1DT12H.'
}

function parseIso(text: string): number | undefined {
  const found = ISO.exec(text)
  if (found === null) return undefined
  const [, weeks = 0, days = 0, hours = 0, minutes = 0, seconds = 0] = found
  const whole = (Number(weeks) * 7 + Number(days)) * UNIT_MS.days + Number(hours) * UNIT_MS.hours
  return whole + Number(minutes) * UNIT_MS.minutes + Math.round(Number(seconds) * UNIT_MS.seconds)
}

const isCount = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 0

function sumParts(value: JsonObject): number | undefined {
  let sum = 0
  for (const [key, count] of Object.entries(value)) {
    const unit = UNITS.find((one) => one === key)
    if (unit === undefined || !isCount(count)) return undefined
    sum += count * UNIT_MS[unit]
  }
  return sum
}

function compileParts(map: MapNode, context: CompileContext): number | undefined {
  context.keys(map, 'a duration', UNITS)
  return checkCounts(map, context) ? sumParts(nodeToJson(map) as JsonObject) : undefined
}

/** Reports the first part that is neither a count nor an expression. */
function checkCounts(map: MapNode, context: CompileContext): boolean {
  if (map.entries.some(({ key }) => !Object.hasOwn(UNIT_MS, key))) return false
  for (const { key, value } of map.entries) {
    if (isExpression(value) || isCount(nodeToJson(value))) continue
    context.report('duration_invalid', value, `\`${key}\` must be a whole number, 0 or more.`)
    return false
  }
  return true
}

/** The count of one unit in the remainder that the larger units leave. */
function partText(durationMs: number, unit: Unit): string {
  const larger = UNITS[UNITS.indexOf(unit) - 1]
  const rest = larger === undefined ? durationMs : durationMs % UNIT_MS[larger]
  const count = Math.floor(rest / UNIT_MS[unit])
  return count === 0 ? '' : `${count} ${count === 1 ? unit.slice(0, -1) : unit}`
}
