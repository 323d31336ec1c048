/** Values that a page carries from one request to the next: encrypted, of one purpose, valid for a limited time. */

import type { Secrets } from '../../../infra/crypto/secrets.ts'

type Purpose = 'second-factor' | 'totp-setup' | 'passkey' | 'identity-provider' | 'identity'

export class Tickets {
  readonly #secrets: Secrets

  constructor(secrets: Secrets) {
    this.#secrets = secrets
  }

  /** @param value as JSON @returns a text for a form or a URL */
  issue(purpose: Purpose, value: object, seconds: number): string {
    const until = Date.now() + seconds * 1_000
    const plain = Buffer.from(JSON.stringify({ value, until }))
    return this.#secrets.seal(`ticket:${purpose}`, plain).toString('base64url')
  }

  /** @returns undefined if the ticket has expired, was changed, or is one of another purpose */
  read<T>(purpose: Purpose, ticket: string): T | undefined {
    try {
      const plain = this.#secrets.open(`ticket:${purpose}`, Buffer.from(ticket, 'base64url'))
      const { value, until } = JSON.parse(plain.toString()) as { value: T; until: number }
      return Date.now() < until ? value : undefined
    } catch {
      return undefined
    }
  }
}
