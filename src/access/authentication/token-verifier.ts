/** Verifies the access tokens of the embedded issuer by the platform's signing keys, without the database. */

import { hash } from 'node:crypto'
import { errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose'
import { isObject } from '../../core/json.ts'
import type { DataTokenTerms, SignInProof } from '../../core/policy.ts'
import { type Config, issuerUrl, publicUrl } from '../../infra/config.ts'
import { TtlCache } from '../../infra/ttl-cache.ts'
import {
  type Claims,
  type HostedClaims,
  type HostedTokenIssuer,
  proofOf,
  type SubjectClaims,
  type TokenIssuer,
} from './claims.ts'
import { ALGORITHM, type KeySet, type SigningKeys } from './signing-keys.ts'

const CLOCK_TOLERANCE_SECONDS = 30

/** Present in tokens of users of a workspace only. */
function userOf({ role, email, email_verified: emailVerified, claims }: JWTPayload): Pick<Claims, 'user'> {
  if (role !== 'user' || typeof email !== 'string') return {}
  return { user: { email, emailVerified: emailVerified === true, claims: isObject(claims) ? claims : {} } }
}

const textOf = (claim: unknown) => (typeof claim === 'string' ? claim : undefined)

/** The claim of a data token. Nobody else gets a token signed that has it: claims of the issuer come from the platform alone. */
const DATA_TOKEN = 'data_token'

interface DataTokenClaim extends DataTokenTerms {
  readonly parent?: string
  readonly proof?: SignInProof
}

/** The claim of a new data token. */
export const dataTokenClaim = (claim: DataTokenClaim) => ({ [DATA_TOKEN]: claim })

const dataTokenOf = (payload: JWTPayload): DataTokenClaim | undefined => {
  const claim = payload[DATA_TOKEN]
  return isObject(claim) ? (claim as unknown as DataTokenClaim) : undefined
}

const subjectClaims = ({ jti, grant_id, sub = '', client_id, credential }: JWTPayload): SubjectClaims => ({
  tokenId: textOf(jti),
  grantId: textOf(grant_id),
  sub,
  clientId: textOf(client_id),
  credential: textOf(credential),
})

const isDataToken = (terms: Partial<DataTokenTerms>): terms is DataTokenTerms => terms.role !== undefined

function claimsOf(payload: JWTPayload): Claims {
  const { roles, scope, tenant_id, workspace_id, exp = 0 } = payload
  const { parent, proof, ...dataToken } = dataTokenOf(payload) ?? {}
  return {
    ...subjectClaims(payload),
    expiresMs: exp * 1_000,
    roles: Array.isArray(roles) ? roles.filter((role) => typeof role === 'string') : [],
    scopes: textOf(scope)?.split(' ') ?? [],
    tenantId: textOf(tenant_id),
    workspaceId: textOf(workspace_id),
    ...userOf(payload),
    // The sign-in is that of the token that a data token was made with.
    proof: proof ?? proofOf(payload, payload.sub === payload['client_id']),
    sessionId: textOf(payload['sid']),
    ...(isDataToken(dataToken) && { dataToken, parentId: parent }),
  }
}

const isFresh = ({ exp = 0 }: JWTPayload) => exp + CLOCK_TOLERANCE_SECONDS > Date.now() / 1_000

export class TokenVerifier implements TokenIssuer, HostedTokenIssuer {
  readonly #issuer: string
  /** Of tokens for the REST API. */
  readonly #audience: string
  readonly #signingKeys: SigningKeys
  /** Verified payloads by digests of their tokens. */
  readonly #verified = new TtlCache<{ readonly keys: KeySet; readonly payload: JWTPayload }>()

  constructor(config: Config, signingKeys: SigningKeys) {
    this.#issuer = issuerUrl(config)
    this.#audience = `${publicUrl(config)}/v1`
    this.#signingKeys = signingKeys
  }

  /**
   * Verifies an access token (RFC 9068: `typ` at+jwt, `exp`, `aud`; RFC 8725: a fixed list of algorithms).
   * @throws a jose error if it is invalid
   */
  async verify(token: string): Promise<Claims> {
    return claimsOf(await this.#payload(token, this.#audience))
  }

  /**
   * Verifies a token for the platform's MCP server, as {@link verify} does; `aud` must be that resource alone.
   * @throws a jose error if it is invalid
   */
  async verifyPlatform(token: string, resource: string): Promise<Claims> {
    return claimsOf(await this.#payloadFor(token, resource))
  }

  /**
   * Verifies a token for one hosted MCP server, as {@link verify} does; `aud` must be that resource alone.
   * @throws a jose error if it is invalid
   */
  async verifyHosted(token: string, resource: string): Promise<HostedClaims> {
    const payload = await this.#payloadFor(token, resource)
    const claims = subjectClaims(payload)
    const { sub, clientId = '' } = claims
    return {
      ...claims,
      authorizationServer: null,
      clientId,
      isPerson: sub !== clientId,
      tenantId: payload['tenant_id'],
      workspaceId: payload['workspace_id'],
      serverId: payload['mcp_server'],
      version: payload['mcp_version'],
      proof: proofOf(payload, sub === clientId),
      scopes: new Set(textOf(payload['scope'])?.split(' ')),
    }
  }

  async #payloadFor(token: string, resource: string): Promise<JWTPayload> {
    const payload = await this.#payload(token, resource)
    if (typeof payload.aud !== 'string') throw new errors.JWTInvalid('"aud" names more than one resource')
    return payload
  }

  /** Caches verified signatures for a few seconds, as long as the keys are the same and the token has not expired. */
  async #payload(token: string, audience: string): Promise<JWTPayload> {
    const keys = await this.#signingKeys.current()
    const name = hash('sha256', `${audience} ${token}`, 'base64')
    const known = this.#verified.get(name)
    if (known?.keys === keys && isFresh(known.payload)) return known.payload
    const payload = await this.verifyUncached(token, audience)
    this.#verified.set(name, { keys, payload })
    return payload
  }

  /**
   * @param audience any by default
   * @returns the payload of a token of this issuer
   * @throws a jose error if it is invalid
   */
  async verifyUncached(token: string, audience?: string): Promise<JWTPayload> {
    const { payload } = await jwtVerify(token, this.#find, {
      issuer: this.#issuer,
      ...(audience !== undefined && { audience }),
      algorithms: [ALGORITHM],
      typ: 'at+jwt',
      requiredClaims: ['exp', 'iat', 'sub'],
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
    })
    return payload
  }

  /** Reloads the keys if another node may have created one. */
  readonly #find: JWTVerifyGetKey = async (header, token) => {
    try {
      return await (await this.#signingKeys.current()).find(header, token)
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
      return (await this.#signingKeys.renewed()).find(header, token)
    }
  }
}
