/**
 * Fake servers on loopback: a pet store with its documents, a token issuer, and endpoints that require
 * credentials.
 */

import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { challenge, isAnswered } from '../clients/digest-verifier.ts'

export interface ReceivedRequest {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
  readonly bytes: Buffer
}

/** A response: JSON, or a text of some type. */
interface Answer {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly json?: unknown
  readonly text?: string | Buffer
  /** The connection ends without a response. */
  readonly gone?: true
  /** No response is sent. */
  readonly hangs?: true
  /** The response is delayed by this time. */
  readonly lateMs?: number
}

export type Route = (request: ReceivedRequest, fakeServers: FakeServers) => Answer

export class FakeServers {
  /** All requests, in order. */
  readonly requests: ReceivedRequest[] = []
  /** Issued tokens that were not revoked. */
  readonly tokens = new Set<string>()
  readonly #server: Server
  readonly #routes: Readonly<Record<string, Route>>

  private constructor(server: Server, routes: Readonly<Record<string, Route>>) {
    this.#server = server
    this.#routes = routes
  }

  /** @param routes by path prefix, the longest first; added to the built-in ones @param address the loopback by default */
  static async open(
    routes: Readonly<Record<string, Route>> = {},
    address = '127.0.0.1',
  ): Promise<FakeServers> {
    const server = createServer()
    const fakeServers = new FakeServers(server, { ...ROUTES, ...routes })
    server.on('request', (request, response) => void fakeServers.#answer(request, response))
    await new Promise<void>((done) => server.listen(0, address, done))
    return fakeServers
  }

  get host(): string {
    const { address, port } = this.#server.address() as AddressInfo
    return `${address}:${port}`
  }

  get origin(): string {
    return `http://${this.host}`
  }

  requestsTo(path: string): readonly ReceivedRequest[] {
    return this.requests.filter(({ url }) => url.startsWith(path))
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((done) => this.#server.close(done))
  }

  async #answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk)
    const bytes = Buffer.concat(chunks)
    const request = {
      method: incoming.method ?? '',
      url: incoming.url ?? '',
      headers: incoming.headers,
      body: bytes.toString(),
      bytes,
    }
    this.requests.push(request)
    const route = Object.keys(this.#routes)
      .filter((path) => request.url.startsWith(path))
      .sort((a, b) => b.length - a.length)[0]
    const answer = route === undefined ? { status: 404 } : this.#routes[route]?.(request, this)
    if (answer?.hangs) return
    if (answer?.gone) return void response.destroy()
    const { status = 200, headers = {}, json, text, lateMs = 0 } = answer ?? {}
    if (lateMs > 0) await pause(lateMs)
    const type = json === undefined ? {} : { 'content-type': 'application/json' }
    response.writeHead(status, { ...type, ...headers })
    response.end(json === undefined ? text : JSON.stringify(json))
  }
}

const PET = { name: 'Milou', photoUrls: [], tags: [] }

/** The part of the well-known pet store that the tests use. */
function swagger(host: string) {
  const status = { name: 'status', in: 'query', required: true, type: 'array', collectionFormat: 'multi' }
  const petId = { name: 'petId', in: 'path', required: true, type: 'integer' }
  const pet = { name: 'body', in: 'body', required: true, schema: { $ref: '#/definitions/Pet' } }
  const form = (name: string) => ({ name, in: 'formData', type: 'string' })
  return {
    swagger: '2.0',
    info: { title: 'Pets', version: '1' },
    host,
    basePath: '/v2',
    schemes: ['https', 'http'],
    paths: {
      '/pet/findByStatus': { get: { operationId: 'findPetsByStatus', parameters: [status] } },
      '/pet/{petId}': {
        get: { operationId: 'getPetById', parameters: [petId] },
        post: {
          operationId: 'updatePetWithForm',
          consumes: ['application/x-www-form-urlencoded'],
          parameters: [petId, form('name'), form('status')],
        },
      },
      '/pet': { post: { operationId: 'addPet', consumes: ['application/json'], parameters: [pet] } },
    },
    definitions: { Pet: { type: 'object', properties: { id: {}, name: {}, status: {} } } },
  }
}

const unauthorized = (ask: string): Answer => ({ status: 401, headers: { 'www-authenticate': ask } })

const echo: Route = ({ method, url, headers, body }) => ({ json: { method, url, headers, body } })

function pet({ url }: ReceivedRequest): Answer {
  const id = Number(/^\/v2\/pet\/(\d+)(?:\?|$)/.exec(url)?.[1])
  return id > 0 ? { json: { ...PET, id, status: 'available' } } : { status: 404, json: { message: 'no pet' } }
}

/** Client `runner` with the secret `s3cret`, in any notation of RFC 6749. */
function token({ headers, body }: ReceivedRequest, fakeServers: FakeServers): Answer {
  const isJson = headers['content-type'] === 'application/json'
  const fields = new URLSearchParams(isJson ? (JSON.parse(body) as Record<string, string>) : body)
  const basic = Buffer.from(headers.authorization?.slice(6) ?? '', 'base64').toString()
  const isKnown =
    basic === 'runner:s3cret' || fields.get('client_secret') === 's3cret' || fields.has('client_assertion')
  if (!isKnown) return { status: 401, json: { error: 'invalid_client', error_description: body } }
  const text = createHash('sha256').update(`${fakeServers.tokens.size} ${body}`).digest('hex')
  fakeServers.tokens.add(text)
  const seconds = Number(fields.get('audience') ?? 600)
  return { json: { access_token: text, token_type: 'Bearer', expires_in: seconds } }
}

function secured({ headers }: ReceivedRequest, fakeServers: FakeServers): Answer {
  const text = /^Bearer (.*)$/.exec(headers.authorization ?? '')?.[1]
  return text !== undefined && fakeServers.tokens.has(text)
    ? { json: { secured: true } }
    : unauthorized('Bearer')
}

function digest(request: ReceivedRequest): Answer {
  const ask = challenge(new URL(request.url, 'http://x').searchParams.get('algorithm') ?? 'MD5')
  return isAnswered(request) ? { json: { digested: true } } : unauthorized(ask)
}

const ROUTES: Readonly<Record<string, Route>> = {
  '/v2/swagger.json': ({ headers }) => ({ json: swagger(headers.host ?? '') }),
  '/v2/pet/findByStatus': () => ({ json: [1, 2].map((id) => ({ ...PET, id, status: 'available' })) }),
  '/v2/pet/': (request) => (request.method === 'GET' ? pet(request) : echo(request, undefined as never)),
  '/v2/pet': echo,
  '/echo': echo,
  '/late': () => ({ json: {}, lateMs: 180 }),
  '/basic-auth/': ({ url, headers }) => {
    const [, , user = '', password = ''] = url.split('/').map(decodeURIComponent)
    const wanted = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
    return headers.authorization === wanted
      ? { json: { authenticated: true, user } }
      : unauthorized('Basic realm="x"')
  },
  '/digest': digest,
  '/oauth2/token': token,
  '/realm/token': token,
  '/realm/.well-known/openid-configuration': ({ headers }) => {
    const issuer = `http://${headers.host}/realm`
    return { json: { issuer, token_endpoint: `${issuer}/token` } }
  },
  '/secured': secured,
}
