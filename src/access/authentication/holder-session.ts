/** Session cookies of pages on which the holder of an account, or a user of a workspace, has signed in. */

import type { Secrets } from '../../infra/crypto/secrets.ts'
import { ACCESS_LIMITS } from '../limits.ts'
import { type CookieSettings, SessionCookie } from './session-cookie.ts'

/** The page of the own account, for accounts of the platform. */
export const ACCOUNT_PAGE = '/auth/account'

/** The page of a user's own account. */
export const USER_ACCOUNT_PAGE = '/auth/user'

/** The page where account holders review their agents. */
export const AGENTS_PAGE = '/auth/agents'

interface Settings {
  readonly cookie: CookieSettings
  /** How long a session lasts. */
  readonly seconds: number
}

/** For approvers on the approval page. */
export const APPROVAL_SESSION: Settings = {
  cookie: {
    name: 'tenon_approver',
    purpose: 'cookie:approver',
    path: '/approvals',
    // Not Strict: the first request comes from a link in a mail.
    sameSite: 'Lax',
  },
  seconds: ACCESS_LIMITS.approvalsPageSeconds,
}

/** For users on the page of their own account. */
export const USER_SESSION: Settings = {
  cookie: {
    name: 'tenon_user',
    purpose: 'cookie:user',
    path: USER_ACCOUNT_PAGE,
    sameSite: 'Strict',
  },
  seconds: ACCESS_LIMITS.accountPageSeconds,
}

/** For account holders on the page of their own account. */
export const ACCOUNT_SESSION: Settings = {
  cookie: {
    name: 'tenon_account',
    purpose: 'cookie:account',
    path: ACCOUNT_PAGE,
    sameSite: 'Strict',
  },
  seconds: ACCESS_LIMITS.accountPageSeconds,
}

/** For account holders on the page of their agents. */
export const AGENTS_SESSION: Settings = {
  cookie: {
    name: 'tenon_agents',
    purpose: 'cookie:agents',
    path: AGENTS_PAGE,
    sameSite: 'Strict',
  },
  seconds: ACCESS_LIMITS.agentsPageSeconds,
}

/** The holder of a session: another password, or disabling the holder, changes the generation and so ends the session. */
type Holder = {
  readonly id: string
  readonly generation: number
  /** Of the list of sessions that the person may end. */
  readonly sessionId: string
  /** The sign-in had several factors. */
  readonly isMultiFactor: boolean
}

export class HolderSession {
  readonly #cookie: SessionCookie<Holder & { readonly until: number }>
  /** How long a session lasts. */
  readonly seconds: number

  /** @param url of the API, as browsers see it */
  constructor(secrets: Secrets, url: string, { cookie, seconds }: Settings) {
    this.#cookie = new SessionCookie(secrets, url, cookie)
    this.seconds = seconds
  }

  /** The value of a Set-Cookie header. */
  issue({ id, generation, sessionId, isMultiFactor }: Holder): string {
    const now = Date.now()
    const until = now + this.seconds * 1_000
    return this.#cookie.issue({ id, generation, sessionId, isMultiFactor, until }, now)
  }

  /** The value of a Set-Cookie header that ends the session. */
  end(): string {
    return this.#cookie.end()
  }

  /** The holder in a Cookie header, whose generation is to be checked; undefined without a valid session. */
  read(header?: string): Holder | undefined {
    const session = this.#cookie.read(header)
    return session === 'invalid' ? undefined : session
  }
}
