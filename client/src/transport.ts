/** Sends requests with their credential and deadline, and repeats those that may be repeated. */

import { TenonError, toError } from './errors.ts'

/** @param refused the token that the server has refused, if it has: then the present one is to be renewed */
export type TokenSource = (on: { readonly refused?: string }) => string | Promise<string>

export interface ClientOptions {
  /** The address of the installation, such as `https://api.example.com`. */
  readonly url: string
  /** An anon key or a service key. A service key never belongs into a browser. */
  readonly apikey?: string
  /** An access token, or a function that returns the present one (`token` of `@tenon/client/auth`). */
  readonly token?: string | TokenSource
  /** Milliseconds that a call may take, with its repetitions. Default: 60,000. */
  readonly timeoutMs?: number
  /** How often a call is repeated that may be repeated. Default: 2. */
  readonly retries?: number
  /** Default: `fetch` of the runtime. */
  readonly fetch?: typeof globalThis.fetch
}

export interface CallOptions {
  readonly signal?: AbortSignal
  /** Milliseconds that the call may take, in place of those of the client. */
  readonly timeoutMs?: number
  /** The key that makes a POST or PATCH safe to repeat. By default each call gets a new one. */
  readonly idempotencyKey?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Gets the response, for its status and headers such as `etag`. */
  readonly onResponse?: (response: Response) => void
}

/** The body of a request: a text, bytes, a blob, a form or a stream. */
export type RequestBody = NonNullable<RequestInit['body']>

export interface Sent {
  readonly method: string
  /** With its query. */
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: RequestBody
  /** True if the request may be sent twice: it is idempotent, or has a key that makes it so. */
  readonly isRepeatable: boolean
}

const PAUSE_MS = 250
const PAUSE_MAX_MS = 30_000

/** Milliseconds before another attempt: they grow with the failures, and are random, so that clients do not come back together. */
export const pauseAfter = (failures: number, ms = PAUSE_MS): number =>
  Math.min(PAUSE_MAX_MS, ms * 2 ** Math.max(0, failures - 1)) * (0.5 + Math.random() / 2)

export class Transport {
  readonly url: string
  readonly #options: ClientOptions
  readonly #fetch: typeof globalThis.fetch

  constructor(options: ClientOptions) {
    this.url = options.url.replace(/\/+$/, '')
    this.#options = options
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis)
  }

  /** @returns what `read` makes of the response, whose deadline includes the reading. @throws TenonError, or the reason of `signal` */
  async send<T>(sent: Sent, options: CallOptions, read: (response: Response) => Promise<T>): Promise<T> {
    const { signal, timeoutMs = this.#options.timeoutMs ?? 60_000 } = options
    const deadline = new AbortController()
    const timer = setTimeout(() => deadline.abort(), timeoutMs)
    const until = Date.now() + timeoutMs
    const any = signal === undefined ? deadline.signal : AbortSignal.any([signal, deadline.signal])
    try {
      const response = await this.#repeat(sent, options, { signal: any, until })
      options.onResponse?.(response)
      return await read(response)
    } catch (error) {
      signal?.throwIfAborted()
      if (deadline.signal.aborted)
        throw new TenonError({
          ...{ code: 'deadline_exceeded', status: 0, cause: error },
          detail: `${sent.method} ${pathOf(sent)} was not answered within ${timeoutMs} ms.`,
        })
      throw error
    } finally {
      clearTimeout(timer)
    }
  }

  /** Sends until the request is answered, or may not be repeated. */
  async #repeat(
    sent: Sent,
    { headers }: CallOptions,
    { signal, until }: { readonly signal: AbortSignal; readonly until: number },
  ): Promise<Response> {
    const { retries = 2 } = this.#options
    const isOnce = sent.body instanceof ReadableStream
    let refused: string | undefined
    let mayBeDone = false
    for (let attempt = 0; ; attempt++) {
      const token = await this.#token(refused)
      const isLast = attempt >= retries || isOnce
      const outcome = await this.#attempt(sent, { ...headers, ...credential(this.#options, token) }, signal)
      if (outcome instanceof Response && outcome.ok) return outcome
      const error = outcome instanceof Response ? await readProblem(outcome) : outcome
      if (error.status === 401 && token !== undefined && refused === undefined && this.#renews && !isOnce) {
        refused = token
        attempt -= 1
        continue
      }
      // The deletion was made, and its answer was lost.
      if (mayBeDone && sent.method === 'DELETE' && error.status === 404)
        return new Response(null, { status: 204 })
      mayBeDone ||= error.code === 'network_error' || error.code === 'invalid_response'
      const pauseMs = pauseOf(error, attempt)
      if (isLast || !mayRepeat(error, sent) || Date.now() + pauseMs > until) throw error
      await pause(pauseMs, signal)
    }
  }

  get #renews(): boolean {
    return typeof this.#options.token === 'function'
  }

  async #token(refused: string | undefined): Promise<string | undefined> {
    const { token } = this.#options
    return typeof token === 'function' ? token(refused === undefined ? {} : { refused }) : token
  }

  /** @returns the response, or a TenonError if there is none */
  async #attempt(
    sent: Sent,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<Response | TenonError> {
    const { method, path, body } = sent
    signal.throwIfAborted()
    try {
      return await this.#fetch(`${this.url}${path}`, {
        method,
        headers: { ...sent.headers, ...headers },
        signal,
        // The credential is for this server alone.
        redirect: 'error',
        ...(body !== undefined && { body }),
        ...(body instanceof ReadableStream && { duplex: 'half' }),
      } as RequestInit)
    } catch (cause) {
      if (signal.aborted) throw cause
      return new TenonError({
        ...{ code: 'network_error', status: 0, cause },
        detail: `No server answers ${method} ${pathOf(sent)} at ${this.url}.`,
      })
    }
  }
}

const pathOf = ({ path }: Sent): string => path.split('?')[0] ?? path

const credential = ({ apikey }: ClientOptions, token: string | undefined): Record<string, string> => ({
  ...(apikey !== undefined && { apikey }),
  ...(token !== undefined && { authorization: `Bearer ${token}` }),
})

async function readProblem(response: Response): Promise<TenonError> {
  const read: unknown = await response.json().catch(() => undefined)
  const after = Number.parseFloat(response.headers.get('retry-after') ?? '')
  const problem = typeof read === 'object' && read !== null ? (read as Record<string, unknown>) : {}
  return toError(problem, { status: response.status, retryAfter: Number.isNaN(after) ? undefined : after })
}

/**
 * A request that was refused before it had an effect is repeated, and one whose outcome is unknown if it is repeatable. Answers of a
 * function that failed (`function_error`, 502) are outcomes.
 */
function mayRepeat({ status, code }: TenonError, { isRepeatable }: Sent): boolean {
  if (code === 'rate_limited') return true
  if (code === 'idempotency_in_flight' || code === 'network_error') return isRepeatable
  if (code === 'invalid_response') return isRepeatable && [502, 503, 504].includes(status)
  return isRepeatable && status === 503
}

function pauseOf({ retryAfter }: TenonError, attempt: number): number {
  if (retryAfter !== undefined) return retryAfter * 1_000 + Math.random() * PAUSE_MS
  return pauseAfter(attempt + 1)
}

/** @throws the reason of the signal */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted()
    const timer = setTimeout(done, ms)
    function done(): void {
      signal?.removeEventListener('abort', aborted)
      resolve()
    }
    function aborted(): void {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    signal?.addEventListener('abort', aborted, { once: true })
  })
}

/** A random key of 128 bits. Pages without TLS have no `crypto.randomUUID`. */
export const newKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join(
    '',
  )

/** @throws TenonError if the body is not JSON */
export async function readJson(response: Response): Promise<unknown> {
  const text = await response.text()
  if (text === '') return undefined
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new TenonError({
      ...{ code: 'invalid_response', status: response.status, cause },
      detail: `The server at ${new URL(response.url).origin} answers with something else than JSON. Check the address.`,
    })
  }
}
