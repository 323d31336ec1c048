/** Reads the object store with a workspace's own key, bypassing the API. */

import { S3Client } from '@aws-sdk/client-s3'
import { inject } from 'vitest'
import { parseConfig } from '../../../src/infra/config.ts'
import { Secrets } from '../../../src/infra/crypto/secrets.ts'
import { rootOf, storeOf } from '../../../src/infra/s3/clients.ts'
import { asSuperuser, type TestWorkspace } from '../fixtures/tenants.ts'

export interface Identity {
  readonly bucket: string
  readonly access_key_id: string
  readonly sealed: Buffer
}

export async function identityOf({ workspaceId }: TestWorkspace): Promise<Identity> {
  const [row] = await asSuperuser<Identity>(
    'select bucket, access_key_id, sealed from tenon.storage_identities where workspace_id = $1',
    [workspaceId],
  )
  if (row === undefined) throw new Error('no identity')
  return row
}

/** A bare S3 client with the workspace's decrypted credentials from the database. */
export async function clientOf(of: TestWorkspace): Promise<S3Client> {
  const { access_key_id: accessKeyId, sealed } = await identityOf(of)
  const purpose = `storage:${of.tenantId}:${of.workspaceId}`
  const secretAccessKey = new Secrets(inject('tenon').masterKey).open(purpose, sealed).toString()
  const store = storeOf(parseConfig(inject('tenon').env))
  return new S3Client({ ...store, maxAttempts: 1, credentials: { accessKeyId, secretAccessKey } })
}

/** The platform's own identity, which has access to every bucket. */
export function rootClient(): S3Client {
  const config = parseConfig(inject('tenon').env)
  return new S3Client({ ...storeOf(config), maxAttempts: 1, credentials: rootOf(config) })
}
