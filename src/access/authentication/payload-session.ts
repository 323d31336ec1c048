/** The session cookie with which the Temporal UI in a browser reads payloads. */

import { decodeJwt } from 'jose'
import type { Secrets } from '../../infra/crypto/secrets.ts'
import { ACCESS_LIMITS } from '../limits.ts'
import { SessionCookie } from './session-cookie.ts'

/** The only path that the cookie is sent to. */
export const PAYLOAD_SESSION_PATH = '/v1/codec/decode'

const COOKIE = {
  name: 'tenon_payloads',
  purpose: 'cookie:payloads',
  path: PAYLOAD_SESSION_PATH,
  sameSite: 'Strict',
} as const

export class PayloadSession {
  readonly #cookie: SessionCookie<{ readonly token: string; readonly until: number }>

  /** @param url of the API, as browsers see it */
  constructor(secrets: Secrets, url: string) {
    this.#cookie = new SessionCookie(secrets, url, COOKIE)
  }

  /**
   * @param token a verified one; the session expires no later than it
   * @returns the value of a Set-Cookie header, and when the session expires
   */
  issue(token: string): { cookie: string; until: Date } {
    const now = Date.now()
    const ends = (decodeJwt(token).exp ?? 0) * 1_000
    const until = Math.min(ends, now + ACCESS_LIMITS.payloadSessionSeconds * 1_000)
    return { cookie: this.#cookie.issue({ token, until }, now), until: new Date(until) }
  }

  /**
   * The token in a Cookie header, not verified.
   * @returns undefined without the cookie; the empty text, which is no valid token, if it has expired or was changed
   */
  tokenIn(header?: string): string | undefined {
    const session = this.#cookie.read(header)
    return session === 'invalid' ? '' : session?.token
  }
}
