/** Knows the access tokens of runs: asked of their issuers when they are needed, kept for as long as they are good. */

import { createHash } from 'node:crypto'
import { decodeJwt } from 'jose'
import { LIMITS } from '../core/limits.ts'
import type { Inbound } from '../platform/egress.ts'
import { Recent } from '../platform/recent.ts'
import { callFailure } from './call-failure.ts'
import { type Fields, jsonOf } from './http-auth-fields.ts'
import { tokenEndpoint, tokenRequest } from './http-auth-grants.ts'
import type { Line } from './line.ts'

interface Token {
  readonly text: string
  readonly untilMs: number
}

export class Tokens {
  readonly #kept = new Recent<Token>(LIMITS.runTokensMax)
  readonly #asked = new Map<string, Promise<Token>>()
  readonly #now: () => number

  /** @param now milliseconds that never go back */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /**
   * The token that the properties of `oauth2` or `oidc` ask for. `isKept` says that it came earlier in the run.
   * @throws ApplicationFailure where the issuer gives none. @throws Problem where it does not answer
   */
  async of(
    run: string,
    scheme: 'oauth2' | 'oidc',
    given: Fields,
    line: Line,
  ): Promise<{ readonly text: string; readonly isKept: boolean }> {
    const key = keyOf(run, scheme, given)
    const kept = this.#kept.get(key)
    if (kept !== undefined && kept.untilMs > this.#now()) return { text: kept.text, isKept: true }
    const { text } = await (this.#asked.get(key) ?? this.#ask(key, scheme, given, line))
    return { text, isKept: false }
  }

  /** The other side no longer takes it. */
  forget(run: string, scheme: 'oauth2' | 'oidc', given: Fields): void {
    this.#kept.delete(keyOf(run, scheme, given))
  }

  /** Branches that need the same token at once ask once. */
  #ask(key: string, scheme: 'oauth2' | 'oidc', given: Fields, line: Line): Promise<Token> {
    const asking = this.#fetch(scheme, given, line)
      .then((token) => this.#keep(key, token))
      .finally(() => this.#asked.delete(key))
    this.#asked.set(key, asking)
    return asking
  }

  async #fetch(scheme: 'oauth2' | 'oidc', given: Fields, line: Line): Promise<Token> {
    const endpoint = await tokenEndpoint(scheme, given, line)
    const askedMs = this.#now()
    const answer = await line.send(await tokenRequest(scheme, given, endpoint), LIMITS.tokenAnswerBytesMax)
    const { access_token: text, token_type: type, expires_in: lifetime } = granted(scheme, answer)
    const isBearer = typeof type !== 'string' || type.toLowerCase() === 'bearer'
    if (typeof text !== 'string' || text.length > LIMITS.tokenCharsMax || !isBearer) {
      throw callFailure('authentication', `The issuer of \`${scheme}\` gave no bearer token.`)
    }
    checkIssuer(text, given['issuers'])
    // One whose lifetime nobody knows is used once.
    const seconds = Number(lifetime) > 0 ? Number(lifetime) : 0
    return { text, untilMs: askedMs + seconds * 1_000 - LIMITS.tokenLeewayMs }
  }

  #keep(key: string, token: Token): Token {
    if (token.untilMs > this.#now()) this.#kept.set(key, token)
    return token
  }
}

/** The properties hold a password: only their digest is remembered. */
function keyOf(run: string, scheme: string, given: Fields): string {
  return createHash('sha256')
    .update(JSON.stringify([run, scheme, given]))
    .digest('base64')
}

/** RFC 6749 §5. Of a refusal only the code is told: its description may repeat what was sent. */
function granted(scheme: string, { status, body }: Inbound): Fields {
  const answer = jsonOf(body)
  if (status === 200 && answer !== undefined) return answer
  const code = answer?.['error']
  const why = typeof code === 'string' && /^\w{1,60}$/.test(code) ? ` (${code})` : ''
  const detail = `The issuer of \`${scheme}\` answered ${status}${why}.`
  if (status >= 500) throw callFailure('communication', detail, { status })
  throw callFailure('authentication', detail)
}

/** Where `issuers` are named, a token that says its own must be of one of them (OWS 1.0 "OAUTH2 Authentication"). */
function checkIssuer(token: string, issuers: unknown): void {
  if (!Array.isArray(issuers) || issuers.length === 0) return
  const issuer = issuerOf(token)
  if (issuer === undefined || issuers.includes(issuer)) return
  throw callFailure('authentication', 'The token is of an issuer that is not among `issuers`.')
}

function issuerOf(token: string): string | undefined {
  try {
    return decodeJwt(token).iss
  } catch {
    return undefined
  }
}
