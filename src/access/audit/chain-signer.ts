/** Signs the checkpoints at which retention cuts hash chains, and verifies them (checkpoints.sql). */

import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import { CompactSign, compactVerify, exportJWK } from 'jose'
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

/**
 * The key follows from the master key, so that checkpoints outlive the keys of the issuer, which are replaced and revoked, and so that
 * the owner of the database cannot sign.
 */
export class ChainSigner {
  readonly #private: KeyObject
  readonly #public: KeyObject

  constructor(secrets: Secrets) {
    const seed = Buffer.from(secrets.derive(DERIVED.chainKey), 'base64url')
    const key = Buffer.concat([PKCS8_ED25519, seed])
    this.#private = createPrivateKey({ key, format: 'der', type: 'pkcs8' })
    this.#public = createPublicKey(this.#private)
  }

  /** @returns a compact JWS (RFC 7515) with the checkpoint and the time as payload, and the public key in its header */
  async sign({ tenant_id, workspace_id, chain, seq, hash }: Checkpoint): Promise<string> {
    const claims = { tenant_id, workspace_id, chain, seq, hash, signed_at: new Date().toISOString() }
    return new CompactSign(Buffer.from(canonical(claims)))
      .setProtectedHeader({ alg: ALGORITHM, typ: TYPE, jwk: await exportJWK(this.#public) })
      .sign(this.#private)
  }

  /** @returns true if this installation has signed exactly this checkpoint */
  async verify(signature: string, checkpoint: Checkpoint): Promise<boolean> {
    const verified = await compactVerify(signature, this.#public, { algorithms: [ALGORITHM] }).catch(
      () => undefined,
    )
    if (verified?.protectedHeader.typ !== TYPE) return false
    const claims: unknown = JSON.parse(Buffer.from(verified.payload).toString())
    if (!isObject(claims)) return false
    const { signed_at: _signedAt, ...signed } = claims
    const { tenant_id, workspace_id, chain, seq, hash } = checkpoint
    return canonical(signed) === canonical({ tenant_id, workspace_id, chain, seq, hash })
  }
}
