/** Documents of collections: create, get, list, query, update, delete. One round trip each. */

import Type from 'typebox'
import { isUuid } from '../../core/ids.ts'
import { LIMITS } from '../../core/limits.ts'
import { CountedPageOf, PageInput } from '../../core/page.ts'
import { READERS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { AnyName, Input, inWorkspace, Ref } from '../kinds.ts'
import { versionsOf } from './conditions.ts'
import { checkSelected } from './declared.ts'
import { CollectionName, Document, Fields, Shown, toDocument } from './fields.ts'
import { readBodyFilter } from './grammar/body.ts'
import { OPERATOR_NAMES } from './grammar/operators.ts'
import { readOrder, readSort } from './grammar/order.ts'
import { project, readSelection, readUnset } from './grammar/select.ts'
import { readFilters } from './grammar/url.ts'
import { pageOf } from './page.ts'
import { etagOf, missing } from './refusals.ts'
import { inCollection } from './stores.ts'
import { type Done, write } from './writes.ts'

const etag = (document: { _version: number }) => etagOf(document._version)

/** A document id as the store takes it. Any other text is the id of nothing. */
function documentId(id: string): string {
  if (!isUuid(id)) throw notFound('document')
  return id
}

/** The document that a change has left. */
function left({ stored }: Done): Document {
  if (stored === undefined) throw new TypeError('a document that was written is there')
  return toDocument(stored)
}

/** Fields as they are sent to a document's own address: an id among them must be that of the path. */
function fieldsFor(id: string, { id: named, ...fields }: Fields): Fields {
  if (named === undefined || named === id) return fields
  throw new Problem('validation_failed', { detail: 'id in the body differs from the one in the path.' })
}

export const createDocument = inWorkspace({
  name: 'collection.create',
  summary: 'Create a document',
  roles: READERS,
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
  run: async (scope, { name, document }) => left(await write(scope, name, { op: 'create', data: document })),
})

/** A tuple in words that every dialect of JSON Schema knows: agents are shown it. */
const PairOfTexts = Type.Unsafe<readonly [string, string]>(
  Type.Array(Type.String(), { minItems: 2, maxItems: 2 }),
)
const Cursor = Type.String({
  maxLength: LIMITS.cursorCharsMax,
  description: '`page.next` of the page before.',
})

export const Select = Type.Optional(Type.String({ description: '`a,b.c`; `id` is always shown.' }))
export const Order = Type.Optional(Type.String({ description: '`a.desc,b.asc.nullsfirst`' }))
export const Filters = Type.Optional(
  Type.Array(PairOfTexts, {
    description:
      `\`<field>=<operator>.<value>\`; operators: ${OPERATOR_NAMES.join(', ')}; \`not.\` before any;
      groups: \`or=(a.eq.1,and(b.gt.2,c.is.null))\`, \`and\`, \`not.or\`.`.replaceAll(/\s+/g, ' '),
  }),
)

const Count = Type.Unsafe<'exact' | 'estimated'>(
  Type.String({
    enum: ['exact', 'estimated'],
    description:
      'Asks for `page.total`, also as `Prefer: count=…`; `estimated` is quick where there are many.',
  }),
)

export const getDocument = inWorkspace({
  name: 'collection.get',
  summary: 'Read a document, or some of its fields',
  roles: READERS,
  input: Input({ name: CollectionName, id: Ref('document'), select: Select }),
  output: Type.Object({ document: Shown, version: Type.Integer() }),
  http: {
    method: 'GET',
    path: '/v1/collections/{name}/documents/{id}',
    replyBody: 'document',
    etag: ({ version }) => etagOf(version),
  },
  run: async (scope, { name, id, select }) => {
    const selection = readSelection(select, 'query')
    const selected = selection === undefined ? [] : [...selection.keys()]
    const [stored] = await inCollection(scope, name, ['read'], ({ store, collection }) => {
      checkSelected(selected, collection.declared)
      return store.read(scope, [{ collection, id: documentId(id) }])
    })
    if (stored === undefined) throw missing()
    return { document: project(toDocument(stored), selection), version: stored.version }
  },
})

export const listDocuments = inWorkspace({
  name: 'collection.list',
  summary: 'List documents: filtered, ordered, page by page; oldest first where no order is given',
  roles: READERS,
  input: Input({
    page_size: PageInput.page_size,
    page_after: Type.Optional(Cursor),
    name: CollectionName,
    select: Select,
    order: Order,
    filters: Filters,
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
        [Type.Record(AnyName, Type.Union([Type.Literal(1), Type.Literal(-1)])), Type.Array(Type.String())],
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

const conditions = {
  if_match: Type.Optional(Type.String({ maxLength: LIMITS.conditionCharsMax })),
  if_none_match: Type.Optional(Type.String({ maxLength: LIMITS.conditionCharsMax })),
}
const CONDITION_HEADERS = { if_match: 'if-match', if_none_match: 'if-none-match' } as const

export const updateDocument = inWorkspace({
  name: 'collection.update',
  summary: 'Set the named fields of a document; the others stay',
  roles: READERS,
  input: Input({
    name: CollectionName,
    id: Ref('document'),
    document: Fields,
    replace: Type.Optional(
      Type.Boolean({ description: 'The fields that are not named go, instead of staying.' }),
    ),
    unset: Type.Optional(Type.String({ description: '`a,b`: fields that go.' })),
    ...conditions,
  }),
  output: Document,
  http: {
    method: 'PUT',
    path: '/v1/collections/{name}/documents/{id}',
    body: 'document',
    headers: CONDITION_HEADERS,
    etag,
  },
  run: async (scope, { name, id, document, replace, unset, ...when }) => {
    const at = { id: documentId(id), ifVersions: versionsOf(when) }
    const data = fieldsFor(id, document)
    const gone = readUnset(unset)
    if (replace !== true) return left(await write(scope, name, { op: 'update', ...at, data, unset: gone }))
    if (gone.length > 0)
      throw new Problem('validation_failed', { detail: 'What is replaced has nothing to unset.' })
    return left(await write(scope, name, { op: 'replace', ...at, data }))
  },
})

export const patchDocument = inWorkspace({
  name: 'collection.patch',
  summary: 'Merge a patch into a document (RFC 7396): members are set, null takes one away, at any depth',
  roles: READERS,
  input: Input({ name: CollectionName, id: Ref('document'), document: Fields, ...conditions }),
  output: Document,
  http: {
    method: 'PATCH',
    path: '/v1/collections/{name}/documents/{id}',
    body: 'document',
    json: ['application/merge-patch+json', 'application/json'],
    headers: CONDITION_HEADERS,
    etag,
  },
  run: async (scope, { name, id, document, ...when }) => {
    const at = { id: documentId(id), ifVersions: versionsOf(when) }
    return left(await write(scope, name, { op: 'merge', ...at, data: fieldsFor(id, document) }))
  },
})

export const deleteDocument = inWorkspace({
  name: 'collection.delete',
  summary: 'Delete a document',
  roles: READERS,
  input: Input({ name: CollectionName, id: Ref('document'), ...conditions }),
  output: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
  http: {
    method: 'DELETE',
    path: '/v1/collections/{name}/documents/{id}',
    headers: CONDITION_HEADERS,
  },
  run: async (scope, { name, id, ...when }) => {
    await write(scope, name, { op: 'delete', id: documentId(id), ifVersions: versionsOf(when) })
    return { id, deleted: true as const }
  },
})
