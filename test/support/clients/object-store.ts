/** Reads the object store with a session of a workspace or the root identity, bypassing the API. */

import { S3Client } from '@aws-sdk/client-s3'
import { inject } from 'vitest'
import { parseConfig } from '../../../src/infra/config.ts'
import { rootOf, storeOf } from '../../../src/infra/s3/options.ts'
import { type StorageSession, StorageSessions } from '../../../src/infra/s3/sessions.ts'
import type { TestWorkspace } from '../fixtures/tenants.ts'
import type { Running } from '../stack/start.ts'
import { bucketOf } from '../stack/workspace-settings.ts'

/** A bare S3 client with a session of the workspace. */
export async function clientOf(of: TestWorkspace): Promise<S3Client> {
  const sessions = new StorageSessions(parseConfig(inject('tenon').env))
  const { credentials } = await sessions.open(await bucketOf(of))
  sessions.close()
  return s3With(credentials)
}

/** The platform's own identity, which has access to every bucket. */
export const rootClient = (at: Running = inject('tenon')): S3Client => s3With(rootOf(parseConfig(at.env)), at)

/** @param credentials of a session, or of the root identity */
export function s3With(
  credentials: StorageSession['credentials'] | ReturnType<typeof rootOf>,
  at: Running = inject('tenon'),
): S3Client {
  return new S3Client({ ...storeOf(parseConfig(at.env)), maxAttempts: 1, credentials })
}
