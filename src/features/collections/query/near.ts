/** Search by similarity: `title=near.mlik` finds the documents whose text is most like another, also with typos. */

import { isObject } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { readPath } from './syntax.ts'

/** The field of a declaration with a trigram index, and the text that its values are compared with. */
export interface Near {
  readonly field: string
  readonly text: string
}

const OPERATOR = 'near.'

/** Takes the search out of the filters of a URL. @throws Problem `filter_invalid` if there are two */
export function takeNear(filters: readonly (readonly [name: string, value: string])[]): {
  readonly near?: Near
  readonly filters: readonly (readonly [string, string])[]
} {
  const searches = filters.filter(([, value]) => value.startsWith(OPERATOR))
  const [search, ...others] = searches
  if (search === undefined) return { filters }
  const [field, value] = search
  const near = nearOf(field, value.slice(OPERATOR.length), others.length)
  return { near, filters: filters.filter((filter) => filter !== search) }
}

/** Takes the search out of a filter in JSON, where it is a condition of a field: `{"title": {"near": "mlik"}}`. */
export function takeBodyNear(filter: Readonly<Record<string, unknown>>): {
  readonly near?: Near
  readonly filter: Readonly<Record<string, unknown>>
} {
  const searches = Object.entries(filter).filter(([, test]) => isObject(test) && Object.hasOwn(test, 'near'))
  const [search, ...others] = searches
  if (search === undefined) return { filter }
  const [field, test] = search
  const { near: text, ...rest } = test as Readonly<Record<string, unknown>>
  const near = nearOf(field, text, others.length)
  const { [field]: _search, ...without } = filter
  return { near, filter: Object.keys(rest).length === 0 ? without : { ...without, [field]: rest } }
}

function nearOf(name: string, text: unknown, others: number): Near {
  const [field, ...below] = readPath(name, { code: 'filter_invalid', in: 'query', name })
  if (below.length > 0) throw invalid(name, 'near takes a field of the document itself')
  const most = COLLECTION_LIMITS.nearCharsMax
  if (others > 0) throw invalid(field, 'near stands once in a query: it gives the order of the documents')
  if (typeof text !== 'string' || text.trim() === '') throw invalid(field, 'near needs a text')
  if (text.length > most) throw invalid(field, `near takes a text of at most ${most} characters`)
  return { field, text }
}

const invalid = (field: string, detail: string) =>
  new Problem('filter_invalid', {
    detail: `${field.slice(0, 100)}: ${detail}.`,
    hint: 'Write `title=near.mlik`.',
  })
