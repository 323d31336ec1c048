/** The session cookie of an approver who has signed in on the approval page. */

import { LIMITS } from '../../core/limits.ts'
import type { Secrets } from '../../infra/crypto/secrets.ts'
import type { Account } from '../issuer/accounts-store.ts'
import { SessionCookie } from './session-cookie.ts'

const COOKIE = {
  name: 'tenon_approver',
  purpose: 'cookie:approver',
  path: '/approvals',
  // Not Strict: the first request comes from a link in a mail.
  sameSite: 'Lax',
} as const

type Session = {
  readonly id: string
  /** Of the account: another password, or disabling it, ends the session. */
  readonly generation: number
  readonly until: number
}

export class ApprovalSession {
  readonly #cookie: SessionCookie<Session>

  /** @param url of the API, as browsers see it */
  constructor(secrets: Secrets, url: string) {
    this.#cookie = new SessionCookie(secrets, url, COOKIE)
  }

  /** The value of a Set-Cookie header. */
  issue({ id, generation }: Account): string {
    const now = Date.now()
    const until = now + LIMITS.approvals.sessionSeconds * 1_000
    return this.#cookie.issue({ id, generation, until }, now)
  }

  /** The value of a Set-Cookie header that ends the session. */
  end(): string {
    return this.#cookie.end()
  }

  /** The account in a Cookie header, whose generation is to be checked; undefined without a valid session. */
  read(header?: string): Pick<Session, 'id' | 'generation'> | undefined {
    const session = this.#cookie.read(header)
    return session === 'invalid' ? undefined : session
  }
}
