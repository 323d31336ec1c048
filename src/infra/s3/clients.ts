/** S3 clients: one per workspace with its own key over shared connections, and one with the root identity that makes buckets. */

import { Agent } from 'node:http'
import { Agent as TlsAgent } from 'node:https'
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
import { LRUCache } from 'lru-cache'
import { Problem } from '../../core/problem.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import type { Config } from '../config.ts'
import type { Secrets } from '../crypto/secrets.ts'
import { KeyedSemaphore } from '../keyed-semaphore.ts'
import { INFRA_LIMITS } from '../limits.ts'

export interface StorageKey {
  readonly accessKeyId: string
  readonly secretAccessKey: string
}

/** The stored key of a workspace. */
export interface SealedIdentity {
  readonly access_key_id: string
  readonly sealed: Buffer
}

export class ObjectClients {
  readonly #config: Config
  readonly #secrets: Secrets
  /** Sends nothing itself: it holds the connections that the others share. */
  readonly #shared: S3Client
  readonly #agents: readonly Agent[]
  readonly #shares = new KeyedSemaphore(INFRA_LIMITS.storeSocketsPerTenantMax, INFRA_LIMITS.poolWaitMs)
  /** Clients own nothing that would have to be closed. */
  readonly #entries = new LRUCache<string, S3Client>({
    max: INFRA_LIMITS.storageIdentitiesCachedMax,
    ttl: INFRA_LIMITS.storageIdentityCacheMs,
  })

  constructor(config: Config, secrets: Secrets) {
    this.#config = config
    this.#secrets = secrets
    const options = { keepAlive: true, maxSockets: INFRA_LIMITS.storeSocketsMax }
    const [httpAgent, httpsAgent] = [new Agent(options), new TlsAgent(options)]
    this.#agents = [httpAgent, httpsAgent]
    this.#shared = new S3Client({
      ...storeOf(config),
      credentials: rootOf(config),
      requestHandler: {
        connectionTimeout: INFRA_LIMITS.storeConnectMs,
        socketTimeout: INFRA_LIMITS.storeIdleMs,
        httpAgent,
        httpsAgent,
      },
    })
  }

  /** Encrypts a key for its workspace; no other can decrypt it. */
  seal(ref: WorkspaceRef, { secretAccessKey }: StorageKey): Buffer {
    return this.#secrets.seal(purposeOf(ref), Buffer.from(secretAccessKey))
  }

  /**
   * The client of a workspace; `find` reads its identity if it is not cached.
   * @throws Problem `bucket_required` if the workspace has no identity
   */
  async of(ref: WorkspaceRef, find: () => Promise<SealedIdentity | undefined>): Promise<S3Client> {
    const name = purposeOf(ref)
    const known = this.#entries.get(name)
    if (known !== undefined) return known
    const identity = await find()
    if (identity === undefined) throw new Problem('bucket_required')
    const client = this.#open(ref, identity)
    this.#entries.set(name, client)
    return client
  }

  /** Acquires a connection of the tenant's share, since a slow reader may hold one for long. @returns releases it */
  take({ tenantId }: WorkspaceRef): Promise<() => void> {
    return this.#shares.acquire(tenantId, 'Too many objects are on their way at once.')
  }

  /** How many connections are in use, and what waits for one. */
  get use(): {
    readonly used: number
    readonly idle: number
    readonly waiting: number
    readonly waitingForShare: number
  } {
    const count = (of: (agent: Agent) => NodeJS.ReadOnlyDict<readonly unknown[]>) =>
      this.#agents.flatMap((agent) => Object.values(of(agent)).flat()).length
    return {
      used: count(({ sockets }) => sockets),
      idle: count(({ freeSockets }) => freeSockets),
      waiting: count(({ requests }) => requests),
      waitingForShare: this.#shares.waiting,
    }
  }

  /** Call after the object store has rejected the key: the next call reads it again. */
  forget(ref: WorkspaceRef): void {
    this.#entries.delete(purposeOf(ref))
  }

  close(): void {
    this.#shared.destroy()
  }

  #open(ref: WorkspaceRef, { access_key_id: accessKeyId, sealed }: SealedIdentity): S3Client {
    const secretAccessKey = this.#secrets.open(purposeOf(ref), sealed).toString()
    const credentials = { accessKeyId, secretAccessKey }
    const { requestHandler } = this.#shared.config
    return new S3Client({ ...storeOf(this.#config), credentials, requestHandler })
  }
}

const purposeOf = ({ tenantId, workspaceId }: WorkspaceRef) => `storage:${tenantId}:${workspaceId}`

const OWNER_TAG = 'tenon-workspace'

/** Options of all clients. Checksums only where required, since they are trailers that some stores reject. */
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

/**
 * Time limits of requests whose body is in memory, for a store that accepts connections and does not answer.
 * @param answerMs until the head of the response, and between two pieces of its body
 */
export const timeoutsOf = (answerMs: number) => ({
  connectionTimeout: INFRA_LIMITS.storeConnectMs,
  socketTimeout: answerMs,
  requestTimeout: answerMs,
  // Without it, the SDK logs a warning and waits on.
  throwOnRequestTimeout: true,
})

/** The platform's own identity, which creates buckets and identities. */
export const rootOf = (config: Config) => ({
  accessKeyId: config.S3_ACCESS_KEY_ID,
  secretAccessKey: config.S3_SECRET_ACCESS_KEY,
})

export class Objects {
  readonly #s3: S3Client

  constructor(config: Config) {
    this.#s3 = new S3Client({
      ...storeOf(config),
      requestHandler: timeoutsOf(INFRA_LIMITS.storeAnswerMs),
      credentials: rootOf(config),
    })
  }

  /**
   * Creates a bucket for its owner. Idempotent for the same owner, by a tag that is set at its creation; a bucket that
   * exists without that tag belongs to another owner, even if the database has it.
   * @throws Problem `conflict`, or `dependency_unavailable`
   */
  async makeBucket(name: string, owner: string): Promise<void> {
    try {
      if (await this.#create(name)) await this.#tag(name, owner)
      else if ((await this.#findOwner(name)) !== owner)
        throw new Problem('conflict', { detail: `The bucket ${name} is taken.` })
    } catch (error) {
      if (error instanceof Problem) throw error
      throw new Problem('dependency_unavailable', {
        detail: 'The object store does not answer.',
        cause: error,
      })
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

  async #findOwner(Bucket: string): Promise<string | undefined> {
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
