/**
 * Hands starts of workflows to a worker of this machine. A worker that makes a start itself receives the first task with
 * the answer (Temporal's eager start) instead of polling for it: five pure steps take 0.79 × as long (decision 26). The SDK
 * makes eager starts only for a client in the process of the worker (temporalio/sdk-typescript#1348).
 */

import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import type { WorkflowService } from '@temporalio/client'
import proto, { type temporal } from '@temporalio/proto'
import type { Config } from '../../infra/config.ts'
import { KeyedSemaphore } from '../../infra/keyed-semaphore.ts'
import { INFRA_LIMITS } from '../../infra/limits.ts'
import type { Log } from '../../infra/log.ts'
import { isPatched } from './sdk-version.ts'

const { StartWorkflowExecutionRequest } = proto.temporal.api.workflowservice.v1
const { perTenantMax, startsMax, waitMs, pauseMs, answerMs } = INFRA_LIMITS.eagerStart
type Request = temporal.api.workflowservice.v1.IStartWorkflowExecutionRequest
type Response = temporal.api.workflowservice.v1.IStartWorkflowExecutionResponse

/** @returns the patch of a client's service, which returns a function that closes it; undefined if starts are not handed over */
export function eagerStarts(
  config: Config,
  log: Log,
): ((service: WorkflowService) => () => void) | undefined {
  const socket = config.TENON_EAGER_START_SOCKET
  const isVersioned = config.TEMPORAL_DEPLOYMENT_NAME !== undefined
  if (socket === undefined || isVersioned || !isPatched(config, log)) return undefined
  return (service) => {
    const proxy = new EagerStartProxy(socket)
    proxy.intercept(service)
    return () => proxy.close()
  }
}

class EagerStartProxy {
  readonly #socketPath: string
  readonly #agent = new Agent({ keepAlive: true })
  /** Requests at the worker, by fairness key; none waits for a slot. */
  readonly #slots = new KeyedSemaphore(perTenantMax, 0, startsMax)
  #pausedUntilMs = 0

  /** @param socketPath the Unix socket on which the worker listens */
  constructor(socketPath: string) {
    this.#socketPath = socketPath
  }

  /** Sends starts of this service to the worker first; a start that the worker does not perform goes to Temporal. */
  intercept(service: WorkflowService): void {
    const direct = service.startWorkflowExecution.bind(service) as (request: Request) => Promise<Response>
    const start = async (request: Request) => (await this.#tryWorker(request)) ?? direct(request)
    Object.assign(service, { startWorkflowExecution: start })
  }

  close(): void {
    this.#agent.destroy()
  }

  /**
   * If the answer is lost, the start may have been made: made again with the same request id, it is the same workflow.
   * @returns undefined if the start has to be made directly, for any reason
   */
  async #tryWorker(request: Request): Promise<Response | undefined> {
    if (performance.now() < this.#pausedUntilMs) return undefined
    // Further starts of a tenant with many in flight queue at Temporal, which is fair between tenants.
    const release = this.#slots.tryAcquire(request.priority?.fairnessKey ?? '')
    if (release === undefined) return undefined
    try {
      const runId = await this.#send(StartWorkflowExecutionRequest.encode(request).finish())
      return { runId, started: true }
    } catch {
      return undefined
    } finally {
      release()
    }
  }

  /**
   * A worker that takes no start is left alone for a while. One that waits for Temporal is not: the usual way waits for Temporal, too,
   * and then for its task queue.
   * @returns the id of the run
   * @throws Error if the worker is unreachable, late, or did not make the start
   */
  async #send(body: Uint8Array): Promise<string> {
    const signal = AbortSignal.timeout(answerMs)
    const sent = request({ socketPath: this.#socketPath, agent: this.#agent, method: 'POST', signal })
    const giveUp = () => {
      this.#pausedUntilMs = performance.now() + pauseMs
      sent.destroy(new Error('the worker does not take the start'))
    }
    const untaken = setTimeout(giveUp, waitMs)
    sent.once('information', () => clearTimeout(untaken))
    // An error after the start of the response is also reported by the response.
    sent.on('error', () => {}).end(body)
    try {
      const [response] = (await once(sent, 'response')) as [IncomingMessage]
      const runId = await text(response)
      if (response.statusCode === 200) return runId
      throw new Error(`the worker answered ${response.statusCode}`)
    } finally {
      clearTimeout(untaken)
    }
  }
}
