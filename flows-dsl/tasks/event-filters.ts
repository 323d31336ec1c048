/** Compiles event filters and matches events against them (OWS 1.0 "Event Filter", "Correlation"; CloudEvents 1.0). */

import { type CompileContext, SCOPES } from '../compile/compile-context.ts'
import { entryOf, type MapNode, nodeToJson, type SourceNode, valueAt } from '../compile/source-nodes.ts'
import { FlowError } from '../errors.ts'
import {
  type Correlation,
  canonical,
  type EventFilter,
  type EventStrategy,
  type Json,
  type JsonObject,
  type Template,
} from '../ir.ts'
import { childrenOf, type Expression } from '../jq/expression.ts'
import { fieldOf, isObject, objectOf } from '../json.ts'
import type { TaskContext } from './task.ts'

const MODES = ['one', 'any', 'all'] as const
/** CloudEvents 1.0 "Naming conventions". */
export const ATTRIBUTE = '^[a-z0-9]{1,20}$'
const KNOWN = ['id', 'source', 'type', 'time', 'subject', 'datacontenttype', 'dataschema', 'data']

/** Compiles `one`, `any` or `all`. Other keys of the mapping, such as `until`, belong to the caller. */
export function compileStrategy(
  map: MapNode,
  what: string,
  context: CompileContext,
): EventStrategy | undefined {
  const mode = context.exclusiveKey(map, what, MODES)
  const value = mode && valueAt(map, mode)
  if (mode === undefined || value === undefined) {
    return context.report('missing_key', map, `${what} needs one of the keys \`one\`, \`any\` and \`all\`.`)
  }
  const filters = mode === 'one' ? [compileFilter(value, context)] : compileList(value, mode, context)
  return filters?.every((filter) => filter !== undefined) ? { mode, filters } : undefined
}

function compileList(value: SourceNode, mode: 'any' | 'all', context: CompileContext) {
  if (value.kind !== 'list')
    return context.report('wrong_type', value, `\`${mode}\` must be a list of filters.`)
  if (mode === 'all' && value.items.length === 0) {
    return context.report('value_invalid', value, '`all` needs at least one filter.')
  }
  return value.items.map((item) => compileFilter(item, context))
}

function compileFilter(value: SourceNode, context: CompileContext): EventFilter | undefined {
  const map = context.map(value, 'A filter', ['with', 'correlate'])
  if (map === undefined) return undefined
  const attributes = compileAttributes(map, context)
  const correlate = compileCorrelations(map, context)
  return attributes && correlate && { with: attributes, correlate }
}

function compileAttributes(filter: MapNode, context: CompileContext): EventFilter['with'] | undefined {
  const map = context.requiredMap(filter, 'A filter', 'with')
  if (map === undefined) return undefined
  if (map.entries.length === 0) {
    const hint = 'Write `any: []` to match every event.'
    return context.report('value_invalid', map, '`with` must name at least one attribute.', hint)
  }
  const attributes: (readonly [string, Template])[] = []
  for (const { key, at, value } of map.entries) {
    if (!new RegExp(ATTRIBUTE).test(key)) {
      context.reportUnknown('unknown_key', at, `No attribute of an event is named \`${key}\`.`, key, KNOWN)
    }
    if (key !== 'data' && KNOWN.includes(key)) context.text(value, `\`${key}\``)
    const template = context.template(value, SCOPES.task)
    if (template !== undefined) attributes.push([key, template])
    if (template !== undefined && 'expression' in template && readsField(template.expression, key)) {
      const message = `\`.\` is \`${key}\` of the event here: \`.${key}\` is a field within it.`
      context.warnings.report('attribute_within_itself', value, message, hintWithout(key, value))
    }
  }
  return attributes.length < map.entries.length ? undefined : attributes
}

/** Tests if an expression reads a field of `.` itself. */
function readsField(expression: Expression, name: string): boolean {
  if (expression.op === 'index' && expression.of.op === 'identity')
    return expression.key.op === 'literal' && expression.key.value === name
  // Right of a pipe `.` is something else.
  if (expression.op === 'pipe') return readsField(expression.left, name)
  return childrenOf(expression).some((child) => readsField(child, name))
}

function hintWithout(key: string, value: SourceNode): string | undefined {
  const text = value.kind === 'scalar' ? String(value.value) : ''
  const found = new RegExp(`\\.${key}(\\.\\w+)?`).exec(text)
  return found === null ? undefined : `Write \`${found[1] ?? '.'}\` instead of \`${found[0]}\`.`
}

function compileCorrelations(filter: MapNode, context: CompileContext): readonly Correlation[] | undefined {
  if (entryOf(filter, 'correlate') === undefined) return []
  const map = context.optionalMap(filter, 'correlate')
  const all = map?.entries.map(({ key, value }) => compileCorrelation(key, value, context))
  return all?.every((one) => one !== undefined) ? all : undefined
}

function compileCorrelation(
  name: string,
  value: SourceNode,
  context: CompileContext,
): Correlation | undefined {
  const what = `The correlation \`${name}\``
  const map = context.map(value, what, ['from', 'expect'])
  if (map === undefined) return undefined
  const source = context.required(map, what, 'from')
  const from = source && context.condition(source, '`from`', SCOPES.task)
  const expected = valueAt(map, 'expect')
  const expect = expected && context.template(expected, SCOPES.task)
  if (expected !== undefined && context.isLikeExpression(expected, SCOPES.task)) {
    const text = String(nodeToJson(expected))
    const message = `\`expect\` is the text \`${text}\`, not the value of an expression.`
    context.warnings.report('looks_like_expression', expected, message, `Write '\${ ${text} }'.`)
  }
  if (from === undefined || (expected !== undefined && expect === undefined)) return undefined
  return { name, from, ...(expect !== undefined && { expect }) }
}

export type FilterEvaluation = Pick<TaskContext, 'evaluate' | 'isBudgetExhausted'>

/** The values of correlations by name: those that the filter expects, and those of the first matched event. */
interface CorrelationValues {
  readonly expected: JsonObject
  readonly bound: JsonObject
}

/**
 * Matches an event against a filter. Events are untrusted: an expression that fails on one means that the event does
 * not match, and is not an error of the flow.
 * @returns the values of the filter's correlations by name; undefined if the event does not match
 * @throws FlowError (expression) if the step budget is exhausted, so that no event is skipped silently
 */
export function match(
  filter: EventFilter,
  event: JsonObject,
  values: CorrelationValues,
  evaluation: FilterEvaluation,
): JsonObject | undefined {
  const isLiteral = ([, value]: EventFilter['with'][number]) => 'literal' in value
  // Literals cost nothing, so they are tested first.
  const attributes = [...filter.with].sort((a, b) => Number(isLiteral(b)) - Number(isLiteral(a)))
  try {
    if (!attributes.every((attribute) => matchesAttribute(attribute, event, evaluation))) return undefined
    return correlate(filter.correlate, event, values, evaluation)
  } catch (error) {
    if (!(error instanceof FlowError) || evaluation.isBudgetExhausted()) throw error
    return undefined
  }
}

/** A missing attribute never matches, except `data`, which is null if missing. */
function matchesAttribute(
  [name, wanted]: readonly [string, Template],
  event: JsonObject,
  { evaluate }: FilterEvaluation,
): boolean {
  const found = fieldOf(event, name) ?? (name === 'data' ? null : undefined)
  if (found === undefined) return false
  if ('literal' in wanted) return contains(found, wanted.literal)
  const value = evaluate(wanted, found)
  // A boolean is the result of a condition; any other value is what the attribute must be.
  return 'expression' in wanted && typeof value === 'boolean' ? value : contains(found, value)
}

function correlate(
  correlations: readonly Correlation[],
  event: JsonObject,
  { expected, bound }: CorrelationValues,
  { evaluate }: FilterEvaluation,
): JsonObject | undefined {
  const values: [string, Json][] = []
  for (const { name, from } of correlations) {
    const value = evaluate({ expression: from }, event)
    const wanted = fieldOf(expected, name) ?? fieldOf(bound, name)
    if (value === null || (wanted !== undefined && !isEqual(value, wanted))) return undefined
    values.push([name, value])
  }
  return objectOf(values)
}

/** Objects match if they have the wanted fields, whatever else they have; other values if they are equal. */
function contains(found: Json, wanted: Json): boolean {
  if (!isObject(wanted)) return isEqual(found, wanted)
  if (!isObject(found)) return false
  return Object.entries(wanted).every(([key, value]) => {
    const field = fieldOf(found, key)
    return field !== undefined && contains(field, value)
  })
}

function isEqual(a: Json, b: Json): boolean {
  return a === b || (typeof a === 'object' && typeof b === 'object' && canonical(a) === canonical(b))
}

/** The values that a filter expects of its correlations, by name. */
export function expectedBy(
  { correlate }: EventFilter,
  { input, evaluate }: Pick<TaskContext, 'input' | 'evaluate'>,
): JsonObject {
  const expecting = correlate.filter(({ expect }) => expect !== undefined)
  return objectOf(expecting.map(({ name, expect = { literal: null } }) => [name, evaluate(expect, input)]))
}
