/** Operations on collections and their documents: create, get, list, query, update, delete. One round trip each. */

import Type, { type Static } from 'typebox'
import { Deleted, Input, Ref, workspaceOperation } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { tagsOf } from '../../core/etag.ts'
import { isUuid } from '../../core/ids.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { CountedPageOf, PageInput } from '../../core/page.ts'
import { DATA_ROLES } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { ownId, updateBy } from './batch-operations.ts'
import type { WantedChange } from './check-changes.ts'
import { CollectionName, Document, Fields, namesInBoth, SelectedDocument, toDocument } from './document.ts'
import { COLLECTION_LIMITS } from './limits.ts'
import { OPERATORS_TYPE, OperatorsBody, readOperators } from './operators.ts'
import { readDocumentPage } from './page.ts'
import { readBodyFilter } from './query/body.ts'
import { takeBodyDistance, takeDistance } from './query/distance.ts'
import { ALL, BY_ID } from './query/filter.ts'
import { takeBodyNear, takeNear } from './query/near.ts'
import { OPERATOR_NAMES } from './query/operators.ts'
import {
  project,
  readFieldNames,
  readOrder,
  readSelection,
  readSort,
  SORT_FORMS,
} from './query/order-and-selection.ts'
import { takeBodySearch, takeSearch, takeShown } from './query/search.ts'
import { readFilters } from './query/url.ts'
import { expandDocuments, withExpanded } from './references/expand.ts'
import { readBodyExpand, readExpand } from './references/expand-syntax.ts'
import { withRelated } from './references/related.ts'
import { oneOf } from './references/targets.ts'
import {
  type Branch,
  type BranchFound,
  type Collection,
  documentNotFound,
  etagOf,
  type Stored,
  type Written,
} from './store.ts'
import { checkSelected } from './typed-query.ts'
import { write } from './write.ts'

/** Checks the form of a document id. @throws Problem `not_found` */
function documentId(id: string): string {
  if (!isUuid(id)) throw notFound('document')
  return id
}

/** A document after a change, which is the whole reply. */
const Changed = Type.Object({ document: Document, created: Type.Boolean() })
type Changed = Static<typeof Changed>

function changedDocument({ stored, created }: Written): Changed {
  if (stored === undefined) throw new TypeError('a write must return the document')
  return { document: toDocument(stored), created }
}

/** Makes one change. @returns the document after it, which the claim of the request keeps */
async function change(scope: WorkspaceScope, wanted: WantedChange): Promise<Changed> {
  const { completion } = scope
  const once = completion && {
    keep: ([written]: readonly Written[]) => completion.keep(written && changedDocument(written)),
    effect: completion.marked(0),
  }
  return changedDocument(await write(scope, wanted, { once }))
}

/** How a changed document is sent. */
const REPLY = {
  replyBody: 'document',
  etag: ({ document }: Changed) => etagOf(document._version),
} as const

/** The address of a document that was created. */
const createdAt = ({ created, document: { id } }: Changed, { name }: Readonly<Record<string, unknown>>) =>
  created ? `/v1/collections/${name}/documents/${id}` : undefined

/**
 * The caller's fields in a body that may be a document as it was read, which has a `_version`: a condition like If-Match. The
 * other members of the platform are ignored then, since at that version they are the stored ones. The id is that of the path.
 */
function fieldsFor(id: string, document: Fields): { readonly data: Fields; readonly version?: number } {
  const { id: named, _version, ...fields } = document
  if (named !== undefined && named !== id)
    throw new Problem('validation_failed', { detail: 'id in the body differs from the one in the path.' })
  if (_version === undefined) return { data: fields }
  if (Number.isSafeInteger(_version)) {
    const own = Object.entries(fields).filter(([name]) => !ANSWERED.has(name))
    return { data: Object.fromEntries(own), version: Number(_version) }
  }
  const errors = [{ in: 'body', name: '_version', pointer: '/_version', detail: 'is not a version' }] as const
  throw new Problem('validation_failed', { detail: '_version is not a version.', errors })
}

/** Members that a list or a read adds to a document. */
const ANSWERED: ReadonlySet<string> = new Set([
  ...['_created_at', '_updated_at', '_owner', '_warnings', '_expand'],
  ...['_similarity', '_distance', '_score', '_highlight'],
])

/** The versions that both the headers and the body accept. @returns undefined for any */
function versionsFor(when: Conditions, version: number | undefined): readonly number[] | undefined {
  const versions = versionsOf(when)
  if (version === undefined) return versions
  return versions === undefined || versions.includes(version) ? [version] : []
}

export const createDocument = workspaceOperation({
  name: 'collection.create',
  summary: 'Create a document, or with `upsert` update the one that has the same values in unique fields',
  roles: DATA_ROLES,
  input: Input({
    name: CollectionName,
    document: Fields,
    upsert: Type.Optional(
      Type.String({
        description:
          'Fields that are declared unique together, such as `email`: a document with the same values gets the given fields, and keeps the others.',
      }),
    ),
  }),
  output: Changed,
  http: {
    method: 'POST',
    path: '/v1/collections/{name}/documents',
    body: 'document',
    status: ({ created }) => (created === false ? 200 : 201),
    also: [200],
    location: createdAt,
    ...REPLY,
  },
  run: (scope, { name, document, upsert }) => {
    const on = { collection: name, id: scope.uuid(), data: document }
    if (upsert === undefined) return change(scope, { op: 'create', ...on })
    return change(scope, { op: 'upsert', ...on, on: readFieldNames(upsert, 'upsert') })
  },
})

/** A tuple, expressed with keywords that every dialect of JSON Schema has. */
const PairOfTexts = Type.Unsafe<readonly [string, string]>(
  Type.Array(Type.String(), { minItems: 2, maxItems: 2 }),
)
export const Cursor = Type.String({
  maxLength: COLLECTION_LIMITS.cursorCharsMax,
  description: '`page.next` of the previous page.',
})

export const Select = Type.Optional(
  Type.String({
    description:
      'Fields to return, such as `a,b.c`; `id` is always returned. `customer.name` is a field of the document of a reference, returned in `_expand`.',
  }),
)
export const Order = Type.Optional(
  Type.String({
    description:
      'Sort keys, such as `a.desc,b.asc.nullsfirst`; with a search also `_score.desc`, with `geo` also `_distance(52.52,13.405)`.',
  }),
)
const EXPAND =
  'Documents at the other end of references to return in `_expand`, such as `customer(name),comments(body;order=_created_at.desc;size=5)`, or their number: `comments(count)`.'
const ExpandText = Type.String({ maxLength: COLLECTION_LIMITS.expandCharsMax, description: EXPAND })
const Expand = Type.Optional(ExpandText)
export const Filters = Type.Optional(
  Type.Array(PairOfTexts, {
    description:
      `Filters, each \`<field>=<operator>.<value>\`. Operators: ${OPERATOR_NAMES.join(', ')}; \`not.\` before one negates it.
      Groups: \`or=(a.eq.1,and(b.gt.2,c.is.null))\`, \`and\`, \`not.or\`. Through references: \`customer.plan=eq.pro\`, \`comments=some.(status.eq.open)\`,
      \`comments=none.()\`. Search by similarity: \`title=near.mlik\`; by words: \`_search=wfts.fresh milk -skim\`.`.replaceAll(
        /\s+/g,
        ' ',
      ),
  }),
)

const Count = Type.Unsafe<'exact' | 'estimated'>(
  Type.String({
    enum: ['exact', 'estimated'],
    description:
      'Kind of count to return as `page.total`, also requested by `Prefer: count=…`; `estimated` is fast for many documents.',
  }),
)

const Position = Type.Boolean({
  description:
    'True if `page.position` is returned, from which a subscription to the collection continues without missing a change.',
})

export const getDocument = workspaceOperation({
  name: 'collection.get',
  summary: 'Read a document, or some of its fields',
  roles: DATA_ROLES,
  input: Input({ name: CollectionName, id: Ref('document'), select: Select, expand: Expand }),
  output: Type.Object({ document: SelectedDocument, version: Type.Integer() }),
  http: {
    method: 'GET',
    path: '/v1/collections/{name}/documents/{id}',
    replyBody: 'document',
    // The version says nothing of other documents.
    etag: ({ document, version }) => ('_expand' in document ? undefined : etagOf(version)),
  },
  run: async (scope, { name, id, select, expand }) => {
    const wanted = { selection: readSelection(select, 'query'), expand: readExpand(expand) }
    const reading = { name, rights: ['read'], filter: ALL, wanted } as const
    return withRelated(scope, reading, async (collection, inside, _, { selection, branches }) => {
      checkSelected([...(selection?.keys() ?? [])], collection.declared)
      const of = documentId(id)
      const { stored, found } = await (branches.length === 0
        ? readOne(inside, collection, of)
        : readExpanded(inside, collection, { id: of, branches }))
      if (stored === undefined) throw documentNotFound()
      const document = project(toDocument(stored), selection)
      if (branches.length === 0) return { document, version: stored.version }
      const [expanded] = await expandDocuments(inside, { documents: [stored], branches, found })
      return { document: withExpanded(document, expanded), version: stored.version }
    })
  },
})

interface OneFound {
  readonly stored: Stored | undefined
  readonly found?: readonly BranchFound[] | undefined
}

async function readOne(scope: WorkspaceScope, collection: Collection, id: string): Promise<OneFound> {
  const [stored] = await collection.store.read(scope, [{ collection, id }])
  return { stored }
}

/** As a list of one document, since a store finds its branches with that. */
async function readExpanded(
  scope: WorkspaceScope,
  collection: Collection,
  { id, branches }: { readonly id: string; readonly branches: readonly Branch[] },
): Promise<OneFound> {
  const query = { filter: oneOf('id', [id]), order: BY_ID, limit: 1, expand: { branches, documents: 1 } }
  const { rows, found } = await collection.store.list(scope, collection, query)
  return { stored: rows[0], found }
}

export const listDocuments = workspaceOperation({
  name: 'collection.list',
  summary: 'List documents page by page, filtered and sorted; by default, oldest first',
  roles: DATA_ROLES,
  input: Input({
    page_size: PageInput.page_size,
    page_after: Type.Optional(Cursor),
    page_position: Type.Optional(Position),
    name: CollectionName,
    select: Select,
    order: Order,
    expand: Expand,
    filters: Filters,
    count: Type.Optional(Count),
  }),
  output: CountedPageOf(SelectedDocument),
  http: {
    method: 'GET',
    path: '/v1/collections/{name}/documents',
    rest: 'filters',
    preferences: ['count'],
  },
  run: (
    scope,
    { name, select, order, expand, filters = [], page_size, page_after, page_position, count },
  ) => {
    const { search, filters: others } = takeSearch(filters)
    const far = takeDistance(others, order)
    const { near, filters: rest } = takeNear(far.filters)
    const shown = takeShown(search, { order: far.order, select })
    return readDocumentPage(scope, name, {
      ...{ near, search: shown.search, distance: far.distance, filter: readFilters(rest, { joins: true }) },
      order: shown.order === undefined ? [] : readOrder(shown.order),
      selection: readSelection(shown.select, 'query'),
      size: page_size ?? CORE_LIMITS.pageItemsDefault,
      after: page_after,
      count,
      expand: readExpand(expand),
      position: page_position === true,
    })
  },
})

export const queryDocuments = workspaceOperation({
  name: 'collection.query',
  summary: 'Query documents with a filter in JSON',
  roles: DATA_ROLES,
  reads: true,
  input: Input({
    name: CollectionName,
    filter: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description:
          'Filter, such as `{"status": "open", "age": {"gte": 18}, "$or": [{…}, {…}], "$not": {…}}`. Through references: `{"customer.plan": "pro", "comments": {"some": {…}}}`.',
      }),
    ),
    sort: Type.Optional(
      Type.Union([...SORT_FORMS], {
        description: 'Sort keys: `{"age": -1}`, or `["age.desc.nullslast", "n"]` as in `order`.',
      }),
    ),
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: COLLECTION_LIMITS.queryDocumentsMax,
        description: 'Maximum number of documents. Default: 50.',
      }),
    ),
    select: Type.Optional(Type.Union([Type.String(), Type.Array(Type.String())])),
    expand: Type.Optional(
      Type.Union([ExpandText, Type.Record(Type.String(), Type.Unknown())], {
        description: `${EXPAND} As an object: \`{"comments": {"select": ["body"], "filter": {"visible": true}, "sort": {"n": -1}, "limit": 5}}\`.`,
      }),
    ),
    after: Type.Optional(Cursor),
    count: Type.Optional(Count),
    position: Type.Optional(Position),
  }),
  output: CountedPageOf(SelectedDocument),
  http: { method: 'POST', path: '/v1/collections/{name}/query', body: '*', preferences: ['count'] },
  run: (scope, { name, filter = {}, sort = {}, limit, select, expand, after, count, position }) => {
    const { search, filter: others } = takeBodySearch(filter)
    const far = takeBodyDistance(others, sort)
    const { near, filter: rest } = takeBodyNear(far.filters)
    const shown = takeShown(search, { order: far.order, select })
    return readDocumentPage(scope, name, {
      ...{
        near,
        search: shown.search,
        distance: far.distance,
        filter: readBodyFilter(rest, { joins: true }),
      },
      order: readSort(shown.order ?? {}),
      selection: readSelection(shown.select, 'body'),
      size: limit ?? CORE_LIMITS.pageItemsDefault,
      after,
      count,
      expand: readBodyExpand(expand),
      position: position === true,
    })
  },
})

const conditions = {
  if_match: Type.Optional(Type.String({ maxLength: COLLECTION_LIMITS.conditionCharsMax })),
  if_none_match: Type.Optional(
    Type.String({
      maxLength: COLLECTION_LIMITS.conditionCharsMax,
      description:
        'Tags that the document must not have, or `*` if it must not exist: PUT creates it under this id.',
    }),
  ),
}
const CONDITION_HEADERS = { if_match: 'if-match', if_none_match: 'if-none-match' } as const

export const updateDocument = workspaceOperation({
  name: 'collection.update',
  summary:
    'Set the given fields of a document; other fields do not change; with `If-None-Match: *`, create it under this id',
  roles: DATA_ROLES,
  input: Input({
    name: CollectionName,
    id: Ref('document'),
    document: Fields,
    replace: Type.Optional(
      Type.Boolean({ description: 'True if fields that are not given are removed. Default: `false`.' }),
    ),
    unset: Type.Optional(Type.String({ description: 'Fields to remove, such as `a,b`.' })),
    ...conditions,
  }),
  output: Changed,
  http: {
    method: 'PUT',
    path: '/v1/collections/{name}/documents/{id}',
    body: 'document',
    headers: CONDITION_HEADERS,
    takesKey: true,
    status: ({ created }) => (created ? 201 : 200),
    also: [201],
    location: createdAt,
    ...REPLY,
  },
  run: (scope, { name, id, document, replace, unset, ...when }) => {
    const { data, version } = fieldsFor(id, document)
    const removed = readFieldNames(unset, 'unset')
    if (isAnyTag(when.if_none_match)) {
      if (removed.length > 0 || version !== undefined || when.if_match !== undefined) throw existingOnly()
      return change(scope, { op: 'create', collection: name, ...ownId(id), data })
    }
    const on = { collection: name, id: documentId(id), ifVersions: versionsFor(when, version) }
    const [both] = namesInBoth(data, removed)
    if (both !== undefined)
      throw new Problem('validation_failed', {
        detail: `\`unset\` names ${both.slice(0, 50)}, which the document has.`,
      })
    if (replace !== true) return change(scope, { op: 'update', ...on, data, unset: removed })
    if (removed.length > 0)
      throw new Problem('validation_failed', {
        detail: '`unset` cannot be combined with a full replacement.',
      })
    return change(scope, { op: 'replace', ...on, data })
  },
})

const existingOnly = () =>
  new Problem('validation_failed', {
    detail:
      '`If-Match`, `_version` and `unset` are of a document that exists, and `If-None-Match: *` is of one that does not.',
  })

export const patchDocument = workspaceOperation({
  name: 'collection.patch',
  summary:
    'Merge a patch into a document (RFC 7396): members are replaced, and `null` removes a member, at any depth; or apply operators',
  roles: DATA_ROLES,
  input: Input({
    name: CollectionName,
    id: Ref('document'),
    document: Type.Optional(Fields),
    operators: Type.Optional(OperatorsBody),
    ...conditions,
  }),
  output: Changed,
  http: {
    method: 'PATCH',
    path: '/v1/collections/{name}/documents/{id}',
    body: 'document',
    json: ['application/merge-patch+json', 'application/json'],
    otherJson: { [OPERATORS_TYPE]: 'operators' },
    headers: CONDITION_HEADERS,
    ...REPLY,
  },
  run: (scope, { name, id, document, operators, ...when }) => {
    if ((document === undefined) === (operators === undefined)) throw needsOne()
    const { data, version } = fieldsFor(id, document ?? {})
    const on = { collection: name, id: documentId(id), ifVersions: versionsFor(when, version) }
    if (operators === undefined) return change(scope, { op: 'merge', ...on, data })
    return change(scope, updateBy(on, readOperators(operators)))
  },
})

const needsOne = () =>
  new Problem('validation_failed', {
    detail: 'A change takes either a patch of the document or operators.',
    errors: [{ in: 'body', name: 'document', pointer: '', detail: 'is required' }],
  })

export const deleteDocument = workspaceOperation({
  name: 'collection.delete',
  summary: 'Delete a document',
  roles: DATA_ROLES,
  input: Input({ name: CollectionName, id: Ref('document'), ...conditions }),
  output: Deleted,
  http: {
    method: 'DELETE',
    path: '/v1/collections/{name}/documents/{id}',
    headers: CONDITION_HEADERS,
  },
  run: async (scope, { name, id, ...when }) => {
    const on = { collection: name, id: documentId(id), ifVersions: versionsOf(when) }
    const output = { id, deleted: true as const }
    const { completion } = scope
    const once = completion && { keep: () => completion.keep(output), effect: completion.marked(0) }
    await write(scope, { op: 'delete', ...on }, { once })
    return output
  },
})

interface Conditions {
  readonly if_match?: string | undefined
  readonly if_none_match?: string | undefined
}

/**
 * Accepts strong tags only; a tag of another form matches no version.
 * @returns undefined for any version
 */
function versionsOf({ if_match, if_none_match }: Conditions): readonly number[] | undefined {
  // `If-None-Match: *` excludes existing documents, and only those can be changed.
  if (isAnyTag(if_none_match)) return []
  const tags = if_match === undefined ? '*' : tagsOf(if_match)
  return tags === '*' ? undefined : tags.flatMap(versionOf)
}

const isAnyTag = (header: string | undefined): boolean => header !== undefined && tagsOf(header) === '*'

function versionOf(tag: string): number[] {
  const [, digits] = /^"v([0-9]{1,15})"$/.exec(tag) ?? []
  return digits === undefined ? [] : [Number(digits)]
}
