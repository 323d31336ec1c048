/** Reads the object store with a session of a workspace or the root identity, bypassing the API. */

import { S3Client } from '@aws-sdk/client-s3'
import { inject } from 'vitest'
import { parseConfig } from '../../../src/infra/config.ts'
import { rootOf, storeOf } from '../../../src/infra/s3/options.ts'
import { type StorageSession, StorageSessions } from '../../../src/infra/s3/sessions.ts'
import { asSuperuser, type TestWorkspace } from '../fixtures/tenants.ts'

export async function bucketOf({ workspaceId }: TestWorkspace): Promise<string> {
  const [row] = await asSuperuser<{ name: string }>(
    'select name from tenon.buckets where workspace_id = $1',
    [workspaceId],
  )
  if (row === undefined) throw new Error('no bucket')
  return row.name
}

/** A bare S3 client with a session of the workspace. */
export async function clientOf(of: TestWorkspace): Promise<S3Client> {
  const sessions = new StorageSessions(parseConfig(inject('tenon').env))
  const { credentials } = await sessions.open(await bucketOf(of))
  sessions.close()
  return s3With(credentials)
}

/** The platform's own identity, which has access to every bucket. */
export const rootClient = (): S3Client => s3With(rootOf(parseConfig(inject('tenon').env)))

/** @param credentials of a session, or of the root identity */
export function s3With(credentials: StorageSession['credentials'] | ReturnType<typeof rootOf>): S3Client {
  return new S3Client({ ...storeOf(parseConfig(inject('tenon').env)), maxAttempts: 1, credentials })
}
