/**
 * The environment in which conformance features run: real time, the platform's HTTP client, and local servers
 * for their hosts.
 */

import { ApplicationFailure } from '@temporalio/common'
import { type ErrorObject, FlowError } from '../../../flows-dsl/errors.ts'
import type { Json, JsonObject } from '../../../flows-dsl/ir.ts'
import type { CallRequest, Effects } from '../../../flows-dsl/machine/driver.ts'
import type { StepEvent } from '../../../flows-dsl/tasks/task.ts'
import type { CallClients } from '../../../src/activities/http/authentication.ts'
import { CallHttpClient } from '../../../src/activities/http/call-http-client.ts'
import { callHttp } from '../../../src/activities/http/http-call.ts'
import { Tokens } from '../../../src/activities/http/oauth-tokens.ts'
import { Documents } from '../../../src/activities/http/openapi-document.ts'
import { planOpenApi } from '../../../src/activities/http/openapi-request.ts'
import { Egress, type Inbound, type Outbound, type Sender } from '../../../src/infra/http-client/egress.ts'
import { documentArguments, requestArguments } from '../../../src/workflows/flow/calls.ts'

/** `host:port` of the local server, by host name. */
export type Hosts = Readonly<Record<string, string>>

/** Reaches the local servers by the host names of the features, and no other server. */
class OtherHosts extends Egress {
  readonly #hosts: Hosts

  constructor(hosts: Hosts) {
    super(Object.values(hosts))
    this.#hosts = hosts
  }

  override send(
    outbound: Outbound,
    sender?: Sender,
    bounds?: Parameters<Egress['send']>[2],
  ): Promise<Inbound> {
    const { url } = outbound
    const place = this.#hosts[url.hostname]
    if (place === undefined) throw new Error(`${url.hostname} is nobody here.`)
    const headers = { ...outbound.headers, host: url.host }
    return super.send(
      { ...outbound, headers, url: new URL(`http://${place}${url.pathname}${url.search}`) },
      sender,
      bounds,
    )
  }
}

export class World implements Effects {
  readonly began: string[] = []
  readonly #egress: Egress
  readonly #tokens = new Tokens()
  readonly #documents = new Documents()

  constructor(hosts: Hosts) {
    this.#egress = new OtherHosts(hosts)
  }

  nowMs(): number {
    return Date.now()
  }

  random(): number {
    return Math.random()
  }

  record({ phase, step }: StepEvent): void {
    if (phase === 'started') this.began.push(step.name)
  }

  sleep(durationMs: number): Promise<void> {
    return new Promise((done) => setTimeout(done, durationMs))
  }

  /** No feature waits for external input; one that does fails. */
  wait(what: string): Promise<Json> {
    return Promise.reject(new Error(`Nobody here answers ${what}.`))
  }

  scope(work: () => Promise<void>): { cancel(): void } {
    void work()
    return { cancel: () => {} }
  }

  async call(request: CallRequest): Promise<Json> {
    try {
      return (await this.#answer(request)) as Json
    } catch (error) {
      const [details] = error instanceof ApplicationFailure ? (error.details ?? []) : []
      throw details === undefined
        ? error
        : FlowError.from({ ...(details as ErrorObject), instance: request.step.pointer })
    }
  }

  async #answer({ function: name, arguments: args }: CallRequest): Promise<unknown> {
    const way: CallClients = {
      http: new CallHttpClient(this.#egress, { allowed: [] }),
      tokens: this.#tokens,
      workflowId: 'run-1',
    }
    if (name === 'http') return callHttp(args, way)
    if (name === 'event.publish') return null
    if (name !== 'openapi') throw new Error(`${name} is nothing here.`)
    const planned = await planOpenApi(documentArguments(args), 'here', this.#documents, way)
    return callHttp(requestArguments({ ...planned } as JsonObject, args), way)
  }
}
