/** The embedded issuer: a standard OAuth 2.1 / OpenID provider mounted under /auth, with its key in the database. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  calculateJwkThumbprint,
  createLocalJWKSet,
  errors,
  exportJWK,
  generateKeyPair,
  type JWK,
  type JWTPayload,
  jwtVerify,
} from 'jose'
import storage from 'oidc-provider/lib/helpers/als.js'
import { type Config, issuerUrl, publicUrl } from '../config.ts'
import { restful } from '../contexts.ts'
import type { Database } from '../pg/database.ts'
import { sql } from '../pg/sql.ts'
import { DERIVED, type Secrets } from '../secrets.ts'
import { SystemScope } from '../system.ts'
import type { HostedServers } from './hosted.ts'
import { ALGORITHM, openProvider } from './issuer.ts'

export interface Claims {
  readonly sub: string
  readonly roles: readonly string[]
  readonly scopes: readonly string[]
  readonly tenantId?: string
  readonly workspaceId?: string
}

/** What a token for a hosted MCP server says. */
export interface HostedClaims {
  readonly sub: string
  readonly clientId: string
  readonly tenantId: unknown
  readonly workspaceId: unknown
  readonly serverId: unknown
  readonly scopes: ReadonlySet<string>
}

export class Identity {
  readonly issuer: string
  readonly audience: string
  readonly #handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>
  readonly #within = restful(storage)
  readonly #keys: ReturnType<typeof createLocalJWKSet>
  readonly #address: Readonly<Record<string, string>>

  private constructor(config: Config, jwk: JWK, secrets: Secrets, hosted: HostedServers) {
    const base = publicUrl(config)
    const operatorSecret = config.TENON_OPERATOR_SECRET ?? secrets.derive(DERIVED.operatorSecret)
    const cookieKey = secrets.derive('cookies')
    this.issuer = issuerUrl(config)
    this.audience = `${base}/v1`
    const { d: _private, ...publicJwk } = jwk
    this.#keys = createLocalJWKSet({ keys: [publicJwk] })
    const { issuer, audience } = this
    this.#handle = openProvider({ issuer, audience, jwk, operatorSecret, cookieKey, hosted }).callback()
    const { host, protocol } = new URL(base)
    this.#address = { host, 'x-forwarded-host': host, 'x-forwarded-proto': protocol.replace(':', '') }
  }

  static async open(
    config: Config,
    database: Database,
    secrets: Secrets,
    hosted: HostedServers,
  ): Promise<Identity> {
    return new Identity(config, await signingKey(database, secrets), secrets, hosted)
  }

  /**
   * Answers a request below /auth; the provider sees its URL without that prefix. The addresses it writes into its
   * metadata come from the configuration, whatever `Host` or `X-Forwarded-*` say.
   */
  handle(request: IncomingMessage, response: ServerResponse, url = request.url ?? '/'): Promise<void> {
    Object.assign(request.headers, this.#address)
    Object.assign(request, { originalUrl: url, url: url.replace(/^\/auth/, '') || '/' })
    return this.#within(() => this.#handle(request, response))
  }

  /**
   * Verifies an access token (RFC 9068: `typ` at+jwt, `exp`, `aud`; RFC 8725: a fixed list of algorithms).
   * @throws a jose error where any of it does not hold
   */
  async verify(token: string): Promise<Claims> {
    const payload = await this.#payload(token, this.audience)
    const { roles, scope, tenant_id: tenantId, workspace_id: workspaceId } = payload
    return {
      sub: payload.sub ?? '',
      roles: Array.isArray(roles) ? roles.filter((role) => typeof role === 'string') : [],
      scopes: typeof scope === 'string' ? scope.split(' ') : [],
      ...(typeof tenantId === 'string' && { tenantId }),
      ...(typeof workspaceId === 'string' && { workspaceId }),
    }
  }

  /**
   * Verifies a token for one hosted MCP server, as {@link verify} does; `aud` must be that resource and no list.
   * @throws a jose error where any of it does not hold
   */
  async verifyHosted(token: string, resource: string): Promise<HostedClaims> {
    const payload = await this.#payload(token, resource)
    if (typeof payload.aud !== 'string') throw new errors.JWTInvalid('"aud" names more than one resource')
    const { client_id: clientId, scope } = payload
    return {
      sub: payload.sub ?? '',
      clientId: typeof clientId === 'string' ? clientId : '',
      tenantId: payload['tenant_id'],
      workspaceId: payload['workspace_id'],
      serverId: payload['mcp_server'],
      scopes: new Set(typeof scope === 'string' ? scope.split(' ') : []),
    }
  }

  async #payload(token: string, audience: string): Promise<JWTPayload> {
    const { payload } = await jwtVerify(token, this.#keys, {
      issuer: this.issuer,
      audience,
      algorithms: [ALGORITHM],
      typ: 'at+jwt',
      requiredClaims: ['exp', 'iat', 'sub'],
      clockTolerance: 30,
    })
    return payload
  }
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
