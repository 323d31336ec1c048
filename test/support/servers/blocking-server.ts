/** A fake HTTP server that holds back its responses until the test releases them. */

import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { eventually } from '../fixtures/tenants.ts'

export class BlockingServer {
  /** Requested paths, in order, without the slash. */
  readonly requests: string[] = []
  /** Called with each path when it is answered. */
  onAnswer: (path: string) => void = () => {}
  readonly #server: Server
  readonly #held = new Set<string>()
  readonly #waiting: { readonly path: string; readonly response: ServerResponse }[] = []

  private constructor(server: Server) {
    this.#server = server
  }

  static async open(): Promise<BlockingServer> {
    const server = createServer()
    const blockingServer = new BlockingServer(server)
    server.on('request', ({ url = '/' }, response) => blockingServer.#take(url.slice(1), response))
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    return blockingServer
  }

  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** A task that requests this path; inline only on request. */
  taskFor(path: string, { method = 'post', local = false } = {}): string {
    const own = local ? '' : ', metadata: { tenon: { local: false } }'
    return `call: http, with: { method: ${method}, endpoint: 'http://${this.host}/${path}' }${own}`
  }

  /** From now on no request for it is answered. */
  hold(path: string): void {
    this.#held.add(path)
  }

  /** Number of open requests for it. */
  waitingFor(path: string): number {
    return this.#waiting.filter(({ path: of, response }) => of === path && !response.destroyed).length
  }

  /** Resolves when a request for it is waiting. */
  async reached(path: string): Promise<void> {
    await eventually(async () => (this.waitingFor(path) > 0 ? true : undefined))
  }

  /** Answers all waiting and future requests for it. */
  letGo(path: string): void {
    this.#held.delete(path)
    const left = this.#waiting.splice(0)
    for (const each of left) {
      if (each.path === path) this.#answer(each.path, each.response)
      else this.#waiting.push(each)
    }
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((done) => this.#server.close(done))
  }

  #take(path: string, response: ServerResponse): void {
    this.requests.push(path)
    if (this.#held.has(path)) this.#waiting.push({ path, response })
    else this.#answer(path, response)
  }

  #answer(path: string, response: ServerResponse): void {
    response.setHeader('content-type', 'application/json')
    response.end('{}', () => this.onAnswer(path))
  }
}
