/** The HTTP client of one call: bounds its total time and the size of responses, and sends through the egress guard. */

import { LIMITS } from '../../core/limits.ts'
import type { Egress, Inbound, Outbound, Sender } from '../../infra/http-client/egress.ts'

export class CallHttpClient {
  readonly #egress: Egress
  readonly #sender: Sender
  readonly #now: () => number
  readonly #untilMs: number
  #bytesMax: number = LIMITS.httpCallBytesMax

  /**
   * @param sender the workspace, and the addresses that it may reach
   * @param timeoutMs for all requests of the call together, so that the call ends before the timeout of its activity
   */
  constructor(
    egress: Egress,
    sender: Sender,
    timeoutMs: number = LIMITS.httpCallTimeoutMs,
    now: () => number = () => performance.now(),
  ) {
    this.#egress = egress
    this.#sender = sender
    this.#now = now
    this.#untilMs = now() + timeoutMs
  }

  /** A client with the same deadline and another maximum size of responses. */
  withMaxBytes(bytesMax: number): CallHttpClient {
    const client = new CallHttpClient(this.#egress, this.#sender, this.#untilMs - this.#now(), this.#now)
    client.#bytesMax = bytesMax
    return client
  }

  /**
   * Sends one request. Redirects are returned and not followed, so credentials only reach the server they are meant for.
   * @throws Problem without a response, or if the egress guard refuses the address
   */
  send(outbound: Outbound, bytesMax: number = this.#bytesMax): Promise<Inbound> {
    const timeoutMs = Math.max(1, Math.ceil(this.#untilMs - this.#now()))
    return this.#egress.send(outbound, this.#sender, { timeoutMs, bytesMax })
  }
}
