/** The claims of access tokens, and what verifies them: one issuer of this platform, and those that the configuration trusts. */

import type { JWTPayload } from 'jose'
import type { SignInProof, TokenClaims } from '../../core/policy.ts'

/** Identifies an access token and the grant under which it was issued. */
export interface IssuedToken {
  /** Its `jti`. */
  readonly tokenId?: string | undefined
  /** Of a data token: the `jti` of the token that it was made with. */
  readonly parentId?: string | undefined
  /** A digest of the grant's id; absent in tokens that a client gets for itself. */
  readonly grantId?: string | undefined
}

/**
 * How a token was obtained. `auth_time`, `amr` and `acr` are claims of access tokens (RFC 9068 §2.2.1); the methods are those of
 * RFC 8176.
 */
export const METHODS = {
  password: ['pwd'],
  code: ['pwd', 'otp', 'mfa'],
  /** A key of the device, which has verified its user. */
  passkey: ['swk', 'user', 'mfa'],
  /** A sign-in at another provider, and then perhaps a code. */
  provider: [],
  providerAndCode: ['otp', 'mfa'],
} as const

export const isMultiFactor = (methods: readonly string[]): boolean => methods.includes('mfa')

/** What a token says of the sign-in behind it. */
export function proofOf({ auth_time, amr, iat }: JWTPayload, isMachine: boolean): SignInProof {
  const at = isMachine ? iat : auth_time
  const methods = Array.isArray(amr) ? amr.filter((method) => typeof method === 'string') : []
  return {
    isPerson: !isMachine,
    isMultiFactor: isMultiFactor(methods),
    ...(typeof at === 'number' && Number.isFinite(at) && { atMs: at * 1_000 }),
  }
}

/** Authentication contexts that clients may ask for (`acr_values`). */
export const ACR = { single: 'urn:tenon:acr:single-factor', multi: 'urn:tenon:acr:multi-factor' } as const

export const acrOf = (methods: readonly string[]): string => (isMultiFactor(methods) ? ACR.multi : ACR.single)

/** The claims that identify a token, its subject and its client. */
export interface SubjectClaims extends IssuedToken {
  readonly sub: string
  /** The client that it was issued to. */
  readonly clientId?: string | undefined
  /** The machine's secret that it was issued for, or the generation of the account or user. */
  readonly credential?: string | undefined
}

/** The claims of a token for the REST API, or for the platform's MCP server. */
export interface Claims extends SubjectClaims, TokenClaims {
  readonly credential?: string | undefined
  readonly roles: readonly string[]
  readonly scopes: readonly string[]
  /** Of an external issuer; those of accounts are in the database. */
  readonly groups?: readonly string[]
  readonly tenantId?: string | undefined
  readonly workspaceId?: string | undefined
}

/** The claims of a token for a hosted MCP server. */
export interface HostedClaims extends SubjectClaims {
  /** The `iss` of an external issuer; null: the embedded one. */
  readonly authorizationServer: string | null
  readonly clientId: string
  /** A person stands behind the client. */
  readonly isPerson: boolean
  readonly tenantId: unknown
  readonly workspaceId: unknown
  /** Undefined in tokens of an external issuer, as is the version. */
  readonly serverId: unknown
  /** The version of the server that was consented to. */
  readonly version: unknown
  readonly scopes: ReadonlySet<string>
  readonly proof: SignInProof
}

/** Verifies tokens of one issuer for the REST API. */
export interface TokenIssuer {
  /** @throws a jose error, or a Problem */
  verify(token: string): Promise<Claims>
}

/** Verifies tokens of one issuer for hosted MCP servers. */
export interface HostedTokenIssuer {
  /**
   * @param resource the server's URL, which `aud` must be alone
   * @throws a jose error, or a Problem
   */
  verifyHosted(token: string, resource: string): Promise<HostedClaims>
}

/** The claim that binds a token to the generation of its account or user. */
export const generationId = (generation: number): string => `g${generation}`
