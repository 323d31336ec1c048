/** Verifies the tokens of clients of the platform's MCP server. */

import { decodeJwt, errors } from 'jose'
import type { Principal } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { Authenticator } from './authenticator.ts'
import type { Claims } from './claims.ts'
import { PLATFORM_MCP_PATH, PLATFORM_SCOPES, platformResource } from './platform-resource.ts'
import type { SubjectStatus } from './subject-status.ts'
import type { TokenVerifier } from './token-verifier.ts'

/** A verified caller of the platform's server. */
export interface PlatformClient {
  /** Its roles are not restricted by scopes of the platform's server, so it serves for no other entry point. */
  readonly principal: Principal
  /** Of {@link PLATFORM_SCOPES}. */
  readonly scopes: ReadonlySet<string>
  readonly tokenId: string
  readonly grantId?: string | undefined
}

interface Services {
  readonly tokens: TokenVerifier
  readonly auth: Authenticator
  readonly subjectStatus: SubjectStatus
}

export class PlatformClients {
  readonly resource: string
  /** The URL of the protected-resource metadata (RFC 9728 §3.1). */
  readonly metadataUrl: string
  readonly #services: Services

  /** @param base the public base URL as configured, never what a request says */
  constructor(base: string, services: Services) {
    this.resource = platformResource(base)
    this.metadataUrl = `${base}/.well-known/oauth-protected-resource${PLATFORM_MCP_PATH}`
    this.#services = services
  }

  /**
   * Authenticates a token for the platform's server, or one for the REST API, which has all scopes here.
   * @throws Problem 401 if the token is not valid, 403 if its tenant or workspace is suspended
   */
  async authenticate(token: string): Promise<PlatformClient> {
    const { auth } = this.#services
    if (!this.#isNamedBy(token)) {
      const principal = await auth.authenticate({ kind: 'token', text: token })
      return { principal, scopes: new Set(Object.values(PLATFORM_SCOPES)), tokenId: '' }
    }
    const { scopes, ...claims } = await this.#verify(token)
    const principal = await auth.requirePrincipal({ ...claims, scopes: [] })
    return { principal, scopes: new Set(scopes), tokenId: claims.tokenId ?? '', grantId: claims.grantId }
  }

  /** True if the token, which is not verified yet, has this audience. */
  #isNamedBy(token: string): boolean {
    try {
      return decodeJwt(token).aud === this.resource
    } catch (cause) {
      if (cause instanceof errors.JOSEError) return false
      throw cause
    }
  }

  async #verify(token: string): Promise<Claims> {
    const { tokens, subjectStatus } = this.#services
    const claims = await tokens.verifyPlatform(token, this.resource).catch((cause: unknown) => {
      if (!(cause instanceof errors.JOSEError)) throw cause
      throw new Problem(cause instanceof errors.JWTExpired ? 'token_expired' : 'token_invalid', { cause })
    })
    if (!(await subjectStatus.isTokenActive(claims))) throw new Problem('token_invalid')
    return claims
  }
}
