/** What events a `listen` takes, as a definition says it (OWS 1.0 "Event Consumption Strategy", "Event Filter"). */

import { type Checker, SCOPES } from '../checker.ts'
import type { Correlation, EventFilter, EventStrategy, Template } from '../ir.ts'
import { entryOf, type Located, type LocatedMap } from '../located.ts'

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
