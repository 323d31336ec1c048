/** `@tenon/client/auth`: sign-in of end users by authorization code with PKCE (RFC 7636), and tokens that renew themselves. */

import * as oauth from 'oauth4webapi'
import { TenonError } from './errors.ts'
import type { TokenSource } from './transport.ts'

/** `sessionStorage` and `localStorage` are such stores. */
export interface AuthStorage {
  getItem(name: string): string | null
  setItem(name: string, value: string): void
  removeItem(name: string): void
}

export interface AuthOptions {
  /** The address of the installation, or a host name of the workspace. */
  readonly url: string
  /** Id of the OAuth client of the application, `client_…`. */
  readonly clientId: string
  /** The page to which the sign-in returns, as the OAuth client has it. */
  readonly redirectUri: string
  /**
   * Keeps the refresh token, and the sign-in until it returns. Default: memory, which a redirect of the page empties. `sessionStorage`
   * keeps it in one tab. Any script of the page can read a storage.
   */
  readonly storage?: AuthStorage
}

/** Seconds before its end at which a token is renewed: clocks differ, and a request takes a while. */
const RENEW_S = 30

/** A hundred years. */
const TOLERANCE_S = 3_155_760_000

interface Tokens {
  readonly access: string
  readonly untilMs: number
}

/** A user of one application. Several may exist beside each other. */
export class Auth {
  readonly #options: AuthOptions
  readonly #server: oauth.AuthorizationServer
  readonly #client: oauth.Client
  readonly #storage: AuthStorage
  readonly #listeners = new Set<(isSignedIn: boolean) => void>()
  #tokens: Tokens | undefined
  #renewing: Promise<Tokens> | undefined

  constructor(options: AuthOptions) {
    const issuer = `${options.url.replace(/\/+$/, '')}/auth`
    this.#options = options
    this.#client = {
      client_id: options.clientId,
      id_token_signed_response_alg: 'ES256',
      // Devices have wrong clocks. What the ID token says comes from the issuer itself, and nothing reads it here.
      [oauth.clockTolerance]: TOLERANCE_S,
    }
    this.#storage = options.storage ?? inMemory()
    this.#server = {
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      revocation_endpoint: `${issuer}/revoke`,
      authorization_response_iss_parameter_supported: true,
    }
  }

  /** True if there is a session, which the server may have ended since. */
  get isSignedIn(): boolean {
    return this.#tokens !== undefined || this.#read('refresh') !== null
  }

  /** Calls the listener after each sign-in and sign-out. @returns a function that ends it */
  onChange(listener: (isSignedIn: boolean) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /**
   * The address of the sign-in page, for `location.assign`. Each one can be used once.
   * @param prompt `create` shows the page of new accounts first
   */
  async signInUrl({ prompt }: { readonly prompt?: 'create' | 'login' } = {}): Promise<string> {
    const [verifier, state] = [oauth.generateRandomCodeVerifier(), oauth.generateRandomState()]
    this.#write('sign-in', JSON.stringify({ verifier, state }))
    const query = new URLSearchParams({
      ...{
        response_type: 'code',
        client_id: this.#options.clientId,
        redirect_uri: this.#options.redirectUri,
      },
      ...{ scope: 'openid', state, code_challenge_method: 'S256' },
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      ...(prompt !== undefined && { prompt }),
    })
    return `${this.#server.authorization_endpoint}?${query}`
  }

  /**
   * Ends a sign-in on the page to which it returns.
   * @param url of the page: `location.href`
   * @returns false if the page was opened for something else. Remove the query of a page that has signed in: `history.replaceState`
   * @throws TenonError `sign_in_failed` if the user or the server has refused it, or if it was begun elsewhere
   */
  async handleRedirect(url: string): Promise<boolean> {
    const { searchParams } = new URL(url)
    const begun = this.#read('sign-in')
    if (!searchParams.has('state') || (!searchParams.has('code') && !searchParams.has('error'))) return false
    if (begun === null) throw failed('The sign-in was not begun here.')
    const { verifier, state } = JSON.parse(begun) as { readonly verifier: string; readonly state: string }
    this.#storage.removeItem(this.#name('sign-in'))
    await this.#grant(async () => {
      const parameters = oauth.validateAuthResponse(this.#server, this.#client, searchParams, state)
      const { redirectUri } = this.#options
      const of = [
        this.#server,
        this.#client,
        oauth.None(),
        parameters,
        redirectUri,
        verifier,
        this.#insecure,
      ] as const
      const response = await oauth.authorizationCodeGrantRequest(...of)
      return oauth.processAuthorizationCodeResponse(this.#server, this.#client, response)
    })
    return true
  }

  /**
   * The present access token, for `createClient({ token: auth.token })`. Requests that need a new one at the same time share it.
   * @throws TenonError `signed_out` if no user is signed in, or the session has ended
   */
  readonly token: TokenSource = async ({ refused } = {}) => {
    const tokens = this.#tokens
    if (tokens !== undefined && tokens.access !== refused && tokens.untilMs > Date.now()) return tokens.access
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = undefined
    })
    return (await this.#renewing).access
  }

  /** Ends the session here, and on the server if it answers. */
  async signOut(): Promise<void> {
    const refresh = this.#read('refresh')
    this.#forget()
    if (refresh === null) return
    await oauth
      .revocationRequest(this.#server, this.#client, oauth.None(), refresh, this.#insecure)
      .catch(() => undefined)
  }

  async #renew(): Promise<Tokens> {
    const refresh = this.#read('refresh')
    if (refresh === null) throw signedOut('Nobody is signed in.')
    return this.#grant(async () => {
      const of = [this.#server, this.#client, oauth.None(), refresh, this.#insecure] as const
      return oauth.processRefreshTokenResponse(
        this.#server,
        this.#client,
        await oauth.refreshTokenGrantRequest(...of),
      )
    })
  }

  /** Keeps the tokens of a grant. A refused one ends the session; a server that does not answer does not. */
  async #grant(request: () => Promise<oauth.TokenEndpointResponse>): Promise<Tokens> {
    const wasSignedIn = this.isSignedIn
    try {
      const { access_token, refresh_token, expires_in = 600 } = await request()
      const untilMs = Date.now() + (expires_in - RENEW_S) * 1_000
      this.#tokens = { access: access_token, untilMs }
      if (refresh_token !== undefined) this.#write('refresh', refresh_token)
      if (!wasSignedIn) this.#tell(true)
      return this.#tokens
    } catch (error) {
      if (error instanceof oauth.AuthorizationResponseError) throw failed(reasonOf(error), error)
      if (!(error instanceof oauth.ResponseBodyError)) throw unexpected(this.#server.issuer, error)
      this.#forget()
      throw wasSignedIn ? signedOut(reasonOf(error), error) : failed(reasonOf(error), error)
    }
  }

  #forget(): void {
    const wasSignedIn = this.isSignedIn
    this.#tokens = undefined
    this.#storage.removeItem(this.#name('refresh'))
    if (wasSignedIn) this.#tell(false)
  }

  #tell(isSignedIn: boolean): void {
    for (const listener of this.#listeners) listener(isSignedIn)
  }

  /** Platforms on a laptop have no TLS; browsers refuse such addresses on secure pages by themselves. */
  get #insecure(): { readonly [oauth.allowInsecureRequests]: boolean } {
    return { [oauth.allowInsecureRequests]: this.#server.issuer.startsWith('http:') }
  }

  #name(what: 'refresh' | 'sign-in'): string {
    return `tenon.${this.#options.clientId}.${what}`
  }

  #read(what: 'refresh' | 'sign-in'): string | null {
    return this.#storage.getItem(this.#name(what))
  }

  #write(what: 'refresh' | 'sign-in', value: string): void {
    this.#storage.setItem(this.#name(what), value)
  }
}

function inMemory(): AuthStorage {
  const values = new Map<string, string>()
  return {
    getItem: (name) => values.get(name) ?? null,
    setItem: (name, value) => void values.set(name, value),
    removeItem: (name) => void values.delete(name),
  }
}

const reasonOf = ({
  error,
  error_description,
}: {
  error: string
  error_description?: string | undefined
}): string => error_description ?? error

const failed = (detail: string, cause?: unknown): TenonError =>
  new TenonError({ code: 'sign_in_failed', status: 0, detail, cause, hint: 'Sign in again.' })

/** The issuer has not answered, or not as an issuer does. */
const unexpected = (issuer: string, cause: unknown): TenonError =>
  cause instanceof oauth.OperationProcessingError
    ? new TenonError({ code: 'invalid_response', status: 0, detail: cause.message, cause })
    : new TenonError({ code: 'network_error', status: 0, detail: `No server answers at ${issuer}.`, cause })

const signedOut = (detail: string, cause?: unknown): TenonError =>
  new TenonError({ code: 'signed_out', status: 401, detail, cause, hint: 'Sign in again.' })
