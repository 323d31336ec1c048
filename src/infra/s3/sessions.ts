/**
 * Sessions at the object store, each for exactly one bucket: STS `AssumeRole` with a session policy (AWS STS API Reference).
 * The store keeps no state of them, so their number costs nothing there.
 */

import { AssumeRoleCommand, STSClient } from '@aws-sdk/client-sts'
import { checkBucket, PAYLOAD_BUCKET } from '../../core/object-key.ts'
import { Problem } from '../../core/problem.ts'
import type { Config } from '../config.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { unavailable as serverUnavailable } from '../unavailable.ts'
import { requestsWith, rootOf, timeoutsOf } from './options.ts'

/** The rights of a session: object by object, and nothing that would open the bucket to others. */
const OBJECT_ACTIONS = [
  ...['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
  ...['s3:AbortMultipartUpload', 's3:ListMultipartUploadParts'],
]
const BUCKET_ACTIONS = ['s3:ListBucket', 's3:ListBucketMultipartUploads']

export interface StorageSession {
  readonly credentials: {
    readonly accessKeyId: string
    readonly secretAccessKey: string
    readonly sessionToken: string
  }
  /** Milliseconds until it ends: what the store granted, which may be less than what was asked for. */
  readonly lifeMs: number
}

/**
 * The policy document for one bucket.
 * @throws Problem `bucket_required` without a bucket, `InvalidBucketName` for a wildcard, any other invalid name, and
 *   the platform's own bucket: an empty or wildcard scope is never written
 */
export function policyFor(bucket: string | null): string {
  if (bucket === null || bucket === '') throw new Problem('bucket_required')
  if (bucket === PAYLOAD_BUCKET) throw new Problem('InvalidBucketName')
  const arn = `arn:aws:s3:::${checkBucket(bucket)}`
  const Statement = [
    { Effect: 'Allow', Action: OBJECT_ACTIONS, Resource: [`${arn}/*`] },
    { Effect: 'Allow', Action: BUCKET_ACTIONS, Resource: [arn] },
  ]
  return JSON.stringify({ Version: '2012-10-17', Statement })
}

export class StorageSessions {
  readonly #sts: STSClient
  readonly #role: string

  constructor(config: Config) {
    this.#role = config.S3_ROLE_ARN
    this.#sts = new STSClient({
      endpoint: config.S3_STS_ENDPOINT ?? config.S3_ENDPOINT,
      region: config.S3_REGION,
      maxAttempts: 2,
      requestHandler: requestsWith(config, timeoutsOf(INFRA_LIMITS.storeAnswerMs)),
      credentials: rootOf(config),
    })
  }

  /**
   * Opens a session for one bucket. Two fences hold it there: the session policy, and the policy of the role, which names the
   * bucket by the session's name (SeaweedFS: `${aws:username}`) or by its tag (AWS: `${aws:PrincipalTag/bucket}`).
   * @throws as {@link policyFor}; Problem `dependency_unavailable` if the store opens none
   */
  async open(bucket: string): Promise<StorageSession> {
    const input = {
      RoleArn: this.#role,
      RoleSessionName: bucket,
      Policy: policyFor(bucket),
      Tags: [{ Key: 'bucket', Value: bucket }],
      DurationSeconds: INFRA_LIMITS.storageSessionMs / 1_000,
    }
    const { Credentials } = await this.#sts.send(new AssumeRoleCommand(input)).catch((cause: unknown) => {
      throw unavailable(cause)
    })
    const { AccessKeyId, SecretAccessKey, SessionToken, Expiration } = Credentials ?? {}
    if (!AccessKeyId || !SecretAccessKey || !SessionToken || !Expiration)
      throw unavailable(new Error('STS answered without credentials'))
    return {
      credentials: {
        accessKeyId: AccessKeyId,
        secretAccessKey: SecretAccessKey,
        sessionToken: SessionToken,
      },
      lifeMs: Expiration.getTime() - Date.now(),
    }
  }

  close(): void {
    this.#sts.destroy()
  }
}

function unavailable(cause: unknown): Problem {
  return serverUnavailable('s3', cause, 'The object store (S3) opened no session for the bucket.')
}
