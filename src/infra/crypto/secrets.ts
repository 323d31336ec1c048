/** Encryption of secrets at rest: AES-256-GCM under keys derived from the master key, one per purpose. */

import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { WorkspaceRef } from '../../core/tenant.ts'
import { INFRA_LIMITS } from '../limits.ts'

export class Secrets {
  readonly #master: Buffer
  /** By purpose: deriving a key, or importing its bytes, takes longer than encrypting with it. */
  readonly #keys = new LRUCache<string, KeyObject>({
    max: INFRA_LIMITS.sealingKeysCachedMax,
    memoMethod: (purpose) =>
      createSecretKey(Buffer.from(hkdfSync('sha256', this.#master, '', `tenon:seal:${purpose}`, 32))),
  })

  /** @param masterKey 32 bytes in base64 */
  constructor(masterKey: string) {
    this.#master = Buffer.from(masterKey, 'base64')
  }

  /** Encrypts for this purpose only. */
  seal(purpose: string, plain: Buffer): Buffer {
    return encrypt(this.#keys.memo(purpose), plain)
  }

  /** @throws Error if the text was changed, or encrypted for another purpose or under another master key */
  open(purpose: string, sealed: Buffer): Buffer {
    return decrypt(this.#keys.memo(purpose), sealed)
  }

  /** A secret that follows from the master key, and is not stored: 32 bytes in base64url. */
  derive(purpose: string): string {
    return deriveSecret(this.#master.toString('base64'), purpose)
  }
}

/** As {@link Secrets.derive}, with the master key in base64. */
export function deriveSecret(masterKey: string, purpose: string): string {
  return createHmac('sha256', Buffer.from(masterKey, 'base64'))
    .update(`tenon:derive:${purpose}`)
    .digest('base64url')
}

/** The purpose within one workspace. */
export const purposeIn = ({ tenantId, workspaceId }: WorkspaceRef, purpose: string): string =>
  `workspace:${tenantId}:${workspaceId}:${purpose}`

/** The OAuth client of `tenon token`; its secret is derived. */
export const OPERATOR_CLIENT = 'tenon-operator'

/** Derived secrets that several processes use. */
export const DERIVED = {
  appPassword: 'database:tenon_app',
  builderPassword: 'database:tenon_builder',
  operatorSecret: 'client:operator',
  keyCheck: 'installation:key-check',
  /** The seed of the Ed25519 key that signs checkpoints of hash chains. */
  chainKey: 'audit:checkpoints',
} as const

const IV_BYTES = 12
const TAG_BYTES = 16

/**
 * @param key 32 bytes
 * AES-256-GCM: iv ‖ tag ‖ ciphertext.
 * @param about associated data, which is not stored
 */
export function encrypt(key: Buffer | KeyObject, plain: Buffer, about = ''): Buffer {
  const iv = randomBytes(IV_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(about))
  const body = Buffer.concat([cipher.update(plain), cipher.final()])
  return Buffer.concat([iv, cipher.getAuthTag(), body])
}

/** @throws Error if the text was changed, or encrypted with another key or other associated data */
export function decrypt(key: Buffer | KeyObject, sealed: Buffer, about = ''): Buffer {
  const iv = sealed.subarray(0, IV_BYTES)
  const decipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES })
  decipher.setAAD(Buffer.from(about)).setAuthTag(sealed.subarray(IV_BYTES, IV_BYTES + TAG_BYTES))
  return Buffer.concat([decipher.update(sealed.subarray(IV_BYTES + TAG_BYTES)), decipher.final()])
}
