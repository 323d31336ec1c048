/** A repository in a bucket of S3, with the settings that the tools of AWS have: `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL_S3` and so on. */

import { randomBytes } from 'node:crypto'
import type { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  NoSuchKey,
  NotFound,
  PutObjectCommand,
  paginateListObjectsV2,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3'
import { timeoutsOf } from '../../infra/s3/options.ts'
import { putStream } from '../../infra/s3/put-stream.ts'
import { fullRepository, isFull, StoreFault, storeFault } from '../store-fault.ts'
import { FileMissing, type FileStore, type StoredFile } from './file-store.ts'
import type { Chunks } from './sealed-stream.ts'

/** `s3://bucket`, or `s3://bucket/folder`. */
const ADDRESS = /^s3:\/\/([^/?#]+)\/?([^?#]*)$/
export const isBucket = (address: string): boolean => address.startsWith('s3:')

/** Until the head of an answer, and between two pieces of its body. */
const ANSWER_MS = 60_000

type Settings = Readonly<Record<string, string | undefined>>

/** A lock that was not renewed for so long is that of a process that was killed. */
const STALE_MS = 300_000

/** @throws Error if the address has another form */
export function openBucket(address: string, settings: Settings, staleMs = STALE_MS): FileStore {
  const [, bucket, folder = ''] = ADDRESS.exec(address) ?? []
  if (bucket === undefined)
    throw new Error(`${address} is no repository. Write a folder, s3://bucket, or s3://bucket/folder.`)
  const endpoint = settings['AWS_ENDPOINT_URL_S3'] ?? settings['AWS_ENDPOINT_URL']
  const region = settings['AWS_REGION'] ?? (endpoint === undefined ? undefined : 'us-east-1')
  const s3 = new S3Client({
    ...credentialsOf(settings),
    ...(endpoint !== undefined && { endpoint, forcePathStyle: true }),
    ...(region !== undefined && { region }),
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: timeoutsOf(ANSWER_MS),
  })
  return new BucketStore(s3, bucket, folder === '' || folder.endsWith('/') ? folder : `${folder}/`, staleMs)
}

/** Others come from where the SDK looks for them: profiles, the machine. */
function credentialsOf(settings: Settings) {
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = settings
  const { AWS_SESSION_TOKEN: sessionToken } = settings
  if (!accessKeyId || !secretAccessKey) return {}
  return { credentials: { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) } }
}

class BucketStore implements FileStore {
  readonly address: string
  readonly #s3: S3Client
  readonly #bucket: string
  /** Of all keys: empty, or with `/` at its end. */
  readonly #prefix: string
  readonly #locks: Locks

  constructor(s3: S3Client, bucket: string, prefix: string, staleMs: number) {
    this.#s3 = s3
    this.#bucket = bucket
    this.#prefix = prefix
    this.address = `s3://${bucket}/${prefix}`.replace(/\/$/, '')
    this.#locks = new Locks(this, staleMs)
  }

  async write(name: string, content: Chunks): Promise<void> {
    // Work of a process that has lost its lock must not end with a file that another one may have pruned the parts of.
    this.#locks.requireAll()
    await this.#asFault(putStream(this.#s3, this.#at(name), content))
  }

  /** In one answer after another, so that no connection waits for a reader that is slow. */
  async *read(name: string): Chunks {
    let [at, size] = [0, 1]
    while (at < size) {
      const { bytes, total } = await this.#readRange(name, at)
      yield bytes
      size = total
      at += bytes.length
      if (bytes.length === 0) return
    }
  }

  async has(name: string): Promise<boolean> {
    try {
      await this.#s3.send(new HeadObjectCommand(this.#at(name)))
      return true
    } catch (error) {
      if (isMissing(error)) return false
      throw this.#fault(error)
    }
  }

  async list(prefix: string): Promise<StoredFile[]> {
    return (await this.listTimed(prefix)).map(({ name, size }) => ({ name, size }))
  }

  async remove(name: string): Promise<void> {
    await this.#asFault(this.#s3.send(new DeleteObjectCommand(this.#at(name))))
  }

  sharing<T>(work: () => Promise<T>): Promise<T> {
    return this.#locks.with('add', work)
  }

  exclusively<T>(work: () => Promise<T>): Promise<T> {
    return this.#locks.with('prune', async () => {
      await this.#locks.removeStale()
      await this.#abandonUploads()
      return work()
    })
  }

  close(): void {
    this.#s3.destroy()
  }

  /** Files with the times of the store at which they were written. */
  async listTimed(prefix: string): Promise<(StoredFile & { readonly writtenMs: number })[]> {
    const found = []
    const command = { Bucket: this.#bucket, Prefix: `${this.#prefix}${prefix}` }
    try {
      for await (const { Contents = [] } of paginateListObjectsV2({ client: this.#s3 }, command))
        for (const { Key = '', Size: size = 0, LastModified } of Contents)
          found.push({ name: Key.slice(this.#prefix.length), size, writtenMs: LastModified?.getTime() ?? 0 })
    } catch (error) {
      throw this.#fault(error)
    }
    return found
  }

  async writeLock(name: string): Promise<void> {
    await this.#asFault(this.#s3.send(new PutObjectCommand({ ...this.#at(name), Body: 'lock' })))
  }

  #at(name: string) {
    return { Bucket: this.#bucket, Key: `${this.#prefix}${name}` }
  }

  async #readRange(name: string, from: number): Promise<{ bytes: Buffer; total: number }> {
    try {
      const Range = `bytes=${from}-${from + RANGE_BYTES - 1}`
      const { Body, ContentRange } = await this.#s3.send(new GetObjectCommand({ ...this.#at(name), Range }))
      const chunks: Buffer[] = []
      for await (const chunk of Body as Readable) chunks.push(chunk as Buffer)
      const bytes = Buffer.concat(chunks)
      return { bytes, total: Number(ContentRange?.split('/')[1] ?? bytes.length) }
    } catch (error) {
      if (error instanceof NoSuchKey) throw new FileMissing(this.address, name)
      throw this.#fault(error)
    }
  }

  /** Parts of files whose process was killed. Nobody adds meanwhile. */
  async #abandonUploads(): Promise<void> {
    const command = { Bucket: this.#bucket, Prefix: this.#prefix }
    const { Uploads = [] } = await this.#asFault(this.#s3.send(new ListMultipartUploadsCommand(command)))
    for (const { Key, UploadId } of Uploads)
      await this.#asFault(
        this.#s3.send(new AbortMultipartUploadCommand({ Bucket: this.#bucket, Key, UploadId })),
      )
  }

  #asFault<T>(answer: Promise<T>): Promise<T> {
    return answer.catch((error: unknown) => {
      throw this.#fault(error)
    })
  }

  /** The error itself if it is that of the content that is written. */
  #fault(error: unknown): unknown {
    return isFull(error)
      ? fullRepository(this.address, error)
      : storeFault(`The repository ${this.address}`, error)
  }
}

const RANGE_BYTES = 33_554_432

const isMissing = (error: unknown): boolean =>
  error instanceof NotFound ||
  (error instanceof S3ServiceException &&
    error.$metadata.httpStatusCode === 404 &&
    error.name !== 'NoSuchBucket')

type LockKind = 'add' | 'prune'
const LOCKS = 'locks/'
/** Of the time after which a lock is stale: until it is renewed, and until its own process takes it for lost. */
const [RENEWED, LOST] = [0.1, 0.8]
const LOOK_MS = 500

/**
 * Locks as files, which their processes renew: any number of processes add, or one prunes. Each writes its lock and then looks for those
 * that exclude it, so that of two that begin at once at least one sees the other. Times are those of the store.
 */
class Locks {
  readonly #store: BucketStore
  readonly #staleMs: number
  /** When those of this process were renewed, by its own clock. */
  readonly #renewedMs = new Map<string, number>()

  constructor(store: BucketStore, staleMs: number) {
    this.#store = store
    this.#staleMs = staleMs
  }

  async with<T>(kind: LockKind, work: () => Promise<T>): Promise<T> {
    const name = `${LOCKS}${kind}-${randomBytes(8).toString('hex')}`
    await this.#acquire(kind, name)
    const renewing = setInterval(() => {
      this.#renew(name).catch(() => {})
    }, RENEWED * this.#staleMs)
    try {
      return await work()
    } finally {
      clearInterval(renewing)
      this.#renewedMs.delete(name)
      // One that stays is stale in a while.
      await this.#store.remove(name).catch(() => {})
    }
  }

  /** @throws StoreFault if a lock of this process may have been taken for stale, since it could not be renewed or the process was frozen */
  requireAll(): void {
    for (const renewedMs of this.#renewedMs.values())
      if (performance.now() - renewedMs > LOST * this.#staleMs)
        throw new StoreFault(
          `The lock of this command in the repository ${this.#store.address} was not renewed in time. Run the command again.`,
          undefined,
        )
  }

  async #acquire(kind: LockKind, name: string): Promise<void> {
    for (;;) {
      await this.#renew(name)
      // A prune keeps its lock while it waits, so that no more begin to add.
      let excluding = await this.#findExcluding(kind, name)
      while (kind === 'prune' && excluding.length > 0 && excluding.every(isAdd)) {
        await pause(LOOK_MS)
        await this.#renew(name)
        excluding = await this.#findExcluding(kind, name)
      }
      if (excluding.length === 0) return
      this.#renewedMs.delete(name)
      await this.#store.remove(name)
      // Two that have seen each other come back at different times.
      await pause(LOOK_MS * (1 + Math.random()))
    }
  }

  async #renew(name: string): Promise<void> {
    const beganMs = performance.now()
    await this.#store.writeLock(name)
    this.#renewedMs.set(name, beganMs)
  }

  /** The caller has a lock, which has just been renewed. */
  async removeStale(): Promise<void> {
    for (const { name, isStale } of await this.#list()) if (isStale) await this.#store.remove(name)
  }

  async #findExcluding(kind: LockKind, own: string): Promise<string[]> {
    const locks = await this.#list()
    return locks
      .filter(({ name, isStale }) => name !== own && !isStale)
      .map(({ name }) => name)
      .filter((name) => kind === 'prune' || !isAdd(name))
  }

  /** By the clock of the store: the lock of the caller is one of the latest. */
  async #list(): Promise<{ readonly name: string; readonly isStale: boolean }[]> {
    const locks = await this.#store.listTimed(LOCKS)
    const nowMs = Math.max(...locks.map(({ writtenMs }) => writtenMs))
    return locks.map(({ name, writtenMs }) => ({ name, isStale: nowMs - writtenMs > this.#staleMs }))
  }
}

const isAdd = (name: string): boolean => name.startsWith(`${LOCKS}add-`)
