/** Creates buckets with the root identity, one at a time in the whole installation. */

import {
  AbortMultipartUploadCommand,
  BucketAlreadyExists,
  BucketAlreadyOwnedByYou,
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetBucketTaggingCommand,
  HeadBucketCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  NoSuchBucket,
  PutBucketTaggingCommand,
  PutObjectCommand,
  paginateListObjectsV2,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3'
import { Problem } from '../../core/problem.ts'
import type { Config } from '../config.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { unavailable } from '../unavailable.ts'
import { statusOf } from './errors.ts'
import { rootOf, storeOf, timeoutsOf } from './options.ts'

/** Above it, keys are not counted exactly. */
const COUNTED_MAX = 10_000

const OWNER_TAG = 'tenon-workspace'
/** A key that no caller can address: the stored form of a key has no `%` but in escapes (core/object-key.ts). */
const FIRST_KEY = '%first'

const taken = (name: string) => new Problem('conflict', { detail: `The bucket ${name} is taken.` })

/** Runs work while no other process of the installation runs such work. */
export type Exclusively = <T>(work: () => Promise<T>) => Promise<T>

export class Buckets {
  readonly #s3: S3Client
  readonly #exclusively: Exclusively

  constructor(config: Config, exclusively: Exclusively) {
    this.#exclusively = exclusively
    this.#s3 = new S3Client({
      ...storeOf(config, timeoutsOf(INFRA_LIMITS.bucketAnswerMs)),
      // The lock ends after `transactionIdleMs`, and four requests must end before. Callers try again.
      maxAttempts: 1,
      credentials: rootOf(config),
    })
  }

  /**
   * Creates a bucket for its owner, and writes a first object to it. Idempotent for the same owner, whom a tag names. A bucket without
   * the tag is taken for one that an attempt has created and not tagged yet: ask {@link requireFree} before the first attempt.
   * The master of SeaweedFS stops for good if a bucket is created while another one gets its first object, hence the lock, and
   * a first object before any caller can write one.
   * @throws Problem `conflict`, or `dependency_unavailable`
   */
  async make(name: string, owner: string): Promise<void> {
    await this.#asProblem(() =>
      this.#exclusively(async () => {
        const known = (await this.#create(name)) ? undefined : await this.#findOwner(name)
        if (known === undefined) await this.#tag(name, owner)
        else if (known !== owner) throw taken(name)
        await this.#writeFirst(name)
      }),
    )
  }

  /** @throws Problem `conflict` if there is a bucket of that name that is not the owner's, or `dependency_unavailable` */
  async requireFree(name: string, owner: string): Promise<void> {
    if ((await this.readState(name, owner)) === 'foreign') throw taken(name)
  }

  /**
   * Compares the bucket with its owner; one without a tag is foreign.
   * @throws Problem `dependency_unavailable`
   */
  async readState(name: string, owner: string): Promise<'own' | 'missing' | 'foreign'> {
    try {
      if (!(await this.#isThere(name))) return 'missing'
      return (await this.#findOwner(name)) === owner ? 'own' : 'foreign'
    } catch (error) {
      throw unavailable('s3', error)
    }
  }

  async #isThere(Bucket: string): Promise<boolean> {
    try {
      await this.#s3.send(new HeadBucketCommand({ Bucket }))
      return true
    } catch (error) {
      if (statusOf(error) === 404) return false
      throw error
    }
  }

  /**
   * Removes the bucket of its owner, also one that is not tagged yet, as {@link make} takes it. Idempotent.
   * @throws Problem `conflict` if it has objects, or `dependency_unavailable`
   */
  async remove(name: string, owner: string): Promise<void> {
    await this.#asProblem(() =>
      this.#exclusively(async () => {
        const known = await this.#findOwner(name)
        if (known === undefined || known === owner) await this.#removeEmpty(name)
      }),
    )
  }

  /**
   * Counts the keys that begin with a prefix, in the bucket of its owner. Stops at {@link COUNTED_MAX}.
   * @throws Problem `dependency_unavailable`, also if the tag of the bucket does not name the owner
   */
  async count(name: string, owner: string, Prefix = ''): Promise<number> {
    let count = 0
    await this.#asProblem(async () => {
      if (!(await this.#isOwn(name, owner))) return
      for await (const { KeyCount = 0 } of paginateListObjectsV2(
        { client: this.#s3 },
        { Bucket: name, Prefix },
      )) {
        count += KeyCount
        if (count >= COUNTED_MAX) return
      }
    })
    return count
  }

  /**
   * Deletes some keys that begin with a prefix, and the uploads that were begun, in the bucket of its owner.
   * @returns true if there may be more
   * @throws Problem `dependency_unavailable`, also if the tag of the bucket does not name the owner
   */
  async removeSome(name: string, owner: string, Prefix = ''): Promise<boolean> {
    let hasMore = false
    await this.#asProblem(async () => {
      if (!(await this.#isOwn(name, owner))) return
      const { Contents = [] } = await this.#s3.send(new ListObjectsV2Command({ Bucket: name, Prefix }))
      const Objects = Contents.flatMap(({ Key }) => (Key === undefined ? [] : [{ Key }]))
      if (Objects.length > 0) {
        const { Errors = [] } = await this.#s3.send(
          new DeleteObjectsCommand({ Bucket: name, Delete: { Objects, Quiet: true } }),
        )
        if (Errors[0] !== undefined) throw new Error(`${Errors[0].Code}: ${Errors[0].Message}`)
      }
      const { Uploads = [] } = await this.#s3.send(new ListMultipartUploadsCommand({ Bucket: name, Prefix }))
      for (const { Key, UploadId } of Uploads)
        await this.#s3.send(new AbortMultipartUploadCommand({ Bucket: name, Key, UploadId }))
      hasMore = Objects.length + Uploads.length > 0
    })
    return hasMore
  }

  /**
   * @returns false if there is no bucket, or one without a tag and keys, which a creation that was cut off has left
   * @throws Problem `dependency_unavailable` if nobody can tell that its keys are the owner's
   */
  async #isOwn(name: string, owner: string): Promise<boolean> {
    const known = await this.#findOwner(name)
    if (known === owner) return true
    if (known === undefined && (await this.#isEmpty(name))) return false
    const detail = `The tag ${OWNER_TAG} of the bucket ${name} does not name ${owner}, so its objects are neither counted nor removed. Find out who changed the tag, and set it again.`
    throw unavailable('s3', undefined, detail)
  }

  async #isEmpty(Bucket: string): Promise<boolean> {
    try {
      const { KeyCount } = await this.#s3.send(new ListObjectsV2Command({ Bucket, MaxKeys: 1 }))
      return KeyCount === 0
    } catch (error) {
      if (error instanceof NoSuchBucket) return true
      throw error
    }
  }

  async #removeEmpty(Bucket: string): Promise<void> {
    try {
      // A creation that was cut off may have left it.
      await this.#s3.send(new DeleteObjectCommand({ Bucket, Key: FIRST_KEY }))
      // The store would remove them with the bucket.
      if (!(await this.#isEmpty(Bucket)))
        throw new Problem('conflict', { detail: `The bucket ${Bucket} has objects.` })
      await this.#s3.send(new DeleteBucketCommand({ Bucket }))
    } catch (error) {
      if (!(error instanceof NoSuchBucket)) throw error
    }
  }

  async #asProblem(work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      if (error instanceof Problem) throw error
      throw unavailable('s3', error)
    }
  }

  /** @returns true if this call created it */
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

  /** The store allocates the place of a bucket with its first object, and keeps it without one. */
  async #writeFirst(Bucket: string): Promise<void> {
    await this.#s3.send(new PutObjectCommand({ Bucket, Key: FIRST_KEY, Body: 'x' }))
    await this.#s3.send(new DeleteObjectCommand({ Bucket, Key: FIRST_KEY }))
  }

  async #findOwner(Bucket: string): Promise<string | undefined> {
    try {
      const { TagSet = [] } = await this.#s3.send(new GetBucketTaggingCommand({ Bucket }))
      return TagSet.find(({ Key }) => Key === OWNER_TAG)?.Value
    } catch (error) {
      if (error instanceof S3ServiceException && ['NoSuchTagSet', 'NoSuchBucket'].includes(error.name))
        return undefined
      throw error
    }
  }

  close(): void {
    this.#s3.destroy()
  }
}
