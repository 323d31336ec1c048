/** A fake OpenID issuer: realms with keys of their own over real HTTP, and all kinds of failures. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { CompactSign, type CryptoKey, exportJWK, generateKeyPair, importJWK, type JWK } from 'jose'
import type { Caller } from '../fixtures/tenants.ts'

/** Its response to a request for its keys. */
export type FailureMode = 'good' | 'away' | 'hangs' | 'huge' | 'moved' | 'no json' | 'no keys' | 'half'

export interface Overrides {
  /** Members of the protected header. */
  readonly head?: Readonly<Record<string, unknown>>
  readonly issuer?: string
  /** null: none. */
  readonly audience?: string | string[] | null
  readonly key?: CryptoKey
  /** Changes the JSON of the claims before it is signed. */
  readonly text?: (json: string) => string
}

export const AUDIENCE = 'https://api.peer.test'

export class PeerIssuer {
  /** Requested paths, in order. */
  readonly requests: string[] = []
  day: FailureMode = 'good'
  readonly #server: Server
  readonly #realms = new Map<string, Realm>()

  private constructor(server: Server) {
    this.#server = server
  }

  static async open(): Promise<PeerIssuer> {
    const server = createServer()
    const peer = new PeerIssuer(server)
    server.on('request', (request, response) => peer.#answer(request, response))
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    return peer
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** @param alg algorithm with which it signs */
  async realm(name: string, alg = 'RS256'): Promise<Realm> {
    const realm = await Realm.open(`${this.origin}/realms/${name}`, alg)
    this.#realms.set(`/realms/${name}`, realm)
    return realm
  }

  /** Number of key requests since `requests` was last emptied. */
  get keysRead(): number {
    return this.requests.filter((path) => path.endsWith('/jwks')).length
  }

  /** Open requests whose senders still wait. */
  held = 0

  #hold(response: ServerResponse): void {
    this.held += 1
    response.once('close', () => {
      this.held -= 1
    })
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((done) => this.#server.close(done))
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const path = request.url ?? ''
    this.requests.push(path)
    const realm = this.#realms.get(path.replace(/\/(jwks|\.well-known\/openid-configuration)$/, ''))
    const isKeys = path.endsWith('/jwks')
    if (realm === undefined) return void response.writeHead(404).end()
    const body = isKeys ? { keys: realm.published } : realm.discovery
    if (this.day === 'good' || !isKeys) return void response.end(JSON.stringify(body))
    this.#badDay(response, JSON.stringify(body))
  }

  #badDay(response: ServerResponse, keys: string): void {
    if (this.day === 'hangs') return void this.#hold(response)
    if (this.day === 'half') return void response.writeHead(200, { 'content-length': 9_999 }).write(keys)
    if (this.day === 'away') return void response.destroy()
    if (this.day === 'moved') return void response.writeHead(302, { location: `${this.origin}/stolen` }).end()
    if (this.day === 'huge')
      return void response.end(keys.replace('{', `{"padding":"${'x'.repeat(1_048_576)}",`))
    response.end(this.day === 'no json' ? 'garbage' : '{"keys":7}')
  }
}

export class Realm {
  readonly issuer: string
  /** In the form of its key set. */
  published: JWK[] = []
  discovery: Record<string, unknown>
  readonly #alg: string
  #key: CryptoKey | undefined
  #generation = 0

  private constructor(issuer: string, alg: string) {
    this.issuer = issuer
    this.#alg = alg
    this.discovery = { issuer, jwks_uri: `${issuer}/jwks` }
  }

  static async open(issuer: string, alg: string): Promise<Realm> {
    const realm = new Realm(issuer, alg)
    await realm.rotate()
    return realm
  }

  /** Publishes only a new key, and signs with it. */
  async rotate(): Promise<void> {
    const { privateKey, publicKey } = await generateKeyPair(this.#alg, { extractable: true })
    this.#generation += 1
    this.#key = privateKey
    this.published = [
      { ...(await exportJWK(publicKey)), kid: `k${this.#generation}`, alg: this.#alg, use: 'sig' },
    ]
  }

  /** The signing key, for another algorithm. */
  async keyFor(alg: string): Promise<CryptoKey> {
    const { alg: _own, ...jwk } = await exportJWK(this.#key as CryptoKey)
    return (await importJWK(jwk, alg)) as CryptoKey
  }

  /** A token of this realm, valid unless something is overridden. */
  async token(claims: Record<string, unknown>, overrides: Overrides = {}): Promise<Caller> {
    const { head, issuer: iss = this.issuer, audience: aud = AUDIENCE, key = this.#key } = overrides
    const now = Math.floor(Date.now() / 1_000)
    const payload = { sub: 'ada', iat: now, exp: now + 300, iss, ...(aud !== null && { aud }), ...claims }
    const text = overrides.text?.(JSON.stringify(payload)) ?? JSON.stringify(payload)
    const protectedHeader = { alg: this.#alg, typ: 'at+jwt', kid: `k${this.#generation}`, ...head }
    const token = new CompactSign(Buffer.from(text)).setProtectedHeader(protectedHeader as never)
    if (key === undefined) throw new TypeError('a realm without a key')
    return { authorization: `Bearer ${await token.sign(key)}` }
  }
}
