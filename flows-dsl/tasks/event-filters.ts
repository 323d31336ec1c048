/** Compiles event filters and matches events against them (OWS 1.0 "Event Filter", "Correlation"; CloudEvents 1.0). */

import { type Checker, SCOPES } from '../checker.ts'
import { FlowError } from '../errors.ts'
import type { Correlation, EventFilter, EventStrategy, Json, JsonObject, Template } from '../ir.ts'
import { fieldOf, isObject, objectOf } from '../json.ts'
import { entryOf, type Located, type LocatedMap } from '../located.ts'
import type { Running } from './task.ts'

const MODES = ['one', 'any', 'all'] as const
/** CloudEvents 1.0 "Naming conventions". */
const ATTRIBUTE = /^[a-z0-9]{1,20}$/
const KNOWN = ['id', 'source', 'type', 'time', 'subject', 'datacontenttype', 'dataschema', 'data']

/** Compiles `one`, `any` or `all`. Other keys of the mapping, such as `until`, are the caller's. */
export function compileStrategy(map: LocatedMap, what: string, checker: Checker): EventStrategy | undefined {
  const [mode, other] = MODES.filter((key) => entryOf(map, key) !== undefined)
  const entry = mode && entryOf(map, mode)
  if (mode === undefined || entry === undefined) {
    return checker.fault('missing_key', map, `${what} needs one of the keys \`one\`, \`any\` and \`all\`.`)
  }
  if (other !== undefined) {
    const place = entryOf(map, other)?.at ?? map
    checker.fault('value_invalid', place, `${what} is \`${mode}\` and \`${other}\` at once.`)
  }
  const filters =
    mode === 'one' ? [compileFilter(entry.value, checker)] : compileList(entry.value, mode, checker)
  const sound = filters?.filter((filter) => filter !== undefined)
  return sound === undefined || sound.length < (filters?.length ?? 0) ? undefined : { mode, filters: sound }
}

function compileList(
  value: Located,
  mode: 'any' | 'all',
  checker: Checker,
): readonly (EventFilter | undefined)[] | undefined {
  if (value.kind !== 'list')
    return checker.fault('wrong_type', value, `\`${mode}\` must be a list of filters.`)
  if (mode === 'all' && value.items.length === 0) {
    return checker.fault('value_invalid', value, '`all` needs a filter, at least one.')
  }
  return value.items.map((item) => compileFilter(item, checker))
}

function compileFilter(value: Located, checker: Checker): EventFilter | undefined {
  const map = checker.map(value, 'A filter')
  if (map === undefined) return undefined
  checker.keys(map, 'a filter', ['with', 'correlate'])
  const attributes = compileAttributes(map, checker)
  const correlate = compileCorrelations(map, checker)
  return attributes && correlate && { with: attributes, correlate }
}

function compileAttributes(filter: LocatedMap, checker: Checker): EventFilter['with'] | undefined {
  const given = checker.required(filter, 'A filter', 'with')
  const map = given && checker.map(given, '`with`')
  if (map === undefined) return undefined
  if (map.entries.length === 0) {
    const hint = 'A filter for every event is `any: []`.'
    return checker.fault('value_invalid', map, '`with` must name an attribute, at least one.', hint)
  }
  const attributes: (readonly [string, Template])[] = []
  for (const { key, at, value } of map.entries) {
    if (!ATTRIBUTE.test(key)) {
      checker.unknown('unknown_key', at, `No attribute of an event is named \`${key}\`.`, key, KNOWN)
    }
    if (key !== 'data' && KNOWN.includes(key)) checker.text(value, `\`${key}\``)
    const template = checker.template(value, SCOPES.task)
    if (template !== undefined) attributes.push([key, template])
  }
  return attributes.length < map.entries.length ? undefined : attributes
}

function compileCorrelations(filter: LocatedMap, checker: Checker): readonly Correlation[] | undefined {
  const given = entryOf(filter, 'correlate')?.value
  if (given === undefined) return []
  const map = checker.map(given, '`correlate`')
  if (map === undefined) return undefined
  const all = map.entries.map(({ key, value }) => compileCorrelation(key, value, checker))
  const sound = all.filter((one) => one !== undefined)
  return sound.length < all.length ? undefined : sound
}

function compileCorrelation(name: string, value: Located, checker: Checker): Correlation | undefined {
  const what = `The correlation \`${name}\``
  const map = checker.map(value, what)
  if (map === undefined) return undefined
  checker.keys(map, `the correlation \`${name}\``, ['from', 'expect'])
  const source = checker.required(map, what, 'from')
  const from = source && checker.condition(source, '`from`', SCOPES.task)
  const wanted = entryOf(map, 'expect')?.value
  const expect = wanted && checker.template(wanted, SCOPES.task)
  if (from === undefined || (wanted !== undefined && expect === undefined)) return undefined
  return { name, from, ...(expect !== undefined && { expect }) }
}

/** How expressions of a filter are asked. */
type Asking = Pick<Running, 'evaluate' | 'isSpent'>

/** What correlations must be, by name: what the filter expects, and what an event had that was taken. */
interface Wanted {
  readonly expected: JsonObject
  readonly bound: JsonObject
}

/**
 * What the filter's correlations are in the event, by name, if it takes it.
 * @returns undefined where it does not take it. Events come from outside: one on which an expression fails is none
 * that the filter wants, and no error of the flow.
 * @throws FlowError (expression) where it takes more steps than there are, so that no event is missed unseen
 */
export function match(
  filter: EventFilter,
  event: JsonObject,
  wanted: Wanted,
  running: Asking,
): JsonObject | undefined {
  const isLiteral = ([, value]: EventFilter['with'][number]) => 'literal' in value
  try {
    // What costs nothing first.
    for (const attribute of filter.with.filter(isLiteral)) {
      if (!holds(attribute, event, running)) return undefined
    }
    if (!filter.with.every((attribute) => isLiteral(attribute) || holds(attribute, event, running)))
      return undefined
    return correlate(filter.correlate, event, wanted, running)
  } catch (error) {
    if (!(error instanceof FlowError) || running.isSpent()) throw error
    return undefined
  }
}

/** An attribute that is not there has no value; `data` that is not there is null. */
function holds(
  [name, wanted]: readonly [string, Template],
  event: JsonObject,
  { evaluate }: Asking,
): boolean {
  const found = fieldOf(event, name) ?? (name === 'data' ? null : undefined)
  if (found === undefined) return false
  if ('literal' in wanted) return contains(found, wanted.literal)
  const value = evaluate(wanted, found)
  // What an expression says of the attribute is a condition; anything else is what the attribute must be.
  return 'expression' in wanted && typeof value === 'boolean' ? value : contains(found, value)
}

function correlate(
  correlations: readonly Correlation[],
  event: JsonObject,
  { expected, bound }: Wanted,
  { evaluate }: Asking,
): JsonObject | undefined {
  const values: [string, Json][] = []
  for (const { name, from } of correlations) {
    const value = evaluate({ expression: from }, event)
    const wanted = fieldOf(expected, name) ?? fieldOf(bound, name)
    if (value === null || (wanted !== undefined && !isSame(value, wanted))) return undefined
    values.push([name, value])
  }
  return objectOf(values)
}

/** An object has what is wanted where it has each field of it; all else is what it is. */
function contains(found: Json, wanted: Json): boolean {
  if (!isObject(wanted)) return isSame(found, wanted)
  if (!isObject(found)) return false
  return Object.entries(wanted).every(([key, value]) => {
    const field = fieldOf(found, key)
    return field !== undefined && contains(field, value)
  })
}

function isSame(a: Json, b: Json): boolean {
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, index) => isSame(item, b[index] ?? null))
  }
  if (!isObject(a) || !isObject(b)) return a === b
  const keys = Object.keys(a)
  return keys.length === Object.keys(b).length && keys.every((key) => isFieldSame(a, b, key))
}

function isFieldSame(a: JsonObject, b: JsonObject, key: string): boolean {
  const left = fieldOf(a, key)
  const right = fieldOf(b, key)
  return left !== undefined && right !== undefined && isSame(left, right)
}
