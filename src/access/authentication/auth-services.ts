/** Wires authentication for the API: the embedded issuer, token verifiers, MCP clients, and the payload session cookie. */

import { decodeJwt } from 'jose'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { type Config, issuerUrl, publicUrl } from '../../infra/config.ts'
import type { Secrets } from '../../infra/crypto/secrets.ts'
import { Egress } from '../../infra/http-client/egress.ts'
import type { PlatformServices } from '../internals.ts'
import { AccountsStore } from '../issuer/accounts-store.ts'
import { EmbeddedIssuer } from '../issuer/embedded-issuer.ts'
import { Authenticator, type TokenIssuer, Tokens } from './authenticator.ts'
import { ExternalIssuer } from './external-issuer.ts'
import { McpServerRegistry } from './mcp-server-registry.ts'
import { McpClients, type SubjectStatus } from './subject-status.ts'

export interface AuthServices {
  /** The embedded issuer. Rejects while the database is away; asked again, it tries again. */
  readonly identity: () => Promise<EmbeddedIssuer>
  readonly auth: Authenticator
  readonly mcpServers: McpServerRegistry
  readonly mcpClients: McpClients
  readonly payloadSession: PayloadSession
}

/** @param now milliseconds that never go back; tests have a clock of their own */
export function openAuthServices(
  config: Config,
  parts: PlatformServices,
  now = () => performance.now(),
): AuthServices {
  const hosted = new McpServerRegistry(parts.database, publicUrl(config))
  const { oauthClients: clients, subjectStatus: holders, issuerState: state } = parts
  const people = new AccountsStore(parts.database, (account) => holders.forget(account))
  const { database, secrets, signingKeys: keys, audit, log } = parts
  let opened: Promise<EmbeddedIssuer> | undefined
  const identity = () => {
    opened ??= EmbeddedIssuer.open({
      config,
      secrets,
      keys,
      hosted,
      people,
      clients,
      state,
      audit,
      log,
    }).catch((error: unknown) => {
      opened = undefined
      throw error
    })
    return opened
  }
  const tokens = new Tokens(
    new Map([
      ...externalIssuers(config, parts, now),
      [issuerUrl(config), embeddedIssuer(identity, holders)] as const,
    ]),
  )
  const auth = new Authenticator(database, tokens, parts.keys, parts.tenantStates)
  return {
    identity,
    auth,
    mcpServers: hosted,
    mcpClients: new McpClients(hosted, identity, holders),
    payloadSession: new PayloadSession(secrets, publicUrl(config)),
  }
}

function embeddedIssuer(identity: () => Promise<EmbeddedIssuer>, holders: SubjectStatus): TokenIssuer {
  return {
    verify: async (token) => {
      const claims = await (await identity()).verify(token)
      if (!(await holders.isTokenActive(claims))) throw new Problem('token_invalid')
      return claims
    },
  }
}

/** By the `iss` of their tokens. */
function externalIssuers({ OIDC_ISSUERS: trusted }: Config, { log }: PlatformServices, now: () => number) {
  const onFailure = (issuer: string, error: unknown) =>
    log.warn({ err: error, issuer }, 'the keys of an issuer cannot be read')
  // What flows may reach is no matter of issuers: the operator has named these.
  const parts = { egress: new Egress([]), now, onFailure }
  return trusted.map((settings) => [settings.issuer, new ExternalIssuer(settings, parts)] as const)
}

/** The one path that the cookie is sent to, and is good for. */
export const PAYLOAD_SESSION_PATH = '/v1/codec/decode'

const NAME = 'tenon_payloads'
const PURPOSE = 'cookie:payloads'

interface Pass {
  readonly token: string
  /** Milliseconds since 1970. */
  readonly until: number
}

export class PayloadSession {
  readonly #secrets: Secrets
  readonly #attributes: string

  /** @param url of the API, as browsers see it */
  constructor(secrets: Secrets, url: string) {
    this.#secrets = secrets
    const secure = url.startsWith('https:') ? '; Secure' : ''
    this.#attributes = `Path=${PAYLOAD_SESSION_PATH}; HttpOnly; SameSite=Strict${secure}`
  }

  /**
   * @param token one that was verified: it ends no later than the token
   * @returns the value of a Set-Cookie header, and when it ends
   */
  issue(token: string): { cookie: string; until: Date } {
    const now = Date.now()
    const ends = (decodeJwt(token).exp ?? 0) * 1_000
    const until = Math.min(ends, now + LIMITS.pagePassSeconds * 1_000)
    const pass: Pass = { token, until }
    const sealed = this.#secrets.seal(PURPOSE, Buffer.from(JSON.stringify(pass))).toString('base64url')
    const seconds = Math.max(0, Math.floor((until - now) / 1_000))
    return { cookie: `${NAME}=${sealed}; Max-Age=${seconds}; ${this.#attributes}`, until: new Date(until) }
  }

  /**
   * The token in a Cookie header, which is yet to be verified.
   * @returns undefined where there is no such cookie; a text that is no token where it is not good any more
   */
  tokenIn(header = ''): string | undefined {
    const pairs = header.split(';').map((pair) => pair.trim())
    const text = pairs.find((pair) => pair.startsWith(`${NAME}=`))?.slice(NAME.length + 1)
    return text === undefined ? undefined : this.#open(text)
  }

  #open(text: string): string {
    try {
      const plain = this.#secrets.open(PURPOSE, Buffer.from(text, 'base64url'))
      const { token, until }: Pass = JSON.parse(plain.toString())
      return Date.now() < until ? token : ''
    } catch {
      return ''
    }
  }
}
