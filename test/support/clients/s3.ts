/** Clients of the S3 API with storage keys of a workspace. */

import { S3Client } from '@aws-sdk/client-s3'
import { inject } from 'vitest'
import { call, type TestWorkspace } from '../fixtures/tenants.ts'
import { bucketOf } from '../stack/workspace-settings.ts'

export interface StorageKey {
  readonly id: string
  readonly secret: string
}

/** Creates a storage key, for everything in the bucket unless `of` says otherwise. */
export async function createStorageKey(
  { workspaceId, operator }: TestWorkspace,
  of: { actions?: readonly string[]; prefixes?: readonly string[] } = {},
): Promise<StorageKey> {
  const body = {
    workspace_id: workspaceId,
    kind: 'storage',
    name: 's3',
    actions: ['read', 'write', 'list'],
    ...of,
  }
  const made = await call('POST', '/v1/api-keys', { as: operator, body })
  if (made.status !== 201) throw new Error(`no storage key: ${JSON.stringify(made.body)}`)
  return { id: made.body.id, secret: made.body.key }
}

/** A client that does not repeat refused requests. */
const s3Client = ({ id, secret }: StorageKey, url = inject('tenon').url): S3Client =>
  new S3Client({
    endpoint: `${url}/s3`,
    region: 'us-east-1',
    forcePathStyle: true,
    maxAttempts: 1,
    credentials: { accessKeyId: id, secretAccessKey: secret },
  })

/** A client with a key for everything, and the name of the bucket. @param url of the API */
export async function openBucket(
  workspace: TestWorkspace,
  url?: string,
): Promise<{ s3: S3Client; bucket: string; key: StorageKey }> {
  const [key, bucket] = [await createStorageKey(workspace), await bucketOf(workspace)]
  return { s3: s3Client(key, url), bucket, key }
}
