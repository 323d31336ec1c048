/** Documents of collections: create, get, list, update, delete. One round trip each. */

import Type from 'typebox'
import { isUuid } from '../core/ids.ts'
import { LIMITS } from '../core/limits.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../core/page.ts'
import { READERS, WRITERS } from '../core/policy.ts'
import { notFound, Problem } from '../core/problem.ts'
import { sql } from '../platform/pg/sql.ts'
import { CollectionName, checkFields, Document, Fields } from './documents.ts'
import { Input, inWorkspace, Ref } from './kinds.ts'

interface DocumentRow {
  readonly id: string
  readonly data: Fields
  readonly version: number
  readonly created_at: string
  readonly updated_at: string
}
type Stored = { id: string; _created_at: string; _updated_at: string; _version: number } & Fields

const COLUMNS = sql`id, data, version, created_at, updated_at`
const NIL = '00000000-0000-0000-0000-000000000000'

function toDocument(row: DocumentRow): Stored {
  return {
    id: row.id,
    ...row.data,
    _created_at: row.created_at,
    _updated_at: row.updated_at,
    _version: row.version,
  }
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
  // The id of a retried activity is the same one: the conflict arm reads back what the first attempt stored.
  run: async (scope, { name, document }) => {
    const row = await scope.row<DocumentRow>(sql`
      insert into documents (collection, id, data) values (${name}, ${scope.uuid()}, ${checkFields(document)})
      on conflict (tenant_id, workspace_id, collection, id) do update set id = excluded.id
      returning ${COLUMNS}`)
    if (row === undefined) throw new Problem('internal')
    return toDocument(row)
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
    const row = await scope.row<DocumentRow>(
      sql`select ${COLUMNS} from documents where collection = ${name} and id = ${documentId(id)}`,
    )
    if (row === undefined) throw notFound('document')
    return toDocument(row)
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
    const rows = await scope.rows<DocumentRow>(sql`
      select ${COLUMNS} from documents
      where collection = ${input.name} and id > ${after || NIL}
      order by id limit ${limit}`)
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
    const text = checkFields(fields)
    const version = if_match === undefined || if_match === '*' ? null : versionOf(if_match)
    const [[row] = [], [current] = []] = await scope.batch(
      sql`update documents set
          data = data || ${text}::jsonb,
          version = case when ${text}::jsonb = '{}' then version else version + 1 end,
          updated_at = case when ${text}::jsonb = '{}' then updated_at else now() end
        where collection = ${name} and id = ${documentId(id)} and (${version}::bigint is null or version = ${version})
          and octet_length((data || ${text}::jsonb)::text) <= ${LIMITS.documentBytesMax}
        returning ${COLUMNS}`,
      sql`select version, octet_length((data || ${text}::jsonb)::text) as bytes from documents
        where collection = ${name} and id = ${id}`,
    )
    if (row !== undefined) return toDocument(row as unknown as DocumentRow)
    if (current === undefined) throw notFound('document')
    if (Number(current['bytes']) > LIMITS.documentBytesMax) {
      throw new Problem('body_too_large', { detail: `The document would have ${current['bytes']} bytes.` })
    }
    throw new Problem('precondition_failed', {
      detail: `The document is at version ${current['version']}.`,
      headers: { etag: `"v${current['version']}"` },
    })
  },
})

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
    const row = await scope.row<{ id: string }>(
      sql`delete from documents where collection = ${name} and id = ${documentId(id)} returning id`,
    )
    if (row === undefined) throw notFound('document')
    return { id: row.id, deleted: true as const }
  },
})
