/** The embedded issuer: a standard OAuth 2.1 / OpenID provider mounted under /auth, with its key in the database. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  calculateJwkThumbprint,
  createLocalJWKSet,
  exportJWK,
  generateKeyPair,
  type JWK,
  jwtVerify,
} from 'jose'
import { type Adapter, Provider } from 'oidc-provider'
import { LIMITS } from '../core/limits.ts'
import { type Config, publicUrl } from './config.ts'
import type { Database } from './pg/database.ts'
import { sql } from './pg/sql.ts'
import { DERIVED, OPERATOR_CLIENT, type Secrets } from './secrets.ts'
import { SystemScope } from './system.ts'

const ALGORITHM = 'ES256'
export interface Claims {
  readonly sub: string
  readonly roles: readonly string[]
  readonly tenantId?: string
  readonly workspaceId?: string
}

export class Identity {
  readonly issuer: string
  readonly audience: string
  readonly #handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>
  readonly #keys: ReturnType<typeof createLocalJWKSet>

  private constructor(config: Config, jwk: JWK, secrets: Secrets) {
    const base = publicUrl(config)
    const operatorSecret = config.TENON_OPERATOR_SECRET ?? secrets.derive(DERIVED.operatorSecret)
    const cookieKey = secrets.derive('cookies')
    this.issuer = `${base}/auth`
    this.audience = `${base}/v1`
    const { d: _private, ...publicJwk } = jwk
    this.#keys = createLocalJWKSet({ keys: [publicJwk] })
    this.#handle = provider(this.issuer, this.audience, jwk, { operatorSecret, cookieKey }).callback()
  }

  static async open(config: Config, database: Database, secrets: Secrets): Promise<Identity> {
    return new Identity(config, await signingKey(database, secrets), secrets)
  }

  /** Answers a request below /auth. `request.url` is seen by the provider without that prefix. */
  handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    Object.assign(request, {
      originalUrl: request.url,
      url: (request.url ?? '').replace(/^\/auth/, '') || '/',
    })
    return this.#handle(request, response)
  }

  /**
   * Verifies an access token (RFC 9068: `typ` at+jwt, `exp`, `aud`; RFC 8725: a fixed list of algorithms).
   * @throws a jose error where any of it does not hold
   */
  async verify(token: string): Promise<Claims> {
    const { payload } = await jwtVerify(token, this.#keys, {
      issuer: this.issuer,
      audience: this.audience,
      algorithms: [ALGORITHM],
      typ: 'at+jwt',
      requiredClaims: ['exp', 'iat', 'sub'],
      clockTolerance: 30,
    })
    const { roles, tenant_id: tenantId, workspace_id: workspaceId } = payload
    return {
      sub: payload.sub ?? '',
      roles: Array.isArray(roles) ? roles.filter((role) => typeof role === 'string') : [],
      ...(typeof tenantId === 'string' && { tenantId }),
      ...(typeof workspaceId === 'string' && { workspaceId }),
    }
  }
}

interface Keys {
  readonly operatorSecret: string
  readonly cookieKey: string
}

function provider(issuer: string, audience: string, jwk: JWK, keys: Keys): Provider {
  return new Provider(issuer, {
    adapter: Stateless,
    jwks: { keys: [{ ...jwk, alg: ALGORITHM, use: 'sig' }] },
    cookies: { keys: [keys.cookieKey] },
    clients: [
      {
        client_id: OPERATOR_CLIENT,
        client_secret: keys.operatorSecret,
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
        id_token_signed_response_alg: ALGORITHM,
      },
    ],
    ttl: { ClientCredentials: LIMITS.tokenSeconds },
    extraTokenClaims: (_context, token) =>
      'client' in token && token.clientId === OPERATOR_CLIENT ? { roles: ['operator'] } : {},
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => audience,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope: '',
          audience,
          accessTokenFormat: 'jwt',
          accessTokenTTL: LIMITS.tokenSeconds,
          jwt: { sign: { alg: ALGORITHM } },
        }),
      },
    },
  })
}

/** Client credentials give self-contained tokens: there is nothing to keep, and nothing that could be found. */
class Stateless implements Adapter {
  async upsert(): Promise<void> {
    throw new TypeError('the issuer offers no grant that keeps state')
  }
  async find(): Promise<undefined> {}
  async findByUserCode(): Promise<undefined> {}
  async findByUid(): Promise<undefined> {}
  async consume(): Promise<void> {}
  async destroy(): Promise<void> {}
  async revokeByGrantId(): Promise<void> {}
}

/** One key for all API processes: the first that starts makes it, whoever comes at the same time takes that. */
async function signingKey(database: Database, secrets: Secrets): Promise<JWK> {
  const system = new SystemScope('signing-keys', database)
  const existing = await system.row<{ sealed: Buffer }>(
    sql`select sealed from signing_keys order by created_at desc, id limit 1`,
  )
  if (existing !== undefined) return JSON.parse(secrets.open('signing-key', existing.sealed).toString())
  const made = await makeKey()
  const sealed = secrets.seal('signing-key', Buffer.from(JSON.stringify(made)))
  const kept = await system.row<{ sealed: Buffer }>(sql`
    insert into signing_keys (id, sealed) values ('first', ${sealed})
    on conflict (id) do update set id = excluded.id returning sealed`)
  return JSON.parse(secrets.open('signing-key', kept?.sealed ?? sealed).toString())
}

async function makeKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair(ALGORITHM, { extractable: true })
  const jwk = await exportJWK(privateKey)
  return { ...jwk, kid: await calculateJwkThumbprint(jwk) }
}
