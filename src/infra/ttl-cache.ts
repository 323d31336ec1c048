/** A bounded cache whose entries expire. A value that was being loaded during an invalidation is not stored. */

import { LRUCache } from 'lru-cache'
import type { WorkspaceRef } from '../core/tenant.ts'
import { INFRA_LIMITS } from './limits.ts'

/** A box, since the library stores neither null nor undefined. */
interface Entry<T> {
  readonly value: T
}

/** Verified credentials: they expire early enough for a revocation on another node to count within seconds. */
const CREDENTIALS = { max: INFRA_LIMITS.credentialsCachedMax, ttl: INFRA_LIMITS.credentialCacheMs }

export class TtlCache<T> {
  readonly #entries: LRUCache<string, Entry<T>>
  /** Reads under way, with the number of invalidations before each. */
  readonly #reads = new Map<string, { readonly value: Promise<T>; readonly before: number }>()
  #invalidations = 0

  constructor(bounds: LRUCache.Options<string, Entry<T>, unknown> = CREDENTIALS) {
    this.#entries = new LRUCache(bounds)
  }

  /** Returns the value; undefined if there is none or it has expired. */
  get(name: string): T | undefined {
    return this.#entries.get(name)?.value
  }

  /**
   * Returns the cached value, or reads it; concurrent callers share a read, unless anything was invalidated since it began. A value is not
   * stored if anything was invalidated while it was read, since it may be stale, nor if it is undefined.
   * @throws the error of `read`
   */
  async load(name: string, read: () => Promise<T>): Promise<T> {
    const known = this.get(name)
    if (known !== undefined) return known
    const before = this.#invalidations
    const pending = this.#reads.get(name)
    // The rights of another caller may be why its read failed.
    if (pending?.before === before) return pending.value.catch(() => this.#read(name, read))
    const started = { value: this.#read(name, read), before }
    this.#reads.set(name, started)
    const end = () => {
      if (this.#reads.get(name) === started) this.#reads.delete(name)
    }
    started.value.then(end, end)
    return started.value
  }

  async #read(name: string, read: () => Promise<T>): Promise<T> {
    const before = this.#invalidations
    const value = await read()
    if (value !== undefined && before === this.#invalidations) this.set(name, value)
    return value
  }

  set(name: string, value: T): void {
    this.#entries.set(name, { value })
  }

  /** Invalidates one entry. */
  drop(name: string): void {
    this.#invalidations += 1
    this.#entries.delete(name)
  }

  /** Invalidates all entries whose value matches. */
  forget(matches: (value: T) => boolean): void {
    this.#invalidations += 1
    for (const [name, { value }] of this.#entries) if (matches(value)) this.#entries.delete(name)
  }
}

/** A value and its approximate size. */
export interface Sized<T> {
  readonly value: T
  readonly bytes: number
}

/** Approximate size of an entry besides its value. */
const ENTRY_BYTES = 256

/** The cache of what workspaces have: declarations, settings, quotas. Bounded by bytes, since tenants decide their size. */
export const openCache = (): TtlCache<Sized<unknown>> =>
  new TtlCache({
    ttl: INFRA_LIMITS.settingsCacheMs,
    maxSize: INFRA_LIMITS.settingsCacheBytesMax,
    sizeCalculation: ({ value: { bytes } }) => bytes + ENTRY_BYTES,
  })

/** No id holds a colon, so no key of one workspace is another's. */
export const cacheKey = (ref: WorkspaceRef, key: string): string =>
  `${ref.tenantId}:${ref.workspaceId}:${key}`
