/** Reads one page of a query: total order, sealed cursor, and the extra row that shows if there is a next page. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { decryptFor, encryptFor } from '../../access/scope-services.ts'
import type { CountedPage } from '../../core/page.ts'
import { Problem } from '../../core/problem.ts'
import type { Json } from '../../core/work.ts'
import { eventsIn } from '../events/events.ts'
import { listDigest } from '../operation-helpers.ts'
import { type SelectedDocument, toDocument } from './document.ts'
import { COLLECTION_LIMITS } from './limits.ts'
import { requireChanges } from './live-query.ts'
import type { Distance } from './query/distance.ts'
import type { Filter, OrderKey, Path } from './query/filter.ts'
import type { Near } from './query/near.ts'
import { project, type Selection } from './query/order-and-selection.ts'
import { BY_SCORE, checkSearch, type ShownSearch } from './query/search.ts'
import { requireIndexes } from './query-indexes.ts'
import { expandDocuments, withExpanded } from './references/expand.ts'
import type { Expansion } from './references/expand-syntax.ts'
import { withRelated } from './references/related.ts'
import { inLine } from './scans.ts'
import { type Count, type Stored, valueAt } from './store.ts'
import { applyDeclaration } from './typed-query.ts'

export interface PageQuery {
  readonly filter: Filter
  /** May be empty; `id` is added. */
  readonly order: readonly OrderKey[]
  readonly selection: Selection | undefined
  readonly size: number
  readonly after: string | undefined
  readonly count: Count | undefined
  readonly expand?: readonly Expansion[]
  /** Gives the order: such a query has neither an order nor further pages. */
  readonly near?: Near | undefined
  readonly search?: ShownSearch | undefined
  /** As `near`. */
  readonly distance?: Distance | undefined
  /** Requests the position from which changes continue. */
  readonly position?: boolean
}

/** @throws Problem if the cursor does not fit, or a store rejects the query */
export async function readDocumentPage(
  scope: WorkspaceScope,
  name: string,
  request: PageQuery,
): Promise<CountedPage<SelectedDocument>> {
  const { filter, size, count, near, search, distance } = request
  if (near !== undefined) checkOnePage('near', request)
  if (distance !== undefined) checkOnePage('_distance', request)
  if (search !== undefined) checkSearch({ position: request.position === true, near: near !== undefined })
  const order = search?.byScore === true ? BY_SCORE : totalOrder(request.order)
  const digest = listDigest(name, filter, order, ...(search === undefined ? [] : [search.kind, search.text]))
  const after = request.after === undefined ? undefined : readCursor(scope, digest, request.after)
  const query = {
    ...{ filter, limit: size + 1 },
    // Its key of the score is the search itself.
    order: search?.byScore === true ? order.slice(1) : order,
    ...(after !== undefined && { after }),
    ...(count !== undefined && { count }),
    ...(near !== undefined && { near }),
    ...(search !== undefined && { search }),
    ...(distance !== undefined && { distance }),
  }
  // Before the documents are read: a change that they do not show yet comes after it, and one that they show may come again.
  const position = request.position === true ? await eventsIn(scope).position() : undefined
  const wanted = { selection: request.selection, expand: request.expand ?? [] }
  const { documents, rows, total, expanded, selection, approximate } = await withRelated(
    scope,
    { name, rights: ['read'], filter, wanted },
    async (collection, inside, bound, { selection, branches }) => {
      if (position !== undefined) requireChanges(collection)
      requireIndexes(collection, query)
      const selected = selection && { selected: [...selection.keys()] }
      const expand = branches.length === 0 ? undefined : { expand: { branches, documents: size } }
      const typed = applyDeclaration({ ...query, ...selected, ...expand, filter: bound }, collection.declared)
      const found = await inLine(inside, collection, typed, () =>
        collection.store.list(inside, collection, typed),
      )
      const documents = found.rows.slice(0, size)
      const expanded =
        branches.length === 0
          ? undefined
          : await expandDocuments(inside, { documents, branches, found: found.found })
      return { ...found, documents, expanded, selection }
    },
  )
  const last = documents.at(-1)
  const isOnly = near !== undefined || distance !== undefined
  const hasMore = rows.length > size && last !== undefined && !isOnly
  const shown = withShown(selection, [
    ...(search?.shown ?? []),
    ...(near === undefined ? [] : ['_similarity']),
    ...(distance === undefined ? [] : ['_distance']),
  ])
  const cursorValues = (stored: Stored) => order.map(({ path }) => (valueAt(stored, path) ?? null) as Json)
  return {
    data: documents.map((stored, index) =>
      withExpanded(project(toDocument(stored), shown), expanded?.[index]),
    ),
    page: {
      size,
      next: hasMore ? writeCursor(scope, digest, cursorValues(last)) : null,
      has_more: hasMore,
      ...(total !== undefined && { total }),
      ...(position !== undefined && { position }),
      ...(approximate && { approximate }),
    },
  }
}

/** A search by similarity says how similar each document is, whatever else is selected. */
const withShown = (selection: Selection | undefined, names: readonly string[]): Selection | undefined =>
  selection && new Map<string, Selection>([...selection, ...names.map((name) => [name, new Map()] as const)])

/** @throws Problem `filter_invalid` for a parameter that an order of one page does not go with */
function checkOnePage(
  kind: 'near' | '_distance',
  { order, after, count, position, near, search }: PageQuery,
): void {
  const given = {
    order: order.length > 0,
    'page[after]': after !== undefined,
    count: count !== undefined,
    position,
    near: kind === '_distance' && near !== undefined,
    '_score.desc': search?.byScore === true,
  }
  const [name] = Object.entries(given).find(([, isGiven]) => isGiven === true) ?? []
  if (name === undefined) return
  throw new Problem('filter_invalid', {
    detail: `${kind} gives the order of the documents, and has one page: it cannot be combined with ${name}.`,
  })
}

/** Reads some documents, and fewer if they are too large together: a `share` of them, until they fit or one is left. */
export async function readFitting<T>(
  size: number,
  read: (size: number) => Promise<T>,
  share: 2 | 4 = 2,
): Promise<T> {
  try {
    return await read(size)
  } catch (error) {
    if (size === 1 || !(error instanceof Problem && error.code === 'output_too_large')) throw error
    return readFitting(Math.ceil(size / share), read, share)
  }
}

/** A total order: each path once, ending at the first `id`, or with `id` added in the direction of the last key. */
function totalOrder(requested: readonly OrderKey[]): OrderKey[] {
  const order = requested.filter(
    ({ path }, index) => requested.findIndex((key) => same(key.path, path)) === index,
  )
  const at = order.findIndex(({ path }) => same(path, ['id']))
  if (at >= 0) return order.slice(0, at + 1)
  return [...order, { path: ['id'], descending: requested.at(-1)?.descending ?? false, nullsFirst: false }]
}

const same = (a: Path, b: Path) => a.length === b.length && a.every((name, index) => name === b[index])

const PURPOSE = 'cursor'
const PREFIX = 'c1_'

/** @throws Problem `cursor_too_large` if its values would not fit into a URL */
export function writeCursor(scope: WorkspaceScope, digest: string, values: readonly Json[]): string {
  const text =
    PREFIX + encryptFor(scope, PURPOSE, Buffer.from(JSON.stringify([digest, values]))).toString('base64url')
  if (text.length > COLLECTION_LIMITS.cursorCharsMax) {
    const detail = 'The values that the page is ordered by are too long to continue from.'
    throw new Problem('cursor_too_large', { detail })
  }
  return text
}

/** @throws Problem `cursor_invalid` if the text is not a cursor of this scope, `cursor_mismatch` if it is of another query */
export function readCursor(scope: WorkspaceScope, digest: string, text: string): readonly Json[] {
  const bytes = Buffer.from(text.slice(PREFIX.length), 'base64url')
  // base64url ignores unknown characters; only the exact text that was issued is accepted.
  if (!text.startsWith(PREFIX) || bytes.toString('base64url') !== text.slice(PREFIX.length))
    throw new Problem('cursor_invalid')
  const [digestOfCursor, values] = decrypted(scope, bytes)
  if (digestOfCursor !== digest) throw new Problem('cursor_mismatch')
  return values
}

function decrypted(scope: WorkspaceScope, bytes: Buffer): [string, Json[]] {
  try {
    return JSON.parse(decryptFor(scope, PURPOSE, bytes).toString())
  } catch (cause) {
    throw new Problem('cursor_invalid', { cause })
  }
}
