/** The HTTP client of one call: bounds its total time and the size of responses, and sends through the egress guard. */

import { CHAIN_DEPTH_HEADER } from '../../core/execution.ts'
import { Problem } from '../../core/problem.ts'
import { FLOW_LIMITS } from '../../features/flows/limits.ts'
import { SHARED_LIMITS } from '../../features/limits.ts'
import {
  type Egress,
  type Inbound,
  isSafe,
  type Outbound,
  type Sender,
} from '../../infra/http-client/egress.ts'
import { INFRA_LIMITS } from '../../infra/limits.ts'

export interface CallHttpOptions {
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
  /** Rejects if the request must not be sent any more. */
  readonly beforeSend?: () => Promise<void>
  /** Of the execution: its requests are one deeper. Absent, they name no depth. */
  readonly chainDepth?: number
  /** A clock in milliseconds that never goes back. */
  readonly now?: () => number
}

export class CallHttpClient {
  readonly #egress: Egress
  readonly #sender: Sender
  readonly #now: () => number
  readonly #untilMs: number
  readonly #signal: AbortSignal | undefined
  readonly #beforeSend: (() => Promise<void>) | undefined
  readonly #chainDepth: number | undefined
  #bytesMax: number = INFRA_LIMITS.httpCallBytesMax
  #isExcerpted: (status: number) => boolean = () => false

  /**
   * @param sender the workspace, and the addresses that it may reach
   * @param options.timeoutMs for all requests of the call together, so that the call ends before the timeout of its activity
   * @param options.signal ends the request
   */
  constructor(
    egress: Egress,
    sender: Sender,
    {
      timeoutMs = INFRA_LIMITS.httpCallTimeoutMs,
      signal,
      beforeSend,
      chainDepth,
      now = () => performance.now(),
    }: CallHttpOptions = {},
  ) {
    this.#egress = egress
    this.#sender = sender
    this.#now = now
    this.#untilMs = now() + timeoutMs
    this.#signal = signal
    this.#beforeSend = beforeSend
    this.#chainDepth = chainDepth
  }

  /** A client with the same deadline and another maximum size of responses. */
  withMaxBytes(bytesMax: number): CallHttpClient {
    const client = this.#copy()
    client.#bytesMax = bytesMax
    return client
  }

  /** A client with the same deadline that reads only the beginning of responses with these statuses. */
  withExcerptsOf(isExcerpted: (status: number) => boolean): CallHttpClient {
    const client = this.#copy()
    client.#isExcerpted = isExcerpted
    return client
  }

  #copy(): CallHttpClient {
    const options = {
      timeoutMs: this.#untilMs - this.#now(),
      now: this.#now,
      ...(this.#signal !== undefined && { signal: this.#signal }),
      ...(this.#beforeSend !== undefined && { beforeSend: this.#beforeSend }),
      ...(this.#chainDepth !== undefined && { chainDepth: this.#chainDepth }),
    }
    const client = new CallHttpClient(this.#egress, this.#sender, options)
    client.#bytesMax = this.#bytesMax
    return client
  }

  /**
   * Sends one request. Redirects are returned and not followed, so credentials only reach the server they are meant for.
   * @throws Problem without a response, or if the egress guard refuses the address
   * @throws the reason of the signal, if it ended a request that is safe or was not sent
   */
  async send(outbound: Outbound, bytesMax: number = this.#bytesMax): Promise<Inbound> {
    await this.#beforeSend?.()
    const timeoutMs = Math.max(1, Math.ceil(this.#untilMs - this.#now()))
    const excerptBytes = (status: number) =>
      this.#isExcerpted(status) ? FLOW_LIMITS.errorResponse.readBytesMax : undefined
    const bounds = { timeoutMs, bytesMax, excerptBytes }
    const headers = { ...outbound.headers, ...depthHeader(this.#chainDepth) }
    const signal = this.#signal
    const limits = { ...bounds, ...(signal !== undefined && { signal }) }
    const sent = this.#egress.send({ ...outbound, headers }, this.#sender, limits)
    return sent.catch((error: unknown) => {
      throw signal?.aborted && error === signal.reason && !isSafe(outbound.method) ? ended(outbound) : error
    })
  }
}

/** A request that was ended because its call was cancelled. */
function ended({ url }: Outbound): Problem {
  const detail = `${url.host}: the call was cancelled before the answer arrived.`
  return new Problem('upstream_unavailable', { detail, members: { may_have_arrived: true } })
}

/** Entry points of this platform read it if the request comes back to them. At the maximum they start nothing. */
function depthHeader(chainDepth: number | undefined): Record<string, string> {
  if (chainDepth === undefined) return {}
  return { [CHAIN_DEPTH_HEADER]: String(Math.min(chainDepth + 1, SHARED_LIMITS.chainDepthMax)) }
}
