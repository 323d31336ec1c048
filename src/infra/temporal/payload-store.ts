/** The platform's own bucket for payloads that are too large for a workflow history; they are encrypted before. */

import { GetObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { PAYLOAD_BUCKET } from '../../core/object-key.ts'
import { Problem } from '../../core/problem.ts'
import type { Config } from '../config.ts'
import { INFRA_LIMITS } from '../limits.ts'
import type { Buckets } from '../s3/buckets.ts'
import { statusOf } from '../s3/errors.ts'
import { rootOf, storeOf, timeoutsOf } from '../s3/options.ts'
import { unavailable } from '../unavailable.ts'

export class PayloadStore {
  readonly #s3: S3Client
  readonly #buckets: Buckets
  #bucket: Promise<void> | undefined

  constructor(config: Config, buckets: Buckets) {
    this.#buckets = buckets
    this.#s3 = new S3Client({
      ...storeOf(config, timeoutsOf(INFRA_LIMITS.payloads.storeTimeoutMs)),
      // Callers that can wait retry.
      maxAttempts: 1,
      credentials: rootOf(config),
    })
  }

  /** @throws Problem `dependency_unavailable` */
  async put(name: string, bytes: Buffer): Promise<void> {
    await this.#ready()
    const put = new PutObjectCommand({ Bucket: PAYLOAD_BUCKET, Key: name, Body: bytes })
    await this.#s3.send(put).catch((cause: unknown) => {
      throw unavailable('s3', cause)
    })
  }

  /** @throws Problem `payload_unreadable` if there is no such object, `dependency_unavailable` */
  async get(name: string): Promise<Buffer> {
    try {
      const { Body } = await this.#s3.send(new GetObjectCommand({ Bucket: PAYLOAD_BUCKET, Key: name }))
      return Buffer.from((await Body?.transformToByteArray()) ?? [])
    } catch (cause) {
      if (statusOf(cause) !== 404) throw unavailable('s3', cause)
      throw new Problem('payload_unreadable', {
        detail: 'The payload is no longer in the object store.',
        cause,
      })
    }
  }

  close(): void {
    this.#s3.destroy()
  }

  /** Creates the bucket when this process first needs it. */
  #ready(): Promise<void> {
    this.#bucket ??= this.#buckets.make(PAYLOAD_BUCKET, 'platform').catch((error: unknown) => {
      this.#bucket = undefined
      throw error
    })
    return this.#bucket
  }
}
