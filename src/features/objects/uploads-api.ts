/** Uploads that resume, by tus 1.0 (https://tus.io/protocols/resumable-upload): core, creation, expiration, checksum, termination. */

import Type, { type Static } from 'typebox'
import { Compile } from 'typebox/compile'
import { Input, workspaceOperation } from '../../access/operation-builders.ts'
import { type ByteReply, type ByteSource, Bytes } from '../../core/bytes.ts'
import { checkBucket } from '../../core/object-key.ts'
import { WRITERS_AND_USERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { TUS_VERSION } from '../../core/tus.ts'
import { readDigest } from './digests.ts'
import {
  Bucket,
  CHANGE_HEADERS,
  Header,
  IfMatch,
  IfNoneMatch,
  KEPT,
  Key,
  keptHeaders,
  Metadata,
} from './object-fields.ts'
import { requireObjectRule } from './object-rules.ts'
import { type Checksum, type ResumableUpload, ResumableUploads } from './resumable-uploads.ts'

/** The output of all of them: headers alone. */
const Answer = Type.Unsafe<ByteReply>(
  Type.Unknown({ description: 'No content: the answer is in the headers.' }),
)
const PATH = '/v1/uploads'
const ITEM = `${PATH}/{upload_id}`
const SCOPE = 'objects:write'

const UploadId = Type.String({ maxLength: 200, description: 'Id of the upload, from its `Location`.' })
const Version = Header(`Version of tus: \`${TUS_VERSION}\`, also if it is absent.`)
const Count = (description: string) => Type.Optional(Type.String({ pattern: '^[0-9]{1,15}$', description }))
const Length = Count('Size of the object in bytes.')
const BODY = {
  content: Bytes('The next bytes of the object, of the media type `application/offset+octet-stream`.'),
  content_type: Header('Media type of the body: `application/offset+octet-stream`.'),
  upload_checksum: Header(
    'Digest of the body: `md5`, `sha1` or `sha256`, a space, and the digest in base64. If it differs, nothing of the body is kept.',
  ),
}
const BODY_HEADERS = {
  content_type: 'content-type',
  upload_checksum: 'upload-checksum',
  upload_length: 'upload-length',
  tus_resumable: 'tus-resumable',
} as const

export const createUpload = workspaceOperation({
  name: 'upload.create',
  summary: 'Create an upload that can be resumed (tus)',
  roles: WRITERS_AND_USERS,
  scope: SCOPE,
  input: Input({
    tus_resumable: Version,
    upload_length: Length,
    upload_defer_length: Type.Optional(
      Type.Literal('1', {
        description: 'The value `1`, in place of `Upload-Length`: a later request has the length.',
      }),
    ),
    upload_metadata: Type.Optional(
      Type.String({
        maxLength: 16_384,
        description:
          'Pairs of a name and a value in base64, with commas between: `bucket`, `key`, and optionally `content-type` (or `filetype`), `content-encoding`, `content-disposition`, `content-language`, `cache-control`, `x-meta-<name>`. Other names are sent back by HEAD, and mean nothing.',
      }),
    ),
    if_match: IfMatch,
    if_none_match: IfNoneMatch,
    ...BODY,
  }),
  output: Answer,
  http: {
    method: 'POST',
    path: PATH,
    body: 'content',
    takes: 'bytes',
    bytesType: 'application/offset+octet-stream',
    reply: 'bytes',
    status: () => 201,
    headers: {
      ...BODY_HEADERS,
      upload_defer_length: 'upload-defer-length',
      upload_metadata: 'upload-metadata',
      ...CHANGE_HEADERS,
    },
  },
  run: async (scope, { content, upload_length, upload_defer_length, upload_metadata, ...input }) => {
    requireVersion(input)
    if ((upload_length === undefined) === (upload_defer_length === undefined))
      throw new Problem('header_invalid', {
        detail: 'Send either Upload-Length, or Upload-Defer-Length: 1.',
      })
    const { bucket, key, metadata = {}, ...kept } = describedBy(upload_metadata)
    await requireObjectRule(scope, 'write', key)
    const uploads = new ResumableUploads(scope)
    const { if_match, if_none_match } = input
    const begun = await uploads.begin(
      { bucket: checkBucket(bucket), key },
      {
        length: numberIn(upload_length),
        headers: keptHeaders(kept),
        metadata,
        announced: upload_metadata,
        conditions: { if_match, if_none_match },
      },
    )
    const upload = hasBody(content, input) ? await append(uploads, begun, 0, content, input) : begun
    return answer(201, upload, { location: `${PATH}/${upload.id}` })
  },
})

export const headUpload = workspaceOperation({
  name: 'upload.head',
  summary: 'Read how many bytes of an upload are stored (tus)',
  roles: WRITERS_AND_USERS,
  // It changes nothing but what the last request would have done if its process had not died: it makes the object.
  reads: true,
  scope: SCOPE,
  input: Input({ upload_id: UploadId, tus_resumable: Version }),
  output: Answer,
  http: { method: 'HEAD', path: ITEM, reply: 'bytes', headers: { tus_resumable: 'tus-resumable' } },
  run: async (scope, { upload_id, ...input }) => {
    requireVersion(input)
    const uploads = new ResumableUploads(scope)
    await requireObjectRule(scope, 'write', (await uploads.find(upload_id)).key)
    const upload = await uploads.read(upload_id)
    const { length, announced } = upload
    return answer(200, upload, {
      ...(length === null ? { 'upload-defer-length': '1' } : { 'upload-length': String(length) }),
      ...(announced !== null && { 'upload-metadata': announced }),
    })
  },
})

export const appendToUpload = workspaceOperation({
  name: 'upload.append',
  summary: 'Append bytes to an upload (tus)',
  roles: WRITERS_AND_USERS,
  scope: SCOPE,
  input: Input({
    upload_id: UploadId,
    tus_resumable: Version,
    upload_offset: Count('Number of bytes of the object before the body: as many as are stored.'),
    upload_length: Length,
    ...BODY,
  }),
  output: Answer,
  http: {
    method: 'PATCH',
    path: ITEM,
    body: 'content',
    takes: 'bytes',
    bytesType: 'application/offset+octet-stream',
    reply: 'bytes',
    status: () => 204,
    headers: { ...BODY_HEADERS, upload_offset: 'upload-offset' },
  },
  run: async (scope, { upload_id, upload_offset, content, ...input }) => {
    requireVersion(input)
    const uploads = new ResumableUploads(scope)
    const upload = await uploads.find(upload_id)
    await requireObjectRule(scope, 'write', upload.key)
    const offset = numberIn(upload_offset)
    if (offset === undefined)
      throw new Problem('header_invalid', {
        detail: 'Send Upload-Offset: how many bytes are before the body.',
      })
    if (input.content_type !== CONTENT_TYPE) throw mediaTypeProblem()
    return answer(204, await append(uploads, upload, offset, content, input))
  },
})

export const deleteUpload = workspaceOperation({
  name: 'upload.delete',
  summary: 'Delete an upload (tus); the object of a complete one stays',
  roles: WRITERS_AND_USERS,
  scope: SCOPE,
  input: Input({ upload_id: UploadId, tus_resumable: Version }),
  output: Answer,
  http: {
    method: 'DELETE',
    path: ITEM,
    reply: 'bytes',
    status: () => 204,
    headers: { tus_resumable: 'tus-resumable' },
  },
  run: async (scope, { upload_id, ...input }) => {
    requireVersion(input)
    const uploads = new ResumableUploads(scope)
    const upload = await uploads.find(upload_id)
    await requireObjectRule(scope, 'write', upload.key)
    await uploads.remove(upload)
    return { status: 204, headers: {} }
  },
})

function answer(status: number, upload: ResumableUpload, headers: Record<string, string> = {}): ByteReply {
  return {
    status,
    headers: {
      'upload-offset': String(upload.stored),
      'upload-expires': new Date(upload.expiresMs).toUTCString(),
      'cache-control': 'no-store',
      ...headers,
    },
  }
}

function requireVersion({ tus_resumable = TUS_VERSION }: { tus_resumable?: string }): void {
  if (tus_resumable !== TUS_VERSION)
    throw new Problem('tus_version_unsupported', { headers: { 'tus-version': TUS_VERSION } })
}

const CONTENT_TYPE = 'application/offset+octet-stream'
const mediaTypeProblem = () =>
  new Problem('media_type_unsupported', { detail: `The body of an upload has the type ${CONTENT_TYPE}.` })

/** True if a request that begins an upload has its first bytes. */
function hasBody({ length }: ByteSource, { content_type }: { content_type?: string }): boolean {
  if (content_type === CONTENT_TYPE) return true
  if (length !== 0) throw mediaTypeProblem()
  return false
}

function append(
  uploads: ResumableUploads,
  upload: ResumableUpload,
  offset: number,
  content: ByteSource,
  { upload_length, upload_checksum }: { upload_length?: string; upload_checksum?: string },
): Promise<ResumableUpload> {
  const checksum = upload_checksum === undefined ? undefined : checksumIn(upload_checksum)
  return uploads.append(upload, offset, content, { length: numberIn(upload_length), checksum })
}

const numberIn = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : Number(text)

const DIGEST_BYTES = { md5: 16, sha1: 20, sha256: 32 }

/** @throws Problem `header_invalid` */
function checksumIn(text: string): Checksum {
  const [, name = '', base64 = ''] = /^([a-z0-9]+) ([A-Za-z0-9+/]+={0,2})$/.exec(text) ?? []
  const algorithm = name as Checksum['algorithm']
  const digest = Object.hasOwn(DIGEST_BYTES, name) && readDigest(base64, DIGEST_BYTES[algorithm])
  if (digest) return { algorithm, digest }
  throw new Problem('header_invalid', {
    detail: 'Upload-Checksum has no digest of md5, sha1 or sha256. Write `sha256 <base64>`.',
  })
}

const Described = Type.Object({ bucket: Bucket, key: Key, ...KEPT, metadata: Type.Optional(Metadata) })
const described = Compile(Described)
const META = 'x-meta-'

/** The object that `Upload-Metadata` describes. @throws Problem `header_invalid` */
function describedBy(text = ''): Static<typeof Described> {
  const pairs = new Map(text.split(',').flatMap((pair) => (pair.trim() === '' ? [] : [readPair(pair)])))
  const type = pairs.get('content-type') ?? pairs.get('filetype')
  const own = [...pairs].filter(([name]) => name.startsWith(META))
  const found = {
    ...Object.fromEntries(NAMES.flatMap((name) => fieldIn(pairs, name))),
    ...(type !== undefined && { content_type: type }),
    ...(own.length > 0 && {
      metadata: Object.fromEntries(own.map(([name, value]) => [name.slice(META.length), value])),
    }),
  }
  if (described.Check(found)) return found
  const [error] = described.Errors(found)
  const name = error?.instancePath.slice(1).replaceAll('_', '-')
  throw new Problem('header_invalid', {
    detail: `Upload-Metadata does not describe an object: ${name} ${error?.message}.`,
    hint: 'Send the names bucket and key, each with its value in base64: `bucket YWNtZS1tYWlu,key YS50eHQ=`.',
  })
}

const NAMES = ['bucket', 'key', ...Object.keys(KEPT)]

function fieldIn(pairs: ReadonlyMap<string, string>, field: string): [string, string][] {
  const value = pairs.get(field.replaceAll('_', '-'))
  return value === undefined ? [] : [[field, value]]
}

/** A name, and its value in base64, which may be absent. */
function readPair(pair: string): [string, string] {
  const [name = '', base64 = '', ...more] = pair.trim().split(' ')
  const bytes = Buffer.from(base64, 'base64')
  const isBase64 = bytes.toString('base64') === base64.padEnd(Math.ceil(base64.length / 4) * 4, '=')
  try {
    if (isBase64 && more.length === 0) return [name, new TextDecoder('utf-8', { fatal: true }).decode(bytes)]
  } catch {
    // It is not UTF-8.
  }
  throw new Problem('header_invalid', {
    detail: `Upload-Metadata: the value of ${JSON.stringify(name.slice(0, 100))} is not UTF-8 in base64.`,
  })
}
