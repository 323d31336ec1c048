/** Documents of collections: create, get, list, query, update, delete. One round trip each. */

import Type from 'typebox'
import { isUuid } from '../../core/ids.ts'
import { LIMITS } from '../../core/limits.ts'
import { CountedPageOf, PageInput } from '../../core/page.ts'
import { READERS, WRITERS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { Input, inWorkspace, Ref } from '../kinds.ts'
import { CollectionName, checkFields, Document, Fields, Shown, toDocument } from './fields.ts'
import { readBodyFilter } from './grammar/body.ts'
import { OPERATOR_NAMES } from './grammar/operators.ts'
import { readOrder, readSort } from './grammar/order.ts'
import { readSelection } from './grammar/select.ts'
import { readFilters } from './grammar/url.ts'
import { pageOf } from './page.ts'
import { storeOf } from './stores.ts'

const etag = (document: { _version: number }) => `"v${document._version}"`

/** A document id as the store takes it. Any other text is the id of nothing. */
function documentId(id: string): string {
  if (!isUuid(id)) throw notFound('document')
  return id
}

export const createDocument = inWorkspace({
  name: 'collection.create',
  summary: 'Create a document',
  roles: WRITERS,
  input: Input({ name: CollectionName, document: Fields }),
  output: Document,
  http: {
    method: 'POST',
    path: '/v1/collections/{name}/documents',
    body: 'document',
    status: () => 201,
    location: ({ id }, { name }) => `/v1/collections/${name}/documents/${id}`,
    etag,
  },
  run: async (scope, { name, document }) => {
    const content = checkFields(document)
    const { store, collection } = await storeOf(scope, name)
    return toDocument(await store.create(scope, collection, scope.uuid(), content))
  },
})

export const getDocument = inWorkspace({
  name: 'collection.get',
  summary: 'Read a document',
  roles: READERS,
  input: Input({ name: CollectionName, id: Ref('document') }),
  output: Document,
  http: { method: 'GET', path: '/v1/collections/{name}/documents/{id}', etag },
  run: async (scope, { name, id }) => {
    const { store, collection } = await storeOf(scope, name)
    const stored = await store.get(scope, collection, documentId(id))
    if (stored === undefined) throw notFound('document')
    return toDocument(stored)
  },
})

/** A tuple in words that every dialect of JSON Schema knows: agents are shown it. */
const PairOfTexts = Type.Unsafe<readonly [string, string]>(
  Type.Array(Type.String(), { minItems: 2, maxItems: 2 }),
)
const Cursor = Type.String({
  maxLength: LIMITS.cursorCharsMax,
  description: '`page.next` of the page before.',
})

const Count = Type.Unsafe<'exact' | 'estimated'>(
  Type.String({
    enum: ['exact', 'estimated'],
    description:
      'Asks for `page.total`, also as `Prefer: count=…`; `estimated` is quick where there are many.',
  }),
)

export const listDocuments = inWorkspace({
  name: 'collection.list',
  summary: 'List documents: filtered, ordered, page by page; oldest first where no order is given',
  roles: READERS,
  input: Input({
    page_size: PageInput.page_size,
    page_after: Type.Optional(Cursor),
    name: CollectionName,
    select: Type.Optional(Type.String({ description: '`a,b.c`; `id` is always shown.' })),
    order: Type.Optional(Type.String({ description: '`a.desc,b.asc.nullsfirst`' })),
    filters: Type.Optional(
      Type.Array(PairOfTexts, {
        description:
          `\`<field>=<operator>.<value>\`; operators: ${OPERATOR_NAMES.join(', ')}; \`not.\` before any;
          groups: \`or=(a.eq.1,and(b.gt.2,c.is.null))\`, \`and\`, \`not.or\`.`.replaceAll(/\s+/g, ' '),
      }),
    ),
    count: Type.Optional(Count),
  }),
  output: CountedPageOf(Shown),
  http: {
    method: 'GET',
    path: '/v1/collections/{name}/documents',
    rest: 'filters',
    preferences: ['count'],
  },
  run: (scope, { name, select, order, filters = [], page_size, page_after, count }) =>
    pageOf(scope, name, {
      filter: readFilters(filters),
      order: order === undefined ? [] : readOrder(order),
      selection: readSelection(select, 'query'),
      size: page_size ?? LIMITS.pageSizeDefault,
      after: page_after,
      count,
    }),
})

export const queryDocuments = inWorkspace({
  name: 'collection.query',
  summary: 'Query documents with a filter in JSON',
  roles: READERS,
  reads: true,
  input: Input({
    name: CollectionName,
    filter: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description: '`{"status": "open", "age": {"gte": 18}, "$or": [{…}, {…}], "$not": {…}}`',
      }),
    ),
    sort: Type.Optional(
      Type.Union(
        [
          Type.Record(Type.String(), Type.Union([Type.Literal(1), Type.Literal(-1)])),
          Type.Array(Type.String()),
        ],
        { description: '`{"age": -1}`, or `["age.desc.nullslast", "n"]` as in `order`' },
      ),
    ),
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: LIMITS.queryLimitMax, description: '50 where absent.' }),
    ),
    select: Type.Optional(Type.Union([Type.String(), Type.Array(Type.String())])),
    after: Type.Optional(Cursor),
    count: Type.Optional(Count),
  }),
  output: CountedPageOf(Shown),
  http: { method: 'POST', path: '/v1/collections/{name}/query', body: '*', preferences: ['count'] },
  run: (scope, { name, filter = {}, sort = {}, limit, select, after, count }) =>
    pageOf(scope, name, {
      filter: readBodyFilter(filter),
      order: readSort(sort),
      selection: readSelection(select, 'body'),
      size: limit ?? LIMITS.pageSizeDefault,
      after,
      count,
    }),
})

export const updateDocument = inWorkspace({
  name: 'collection.update',
  summary: 'Set the named fields of a document; the others stay',
  roles: WRITERS,
  input: Input({
    name: CollectionName,
    id: Ref('document'),
    document: Fields,
    if_match: Type.Optional(Type.String({ maxLength: 100 })),
  }),
  output: Document,
  http: {
    method: 'PUT',
    path: '/v1/collections/{name}/documents/{id}',
    body: 'document',
    headers: { if_match: 'if-match' },
    etag,
  },
  // An empty object changes nothing and makes no version (data-plane §2.4).
  run: async (scope, { name, id, document, if_match }) => {
    const { id: named, ...fields } = document
    if (named !== undefined && named !== id) {
      throw new Problem('validation_failed', { detail: 'id in the body differs from the one in the path.' })
    }
    const content = checkFields(fields)
    const version = if_match === undefined || if_match === '*' ? undefined : versionOf(if_match)
    const { store, collection } = await storeOf(scope, name)
    const updated = await store.update(scope, collection, documentId(id), content, version)
    if (updated === undefined) throw notFound('document')
    if ('stored' in updated) return toDocument(updated.stored)
    throw whyNot(updated)
  },
})

function whyNot(updated: { staleAt: number } | { bytes: number }): Problem {
  if ('bytes' in updated)
    return new Problem('body_too_large', { detail: `The document would have ${updated.bytes} bytes.` })
  return new Problem('precondition_failed', {
    detail: `The document is at version ${updated.staleAt}.`,
    headers: { etag: `"v${updated.staleAt}"` },
  })
}

/** Strong tags only (RFC 9110 §13.1.1): a tag that is not one of ours matches no version. */
function versionOf(tag: string): number {
  const [, digits] = /^"v([0-9]{1,15})"$/.exec(tag) ?? []
  return digits === undefined ? 0 : Number(digits)
}

export const deleteDocument = inWorkspace({
  name: 'collection.delete',
  summary: 'Delete a document',
  roles: WRITERS,
  input: Input({ name: CollectionName, id: Ref('document') }),
  output: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
  http: { method: 'DELETE', path: '/v1/collections/{name}/documents/{id}' },
  run: async (scope, { name, id }) => {
    const { store, collection } = await storeOf(scope, name)
    if (!(await store.delete(scope, collection, documentId(id)))) throw notFound('document')
    return { id, deleted: true as const }
  },
})
