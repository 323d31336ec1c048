/** What admins do at the object store: buckets are made, and workspaces given identities for them. */

import type { WorkspaceRef } from '../../core/tenant.ts'
import type { PlatformServices } from '../internals.ts'
import type { SealedIdentity } from './clients.ts'

export class StorageAdmin {
  readonly #parts: Pick<PlatformServices, 'objects' | 'identities' | 'objectClients'>

  constructor(parts: Pick<PlatformServices, 'objects' | 'identities' | 'objectClients'>) {
    this.#parts = parts
  }

  makeBucket(name: string, owner: string): Promise<void> {
    return this.#parts.objects.makeBucket(name, owner)
  }

  /** A key of the workspace's own storage identity, sealed for the workspace; it is not in force until it is kept. */
  async newKey(ref: WorkspaceRef, bucket: string | null): Promise<SealedIdentity> {
    const { identities, objectClients } = this.#parts
    await identities.ensureUser(ref.workspaceId, bucket)
    // What crashed attempts have left would count against the store's limit of keys.
    await identities.keepOnly(ref.workspaceId, undefined)
    const key = await identities.newKey(ref.workspaceId)
    return { access_key_id: key.accessKeyId, sealed: objectClients.seal(ref, key) }
  }

  /** Deletes every key of the workspace's storage identity but this one. @returns whether this one is there */
  keepKey(ref: WorkspaceRef, accessKeyId: string): Promise<boolean> {
    return this.#parts.identities.keepOnly(ref.workspaceId, accessKeyId)
  }

  /** Opens the store to the workspace's own identity, or closes it; its keys stay as they are. Idempotent. */
  turn(ref: WorkspaceRef, bucket: string, isOpen: boolean): Promise<void> {
    const { identities } = this.#parts
    return isOpen ? identities.ensureUser(ref.workspaceId, bucket) : identities.shut(ref.workspaceId)
  }
}
