/** The HTTP client of the CLI for the public API: JSON, pages, server-sent events, and tokens of the embedded issuer. */

import { type EventSourceMessage, EventSourceParserStream } from 'eventsource-parser/stream'
import * as oidc from 'openid-client'

/** Longest `Retry-After` that the client waits for. */
const RETRY_AFTER_MAX_S = 60

/** A problem document (RFC 9457) as a message for a terminal. */
export class ApiError extends Error {
  readonly status: number
  readonly problem: Readonly<Record<string, unknown>>

  constructor(status: number, problem: Readonly<Record<string, unknown>>) {
    const { code, detail, title, hint, errors, error, request_id } = problem
    const summary = `${code ?? status}${placeOf(error)}: ${detail ?? title ?? 'no detail'}`
    // A hint to other members of the document, which are printed here.
    const nextStep = String(hint ?? '').startsWith('See `') ? '' : hint
    super(
      [summary, ...errorLines(errors, summary), nextStep, request_id && `request ${request_id}`]
        .filter(Boolean)
        .join('\n  '),
    )
    this.name = 'ApiError'
    this.status = status
    this.problem = problem
  }
}

/** No server has answered, or it has stopped in the middle of its response. */
export class UnreachableError extends Error {
  constructor(url: string, cause: unknown) {
    super(`No server answers at ${url}. Start the platform with \`npm start\`, or set TENON_URL.`, { cause })
    this.name = 'UnreachableError'
  }
}

/** One line for each of several errors, and for a single one that `detail` does not contain. */
function errorLines(errors: unknown, summary: string): string[] {
  if (!Array.isArray(errors)) return []
  const [first, ...more] = errors
  if (more.length === 0 && (first === undefined || summary.includes(first.detail))) return []
  return errors.map(({ pointer, name, detail }) => `${pointer || name} ${detail}`)
}

/**
 * ` at lib.ts:2:14`: the position at which the code of a function has failed; empty if it is not known.
 * @param error the member `error` of a problem or of a run
 */
export function placeOf(error: unknown): string {
  const { file, line, column } = (error ?? {}) as { file?: string; line?: number; column?: number }
  return line === undefined
    ? ''
    : ` at ${[file, line, column].filter((part) => part !== undefined).join(':')}`
}

/**
 * Prints each entry of `warnings` on stderr, whatever the command does with the answer. Diagnostics of flows, which have a line, are
 * printed by the commands that know the file.
 */
function printWarnings(answer: unknown): void {
  const { warnings } = Object(answer) as { warnings?: unknown }
  if (!Array.isArray(warnings)) return
  for (const { pointer, detail, line } of warnings)
    if (line === undefined) process.stderr.write(`warning: ${pointer}: ${detail}\n`)
}

/** A path with those values as its query that are there. */
export function withQuery(path: string, values: Readonly<Record<string, string | undefined>>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(values)) if (value !== undefined) query.set(name, value)
  return query.size === 0 ? path : `${path}?${query}`
}

/** The headers that prove who calls: `{ authorization }` or `{ apikey }`. */
export type Credential = Readonly<Record<string, string>>

interface Sent {
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Blob | ReadableStream
}

export class ApiClient {
  readonly url: string
  #credential: Credential
  readonly #renew: (refused: ApiError, used: Credential) => Promise<Credential | undefined>

  /**
   * @param renew gets another credential if one is refused because it is too old: then the request is repeated once. Undefined: the
   *   request stays refused
   */
  constructor(
    url: string,
    credential: Credential,
    renew: (refused: ApiError, used: Credential) => Promise<Credential | undefined> = async () => undefined,
  ) {
    this.url = url
    this.#credential = credential
    this.#renew = renew
  }

  /**
   * Sends JSON, or a text as YAML.
   * @returns the JSON of the response
   * @throws ApiError for any status outside 200–299; UnreachableError if the server does not answer
   */
  async call<T>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<T> {
    return (await this.callTagged<T>(method, path, body, headers)).answer
  }

  /** As `call`; also returns the `ETag` of the response, if it has one. */
  async callTagged<T>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<{ readonly answer: T; readonly tag: string | undefined }> {
    const text = typeof body === 'string'
    const type = text ? 'application/yaml' : 'application/json'
    const response = await this.send(method, path, {
      headers: { ...(body !== undefined && { 'content-type': type }), ...headers },
      ...(body !== undefined && { body: text ? body : JSON.stringify(body) }),
    })
    const received = await response.text().catch((cause: unknown) => {
      throw new UnreachableError(this.url, cause)
    })
    const answer = received === '' ? {} : parseJson(received, this.url)
    if (method !== 'GET') printWarnings(answer)
    return { answer: answer as T, tag: response.headers.get('etag') ?? undefined }
  }

  /**
   * Sends any body, and returns the response before its body is read.
   * @throws as `call`
   */
  async send(method: string, path: string, sent: Sent = {}): Promise<Response> {
    const used = this.#credential
    const response = await this.#attempt(method, path, sent)
    if (response.ok) return response
    const refused = await readError(response)
    // Safe to repeat: the platform looks at the credential, and at how recent it is, before it reads the body.
    const credential = isRepeatable(sent) ? await this.#renew(refused, used) : undefined
    if (credential === undefined) throw refused
    this.#credential = credential
    const repeated = await this.#attempt(method, path, sent)
    if (repeated.ok) return repeated
    throw await readError(repeated)
  }

  /** Sends the request, and once more if the rate limit has rejected it. */
  async #attempt(method: string, path: string, sent: Sent): Promise<Response> {
    // Redirects are not followed: the credential is for this server.
    const request = {
      method,
      headers: { ...this.#credential, ...sent.headers },
      redirect: 'manual',
      ...(sent.body !== undefined && { body: sent.body, duplex: 'half' as const }),
    } as const
    const attempt = () =>
      fetch(`${this.url}${path}`, request).catch((cause: unknown) => {
        throw new UnreachableError(this.url, cause)
      })
    const response = await attempt()
    const waitS = Number(response.headers.get('retry-after'))
    const isLimited = response.headers.get('x-problem-code') === 'rate_limited'
    // Safe to repeat: the rate limit rejects a request before it has effects.
    if (!isLimited || !isRepeatable(sent) || waitS > RETRY_AFTER_MAX_S) return response
    await new Promise((done) => setTimeout(done, waitS * 1_000))
    return attempt()
  }

  get<T>(path: string): Promise<T> {
    return this.call<T>('GET', path)
  }

  /** Reads a list page by page. @param path with its query */
  async *pages<T>(path: string): AsyncGenerator<T[]> {
    for (let next: string | null = ''; next !== null; ) {
      const url: string = `${path}${path.includes('?') ? '&' : '?'}page[size]=200${next && `&page[after]=${next}`}`
      const found = await this.get<{ data: T[]; page: { next: string | null } }>(url)
      yield found.data
      next = found.page.next
    }
  }

  /** Returns the items of all pages of a list. @param path with its query */
  async list<T>(path: string): Promise<T[]> {
    const items: T[] = []
    for await (const page of this.pages<T>(path)) items.push(...page)
    return items
  }

  /** @param waitS seconds that the server may delay the response until the work is done */
  post<T>(path: string, body: unknown, waitS?: number): Promise<T> {
    return this.call<T>('POST', path, body, waitS === undefined ? {} : { prefer: `wait=${waitS}` })
  }
}

/** A stream can be read only once. */
const isRepeatable = ({ body }: Sent): boolean => !(body instanceof ReadableStream)

async function readError(response: Response): Promise<ApiError> {
  const problem = (await response.json().catch(() => ({}))) as Record<string, unknown>
  return new ApiError(response.status, problem)
}

/** The configuration of a client of the embedded issuer. */
export function issuerAt(url: string, clientId: string, authentication: oidc.ClientAuth): oidc.Configuration {
  const server = {
    issuer: `${url}/auth`,
    authorization_endpoint: `${url}/auth/authorize`,
    token_endpoint: `${url}/auth/token`,
    authorization_response_iss_parameter_supported: true,
  }
  const configuration = new oidc.Configuration(server, clientId, undefined, authentication)
  oidc.allowInsecureRequests(configuration)
  return configuration
}

/**
 * Fetches a token of the embedded issuer with client credentials (RFC 6749 §4.4).
 * @param parameters `resource` and `scope`, for tokens that are not for the REST API
 */
export async function fetchToken(
  url: string,
  clientId: string,
  clientSecret: string,
  parameters: Readonly<Record<string, string>> = {},
): Promise<string> {
  const issuer = issuerAt(url, clientId, oidc.ClientSecretBasic(clientSecret))
  return requestToken(url, () => oidc.clientCredentialsGrant(issuer, parameters))
}

/** Returns the token of a grant. @throws Error with the reason of the issuer, or if it does not answer */
export async function requestToken(
  url: string,
  grant: () => Promise<oidc.TokenEndpointResponse>,
): Promise<string> {
  try {
    return (await grant()).access_token
  } catch (error) {
    if (error instanceof TypeError) throw new UnreachableError(url, error)
    const reason = error instanceof oidc.WWWAuthenticateChallengeError ? error.cause[0]?.parameters : error
    const { error_description: text, error: code, message } = Object(reason)
    const what = error instanceof oidc.AuthorizationResponseError ? 'Sign-in' : 'The token request'
    throw new Error(`${what} failed: ${text ?? code ?? message}`, { cause: error })
  }
}

/** @throws Error if the response is not JSON, as that of another program at the address of the platform */
function parseJson(text: string, url: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new Error(`The server at ${url} answers with something else than JSON. Check TENON_URL.`, { cause })
  }
}

/** Parses server-sent events. @throws Error if the connection breaks */
export async function* parseFrames(response: Response): AsyncGenerator<EventSourceMessage> {
  const texts = response.body?.pipeThrough(new TextDecoderStream())
  yield* texts?.pipeThrough(new EventSourceParserStream()) ?? []
}
