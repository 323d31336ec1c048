/** IAM at the object store: one user per workspace, with a policy for exactly its bucket. */

import {
  CreateAccessKeyCommand,
  CreateUserCommand,
  DeleteAccessKeyCommand,
  DeleteUserPolicyCommand,
  IAMClient,
  IAMServiceException,
  ListAccessKeysCommand,
  PutUserPolicyCommand,
} from '@aws-sdk/client-iam'
import { checkBucket, PAYLOAD_BUCKET } from '../../core/object-key.ts'
import { Problem } from '../../core/problem.ts'
import type { WorkspaceId, WorkspaceRef } from '../../core/tenant.ts'
import type { Config } from '../config.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { unavailable } from '../unavailable.ts'
import {
  type ObjectClients,
  type Objects,
  rootOf,
  type SealedIdentity,
  type StorageKey,
  storeOf,
  timeoutsOf,
} from './clients.ts'

export type StorageAction = 'read' | 'write' | 'list' | 'admin'

/** The store's rights to read, write, list and delete, as its IAM names them; object by object, no more. */
const ACTIONS: Readonly<Record<StorageAction, readonly string[]>> = {
  read: ['s3:GetObject'],
  write: ['s3:PutObject', 's3:DeleteObject'],
  list: ['s3:ListBucket'],
  admin: ['s3:*'],
}
/** Rights of a workspace's user. Not `admin`: with it, a workspace could open its bucket to others. */
const GRANTED: readonly StorageAction[] = ['read', 'write', 'list']

const POLICY = 'own-bucket'

/**
 * The policy document for one bucket.
 * @throws Problem `bucket_required` without a bucket, `InvalidBucketName` for a wildcard, any other invalid name, and
 *   the platform's own bucket: an empty or wildcard scope is never written
 */
export function policyFor(bucket: string | null, actions: readonly StorageAction[]): string {
  if (bucket === null || bucket === '') throw new Problem('bucket_required')
  if (bucket === PAYLOAD_BUCKET) throw new Problem('InvalidBucketName')
  const arn = `arn:aws:s3:::${checkBucket(bucket)}`
  const Action = actions.flatMap((action) => ACTIONS[action])
  const statement = { Effect: 'Allow', Action, Resource: [arn, `${arn}/*`] }
  return JSON.stringify({ Version: '2012-10-17', Statement: [statement] })
}

export class StorageIdentities {
  readonly #iam: IAMClient

  constructor(config: Config) {
    const { endpoint, region, maxAttempts } = storeOf(config)
    this.#iam = new IAMClient({
      endpoint,
      region,
      maxAttempts,
      requestHandler: timeoutsOf(INFRA_LIMITS.storeAnswerMs),
      credentials: rootOf(config),
    })
  }

  /** Creates the user, or updates its policy. Idempotent. @throws as {@link policyFor}, or 503 */
  async ensureUser(workspaceId: WorkspaceId, bucket: string | null): Promise<void> {
    const PolicyDocument = policyFor(bucket, GRANTED)
    const UserName = userOf(workspaceId)
    await callIam(async () => {
      await this.#iam.send(new CreateUserCommand({ UserName })).catch((error: unknown) => {
        if (!(error instanceof IAMServiceException && error.name.startsWith('EntityAlreadyExists')))
          throw error
      })
      await this.#iam.send(new PutUserPolicyCommand({ UserName, PolicyName: POLICY, PolicyDocument }))
    })
  }

  /** Deletes the user's policy: its keys remain, without any right. Idempotent. */
  async shut(workspaceId: WorkspaceId): Promise<void> {
    const UserName = userOf(workspaceId)
    await callIam(async () => {
      await this.#iam
        .send(new DeleteUserPolicyCommand({ UserName, PolicyName: POLICY }))
        .catch((error: unknown) => {
          if (!(error instanceof IAMServiceException && error.name.startsWith('NoSuchEntity'))) throw error
        })
    })
  }

  /** Creates a key; its secret is returned only here. */
  async newKey(workspaceId: WorkspaceId): Promise<StorageKey> {
    const made = await callIam(() =>
      this.#iam.send(new CreateAccessKeyCommand({ UserName: userOf(workspaceId) })),
    )
    const { AccessKeyId: accessKeyId, SecretAccessKey: secretAccessKey } = made.AccessKey ?? {}
    if (!accessKeyId || !secretAccessKey)
      throw identityUnavailable(new Error('IAM made a key without a secret'))
    return { accessKeyId, secretAccessKey }
  }

  /** Deletes every key of the user but one. @returns true if that one exists */
  async keepOnly(workspaceId: WorkspaceId, accessKeyId: string | undefined): Promise<boolean> {
    const UserName = userOf(workspaceId)
    return callIam(async () => {
      const { AccessKeyMetadata = [] } = await this.#iam.send(new ListAccessKeysCommand({ UserName }))
      const known = AccessKeyMetadata.flatMap(({ AccessKeyId }) => (AccessKeyId ? [AccessKeyId] : []))
      for (const AccessKeyId of known.filter((id) => id !== accessKeyId))
        await this.#iam.send(new DeleteAccessKeyCommand({ UserName, AccessKeyId }))
      return accessKeyId !== undefined && known.includes(accessKeyId)
    })
  }

  close(): void {
    this.#iam.destroy()
  }
}

const userOf = (workspaceId: WorkspaceId) => `tenon-${workspaceId}`

async function callIam<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    throw identityUnavailable(cause)
  }
}

const identityUnavailable = (cause: unknown): Problem =>
  unavailable('s3', cause, 'The object store (S3) did not return the identity.')

interface StorageServices {
  readonly objects: Objects
  readonly identities: StorageIdentities
  readonly objectClients: ObjectClients
}

/** Creates the bucket of a workspace, and manages the keys and the rights of its storage identity. */
export class StorageAdmin {
  readonly #services: StorageServices

  constructor(services: StorageServices) {
    this.#services = services
  }

  makeBucket(name: string, owner: string): Promise<void> {
    return this.#services.objects.makeBucket(name, owner)
  }

  /** A new key of the workspace's storage identity, encrypted for the workspace; unused until it is stored. */
  async newKey(ref: WorkspaceRef, bucket: string | null): Promise<SealedIdentity> {
    const { identities, objectClients } = this.#services
    await identities.ensureUser(ref.workspaceId, bucket)
    // Keys that crashed attempts left behind count against the store's limit.
    await identities.keepOnly(ref.workspaceId, undefined)
    const key = await identities.newKey(ref.workspaceId)
    return { access_key_id: key.accessKeyId, sealed: objectClients.seal(ref, key) }
  }

  /** Deletes every key of the workspace's storage identity but this one. @returns true if this one exists */
  keepKey(ref: WorkspaceRef, accessKeyId: string): Promise<boolean> {
    return this.#services.identities.keepOnly(ref.workspaceId, accessKeyId)
  }

  /** Opens the store to the workspace's own identity, or closes it; its keys stay as they are. Idempotent. */
  setAccess(ref: WorkspaceRef, bucket: string, isOpen: boolean): Promise<void> {
    const { identities } = this.#services
    return isOpen ? identities.ensureUser(ref.workspaceId, bucket) : identities.shut(ref.workspaceId)
  }
}
