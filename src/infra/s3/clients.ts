/** S3 clients of workspaces: each reaches the bucket of its workspace alone, over connections that all share. */

import { Agent } from 'node:http'
import { Agent as TlsAgent } from 'node:https'
import { HeadBucketCommand, S3Client } from '@aws-sdk/client-s3'
import { LRUCache } from 'lru-cache'
import { PAYLOAD_BUCKET } from '../../core/object-key.ts'
import { Problem } from '../../core/problem.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import type { Config } from '../config.ts'
import { KeyedSemaphore } from '../keyed-semaphore.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { statusOf } from './errors.ts'
import { rootOf, storeOf } from './options.ts'
import { StorageSessions } from './sessions.ts'

/** Reads the name of a workspace's bucket; undefined if it has none. */
type FindBucket = () => Promise<string | undefined>

export class ObjectClients {
  readonly #config: Config
  readonly #sessions: StorageSessions
  /** Holds the connections that the others share; of itself it sends the check alone. */
  readonly #shared: S3Client
  readonly #agents: readonly Agent[]
  readonly #shares = new KeyedSemaphore(INFRA_LIMITS.storeSocketsPerTenantMax, INFRA_LIMITS.poolWaitMs)
  readonly #buckets = new LRUCache<string, string>({
    max: INFRA_LIMITS.storageBucketsCachedMax,
    ttl: INFRA_LIMITS.storageBucketCacheMs,
  })
  /** By workspace and bucket. Clients own nothing that would have to be closed. */
  readonly #clients = new LRUCache<string, Promise<S3Client>>({ max: INFRA_LIMITS.storageClientsCachedMax })

  constructor(config: Config) {
    this.#config = config
    this.#sessions = new StorageSessions(config)
    const options = { keepAlive: true, maxSockets: INFRA_LIMITS.storeSocketsMax }
    const ca = config.S3_CA
    const [httpAgent, httpsAgent] = [new Agent(options), new TlsAgent({ ...options, ...(ca && { ca }) })]
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

  /** `TENON_OBJECT_BYTES_MAX`. */
  get objectBytesMax(): number {
    return this.#config.TENON_OBJECT_BYTES_MAX
  }

  /**
   * The client of a workspace.
   * @param findBucket reads the name of its bucket, if that is not cached
   * @throws Problem `bucket_required` if the workspace has none; `dependency_unavailable` if the store opens no session
   */
  async of(ref: WorkspaceRef, findBucket: FindBucket): Promise<S3Client> {
    const bucket = await this.readBucket(ref, findBucket)
    return this.#clientOf(`${nameOf(ref)}:${bucket}`, bucket)
  }

  /** The bucket of a workspace. @throws Problem `bucket_required` if it has none */
  async readBucket(ref: WorkspaceRef, findBucket: FindBucket): Promise<string> {
    const name = nameOf(ref)
    const bucket = this.#buckets.get(name) ?? (await findBucket())
    if (bucket === undefined) throw new Problem('bucket_required')
    this.#buckets.set(name, bucket)
    return bucket
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

  /** Call after the object store has refused the session: the next call reads the bucket again and opens another. */
  forget(ref: WorkspaceRef): void {
    const name = nameOf(ref)
    const bucket = this.#buckets.get(name)
    this.#buckets.delete(name)
    if (bucket !== undefined) this.#clients.delete(`${name}:${bucket}`)
  }

  /**
   * Opens a session that is not used: it shows that the store opens sessions. Without sessions it asks for a bucket, which need not
   * exist.
   * @throws Problem `dependency_unavailable`, or the error of the store
   */
  async ping(): Promise<void> {
    if (this.#config.S3_IDENTITY === 'session') return void (await this.#sessions.open('tenon-probe'))
    const asked = this.#shared.send(new HeadBucketCommand({ Bucket: PAYLOAD_BUCKET }))
    await asked.catch((error: unknown) => {
      if (statusOf(error) !== 404) throw error
    })
  }

  close(): void {
    this.#sessions.close()
    this.#shared.destroy()
  }

  /** Concurrent callers share the session that the first one opens. */
  #clientOf(name: string, bucket: string): Promise<S3Client> {
    const known = this.#clients.get(name)
    if (known !== undefined) return known
    const opening = this.#open(name, bucket)
    this.#clients.set(name, opening)
    opening.catch(() => {
      if (this.#clients.peek(name) === opening) this.#clients.delete(name)
    })
    return opening
  }

  async #open(name: string, bucket: string): Promise<S3Client> {
    const { requestHandler } = this.#shared.config
    const options = { ...storeOf(this.#config), requestHandler }
    if (this.#config.S3_IDENTITY === 'none')
      return fenced(new S3Client({ ...options, credentials: rootOf(this.#config) }), bucket)
    const { credentials, lifeMs } = await this.#sessions.open(bucket)
    const client = new S3Client({ ...options, credentials })
    // Processes that were started together do not renew together.
    const ttl = lifeMs * (0.65 + 0.1 * Math.random())
    this.#clients.set(name, Promise.resolve(client), { ttl: Math.max(1, Math.floor(ttl)) })
    return client
  }
}

const nameOf = ({ tenantId, workspaceId }: WorkspaceRef) => `${tenantId}:${workspaceId}`

/**
 * Makes a client of the root identity refuse other buckets, as the store itself would refuse a session: for stores without
 * sessions, where nothing else separates workspaces.
 */
function fenced(client: S3Client, bucket: string): S3Client {
  client.middlewareStack.add(
    (next) => async (args) => {
      const { Bucket, CopySource } = args.input as { Bucket?: string; CopySource?: string }
      if (Bucket !== bucket || (CopySource !== undefined && !CopySource.startsWith(`${bucket}/`)))
        throw new Problem('AccessDenied')
      return next(args)
    },
    { step: 'initialize', name: 'ownBucketOnly' },
  )
  return client
}
