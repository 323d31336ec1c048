/** The worker's end of an HTTP request that a function serves. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { Suspended } from '../../access/tenant-states.ts'
import { Problem } from '../../core/problem.ts'
import type { FunctionRunInput } from '../../core/work.ts'
import { channelsOf } from '../../features/functions/channels.ts'
import { isBodiless, responseHead } from '../../features/functions/http/heads.ts'
import { StreamConnection } from '../../features/functions/http/peer.ts'
import { FUNCTION_LIMITS } from '../../features/functions/limits.ts'
import type {
  HttpExchange,
  HttpRequestHead,
  HttpResponseHead,
} from '../../features/functions/sandbox/invocation.ts'

const { http: limits } = FUNCTION_LIMITS

/**
 * Runs code that serves the request of a run.
 * @param work gets the exchange, and a signal that is aborted if the client is gone; both absent for another kind of run
 * @throws what the work throws; Problem `run_cut_off` if the client is gone, `function_output_too_large`
 */
export async function withHttpExchange<T>(
  scope: WorkspaceScope,
  { kind, run_id, input }: Pick<FunctionRunInput, 'kind' | 'run_id' | 'input'>,
  work: (http?: HttpExchange, gone?: AbortSignal) => Promise<T>,
): Promise<T> {
  if (kind !== 'fetch') return work()
  const peer = await StreamConnection.open(channelsOf(scope), scope.ref, run_id, 'code')
  const exchange = new CodeExchange(peer, input as unknown as HttpRequestHead)
  try {
    await exchange.checkClient()
    const result = await work(exchange, peer.failed)
    await exchange.complete()
    return result
  } catch (error) {
    // A suspension closes the connection of the client, too.
    if (error instanceof Suspended || !peer.failed.aborted) throw error
    throw withMembersOf(peer.failed.reason, error)
  } finally {
    exchange.close()
  }
}

/** The reason why the code was ended, with the lines that it had printed. */
function withMembersOf(reason: unknown, error: unknown): unknown {
  return reason instanceof Problem && error instanceof Problem && reason !== error
    ? reason.with(error.members)
    : reason
}

class CodeExchange implements HttpExchange {
  readonly requestBody: AsyncIterable<Uint8Array>
  readonly #peer: StreamConnection
  readonly #method: string
  readonly #watch: NodeJS.Timeout
  /** Writes are made one after the other. */
  #written: Promise<unknown> = Promise.resolve()
  #bytes = 0
  #hasResponded = false
  /** The client gets no body, and has the whole response with the head. */
  #isBodiless = false

  constructor(peer: StreamConnection, { method }: HttpRequestHead) {
    this.#peer = peer
    this.#method = method
    this.requestBody = peer.chunks()
    this.#watch = setInterval(() => void this.checkClient().catch(() => {}), limits.pingMs)
  }

  /** @throws Problem `run_cut_off` if the process with the client's connection does not answer; the exchange has failed then */
  async checkClient(): Promise<void> {
    if (this.#isBodiless || (await this.#peer.isThere()) || this.#isBodiless) return
    this.#peer.fail(new Problem('run_cut_off', { detail: 'The connection of the client was lost.' }))
    this.#peer.failed.throwIfAborted()
  }

  async respond(head: HttpResponseHead): Promise<void> {
    if (this.#hasResponded)
      throw new Problem('function_error', { detail: 'The function has responded twice.' })
    const checked = responseHead(head)
    this.#hasResponded = true
    this.#isBodiless = isBodiless(this.#method, head.status)
    await this.#peer.sendHead(checked)
  }

  write(chunk: Uint8Array): Promise<void> {
    const writing = this.#written.then(() => this.#write(chunk))
    this.#written = writing.catch(() => {})
    return writing
  }

  /** @throws the reason if the client did not get all that the code has written */
  async complete(): Promise<void> {
    await this.#written
    this.#peer.failed.throwIfAborted()
    if (!this.#hasResponded)
      throw new Problem('function_error', { detail: 'The function has not responded.' })
    if (!this.#isBodiless) await this.#peer.end()
  }

  close(): void {
    clearInterval(this.#watch)
    this.#peer.close()
  }

  async #write(chunk: Uint8Array): Promise<void> {
    this.#bytes += chunk.byteLength
    if (this.#bytes > limits.bodyBytesMax) {
      const detail = `A response has a body of at most ${limits.bodyBytesMax} bytes.`
      this.#peer.fail(new Problem('function_output_too_large', { detail }))
    }
    this.#peer.failed.throwIfAborted()
    if (!this.#isBodiless) await this.#peer.write(chunk)
  }
}
