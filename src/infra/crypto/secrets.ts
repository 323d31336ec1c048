/** Encryption of secrets at rest: AES-256-GCM under keys derived from a master key, one per purpose. Each value names its master key. */

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
import { deriveFrom, KEY_ID_BYTES, type MasterKey, parseMasterKeys } from './master-keys.ts'

/** The first byte of a sealed value. */
const VERSION = 1
const HEADER_BYTES = 1 + KEY_ID_BYTES

/** Encrypts under the first master key, and decrypts under each: a value is `version ‖ key id ‖ iv ‖ tag ‖ text`. */
export class Secrets {
  readonly #keys: readonly [PurposeKeys, ...PurposeKeys[]]

  /** @param masterKeys as {@link parseMasterKeys} reads them */
  constructor(masterKeys: string) {
    const [first, ...others] = parseMasterKeys(masterKeys)
    this.#keys = [new PurposeKeys(first), ...others.map((key) => new PurposeKeys(key))]
  }

  /** The id of the key that encrypts. */
  get keyId(): string {
    return this.#keys[0].id
  }

  /** The ids of all keys; the first one encrypts. */
  get keyIds(): readonly string[] {
    return this.#keys.map(({ id }) => id)
  }

  /** Encrypts for this purpose only. */
  seal(purpose: string, plain: Buffer): Buffer {
    const [{ header, cipherKeys }] = this.#keys
    return encrypt(cipherKeys.memo(purpose), plain, header, header)
  }

  /** @throws Error if the text was changed, or encrypted for another purpose or under a master key that is not configured */
  open(purpose: string, sealed: Buffer): Buffer {
    const { header, cipherKeys } = this.#keyOf(sealed)
    return decrypt(cipherKeys.memo(purpose), sealed.subarray(HEADER_BYTES), header)
  }

  /** A secret that follows from the first master key, and is not stored: 32 bytes in base64url. */
  derive(purpose: string): string {
    return this.#keys[0].derive(purpose)
  }

  /** The secrets that {@link derive} gives under each key, the first key's first: for what was made under an earlier one. */
  deriveAll(purpose: string): readonly string[] {
    return this.#keys.map((key) => key.derive(purpose))
  }

  /**
   * Key id ‖ HMAC-SHA-256 under a secret that follows from a master key, for values whose digests must not be guessed.
   * @returns that of each key; the first one is stored, all are compared
   */
  macs(purpose: string, value: Buffer): readonly [Buffer, ...Buffer[]] {
    const [first, ...others] = this.#keys
    return [first.mac(purpose, value), ...others.map((key) => key.mac(purpose, value))]
  }

  #keyOf(sealed: Buffer): PurposeKeys {
    const found = this.#keys.find(({ header }) => header.equals(sealed.subarray(0, HEADER_BYTES)))
    if (found !== undefined) return found
    const id = keyIdOf(sealed)
    throw new Error(
      id === undefined
        ? 'The value is not one that the platform has encrypted.'
        : `The value was encrypted with the master key ${id}, which is missing: add it behind the first one.`,
    )
  }
}

/** The keys that follow from one master key. */
class PurposeKeys {
  readonly id: string
  /** What begins each value; it is authenticated with the text. */
  readonly header: Buffer
  /** By purpose: deriving a key, or importing its bytes, takes longer than encrypting with it. */
  readonly cipherKeys: LRUCache<string, KeyObject>
  readonly #bytes: Buffer

  constructor({ id, bytes }: MasterKey) {
    this.id = id
    this.header = headerOf(id)
    this.#bytes = bytes
    this.cipherKeys = new LRUCache<string, KeyObject>({
      max: INFRA_LIMITS.sealingKeysCachedMax,
      memoMethod: (purpose) =>
        createSecretKey(Buffer.from(hkdfSync('sha256', bytes, '', `tenon:seal:${purpose}`, 32))),
    })
  }

  derive(purpose: string): string {
    return deriveFrom(this.#bytes, purpose).toString('base64url')
  }

  mac(purpose: string, value: Buffer): Buffer {
    const mac = createHmac('sha256', this.derive(purpose)).update(value).digest()
    return Buffer.concat([this.header.subarray(1), mac])
  }
}

/** What a value begins with that was encrypted under a master key. */
const headerOf = (keyId: string): Buffer => Buffer.concat([Buffer.from([VERSION]), Buffer.from(keyId, 'hex')])

/** The id of the master key of a sealed value; undefined if it is none. */
export const keyIdOf = (sealed: Buffer): string | undefined =>
  sealed[0] === VERSION && sealed.length >= HEADER_BYTES + IV_BYTES + TAG_BYTES
    ? sealed.toString('hex', 1, HEADER_BYTES)
    : undefined

/** As {@link Secrets.derive}. @param masterKeys as {@link parseMasterKeys} reads them */
export function deriveSecret(masterKeys: string, purpose: string): string {
  return deriveFrom(parseMasterKeys(masterKeys)[0].bytes, purpose).toString('base64url')
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
 * AES-256-GCM: iv ‖ tag ‖ text.
 * @param key 32 bytes
 * @param about associated data, which is not stored
 * @param before what the result begins with
 */
export function encrypt(
  key: Buffer | KeyObject,
  plain: Buffer,
  about: string | Buffer = '',
  before: Buffer = NOTHING,
): Buffer {
  const iv = randomBytes(IV_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(bytesOf(about))
  const body = Buffer.concat([cipher.update(plain), cipher.final()])
  return Buffer.concat([before, iv, cipher.getAuthTag(), body])
}

/** @throws Error if the text was changed, or encrypted with another key or other associated data */
export function decrypt(key: Buffer | KeyObject, sealed: Buffer, about: string | Buffer = ''): Buffer {
  const iv = sealed.subarray(0, IV_BYTES)
  const decipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES })
  decipher.setAAD(bytesOf(about)).setAuthTag(sealed.subarray(IV_BYTES, IV_BYTES + TAG_BYTES))
  return Buffer.concat([decipher.update(sealed.subarray(IV_BYTES + TAG_BYTES)), decipher.final()])
}

const NOTHING = Buffer.alloc(0)
const bytesOf = (about: string | Buffer): Buffer => (typeof about === 'string' ? Buffer.from(about) : about)
