/** S3 with the platform's root identity: making buckets. Tenants' objects never go through it. */

import {
  BucketAlreadyExists,
  BucketAlreadyOwnedByYou,
  CreateBucketCommand,
  ListBucketsCommand,
  S3Client,
} from '@aws-sdk/client-s3'
import { Problem } from '../core/problem.ts'
import type { Config } from './config.ts'

export class Objects {
  readonly #s3: S3Client

  constructor(config: Config) {
    this.#s3 = new S3Client({
      endpoint: config.S3_ENDPOINT,
      region: 'us-east-1',
      forcePathStyle: true,
      requestChecksumCalculation: 'WHEN_REQUIRED',
      maxAttempts: 2,
      requestHandler: { connectionTimeout: 2_000, requestTimeout: 10_000 },
      credentials: { accessKeyId: config.S3_ACCESS_KEY_ID, secretAccessKey: config.S3_SECRET_ACCESS_KEY },
    })
  }

  /** Idempotent: a bucket that is already there is ours, since names are taken in the database first. */
  async makeBucket(name: string): Promise<void> {
    try {
      await this.#s3.send(new CreateBucketCommand({ Bucket: name }))
    } catch (error) {
      if (error instanceof BucketAlreadyExists || error instanceof BucketAlreadyOwnedByYou) return
      throw new Problem('dependency_unavailable', {
        detail: 'The object store does not answer.',
        cause: error,
      })
    }
  }

  async ping(): Promise<void> {
    await this.#s3.send(new ListBucketsCommand({}))
  }

  close(): void {
    this.#s3.destroy()
  }
}
