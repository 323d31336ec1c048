/** S3 with the platform's root identity: making buckets. Tenants' objects never go through it. */

import {
  BucketAlreadyExists,
  BucketAlreadyOwnedByYou,
  CreateBucketCommand,
  GetBucketTaggingCommand,
  ListBucketsCommand,
  PutBucketTaggingCommand,
  S3Client,
  type S3ClientConfig,
  S3ServiceException,
} from '@aws-sdk/client-s3'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { Config } from '../config.ts'

const OWNER_TAG = 'tenon-workspace'

/** How every client speaks to the store. Checksums are trailers that not every store takes: only where required. */
export function storeOf(config: Config) {
  return {
    endpoint: config.S3_ENDPOINT,
    region: 'us-east-1',
    forcePathStyle: true,
    disableS3ExpressSessionAuth: true,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    maxAttempts: 2,
  } as const satisfies S3ClientConfig
}

/** The platform's own identity, which makes buckets and identities. */
export const rootOf = (config: Config) => ({
  accessKeyId: config.S3_ACCESS_KEY_ID,
  secretAccessKey: config.S3_SECRET_ACCESS_KEY,
})

export class Objects {
  readonly #s3: S3Client

  constructor(config: Config) {
    this.#s3 = new S3Client({
      ...storeOf(config),
      requestHandler: { connectionTimeout: LIMITS.storeConnectMs, requestTimeout: 10_000 },
      credentials: rootOf(config),
    })
  }

  /**
   * Makes a bucket for its owner. Idempotent for the same owner, by a tag that is set when it is made; a bucket that
   * is there without that tag belongs to somebody else, whatever our database says.
   * @throws Problem `conflict`, or `dependency_unavailable`
   */
  async makeBucket(name: string, owner: string): Promise<void> {
    try {
      if (await this.#create(name)) await this.#tag(name, owner)
      else if ((await this.#ownerOf(name)) !== owner)
        throw new Problem('conflict', { detail: `The bucket ${name} is taken.` })
    } catch (error) {
      if (error instanceof Problem) throw error
      throw new Problem('dependency_unavailable', {
        detail: 'The object store does not answer.',
        cause: error,
      })
    }
  }

  /** @returns whether it was made now */
  async #create(Bucket: string): Promise<boolean> {
    try {
      await this.#s3.send(new CreateBucketCommand({ Bucket }))
      return true
    } catch (error) {
      if (error instanceof BucketAlreadyExists || error instanceof BucketAlreadyOwnedByYou) return false
      throw error
    }
  }

  async #tag(Bucket: string, Value: string): Promise<void> {
    await this.#s3.send(
      new PutBucketTaggingCommand({ Bucket, Tagging: { TagSet: [{ Key: OWNER_TAG, Value }] } }),
    )
  }

  async #ownerOf(Bucket: string): Promise<string | undefined> {
    try {
      const { TagSet = [] } = await this.#s3.send(new GetBucketTaggingCommand({ Bucket }))
      return TagSet.find(({ Key }) => Key === OWNER_TAG)?.Value
    } catch (error) {
      if (error instanceof S3ServiceException && error.name === 'NoSuchTagSet') return undefined
      throw error
    }
  }

  async ping(): Promise<void> {
    await this.#s3.send(new ListBucketsCommand({}))
  }

  close(): void {
    this.#s3.destroy()
  }
}
