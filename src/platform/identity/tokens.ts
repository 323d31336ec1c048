/** Whose a token is: the issuer that it names verifies it, if that is one that is believed. */

import { decodeJwt, errors } from 'jose'
import { Problem } from '../../core/problem.ts'
import type { Claims } from './identity.ts'

/** Verifies the tokens of one issuer. */
export interface TokenIssuer {
  /** @throws a jose error, or a Problem */
  verify(token: string): Promise<Claims>
}

export class Tokens {
  readonly #issuers: ReadonlyMap<string, TokenIssuer>

  /** @param issuers by the `iss` of their tokens */
  constructor(issuers: ReadonlyMap<string, TokenIssuer>) {
    this.#issuers = issuers
  }

  /**
   * What the token says, verified. Unverified, it says no more than who is to be asked, by a name that matches byte for
   * byte: of an issuer that nobody has configured nothing is fetched.
   * @throws Problem `token_invalid`, `token_expired`; `dependency_unavailable` where it cannot be verified now
   */
  async verify(token: string): Promise<Claims> {
    try {
      const issuer = this.#issuers.get(decodeJwt(token).iss ?? '')
      if (issuer === undefined) throw new errors.JWTInvalid('nobody believes this issuer')
      return await issuer.verify(token)
    } catch (cause) {
      if (!(cause instanceof errors.JOSEError)) throw cause
      throw new Problem(cause instanceof errors.JWTExpired ? 'token_expired' : 'token_invalid', {
        headers: { 'www-authenticate': 'Bearer realm="tenon", error="invalid_token"' },
        cause,
      })
    }
  }
}
