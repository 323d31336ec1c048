/** Collections as files: documents in and out as lines of JSON, streams both ways (docs/import-export.md). */

import { createHash } from 'node:crypto'
import Type from 'typebox'
import { type ByteReply, Bytes } from '../../../core/bytes.ts'
import { LIMITS } from '../../../core/limits.ts'
import { READERS } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { firstUse } from '../../../platform/idempotency.ts'
import { Input, inWorkspace } from '../../kinds.ts'
import { CollectionName } from '../fields.ts'
import { readOrder } from '../grammar/order.ts'
import { readSelection } from '../grammar/select.ts'
import { readFilters } from '../grammar/url.ts'
import { Filters, Order, Select } from '../operations.ts'
import { seeded } from './entries.ts'
import { exportLines } from './export.ts'
import { importLines } from './import.ts'

const NDJSON = 'application/x-ndjson'
/** Names that are in use for the same thing; one JSON document is one line, and a text may be several. */
const TAKEN: readonly string[] = [
  ...[NDJSON, 'application/ndjson', 'application/jsonl', 'application/x-jsonlines'],
  ...['application/json', 'text/plain', 'application/octet-stream'],
]

const Header = (description: string) =>
  Type.Optional(Type.String({ maxLength: LIMITS.conditionCharsMax, description }))

export const importDocuments = inWorkspace({
  name: 'collection.import',
  summary: 'Create documents from lines of JSON; those whose id is there already are left as they are',
  roles: READERS,
  input: Input({
    name: CollectionName,
    content: Bytes('One JSON object a line. An `id` is kept; what an export shows besides is passed over.'),
    on_error: Type.Optional(
      Type.Unsafe<'continue' | 'stop'>(
        Type.String({
          enum: ['continue', 'stop'],
          description: '`stop`: the first line that fails ends it, and is the reply.',
        }),
      ),
    ),
    idempotency_key: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: LIMITS.idempotencyKeyCharsMax,
        description:
          'Lines without an id get theirs from it and from their number: the same file may come again.',
      }),
    ),
    content_type: Header(`Media type: ${TAKEN.join(', ')}.`),
    content_encoding: Header('`identity` alone: what is compressed is not taken.'),
  }),
  output: Type.Object({
    lines: Type.Integer({ description: 'Lines that were dealt with, blank ones included.' }),
    created: Type.Integer(),
    existing: Type.Integer({ description: 'Documents whose id was there already.' }),
    failed: Type.Integer(),
    errors: Type.Array(
      Type.Object({
        line: Type.Integer({ minimum: 1 }),
        code: Type.String(),
        detail: Type.String(),
        pointer: Type.Optional(Type.String()),
      }),
      { description: `The first ${LIMITS.faultsShownMax} lines that failed.` },
    ),
  }),
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
  run: async (scope, { name, content, on_error, idempotency_key: key, ...headers }) => {
    refuseOthers(headers)
    const idOf =
      key === undefined
        ? () => scope.uuid()
        : seeded(await firstUse(scope, digestOf('import', scope.actor.subject, name, key)))
    return importLines(scope, { collection: name, idOf, stops: on_error === 'stop' }, content.chunks)
  },
})

const digestOf = (...of: readonly string[]) => createHash('sha256').update(JSON.stringify(of)).digest()

/** A form or an archive would be a file of lines that all fail. */
function refuseOthers(headers: { content_type?: string; content_encoding?: string }): void {
  const [type = ''] = headers.content_type?.toLowerCase().split(';') ?? []
  const encoding = headers.content_encoding?.trim().toLowerCase() ?? 'identity'
  if ((type === '' || TAKEN.includes(type.trim())) && encoding === 'identity') return
  throw new Problem('media_type_unsupported', { detail: `This route takes ${NDJSON}, not compressed.` })
}

export const exportDocuments = inWorkspace({
  name: 'collection.export',
  summary: 'Read all documents as lines of JSON: filtered and ordered; by id where no order is given',
  roles: READERS,
  input: Input({ name: CollectionName, select: Select, order: Order, filters: Filters }),
  output: Type.Unsafe<ByteReply>(Type.Unknown({ description: 'One document a line, as GET shows it.' })),
  http: {
    method: 'GET',
    path: '/v1/collections/{name}/export',
    rest: 'filters',
    reply: 'bytes',
    bytesType: NDJSON,
  },
  run: (scope, { name, select, order, filters = [] }) =>
    exportLines(scope, name, {
      filter: readFilters(filters),
      order: order === undefined ? [] : readOrder(order),
      selection: readSelection(select, 'query'),
      count: undefined,
    }),
})
