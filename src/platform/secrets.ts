/** Sealing of secrets at rest: AES-256-GCM under keys derived from the master key, one per purpose. */

import { createHmac, hkdfSync } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { LIMITS } from '../core/limits.ts'
import type { WorkspaceRef } from '../core/tenant.ts'
import { openWith, sealWith } from './sealing.ts'

export class Secrets {
  readonly #master: Buffer
  /** By purpose: to derive one takes longer than to seal with it. */
  readonly #keys = new LRUCache<string, Buffer>({
    max: LIMITS.sealingKeysMax,
    memoMethod: (purpose) => Buffer.from(hkdfSync('sha256', this.#master, '', `tenon:seal:${purpose}`, 32)),
  })

  /** @param masterKey 32 bytes in base64 */
  constructor(masterKey: string) {
    this.#master = Buffer.from(masterKey, 'base64')
  }

  /** What is sealed for one purpose opens for no other. */
  seal(purpose: string, plain: Buffer): Buffer {
    return sealWith(this.#keys.memo(purpose), plain)
  }

  /** @throws Error where the text was changed, or sealed for another purpose or under another master key */
  open(purpose: string, sealed: Buffer): Buffer {
    return openWith(this.#keys.memo(purpose), sealed)
  }

  /** A secret that need not be stored, since it follows from the master key: 32 bytes in base64url. */
  derive(purpose: string): string {
    return deriveSecret(this.#master.toString('base64'), purpose)
  }
}

/** As {@link Secrets.derive}, for a caller that has the master key alone. */
export function deriveSecret(masterKey: string, purpose: string): string {
  return createHmac('sha256', Buffer.from(masterKey, 'base64'))
    .update(`tenon:derive:${purpose}`)
    .digest('base64url')
}

/** What only one workspace opens again, and for the same purpose only. */
export const purposeIn = ({ tenantId, workspaceId }: WorkspaceRef, purpose: string): string =>
  `workspace:${tenantId}:${workspaceId}:${purpose}`

/** The client that `tenon token` uses; its secret follows from the master key. */
export const OPERATOR_CLIENT = 'tenon-operator'

/** Purposes that more than one process derives. */
export const DERIVED = {
  appPassword: 'database:tenon_app',
  builderPassword: 'database:tenon_builder',
  operatorSecret: 'client:operator',
} as const
