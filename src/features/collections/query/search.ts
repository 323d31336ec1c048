/** Search by words: `_search=wfts.fresh milk -skim` finds the documents whose texts have them, in the language of the declaration. */

import { isObject } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import type { OrderKey } from './filter.ts'
import { checkText, commaParts, refusal, type Source } from './syntax.ts'

/** How the text of a search is read. */
const KINDS = ['wfts', 'plfts', 'phfts', 'prefix'] as const
type Kind = (typeof KINDS)[number]

/** The fields of an answer that only a search gives. */
const SHOWN = ['_score', '_highlight'] as const
type Shown = (typeof SHOWN)[number]

/** The words that documents are searched for. */
export interface Search {
  readonly kind: Kind
  readonly text: string
}

/** A search, the order that it gives, and what the answer says of it. */
export interface ShownSearch extends Search {
  /** True if the documents with the highest scores come first. */
  readonly byScore?: boolean
  readonly shown?: readonly Shown[]
}

type Select = string | readonly string[] | undefined
type Order = string | readonly string[] | Readonly<Record<string, 1 | -1>> | undefined

/** Order and selection of a query without the fields that only a search gives. */
interface Rest<O extends Order> {
  readonly order: O | undefined
  readonly select: Select
}

const NAME = '_search'
const FORMS = `Write ${NAME}=wfts.fresh milk -skim, or {"${NAME}": {"wfts": "fresh milk -skim"}}; there are ${KINDS.join(', ')}.`

/** The order of documents by their scores. */
export const BY_SCORE: readonly OrderKey[] = [
  { path: ['_score'], descending: true, nullsFirst: false },
  { path: ['id'], descending: true, nullsFirst: false },
]

/** Takes the search out of the filters of a URL. @throws Problem `filter_invalid` */
export function takeSearch(filters: readonly (readonly [name: string, value: string])[]): {
  readonly search?: Search
  readonly filters: readonly (readonly [string, string])[]
} {
  const [found, ...others] = filters.filter(([name]) => name === NAME)
  if (found === undefined) return { filters }
  const [, kind = '', text = ''] = /^([a-z]+)\.(.*)$/su.exec(found[1]) ?? []
  const search = readSearch(kind, text, others.length, { code: 'filter_invalid', in: 'query', name: NAME })
  return { search, filters: filters.filter(([name]) => name !== NAME) }
}

/** Takes the search out of a filter in JSON: `{"_search": {"wfts": "fresh milk"}}`. @throws Problem `filter_invalid` */
export function takeBodySearch(filter: Readonly<Record<string, unknown>>): {
  readonly search?: Search
  readonly filter: Readonly<Record<string, unknown>>
} {
  if (!Object.hasOwn(filter, NAME)) return { filter }
  const { [NAME]: found, ...rest } = filter
  const [[kind, text] = ['', ''], ...others] = isObject(found) ? Object.entries(found) : []
  const source: Source = { code: 'filter_invalid', in: 'body', name: NAME }
  return { search: readSearch(kind, text, others.length, source), filter: rest }
}

function readSearch(kind: string, text: unknown, others: number, source: Source): Search {
  const known = KINDS.find((name) => name === kind)
  const most = COLLECTION_LIMITS.searchCharsMax
  if (others > 0) throw refusal(source, 'A query has one search.', FORMS)
  if (known === undefined) throw refusal(source, `${kind.slice(0, 50)} is not a kind of search.`, FORMS)
  if (typeof text !== 'string') throw refusal(source, 'A search takes a text.', FORMS)
  if (text.length > most) throw refusal(source, `A search takes a text of at most ${most} characters.`)
  checkText(text, source)
  if (!/[\p{L}\p{N}]/u.test(text)) throw refusal(source, 'A search needs a word.', FORMS)
  return { kind: known, text }
}

/**
 * Takes out of order and selection what only a search gives.
 * @throws Problem `order_invalid` or `select_invalid` if there is no search, or another order beside the score
 */
export function takeShown<O extends Order>(
  search: Search | undefined,
  { order, select }: Rest<O>,
): Rest<O> & { readonly search?: ShownSearch } {
  const keys = orderKeys(order)
  const byScore = keys.some((key) => /^_score(\.|$)/.test(key))
  const parts = typeof select === 'string' ? commaParts(select) : (select ?? [])
  const shown = SHOWN.filter((name) => parts.includes(name))
  if (!byScore && shown.length === 0) return { order, select, ...(search && { search }) }
  if (search === undefined) throw withoutSearch(byScore ? 'order' : 'select')
  if (byScore && (keys.length > 1 || keys[0] !== '_score.desc')) throw otherOrder()
  return {
    order: byScore ? undefined : order,
    select:
      shown.length === 0 ? select : parts.filter((name) => !(SHOWN as readonly string[]).includes(name)),
    search: { ...search, byScore, shown: select === undefined ? ['_score'] : shown },
  }
}

/** The keys of an order as they are written in a URL. */
function orderKeys(order: Order): readonly string[] {
  if (order === undefined) return []
  if (typeof order === 'string') return commaParts(order)
  if (Array.isArray(order)) return order
  return Object.entries(order).map(([name, direction]) => `${name}.${direction === -1 ? 'desc' : 'asc'}`)
}

const withoutSearch = (place: 'order' | 'select') =>
  refusal(
    { code: `${place}_invalid`, in: 'query', name: place },
    `Only a search gives ${SHOWN.join(' and ')}.`,
    FORMS,
  )

const otherOrder = () =>
  refusal(
    { code: 'order_invalid', in: 'query', name: 'order' },
    'The order of the score is _score.desc, and has no other keys.',
  )

/** True if an index finds the documents: not if a word is to be absent, since all documents may lack it. */
export const isNarrowing = ({ kind, text }: Search): boolean => kind !== 'wfts' || !/(^|[\s(])-/u.test(text)

/** The query of `prefix`: all words, the last of which may go on. They are letters and digits alone, so none is an operator. */
export function prefixQuery(text: string): string {
  const words = text.match(/[\p{L}\p{N}\p{M}]+/gu) ?? []
  return words.map((word, at) => (at === words.length - 1 ? `'${word}':*` : `'${word}'`)).join(' & ')
}

/** @throws Problem `filter_invalid` for a parameter that does not go with a search */
export function checkSearch({
  position,
  near,
}: {
  readonly position: boolean
  readonly near: boolean
}): void {
  if (!position && !near) return
  throw new Problem('filter_invalid', {
    detail: position
      ? 'Changes of a search cannot be subscribed to, so it has no position.'
      : 'A query has one search: _search or near.',
  })
}
