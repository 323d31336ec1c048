/**
 * Hands starts of workflows to a worker of this machine. A worker that makes a start itself is given the run's first task
 * with the answer (Temporal's eager start), instead of polling for it.
 */

import { Agent, request } from 'node:http'
import type { WorkflowService } from '@temporalio/client'
import proto, { type temporal } from '@temporalio/proto'
import { LIMITS } from '../core/limits.ts'
import { Shares } from './shares.ts'

const { StartWorkflowExecutionRequest } = proto.temporal.api.workflowservice.v1
const { perTenant, atOnce, waitMs, restMs } = LIMITS.nearStarts
type Request = temporal.api.workflowservice.v1.IStartWorkflowExecutionRequest
type Response = temporal.api.workflowservice.v1.IStartWorkflowExecutionResponse

export class NearStarts {
  readonly #socket: string
  readonly #agent = new Agent({ keepAlive: true })
  /** Starts that are at the worker, by their fairness key: nobody waits for a place. */
  readonly #shares = new Shares(perTenant, 0)
  #underAll = 0
  #restsUntilMs = 0

  /** @param socket where the worker listens: a path */
  constructor(socket: string) {
    this.#socket = socket
  }

  /** From now on, starts of this service go by the worker first; where it does not make one, they go on as before. */
  lead(service: WorkflowService): void {
    const far = service.startWorkflowExecution.bind(service) as (request: Request) => Promise<Response>
    const start = async (request: Request) => (await this.#near(request)) ?? far(request)
    Object.assign(service, { startWorkflowExecution: start })
  }

  close(): void {
    this.#agent.destroy()
  }

  /**
   * A start whose answer is lost may have been made: made again, with the same request id, it is the same run.
   * @returns undefined where another way has to be taken, whatever the reason
   */
  async #near(request: Request): Promise<Response | undefined> {
    if (this.#underAll >= atOnce || performance.now() < this.#restsUntilMs) return undefined
    // Who has many on their way waits with the others, in the order that Temporal keeps between tenants.
    const giveBack = this.#shares.tryTake(request.priority?.fairnessKey ?? '')
    if (giveBack === undefined) return undefined
    this.#underAll += 1
    try {
      return { runId: await this.#ask(StartWorkflowExecutionRequest.encode(request).finish()), started: true }
    } catch {
      return undefined
    } finally {
      this.#underAll -= 1
      giveBack()
    }
  }

  /** @returns the id of the run @throws where the worker is not there, is late, or has not made the start */
  #ask(body: Uint8Array): Promise<string> {
    return new Promise((resolve, reject) => {
      const late = () => {
        this.#restsUntilMs = performance.now() + restMs
        sent.destroy(new Error('late'))
      }
      const sent = request({ socketPath: this.#socket, agent: this.#agent, method: 'POST' }, (reply) => {
        let runId = ''
        reply.setEncoding('latin1').on('data', (part: string) => {
          runId += part
        })
        reply.on('error', reject).on('end', () => {
          if (reply.statusCode === 200) resolve(runId)
          else reject(new Error(`${reply.statusCode}`))
        })
      })
      sent.setTimeout(waitMs, late).on('error', reject).end(body)
    })
  }
}
