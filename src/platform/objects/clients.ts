/** S3 clients of workspaces: each with the workspace's own key, all over the same few connections. */

import { Agent } from 'node:http'
import { Agent as TlsAgent } from 'node:https'
import { S3Client } from '@aws-sdk/client-s3'
import { LRUCache } from 'lru-cache'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import type { Config } from '../config.ts'
import type { Secrets } from '../secrets.ts'
import { KeyedSemaphore } from '../shares.ts'
import { rootOf, storeOf } from './buckets.ts'
import type { StorageKey } from './identities.ts'

/** A workspace's key as it is stored. */
export interface SealedIdentity {
  readonly access_key_id: string
  readonly sealed: Buffer
}

export class ObjectClients {
  readonly #config: Config
  readonly #secrets: Secrets
  /** Sends nothing itself: it holds the connections that the others share. */
  readonly #shared: S3Client
  readonly #shares = new KeyedSemaphore(LIMITS.storeSocketsPerTenantMax, LIMITS.poolWaitMs)
  /** Clients own nothing that would have to be closed. */
  readonly #entries = new LRUCache<string, S3Client>({
    max: LIMITS.storageIdentitiesCachedMax,
    ttl: LIMITS.storageIdentityCacheMs,
  })

  constructor(config: Config, secrets: Secrets) {
    this.#config = config
    this.#secrets = secrets
    const agent = { keepAlive: true, maxSockets: LIMITS.storeSocketsMax }
    this.#shared = new S3Client({
      ...storeOf(config),
      credentials: rootOf(config),
      requestHandler: {
        connectionTimeout: LIMITS.storeConnectMs,
        socketTimeout: LIMITS.storeIdleMs,
        httpAgent: new Agent(agent),
        httpsAgent: new TlsAgent(agent),
      },
    })
  }

  /** Seals a key for its own workspace; it opens for no other. */
  seal(ref: WorkspaceRef, { secretAccessKey }: StorageKey): Buffer {
    return this.#secrets.seal(purposeOf(ref), Buffer.from(secretAccessKey))
  }

  /**
   * The client of a workspace; `find` reads its identity where none is remembered.
   * @throws Problem `bucket_required` where the workspace has no identity
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

  /** A connection of the tenant's share: a slow reader holds one for as long as it likes. @returns how to give it back */
  take({ tenantId }: WorkspaceRef): Promise<() => void> {
    return this.#shares.acquire(tenantId, 'Too many objects are on their way at once.')
  }

  /** After the store has refused the key itself: the next call reads it anew. */
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
