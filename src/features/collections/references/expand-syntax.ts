/** Parses `expand`: which documents a read returns with each document, by the names of references. */

import Type, { type Static } from 'typebox'
import { Check } from 'typebox/value'
import { isObject } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { readBodyFilter } from '../query/body.ts'
import { ALL, type Filter, type OrderKey } from '../query/filter.ts'
import {
  readOrder,
  readSelection,
  readSort,
  type Selection,
  SORT_FORMS,
} from '../query/order-and-selection.ts'
import { readFilters } from '../query/url.ts'
import { REFERENCE_NAME } from './reference.ts'

/** The documents at the other end of a reference that each document gets. */
export interface Expansion {
  readonly name: string
  /** Their fields; undefined for all. */
  readonly selection: Selection | undefined
  readonly filter: Filter
  /** Of those that refer to the document. */
  readonly order: readonly OrderKey[]
  readonly size: number | undefined
  /** Their number in place of them. */
  readonly isCount: boolean
  readonly expand: readonly Expansion[]
}

const { expandLevelsMax, expandBranchesMax, expandSizeMax } = COLLECTION_LIMITS
const NAME = new RegExp(REFERENCE_NAME)

const invalid = (detail: string): Problem => new Problem('expand_invalid', { detail })

/** The branches that one request may have, at all levels together. */
class Branches {
  #left: number = expandBranchesMax

  /** @param depth of the branch, 1 for the outermost */
  open(name: string, depth: number): void {
    if (!NAME.test(name))
      throw invalid(`${JSON.stringify(name.slice(0, 50))} is not the name of a reference.`)
    if (depth > expandLevelsMax) throw invalid(`expand has at most ${expandLevelsMax} levels.`)
    this.#left -= 1
    if (this.#left < 0) throw invalid(`expand has at most ${expandBranchesMax} branches.`)
  }
}

/** `customer(name),comments(body,author(name);visible=eq.true;order=_created_at.desc;size=5)` @throws Problem `expand_invalid` */
export function readExpand(text: string | undefined): readonly Expansion[] {
  if (text === undefined) return []
  const branches = new Branches()
  return distinct(splitOutside(text, ',').map((part) => readBranch(part, branches, 1)))
}

function readBranch(text: string, branches: Branches, depth: number): Expansion {
  const [, name = text, inner] = /^([^(]*)(?:\((.*)\))?$/su.exec(text) ?? []
  branches.open(name, depth)
  const [first = '', ...others] = inner === undefined ? [] : splitOutside(inner, ';')
  const isSelection = equalsSignIn(first) < 0
  const { fields, expand, isCount } = readMembers(isSelection ? first : '', branches, depth)
  const settings = (isSelection ? others : [first, ...others]).map(readSetting)
  const order = only('order', settings)
  return {
    ...{ name, expand, isCount },
    selection: fields.length === 0 ? undefined : readSelection(fields, 'query'),
    filter: readFilters(
      settings.filter(([key]) => key !== 'order' && key !== 'size'),
      { joins: true },
    ),
    order: order === undefined ? [] : readOrder(order),
    size: sizeOf(only('size', settings)),
  }
}

function only(key: string, settings: readonly (readonly [string, string])[]): string | undefined {
  const [one, ...more] = settings.filter(([found]) => found === key)
  if (more.length > 0) throw invalid(`A branch of expand has ${key} twice.`)
  return one?.[1]
}

/** Fields, and branches, which have parentheses. */
function readMembers(text: string, branches: Branches, depth: number) {
  const parts = splitOutside(text, ',').filter((part) => part !== '')
  const isBranch = (part: string) => /^[A-Za-z]\w*\(.*\)$/su.test(part)
  const fields = parts.filter((part) => !isBranch(part))
  const isCount = parts.length === 1 && fields[0] === 'count'
  const expand = distinct(parts.filter(isBranch).map((part) => readBranch(part, branches, depth + 1)))
  return { fields: isCount ? [] : fields, expand, isCount }
}

function readSetting(text: string): [string, string] {
  const at = equalsSignIn(text)
  if (at < 1) throw invalid(`${JSON.stringify(text.slice(0, 50))} is not a filter, an order or a size.`)
  const key = text.slice(0, at)
  if (key === 'limit' || key === 'page[size]') throw invalid(`Write size=… in place of ${key}=….`)
  return [key, text.slice(at + 1)]
}

/** The place of the first `=` outside of quotes and brackets; negative if there is none. */
function equalsSignIn(text: string): number {
  const masked = text.replaceAll(/"(?:[^"\\]|\\.)*"?/gsu, (quoted) => '.'.repeat(quoted.length))
  const [before = ''] = /^[^([{]*/.exec(masked) ?? []
  return before.indexOf('=')
}

function sizeOf(value: unknown): number | undefined {
  if (value === undefined) return undefined
  const size = typeof value === 'string' && /^[0-9]{1,6}$/.test(value) ? Number(value) : value
  if (Number.isSafeInteger(size) && Number(size) >= 1 && Number(size) <= expandSizeMax) return Number(size)
  throw invalid(`The size of a branch of expand is from 1 to ${expandSizeMax}.`)
}

function distinct(expansions: readonly Expansion[]): readonly Expansion[] {
  const names = new Set<string>()
  for (const { name } of expansions) {
    if (names.has(name)) throw invalid(`expand names ${name} twice.`)
    names.add(name)
  }
  return expansions
}

/** Splits at a separator outside of quotes and brackets, and drops blanks around the parts. */
function splitOutside(text: string, separator: ',' | ';'): string[] {
  const parts = ['']
  let [depth, quoted] = [0, false]
  for (const [token] of text.matchAll(/\\.|./gsu)) {
    if (token === '"') quoted = !quoted
    else if (!quoted && '([{'.includes(token)) depth += 1
    else if (!quoted && ')]}'.includes(token)) depth -= 1
    if (depth < 0) break
    if (token === separator && depth === 0 && !quoted) parts.push('')
    else parts[parts.length - 1] += token
  }
  if (depth !== 0 || quoted) throw invalid('A bracket or a quote of expand is not closed, or closes nothing.')
  return parts.map((part) => part.trim())
}

/** The members of a branch in JSON, and what each is. */
const MEMBERS = {
  select: [Type.Union([Type.String(), Type.Array(Type.String())]), 'a text or a list of fields'],
  filter: [Type.Record(Type.String(), Type.Unknown()), 'a filter'],
  sort: [Type.Union([...SORT_FORMS]), 'an object of 1 and -1, or a list of texts'],
  limit: [Type.Integer(), 'a whole number'],
  count: [Type.Literal(true), 'true'],
  expand: [Type.Record(Type.String(), Type.Unknown()), 'an object of names'],
} as const

/** `{"comments": {"select": ["body"], "filter": {"visible": true}, "sort": …, "limit": 5}}` @throws Problem `expand_invalid` */
export function readBodyExpand(
  expand: string | Readonly<Record<string, unknown>> | undefined,
): readonly Expansion[] {
  if (expand === undefined || typeof expand === 'string') return readExpand(expand)
  return readObject(expand, new Branches(), 1)
}

function readObject(
  expand: Readonly<Record<string, unknown>>,
  branches: Branches,
  depth: number,
): readonly Expansion[] {
  return Object.entries(expand).map(([name, branch]): Expansion => {
    branches.open(name, depth)
    const { select, filter, sort, limit, count, expand: below } = membersOf(name, branch)
    return {
      ...{ name, isCount: count === true },
      selection: readSelection(select, 'body'),
      filter: filter === undefined ? ALL : readBodyFilter(filter, { joins: true }),
      order: sort === undefined ? [] : readSort(sort),
      size: sizeOf(limit),
      expand: below === undefined ? [] : readObject(below, branches, depth + 1),
    }
  })
}

type Members = { readonly [Name in keyof typeof MEMBERS]?: Static<(typeof MEMBERS)[Name][0]> }

function membersOf(name: string, branch: unknown): Members {
  if (branch === true) return {}
  if (!isObject(branch)) throw invalid(`expand.${name} is true or an object.`)
  for (const [member, value] of Object.entries(branch)) {
    const [type, wants] = Object.hasOwn(MEMBERS, member) ? MEMBERS[member as keyof Members] : []
    if (type === undefined)
      throw invalid(`expand.${name} has ${member.slice(0, 50)}; it takes ${Object.keys(MEMBERS).join(', ')}.`)
    if (!Check(type, value)) throw invalid(`expand.${name}.${member} is ${wants}.`)
  }
  const { count, filter: _, ...others } = branch as Members
  if (count === true && Object.keys(others).length > 0)
    throw invalid(`expand.${name} counts documents, so it takes a filter alone.`)
  return branch as Members
}
