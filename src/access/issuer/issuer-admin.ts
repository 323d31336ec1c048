/** Issuer functions for admins: invitations, and for operators key rotation. */

import { hash, randomBytes } from 'node:crypto'
import type { Actor } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { PlatformServices } from '../internals.ts'

const TOKEN_BYTES = 32

export interface Invitation {
  /** The page where the password is set; shown once. */
  readonly url: string
  readonly digest: Buffer
}

export class IssuerAdmin {
  readonly #actor: Actor
  readonly #parts: PlatformServices

  constructor(actor: Actor, parts: PlatformServices) {
    this.#actor = actor
    this.#parts = parts
  }

  invite(): Invitation {
    const token = randomBytes(TOKEN_BYTES).toString('base64url')
    const url = `${this.#parts.publicUrl}/auth/invitation?token=${token}`
    return { url, digest: hash('sha256', token, 'buffer') }
  }

  /** The page where people change their passwords themselves. */
  get passwordUrl(): string {
    return `${this.#parts.publicUrl}/auth/password`
  }

  /** An account whose password was ended: this node knows at once. */
  forgetAccount(id: string): void {
    this.#parts.subjectStatus.forget(id)
  }

  /** A client that was deleted or has another secret: this node knows at once. */
  forgetClient(id: string): void {
    this.#parts.oauthClients.forget(id)
  }

  /** @returns the new key's `kid`. @throws Problem `forbidden` */
  async rotateKeys(revoke: boolean): Promise<string> {
    if (this.#actor.role !== 'operator') throw new Problem('forbidden')
    return this.#parts.signingKeys.rotate(revoke)
  }
}
