/** Operations of the S3 API on one object that REST has in another form: upload with tags, copy with a new description, tags. */

import Type from 'typebox'
import { Input, workspaceOperation } from '../../access/operation-builders.ts'
import { Bytes } from '../../core/bytes.ts'
import { checkBucket } from '../../core/object-key.ts'
import { WRITERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { tagOf } from './conditions.ts'
import {
  Bucket,
  IfMatch,
  IfNoneMatch,
  IfUnmodifiedSince,
  KEPT,
  Key,
  keptHeaders,
  Metadata,
  Tags,
} from './object-fields.ts'
import { requireObjectRule, requireReadable } from './object-rules.ts'
import { deleteObject } from './objects.ts'
import { type Description, objectsOf } from './workspace-objects.ts'

const PATH = '/s3/{bucket}/{key*}'
const NAME = { bucket: Bucket, key: Key }

/** Headers, metadata and tags of an object, in the input of an operation. */
export const DESCRIPTION = { ...KEPT, metadata: Type.Optional(Metadata), tags: Type.Optional(Tags) }

export const descriptionOf = ({
  metadata = {},
  tags = {},
  ...headers
}: Parameters<typeof keptHeaders>[0] & Partial<Pick<Description, 'metadata' | 'tags'>>): Description => ({
  headers: keptHeaders(headers),
  metadata,
  tags,
})

export const putS3Object = workspaceOperation({
  name: 'object.put',
  summary: 'Store an object with its tags',
  roles: WRITERS,
  input: Input({
    ...NAME,
    content: Bytes('Content.'),
    ...DESCRIPTION,
    if_match: IfMatch,
    if_none_match: IfNoneMatch,
  }),
  output: Type.Object({ etag: Type.String() }),
  http: { method: 'PUT', path: PATH },
  run: async (scope, { bucket, key, content, if_match, if_none_match, ...description }) => {
    await requireObjectRule(scope, 'write', key)
    return objectsOf(scope).put({ bucket: checkBucket(bucket), key }, content, {
      ...descriptionOf(description),
      conditions: { if_match, if_none_match },
    })
  },
})

/** Deletes an object; one that does not exist is deleted already, unless a condition names its version. */
export const deleteIfThere: typeof deleteObject = {
  ...deleteObject,
  run: (scope, input) =>
    deleteObject.run(scope, input).catch((error: unknown) => {
      const isConditional = input.if_match !== undefined || input.if_unmodified_since !== undefined
      if (!(error instanceof Problem) || error.code !== 'NoSuchKey' || isConditional) throw error
      return { bucket: input.bucket, key: input.key, deleted: true as const }
    }),
}

const Source = Input({
  bucket: Bucket,
  key: Key,
  if_match: IfMatch,
  if_none_match: IfNoneMatch,
  if_unmodified_since: IfUnmodifiedSince,
})

export const copyS3Object = workspaceOperation({
  name: 'object.copy',
  summary: 'Copy an object, with its description or another',
  roles: WRITERS,
  input: Input({
    ...NAME,
    source: Source,
    description: Type.Optional(Input(DESCRIPTION)),
    tags: Type.Optional(Tags),
    if_match: IfMatch,
    if_none_match: IfNoneMatch,
  }),
  output: Type.Object({ etag: Type.String(), modifiedMs: Type.Integer() }),
  http: { method: 'PUT', path: PATH },
  run: async (
    scope,
    { bucket, key, source: { bucket: from, ...source }, description, tags, ...conditions },
  ) => {
    const objects = objectsOf(scope)
    await requireReadable(scope, source.key)
    await requireObjectRule(scope, 'write', key)
    await objects.requireOwn(checkBucket(from))
    const name = { bucket: checkBucket(bucket), key }
    if (source.key === key && description === undefined && tags === undefined)
      throw new Problem('InvalidRequest', {
        detail: 'The copy of an object to itself must replace its metadata or its tags.',
      })
    const made = (kept: Description): Description => ({
      ...kept,
      ...(description && withoutTags(description)),
      ...(tags && { tags }),
    })
    const { etag, modifiedMs } = await objects.copy(name, source.key, {
      description: made,
      conditions,
      source,
    })
    return { etag, modifiedMs }
  },
})

function withoutTags(description: Parameters<typeof descriptionOf>[0]): Omit<Description, 'tags'> {
  const { headers, metadata } = descriptionOf(description)
  return { headers, metadata }
}

export const tagS3Object = workspaceOperation({
  name: 'object.tag',
  summary: 'Replace the tags of an object',
  roles: WRITERS,
  input: Input({ ...NAME, tags: Tags }),
  output: Type.Object({ etag: Type.String() }),
  http: { method: 'PUT', path: PATH },
  run: async (scope, { bucket, key, tags }) => {
    await requireObjectRule(scope, 'write', key)
    return objectsOf(scope).update(
      { bucket: checkBucket(bucket), key },
      { change: (kept) => ({ ...kept, tags }), outputOf: (entry) => ({ etag: tagOf(entry) }) },
    )
  },
})
