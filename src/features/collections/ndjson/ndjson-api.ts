/** Operations that import and export collections as streams of NDJSON and CSV (docs/import-export.md). */

import { createHash } from 'node:crypto'
import Type from 'typebox'
import { firstUse } from '../../../access/idempotency.ts'
import { ACCESS_LIMITS } from '../../../access/limits.ts'
import { Input, workspaceOperation } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { type ByteReply, Bytes } from '../../../core/bytes.ts'
import { component } from '../../../core/components/component.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { DATA_ROLES } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { download, NDJSON } from '../../operation-helpers.ts'
import { CsvInput } from '../csv/columns.ts'
import { type CsvWriter, csvWriter } from '../csv/write-csv.ts'
import { CollectionName, type SelectedDocument } from '../document.ts'
import { Filters, Order, Select } from '../documents-api.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { type PageQuery, readDocumentPage, readFitting } from '../page.ts'
import { readFieldNames, readOrder, readSelection } from '../query/order-and-selection.ts'
import { takeSearch } from '../query/search.ts'
import { readFilters } from '../query/url.ts'
import { withCollection } from '../resolve-store.ts'
import { csvEntries, ndjsonEntries, seeded } from './entries.ts'
import { importLines } from './import.ts'
import type { StoreOptions } from './store-entries.ts'

/** Media types in use for NDJSON; a JSON document is one line, and a text may be several. */
const MEDIA_TYPES: readonly string[] = [
  ...[NDJSON, 'application/ndjson', 'application/jsonl', 'application/x-jsonlines'],
  ...['application/json', 'text/plain', 'application/octet-stream'],
]

const CSV = 'text/csv'

const Header = (description: string) =>
  Type.Optional(Type.String({ maxLength: COLLECTION_LIMITS.conditionCharsMax, description }))

export const importDocuments = workspaceOperation({
  name: 'collection.import',
  summary: 'Import documents from NDJSON or CSV; by default, documents whose id exists are left unchanged',
  roles: DATA_ROLES,
  input: Input({
    name: CollectionName,
    content: Bytes(
      'One JSON object per line; or CSV, whose header names the fields. An `id` is kept, and `_owner` for service keys; other system fields of an export are ignored.',
    ),
    on_error: Type.Optional(
      Type.Unsafe<'continue' | 'stop'>(
        Type.String({
          enum: ['continue', 'stop'],
          description:
            'Action if a line fails. `continue`: import the other lines; `stop`: end the import and return the error. Default: `continue`.',
        }),
      ),
    ),
    mode: Type.Optional(
      Type.Enum(['create', 'upsert', 'replace'], {
        description:
          'Action on a document that exists. `create`: leave it; `upsert`: set the fields of the line; `replace`: set them and remove all others. Default: `create`.',
      }),
    ),
    on: Type.Optional(
      Type.String({
        description:
          'Fields that are declared unique, such as `email`, by which `upsert` finds the document. Default: its id.',
      }),
    ),
    dry_run: Type.Optional(
      Type.Boolean({
        description:
          'True if each chunk is stored and taken back, to see which lines would fail. Default: `false`.',
      }),
    ),
    quiet: Type.Optional(
      Type.Boolean({
        description:
          'True if there are no change events, so that no trigger starts; only for service keys. Default: `false`.',
      }),
    ),
    keep: Type.Optional(
      Type.Literal('system', {
        description:
          'Keeping of `_version`, `_created_at`, `_updated_at` and `_owner` of each line; only for service keys, in mode `create` with `quiet`.',
      }),
    ),
    idempotency_key: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: ACCESS_LIMITS.idempotencyKeyCharsMax,
        description:
          'Key from which lines without an id derive their ids, together with the line number, so that the same file may be sent again.',
      }),
    ),
    csv_header: Type.Optional(
      Type.String({
        description: 'Names of the columns of CSV that has no header, such as `name,address.city`.',
      }),
    ),
    ...CsvInput,
    content_type: Header(`Media type: ${MEDIA_TYPES.join(', ')}; ${CSV} for CSV.`),
    content_encoding: Header('Content coding: only `identity`; compressed content is refused.'),
  }),
  output: component(
    'ImportResult',
    Type.Object({
      lines: Type.Integer({ description: 'Number of lines processed, including blank lines.' }),
      created: Type.Integer(),
      existing: Type.Integer({
        description: 'Number of documents whose id existed already, and which were left.',
      }),
      updated: Type.Optional(
        Type.Integer({
          description:
            'Number of documents that existed and have the values of their lines now; absent in mode `create`.',
        }),
      ),
      failed: Type.Integer(),
      errors: Type.Array(
        Type.Object({
          line: Type.Integer({ minimum: 1 }),
          code: Type.String(),
          detail: Type.String(),
          pointer: Type.Optional(Type.String()),
          column: Type.Optional(Type.String({ description: 'Name of the column, for CSV.' })),
        }),
        { description: `Errors of the first ${CORE_LIMITS.diagnosticsReturnedMax} lines that failed.` },
      ),
    }),
    {
      lines: 100,
      created: 99,
      existing: 0,
      failed: 1,
      errors: [{ line: 17, code: 'schema_violation', detail: 'court_id is required', pointer: '/court_id' }],
    },
  ),
  http: {
    method: 'POST',
    path: '/v1/collections/{name}/import',
    body: 'content',
    takes: 'bytes',
    bytesType: NDJSON,
    headers: {
      idempotency_key: 'idempotency-key',
      content_type: 'content-type',
      content_encoding: 'content-encoding',
    },
  },
  run: async (scope, { name, content, idempotency_key: key, ...options }) => {
    const storing = storeOptionsOf(name, options)
    const isCsv = checkMediaType(options) === CSV
    const idOf =
      key === undefined
        ? () => scope.uuid()
        : seeded(await firstUse(scope, digestOf('import', scope.actor.subject, name, key)))
    const read = isCsv ? csvEntries(idOf, options) : ndjsonEntries(idOf)
    return importLines(scope, { ...storing, read }, content.chunks)
  },
})

interface StoreParameters {
  readonly on_error?: 'continue' | 'stop'
  readonly mode?: 'create' | 'upsert' | 'replace'
  readonly on?: string
  readonly dry_run?: boolean
  readonly quiet?: boolean
  readonly keep?: 'system'
}

/** @throws Problem `validation_failed` for parameters that do not go together */
function storeOptionsOf(collection: string, parameters: StoreParameters): StoreOptions {
  const { on_error, mode = 'create', on, dry_run = false, quiet = false, keep } = parameters
  if (on !== undefined && mode !== 'upsert') throw unfit('on', '`on` is for mode=upsert.')
  if (keep !== undefined && (mode !== 'create' || !quiet))
    throw unfit(
      'keep',
      '`keep=system` is for mode=create with quiet=true: versions of before are no changes.',
    )
  return {
    ...{ collection, mode, quiet, dryRun: dry_run, keepsSystem: keep === 'system' },
    ...{ on: on === undefined ? [] : readFieldNames(on, 'on'), stopOnError: on_error === 'stop' },
  }
}

const unfit = (name: string, detail: string) =>
  new Problem('validation_failed', { detail, errors: [{ in: 'query', name, pointer: '', detail }] })

const digestOf = (...of: readonly string[]) => createHash('sha256').update(JSON.stringify(of)).digest()

/** Rejects forms and archives, every line of which would fail. @returns the media type */
function checkMediaType(headers: { content_type?: string; content_encoding?: string }): string {
  const type = headers.content_type?.toLowerCase().split(';')[0]?.trim() ?? ''
  const encoding = headers.content_encoding?.trim().toLowerCase() ?? 'identity'
  if (['', CSV, ...MEDIA_TYPES].includes(type) && encoding === 'identity') return type
  throw new Problem('media_type_unsupported', {
    detail: `This route takes ${NDJSON} and ${CSV}, not compressed.`,
  })
}

export const exportDocuments = workspaceOperation({
  name: 'collection.export',
  summary: 'Export all documents as NDJSON or CSV, filtered and sorted; by default, in the order of ids',
  roles: DATA_ROLES,
  input: Input({
    name: CollectionName,
    select: Select,
    order: Order,
    filters: Filters,
    ...CsvInput,
    csv_formulas: Type.Optional(
      Type.String({
        enum: ['escape'],
        description:
          'Handling of a text of CSV that a spreadsheet would take for a formula. `escape`: it gets a quote before it, and is not read back as it was. Default: none.',
      }),
    ),
    accept: Type.Optional(
      Type.String({
        maxLength: COLLECTION_LIMITS.conditionCharsMax,
        description: `\`${CSV}\` for CSV. Default: ${NDJSON}.`,
      }),
    ),
  }),
  output: Type.Unsafe<ByteReply>(Type.Unknown({ description: 'One document per line, as GET returns it.' })),
  http: {
    method: 'GET',
    path: '/v1/collections/{name}/export',
    rest: 'filters',
    headers: { accept: 'accept' },
    reply: 'bytes',
    bytesType: NDJSON,
  },
  run: async (scope, { name, select, order, filters = [], accept, ...options }) => {
    const { search, filters: others } = takeSearch(filters)
    const query = {
      search,
      filter: readFilters(others, { joins: true }),
      order: order === undefined ? [] : readOrder(order),
      selection: readSelection(select, 'query'),
      count: undefined,
    }
    if (!prefersCsv(accept)) return exportLines(scope, name, query, NDJSON_FORM)
    const { declared } = await withCollection(scope, name, ['read'], async (collection) => collection)
    return exportLines(scope, name, query, csvForm(csvWriter(select, declared, options)))
  },
})

/** True if CSV is named before NDJSON and anything else. */
const prefersCsv = (accept = ''): boolean => /^\s*text\/csv\b/i.test(accept)

/** How an export writes documents. */
interface Form {
  readonly extension: string
  readonly type: string
  readonly header: string
  readonly lineOf: (document: object) => string
}

const NDJSON_FORM: Form = {
  ...{ extension: 'ndjson', type: NDJSON, header: '' },
  lineOf: (document) => `${JSON.stringify(document)}\n`,
}

const csvForm = (writer: CsvWriter): Form => ({
  ...{ extension: 'csv', type: `${CSV}; charset=utf-8; header=present` },
  ...writer,
})

type Query = Omit<PageQuery, 'size' | 'after'>

/**
 * Reads the first page before it sends anything, so that a faulty query gets a problem as its reply.
 * @throws Problem as {@link readDocumentPage} does
 */
async function exportLines(
  scope: WorkspaceScope,
  name: string,
  query: Query,
  form: Form,
): Promise<ByteReply> {
  const read: Read = (after, size) => readDocumentPage(scope, name, { ...query, after, size })
  const pieces = readPieces(read, form)
  const first = await pieces.next()
  const chunks = async function* () {
    if (form.header !== '') yield Buffer.from(form.header)
    if (first.done !== true) yield first.value
    yield* pieces
  }
  return download(`${name}.${form.extension}`, form.type, chunks())
}

type Read = (after: string | undefined, size: number) => ReturnType<typeof readDocumentPage>

/** Pieces of some tens of kilobytes, so that a slow reader is seen to make progress. */
async function* readPieces(read: Read, form: Form): AsyncGenerator<Buffer> {
  let size: number = COLLECTION_LIMITS.exportFirstDocuments
  let after: string | undefined
  do {
    const { data, page } = await readFitting(size, (rows) => read(after, rows))
    let bytes = 0
    for (const piece of packed(data, form)) {
      bytes += piece.byteLength
      yield piece
    }
    after = page.next ?? undefined
    size = nextSize(data.length, bytes)
  } while (after !== undefined)
}

/** The number of documents that fill a page, if the next ones are as large as the last. */
function nextSize(rows: number, bytes: number): number {
  const fit = Math.floor((rows * COLLECTION_LIMITS.exportPageBytes) / Math.max(bytes, 1))
  return Math.max(1, Math.min(fit, COLLECTION_LIMITS.exportDocumentsMax))
}

function* packed(documents: readonly SelectedDocument[], { lineOf }: Form): Generator<Buffer> {
  let text = ''
  for (const document of documents) {
    text += lineOf(document)
    if (text.length < COLLECTION_LIMITS.exportPieceChars) continue
    yield Buffer.from(text)
    text = ''
  }
  if (text !== '') yield Buffer.from(text)
}
