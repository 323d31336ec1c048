/** Tools over the bucket of the workspace: list, get, put and delete objects. */

import Type from 'typebox'
import { Input, workspaceOperation } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import type { ByteReply } from '../../../core/bytes.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import type { AnyOperation } from '../../../core/operation.ts'
import { Problem } from '../../../core/problem.ts'
import { type Annotations, CHANGES, READS, readsOnly } from '../../../core/tool-annotations.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { unavailable } from '../../../infra/unavailable.ts'
import { deleteObject, getObject, headObject, listObjects, putObject } from '../../objects/objects.ts'
import { type BytePage, contentOfPage, isTextType, pageLength, pageOf } from '../calls/byte-page.ts'
import { mimeTypeOf } from '../calls/content.ts'
import { budgetOf, type Candidate, type JsonSchema, type Tool, type ToolProvider, toolName } from '../tool.ts'
import { pageOfItems } from './document-schemas.ts'
import { fewerBytes } from './results.ts'

type Args = Readonly<Record<string, unknown>>

interface ObjectPage extends BytePage {
  readonly etag: string
  readonly lastModified: string
}

const readObject = workspaceOperation({
  name: 'mcp_object.read',
  summary: 'Read an object, or a part of it that is small enough for an agent',
  roles: ['service'],
  reads: true,
  input: Input({
    bucket: Type.String(),
    key: Type.String(),
    offset: Type.Optional(Type.Integer({ minimum: 0 })),
    bytes_max: Type.Integer(),
  }),
  output: Type.Unsafe<ObjectPage>(Type.Unknown()),
  // No route: only tools run it.
  http: { method: 'POST', path: '/v1/mcp/objects/{bucket}/{key*}', body: '*' },
  run: async (scope, { bucket, key, offset, bytes_max }) => {
    const { headers } = await headObject.run(scope, { bucket, key })
    const etag = headers['etag'] ?? ''
    const file = {
      uri: objectUri(bucket, key),
      name: key.slice(-CORE_LIMITS.nameCharsMax),
      mimeType: mimeTypeOf(headers['content-type'] ?? ''),
      size: Number(headers['content-length'] ?? 0),
      offset: offset ?? 0,
    }
    const known = { etag, lastModified: headers['last-modified'] ?? '' }
    if (file.offset > 0 && file.offset >= file.size)
      throw new Problem('validation_failed', { detail: `offset: the object has ${file.size} bytes.` })
    const length = Math.min(pageLength(file.mimeType, bytes_max), file.size - file.offset)
    const description = { ...file, ...known, next: null }
    const mustBeWhole = offset === undefined
    if (mustBeWhole && length < file.size && !isTextType(file.mimeType)) return description
    // The store refuses ranges of an empty object.
    const range = { range: `bytes=${file.offset}-${file.offset + length - 1}`, if_match: etag }
    const bytes =
      length === 0
        ? Buffer.alloc(0)
        : await gather(await getObject.run(scope, { bucket, key, ...range }), length)
    const page = { ...pageOf(bytes, file), ...known }
    return mustBeWhole && page.next !== null && page.text === undefined ? description : page
  },
})

/** @throws Problem `dependency_unavailable` if the store sends more than the range */
async function gather({ chunks, discard }: ByteReply, length: number): Promise<Buffer> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of chunks ?? []) {
    bytes += chunk.byteLength
    parts.push(chunk)
    if (bytes <= length) continue
    discard?.()
    throw unavailable('s3', undefined, 'The object store (S3) did not answer with the range.')
  }
  return Buffer.concat(parts)
}

/** The URI of an object as a resource: slashes stay, everything else is percent-encoded. */
const objectUri = (bucket: string, key: string) =>
  `tenon-object://${bucket}/${key.split('/').map(encodeURIComponent).join('/')}`

const KEY: JsonSchema = {
  type: 'string',
  minLength: 1,
  maxLength: CORE_LIMITS.objectKeyBytesMax,
  description: 'Key of the object, such as `reports/2026.csv`.',
}
const SIZE: JsonSchema = { type: 'integer', description: 'Size in bytes.' }
const TEXT: JsonSchema = { type: 'string' }

const closed = (properties: Args, required: readonly string[]): JsonSchema => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
})

interface Verb {
  readonly operation: AnyOperation
  readonly title: (bucket: string) => string
  /** Says what the tool does, without its title, which some clients do not show to models. */
  readonly about: (bucket: string) => string
  readonly arguments: JsonSchema
  /** Absent if the result is content of MCP. */
  readonly output?: JsonSchema
  readonly annotations: Annotations
  /** The input of the operation for arguments. */
  readonly input: (args: Args, tool: Tool) => Args
}

const VERBS: Readonly<Record<string, Verb>> = {
  list: {
    operation: listObjects,
    title: (bucket) => `List the objects of ${bucket}`,
    about: (bucket) =>
      `Pages through the keys of the bucket ${bucket} in their order, with size and time of the last change.`,
    arguments: closed(
      {
        prefix: {
          type: 'string',
          maxLength: CORE_LIMITS.objectKeyBytesMax,
          description: 'Prefix of the keys to list.',
        },
        limit: {
          type: 'integer',
          minimum: 1,
          maximum: CORE_LIMITS.pageItemsMax,
          description: 'Maximum number of keys. Default: 50.',
        },
        cursor: { type: 'string', description: '`page.next` of the previous page, with the same prefix.' },
      },
      [],
    ),
    output: pageOfItems({
      type: 'object',
      properties: { key: TEXT, size: SIZE, etag: TEXT, last_modified: TEXT },
      required: ['key', 'size'],
    }),
    annotations: READS,
    input: ({ prefix, limit, cursor }) => definedMembers({ prefix, page_size: limit, page_after: cursor }),
  },
  get: {
    operation: readObject,
    title: (bucket) => `Read an object of ${bucket}`,
    about: (bucket) =>
      `Returns an object of the bucket ${bucket}: text, images and audio as such, other files as embedded resources. Of a long text it returns the first part and \`next_offset\`; for another large file, a link.`,
    arguments: closed(
      {
        key: KEY,
        offset: {
          type: 'integer',
          minimum: 0,
          maximum: Number.MAX_SAFE_INTEGER,
          description: 'Offset of the first byte, such as `next_offset` of the previous part.',
        },
      },
      ['key'],
    ),
    annotations: READS,
    input: ({ key, offset }, tool) => definedMembers({ key, offset, bytes_max: budgetOf(tool) }),
  },
  put: {
    operation: putObject,
    title: (bucket) => `Store an object in ${bucket}`,
    about: (bucket) =>
      `Stores \`text\` or \`base64\` under a key of the bucket ${bucket}. Replaces an object that has the key, unless \`only_new\` or \`if_etag\` forbids it.`,
    arguments: closed(
      {
        key: KEY,
        text: { type: 'string', description: 'Content as text, stored as UTF-8.' },
        base64: {
          type: 'string',
          contentEncoding: 'base64',
          description: 'Content as bytes, instead of `text`.',
        },
        content_type: {
          type: 'string',
          maxLength: 200,
          pattern: '^[\\u0020-\\u007e]*$',
          description: 'Media type, such as `text/csv`.',
        },
        only_new: {
          type: 'boolean',
          description: 'True if nothing is done when an object has the key. Default: `false`.',
        },
        if_etag: {
          type: 'string',
          maxLength: 200,
          pattern: '^[\\u0020-\\u007e]+$',
          description: '`etag` that the object must have; otherwise nothing is done.',
        },
      },
      ['key'],
    ),
    output: {
      type: 'object',
      properties: { key: TEXT, size: SIZE, etag: TEXT, created: { type: 'boolean' } },
      required: ['key', 'size', 'etag', 'created'],
    },
    annotations: CHANGES,
    input: ({ key, text, base64, content_type, only_new, if_etag }) =>
      definedMembers({
        key,
        content: bytesOf(text, base64),
        content_type,
        if_match: if_etag,
        if_none_match: only_new === true ? '*' : undefined,
      }),
  },
  delete: {
    operation: deleteObject,
    title: (bucket) => `Delete an object of ${bucket}`,
    about: (bucket) => `Deletes one object of the bucket ${bucket} by its key. It cannot be restored.`,
    arguments: closed({ key: KEY }, ['key']),
    output: {
      type: 'object',
      properties: { key: TEXT, deleted: { type: 'boolean' } },
      required: ['key', 'deleted'],
    },
    annotations: CHANGES,
    input: ({ key }) => ({ key }),
  },
}

const definedMembers = (input: Args): Args =>
  Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined))

/** @throws Problem `validation_failed` unless there is one of both, and the base64 is canonical (RFC 4648 §4) */
function bytesOf(text: unknown, base64: unknown): string | Buffer {
  if ((text === undefined) === (base64 === undefined))
    throw new Problem('validation_failed', { detail: 'Give either `text` or `base64`.' })
  if (text !== undefined) return String(text)
  const bytes = Buffer.from(String(base64), 'base64')
  if (bytes.toString('base64') !== base64)
    throw new Problem('validation_failed', {
      detail: 'base64 is not valid: it takes A–Z, a–z, 0–9, + and /, with = as padding, and no line breaks.',
    })
  return bytes
}

const verbOf = (tool: Pick<Tool, 'candidate'>): Verb => {
  const [, , verb = ''] = tool.candidate.split(':')
  const how = Object.hasOwn(VERBS, verb) ? VERBS[verb] : undefined
  if (how === undefined) throw new TypeError(`no tool of a bucket is ${tool.candidate}`)
  return how
}

export const buckets: ToolProvider = {
  name: 'buckets',
  isUntrusted: true,
  operations: Object.values(VERBS).map(({ operation }) => operation),
  candidates: async (scope) => {
    const names = await readBuckets(scope)
    return names.flatMap((bucket) => Object.entries(VERBS).map(([verb, how]) => candidate(bucket, verb, how)))
  },
  input: (tool, { args }) => verbOf(tool).input(args, tool),
  toSmallerInput: (input, share) =>
    Object.hasOwn(input, 'bytes_max') ? fewerBytes(input, share) : smallerPage(input, share),
  toToolOutput: (output: ObjectPage | object, form) => {
    if (!('uri' in output)) return { output, failed: false }
    const { name: _name, etag, lastModified } = output
    const details = { uri: output.uri, etag, last_modified: lastModified }
    return { output, failed: false, content: contentOfPage(output, details, form) }
  },
}

/** The input for a page of which a share of the keys fits. Only lists are pages. */
function smallerPage(input: Args, share: number): Args | undefined {
  if (Object.hasOwn(input, 'key')) return undefined
  const size = Number(input['page_size'] ?? CORE_LIMITS.pageItemsDefault)
  return size <= 1 ? undefined : { ...input, page_size: Math.max(1, Math.floor(size * share)) }
}

/** A workspace has one bucket or none. */
async function readBuckets(scope: WorkspaceScope): Promise<string[]> {
  const rows = await scope.rows<{ bucket: string }>(
    sql`select name as bucket from buckets where workspace_id = ${scope.ref.workspaceId}`,
  )
  return rows.map(({ bucket }) => bucket)
}

function candidate(bucket: string, verb: string, how: Verb): Candidate {
  const { operation, annotations, output } = how
  const name = toolName(`${bucket}_${verb}`)
  const title = how.title(bucket)
  return {
    candidate: `buckets:${bucket}:${verb}`,
    name,
    title,
    description: how.about(bucket),
    input_schema: how.arguments,
    ...(output && { output_schema: output }),
    annotations,
    scope: name,
    risk: readsOnly(annotations) ? 'read' : 'write',
    binding: { source: 'buckets', operation: operation.name, fixed: { bucket } },
  }
}
