/** Signs the checkpoints at which retention cuts hash chains, and verifies them (checkpoints.sql). */

import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import { CompactSign, compactVerify, decodeProtectedHeader, exportJWK } from 'jose'
import { canonical, isObject } from '../../core/json.ts'
import { DERIVED, type Secrets } from '../../infra/crypto/secrets.ts'

/** A hash chain: the audit log of a tenant, or the log of calls of an MCP server. */
export interface ChainName {
  readonly tenant_id: string
  /** Empty for the audit log. */
  readonly workspace_id: string
  /** `audit`, or the id of the server. */
  readonly chain: string
}

/** The last entry that was removed from a chain. */
export interface Checkpoint extends ChainName {
  readonly seq: number
  /** SHA-256, hex. */
  readonly hash: string
}

const ALGORITHM = 'EdDSA'
const TYPE = 'tenon-checkpoint+jws'

/** The DER header of an Ed25519 private key, which its 32 bytes follow (RFC 8410). */
const PKCS8_ED25519 = Buffer.from('302e020100300506032b657004220420', 'hex')

interface SigningKey {
  /** The id of the master key that it follows from. */
  readonly id: string
  readonly private: KeyObject
  readonly public: KeyObject
}

/**
 * The keys follow from the master keys, so that checkpoints outlive the keys of the issuer, which are replaced and revoked, and so that
 * the owner of the database cannot sign. The first one signs, each verifies; `tenon master-key rotate` signs again what another has signed.
 */
export class ChainSigner {
  readonly #keys: readonly SigningKey[]

  constructor(secrets: Secrets) {
    const seeds = secrets.deriveAll(DERIVED.chainKey)
    this.#keys = secrets.keyIds.map((id, index) => ({ id, ...keyPairOf(seeds[index] ?? '') }))
  }

  /**
   * @param signedAt RFC 3339
   * @returns a compact JWS (RFC 7515) with the checkpoint and the time as payload, and in its header the public key, and the id of the
   *   master key
   */
  async sign(
    { tenant_id, workspace_id, chain, seq, hash }: Checkpoint,
    signedAt = new Date().toISOString(),
  ): Promise<string> {
    const [key] = this.#keys
    if (key === undefined) throw new TypeError('there must be a master key')
    const claims = { tenant_id, workspace_id, chain, seq, hash, signed_at: signedAt }
    return (
      new CompactSign(Buffer.from(canonical(claims)))
        // The id is first, where SQL finds it (app/master-keys/sealed-columns.ts).
        .setProtectedHeader({ kid: key.id, alg: ALGORITHM, typ: TYPE, jwk: await exportJWK(key.public) })
        .sign(key.private)
    )
  }

  /** @returns true if this installation has signed exactly this checkpoint */
  async verify(signature: string, checkpoint: Checkpoint): Promise<boolean> {
    return (await this.#signedAt(signature, checkpoint)) !== undefined
  }

  /**
   * The same statement, signed with the first key.
   * @throws Error unless one of the keys has signed exactly this checkpoint
   */
  async signAgain(signature: string, checkpoint: Checkpoint): Promise<string> {
    const signedAt = await this.#signedAt(signature, checkpoint)
    if (signedAt === undefined)
      throw new Error('The checkpoint was not signed with a key of this installation.')
    return this.sign(checkpoint, signedAt)
  }

  /** When the checkpoint was signed; undefined unless the signature is one of exactly this checkpoint. */
  async #signedAt(signature: string, checkpoint: Checkpoint): Promise<string | undefined> {
    const key = this.#keys.find(({ id }) => id === signingKeyIdOf(signature))
    if (key === undefined) return undefined
    const verified = await compactVerify(signature, key.public, { algorithms: [ALGORITHM] }).catch(
      () => undefined,
    )
    if (verified?.protectedHeader.typ !== TYPE) return undefined
    const claims: unknown = JSON.parse(Buffer.from(verified.payload).toString())
    if (!isObject(claims)) return undefined
    const { signed_at: signedAt, ...signed } = claims
    const { tenant_id, workspace_id, chain, seq, hash } = checkpoint
    const isSame = canonical(signed) === canonical({ tenant_id, workspace_id, chain, seq, hash })
    return isSame ? String(signedAt) : undefined
  }
}

/** The id of the master key that a checkpoint was signed with, unverified; undefined if the text names none. */
export function signingKeyIdOf(signature: string): string | undefined {
  try {
    return decodeProtectedHeader(signature).kid
  } catch {
    return undefined
  }
}

function keyPairOf(seed: string): Pick<SigningKey, 'private' | 'public'> {
  const key = Buffer.concat([PKCS8_ED25519, Buffer.from(seed, 'base64url')])
  const privateKey = createPrivateKey({ key, format: 'der', type: 'pkcs8' })
  return { private: privateKey, public: createPublicKey(privateKey) }
}
