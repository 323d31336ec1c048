/** Changes of objects without their bytes: copies, moves, removal of many, and what is kept with them. */

import Type from 'typebox'
import { Input, Time, workspaceOperation } from '../../access/operation-builders.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_TIME } from '../../core/components/examples.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { checkBucket } from '../../core/object-key.ts'
import { DATA_ROLES, WRITERS_AND_USERS } from '../../core/policy.ts'
import { bodyProblem } from '../operation-helpers.ts'
import type { CatalogueEntry } from './catalogue.ts'
import { tagOf, versionTagOf } from './conditions.ts'
import { OBJECT_LIMITS } from './limits.ts'
import {
  Bucket,
  CHANGE_HEADERS,
  Header,
  IfMatch,
  IfNoneMatch,
  Metadata,
  Stored,
  Tags,
} from './object-fields.ts'
import { requireObjectRule, requireReadable } from './object-rules.ts'
import { Removal } from './removals.ts'
import { objectsOf } from './workspace-objects.ts'

const KeyOf = (description: string) => Type.String({ maxLength: CORE_LIMITS.objectKeyBytesMax, description })
const Texts = Type.Record(Type.String(), Type.String())

const TO_CONDITIONS = { if_match: IfMatch, if_none_match: IfNoneMatch }

/** They show the caller an object, or give its bytes a key that others may read. */
const READS = [{ scope: 'objects:read', when: () => true }]

export const copyObject = workspaceOperation({
  name: 'object.copy',
  summary: 'Copy an object within its bucket',
  roles: WRITERS_AND_USERS,
  conditionalScopes: READS,
  input: Input({
    bucket: Bucket,
    from: KeyOf('Key of the object to copy.'),
    to: KeyOf('Key of the copy.'),
    ...TO_CONDITIONS,
  }),
  output: Stored,
  http: {
    method: 'POST',
    path: '/v1/buckets/{bucket}/copy',
    body: '*',
    headers: CHANGE_HEADERS,
    etag: ({ etag }) => etag,
  },
  run: async (scope, { bucket, from, to, ...conditions }) => {
    await requireReadable(scope, from)
    await requireObjectRule(scope, 'write', to)
    const name = { bucket: checkBucket(bucket), key: to }
    const { etag, size, created } = await objectsOf(scope).copy(name, from, { conditions })
    return { ...name, size, etag, created }
  },
})

export const moveObject = workspaceOperation({
  name: 'object.move',
  summary: 'Move an object to another key, in one step',
  roles: WRITERS_AND_USERS,
  conditionalScopes: READS,
  input: Input({
    bucket: Bucket,
    from: KeyOf('Key of the object.'),
    to: KeyOf('New key of the object.'),
    ...TO_CONDITIONS,
  }),
  output: Stored,
  http: {
    method: 'POST',
    path: '/v1/buckets/{bucket}/move',
    body: '*',
    headers: CHANGE_HEADERS,
    etag: ({ etag }) => etag,
  },
  run: async (scope, { bucket, from, to, ...conditions }) => {
    await requireReadable(scope, from)
    await requireObjectRule(scope, 'delete', from)
    await requireObjectRule(scope, 'write', to)
    const moved = await objectsOf(scope).move({ bucket: checkBucket(bucket), key: from }, to, conditions)
    return { bucket, key: to, size: moved.size, etag: moved.etag, created: moved.created }
  },
})

const { objectsRemovedMax } = OBJECT_LIMITS

export const removeObjects = workspaceOperation({
  name: 'object.remove_all',
  summary: 'Delete objects by their keys, or all below a prefix',
  roles: WRITERS_AND_USERS,
  scope: 'objects:write',
  input: Input({
    bucket: Bucket,
    keys: Type.Optional(
      Type.Array(KeyOf('Key of an object; one that does not exist is skipped.'), {
        minItems: 1,
        maxItems: objectsRemovedMax,
        description: 'Keys of the objects. Send either `keys` or `prefix`.',
      }),
    ),
    prefix: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: CORE_LIMITS.objectKeyBytesMax,
        description: `Prefix of the keys, such as \`old/\`. If there are more than ${objectsRemovedMax}, a worker deletes them: the answer is 202 with the operation. Objects that are written meanwhile stay.`,
      }),
    ),
  }),
  output: Type.Union([
    component(
      'RemovedObjects',
      Type.Object({ removed: Type.Integer({ description: 'Number of objects that were deleted.' }) }),
      { removed: 12 },
    ),
    Removal,
  ]),
  http: {
    method: 'POST',
    path: '/v1/buckets/{bucket}/delete',
    body: '*',
    status: (output) => ('id' in output ? 202 : 200),
    also: [202],
    location: (output) => ('id' in output ? `/v1/operations/${output.id}` : undefined),
  },
  run: async (scope, { bucket, keys, prefix }) => {
    if ((keys === undefined) === (prefix === undefined))
      throw bodyProblem('/keys', 'Send either `keys` or `prefix`.')
    for (const key of keys ?? [prefix ?? '']) await requireObjectRule(scope, 'delete', key)
    const which = keys === undefined ? { prefix: prefix ?? '' } : { keys }
    return objectsOf(scope).removeAll(checkBucket(bucket), which)
  },
})

const Described = component(
  'ObjectDescription',
  Type.Object({
    bucket: Type.String(),
    key: Type.String(),
    size: Type.Integer({ description: 'Size in bytes.' }),
    etag: Type.String({ description: 'ETag of the bytes, as the object itself has it.' }),
    version: Type.String({
      description:
        'Differs after each change of the object, of its metadata or its tags. In quotes, it is the `ETag` of this reply.',
    }),
    headers: Type.Record(Type.String(), Type.String(), {
      description: 'Headers that are sent with the bytes.',
    }),
    metadata: Texts,
    tags: Texts,
    owner: Type.Union([Type.String(), Type.Null()], {
      description: 'Id of the user who created the object; `null`: a key did.',
    }),
    last_modified: Time,
  }),
  {
    bucket: 'bookings-4z3v73kk0e00',
    key: 'photos/centre-court.jpg',
    size: 48_213,
    etag: '"5d41402abc4b2a76b9719d911017c592"',
    version: '7f3a',
    headers: { 'content-type': 'image/jpeg' },
    metadata: { photographer: 'ada' },
    tags: { season: '2026' },
    owner: null,
    last_modified: EXAMPLE_TIME.updated,
  },
)

const toDescribed = (bucket: string, entry: CatalogueEntry) => ({
  bucket,
  key: entry.key,
  size: entry.size,
  etag: tagOf(entry),
  version: entry.version,
  headers: entry.headers,
  metadata: entry.metadata,
  tags: entry.tags,
  owner: entry.owner,
  last_modified: new Date(entry.modifiedMs).toISOString(),
})

export const describeObject = workspaceOperation({
  name: 'object.describe',
  summary: 'Read what is kept with an object, without its content',
  roles: DATA_ROLES,
  input: Input({ bucket: Bucket, key: KeyOf('Key of the object.') }),
  output: Described,
  http: {
    method: 'GET',
    path: '/v1/buckets/{bucket}/object',
    etag: versionTagOf,
  },
  run: async (scope, { bucket, key }) => {
    await requireReadable(scope, key)
    return toDescribed(bucket, await objectsOf(scope).describe({ bucket: checkBucket(bucket), key }))
  },
})

export const updateObject = workspaceOperation({
  name: 'object.update',
  summary: 'Replace the metadata or the tags of an object; absent ones do not change',
  roles: WRITERS_AND_USERS,
  conditionalScopes: READS,
  input: Input({
    bucket: Bucket,
    key: KeyOf('Key of the object.'),
    metadata: Type.Optional(Metadata),
    tags: Type.Optional(Tags),
    if_match: Header(
      'ETag that `GET` of this path, or the last change, has answered: 412 if the object, its metadata or its tags have changed since.',
    ),
  }),
  output: Described,
  http: {
    method: 'PATCH',
    path: '/v1/buckets/{bucket}/object',
    body: '*',
    headers: { if_match: 'if-match' },
    etag: versionTagOf,
  },
  run: async (scope, { bucket, key, metadata, tags, if_match }) => {
    await requireReadable(scope, key)
    await requireObjectRule(scope, 'write', key)
    const change = { ...(metadata !== undefined && { metadata }), ...(tags !== undefined && { tags }) }
    return objectsOf(scope).update(
      { bucket: checkBucket(bucket), key },
      {
        ifMatch: if_match,
        change: (kept) => ({ ...kept, ...change }),
        outputOf: (entry) => toDescribed(bucket, entry),
      },
    )
  },
})
