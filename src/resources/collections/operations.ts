/** Documents of collections: create, get, list, update, delete. One round trip each. */

import Type from 'typebox'
import { isUuid } from '../../core/ids.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../core/page.ts'
import { READERS, WRITERS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { Input, inWorkspace, Ref } from '../kinds.ts'
import { CollectionName, checkFields, Document, Fields } from './fields.ts'
import type { Stored } from './store.ts'
import { storeOf } from './stores.ts'

type Shown = { id: string; _created_at: string; _updated_at: string; _version: number } & Fields

function toDocument({ id, fields, version, created_at, updated_at, warnings }: Stored): Shown {
  const ours = { _created_at: created_at, _updated_at: updated_at, _version: version }
  return { id, ...fields, ...ours, ...(warnings !== undefined && { _warnings: warnings }) }
}

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

export const listDocuments = inWorkspace({
  name: 'collection.list',
  summary: 'List documents, oldest first',
  roles: READERS,
  input: Input({ ...PageInput, name: CollectionName }),
  output: PageOf(Document),
  http: { method: 'GET', path: '/v1/collections/{name}/documents' },
  run: async (scope, input) => {
    const { after, limit } = pageBounds(input)
    if (after !== '' && !isUuid(after)) throw new Problem('cursor_invalid')
    const { store, collection } = await storeOf(scope, input.name)
    const rows = await store.list(scope, collection, {
      filter: { kind: 'all', of: [] },
      order: [{ path: ['id'], descending: false, nullsFirst: false }],
      ...(after !== '' && { after: [after] }),
      limit,
    })
    return pageFrom(input, rows.map(toDocument))
  },
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
