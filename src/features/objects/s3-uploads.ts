/** Operations of the S3 API on uploads in parts. */

import Type from 'typebox'
import { Input, workspaceOperation } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { Bytes } from '../../core/bytes.ts'
import { checkBucket } from '../../core/object-key.ts'
import { WRITERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { rangeOf, requireChangeable } from './conditions.ts'
import { OBJECT_LIMITS } from './limits.ts'
import { MultipartUploads, type OpenUpload, type StoredPart } from './multipart-uploads.ts'
import { Bucket, IfMatch, IfNoneMatch, IfUnmodifiedSince, Key } from './object-fields.ts'
import { requireObjectRule, requireReadable } from './object-rules.ts'
import { DESCRIPTION, descriptionOf } from './s3-objects.ts'
import { objectsOf } from './workspace-objects.ts'

const PATH = '/s3/{bucket}/{key*}'
const NAME = { bucket: Bucket, key: Key }
const UPLOAD = { ...NAME, upload: Type.String({ maxLength: 200 }) }
const PartNumber = Type.Integer({ minimum: 1, maximum: OBJECT_LIMITS.partsMax })
const Etag = Type.Object({ etag: Type.String() })

const uploadsOf = (scope: WorkspaceScope) => new MultipartUploads(scope, objectsOf(scope))

export const beginUpload = workspaceOperation({
  name: 'object.begin_upload',
  summary: 'Begin an upload in parts',
  roles: WRITERS,
  input: Input({ ...NAME, ...DESCRIPTION }),
  output: Type.Object({ upload: Type.String() }),
  http: { method: 'POST', path: PATH },
  run: async (scope, { bucket, key, ...description }) => {
    await requireObjectRule(scope, 'write', key)
    return {
      upload: await uploadsOf(scope).begin({ bucket: checkBucket(bucket), key }, descriptionOf(description)),
    }
  },
})

export const putPart = workspaceOperation({
  name: 'object.put_part',
  summary: 'Store a part of an upload',
  roles: WRITERS,
  input: Input({ ...UPLOAD, number: PartNumber, content: Bytes('Content.') }),
  output: Etag,
  http: { method: 'PUT', path: PATH },
  run: async (scope, { number, content, ...name }) => {
    await requireObjectRule(scope, 'write', name.key)
    return { etag: await uploadsOf(scope).putPart(name, number, content) }
  },
})

export const copyPart = workspaceOperation({
  name: 'object.copy_part',
  summary: 'Make a part of an upload of a range of an object',
  roles: WRITERS,
  input: Input({
    ...UPLOAD,
    number: PartNumber,
    source: Input({
      ...NAME,
      range: Type.Optional(Type.String({ pattern: '^bytes=\\d{1,15}-\\d{1,15}$' })),
      if_match: IfMatch,
      if_none_match: IfNoneMatch,
      if_unmodified_since: IfUnmodifiedSince,
    }),
  }),
  output: Etag,
  http: { method: 'PUT', path: PATH },
  run: async (scope, { number, source, ...name }) => {
    await requireReadable(scope, source.key)
    await requireObjectRule(scope, 'write', name.key)
    const entry = await objectsOf(scope).describe({ bucket: checkBucket(source.bucket), key: source.key })
    requireChangeable(source, entry)
    const whole = { first: 0, last: entry.size - 1 }
    const range = rangeOf({ range: source.range }, entry) ?? whole
    if (source.range !== undefined && (range === whole || Number(source.range.split('-')[1]) >= entry.size))
      throw new Problem('InvalidRange', { detail: 'The range is not within the object to copy.' })
    return {
      etag: await uploadsOf(scope).copyPart(name, number, {
        blob: entry.blob,
        range,
        isWhole: range === whole,
      }),
    }
  },
})

export const completeUpload = workspaceOperation({
  name: 'object.complete_upload',
  summary: 'Make an object of the parts of an upload',
  roles: WRITERS,
  input: Input({
    ...UPLOAD,
    parts: Type.Array(Input({ number: PartNumber, etag: Type.String() }), {
      minItems: 1,
      maxItems: OBJECT_LIMITS.partsMax,
    }),
    if_match: IfMatch,
    if_none_match: IfNoneMatch,
  }),
  output: Etag,
  http: { method: 'POST', path: PATH },
  run: async (scope, { parts, if_match, if_none_match, ...name }) => {
    await requireObjectRule(scope, 'write', name.key)
    const { etag } = await uploadsOf(scope).complete(name, parts, { if_match, if_none_match })
    return { etag }
  },
})

export const abortUpload = workspaceOperation({
  name: 'object.abort_upload',
  summary: 'Remove an upload and its parts',
  roles: WRITERS,
  input: Input(UPLOAD),
  output: Type.Object({}),
  http: { method: 'DELETE', path: PATH },
  run: async (scope, name) => {
    await requireObjectRule(scope, 'write', name.key)
    await uploadsOf(scope).abort(name)
    return {}
  },
})

export const listParts = workspaceOperation({
  name: 'object.list_parts',
  summary: 'List the parts of an upload',
  roles: WRITERS,
  scope: 'objects:write',
  input: Input(UPLOAD),
  output: Type.Unsafe<readonly StoredPart[]>(Type.Unknown()),
  http: { method: 'GET', path: PATH },
  run: async (scope, name) => {
    await requireObjectRule(scope, 'write', name.key)
    return uploadsOf(scope).parts(name)
  },
})

export const listUploads = workspaceOperation({
  name: 'object.list_uploads',
  summary: 'List uploads in parts that are under way',
  roles: WRITERS,
  input: Input({
    bucket: Bucket,
    prefix: Type.String({ maxLength: 1_024 }),
    after: Type.Optional(Input({ key: Type.String(), upload: Type.String() })),
    size: Type.Integer({ minimum: 1, maximum: OBJECT_LIMITS.keysListedMax }),
  }),
  output: Type.Unsafe<{ readonly uploads: readonly OpenUpload[]; readonly isTruncated: boolean }>(
    Type.Unknown(),
  ),
  http: { method: 'GET', path: '/s3/{bucket}' },
  run: async (scope, { bucket, prefix, after, size }) => {
    await requireReadable(scope, prefix, 'list')
    const request = { prefix, size: size + 1, ...(after !== undefined && { after }) }
    const found = await uploadsOf(scope).list(checkBucket(bucket), request)
    return { uploads: found.slice(0, size), isTruncated: found.length > size }
  },
})
