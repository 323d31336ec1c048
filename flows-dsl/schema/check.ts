/** Knows which schemas a definition may hold: every word known, every reference there, every pattern cheap. */

import type { Checker } from '../checker.ts'
import type { Json } from '../ir.ts'
import { entryOf, type Located, type LocatedEntry, type LocatedMap, plainOf } from '../located.ts'
import { patternFault } from './pattern.ts'
import { DIALECT, KEYWORDS, LATER_KEYWORDS, referenceName, type Shape, TYPES } from './vocabulary.ts'

/** One schema of a definition while it is checked. */
interface Reading {
  readonly checker: Checker
  /** `$defs` at the top. */
  readonly definitions: LocatedMap | undefined
}

/**
 * Checks a schema (JSON Schema 2020-12); its faults go to `checker`.
 * @returns the schema as data, or undefined where it has a fault
 */
export function checkSchema(given: Located, checker: Checker): Json | undefined {
  const before = checker.faults.length
  const definitions = given.kind === 'map' ? entryOf(given, '$defs')?.value : undefined
  const reading = { checker, definitions: definitions?.kind === 'map' ? definitions : undefined }
  schema(given, reading)
  if (reading.definitions !== undefined) refuseCircles(reading.definitions, checker)
  return checker.faults.length === before ? plainOf(given) : undefined
}

function schema(value: Located, reading: Reading): void {
  if (value.kind === 'scalar' && typeof value.value === 'boolean') return
  const map = reading.checker.map(value, 'A schema')
  if (map === undefined) return
  reading.checker.keys(map, 'a schema', Object.keys(KEYWORDS), LATER_KEYWORDS)
  for (const entry of map.entries) {
    const shape = Object.hasOwn(KEYWORDS, entry.key) ? KEYWORDS[entry.key] : undefined
    if (shape !== undefined) SHAPES[shape](entry, reading)
  }
}

const SHAPES: Readonly<Record<Shape, (entry: LocatedEntry, reading: Reading) => void>> = {
  any: () => undefined,
  schema: ({ value }, reading) => schema(value, reading),
  schemas: (entry, reading) => {
    for (const item of list(entry, reading, 1)) schema(item, reading)
  },
  schemaMap: (entry, reading) => {
    for (const { value } of entriesOf(entry, reading)) schema(value, reading)
  },
  patternMap: (entry, reading) => {
    for (const { key, at, value } of entriesOf(entry, reading)) {
      const fault = patternFault(key)
      if (fault !== undefined) reading.checker.fault('pattern_refused', at, `The pattern ${fault}.`)
      schema(value, reading)
    }
  },
  count: ({ key, value }, { checker }) => void checker.integer(value, `\`${key}\``, 0),
  number: (entry, reading) => void number(entry, reading),
  positive: (entry, reading) => {
    const count = number(entry, reading)
    if (count === undefined || count > 0) return
    reading.checker.fault('value_invalid', entry.value, `\`${entry.key}\` must be above 0.`)
  },
  boolean: ({ key, value }, { checker }) => {
    if (value.kind === 'scalar' && typeof value.value === 'boolean') return
    checker.fault('wrong_type', value, `\`${key}\` must be true or false.`)
  },
  text: ({ key, value }, { checker }) => void checker.text(value, `\`${key}\``),
  texts: (entry, reading) => texts(entry, reading),
  textsMap: (entry, reading) => {
    for (const inner of entriesOf(entry, reading)) texts(inner, reading)
  },
  types: (entry, reading) => {
    const { value } = entry
    for (const item of value.kind === 'list' ? list(entry, reading, 1) : [value]) type(item, reading)
  },
  values: (entry, reading) => void list(entry, reading, entry.key === 'enum' ? 1 : 0),
  pattern: ({ key, value }, { checker }) => {
    const pattern = checker.text(value, `\`${key}\``)
    const fault = pattern === undefined ? undefined : patternFault(pattern)
    if (fault !== undefined) checker.fault('pattern_refused', value, `The pattern ${fault}.`)
  },
  dialect: ({ value }, { checker }) => {
    const uri = checker.text(value, '`$schema`')
    if (uri === undefined || uri.replace(/#$/, '') === DIALECT) return
    checker.fault('value_invalid', value, `\`$schema\` must be ${DIALECT}.`)
  },
  reference: ({ value }, reading) => reference(value, reading),
}

function reference(value: Located, { checker, definitions }: Reading): void {
  const text = checker.text(value, '`$ref`')
  if (text === undefined) return
  const name = referenceName(text)
  if (name === undefined) {
    const message = 'A `$ref` must lead to a name under `$defs` of the same schema.'
    checker.fault('value_invalid', value, message, 'Write #/$defs/name.')
    return
  }
  const names = definitions?.entries.map(({ key }) => key) ?? []
  if (names.includes(name)) return
  checker.unknown('unknown_reference', value, `There is nothing named \`${name}\` in \`$defs\`.`, name, names)
}

function number({ key, value }: LocatedEntry, { checker }: Reading): number | undefined {
  if (value.kind === 'scalar' && typeof value.value === 'number') return value.value
  return checker.fault('wrong_type', value, `\`${key}\` must be a number.`)
}

function type(value: Located, { checker }: Reading): void {
  const name = checker.text(value, '`type`')
  if (name === undefined || TYPES.includes(name)) return
  checker.unknown('value_invalid', value, `There is no type \`${name}\`.`, name, TYPES)
}

function texts(entry: LocatedEntry, reading: Reading): void {
  for (const item of list(entry, reading, 0)) reading.checker.text(item, `An item of \`${entry.key}\``)
}

function list({ key, value }: LocatedEntry, { checker }: Reading, least: 0 | 1): readonly Located[] {
  if (value.kind === 'list' && value.items.length >= least) return value.items
  checker.fault('wrong_type', value, `\`${key}\` must be a list${least === 1 ? ', not an empty one' : ''}.`)
  return []
}

function entriesOf({ key, value }: LocatedEntry, { checker }: Reading): readonly LocatedEntry[] {
  return checker.map(value, `\`${key}\``)?.entries ?? []
}

/** A definition that leads back to itself would be checked for ever. */
function refuseCircles(definitions: LocatedMap, checker: Checker): void {
  const leads = new Map(definitions.entries.map(({ key, value }) => [key, referencesIn(value)]))
  const sound = new Set<string>()
  for (const { key, at } of definitions.entries) {
    if (!leadsBack(key, leads, sound)) sound.add(key)
    else checker.fault('circular_reference', at, `\`${key}\` of \`$defs\` leads back to itself.`)
  }
}

function leadsBack(
  start: string,
  leads: ReadonlyMap<string, readonly string[]>,
  sound: ReadonlySet<string>,
): boolean {
  const seen = new Set<string>()
  const open = [...(leads.get(start) ?? [])]
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (name === start) return true
    if (seen.has(name) || sound.has(name)) continue
    seen.add(name)
    open.push(...(leads.get(name) ?? []))
  }
  return false
}

function referencesIn(value: Located): readonly string[] {
  if (value.kind === 'list') return value.items.flatMap(referencesIn)
  if (value.kind !== 'map') return []
  return value.entries.flatMap(({ key, value: inner }) => {
    const isReference = key === '$ref' && inner.kind === 'scalar' && typeof inner.value === 'string'
    const name = isReference ? referenceName(String(inner.value)) : undefined
    return name === undefined ? referencesIn(inner) : [name]
  })
}
