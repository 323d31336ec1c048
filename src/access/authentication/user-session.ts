/** The session cookie of a user of a workspace who has signed in on the page of their own account. */

import { LIMITS } from '../../core/limits.ts'
import type { Secrets } from '../../infra/crypto/secrets.ts'
import type { UserAccount } from '../issuer/users/users-store.ts'
import { SessionCookie } from './session-cookie.ts'

/** The page of a user's own account. */
export const USER_ACCOUNT_PAGE = '/auth/user'

const COOKIE = {
  name: 'tenon_user',
  purpose: 'cookie:user',
  path: USER_ACCOUNT_PAGE,
  sameSite: 'Strict',
} as const

type Session = {
  readonly id: string
  /** Of the user: another password, or disabling the user, ends the session. */
  readonly generation: number
  readonly until: number
}

export class UserSession {
  readonly #cookie: SessionCookie<Session>

  /** @param url of the API, as browsers see it */
  constructor(secrets: Secrets, url: string) {
    this.#cookie = new SessionCookie(secrets, url, COOKIE)
  }

  /** The value of a Set-Cookie header. */
  issue({ id, generation }: UserAccount): string {
    const now = Date.now()
    const until = now + LIMITS.users.pageSeconds * 1_000
    return this.#cookie.issue({ id, generation, until }, now)
  }

  /** The value of a Set-Cookie header that ends the session. */
  end(): string {
    return this.#cookie.end()
  }

  /** The user in a Cookie header, whose generation is to be checked; undefined without a valid session. */
  read(header?: string): Pick<Session, 'id' | 'generation'> | undefined {
    const session = this.#cookie.read(header)
    return session === 'invalid' ? undefined : session
  }
}
