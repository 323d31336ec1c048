/** The HTTP client of the CLI: it knows the public API and nothing else. */

import * as oidc from 'openid-client'

/** For longer than that nobody at a terminal waits. */
const PATIENCE_S = 60

/** A problem document, as the person at the terminal should read it. */
export class ApiError extends Error {
  readonly status: number
  readonly problem: Readonly<Record<string, unknown>>

  constructor(status: number, problem: Readonly<Record<string, unknown>>) {
    const { code, detail, title, hint, errors, request_id } = problem
    const said = `${code ?? status}: ${detail ?? title ?? 'no detail'}`
    super([said, ...each(errors), hint, request_id && `request ${request_id}`].filter(Boolean).join('\n  '))
    this.name = 'ApiError'
    this.status = status
    this.problem = problem
  }
}

/** Where there are several faults, a line for each; one alone is in the sentence about it. */
function each(errors: unknown): string[] {
  if (!Array.isArray(errors) || errors.length < 2) return []
  return errors.map(({ pointer, name, detail }) => `${pointer || name} ${detail}`)
}

export class ApiClient {
  readonly url: string
  readonly #headers: Readonly<Record<string, string>>

  /** @param credential headers that carry it: `{ authorization }` or `{ apikey }` */
  constructor(url: string, credential: Readonly<Record<string, string>>) {
    this.url = url
    this.#headers = credential
  }

  /**
   * @returns the reply's JSON
   * @throws ApiError for any status outside 200–299; Error where nobody answers
   */
  async call<T>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<T> {
    const text = typeof body === 'string'
    const type = text ? 'application/yaml' : 'application/json'
    const response = await this.send(method, path, {
      headers: { ...(body !== undefined && { 'content-type': type }), ...headers },
      ...(body !== undefined && { body: text ? body : JSON.stringify(body) }),
    })
    return (await response.json().catch(() => ({}))) as T
  }

  /**
   * The same with any body, and the reply before its own is read.
   * @throws as `call`
   */
  async send(
    method: string,
    path: string,
    { headers, ...rest }: { headers?: Record<string, string>; body?: string | Blob } = {},
  ): Promise<Response> {
    // A redirect is an answer: what it leads to is not asked with this credential.
    const request = {
      method,
      headers: { ...this.#headers, ...headers },
      redirect: 'manual',
      ...rest,
    } as const
    const ask = () =>
      fetch(`${this.url}${path}`, request).catch((cause: unknown) => {
        throw nobodyAt(this.url, cause)
      })
    const first = await ask()
    const waitS = Number(first.headers.get('retry-after'))
    // A rate limit refuses before anything is done, so it may be asked again.
    const again = first.headers.get('x-problem-code') === 'rate_limited' && waitS <= PATIENCE_S
    if (again) await new Promise((done) => setTimeout(done, waitS * 1_000))
    const response = again ? await ask() : first
    if (response.ok) return response
    const problem = (await response.json().catch(() => ({}))) as Record<string, unknown>
    throw new ApiError(response.status, problem)
  }

  get<T>(path: string): Promise<T> {
    return this.call<T>('GET', path)
  }

  /** `waitS`: how long the server may hold the answer back until the work is done. */
  post<T>(path: string, body: unknown, waitS?: number): Promise<T> {
    return this.call<T>('POST', path, body, waitS === undefined ? {} : { prefer: `wait=${waitS}` })
  }
}

/** The embedded issuer, as a client of it sees it. */
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
 * OAuth 2.0 client credentials (RFC 6749 §4.4) at the embedded issuer.
 * @param parameters `resource` and `scope`, for tokens that are not for the REST API
 */
export async function fetchToken(
  url: string,
  clientId: string,
  clientSecret: string,
  parameters: Readonly<Record<string, string>> = {},
): Promise<string> {
  const issuer = issuerAt(url, clientId, oidc.ClientSecretBasic(clientSecret))
  return tokenOf(url, () => oidc.clientCredentialsGrant(issuer, parameters))
}

/** @throws Error in the words of the issuer if it refuses, or if nobody answers */
export async function tokenOf(
  url: string,
  grant: () => Promise<oidc.TokenEndpointResponse>,
): Promise<string> {
  try {
    return (await grant()).access_token
  } catch (error) {
    if (error instanceof TypeError) throw nobodyAt(url, error)
    const challenge = error instanceof oidc.WWWAuthenticateChallengeError ? error.cause[0]?.parameters : error
    const { error_description: text, error: code, message } = Object(challenge)
    const what = error instanceof oidc.AuthorizationResponseError ? 'sign-in' : 'token'
    throw new Error(`No ${what}: ${text ?? code ?? message}`, { cause: error })
  }
}

function nobodyAt(url: string, cause: unknown): Error {
  return new Error(`Nobody answers at ${url}. Start the platform with \`npm start\`, or set TENON_URL.`, {
    cause,
  })
}
