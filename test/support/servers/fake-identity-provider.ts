/** A fake OpenID provider that signs the same person in at once, over real HTTP, and falsifies its responses on demand. */

import { createHash, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT, UnsecuredJWT } from 'jose'

interface Request {
  readonly nonce: string
  readonly challenge: string
  readonly redirectUri: string
}

interface Keys {
  readonly own: CryptoKey
  readonly other: CryptoKey
  /** The public one of `own`. */
  readonly published: JWK
}

/** Parts of the responses that the provider falsifies. */
export interface Flaws {
  /** Claims of the ID token. */
  readonly claims?: Readonly<Record<string, unknown>>
  readonly signature?: 'of another key' | 'none'
  /** Parameters of the redirect. */
  readonly redirect?: Readonly<Record<string, string>>
  /** Members of the discovery document. */
  readonly discovery?: Readonly<Record<string, unknown>>
  readonly token?: 'hangs' | 'refused' | 'without ID token'
  /** The ID token does not describe the person. */
  readonly userInfo?: true
}

export class FakeIdentityProvider {
  /** Claims about the person who signs in. */
  person: Record<string, unknown> = {}
  flaws: Flaws = {}
  /** Bodies of requests to the token endpoint, with the header `authorization`. */
  readonly exchanges: { readonly body: URLSearchParams; readonly authorization: string | undefined }[] = []
  readonly #server: Server
  readonly #requests = new Map<string, Request>()
  readonly #keys: Keys

  private constructor(server: Server, keys: Keys) {
    this.#server = server
    this.#keys = keys
  }

  static async open(): Promise<FakeIdentityProvider> {
    const [own, other] = await Promise.all([generateKeyPair('ES256'), generateKeyPair('ES256')])
    const published = { ...(await exportJWK(own.publicKey)), kid: 'k1', alg: 'ES256', use: 'sig' }
    const server = createServer()
    const provider = new FakeIdentityProvider(server, {
      own: own.privateKey,
      other: other.privateKey,
      published,
    })
    server.on('request', (request, response) => {
      provider
        .#answer(request, response)
        .catch((error: unknown) => response.writeHead(500).end(String(error)))
    })
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    return provider
  }

  get origin(): string {
    return `http://${this.host}`
  }

  /** With the port. */
  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((done) => this.#server.close(done))
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', this.origin)
    const json = (body: object, status = 200) =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (url.pathname === '/.well-known/openid-configuration') return json(this.#discovery)
    if (url.pathname === '/jwks') return json({ keys: [this.#keys.published] })
    if (url.pathname === '/userinfo') return json({ sub: 'sub-1', ...this.person })
    if (url.pathname === '/authorize') {
      const to = this.#authorize(url.searchParams)
      return void response.writeHead(303, { location: to.href }).end()
    }
    const body = new URLSearchParams(await text(request))
    this.exchanges.push({ body, authorization: request.headers.authorization })
    if (this.flaws.token === 'hangs') return
    const code = this.#requests.get(body.get('code') ?? '')
    this.#requests.delete(body.get('code') ?? '')
    const challenge = createHash('sha256')
      .update(body.get('code_verifier') ?? '')
      .digest('base64url')
    const isRight = code?.challenge === challenge && code.redirectUri === body.get('redirect_uri')
    if (code === undefined || !isRight || this.flaws.token === 'refused')
      return json({ error: 'invalid_grant' }, 400)
    const tokens = { access_token: randomUUID(), token_type: 'bearer' }
    json(this.flaws.token === undefined ? { ...tokens, id_token: await this.#idToken(code) } : tokens)
  }

  get #discovery() {
    return {
      issuer: this.origin,
      authorization_endpoint: `${this.origin}/authorize`,
      token_endpoint: `${this.origin}/token`,
      jwks_uri: `${this.origin}/jwks`,
      userinfo_endpoint: `${this.origin}/userinfo`,
      response_types_supported: ['code'],
      id_token_signing_alg_values_supported: ['ES256'],
      authorization_response_iss_parameter_supported: true,
      ...this.flaws.discovery,
    }
  }

  #authorize(parameters: URLSearchParams): URL {
    const [code, redirectUri] = [randomUUID(), parameters.get('redirect_uri') ?? '']
    const { nonce = '', code_challenge: challenge = '' } = Object.fromEntries(parameters)
    this.#requests.set(code, { nonce, challenge, redirectUri })
    const to = new URL(redirectUri)
    const answer = { code, state: parameters.get('state') ?? '', iss: this.origin, ...this.flaws.redirect }
    for (const [name, value] of Object.entries(answer)) if (value !== '') to.searchParams.set(name, value)
    return to
  }

  #idToken({ nonce }: Request): Promise<string> | string {
    const now = Math.floor(Date.now() / 1_000)
    const about = this.flaws.userInfo ? {} : this.person
    const claims = { iss: this.origin, aud: 'tenon', sub: 'sub-1', iat: now, exp: now + 300, nonce }
    const payload = { ...claims, ...about, ...this.flaws.claims }
    const { signature } = this.flaws
    if (signature === 'none') return new UnsecuredJWT(payload).encode()
    const key = signature === undefined ? this.#keys.own : this.#keys.other
    return new SignJWT(payload).setProtectedHeader({ alg: 'ES256', kid: 'k1' }).sign(key)
  }
}
