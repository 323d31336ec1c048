/** Parses `expand`: which documents a read returns with each document, by the names of references. */

import { isObject } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { readBodyFilter } from '../query/body.ts'
import { ALL, type Filter, type OrderKey } from '../query/filter.ts'
import { readOrder, readSelection, readSort, type Selection } from '../query/order-and-selection.ts'
import { readFilters } from '../query/url.ts'

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
const NAME = /^[A-Za-z][A-Za-z0-9_]{0,62}$/

const invalid = (detail: string): Problem =>
  new Problem('expand_invalid', {
    detail,
    errors: [{ in: 'query', name: 'expand', pointer: '', detail }],
  })

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
  return distinct(splitOutside(text, ',').map((part) => readBranch(part, new Branches(), 1)))
}

function readBranch(text: string, branches: Branches, depth: number): Expansion {
  const [, name = text, inner] = /^([^(]*)(?:\((.*)\))?$/su.exec(text.trim()) ?? []
  branches.open(name, depth)
  const [first = '', ...others] = inner === undefined ? [] : splitOutside(inner, ';')
  const isSelection = !/^[^("]*=/.test(first)
  const { fields, expand, isCount } = readMembers(isSelection ? first : '', branches, depth)
  const settings = (isSelection ? others : [first, ...others]).map(readSetting)
  const only = (key: string) => settings.find(([found]) => found === key)?.[1]
  const order = only('order')
  return {
    ...{ name, expand, isCount },
    selection: fields.length === 0 ? undefined : readSelection(fields, 'query'),
    filter: readFilters(settings.filter(([key]) => key !== 'order' && key !== 'size')),
    order: order === undefined ? [] : readOrder(order),
    size: sizeOf(only('size')),
  }
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
  const at = text.startsWith('"') ? text.indexOf('=', text.indexOf('"', 1)) : text.indexOf('=')
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)]
  throw invalid(`${JSON.stringify(text.slice(0, 50))} is not a filter, an order or a size.`)
}

function sizeOf(value: unknown): number | undefined {
  if (value === undefined) return undefined
  const size = typeof value === 'string' && /^[0-9]{1,6}$/.test(value) ? Number(value) : value
  if (Number.isSafeInteger(size) && Number(size) >= 1 && Number(size) <= expandSizeMax) return Number(size)
  throw invalid(`The size of a branch of expand is from 1 to ${expandSizeMax}.`)
}

function distinct(expansions: readonly Expansion[]): readonly Expansion[] {
  const twice = expansions.find(({ name }, index) => expansions.findIndex((one) => one.name === name) < index)
  if (twice !== undefined) throw invalid(`expand names ${twice.name} twice.`)
  return expansions
}

/** Splits at a separator outside of quotes and brackets. */
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
  return parts
}

const MEMBERS = ['select', 'filter', 'sort', 'limit', 'count', 'expand']

/** `{"comments": {"select": ["body"], "filter": {"visible": true}, "sort": …, "limit": 5}}` @throws Problem `expand_invalid` */
export function readBodyExpand(
  expand: string | Readonly<Record<string, unknown>> | undefined,
): readonly Expansion[] {
  if (expand === undefined || typeof expand === 'string') return readExpand(expand)
  return readObject(expand, new Branches(), 1)
}

function readObject(expand: unknown, branches: Branches, depth: number): readonly Expansion[] {
  if (!isObject(expand)) throw invalid('expand is an object of names.')
  return Object.entries(expand).map(([name, branch]): Expansion => {
    branches.open(name, depth)
    const members = branch === true ? {} : branch
    if (!isObject(members)) throw invalid(`expand.${name} is true or an object.`)
    const unknown = Object.keys(members).find((member) => !MEMBERS.includes(member))
    if (unknown !== undefined)
      throw invalid(`expand.${name} has ${unknown.slice(0, 50)}; it takes ${MEMBERS.join(', ')}.`)
    const { select, filter, sort, limit, count, expand: below } = members as Record<string, never>
    return {
      ...{ name, isCount: count === true },
      selection: readSelection(select, 'body'),
      filter: filter === undefined ? ALL : readBodyFilter(filter),
      order: sort === undefined ? [] : readSort(sort),
      size: sizeOf(limit),
      expand: below === undefined ? [] : readObject(below, branches, depth + 1),
    }
  })
}
