/** The HTTP client of one call: bounds its time and bytes, and sends through the egress guard. */

import { LIMITS } from '../../core/limits.ts'
import type { Egress, Inbound, Outbound, Sender } from '../../infra/http-client/egress.ts'

export class CallHttpClient {
  readonly #egress: Egress
  readonly #sender: Sender
  readonly #now: () => number
  readonly #untilMs: number
  #bytesMax: number = LIMITS.httpCallBytesMax

  /**
   * @param sender the workspace, and what it may reach
   * @param timeoutMs for all requests of the call together: the activity around it must end by itself
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

  /** The same line, for answers of up to so many bytes. */
  withMaxBytes(bytesMax: number): CallHttpClient {
    const line = new CallHttpClient(this.#egress, this.#sender, this.#untilMs - this.#now(), this.#now)
    line.#bytesMax = bytesMax
    return line
  }

  /**
   * Sends one request; a redirect is an answer, so no credential ever goes where it was not addressed.
   * @throws Problem where no answer came, or it is not let out
   */
  send(outbound: Outbound, bytesMax: number = this.#bytesMax): Promise<Inbound> {
    const timeoutMs = Math.max(1, Math.ceil(this.#untilMs - this.#now()))
    return this.#egress.send(outbound, this.#sender, { timeoutMs, bytesMax })
  }
}
