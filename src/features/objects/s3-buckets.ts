/** Operations of the S3 API on the bucket: lists of S3's size, deletion of many objects, the bucket itself. */

import Type from 'typebox'
import { Input, workspaceOperation } from '../../access/operation-builders.ts'
import { checkBucket, checkKey } from '../../core/object-key.ts'
import { WRITERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import type { CommonPrefix, ListedEntry } from './catalogue.ts'
import { OBJECT_LIMITS } from './limits.ts'
import { Bucket } from './object-fields.ts'
import { requireGrant, requireObjectRule, requireReadable } from './object-rules.ts'
import { deleteIfThere } from './s3-objects.ts'
import { objectsOf } from './workspace-objects.ts'

const PATH = '/s3/{bucket}'

/** The result for one of many objects. */
interface Deletion {
  readonly key: string
  readonly problem: Problem | undefined
}

export const deleteObjects = workspaceOperation({
  name: 'object.delete_many',
  summary: 'Delete objects; each succeeds or fails by itself',
  roles: WRITERS,
  input: Input({
    bucket: Bucket,
    quiet: Type.Optional(Type.Boolean({ description: 'True if the reply lists failures alone.' })),
    objects: Type.Array(
      Input({ key: Type.String({ maxLength: 4_096 }), if_match: Type.Optional(Type.String()) }),
      { minItems: 1, maxItems: OBJECT_LIMITS.objectsRemovedMax },
    ),
  }),
  output: Type.Unsafe<readonly Deletion[]>(Type.Unknown()),
  http: { method: 'POST', path: PATH },
  run: async (scope, { bucket, objects }) => {
    const deletions: Deletion[] = []
    const keys: string[] = []
    for (const { key, if_match } of objects) {
      const problem = await findProblem(async () => {
        await requireObjectRule(scope, 'delete', key)
        if (if_match === undefined) keys.push(checkKey(key))
        else await deleteIfThere.run(scope, { bucket, key, if_match })
      })
      deletions.push({ key, problem })
    }
    await objectsOf(scope).removeAll(checkBucket(bucket), { keys })
    return deletions
  },
})

/** The problem of work that the caller may see; undefined if it succeeds. */
async function findProblem(work: () => Promise<void>): Promise<Problem | undefined> {
  try {
    await work()
    return undefined
  } catch (error) {
    if (error instanceof Problem && error.status < 500) return error
    throw error
  }
}

export const listForS3 = workspaceOperation({
  name: 'object.list',
  summary: 'List objects and common prefixes in the byte order of their keys',
  roles: WRITERS,
  input: Input({
    bucket: Bucket,
    prefix: Type.String({ maxLength: 1_024 }),
    delimiter: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
    after: Type.Optional(Type.String({ maxLength: 1_100 })),
    size: Type.Integer({ minimum: 0, maximum: OBJECT_LIMITS.keysListedMax }),
  }),
  output: Type.Unsafe<{
    readonly items: readonly (ListedEntry | CommonPrefix)[]
    readonly next: string | undefined
  }>(Type.Unknown()),
  http: { method: 'GET', path: PATH },
  run: async (scope, { bucket, prefix, delimiter, after, size }) => {
    await requireReadable(scope, prefix, 'list')
    return objectsOf(scope).list(checkBucket(bucket), { prefix, delimiter, after, size })
  },
})

/** The bucket of a workspace. */
interface BucketRow {
  readonly name: string
  /** RFC 3339. */
  readonly created_at: string
}

export const getBucket = workspaceOperation({
  name: 'bucket.get',
  summary: 'Check that the bucket is that of the workspace',
  area: 'objects',
  roles: WRITERS,
  input: Input({ bucket: Bucket }),
  output: Type.Object({ bucket: Type.String() }),
  http: { method: 'HEAD', path: PATH },
  run: async (scope, { bucket }) => {
    requireGrant(scope.actor, 'list')
    await objectsOf(scope).requireOwn(checkBucket(bucket))
    return { bucket }
  },
})

export const listBuckets = workspaceOperation({
  name: 'bucket.list',
  summary: 'List the bucket of the workspace',
  area: 'objects',
  roles: WRITERS,
  input: Input({}),
  output: Type.Unsafe<readonly BucketRow[]>(Type.Unknown()),
  http: { method: 'GET', path: '/s3' },
  run: async (scope) => {
    requireGrant(scope.actor, 'list')
    return scope.rows<BucketRow>(
      sql`select name, created_at from buckets where workspace_id = ${scope.ref.workspaceId}`,
    )
  },
})

/** For requests of S3 that the platform does not serve: they are refused after their caller is known. */
export const refuseUnknown = workspaceOperation({
  name: 'object.unsupported',
  summary: 'Refuse an operation of S3 that the platform does not have',
  roles: WRITERS,
  scope: 'objects:read',
  input: Input({}),
  output: Type.Unknown(),
  http: { method: 'GET', path: '/s3' },
  run: async () => {
    throw new Problem('NotImplemented')
  },
})
